"""Dynamic arrays of the auto-scale plug-in API, against a simulator over HTTP."""

import json
import os
import signal
from collections import Counter
from contextlib import suppress

import pytest

import hpc.autoscale.jetpack as autoscale
from builders.processes import until
from builders.reporters import F4, F8, F16
from hpc.autoscale import clock
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.util import load_config

WISH = {"Name": "render", "Dynamic": True, "Extends": "execute", "TargetCount": 3}

DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    '''A job that wants a node of render.'''

    def _read_jobs_and_nodes(self, config):
        alone = [{"node.nodearray": "render"}, {"exclusive": True}]
        return [Job("one", alone)], []
"""


def arrays(site):
    """How many nodes of each array run or will run, as the library sees it."""
    nodes = manager(site).get_nodes()
    return Counter(node.nodearray for node in nodes if node.target_state == "Started")


def manager(site):
    """The nodes of the cluster, as the command line has them."""
    path = site.home / "requestsets.db"
    return new_node_manager({**load_config(str(site.path)), "requestsetsdb": str(path)})


def rows(site, command, *args):
    """What a command prints, as JSON."""
    return json.loads(site(command, *args, "-F", "json"))


def test_created_updated_removed(site):
    """An array of 3 comes when it is listed, grows, and is gone when its nodes have stopped."""
    site.configure(idle_timeout=60)
    autoscale.update([WISH])
    assert arrays(site) == {"render": 3}
    assert site.nodes() == {"execute": 3}
    assert site.names() == {"render-1", "render-2", "render-3"}
    for _ in range(3):
        site.later(30)
        autoscale.update([WISH])
    assert site.created() == 3
    autoscale.update([{**WISH, "TargetCount": 5}])
    assert arrays(site) == {"render": 5}
    autoscale.update([])
    assert arrays(site) == {"render": 5}
    for _ in range(4):
        site.later(60)
        autoscale.update([])
    assert site.nodes() == {}
    assert "render" not in {row["nodearray"] for row in rows(site, "buckets")}


def test_flagged_for_removal(site):
    """An array that nobody lists any more is there while it has nodes, and takes no more of
    them."""
    autoscale.update([WISH])
    autoscale.update([])
    (bucket,) = [b for b in manager(site).get_buckets() if b.nodearray == "render"]
    assert bucket.available_count == 0
    assert len(bucket.nodes) == 3
    site("create_nodes", "--nodearray", "render", "-n", "1", code=1)
    why = "Dynamic array render, which nobody lists any more, takes no new nodes"
    assert f"no nodes can be created: {why}" in site.errors
    autoscale.update([{**WISH, "TargetCount": 4}])
    assert arrays(site) == {"render": 4}
    assert site.created() == 4


def test_the_array_it_extends(site):
    """Is another one: targets of either count only its own nodes."""
    for _ in range(3):
        autoscale.update([WISH, {"Name": "execute", "TargetCoreCount": 8}])
        site.later(30)
    assert arrays(site) == {"render": 3, "execute": 2}
    assert site.created() == 5


def test_membership_is_in_the_records(site):
    """It outlives everything that is kept on this side."""
    autoscale.update([WISH])
    (site.home / "requestsets.db").unlink()
    assert arrays(site) == {"render": 3}
    nodes = [node for node in site.cluster.nodes() if node["TargetState"] == "Started"]
    marks = {node["Configuration"]["autoscale"]["dynamic_array"] for node in nodes}
    assert marks == {"render"}
    autoscale.update([{**WISH, "TargetCount": 4}])
    assert arrays(site) == {"render": 4}
    assert site.created() == 4


def test_limits_are_those_of_the_array_it_extends(site):
    """What one of them has, the other cannot have."""
    wish = {"Name": "own", "Dynamic": True, "Extends": "few", "TargetCount": 2}
    autoscale.update([{"Name": "few", "TargetCount": 2}])
    file = site.home / "wish.json"
    file.write_text(json.dumps([wish, {"Name": "few", "TargetCount": 2}]))
    site("request", f"--file={file}")
    assert arrays(site) == {"few": 2, "own": 1}
    assert "1 job (request:standard/own) waits: the limit of nodearray few" in site.errors
    rooms = {row["nodearray"]: row["available_count"] for row in rows(site, "buckets")}
    assert (rooms["few"], rooms["own"]) == (0, 0)


def test_the_command_line_knows_it(site):
    """Buckets, nodes, limits, and nodes created by hand."""
    autoscale.update([WISH])
    assert "render" in {row["nodearray"] for row in rows(site, "buckets")}
    assert "render" in {row["nodearray"] for row in rows(site, "limits")}
    constraint = json.dumps({"node.nodearray": "render"})
    listed = rows(site, "nodes", "-C", constraint, "-o", "name,nodearray")
    assert [node["nodearray"] for node in listed] == ["render"] * 3
    site("create_nodes", "--nodearray", "render", "-n", "1")
    assert arrays(site) == {"render": 4}
    assert "render-4" in site.names()


def test_the_list_of_requests(site):
    """Says what an array extends."""
    autoscale.update([WISH, {"Name": "top", "Dynamic": True, "Extends": "render"}])
    found = {row["nodearray"]: row["extends"] for row in rows(site, "request", "list")}
    assert found == {"render": "execute", "top": "render"}


def test_constraints(site):
    """Of jobs that are placed by the library may name it."""
    autoscale.update([{**WISH, "TargetCount": 1}])
    nodes = manager(site)
    result = nodes.allocate([{"node.nodearray": "render"}, {"exclusive": True}], node_count=3)
    assert [node.nodearray for node in result.nodes] == ["render"] * 3
    booted = nodes.bootup()
    assert sorted(node.name for node in booted.nodes) == ["render-2", "render-3"]
    assert arrays(site) == {"render": 3}


def test_attributes_and_machine_types(site):
    """Are merged onto the array that it extends."""
    wish = {
        "Name": "big",
        "Dynamic": True,
        "Extends": "mixed",
        "TargetCoreCount": 20,
        "MachineType": [F16, F8],
        "Configuration": {"run": {"big": True}},
        "Owner": "me",
    }
    autoscale.update([wish])
    for node in site.cluster.nodes():
        assert (node["MachineType"], node["Owner"]) == (F16, "me")
        assert node["Configuration"]["run"] == {"big": True}
    sizes = [b.vm_size for b in manager(site).get_buckets() if b.nodearray == "big"]
    assert sizes == [F16, F8]


def test_merged_onto_what_stands(site):
    """What an update leaves out of the definition of an array that there is stays."""
    autoscale.update([{**WISH, "Owner": "me", "Configuration": {"a": 1}}])
    autoscale.update([{"Name": "render", "TargetCount": 4, "Configuration": {"b": 2}}])
    newest = max(site.cluster.nodes(), key=lambda node: node["Name"])
    assert newest["Owner"] == "me"
    assert (newest["Configuration"]["a"], newest["Configuration"]["b"]) == (1, 2)
    assert arrays(site) == {"render": 4}


def test_an_array_that_extends_a_dynamic_one(site):
    """Takes over what that one says, also when it is gone."""
    middle = {"Name": "middle", "Dynamic": True, "Extends": "mixed", "MachineType": F8}
    top = {"Name": "top", "Dynamic": True, "Extends": "middle", "Owner": "me"}
    autoscale.update([{**middle, "Region2": "x"}], request_set="other")
    autoscale.update([{**top, "TargetCount": 1}])
    autoscale.update([], request_set="other")
    autoscale.update([{"Name": "top", "TargetCount": 2}])
    assert arrays(site) == {"top": 2}
    for node in site.cluster.nodes():
        assert (node["MachineType"], node["Owner"], node["Region2"]) == (F8, "me", "x")


def test_two_sets_never_remove_each_others_arrays(site):
    """Nor their nodes, whatever one of them stops to list."""
    site.configure(idle_timeout=60)
    other = {"Name": "other", "Dynamic": True, "Extends": "execute", "TargetCount": 2}
    for _ in range(3):
        autoscale.update([WISH], request_set="a")
        autoscale.update([other], request_set="b")
        site.later(30)
    for _ in range(5):
        autoscale.update([], request_set="a")
        autoscale.update([other], request_set="b")
        site.later(60)
    assert arrays(site) == {"other": 2}
    assert site.created() == 5


def test_an_array_of_two_sets(site):
    """Is there as long as one of them lists it, and what they want adds up."""
    site.configure(idle_timeout=60)
    autoscale.update([WISH], request_set="a")
    autoscale.update([{"Name": "render", "TargetCount": 1}], request_set="b")
    assert arrays(site) == {"render": 4}
    for _ in range(5):
        autoscale.update([], request_set="a")
        autoscale.update([{"Name": "render", "TargetCount": 1}], request_set="b")
        site.later(60)
    assert arrays(site) == {"render": 1}


def test_silence(site):
    """An array lapses with the set that lists it, and not before."""
    site.configure(idle_timeout=1)
    autoscale.update([WISH])
    site("autoscale")
    site.later(299)
    site("autoscale")
    assert arrays(site) == {"render": 3}
    site.later(1)
    for _ in range(2):
        site("autoscale")
        site.later(2)
    assert site.nodes() == {}


def test_groups_belong_to_one_array(site):
    """Whatever characters the names of arrays have."""
    groups = {"TargetGroupCount": 1, "GroupInstanceCount": 2}
    names = ["a:b", "a-b", "a_b", "a.b"]
    autoscale.update([{**WISH, **groups, "Name": name, "TargetCount": 0} for name in names])
    found = Counter((node["GroupId"], node["PlacementGroupId"]) for node in site.running())
    assert list(found.values()) == [2, 2, 2, 2]
    assert arrays(site) == {f"{name}:2i": 2 for name in names}


MIXED = [
    {"Name": "execute", "TargetCount": 2, "TargetGroupCount": 2, "GroupCoreCount": 8},
    {**WISH, "Owner": "me"},
    {**WISH, "Name": "other", "TargetGroupCount": 1, "GroupInstanceCount": 2},
]
MIXED_NODES = {"execute": 2, "execute:8": 4, "render": 3, "other": 3, "other:2i": 2}


@pytest.mark.parametrize("kind", ["lost_reply", "html", "truncated", "no_reply"])
def test_a_reply_that_is_lost(site, kind):
    """Nothing is created twice, and each node is of the array that it was meant for."""
    site.simulator.faults.add(kind, endpoint="create_nodes", times=1)
    with suppress(autoscale.NotServedError):
        autoscale.update(MIXED)
    for _ in range(2):
        site.later(30)
        autoscale.update(MIXED)
        assert arrays(site) == MIXED_NODES
    assert site.created() == 14


@pytest.mark.parametrize("late", ["get_nodes", "create_nodes"])
def test_killed_on_the_way(site, late):
    """kill -9 between the wish and the create, or before its reply: nothing is lost, and nothing is
    created twice."""
    clock.use_clock(clock.Clock())
    site.simulator.faults.add("latency", endpoint=late, seconds=3, times=1)
    process = site.start(f"import hpc.autoscale.jetpack as a; a.update({MIXED})")
    try:
        until(site.sets if late == "get_nodes" else lambda: site.created() == 14)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    site.simulator.faults.clear()
    site("autoscale")
    assert arrays(site) == MIXED_NODES
    assert site.created() == 14


def test_jobs(site):
    """That are grouped are a group each in the array of their size, with what is said of all sizes
    and of that one."""
    jobs = [{"name": f"{n}", "request_cpus": n, "grouped": True} for n in (8, 8, 16)]
    definitions = [
        {"Name": "execute:grouped", "Configuration": {"run": {"grouped": True}}},
        {"Name": "execute:16", "Configuration": {"run": {"large": True}}},
        {"Name": "execute", "Owner": "me"},
    ]
    autoscale.scale_by_jobs([*jobs, {"request_cpus": 3}], definitions)
    assert arrays(site) == {"execute": 1, "execute:8": 4, "execute:16": 4}
    runs = Counter(
        (node["Name"].rpartition("-")[0], str(node.get("Configuration", {}).get("run")))
        for node in site.running()
    )
    assert runs == {
        ("execute", "None"): 1,
        ("execute-8", "{'grouped': True}"): 4,
        ("execute-16", "{'grouped': True, 'large': True}"): 4,
    }


def test_jobs_of_a_scheduler(site, monkeypatch):
    """Go to a dynamic array where they ask for it."""
    (site.home / "onejob.py").write_text(DRIVER)
    monkeypatch.syspath_prepend(str(site.home))
    site.configure(driver="onejob:Driver")
    autoscale.update([{**WISH, "TargetCount": 1}])
    assert arrays(site) == {"render": 2}
    site.later(30)
    site("autoscale")
    assert site.created() == 2


def test_nobody_elses_nodes_go(site):
    """Groups of a nodearray say nothing of its other nodes."""
    site("create_nodes", "--nodearray", "execute", "-n", "2")
    autoscale.update([{"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 8}])
    autoscale.update([{"Name": "render", "Dynamic": True, "Extends": "execute"}], "other")
    site.passes(1200)
    assert arrays(site) == {"execute": 2}


def test_nodes_of_an_array_go_without_the_file(site):
    """Nobody but a request set has started them."""
    autoscale.update([WISH])
    (site.home / "requestsets.db").unlink()
    site.passes(600)
    assert site.nodes() == {}


def test_a_dry_run(site):
    """Shows nodes of the array, with the names that they would have, and starts none."""
    autoscale.update([{"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 4}])
    options = ("--nodearray", "execute:4", "-n", "2", "--dry-run", "-o", "name,nodearray")
    planned = rows(site, "create_nodes", *options)
    assert [(node["name"], node["nodearray"]) for node in planned] == [
        ("execute-4-2", "execute:4"),
        ("execute-4-3", "execute:4"),
    ]
    assert site.created() == 1


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (
            [{**WISH, "Extends": "exceute"}],
            "nodearray render: Extends: expected a nodearray of cluster demo (execute, gpu, mixed,"
            " few, viz), found 'exceute'; did you mean 'execute'?",
        ),
        (
            [{"Name": "render", "Dynamic": True, "TargetCount": 1}],
            "nodearray render: Extends: expected the nodearray that it is made of",
        ),
        (
            [{**WISH, "Extends": "render"}],
            "nodearray render: Extends: expected no circle, found render -> render",
        ),
        (
            [{**WISH, "Extends": "b"}, {"Name": "b", "Dynamic": True, "Extends": "render"}],
            "nodearray render: Extends: expected no circle, found render -> b -> render",
        ),
        (
            [{"Name": "gpu", "Dynamic": True, "Extends": "execute", "TargetCount": 1}],
            "nodearray gpu: expected a new name for a dynamic array, found 'gpu', which is a"
            " nodearray of cluster demo",
        ),
        (
            [{**WISH, "MachineType": F8}],
            f"nodearray render: MachineType: expected one of {F4}, found '{F8}'"
            f"; did you mean '{F4}'?",
        ),
        (
            [{**WISH, "TargetGroupCount": 1, "GroupInstanceCount": 41}],
            f"nodearray render: a group is too large: it has 41 of {F4}, where 40 may be in a"
            " placement group",
        ),
        (
            [WISH, {"Name": "rendr", "TargetCount": 1}],
            "Name: expected a nodearray of cluster demo (execute, gpu, mixed, few, viz), found"
            " 'rendr'; did you mean 'render'?",
        ),
        (
            [{"Name": "shard", "TargetCount": 1}],
            "Name: expected a nodearray of cluster demo (execute, gpu, mixed, few, viz), found"
            " 'shard'; did you mean 'shared'?",
        ),
        (
            [{"Name": "gpu", "Extends": "execute"}],
            "nodearray gpu: Extends: expected Dynamic: true beside it",
        ),
        (
            [{**WISH, "Extends": ["gpu", "execute"]}],
            "nodearray render: Extends: expected one name, found ['gpu', 'execute']",
        ),
        (
            [{"Name": "shared", "Dynamic": True, "Extends": "gpu"}],
            "nodearray shared: Extends: expected 'execute', which it extends in request set other,"
            " found 'gpu'",
        ),
        ([{**WISH, "TargetCount": -1}], "expected a whole number of 0 or more, found -1"),
        ([{**WISH, "TargetCoreCount": 1}], "expected TargetCount or TargetCoreCount, found both"),
    ],
)
def test_a_mistake_changes_nothing(site, wish, said):
    """It is one clear line, and what stood before stays in force."""
    before = [{**WISH, "Name": "before"}]
    shared = [{"Name": "shared", "Dynamic": True, "Extends": "execute"}]
    autoscale.update(before)
    autoscale.update(shared, request_set="other")
    with pytest.raises(autoscale.RequestError) as error:
        autoscale.update(wish)
    assert str(error.value).endswith(said)
    assert "\n" not in str(error.value)
    assert site.sets() == {"standard": before, "other": shared}
    site.later(30)
    site("autoscale")
    assert arrays(site) == {"before": 3}
