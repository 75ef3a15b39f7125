"""Commands about the cluster and its nodes, over a cluster in memory."""

import io
import json
import re
from datetime import datetime

import pytest

from builders.grid_cli import grid as grid
from hpc.autoscale.ccbindings.errors import Conflict
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.testing import a_job

BIG = "--output-format=json"


# -- looking at the cluster


def test_buckets(grid):
    """What can be started, with its resources and how many there may be."""
    plain, *groups = grid.json("buckets", BIG)
    assert (plain["nodearray"], plain["vm_size"], plain["placement_group"]) == (
        "htc",
        "Standard_F4s",
        None,
    )
    assert (plain["available_count"], plain["ncpus"]) == (10, 4)
    assert not {"memb", "memkb", "memmb", "memtb"} & set(plain)
    assert [bucket["placement_group"] for bucket in groups] == [
        "Standard_F4s_pg0",
        "Standard_F4s_pg1",
    ]


def test_buckets_that_satisfy_constraints(grid):
    """With columns or without; limits are columns as well."""
    assert len(grid.json("buckets", BIG, "-C", "node.placement_group=null")) == 1
    assert grid.json("buckets", BIG, "-C", "ncpus=64") == []
    out = grid("buckets", "-C", "node.placement_group=null", "-o", "family_max_count,name")
    assert out.split() == ["NAME", "FAMILY_MAX_COUNT", "htc-0", "250000"]


@pytest.mark.parametrize(
    "argv",
    [["buckets"], ["nodes"], ["demand"], ["autoscale"], ["create_nodes", "-d"]],
    ids=lambda argv: argv[0],
)
def test_columns_that_nothing_has(grid, argv):
    """Are empty, and named on stderr with a guess; those that some node could have are not."""
    known = "name,n@/ncpus,*memgb,job_ids,available_count,instance_id[:3],state:none,Ncpus"
    node = SchedulerNode("onprem-1", {"licences": 1})
    node.metadata["rack"] = node.metadata[7] = "7"
    grid.scheduler.hosts = [node]
    grid(*argv, "-o", known + ("" if argv[0] in ("buckets", "create_nodes") else ",rack,licences"))
    assert "column" not in grid.errors
    grid(*argv, "-o", "nam,*ncpu,x@zzz")
    said = [line for line in grid.errors.splitlines() if line.startswith("column")]
    assert said == [
        "column 'nam': no node has anything called 'nam'; did you mean 'name'?",
        "column '*ncpu': no node has anything called 'ncpu'; did you mean 'ncpus'?",
        "column 'x@zzz': no node has anything called 'zzz'",
    ]


def test_columns_with_a_default(grid):
    """Are no doubt: whoever gives one expects that there may be no value."""
    grid.cluster.add_node("htc-1", "htc", state="Ready")
    assert grid("nodes", "-o", "name,foo:bar").split() == ["NAME", "FOO", "htc-1", "bar"]
    assert grid.errors == ""


@pytest.mark.parametrize("command", ["buckets", "nodes", "create_nodes"])
def test_resources_that_nothing_has(grid, command):
    """Are named on stderr with a guess, wherever in a constraint they are."""
    grid.cluster.add_node("htc-1", "htc", state="Ready")
    options = ["-d"] if command == "create_nodes" else []
    grid(command, "-C", '{"or": [{"ncpu": 1}, {"ncpus": 1}]}', "-C", "node.nodearray=htc", *options)
    assert grid.errors == "no node has a resource 'ncpu'; did you mean 'ncpus'?\n"
    grid(command, "-C", '{"not": {"ncpus": 5}}', *options)
    assert grid.errors == ""


@pytest.mark.parametrize("command", ["buckets", "nodes", "create_nodes"])
@pytest.mark.parametrize("name", ["nodearray", "node.nodearray"])
def test_nodearrays_that_the_cluster_does_not_have(grid, command, name):
    """Are named on stderr with a guess."""
    options = ["-d"] if command == "create_nodes" else []
    code = 1 if command == "create_nodes" else 0
    said = "no node is in a nodearray 'htcc', and none could be; did you mean 'htc'?\n"
    grid(command, "-C", f'{{"{name}": "htcc"}}', *options, code=code)
    assert grid.errors.startswith(said)
    grid(command, "-C", f'{{"{name}": ["h*", "htc"]}}', *options)
    assert grid.errors == ""


def test_limits_in_constraints_of_buckets(grid):
    """Limits are resources there, as far as bounds, choices and conditions go, and no typos."""
    plain = "node.placement_group=null"
    assert len(grid.json("buckets", BIG, "-C", "available_count=10", "-C", plain)) == 1
    assert grid.json("buckets", BIG, "-C", "available_count=11", "-C", plain) == []
    assert grid.json("buckets", BIG, "-C", '{"not": {"available_count": 10}}', "-C", plain) == []
    either = '{"or": [{"family_available_count": 300000}, {"nodearray_max_count": 1}]}'
    assert len(grid.json("buckets", BIG, "-C", either, "-C", plain)) == 1
    assert grid.errors == ""
    grid("buckets", "-C", "availble_count=10")
    assert "'availble_count'; did you mean 'available_count'?" in grid.errors


def test_buckets_do_not_change_what_can_be_asked_for(grid):
    """Limits are resources for the command `buckets` alone: no node has them."""
    grid("buckets")
    grid("create_nodes", "-d", "-C", "available_count=1", code=1)
    assert "available_count" in grid.errors


def test_a_placement_group_that_has_no_name(grid):
    """Is refused before anything is planned or created."""
    for name in ("bad name", "a/b"):
        grid("create_nodes", "-a", "htc", "-p", name, code=1)
        assert f"expected letters, digits, _ and - in a placement group, found {name!r}" in (
            grid.errors
        )
    assert not grid.cluster.nodes


@pytest.mark.parametrize("array", [(), ("-a", "odd")])
def test_a_placement_group_of_the_cluster_may_have_any_name(grid, array):
    """Only names of new ones are held to the rule."""
    grid.cluster.add_nodearray("odd", {}, location="westus2")
    grid.cluster.add_bucket("odd", "Standard_F4s", 10, 10, placement_groups=["rack 7.b"])
    grid("create_nodes", *array, "-p", "rack 7.b", "-n", "2")
    rows = grid.json("nodes", BIG, "-o", "placement_group")
    assert [row["placement_group"] for row in rows] == ["rack 7.b"] * 2


@pytest.mark.parametrize("given", ["[1]", "5", "0", '"text"', "true", "[]"])
@pytest.mark.parametrize(
    ("option", "name"), [("-S", "--software-configuration"), ("-O", "--node-attribute-overrides")]
)
def test_overrides_that_are_no_objects(grid, option, name, given):
    """Are refused with their option before anything is read, planned or locked."""
    grid.cluster.get_cluster_status = None  # nobody asks
    grid("create_nodes", option, given, code=1)
    assert f"{name}: expected an object, found {given}" in grid.errors


def test_a_configuration_among_overrides_that_is_no_object(grid):
    """Is refused as well; where there is none it is made of what -S gives."""
    grid("create_nodes", "-S", '{"a": 1}', "-O", '{"Configuration": 5}', code=1)
    said = "--node-attribute-overrides: Configuration: expected an object, found 5"
    assert said in grid.errors
    grid("create_nodes", "-S", "null", "-O", "null", "-d")
    grid("create_nodes", "-S", '{"autoscale": {"resources": 5}}', code=1)
    assert "attributes of the nodes: resources: expected an object, found 5" in grid.errors
    assert not grid.cluster.nodes


def test_limits(grid):
    """Every limit of every bucket, as JSON unless asked otherwise."""
    rows = grid.json("limits")
    assert rows[0]["regional_quota_core_count"] == 1_000_000
    assert rows[0]["nodearray_available_count"] == 100_000
    assert rows[0]["placement_group_max_count"] == -1
    base = (
        "nodearray placement_group vm_size vm_family vcpu_count pcpu_count memory available_count"
    )
    assert list(rows[0])[:8] == base.split()
    assert rows[0]["vm_family"] == "standardFSFamily"
    resources = "ncpus pcpus ngpus memb memkb memmb memgb memtb"
    assert set(resources.split()) <= set(rows[0])
    assert len({rows[0][name] for name in ("memb", "memkb", "memmb", "memtb")}) == 4
    assert not {"memb", "vm_family"} & set(grid.json("buckets", BIG)[0])
    assert "REGIONAL_QUOTA_CORE_COUNT" in grid("limits", "-F", "table")


def test_nodes(grid):
    """All, or those that satisfy constraints."""
    grid.cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    grid.cluster.add_node("htc-2", "htc", state="Preparing")
    assert [node["name"] for node in grid.json("nodes", BIG)] == ["htc-1", "htc-2"]
    assert [n["name"] for n in grid.json("nodes", BIG, "-C", "node.state=Ready")] == ["htc-1"]
    lines = grid("nodes", "-o", "state,vm_size[-3:],name").splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "htc-1", "htc-2"]
    assert list(grid.json("nodes", BIG, "-o", "state,name")[0]) == ["name", "state"]


def test_the_status_as_cyclecloud_gives_it(grid):
    """With nodes, when they are asked for."""
    grid.cluster.add_node("htc-1", "htc")
    assert "nodes" not in grid.json("debug_cluster_status")
    assert grid.json("debug_cluster_status", "--nodes")["nodes"][0]["Name"] == "htc-1"


def test_validating_constraints(grid):
    """Merged where they do not overlap; JSON on stdout, words on stderr."""
    assert grid.json("validate_constraint", "-C", "ncpus=2", "-C", "node.nodearray=htc") == {
        "ncpus": 2,
        "node.nodearray": "htc",
    }
    assert "ncpus" in grid.errors
    merged = grid.json("validate_constraint", "-C", "ncpus=2", "-C", '{"ncpus": 3}')
    assert merged == [{"ncpus": 2}, {"ncpus": 3}]
    assert grid.json("validate_constraint") == []


def test_a_constraint_that_makes_no_sense(grid):
    """Is one line that says where."""
    grid("validate_constraint", "-C", '{"or": [{"a": 1}, {"node.vmsize": "x"}]}', code=1)
    assert "or[1].node.vmsize" in grid.errors
    assert len(grid.errors.splitlines()) == 1


def test_connect_is_silent(grid):
    """When all is well."""
    assert grid("connect") == ""
    assert grid.errors == ""


def test_a_nodearray_without_buckets(grid):
    """Is named; what can be used is listed all the same."""
    grid.cluster.add_nodearray("empty", {})
    grid("connect", code=1)
    assert "nodearray empty: expected at least one bucket" in grid.errors
    assert "Standard_F4s" in grid("buckets", code=1)
    assert len(grid.errors.splitlines()) == 1
    grid("create_nodes", "-a", "empty", code=1)
    assert "nodearray empty: expected at least one bucket" in grid.errors


# -- creating


def names(rows):
    """Names of nodes."""
    return [row["name"] for row in rows]


def test_creating_nodes(grid):
    """One, or so many, or for so many slots."""
    assert names(grid.json("create_nodes", BIG)) == ["htc-1"]
    assert names(grid.json("create_nodes", "-n", "2", BIG)) == ["htc-2", "htc-3"]
    rows = grid.json("create_nodes", "-s", "5", "-C", "ncpus=1", BIG)
    assert names(rows) == ["htc-4", "htc-5"]
    assert len(grid.cluster.nodes) == 5


def test_creating_nodes_with_everything(grid):
    """Attributes and configuration, keep alive, in a placement group that is made for it."""
    rows = grid.json(
        *("create_nodes", "-a", "htc", "-v", "Standard_F4s", "-p", "mine", "-k", "-x", BIG),
        *("-S", '{"slurm": {"hpc": true}}', "-O", '{"Zone": "1"}', "-t", "pack"),
        *("-o", "name,placement_group"),
    )
    assert rows == [{"name": "htc-1", "placement_group": "mine"}]
    node = grid.cluster.nodes["htc-1"]
    assert node.keep_alive
    assert node.software_configuration["slurm"] == {"hpc": True}


def test_creating_more_nodes_than_there_may_be(grid):
    """Creates none, and says how many there may be, which limit stops the rest and what was asked
    of it; a dry run says the same."""
    for more in ([], ["--dry-run"]):
        assert grid("create_nodes", "-n", "1000", *more, code=1) == ""
        said = (
            "only 10 of 1000 nodes can be created, and none was created: CycleCloud allows 10 nodes"
            " of htc/Standard_F4s in all, and 1000 are needed"
        )
        assert said in grid.errors
        assert grid("create_nodes", "-s", "50", "-C", "ncpus=1", *more, code=1) == ""
        said = "only 40 of 50 slots can be had, and none was created: CycleCloud allows 10 nodes"
        assert f"{said} of htc/Standard_F4s in all, and 13 are needed" in grid.errors
        assert not grid.cluster.nodes
    assert len(grid.json("create_nodes", "-n", "10", BIG)) == 10


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["-X"], 8),
        (["-X", "-C", "ncpus=1"], 8),
        (["-x", "-C", "ncpus=1"], 2),
        (["-C", "ncpus=1"], 2),
    ],
)
def test_creating_a_node_for_each_task(grid, options, count):
    """As many nodes as slots, whatever a slot needs; otherwise as few as hold them."""
    assert len(grid.json("create_nodes", "-s", "8", "-d", BIG, *options)) == count


def test_nodes_that_did_not_come_into_being(grid, monkeypatch):
    """Although there was room for them: those that did are printed, and the end is not 0."""
    create = grid.cluster.create_nodes

    def create_one(nodes, *args, **kwargs):
        return create(list(nodes)[:1], *args, **kwargs)

    monkeypatch.setattr(grid.cluster, "create_nodes", create_one)
    assert names(json.loads(grid("create_nodes", "-n", "3", BIG, code=1))) == ["htc-1"]
    assert "only 1 of 3 nodes were created: " in grid.errors


def test_no_nodes_where_there_may_be_no_more(grid):
    """The limit is all that is said, and nothing of buckets that were not asked for."""
    grid("create_nodes", "-n", "10")
    for number in (["-n", "1"], ["-s", "1"]):
        grid("create_nodes", *number, code=1)
        assert (
            "cluster clusty: no nodes can be created: CycleCloud has room for no more nodes of"
            " htc/Standard_F4s (at most 10)'" in grid.errors
        )
        assert "placement_group" not in grid.errors


def test_slots_that_fit_nowhere(grid):
    """Is an error with the reason."""
    grid("create_nodes", "-s", "1", "-C", "ncpus=64", code=1)
    assert "no nodes can be created" in grid.errors
    assert "ncpus" in grid.errors


def test_only_saying_what_would_be_created(grid):
    """Creates nothing."""
    assert names(grid.json("create_nodes", "-d", "-n", "3", BIG)) == ["htc-1", "htc-2", "htc-3"]
    assert not grid.cluster.nodes


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-n", "1", "-s", "1"], "either --nodes or --slots"),
        (["-n", "0"], "--nodes: expected 1 or more, found 0"),
        (["-s", "-2"], "--slots: expected 1 or more, found -2"),
        (["-a", "hpc"], "has no nodearray 'hpc': expected one of htc"),
        (["-v", "Standard_F8s"], "no VM size 'Standard_F8s': expected one of Standard_F4s"),
    ],
)
def test_nodes_that_cannot_be_created(grid, args, said):
    """What is wrong; with fewer than asked for, none."""
    grid("create_nodes", *args, code=1)
    assert said in grid.errors
    assert not grid.cluster.nodes


# -- deleting and joining


@pytest.fixture
def two_nodes(grid):
    """htc-1 on host-1, which has a job, and htc-2 on host-2."""
    for number in (1, 2):
        grid.cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    busy = SchedulerNode("host-1", {})
    busy.assign("running")
    grid.scheduler.hosts = [busy, SchedulerNode("host-2", {})]
    return grid


def add_third(grid):
    """htc-3 on host-3, which is returned; it has no job."""
    grid.cluster.add_node("htc-3", "htc", state="Ready", hostname="host-3")
    grid.scheduler.hosts.append(SchedulerNode("host-3", {}))
    return grid.scheduler.hosts[-1]


@pytest.mark.parametrize("command", ["nodes", "demand", "autoscale"])
def test_names_of_jobs_that_are_numbers_and_texts(two_nodes, command):
    """A driver may note both on a host: they are listed."""
    for name in (17, "array"):
        two_nodes.scheduler.hosts[1].assign(name)
    assert "17,array" in two_nodes(command, "-o", "name,job_ids")


def test_jobs_with_metadata_that_json_does_not_know(two_nodes):
    """They are printed as text."""
    job = a_job("17")
    job.metadata.update(begin=datetime(2026, 1, 31), tags={"b", "a"})
    host = SchedulerNode("host-1")
    two_nodes.scheduler._read_jobs_and_nodes = lambda config: ([job], [host])
    (found,) = json.loads(two_nodes("jobs"))
    (analyzed,) = json.loads(two_nodes("analyze", "-l", "-j", "17", "-F", "json"))["jobs"]
    assert analyzed["metadata"] == found["metadata"]
    assert found["metadata"] == {"begin": "2026-01-31 00:00:00", "tags": ["a", "b"]}


def test_deleting_nodes(two_nodes):
    """By name or host name, in any case of letters; what is done is said in blocks."""
    lines = two_nodes("delete_nodes", "-N", "HTC-2").splitlines()
    assert [line for line in lines if not line.startswith("    ")] == [
        "Drained the following nodes:",
        "Deleting the following nodes:",
        "Removed the following nodes from grid:",
    ]
    assert all("htc-2" in line for line in lines if line.startswith("    "))
    assert two_nodes.cluster.nodes["htc-2"].target_state == "Terminated"
    assert two_nodes.cluster.nodes["htc-1"].target_state == "Started"


@pytest.mark.parametrize("command", ["delete_nodes", "remove_nodes"])
def test_a_list_of_names_with_spaces(two_nodes, command):
    """They belong to no name: a host that has a job is not taken for one that nobody knows."""
    for option, names in (("-H", "host-2, host-1"), ("-N", "htc-2, htc-1")):
        assert not two_nodes(command, option, names, code=1)
        assert "node htc-1 has jobs: running" in two_nodes.errors
    two_nodes(command, "-H", "host-2, ", code=1)
    assert "expected a host name, found an empty one" in two_nodes.errors
    assert "htc-2" in two_nodes(command, "-N", " htc-2 ")


@pytest.mark.parametrize("command", ["delete_nodes", "remove_nodes"])
def test_work_that_starts_while_nodes_are_drained_keeps_them(two_nodes, command):
    """The scheduler is asked again after the drain; the others go."""
    host = add_third(two_nodes)
    two_nodes.scheduler.meanwhile = lambda: host.assign("sudden")
    out = two_nodes(command, "-N", "htc-2,htc-3", code=1)
    assert "left alone, and drained: htc-3: has work, or may have [HasJobs]" in two_nodes.errors
    went = out[out.index("Removed the following") :]
    assert ("htc-2" in went, "htc-3" in went) == (True, False)
    assert two_nodes.cluster.nodes["htc-3"].target_state == "Started"


def test_a_node_that_is_kept_since_a_moment_stays(two_nodes):
    """The cluster is asked again, too."""
    node = two_nodes.cluster.nodes["htc-2"]
    two_nodes.scheduler.meanwhile = lambda: setattr(node, "keep_alive", True)
    two_nodes("delete_nodes", "-N", "htc-2", code=1)
    assert "[KeepAlive]" in two_nodes.errors
    assert node.target_state == "Started"


def test_nothing_goes_when_the_scheduler_is_silent_after_the_drain(two_nodes):
    """That nodes are drained by then is said; who insists does not need its word."""
    scheduler = two_nodes.scheduler

    def away():
        scheduler.hosts = None  # what it reads then raises

    scheduler.meanwhile = away
    two_nodes("delete_nodes", "-N", "htc-2", code=1)
    assert "nothing was deleted, and htc-2 stay drained" in two_nodes.errors
    assert two_nodes.cluster.nodes["htc-2"].target_state == "Started"
    scheduler.hosts = []
    two_nodes("delete_nodes", "-N", "htc-2", "--force")
    assert two_nodes.cluster.nodes["htc-2"].target_state == "Terminated"


def test_nodes_that_are_needed_are_not_deleted(two_nodes):
    """Unless one insists."""
    two_nodes("delete_nodes", "-H", "host-1", code=1)
    assert "node htc-1 has jobs: running (--force" in two_nodes.errors
    two_nodes("delete_nodes", "-H", "host-1.example", "--force")
    assert two_nodes.cluster.nodes["htc-1"].target_state == "Terminated"


@pytest.mark.parametrize(
    "command", ["delete_nodes", "remove_nodes", "restart_nodes", "reimage_nodes"]
)
def test_nodes_at_work_are_left_as_they_are(two_nodes, command):
    """Whether a job runs there or is about to; unless one insists."""
    before = vars(two_nodes.cluster.nodes["htc-2"]).copy()
    two_nodes.scheduler.hosts.pop()  # nothing is known of host-2 but what CycleCloud says
    two_nodes.scheduler.queue("waiting", slots=8)
    for name, why in (("htc-1", "has jobs: running"), ("htc-2", "is about to get jobs: waiting")):
        two_nodes.scheduler.read_jobs_and_nodes({}, force=True)  # as each process of its own does
        two_nodes(command, "-N", name, code=1)
        assert f"node {name} {why} (--force to do it nevertheless)" in two_nodes.errors
    assert vars(two_nodes.cluster.nodes["htc-2"]) == before
    assert "htc-2" in two_nodes(command, "-N", "htc-2", "--force")


@pytest.mark.parametrize("called", ["HOST-2.example", "HTC-2"])
def test_a_job_that_runs_is_known_by_its_hosts_as_well(two_nodes, called):
    """Where the scheduler lists them with the job, and not the job with them; also by the names of
    nodes, where no host has these."""
    job = Job("7", {"ncpus": 1}, executing_hostnames=[called])
    job.metadata["job_state"] = "running"
    two_nodes.scheduler.jobs.append(job.to_dict())
    two_nodes("delete_nodes", "-H", "host-2", code=1)
    assert "node htc-2 has jobs: 7" in two_nodes.errors


@pytest.fixture
def known_otherwise(two_nodes):
    """htc-2 is known to the scheduler as exec-2, by its NodeId."""
    node_id = two_nodes.cluster.nodes["htc-2"].delayed_node_id.node_id
    two_nodes.scheduler.hosts[1] = SchedulerNode("exec-2", {"ccnodeid": node_id})
    return two_nodes


@pytest.mark.parametrize("command", ["delete_nodes", "restart_nodes"])
@pytest.mark.parametrize("meant", [["-N", "htc-2"], ["-H", "host-2"], ["-H", "EXEC-2.example"]])
def test_a_host_that_the_scheduler_calls_otherwise(known_otherwise, command, meant):
    """Is its node by both names; what the scheduler says of the host keeps the node."""
    grid, (_, host) = known_otherwise, known_otherwise.scheduler.hosts
    job = Job("7", {"ncpus": 1}, executing_hostnames=["exec-2.example"])
    job.metadata["job_state"] = "running"
    grid.scheduler.jobs.append(job.to_dict())
    grid(command, *meant, code=1)
    assert "node htc-2 has jobs: 7 (--force" in grid.errors
    grid.scheduler.jobs.clear()
    host.metadata["_running_job_"] = True
    grid(command, *meant, code=1)
    assert "node htc-2 has jobs (--force" in grid.errors
    host.metadata.clear()
    assert "htc-2" in grid(command, *meant)
    assert "host" not in grid.errors


def test_a_host_name_of_one_node_that_the_scheduler_gives_another(known_otherwise):
    """Means neither of them."""
    _, host = known_otherwise.scheduler.hosts
    known_otherwise.scheduler.hosts = [SchedulerNode("host-1", host.resources)]
    known_otherwise("delete_nodes", "-H", "host-1", code=1)
    assert "host name host-1 stands for 2 nodes: htc-1 (Ready" in known_otherwise.errors


def test_nodes_that_are_only_planned_are_none(two_nodes):
    """They are not among all, and have no name to be meant by."""
    two_nodes.scheduler.queue("waiting", slots=12)
    out = two_nodes("delete_nodes", "-N", "*", "--force")
    assert "htc-2" in out
    assert "htc-3" not in out
    two_nodes("delete_nodes", "-N", "htc-3", "--force", code=1)
    assert "there is no node 'htc-3'" in two_nodes.errors


@pytest.mark.parametrize("command", ["delete_nodes", "remove_nodes", "join_nodes", "restart_nodes"])
def test_a_host_name_that_stands_for_two_nodes(grid, command):
    """Means neither of them: both are named; their own names tell them apart."""
    for number in (1, 2):
        grid.cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname="x")
    before = {name: vars(node).copy() for name, node in grid.cluster.nodes.items()}
    grid(command, "-H", "x", code=1)
    said = r"host name x stands for 2 nodes: htc-1 \(Ready, \S+\), htc-2 \(Ready, \S+\)"
    assert re.search(said, grid.errors)
    assert {name: vars(node) for name, node in grid.cluster.nodes.items()} == before
    out = grid(command, "-N", "htc-2")
    assert ("htc-2" in out, "htc-1" in out) == (True, False)


@pytest.mark.parametrize("command", ["delete_nodes", "restart_nodes"])
def test_jobs_of_a_host_that_is_another_node_are_not_those_of_its_namesake(grid, command):
    """The host says which node it is; the job there keeps that one."""
    for number in (1, 2):
        grid.cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    other = grid.cluster.nodes["htc-2"].delayed_node_id.node_id
    grid.scheduler.hosts = [SchedulerNode("host-1", {"ncpus": 4, "ccnodeid": other})]
    job = Job("7", {"ncpus": 1}, executing_hostnames=["host-1"])
    job.metadata["job_state"] = "running"
    grid.scheduler.jobs.append(job.to_dict())
    assert "htc-1" in grid(command, "-N", "htc-1")
    grid(command, "-N", "htc-2", code=1)
    assert "htc-2 has jobs: 7" in grid.errors


@pytest.mark.parametrize("command", ["delete_nodes", "restart_nodes"])
def test_of_two_nodes_with_one_host_name_the_one_that_exists_is_meant(grid, command):
    """The other rests, and has no machine of that name."""
    grid.cluster.add_node("htc-1", "htc", state="Deallocated", hostname="x")
    grid.cluster.add_node("htc-2", "htc", state="Ready", hostname="x")
    out = grid(command, "-H", "x")
    assert ("htc-2" in out, "htc-1" in out) == (True, False)


class Terminal(io.StringIO):
    """Somebody who types this."""

    def isatty(self):
        return True


@pytest.mark.parametrize("command", ["delete_nodes", "remove_nodes", "restart_nodes"])
@pytest.mark.parametrize("every", [["-N", "*"], ["-H", "*"]])
def test_all_nodes_on_a_terminal(grid, monkeypatch, command, every):
    """It is asked first; --force does not ask, and neither does a script."""
    grid.cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    for answer in ("\n", "n\n", ""):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        grid(command, *every, code=1)
        doing = command.removesuffix("_nodes").capitalize()
        assert grid.errors.startswith(f"{doing} the only node of clusty? [y/N] ")
        assert "nothing was done" in grid.errors
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert "htc-1" in grid(command, *every)
    for name in ("htc-2", "htc-3"):
        grid.cluster.add_node(name, "htc", state="Ready", hostname=name)
    monkeypatch.setattr("sys.stdin", Terminal(""))
    grid(command, *every, code=1)
    assert re.match(rf"{doing} all [23] nodes of clusty\?", grid.errors)
    assert "htc-2" in grid(command, *every, "--force")
    assert grid.errors == ""
    grid.cluster.add_node("htc-3", "htc", state="Ready", hostname="host-3")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "htc-3" in grid(command, *every)
    assert grid.errors == ""


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_nodes_to_keep_alive_are_not_deleted(grid, options):
    """Whoever insists, since CycleCloud refuses: nothing is drained, and what helps is said."""
    grid.cluster.add_node("htc-1", "htc", state="Ready", keep_alive=True)
    grid.scheduler.meanwhile = lambda: pytest.fail("something was drained")
    assert grid("delete_nodes", "-N", "htc-1", *options, code=1) == ""
    assert "kept alive" in grid.errors
    assert "clear KeepAlive of the node first" in grid.errors
    assert "to be kept" not in grid("delete_nodes", "--help")
    assert "to be kept" in grid("remove_nodes", "--help")


def test_nodes_to_keep_alive_can_be_removed(grid):
    """From the scheduler, where somebody insists: they are not deleted then."""
    grid.cluster.add_node("htc-1", "htc", state="Ready", keep_alive=True)
    grid("remove_nodes", "-N", "htc-1", code=1)
    assert "(--force to do it nevertheless) [KeepAlive]" in grid.errors
    assert "htc-1" in grid("remove_nodes", "-N", "htc-1", "--force")


def _keep(grid, *names):
    """Let nodes be kept alive from the moment on in which they are drained."""
    for name in names:
        grid.cluster.nodes[name].keep_alive = True


@pytest.mark.parametrize("kept", [["htc-1"], ["htc-1", "htc-2"]])
def test_nodes_that_cannot_be_deleted_are_undrained(two_nodes, monkeypatch, kept):
    """By a driver that can do that; the others go, and the error says why some do not."""
    undrained = []

    def handle_undraining(self, nodes):
        undrained.extend(node.name for node in nodes)
        return nodes

    monkeypatch.setattr(type(two_nodes.scheduler), "handle_undraining", handle_undraining)
    two_nodes.scheduler.meanwhile = lambda: _keep(two_nodes, *kept)
    out = two_nodes("delete_nodes", "-N", "htc-1,htc-2", "--force", code=1)
    assert undrained == kept
    assert "Undrained the following nodes:" in out
    assert "could not be deleted: cluster clusty: htc-1: KeepAlive is set" in two_nodes.errors
    removed = out.partition("Removed")[2]
    assert ("htc-2" in removed, "htc-1" in removed) == ("htc-2" not in kept, False)


def test_nodes_that_a_refusal_leaves_drained(two_nodes, monkeypatch):
    """Are undrained as well; a driver that cannot, or fails at it, leaves them to a person."""

    def refuse(*args, **known):
        raise Conflict("clusty", 409, "clear it first")

    def fail(self, nodes):
        raise RuntimeError("no connection")

    monkeypatch.setattr(two_nodes.cluster, "delete_nodes", refuse)
    two_nodes("delete_nodes", "-N", "htc-2", "--force", code=1)
    assert "`join_nodes` lets them in: htc-2\n" in two_nodes.errors
    assert "clear it first" in two_nodes.errors
    monkeypatch.setattr(type(two_nodes.scheduler), "handle_undraining", fail)
    two_nodes("delete_nodes", "-N", "htc-2", "--force", code=1)
    assert "lets them in: htc-2 (undraining nodes: no connection)" in two_nodes.errors
    assert "clear it first" in two_nodes.errors


@pytest.mark.parametrize("command", ["delete_nodes", "restart_nodes", "reimage_nodes"])
def test_refusals_have_their_code(two_nodes, command):
    """Work that runs, and work that is only planned, count alike for all of them."""
    two_nodes.scheduler.queue("waiting", slots=8)
    two_nodes(command, "-N", "htc-2", code=1)
    assert "htc-2 is about to get jobs: waiting (--force" in two_nodes.errors
    assert "[HasJobs]" in two_nodes.errors
    assert "htc-2" in two_nodes(command, "-N", "htc-2", "--force")


def test_a_terminated_cluster_gets_no_node_by_hand(grid):
    """The line has the code."""
    grid.cluster.target_state = "Terminated"
    grid("create_nodes", "-n", "2", code=1)
    assert "the target state of the cluster is Terminated [ClusterTerminated]" in grid.errors
    assert not grid.cluster.nodes


def test_nodes_that_do_not_drain_are_left_alone(two_nodes):
    """And named; a script sees by the exit code that not all went."""
    two_nodes.scheduler.refuses = {"htc-2"}
    add_third(two_nodes)
    out = two_nodes("delete_nodes", "-N", "htc-2,htc-3", code=1)
    assert "Deleting the following nodes:\n    Node(htc-3," in out
    assert "left alone, as still draining: htc-2 (Ready)" in two_nodes.errors
    assert two_nodes.cluster.nodes["htc-2"].target_state == "Started"


def test_all_nodes(two_nodes):
    """Are meant by *."""
    two_nodes("delete_nodes", "-N", "*", "--force")
    assert {node.target_state for node in two_nodes.cluster.nodes.values()} == {"Terminated"}


def test_nodes_that_a_driver_does_not_remove_are_named(two_nodes, monkeypatch):
    """As those that it does not let in."""
    add_third(two_nodes)
    monkeypatch.setattr(type(two_nodes.scheduler), "handle_post_delete", lambda _, nodes: nodes[:1])
    out = two_nodes("remove_nodes", "-N", "htc-2,htc-3", code=1)
    assert "Removed the following nodes from grid:\n    Node(htc-2," in out
    assert "the driver did not remove htc-3 (Ready)" in two_nodes.errors


def test_removing_nodes_leaves_them_running(two_nodes):
    """Permanently: they stay out until somebody says otherwise."""
    out = two_nodes("remove_nodes", "-N", "htc-2", "--permanent")
    assert "Removed the following nodes from grid:" in out
    assert two_nodes.cluster.nodes["htc-2"].target_state == "Started"
    history = two_nodes.scheduler.new_node_history(two_nodes.config)
    assert [hostname for _, hostname, *_ in history.find_ignored()] == ["host-2"]
    two_nodes("join_nodes", "-N", "htc-2", "--include-permanent")
    assert history.find_ignored() == []
    assert two_nodes.scheduler.joined[-1] == (["htc-2"], True)


def test_joining_nodes(two_nodes):
    """Those that are named."""
    out = two_nodes("join_nodes", "-H", "host-2")
    assert out.splitlines()[0] == "Joined the following nodes:"
    assert two_nodes.scheduler.joined == [(["htc-2"], False)]


@pytest.mark.parametrize("answer", [[], None])
def test_nodes_that_the_driver_does_not_let_in(two_nodes, monkeypatch, answer):
    """Are said, and the command has failed."""
    monkeypatch.setattr(two_nodes.scheduler, "add_nodes_to_cluster", lambda nodes: answer)
    two_nodes("join_nodes", "-H", "host-2", code=1)
    assert "the driver did not let in htc-2 (Ready)" in two_nodes.errors


@pytest.mark.parametrize(
    ("command", "hook"),
    [
        ("join_nodes", "add_nodes_to_cluster"),
        ("remove_nodes", "handle_draining"),
        ("remove_nodes", "handle_post_delete"),
    ],
)
def test_what_a_hook_raises_names_driver_and_hook(two_nodes, monkeypatch, command, hook):
    """Where it says nothing of itself, as in a pass."""

    def raising(self, nodes, *more):
        raise KeyError("slots")

    raising.__name__ = hook
    monkeypatch.setattr(type(two_nodes.scheduler), hook, raising)
    two_nodes(command, "-N", "htc-2", code=1)
    assert f"{two_nodes.scheduler}.{hook}: KeyError: 'slots'" in two_nodes.errors


@pytest.mark.parametrize(
    "command", ["delete_nodes", "remove_nodes", "join_nodes", "reimage_nodes", "restart_nodes"]
)
def test_nodes_must_be_named(grid, command):
    """Nothing is not all."""
    grid(command, code=1)
    assert "expected host names (-H) or node names (-N)" in grid.errors


def test_an_unknown_node(two_nodes):
    """Is an error, and nothing is done to the others."""
    two_nodes("delete_nodes", "-N", "htc-2,htc-22", code=1)
    assert "there is no node 'htc-22'" in two_nodes.errors
    assert two_nodes.cluster.nodes["htc-2"].target_state == "Started"


def test_an_unknown_host_is_one_that_only_the_scheduler_has(grid):
    """It is removed there."""
    assert "strange" in grid("delete_nodes", "-H", "strange")


@pytest.mark.parametrize(
    ("command", "state"), [("reimage_nodes", "Reimaging"), ("restart_nodes", "Restarting")]
)
def test_fresh_starts(two_nodes, command, state):
    """The nodes are listed."""
    assert "htc-2" in two_nodes(command, "-N", "htc-2")
    assert two_nodes.cluster.nodes["htc-2"].state == state


@pytest.mark.parametrize("command", ["reimage_nodes", "restart_nodes"])
def test_only_nodes_of_cyclecloud_can_start_afresh(two_nodes, command):
    """A host that it does not know is named; with nothing else to do that is an error."""
    assert "htc-2" in two_nodes(command, "-N", "htc-2", "-H", "strange")
    assert "no node with the host name strange" in two_nodes.errors
    two_nodes(command, "-H", "strange", code=1)
    assert "no node with the host name strange" in two_nodes.errors


def test_retrying_failed_nodes(grid):
    """Says nothing."""
    grid.cluster.add_node("htc-1", "htc", state="Failed")
    assert grid("retry_failed_nodes") == ""
    assert grid.cluster.nodes["htc-1"].state != "Failed"


def test_failed_nodes_of_a_cluster_that_ends_are_not_retried(grid):
    """The gate is asked for that command as for any other."""
    grid.cluster.add_node("htc-1", "htc", state="Failed")
    grid.cluster.target_state = "Terminated"
    grid("retry_failed_nodes", code=1)
    assert "nothing was retried: htc-1: the target state of the cluster" in grid.errors
    assert "[ClusterTerminated]" in grid.errors
    assert grid.cluster.nodes["htc-1"].state == "Failed"
