"""Nodearray definitions: what they ask for, and one clear line for each mistake."""

import pytest

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.jetpack.jobs import arrays_of_jobs
from hpc.autoscale.requestsets.definitions import ArrayRequest, RequestError, read_arrays


def test_what_definitions_ask_for():
    """Counts, machine types in order, and any other attribute."""
    assert read_arrays(
        [
            {"Name": "a", "TargetCount": 3, "Dynamic": False},
            {"Name": "b", "TargetCoreCount": 128, "MachineType": ["F4", "F8", "F4"]},
            {"Name": "b", "TargetGroupCount": 4, "GroupCoreCount": 64},
            {"Name": "c", "MachineType": "F4, F8", "Configuration": {"x": 1}, "ImageName": "i"},
            {"Name": "d", "Dynamic": True, "Extends": "a"},
        ]
    ) == (
        ArrayRequest("a", nodes=3),
        ArrayRequest("b", cores=128, machine_types=("F4", "F8")),
        ArrayRequest("b", groups=4, group_cores=64, has_target=False),
        ArrayRequest(
            "c",
            machine_types=("F4", "F8"),
            attributes={"Configuration": {"x": 1}, "ImageName": "i"},
        ),
        ArrayRequest("d", is_dynamic=True, extends=("a",)),
    )


def test_a_wish_for_nothing():
    """Is one."""
    assert read_arrays([]) == ()


MISTAKES = [
    ({"Name": "a"}, "expected a list of nodearray definitions, found {'Name': 'a'}"),
    (["a"], "arrays[0]: expected a nodearray definition, found 'a'"),
    ([{}], "arrays[0]: Name: expected the name of a nodearray, found None"),
    ([{"Name": " "}], "arrays[0]: Name: expected the name of a nodearray, found ' '"),
    (
        [{"Name": "a", "TargetCount": -1}],
        "arrays[0] (a): TargetCount: expected a whole number of 0 or more, found -1",
    ),
    (
        [{"Name": "a", "TargetCoreCount": 1.5}],
        "arrays[0] (a): TargetCoreCount: expected a whole number of 0 or more, found 1.5",
    ),
    (
        [{"Name": "a", "TargetCount": True}],
        "arrays[0] (a): TargetCount: expected a whole number of 0 or more, found True",
    ),
    (
        [{"Name": "a", "TargetCount": 1, "TargetCoreCount": 1}],
        "arrays[0] (a): expected TargetCount or TargetCoreCount, found both",
    ),
    (
        [{"Name": "a"}, {"Name": "a"}],
        "arrays[1]: expected each Name once for each size of groups, found 'a' again",
    ),
    (
        [{"Name": "a", "TargetCoreCont": 4}],
        "arrays[0]: unknown key 'TargetCoreCont'; did you mean 'TargetCoreCount'?",
    ),
    ([{"name": "a"}], "arrays[0]: unknown key 'name'; did you mean 'Name'?"),
    (
        [{"Name": "a", "machinetype": "F4"}],
        "arrays[0]: unknown key 'machinetype'; did you mean 'MachineType'?",
    ),
    (
        [{"Name": "a", "MachineType": []}],
        "arrays[0] (a): MachineType: expected a machine type or a list of them, found []",
    ),
    (
        [{"Name": "a", "ClusterName": 1}],
        "arrays[0] (a): ClusterName: expected a text, found 1",
    ),
    (
        [{"Name": "a", "InstanceId": "x"}],
        "arrays[0]: InstanceId is set by CycleCloud and cannot be asked for",
    ),
    (
        [{"Name": "a", "TargetGroupCount": 1}],
        "arrays[0] (a): TargetGroupCount: expected GroupCoreCount of 1 or more too",
    ),
    (
        [{"Name": "a", "TargetGroupCount": 2_000_000_000, "GroupCoreCount": 4}],
        "arrays[0] (a): TargetGroupCount: expected 10000 at most, found 2000000000",
    ),
    (
        [{"Name": "a", "GroupCoreCount": 64}],
        "arrays[0] (a): expected TargetGroupCount beside the size of a group",
    ),
    (
        [{"Name": "a", "TargetGroupCount": 1, "GroupCoreCount": 4, "GroupInstanceCount": 1}],
        "arrays[0] (a): expected GroupCoreCount or GroupInstanceCount, found both",
    ),
    (
        [
            {"Name": "a", "TargetCount": 1},
            {"Name": "a", "TargetCount": 1, "TargetGroupCount": 1, "GroupCoreCount": 4},
        ],
        "arrays[1]: expected TargetCount or TargetCoreCount once for each Name,"
        " found another one of 'a'",
    ),
    (
        [{"Name": "a", "Dynamic": "yes"}],
        "arrays[0] (a): Dynamic: expected true or false, found 'yes'",
    ),
    (
        [{"Name": "a" * 41, "Dynamic": True, "Extends": "b"}],
        f"arrays[0] ({'a' * 41}): Name: expected at most 40 printable characters for a dynamic"
        " array, found 41",
    ),
    (
        [{"Name": "a", "Dynamic": True, "Extends": 3}],
        "arrays[0] (a): Extends: expected the name of a nodearray, found 3",
    ),
    ([{"Name": "a", 1: 2}], "arrays[0]: expected keys that are texts, found 1"),
]


@pytest.mark.parametrize(("arrays", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_one_clear_line(arrays, said):
    """With the definition, the key, and the likely typo."""
    with pytest.raises(RequestError) as error:
        read_arrays(arrays)
    assert str(error.value) == said


def test_attributes_are_json():
    """Or nobody could send them."""
    with pytest.raises(RequestError, match=r"arrays\[0\] \(a\): expected attributes that are JSON"):
        read_arrays([{"Name": "a", "Configuration": object()}])


def test_jobs_add_up():
    """By nodearray; those without one are for execute, and definitions are merged onto them."""
    jobs = [
        {"name": "1", "nodearray": None, "request_cpus": 4, "average_runtime": 60},
        {"nodearray": "gpu", "request_cpus": 6},
        {"name": "2", "request_cpus": 3, "grouped": False},
    ]
    definitions = [{"Name": "execute", "Configuration": {"x": 1}}, {"Name": "other"}]
    assert arrays_of_jobs(jobs, definitions) == [
        {"Name": "execute", "TargetCoreCount": 7, "Configuration": {"x": 1}},
        {"Name": "gpu", "TargetCoreCount": 6},
    ]


def test_grouped_jobs():
    """Are a group each, of their cores; definitions are for all sizes, or for one."""
    jobs = [{"request_cpus": size, "grouped": True} for size in (64, 64, 128)]
    definitions = [
        {"Name": "execute:grouped", "Configuration": {"x": 1}},
        {"Name": "execute:128", "MachineType": "F4"},
        {"Name": "execute:grouped", "ImageName": "i"},
    ]
    both = {"Configuration": {"x": 1}, "ImageName": "i"}
    assert arrays_of_jobs(jobs, definitions) == [
        {"Name": "execute", "TargetGroupCount": 2, "GroupCoreCount": 64, **both},
        {
            "Name": "execute",
            "TargetGroupCount": 1,
            "GroupCoreCount": 128,
            **both,
            "MachineType": "F4",
        },
    ]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("x", "jobs[0]: expected a job as a dict, found 'x'"),
        ({"name": "7"}, "jobs[0] (7): request_cpus: expected a whole number of 0 or more"),
        ({"request_cpus": -1}, "request_cpus: expected a whole number of 0 or more, found -1"),
        ({"request_cpu": 1}, "unknown key 'request_cpu'; did you mean 'request_cpus'?"),
        ({"request_cpus": 1, "nodearray": 3}, "nodearray: expected a name, found 3"),
        ({"request_cpus": 0, "grouped": True}, "expected 1 or more of a grouped job, found 0"),
    ],
)
def test_a_job_that_cannot_be_understood(job, said):
    """Is an error, because a part of what is needed would be missing."""
    with pytest.raises(AutoscaleError) as error:
        arrays_of_jobs([job], [])
    assert said in str(error.value)


def test_a_definition_for_jobs_has_a_name():
    """Or nobody knows which it is merged onto."""
    with pytest.raises(RequestError, match=r"array_definitions\[0\]: expected .* with a Name"):
        arrays_of_jobs([], [{"Configuration": {}}])
