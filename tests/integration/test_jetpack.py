"""The auto-scale plug-in API against a simulator over HTTP: from a wish to nodes, and back."""

import json
import os
import signal
import sys
from collections import Counter

import pytest

import hpc.autoscale.jetpack as autoscale
from builders.processes import until
from builders.reporters import F4, F8, F16
from hpc.autoscale import clock
from hpc.autoscale.jetpack.__main__ import run
from hpc.autoscale.util import SingletonFileLock

DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    '''Two jobs that want a node of execute each.'''

    def _read_jobs_and_nodes(self, config):
        alone = [{"node.nodearray": "execute"}, {"exclusive": True}]
        return [Job(name, alone) for name in ("one", "two")], []
"""


# -- what a wish comes to


def test_cores(site):
    """128 cores on a 4-core type are 32 nodes; saying it again changes nothing."""
    autoscale.set("execute", corecount=128)
    assert site.nodes() == {"execute": 32}
    names = site.names()
    for _ in range(3):
        site.later(60)
        autoscale.set("execute", corecount=128)
    assert (site.names(), site.created()) == (names, 32)


def test_the_default_nodearray(site):
    """Is execute."""
    autoscale.set(corecount=9)
    assert site.nodes() == {"execute": 3}


@pytest.mark.parametrize(
    ("key", "wrong", "said"),
    [
        ("Configuration", "role=train", "Configuration: expected an object, found 'role=train'"),
        ("Configuration", {"autoscale": "no"}, "autoscale: expected an object, found 'no'"),
        ("CoreCount", "many", "CoreCount: expected a number, found 'many'"),
        ("Memory", "16g", "Memory: expected a number, found '16g'"),
    ],
)
def test_attributes_that_no_pass_could_read(site, key, wrong, said):
    """Are refused: the nodes were set aside, never deleted, and each pass started others."""
    autoscale.set("gpu", instancecount=1)
    with pytest.raises(autoscale.RequestError, match=said):
        autoscale.update([{"Name": "gpu", "TargetCount": 2, key: wrong}])
    site.later(60)
    assert site.nodes() == {"gpu": 1}


def test_the_array_of_a_node_cannot_be_asked_for(site):
    """As where a definition has the configuration of a node of another array: what was started for
    it would be of that one, and others be started in its place again and again."""
    autoscale.set("gpu", instancecount=1)
    copied = {"autoscale": {"dynamic_array": "render"}}
    with pytest.raises(autoscale.RequestError, match=r"autoscale\.dynamic_array is set by this"):
        autoscale.update([{"Name": "gpu", "TargetCount": 2, "Configuration": copied}])
    assert site.nodes() == {"gpu": 1}


def test_instances(site):
    """Are nodes, whatever their cores."""
    autoscale.set("gpu", instancecount=5)
    assert site.nodes() == {"gpu": 5}


def test_a_list_of_definitions(site):
    """Is the complete wish: what it leaves out is wanted no more, and goes when it was idle."""
    autoscale.update([{"Name": "execute", "TargetCoreCount": 8}, {"Name": "gpu", "TargetCount": 2}])
    assert site.nodes() == {"execute": 2, "gpu": 2}
    for _ in range(7):
        site.later(60)
        autoscale.update([{"Name": "execute", "TargetCoreCount": 8}])
    assert site.nodes() == {"execute": 2}


def test_nothing(site):
    """Is a wish as well."""
    autoscale.set("gpu", instancecount=2)
    for _ in range(7):
        site.later(60)
        autoscale.update([])
    assert site.nodes() == {}


def test_less(site):
    """The surplus goes after the idle timeout, and not before."""
    site.configure(idle_timeout=200)
    autoscale.set("execute", instancecount=5)
    site.later(60)
    autoscale.set("execute", instancecount=5)
    for seconds, left in ((100, 5), (99, 5), (2, 2)):
        site.later(seconds)
        autoscale.set("execute", instancecount=2)
        assert site.nodes() == {"execute": left}


def test_existing_nodes_count(site):
    """Whoever has started them."""
    site("create_nodes", "--nodearray", "execute", "-n", "3")
    autoscale.set("execute", corecount=20)
    assert site.nodes() == {"execute": 5}


def test_machine_types_in_order(site):
    """Only those of the definition are started, the first one as long as it is to be had."""
    site.simulator.set_capacity("westus2", **{F16: 2})
    definition = {"Name": "mixed", "TargetCoreCount": 50, "MachineType": [F16, F8]}
    for _ in range(4):
        autoscale.update([definition])
        site.later(10)
    sizes = Counter(n["MachineType"] for n in site.cluster.nodes() if n["State"] == "Started")
    assert sizes == {F16: 2, F8: 3}


def test_attributes(site):
    """Are merged onto the definition of each node that is started."""
    autoscale.update(
        [{"Name": "gpu", "TargetCount": 1, "Configuration": {"run": {"only": "x"}}, "Owner": "me"}]
    )
    (node,) = site.cluster.nodes()
    assert (node["Configuration"], node["Owner"]) == ({"run": {"only": "x"}}, "me")


def test_jobs(site):
    """Their cores add up by nodearray."""
    jobs = [{"name": str(i), "nodearray": None, "request_cpus": 3} for i in range(5)]
    autoscale.scale_by_jobs([*jobs, {"nodearray": "gpu", "request_cpus": 9}])
    assert site.nodes() == {"execute": 4, "gpu": 2}


def test_a_limit(site):
    """As many as there may be come into being, and the limit is named."""
    site("request", "--name=few", "--instancecount=5")
    assert "1 job (request:standard/few) waits: the limit of nodearray few" in site.errors
    assert site.nodes() == {"few": 3}


# -- groups


def groups(site):
    """How many nodes of which machine type there are in each group."""
    nodes = site.running()
    for node in nodes:
        group = node["GroupId"]
        assert group == node["PlacementGroupId"]
        assert node["Configuration"]["cyclecloud"]["node"]["group_id"] == group
    return Counter((node["GroupId"], node["MachineType"]) for node in nodes)


def test_groups(site):
    """4 groups of 64 cores are 4 placement groups of 16 nodes with 4 cores; saying it again changes
    nothing."""
    wish = [{"Name": "execute", "TargetGroupCount": 4, "GroupCoreCount": 64}]
    for _ in range(3):
        autoscale.update(wish)
        assert groups(site) == {(f"group-execute-64-{i}-{F4}", F4): 16 for i in (1, 2, 3, 4)}
        site.later(30)
    assert site.created() == 64
    (array,) = {node["Configuration"]["autoscale"]["dynamic_array"] for node in site.running()}
    assert array == "execute:64"


def test_groups_of_instances(site):
    """May be counted in instances, and cores are rounded up."""
    one = {"Name": "gpu", "TargetGroupCount": 2, "GroupInstanceCount": 3}
    autoscale.update([one, {"Name": "mixed", "TargetGroupCount": 1, "GroupCoreCount": 9}])
    assert sorted(groups(site).values()) == [3, 3, 3]


def test_another_size(site):
    """Is another group; those of the former size go as a whole."""
    site.configure(idle_timeout=60)
    autoscale.update([{"Name": "execute", "TargetGroupCount": 2, "GroupCoreCount": 64}])
    for _ in range(4):
        site.later(60)
        autoscale.update([{"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 128}])
    assert groups(site) == {(f"group-execute-128-1-{F4}", F4): 32}
    assert {n.rpartition("-")[0] for n in site.names()} == {"execute-128"}


def test_fewer_groups(site):
    """Whole groups go, and the others stay as they are."""
    site.configure(idle_timeout=60)
    wish = {"Name": "execute", "TargetGroupCount": 4, "GroupCoreCount": 16}
    autoscale.update([wish])
    for _ in range(4):
        site.later(60)
        autoscale.update([{**wish, "TargetGroupCount": 2}])
    assert list(groups(site).values()) == [4, 4]
    assert site.created() == 16


def test_a_machine_type_without_capacity(site):
    """Groups are of the next one then; none is ever of two."""
    site.configure(idle_timeout=60)
    site.simulator.set_capacity("westus2", **{F16: 10})
    wish = {
        "Name": "mixed",
        "TargetGroupCount": 4,
        "GroupCoreCount": 64,
        "MachineType": [F16, F8],
    }
    for _ in range(8):
        autoscale.update([wish])
        site.later(30)
    found = groups(site)
    assert sorted((size, count) for (_, size), count in found.items()) == [
        (F16, 4),
        (F16, 4),
        (F8, 8),
        (F8, 8),
    ]
    assert len({group for group, _ in found}) == 4


def test_all_of_a_group_or_nothing(site):
    """Of what does not fit as a whole nothing is started, and the reason is given."""
    site("request", "--name=few", "--instancecount=1")
    file = site.home / "groups.json"
    wish = [{"Name": "few", "TargetGroupCount": 2, "GroupInstanceCount": 2}]
    file.write_text(json.dumps(wish))
    site("request", f"--file={file}", "--request-set=groups")
    assert "1 job (request:groups/few:2i#2) waits: " in site.errors
    assert site.nodes() == {"few": 3}


def test_groups_beside_others(site):
    """Nodes of a group count for no other target, and two sets never share a group."""
    wish = {"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 8, "TargetCoreCount": 12}
    for _ in range(3):
        autoscale.update([wish])
        autoscale.update([wish], request_set="other")
        site.later(30)
    in_groups = Counter(node.get("PlacementGroupId") for node in site.cluster.nodes())
    assert sorted(in_groups.values()) == [2, 2, 6]
    assert in_groups[None] == 6
    assert site.created() == 10


def test_grouped_jobs(site):
    """Are a group each, with what is said of all groups."""
    jobs = [{"name": str(i), "request_cpus": 8, "grouped": True} for i in range(2)]
    definition = {"Name": "execute:grouped", "Configuration": {"gridengine": {"is_grouped": True}}}
    autoscale.scale_by_jobs([*jobs, {"request_cpus": 4}], [definition])
    nodes = site.cluster.nodes()
    grouped = [node for node in nodes if node.get("GroupId")]
    assert (len(grouped), len(nodes)) == (4, 5)
    assert all(node["Configuration"]["gridengine"]["is_grouped"] for node in grouped)


def test_a_group_that_is_too_large(site):
    """Is a mistake, with what a placement group may have."""
    with pytest.raises(autoscale.RequestError) as error:
        autoscale.update([{"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 164}])
    assert str(error.value) == (
        "nodearray execute: a group is too large: it has 41 of Standard_F4s_v2, where 40 may be in"
        " a placement group"
    )
    assert site.sets() == {}


# -- request sets


def test_sets_add_up_after_rounding(site):
    """5 cores of one and 5 of another are two nodes each."""
    autoscale.update([{"Name": "execute", "TargetCoreCount": 5}], request_set="a")
    autoscale.update([{"Name": "execute", "TargetCoreCount": 5}], request_set="b")
    assert site.nodes() == {"execute": 4}


def test_sets_leave_each_other_alone(site):
    """What one wants no more goes, and what the other wants stays."""
    for _ in range(8):
        autoscale.update([{"Name": "execute", "TargetCount": 3}], request_set="a")
        autoscale.update([{"Name": "gpu", "TargetCount": 1}], request_set="b")
        autoscale.update([], request_set="c")
        site.later(60)
    assert site.nodes() == {"execute": 3, "gpu": 1}
    for _ in range(8):
        autoscale.update([], request_set="b")
        autoscale.update([{"Name": "execute", "TargetCount": 3}], request_set="a")
        site.later(60)
    assert site.nodes() == {"execute": 3}
    assert site.created() == 4


@pytest.mark.parametrize(("interval", "stands"), [(300, 300), (1, 300), (900, 900)])
def test_silence(site, interval, stands):
    """A wish stands for its interval, at least five minutes, and lapses then."""
    site.configure(idle_timeout=1)
    autoscale.update([{"Name": "gpu", "TargetCount": 2}], expiration_interval=interval)
    site("autoscale")
    site.later(stands - 2)
    site("autoscale")
    site.later(1)
    site("autoscale")
    assert site.nodes() == {"gpu": 2}
    site.later(1)
    site("autoscale")
    site.later(2)
    site("autoscale")
    assert site.nodes() == {}


def test_only_the_share_of_a_silent_reporter_goes(site):
    """The other one of the same nodearray goes on reporting."""
    autoscale.update([{"Name": "execute", "TargetCount": 4}], request_set="silent")
    for _ in range(12):
        autoscale.update([{"Name": "execute", "TargetCount": 2}], request_set="alive")
        site.later(60)
    assert site.nodes() == {"execute": 2}


# -- what else is in the cluster


def test_other_nodearrays(site):
    """Without a scheduler nobody knows what they are for: their nodes are left alone."""
    site("create_nodes", "--nodearray", "viz", "-n", "2")
    site("create_nodes", "--nodearray", "gpu", "-n", "1")
    autoscale.set("gpu", instancecount=0)
    site.passes(900)
    assert site.nodes() == {"viz": 2}


def test_a_driver_beside_them(site, monkeypatch):
    """What its jobs want and what request sets want adds up, in the pass of either."""
    (site.home / "twojobs.py").write_text(DRIVER)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "twojobs", raising=False)
    site.configure(driver="twojobs:Driver")
    autoscale.set("execute", instancecount=3)
    assert site.nodes() == {"execute": 5}
    site.later(30)
    site("autoscale")
    assert site.created() == 5


@pytest.mark.parametrize(
    ("wish", "nodes"),
    [
        ({"TargetCount": 3}, 3),
        ({"TargetCoreCount": 9}, 3),
        ({"TargetCount": 1}, 2),
        ({"TargetCount": 3, "MachineType": F4}, 3),
        ({"TargetCount": 3, "IncludesJobs": False}, 5),
    ],
)
def test_a_wish_that_includes_the_nodes_of_jobs(site, monkeypatch, wish, nodes):
    """Counts those that the driver's two jobs are on, once, while they are planned and after."""
    (site.home / "twojobs.py").write_text(DRIVER)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "twojobs", raising=False)
    site.configure(driver="twojobs:Driver")
    autoscale.update([{"Name": "execute", "IncludesJobs": True, **wish}])
    assert site.nodes() == {"execute": nodes}
    site.later(30)
    site("autoscale")
    assert site.created() == nodes


def test_a_dry_run(site):
    """Shows what would be started for whom, and starts nothing."""
    autoscale.set("gpu", instancecount=0)
    with _held(site):
        autoscale.set("gpu", instancecount=2)
    planned = json.loads(site("demand", "-o", "name,job_ids", "-F", "json"))
    assert [node["job_ids"] for node in planned] == [["request:standard/gpu"]] * 2
    assert site.created() == 0


class _held:
    """The lock, as a running loop holds it."""

    def __init__(self, site):
        self._path = str(site.home / "lock.file")

    def __enter__(self):
        self._lock = SingletonFileLock(self._path)

    def __exit__(self, *problem):
        self._lock.unlock()


def test_a_loop_serves_it(site):
    """While one holds the lock, a wish is only recorded; its next pass does the rest."""
    with _held(site):
        autoscale.set("gpu", instancecount=2)
        assert site.created() == 0
    site("autoscale")
    assert site.nodes() == {"gpu": 2}


def test_a_loop_before_anybody_reported(site):
    """Says that there is nothing to serve, and starts and deletes nothing."""
    site("create_nodes", "--nodearray", "viz", "-n", "1")
    site.passes(900)
    assert "no driver is configured, and nobody has reported a request" in site.errors
    assert site.nodes() == {"viz": 1}


# -- mistakes and accidents


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (
            [{"Name": "exceute", "TargetCount": 1}],
            "expected a nodearray of cluster demo (execute, gpu, mixed, few, viz), found 'exceute';"
            " did you mean 'execute'?",
        ),
        (
            [{"Name": "mixed", "TargetCount": 1, "MachineType": "Standard_F4_v2"}],
            f"nodearray mixed: MachineType: expected one of {F4}, {F8}, {F16},"
            f" found 'Standard_F4_v2'; did you mean '{F4}'?",
        ),
        (
            [{"Name": "gpu", "TargetCount": 1, "ClusterName": "other"}],
            "ClusterName: expected 'demo', found 'other'",
        ),
        ([{"Name": "gpu", "TargetCount": -1}], "expected a whole number of 0 or more, found -1"),
    ],
)
def test_a_mistake_changes_nothing(site, arrays, said):
    """It is one clear line, and what stood before stays in force."""
    before = [{"Name": "gpu", "TargetCount": 2}]
    autoscale.update(before)
    with pytest.raises(autoscale.RequestError) as error:
        autoscale.update(arrays)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert site.sets() == {"standard": before}
    site.later(30)
    site("autoscale")
    assert site.nodes() == {"gpu": 2}


@pytest.mark.parametrize("wrong", [None, 5, "execute", {"Name": "execute", "TargetCount": 1}])
def test_what_is_no_list_is_a_mistake(site, wrong):
    """As others are: one line says what was expected."""
    with pytest.raises(autoscale.RequestError, match=r"^expected a list of nodearray definitions"):
        autoscale.update(wrong)
    with pytest.raises(autoscale.RequestError, match=r"^jobs: expected a list, found"):
        autoscale.scale_by_jobs(wrong)
    assert site.nodes() == {}


@pytest.mark.parametrize("count", [{}, {"corecount": 1, "instancecount": 1}, {"corecount": "x"}])
def test_set_wants_one_number(site, count):
    """Neither of them, both, and something else are mistakes."""
    with pytest.raises(autoscale.RequestError):
        autoscale.set("gpu", **count)
    assert site.sets() == {}


def test_names_of_sets(site):
    """Are texts."""
    with pytest.raises(autoscale.RequestError, match="request_set"):
        autoscale.update([], request_set="")


def test_a_server_that_cannot_be_reached(site):
    """Is an error, but the wish is kept: the next pass serves it."""
    site.simulator.faults.add("status", endpoint="*", status=503)
    with pytest.raises(autoscale.NotServedError, match="standard is recorded"):
        autoscale.set("gpu", instancecount=2)
    site.simulator.faults.clear()
    site.later(30)
    site("autoscale")
    assert site.nodes() == {"gpu": 2}


def test_a_create_that_fails(site):
    """Is an error of the call, and the wish stands."""
    site.simulator.faults.add("status", endpoint="create_nodes", status=500, times=1)
    with pytest.raises(autoscale.NotServedError, match="starting nodes"):
        autoscale.set("gpu", instancecount=2)
    autoscale.set("gpu", instancecount=2)
    assert site.nodes() == {"gpu": 2}


def test_a_file_that_cannot_be_read(site):
    """Ends the pass before it changes anything: nobody knows what is wanted."""
    autoscale.set("gpu", instancecount=2)
    (site.home / "requestsets.db").write_text("broken " * 1000)
    site.later(4000)
    site("autoscale", code=1)
    assert "it is damaged" in site.errors
    assert site.nodes() == {"gpu": 2}


CODE = "import hpc.autoscale.jetpack as a; a.set('gpu', instancecount=4)"


@pytest.mark.parametrize("late", ["get_nodes", "create_nodes"])
def test_killed_on_the_way(site, late):
    """kill -9 between the wish and the create, or before its reply: nothing is lost, and nothing is
    created twice."""
    clock.use_clock(clock.Clock())
    site.simulator.faults.add("latency", endpoint=late, seconds=3, times=1)
    process = site.start(CODE)
    try:
        until(site.sets if late == "get_nodes" else lambda: site.created() == 4)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    site.simulator.faults.clear()
    assert site.sets() == {"standard": [{"Name": "gpu", "TargetCount": 4}]}
    site("autoscale")
    assert site.nodes() == {"gpu": 4}
    assert site.created() == 4


def test_reporters_at_the_same_time(site):
    """Each of them is served at once, by itself or by the one that holds the lock."""
    clock.use_clock(clock.Clock())
    wish = "[{{'Name': 'gpu', 'TargetCount': 1}}]"
    code = f"import hpc.autoscale.jetpack as a; a.update({wish}, '{{}}')"
    running = [site.start(code.format(name)) for name in "abcd"]
    for process in running:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    assert site.nodes() == {"gpu": 4}
    assert site.created() == 4


# -- which cluster


def test_where_the_configuration_is_found(site, monkeypatch, tmp_path):
    """By `configure`, else $AUTOSCALE_CONFIG, else in $AUTOSCALE_HOME."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError, match=r"expected autoscale\.json at .*nowhere"):
        autoscale.set("gpu", instancecount=1)
    monkeypatch.setenv("AUTOSCALE_CONFIG", str(site.path))
    autoscale.set("gpu", instancecount=1)
    assert (site.home / "requestsets.db").exists()
    monkeypatch.setenv("AUTOSCALE_CONFIG", "/no/such/file")
    for path in (site.path, str(site.path)):
        autoscale.configure(path)
        autoscale.set("gpu", instancecount=2)
    autoscale.configure(["autoscale.json"])
    with pytest.raises(RuntimeError, match="expected a configuration as a mapping, or the path"):
        autoscale.set("gpu", instancecount=2)
    own = {**json.loads(site.path.read_text()), "nodehistorydb": str(tmp_path / "own" / "h.db")}
    (tmp_path / "own").mkdir()
    autoscale.configure({**own, "lock_file": None})
    autoscale.set("gpu", instancecount=3)
    assert (tmp_path / "own" / "requestsets.db").exists()
    assert site.nodes() == {"gpu": 3}


# -- the command line


def test_the_command(site):
    """Wants and prints; as a table, or as JSON."""
    out = site("request", "--name=execute", "--corecount=128", "-F", "json")
    (row,) = json.loads(out)
    assert (row["nodearray"], row["cores"], row["state"]) == ("execute", 128, "standing")
    assert site.nodes() == {"execute": 32}
    site("request", "--name", "gpu", "--instancecount", "2", "--request-set", "other")
    assert site.nodes() == {"execute": 32, "gpu": 2}


def test_the_command_with_a_file(site):
    """Which has a list of definitions."""
    file = site.home / "arrays.json"
    file.write_text(json.dumps([{"Name": "gpu", "TargetCount": 2}, {"Name": "viz"}]))
    site("request", f"--file={file}", "--expiration", "900")
    assert site.nodes() == {"gpu": 2}
    site.later(899)
    listed = json.loads(site("request", "list", "-F", "json"))
    assert [(row["nodearray"], row["instances"], row["state"]) for row in listed] == [
        ("gpu", 2, "standing"),
        ("viz", 0, "standing"),
    ]
    site.later(1)
    assert "lapsed" in site("request", "list")


def test_one_is_listed_as_one(site):
    """An instance and a core, not instances and cores."""
    arrays = [{"Name": "gpu", "TargetCount": 1}, {"Name": "execute", "TargetCoreCount": 1}]
    file = site.home / "arrays.json"
    file.write_text(json.dumps(arrays))
    site("request", f"--file={file}")
    rows = [line.split()[1:4] for line in site("request", "list").splitlines()[1:]]
    assert rows == [["gpu", "1", "instance"], ["execute", "1", "core"]]


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        ([], "expected --corecount, --instancecount or --file", 2),
        (["--corecount=1", "--instancecount=1"], "--corecount or --instancecount, found both", 2),
        (["--corecount=-1"], "--corecount: expected a whole number of 0 or more, found '-1'", 2),
        (["--instancecount=-4"], "expected a whole number of 0 or more, found '-4'", 2),
        (["--corecount=1", "--name=gpuu"], "found 'gpuu'; did you mean 'gpu'?", 2),
        (["--corecount=1", "--name="], "Name: expected the name of a nodearray, found ''", 2),
        (["--corecount=1", "--request-set="], "request_set: expected a name, found ''", 2),
        (["--corecount=1", "--file=x"], "not both", 2),
        (["--file=/no/such"], "/no/such: there is no such file", 1),
        (["--corecount=1", "--expiration=-3"], "expected a number of seconds from 0 to 1e+11", 2),
        (["--corecount=1", "--expiration=1e308"], "from 0 to 1e+11, found '1e308'", 2),
    ],
)
def test_a_wrong_command(site, args, said, code):
    """Is one line, with exit code 1, or 2 where the command line makes no sense."""
    site("request", *args, code=code)
    assert said in site.errors
    assert len(site.errors.splitlines()) == 1
    assert site.sets() == {}


@pytest.mark.parametrize("text", ["[", "[" * 100_000])
def test_a_file_that_is_no_json(site, text):
    """Is named."""
    (site.home / "x.json").write_text(text)
    site("request", f"--file={site.home / 'x.json'}", code=1)
    assert "expected a JSON list of definitions" in site.errors


def test_the_command_while_a_loop_runs(site):
    """Says who serves it."""
    with _held(site):
        site("request", "--name=gpu", "--instancecount=1")
    assert "whoever holds the lock serves it" in site.errors


def test_as_jetpack_has_it(site, monkeypatch):
    """`python -m hpc.autoscale.jetpack autoscale`, with the same options."""
    monkeypatch.setenv("AUTOSCALE_CONFIG", str(site.path))
    run(["autoscale", "--corecount=100"])
    run(["autoscale", "--instancecount", "5", "--name=gpu", "--request-set=gpus"])
    assert site.nodes() == {"execute": 25, "gpu": 5}
    with pytest.raises(SystemExit) as end:
        run(["shutdown"])
    assert end.value.code == 2
    assert "usage" in site.capsys.readouterr().err


def test_why(site):
    """`azscale analyze` explains a wish as it explains a job."""
    site("request", "--name=few", "--instancecount=5")
    out = site("analyze", "-j", "request:standard/few")
    assert "is assigned to the following nodes:" in out
    assert "2 slots short" in out
