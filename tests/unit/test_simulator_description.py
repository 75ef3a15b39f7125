"""The cluster description of the simulator: what it means, and one clear line for everything that
is wrong with it."""

import json
from typing import Any

import pytest

from builders.simulated_cloud import F2, REGION, a_description
from hpc.autoscale.simulator import DescriptionError, load_description
from hpc.autoscale.simulator.loading import describe
from hpc.autoscale.simulator.templating import fill


def described(**nodearray: Any) -> Any:
    """The nodearray htc of a description with these keys."""
    array = {"machine_types": [F2], **nodearray}
    return describe(a_description({"htc": array})).clusters["c1"].nodearrays["htc"]


def complaint(description: Any) -> str:
    """What is said about a description that is wrong."""
    with pytest.raises(DescriptionError) as caught:
        describe(description)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_machine_types_have_the_numbers_of_the_catalogue():
    """A VM size is known by its name."""
    size = described().machine_types[F2.lower()]
    assert (size.name, size.vcpus, size.pcpus, size.gpus, size.memory_gb) == (F2, 2, 1, 0, 4.0)
    assert size.family == "standardFSv2Family"


def test_numbers_in_the_description_win():
    """A subscription that reports other numbers can be simulated."""
    size = described(machine_types=[{"name": F2, "gpus": 2, "vcpus": 8}]).machine_types[F2.lower()]
    assert (size.gpus, size.vcpus, size.quota_vcpus, size.memory_gb) == (2, 8, 8, 4.0)


def test_sizes_that_the_catalogue_lacks_need_cores_and_memory():
    """With both any name is a VM size."""
    new = {"name": "Standard_New", "vcpus": 3, "memory_gb": 1.5}
    size = described(machine_types=[new]).machine_types["standard_new"]
    assert (size.vcpus, size.pcpus, size.memory_gb, size.family) == (3, 3, 1.5, "Standard_New")


def test_constrained_sizes_are_charged_with_the_cores_of_their_parent():
    """Standard_M8-2ms offers 2 of 8 cores, and 8 count against the quota."""
    size = described(machine_types=["Standard_M8-2ms"]).machine_types["standard_m8-2ms"]
    assert (size.vcpus, size.quota_vcpus) == (2, 8)


def test_inner_lifecycles_override_outer_ones():
    """Durations are those of the nodearray, the cluster, the file, the default, in this order."""
    description = a_description(lifecycle={"preparing": 20})
    description["lifecycle"] = {"preparing": 1, "acquiring": 2}
    description["clusters"]["c1"]["nodearrays"]["htc"]["lifecycle"] = {"terminating": 30}
    lifecycle = describe(description).clusters["c1"].nodearrays["htc"].lifecycle
    assert (lifecycle.preparing, lifecycle.acquiring, lifecycle.terminating) == (20.0, 2.0, 30.0)
    assert lifecycle.allocation == 1.0


def test_limits_of_the_cluster_are_the_default_of_its_nodearrays():
    """A nodearray without limits of its own reports those of the cluster."""
    description = describe(a_description(max_count=7, max_core_count=70))
    array = description.clusters["c1"].nodearrays["htc"]
    assert (array.max_count, array.max_core_count) == (7, 70)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"machine_types": ["Standard_F2s_v3"]}, "did you mean 'Standard_F2s_v2'"),
    ({"machine_types": ["Standard_F2s_v3"]}, "htc.machine_types[0].name: expected a known VM size"),
    ({"machine_types": []}, "htc.machine_types: expected a list of VM sizes that is not empty"),
    ({"machine_types": [F2, F2.lower()]}, "machine_types[1]: standard_f2s_v2 is listed twice"),
    ({"machine_types": [7]}, "machine_types[0]: expected a JSON object, found 7"),
    ({"machine_typs": []}, "unknown key; did you mean 'machine_types'?"),
    ({"max_count": -1}, "max_count: expected a whole number, 0 or more, found -1"),
    ({"max_count": True}, "max_count: expected a whole number"),
    ({"spot": "yes"}, 'spot: expected true or false, found "yes"'),
    ({"region": "westus22"}, "expected a known region, found 'westus22'"),
    ({"lifecycle": {"preparing": -3}}, "lifecycle.preparing: expected a number"),
    ({"lifecycle": {"jitter": 2}}, "jitter: expected a number, between 0 and 1"),
    ({"attributes": {"NodeId": "x"}}, "attributes.NodeId: this attribute is set by the simulator"),
    ({"placement_groups": [1]}, "placement_groups[0]: expected a string, found 1"),
    ({"hostnames": "nmae"}, "did you mean 'name'"),
    ({"machine": {}}, "machine.command: expected a list of arguments"),
    ({"machine": {"command": ["{hostnam}"]}}, "did you mean 'hostname'"),
    ({"machine": {"command": ["x"], "env": {"A": 1}}}, "env.A: expected a string"),
    (
        {"machine": {"command": ["x"], "on_exit": "ignore"}},
        "on_exit: expected one of fail, restart",
    ),
    ({"max_placement_group_size": 0}, "expected a whole number, 1 or more"),
]


@pytest.mark.parametrize(("nodearray", "said"), WRONG)
def test_what_is_wrong_with_a_nodearray_is_said_in_one_line(nodearray, said):
    """Where it is, what was expected, what was found, and a guess at the typo."""
    assert said in complaint(a_description({"htc": {"machine_types": [F2], **nodearray}}))


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ([], "the document: expected a JSON object, found []"),
        ({}, "clusters: expected at least one cluster, found nothing"),
        ({"clusters": {"c1": {"region": REGION}}}, "clusters.c1.nodearrays: expected at least one"),
        (
            {"clusters": {"c1": {"nodearrays": {"htc": {"machine_types": [F2]}}}}},
            "clusters.c1.region: expected a string",
        ),
        ({"cluster": {}}, "cluster: unknown key; did you mean 'clusters'?"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_said_in_one_line(description, said):
    """From the outside in."""
    assert said in complaint(description)


def test_names_that_differ_only_in_case_are_refused():
    """They would be one host name."""
    arrays = {"htc": {"machine_types": [F2]}, "HTC": {"machine_types": [F2]}}
    assert "nodearrays.HTC: this name is taken by 'htc'" in complaint(a_description(arrays))


def test_names_must_fit_into_a_url():
    """A slash would never be found again."""
    assert "found 'a/b'" in complaint(a_description({"a/b": {"machine_types": [F2]}}))


def test_clusters_may_have_spaces_in_their_names():
    """As people name them; not at either end, where nobody sees them."""
    cluster = a_description()["clusters"]["c1"]
    assert list(describe({"clusters": {"My HPC cluster 2": cluster}}).clusters) == [
        "My HPC cluster 2"
    ]
    for name in (" c", "c ", "c\t1", " "):
        assert "clusters: expected names of letters" in complaint({"clusters": {name: cluster}})


def test_a_variable_of_the_environment_may_be_empty():
    """That is not the same as one that is not there."""
    machine = described(machine={"command": ["x"], "env": {"DEBUG": "", "A": " "}}).machine
    assert machine.env == {"DEBUG": "", "A": " "}


ALONE: list[tuple[dict[str, Any], str]] = [
    ({"scheduler": {}}, "clusters.c1.nodes.scheduler.machine_type: expected a VM size"),
    ({"scheduler": {"machine_type": "Standard_F2s_v3"}}, "did you mean 'Standard_F2s_v2'"),
    ({"scheduler": {"machine_types": [F2]}}, "unknown key; did you mean 'machine_type'?"),
    ({"htc": {"machine_type": F2}}, "nodes.htc: this name is that of a nodearray"),
    ({"HTC": {"machine_type": F2}}, "nodes.HTC: this name is taken by 'htc'"),
    ({"a/b": {"machine_type": F2}}, "found 'a/b'"),
    ({"s": {"machine_type": F2, "attributes": {"Name": "x"}}}, "attributes.Name"),
]


@pytest.mark.parametrize(("nodes", "said"), ALONE)
def test_what_is_wrong_with_a_single_node_is_said_in_one_line(nodes, said):
    """As for nodearrays, whose names it may not have."""
    assert said in complaint(a_description(nodes=nodes))


@pytest.mark.parametrize(
    ("regions", "said"),
    [
        ({"westus3": {}}, "regions.westus3: no nodearray uses this (used are: westus2)"),
        (
            {REGION: {"family_quotas": {"standardFSv3Family": 1}}},
            "did you mean 'standardFSv2Family'?",
        ),
        ({REGION: {"capacity": {"Standard_F8s_v2": 1}}}, "capacity.Standard_F8s_v2: no nodearray"),
        ({REGION: {"quotas": 1}}, "regions.westus2.quotas: unknown key; did you mean 'quota'?"),
    ],
)
def test_quotas_that_nothing_uses_are_refused(regions, said):
    """A typo there would mean no limit at all."""
    description = a_description()
    description["regions"] = regions
    assert said in complaint(description)


def test_faults_are_checked_with_the_rest():
    """Each by its place in the list."""
    description = {**a_description(), "faults": [{"kind": "html"}, {"kind": "lost_replay"}]}
    assert "faults[1].kind: expected one of" in complaint(description)
    assert "did you mean 'lost_reply'?" in complaint(description)


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path):
    """Whatever is wrong: with the file, with its JSON, with what it says."""
    missing, broken, wrong = (tmp_path / name for name in ("missing", "broken", "wrong"))
    broken.write_text('{"clusters": {}')
    wrong.write_text(json.dumps({"cluster": {}}))
    for path, said in (
        (missing, "No such file"),
        (broken, "expected JSON"),
        (wrong, "unknown key"),
    ):
        with pytest.raises(DescriptionError, match=said) as caught:
            load_description(path)
        assert str(caught.value).startswith(f"{path}: ")


def test_a_key_that_occurs_twice_is_an_error(tmp_path):
    """JSON readers keep the last one, and nobody would notice."""
    path = tmp_path / "clusters.json"
    path.write_text('{"clusters": {"a": {}, "a": {}}}')
    with pytest.raises(DescriptionError, match='the key "a" occurs twice'):
        load_description(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": NaN}', '{"a": 1e999}', "\xff"])
def test_what_is_hardly_json_is_refused_like_any_other(tmp_path, text):
    """Deep nesting, numbers that are none, bytes that are no text."""
    path = tmp_path / "clusters.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DescriptionError, match="expected JSON"):
        load_description(path)


def test_templates_are_filled_by_name_and_keep_doubled_braces():
    """Only what is between single braces is replaced."""
    assert fill("{a}-{{a}}-{b}", {"a": 1, "b": "{a}"}) == "1-{a}-{a}"
