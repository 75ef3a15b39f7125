"""docs/configuration.md on order policies: what it shows works as it is written."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hpc.autoscale.config import check_config
from hpc.autoscale.node.nodemanager.policies import ENTRY_POINTS, configured_policy, policy_named
from hpc.autoscale.packing.order import BUILT_IN, Offering, arranged

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def block(marker):
    """The one code block below an invisible marker."""
    (found,) = re.findall(rf"<!-- {re.escape(marker)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    return found


@pytest.fixture
def site_package(tmp_path, monkeypatch):
    """The package of the page, installed."""
    offered = tomllib.loads(block("toml: pyproject.toml"))["project"]["entry-points"]
    info = tmp_path / "site_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-policies\nVersion: 1.0\n")
    lines = [f"{name} = {target}" for name, target in offered[ENTRY_POINTS].items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINTS}]", *lines, ""]))
    (tmp_path / "site_policies.py").write_text(block("python: site_policies.py"))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("site_policies", None)


def test_the_configuration_is_one():
    """It is accepted, and names a policy."""
    config = json.loads(block("json: policy"))
    check_config(config)
    assert configured_policy(config) in BUILT_IN


def test_every_policy_is_described():
    """In the table, by its name."""
    assert re.findall(r"^\| `([\w-]+)` \| [a-z]", PAGE.split("## In which order")[1], re.M) == list(
        BUILT_IN
    )


def test_the_policy_of_the_site(site_package):
    """Found by its name in the configuration, and does what the text says."""
    config = {"packing": {"policy": "gpus-last"}}
    check_config(config)
    policy = policy_named(configured_policy(config))
    offerings = [
        Offering("gpu", "NC6", vcpu_count=6, gpu_count=1, ask_price=lambda: 0.1),
        Offering("htc", "F4", vcpu_count=4, ask_price=lambda: 0.3),
        Offering("htc", "D4", vcpu_count=4, ask_price=lambda: 0.2),
    ]
    assert arranged(policy, offerings) == [2, 1, 0]


def test_the_policy_of_the_site_is_typed(site_package):
    """As strictly as the library."""
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", "site_policies.py"],
        cwd=site_package,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
