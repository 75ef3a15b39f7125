"""A user's own facts on VM sizes: every form of file, what wins, and what is said about
mistakes."""

import json

import pytest

from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.vm_sizes import info as settings

ND = "Standard_ND96isr_H100_v5"


def info(location, size):
    return vm_sizes.get_aux_vm_size_info(location, size)


def sku(name="Standard_New1", location="EastUS", **capabilities):
    items = [{"name": key, "value": value} for key, value in capabilities.items()]
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "family": "standardNewFamily",
        "tier": "Standard",
        "size": name[9:],
        "locations": [location],
        "capabilities": items,
        "restrictions": [],
    }


def test_short_form_corrects_one_figure_everywhere():
    """A short record changes what it names, in every location, and leaves the rest."""
    vm_sizes.use_override({"sizes": {ND: {"gpus": 16}}})
    for location in ("eastus", "westeurope", "usgovvirginia"):
        assert info(location, ND).gpu_count == 16
        assert info(location, ND).vcpu_count == 96
    assert vm_sizes.VM_SIZES["eastus"][ND]["capabilities"]["GPUs"] == 16


def test_an_override_takes_effect_after_answers_were_given():
    """Answers given before are not kept beyond a change, in either direction."""
    assert info("eastus", ND).gpu_count == 8
    vm_sizes.use_override({"sizes": {ND: {"gpus": 4}}})
    assert info("eastus", ND).gpu_count == 4
    vm_sizes.use_override(None)
    assert info("eastus", ND).gpu_count == 8


def test_short_form_adds_sizes_locations_and_aliases():
    """New sizes are known in every location, new locations know every size, aliases may be added or
    moved."""
    vm_sizes.use_override(
        {
            "_comment_": "ours",
            "proxied-locations": {"moonbase": "eastus", "usgovtexas": "lab"},
            "locations": ["lab"],
            "sizes": {
                "Lab_1": {"vcpus": 8, "mem_gib": 16, "per_core": 2, "family": "lab", "rdma": True}
            },
        }
    )
    for location in ("lab", "eastus", "moonbase", "usgovtexas"):
        assert (info(location, "Lab_1").pcpu_count, info(location, "Lab_1").vm_family) == (4, "lab")
        assert info(location, "Standard_NC6").gpu_count == 1
    assert "lab" in vm_sizes.all_possible_locations()
    assert "Lab_1" in vm_sizes.all_possible_vm_sizes()
    assert "lab" in vm_sizes.all_possible_vm_families()
    assert vm_sizes.suggest_vm_size("lab_1") == "Lab_1"


def test_a_new_core_count_is_not_hidden_by_a_constrained_one():
    """Correcting the cores of a constrained size takes effect."""
    vm_sizes.use_override({"sizes": {"Standard_E4-2s_v3": {"vcpus": 6}}})
    assert info("eastus", "Standard_E4-2s_v3").vcpu_count == 6


def test_full_form_wins_where_it_speaks():
    """A full record replaces the catalogue's in its location only."""
    record = {"name": ND, "family": "mine", "capabilities": {"vCPUs": 10, "MemoryGB": 20}}
    vm_sizes.use_override({"eastus": {ND: record}, "proxied-locations": {"x": "eastus"}})
    for location in ("eastus", "x"):
        assert info(location, ND).vcpu_count == 10
        assert info(location, ND).gpu_count == 0
        assert info(location, ND).vm_family == "mine"
    assert info("westus", ND).vcpu_count == 96
    assert info("eastus", "Standard_NC6").gpu_count == 1


def test_full_form_without_cores_corrects():
    """A record of a few capabilities is laid over the catalogue's, also where sizes are
    borrowed."""
    vm_sizes.use_override(
        {
            "eastus": {ND: {"capabilities": {"GPUs": 2}}},
            "usgoviowa": {ND: {"capabilities": {"GPUs": 3}}},
        }
    )
    assert (info("eastus", ND).gpu_count, info("eastus", ND).vcpu_count) == (2, 96)
    assert (info("usgoviowa", ND).gpu_count, info("usgoviowa", ND).vcpu_count) == (3, 96)
    assert info("eastus", ND).vm_family == "standardNDSH100v5Family"
    assert info("usgoviowa", "Standard_NC6").gpu_count == 1
    assert set(vm_sizes.VM_SIZES["usgoviowa"]) == set(vm_sizes.VM_SIZES["eastus"])


def test_full_form_in_a_new_location():
    """A location of the user's own knows the sizes given there and no others."""
    vm_sizes.use_override({"lab": {"Lab_1": {"capabilities": {"vCPUs": "4", "MemoryGB": "8.5"}}}})
    assert info("lab", "Lab_1").vcpu_count == 4
    assert info("lab", "lab_1").vcpu_count == 4
    assert info("lab", "Standard_NC6").vcpu_count == -1
    assert info("eastus", "Lab_1").vcpu_count == -1
    assert list(vm_sizes.VM_SIZES["lab"]) == ["Lab_1"]


@pytest.mark.parametrize(
    "wrap", [lambda skus: skus, lambda skus: {"value": skus, "nextLink": None}]
)
def test_az_output(wrap):
    """The output of az (or of the API behind it) is understood; other resources in it are passed
    over."""
    disk = {"resourceType": "disks", "name": "P10", "locations": ["eastus"], "capabilities": []}
    new = sku(
        vCPUs="16",
        vCPUsPerCore="2",
        MemoryGB="32.5",
        RdmaEnabled="True",
        GPUs="2",
        HyperVGenerations="V1,V2",
    )
    vm_sizes.use_override(
        wrap([disk, new, sku("Standard_NC6", "westus2", vCPUs="7", MemoryGB="1")])
    )
    found = info("eastus", "Standard_New1")
    assert (found.vcpu_count, found.pcpu_count, found.gpu_count) == (16, 8, 2)
    assert found.infiniband is True
    assert found.vm_family == "standardNewFamily"
    assert found.get("HyperVGenerations") == ["V1", "V2"]
    assert info("westus2", "Standard_NC6").vcpu_count == 7
    assert info("eastus", "Standard_NC6").vcpu_count == 6


def test_a_file_of_the_package_is_an_override_too(tmp_path):
    """The packaged table itself, edited, can be used."""
    with open(vm_sizes.RESOURCE_FILE, encoding="utf-8") as stream:
        data = json.load(stream)
    data["sizes"][ND]["gpus"] = 9
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    vm_sizes.use_override(path)
    assert info("eastus", ND).gpu_count == 9


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (3, "expected an object or a list, found 3"),
        ("x", None),
        ([], "found no virtual machine"),
        ([3], "[0]: expected an object, found 3"),
        ([{"name": 3}], "[0].name: expected the name of a VM size, found 3"),
        ([{"name": "A", "locations": "eastus"}], "[0].locations: expected a list of names"),
        ([{"name": "A", "locations": ["eastus"], "capabilities": [{"name": "vCPUs", "value": "x"}]}],  # noqa: E501
         "[0].capabilities.vCPUs: expected a number of at least 0, found 'x'"),
        ([{"name": "A", "locations": ["eastus"], "capabilities": [3]}], "[0].capabilities[0]: expected an object"),  # noqa: E501
        ([{"name": "A", "locations": ["eastus"], "capabilities": [{}]}],
         "[0].capabilities[0].name: expected the name of a capability, found nothing"),
        ({"sizes": []}, "sizes: expected an object, found a list"),
        ({"sizes": {}, "locatoins": []}, "locatoins: expected one of sizes, locations, proxied-locations; did you mean 'locations'?"),  # noqa: E501
        ({"sizes": {ND: {"gpu_count": 3}}}, "sizes.Standard_ND96isr_H100_v5.gpu_count: expected one of family"),  # noqa: E501
        ({"sizes": {ND: {"vcpu": 3}}}, "did you mean 'vcpus'?"),
        ({"sizes": {ND: {"vcpus": "3"}}}, "vcpus: expected a number of at least 0, found '3'"),
        ({"sizes": {ND: {"vcpus": 10**400}}}, "found a number of 401 characters"),
        ({"sizes": {ND: {"vcpus": True}}}, "vcpus: expected a number of at least 0, found true"),
        ({"sizes": {ND: {"vcpus": -3}}}, "vcpus: expected a number of at least 0, found -3"),
        ({"sizes": {ND: {"vcpus": 0}}}, "vcpus: expected a number above 0, found 0"),
        ({"sizes": {ND: {"vcpus": 2.5}}}, "vcpus: expected a whole number, found 2.5"),
        ({"sizes": {ND: {"mem_gib": float("inf")}}}, "mem_gib: expected a number of at least 0, found inf"),  # noqa: E501
        ({"sizes": {ND: {"rdma": "yes"}}}, "rdma: expected true or false, found 'yes'"),
        ({"sizes": {ND: {"family": None}}}, "family: expected a text, found nothing"),
        ({"sizes": {"Standard_F2_v2s": {"vcpus": 3}}}, "expected mem_gib, because the catalogue has no such size; did you mean"),  # noqa: E501
        ({"locations": "eastus"}, "locations: expected a list of names, found 'eastus'"),
        ({"locations": [""]}, "locations[0]: expected a name, found ''"),
        ({"proxied-locations": {"a": 3}}, "proxied-locations.a: expected the name of a location, found 3"),  # noqa: E501
        ({"eastus": [3]}, "eastus: expected an object, found a list"),
        ({"size": {ND: {"gpus": 3}}}, "size.Standard_ND96isr_H100_v5: expected a record with capabilities, found gpus"),  # noqa: E501
        ({"eastus": {ND: {"capabilities": 3}}}, "capabilities: expected an object, found 3"),
        ({"eastus": {ND: {"capabilities": {"MemoryGB": "a" * 99}}}}, "found a text of 99 characters"),  # noqa: E501
        ({"eastus": {ND: {"capabilities": {"RdmaEnabled": "maybe"}}}}, "RdmaEnabled: expected true or false"),  # noqa: E501
        ({"eastus": {3: {}}}, "eastus: expected names as keys, found 3"),
    ],
)  # fmt: skip
def test_mistakes_are_one_clear_line(data, says):
    """What is wrong, where and what was expected, in one line; the catalogue stays as it was."""
    with pytest.raises(ConfigurationException) as caught:
        vm_sizes.use_override(data)
    message = str(caught.value)
    assert message.startswith("VM size override")
    assert "\n" not in message
    assert says is None or says in message
    assert info("eastus", ND).gpu_count == 8


def test_files_that_cannot_be_read(tmp_path):
    """A missing file, broken JSON and broken text are named with the file."""
    path = tmp_path / "sizes.json"
    with pytest.raises(ConfigurationException, match=f"{path}: there is no such file"):
        vm_sizes.use_override(str(path))
    for contents in (b"{", b"\xff\xfe"):
        path.write_bytes(contents)
        with pytest.raises(ConfigurationException, match=f"{path}: expected a JSON file, found "):
            vm_sizes.use_override(path)


def test_a_mistyped_location_is_pointed_out(caplog):
    """A location close to a known one is accepted, with a warning."""
    record = {"capabilities": {"vCPUs": 1, "MemoryGB": 1}}
    vm_sizes.use_override({"eastuss": {"A": record}, "usgoviowa": {"A": record}})
    assert "location 'eastuss' is not in the catalogue; did you mean 'eastus'?" in caplog.text
    assert "usgoviowa" not in caplog.text


def test_from_configuration(tmp_path):
    """The section of autoscale.json is used; a later configuration without it undoes it."""
    path = tmp_path / "sizes.json"
    path.write_text(json.dumps({"sizes": {ND: {"gpus": 5}}}))
    prices = {"*": {ND: 1.5}}
    vm_sizes.configure(
        {"vm_sizes": {"override": str(path), "prices": prices, "gpu_count": "reported"}}
    )
    assert info("eastus", ND).gpu_count == 5
    assert vm_sizes.price_per_hour("eastus", ND) == 1.5
    vm_sizes.configure({})
    assert info("eastus", ND).gpu_count == 8
    assert vm_sizes.price_per_hour("eastus", ND) == 98.32


def test_configuration_reads_a_file_again_only_when_it_changed(tmp_path, monkeypatch):
    """A pass with an unchanged file reads nothing; an edited file is picked up."""
    path = tmp_path / "sizes.json"
    path.write_text(json.dumps({"sizes": {ND: {"gpus": 5}}}))
    config = {"vm_sizes": {"override": str(path)}}
    vm_sizes.configure(config)
    used = []
    monkeypatch.setitem(settings._TARGETS, "override", (vm_sizes.VM_SIZES, used.append))
    vm_sizes.configure(config)
    assert used == []
    path.write_text(json.dumps({"sizes": {ND: {"gpus": 10}}}))
    vm_sizes.configure(config)
    assert used == [str(path)]


def test_configuration_leaves_alone_what_the_program_set():
    """An override set by calling is not undone by a configuration that says nothing."""
    vm_sizes.use_override({"sizes": {ND: {"gpus": 5}}})
    vm_sizes.configure({})
    assert info("eastus", ND).gpu_count == 5


def test_configuration_mistakes():
    """A section of the wrong kind and a file that is missing are configuration errors, each
    time."""
    with pytest.raises(ConfigurationException, match="vm_sizes: expected an object, found 'x'"):
        vm_sizes.configure({"vm_sizes": "x"})
    for _ in range(2):
        with pytest.raises(ConfigurationException, match="no such file"):
            vm_sizes.configure({"vm_sizes": {"override": "/no/such/file"}})
