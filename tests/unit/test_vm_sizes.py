"""The catalogue of VM sizes: what it says of known sizes, and that it never fails on unknown
ones."""

import json
import subprocess
import sys

import pytest

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.vm_sizes.catalogue import SizeTable
from hpc.autoscale.node.vm_sizes.size_formats import capability_value

PROXIED = [
    "usdodcentral",
    "usdodeast",
    "usdodtexas",
    "usgovarizona",
    "usgoviowa",
    "usgovtexas",
    "usgovvirginia",
    "usseceast",
    "ussecwest",
]


@pytest.mark.parametrize(
    ("size", "vcpus", "pcpus", "gib", "gpus", "rdma", "family"),
    [
        ("Standard_F2s_v2", 2, 1, 4, 0, False, "standardFSv2Family"),
        ("Standard_HB120rs_v3", 120, 120, 456, 0, True, "standardHBv3Family"),
        ("Standard_HB176rs_v4", 176, 176, 768, 0, True, "standardHBv4Family"),
        ("Standard_ND96isr_H100_v5", 96, 96, 1900, 8, True, "standardNDSH100v5Family"),
        ("Standard_NC24ads_A100_v4", 24, 24, 220, 1, False, "StandardNCADSA100v4Family"),
        ("Standard_D4s_v5", 4, 2, 16, 0, False, "standardDSv5Family"),
        ("Standard_E64_v3", 64, 32, 432, 0, False, "standardEv3Family"),
        ("Standard_HC44rs", 44, 44, 352, 0, True, "standardHCSFamily"),
        ("Standard_NC6", 6, 6, 56, 1, False, "standardNCFamily"),
    ],
)
def test_known_sizes(size, vcpus, pcpus, gib, gpus, rdma, family):
    """Sizes with published figures have these figures."""
    info = vm_sizes.get_aux_vm_size_info("eastus", size)
    assert (info.vcpu_count, info.pcpu_count, info.gpu_count) == (vcpus, pcpus, gpus)
    assert info.memory == ht.Memory(gib, "g")
    assert info.memory.magnitude == "g"
    assert info.infiniband is rdma
    assert info.vm_family == family


def test_constrained_size_counts_what_it_offers():
    """A constrained size has its parent's memory and its own, smaller number of cores."""
    info = vm_sizes.get_aux_vm_size_info("eastus", "Standard_E4-2s_v3")
    assert (info.capabilities["vCPUs"], info.capabilities["vCPUsAvailable"]) == (4, 2)
    assert (info.vcpu_count, info.pcpu_count, info.cores_per_socket) == (2, 1, 2)
    assert info.memory == ht.Memory(32, "g")


@pytest.mark.parametrize(
    ("location", "size"),
    [
        ("eastus", "Standard_NoSuch"),
        ("nowhere", "Standard_F2s_v2"),
        ("EastUS", "Standard_F2s_v2"),
        ("", ""),
        (None, None),
        ("eastus", ["Standard_F2s_v2"]),
    ],
)
def test_unknown_is_reported_as_unknown(location, size):
    """Whatever is asked for, an answer comes, and counts that are not known are -1."""
    info = vm_sizes.get_aux_vm_size_info(location, size)
    assert info.vm_family == "unknown"
    assert (info.vcpu_count, info.pcpu_count, info.cores_per_socket) == (-1, -1, -1)
    assert info.gpu_count == 0
    assert info.infiniband is False
    assert info.memory == ht.Memory(-1, "g")
    assert info.capabilities == {}


def test_size_without_published_memory_has_unknown_memory():
    """A size whose memory no source states is known otherwise, and its memory is not 0."""
    info = vm_sizes.get_aux_vm_size_info("eastus", "Standard_D15i_v2")
    assert info.vcpu_count == 15
    assert info.memory == ht.Memory(-1, "g")


def test_unlisted_size_is_known_in_every_location():
    """A retired size without a price is known wherever there are sizes."""
    for location in vm_sizes.all_possible_locations():
        assert vm_sizes.get_aux_vm_size_info(location, "Standard_NC6").gpu_count == 1


@pytest.mark.parametrize("location", PROXIED)
def test_locations_without_public_data_borrow(location):
    """The government regions have the sizes of southcentralus, but are no locations of the
    table."""
    borrowed = vm_sizes.get_aux_vm_size_info(location, "Standard_HC44rs")
    own = vm_sizes.get_aux_vm_size_info("southcentralus", "Standard_HC44rs")
    assert borrowed.vcpu_count == own.vcpu_count == 44
    assert location not in vm_sizes.VM_SIZES


def test_sizes_are_found_in_any_letter_case():
    """Azure takes a size in any case, so a cluster may be written with one."""
    assert vm_sizes.get_aux_vm_size_info("eastus", "standard_f2S_V2").vcpu_count == 2


def test_the_table_reads_as_location_size_record():
    """The published loader works, and a record has the published form."""
    vm_sizes._inititialize_impl()
    assert "Standard_F2s_v2" in set(vm_sizes.VM_SIZES["southcentralus"].keys())
    record = vm_sizes.VM_SIZES["southcentralus"]["Standard_F2s_v2"]
    assert record["name"] == "Standard_F2s_v2"
    assert (record["tier"], record["size"]) == ("Standard", "F2s_v2")
    assert (record["family"], record["location"]) == ("standardFSv2Family", "southcentralus")
    wanted = {
        "vCPUs": 2,
        "vCPUsAvailable": 2,
        "vCPUsPerCore": 2,
        "MemoryGB": 4,
        "RdmaEnabled": False,
    }
    assert wanted.items() <= record["capabilities"].items()
    assert vm_sizes.AuxVMSizeInfo(record).pcpu_count == 1


def test_the_table_is_a_mapping():
    """Membership, iteration and length agree, and what is absent raises KeyError."""
    table = vm_sizes.VM_SIZES
    assert len(table) == len(list(table)) >= 57
    region = table["westus2"]
    assert len(region) == len(list(region)) >= 1790
    assert "Standard_NoSuch" not in region
    assert region.get("Standard_NoSuch") is None
    with pytest.raises(KeyError):
        table["nowhere"]
    with pytest.raises(KeyError):
        region["standard_f2s_v2"]


def test_a_record_belongs_to_the_caller():
    """Writing into a record changes no later answer."""
    vm_sizes.VM_SIZES["eastus"]["Standard_F2s_v2"]["capabilities"]["vCPUs"] = 99
    assert vm_sizes.VM_SIZES["eastus"]["Standard_F2s_v2"]["capabilities"]["vCPUs"] == 2


def test_the_lists_hold_names_only():
    """Sizes, families and locations are sorted, and the table's own keys are not among them."""
    sizes = vm_sizes.all_possible_vm_sizes()
    families = vm_sizes.all_possible_vm_families()
    locations = vm_sizes.all_possible_locations()
    for names in (sizes, families, locations):
        assert names == sorted(set(names))
        assert not {"proxied-locations", "_comment_", "unknown", None} & set(names)
    assert "Standard_NC6" in sizes
    assert "standardNCFamily" in families
    assert "southcentralus" in locations
    assert "southcentralus" not in sizes


def test_equal_questions_get_the_same_object():
    """Answers are kept."""
    first = vm_sizes.get_aux_vm_size_info("eastus", "Standard_F2s_v2")
    assert vm_sizes.get_aux_vm_size_info("eastus", "Standard_F2s_v2") is first
    assert first.capabilities is first.capabilities


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Standard_F2s_v2", "Standard_F2s_v2"),
        ("F2s_v2", "Standard_F2s_v2"),
        ("standard_hb120RS_v3", "Standard_HB120rs_v3"),
        ("Standard_D4sv5", "Standard_D4s_v5"),
        ("Standrad_NC6", "Standard_NC6"),
        ("Standart_F4s_v2", "Standard_F4s_v2"),
        ("F4sv2", "Standard_F4s_v2"),
        ("Standard F4s v2", "Standard_F4s_v2"),
        ("Standard_HB120", "Standard_HB120rs_v3"),
        ("hc44", "Standard_HC44rs"),
        ("Standard_X123", None),
        ("zzzzzzzzzzzz", None),
    ],
)
def test_suggestions(name, meant):
    """A misspelt size is guessed; nonsense is not."""
    assert vm_sizes.suggest_vm_size(name) == meant


def test_get_looks_into_capabilities_then_record():
    """`get` finds a capability, else a key of the record, else gives the default."""
    info = vm_sizes.get_aux_vm_size_info("eastus", "Standard_F2s_v2")
    assert info.get("MemoryGB") == 4
    assert info.get("tier") == "Standard"
    assert info.get("nothing") is None
    assert info.get("nothing", 3) == 3


@pytest.mark.parametrize("bad", [None, "many", "", True, float("nan"), [], {}])
def test_a_record_with_odd_values_is_unknown_there(bad):
    """A capability that is no number counts as unknown and does not fail."""
    record = {"capabilities": {"MemoryGB": bad, "vCPUs": bad, "vCPUsPerCore": bad, "GPUs": bad}}
    info = vm_sizes.AuxVMSizeInfo(record)
    assert (info.vcpu_count, info.pcpu_count, info.gpu_count) == (-1, -1, 0)
    assert info.memory == ht.Memory(-1, "g")


def test_a_record_as_azure_writes_it_is_understood():
    """Capabilities given as text count as what they say."""
    capabilities = {
        "vCPUs": "8",
        "vCPUsPerCore": "2",
        "MemoryGB": "3.5",
        "RdmaEnabled": "True",
        "GPUs": "1",
    }
    info = vm_sizes.AuxVMSizeInfo({"family": "f", "capabilities": capabilities})
    assert (info.vcpu_count, info.pcpu_count, info.gpu_count) == (8, 4, 1)
    assert info.infiniband is True
    assert info.memory == ht.Memory(3.5, "g")


@pytest.mark.parametrize(
    ("text", "value"),
    [("True", True), ("False", False), ("4", 4), ("3.5", 3.5), ("V1,V2", ["V1", "V2"]), ("x64", "x64"),  # noqa: E501
     ("1.2.3", "1.2.3"), ("-1", "-1"), (".", "."), (7, 7), (None, None), ("²", "²")],
)  # fmt: skip
def test_capability_values(text, value):
    """Azure's text becomes a flag, a number, a list or stays text."""
    assert capability_value(text) == value


@pytest.mark.parametrize("contents", [None, "", "[]", "{", '{"sizes": {}}'])
def test_a_table_that_cannot_be_read_knows_nothing(tmp_path, contents):
    """A missing or broken data file makes every size unknown and does not fail."""
    path = tmp_path / "vm_sizes.json"
    if contents is not None:
        path.write_text(contents)
    table = SizeTable(str(path))
    assert table.find("eastus", "Standard_F2s_v2") is None
    assert list(table) == []


def test_the_data_file_can_be_edited():
    """The packaged file has the location aliases on top and one line for each size."""
    with open(vm_sizes.RESOURCE_FILE, encoding="utf-8") as stream:
        text = stream.read()
    data = json.loads(text)
    assert data["proxied-locations"] == dict.fromkeys(PROXIED, "southcentralus")
    assert sum('"Standard_' in line for line in text.splitlines()) >= 1780


def test_importing_reads_no_file():
    """The import of the module opens neither data file."""
    code = (
        "import hpc.autoscale.node.vm_sizes as v; from hpc.autoscale.node.vm_sizes import prices\n"
        "assert v.VM_SIZES._packaged is None and prices.PRICES._columns is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
