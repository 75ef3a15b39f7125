"""The generator of the packaged VM-size data."""

import gzip
import json

import pytest

from builders.tools import load_tool

RAW = {
    "_meta": {"price_basis": "basis", "prices_generated": "2026-06-18T03:43:41Z"},
    "regions": ["eastus", "atlantis", "freeland"],
    "spot_ratios": {"Av1": {"eastus": 0.25}},
    "sizes": {
        "Standard_B": {
            "family": None, "vcpus": 2, "rdma": False, "spot": True, "local_disk": False,
            "arch": "Arm64", "listed": False, "src": "vcpus:name",
        },
        "Standard_A": {
            "family": "fam", "vcpus": 4, "vcpus_avail": 2, "per_core": 2, "pcpus": 1,
            "mem_gib": 0.5, "rdma": True,
            "spot": True, "local_disk": True, "arch": "x64", "spot_series": "Av1",
            "usd_h": [1.5, None, 0.0],
        },
    },
}  # fmt: skip


@pytest.fixture
def tool():
    return load_tool("make_vm_sizes")


@pytest.fixture
def arguments(tmp_path):
    (tmp_path / "sizes.json").write_text(json.dumps(RAW))
    (tmp_path / "regions.json").write_text(json.dumps([{"name": "eastus"}, {"name": "newland"}]))
    return [str(tmp_path / "sizes.json"), str(tmp_path / "regions.json"), "--out", str(tmp_path)]


def test_it_writes_compact_sizes(tool, arguments, tmp_path):
    """Facts are kept, their sources and what follows from them are not; every region is listed."""
    assert tool.main(arguments) == 0
    data = json.loads((tmp_path / "vm_sizes.json").read_text())
    assert data["locations"] == ["atlantis", "eastus", "freeland", "newland"]
    assert len(data["proxied-locations"]) == 9
    assert data["sizes"] == {
        "Standard_A": {
            "family": "fam", "vcpus": 4, "vcpus_avail": 2, "per_core": 2, "mem_gib": 0.5,
            "rdma": True, "spot": True,
        },
        "Standard_B": {"vcpus": 2, "spot": True, "temp_gib": 0, "arch": "Arm64"},
    }  # fmt: skip


def test_it_writes_prices(tool, arguments, tmp_path):
    """Prices stay aligned with their regions, 0 is unknown, and spot ratios go with the sizes of
    their series."""
    tool.main(arguments)
    data = json.loads(gzip.decompress((tmp_path / "vm_prices.json.gz").read_bytes()))
    assert data["locations"] == ["eastus", "atlantis", "freeland"]
    assert data["usd_per_hour"] == {"Standard_A": [1.5, None, None]}
    assert data["spot"] == {"Av1": {"ratio": {"eastus": 0.25}, "sizes": ["Standard_A"]}}
    assert data["date"] == "2026-06-18"


def test_the_same_input_gives_the_same_bytes(tool, arguments, tmp_path):
    """Writing twice changes nothing."""
    names = ("vm_sizes.json", "vm_prices.json.gz")
    tool.main(arguments)
    first = [(tmp_path / name).read_bytes() for name in names]
    tool.main(arguments)
    assert [(tmp_path / name).read_bytes() for name in names] == first
