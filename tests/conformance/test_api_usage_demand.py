"""Section 11, second half: the demand calculator, its result, and printing it."""

import io
import json
import logging
from typing import get_args

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster, names
from builders.published import row
from hpc.autoscale import clock
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job import demandcalculator as dcalclib
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.demandprinter import OutputFormat, print_demand, print_rows
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES
from hpc.autoscale.node.nodehistory import NullNodeHistory, SQLiteNodeHistory
from hpc.autoscale.results import AllocationResult, DeleteResult
from hpc.autoscale.testing import a_config
from hpc.autoscale.util import MultipleInstancesError, NullSingletonLock, SingletonFileLock


@pytest.fixture
def cluster():
    """Ten nodes of four cores, two of which run: ip-1 and ip-2."""
    cluster = an_htc_cluster()
    for number in (1, 2):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"ip-{number}")
    return cluster


def a_calculator(cluster=None, **arguments):
    """A calculator without a history on disk."""
    arguments = {"node_history": NullNodeHistory(), **arguments}
    return new_demand_calculator(a_config(cluster or an_htc_cluster()), **arguments)


@row("demand.DemandResult")
def test_a_result_is_four_lists():
    """Given by position; compute nodes are matched, unmatched and failed ones, each once."""
    new, used, idle, failed = (a_planned_node(name=n) for n in ("new", "used", "idle", "failed"))
    result = DemandResult([new], [new, used], [idle], [failed, used])
    assert (result.new_nodes, result.matched_nodes, result.unmatched_nodes) == (
        [new],
        [new, used],
        [idle],
    )
    assert result.failed_nodes == [failed, used]
    assert names(result.compute_nodes) == ["new", "used", "idle", "failed"]
    assert isinstance(result.matched_nodes, list)


@row("demandcalculator.new")
def test_a_calculator_from_a_config_or_the_path_of_one(tmp_path, cluster):
    """Positional or by keyword; with the scheduler's nodes joined to the cluster's."""
    host = SchedulerNode("ip-1", {"ncpus": 4})
    host.available["ncpus"] = 1
    host.assign("9")
    config = a_config(cluster)
    status = cluster.get_cluster_status(nodes=True).to_dict()
    saved = {"cluster_name": "c", "_mock_bindings": {"cluster_response": status}}
    (tmp_path / "autoscale.json").write_text(json.dumps(saved))
    by_dict = new_demand_calculator(config=config, existing_nodes=[host])
    by_path = dcalclib.new_demand_calculator(str(tmp_path / "autoscale.json"), [host])
    for dcalc in (by_dict, by_path):
        demand = dcalc.finish()
        assert names(demand.matched_nodes) == ["htc-1"]
        assert demand.matched_nodes[0].available["ncpus"] == 1
        assert names(demand.unmatched_nodes) == ["htc-2"]


@row("demandcalculator.new")
def test_every_part_can_be_given(cluster):
    """Manager, history, queue and lock are those given."""
    node_mgr, history, queue = a_manager(cluster), NullNodeHistory(), NodeQueue()
    dcalc = new_demand_calculator(
        a_config(cluster),
        existing_nodes=None,
        node_mgr=node_mgr,
        node_history=history,
        node_queue=queue,
        singleton_lock=NullSingletonLock(),
    )
    dcalc.finish()
    assert (dcalc.node_mgr, dcalc.node_history) == (node_mgr, history)
    assert sorted(names(queue)) == ["htc-1", "htc-2"]


@row("demandcalculator.new")
def test_a_lock_of_none_takes_the_configured_one(tmp_path, cluster):
    """So that a second autoscaler stays out."""
    config = {**a_config(cluster), "lock_file": str(tmp_path / "lock")}
    held = SingletonFileLock(str(tmp_path / "lock"))
    with pytest.raises(MultipleInstancesError):
        new_demand_calculator(config, singleton_lock=None)
    held.unlock()
    assert new_demand_calculator(config).finish()


@row("demandcalculator.DemandCalculator")
@row("dcalc.node_mgr")
@row("dcalc.node_history")
def test_a_calculator_made_by_hand(cluster):
    """Three arguments by position; what was given can be read."""
    node_mgr, history = a_manager(cluster), NullNodeHistory()
    config = {"any": 1}
    dcalc = DemandCalculator(config, node_mgr, history, singleton_lock=NullSingletonLock())
    assert dcalc.node_mgr is node_mgr
    assert dcalc.node_history is history
    assert dcalc.config == config
    assert len(dcalc.finish().unmatched_nodes) == 2


@row("dcalc.add_job")
@row("dcalc.finish")
@row("dcalc.get_demand")
def test_demand_can_be_asked_for_at_any_time(cluster):
    """Jobs fill what runs before new nodes; matched nodes include the new ones."""
    dcalc = a_calculator(cluster)
    empty = dcalc.get_demand()
    dcalc.add_job(Job("1", {"ncpus": 1}, iterations=9))
    one = dcalc.get_demand()
    assert dcalc.add_job(Job("2", {"ncpus": 2}, iterations=1)) is None
    end = dcalc.finish()
    assert isinstance(end, DemandResult)
    assert (names(empty.unmatched_nodes), empty.new_nodes) == (["htc-1", "htc-2"], [])
    assert (names(one.new_nodes), sorted(names(one.matched_nodes))) == (
        ["htc-3"],
        ["htc-1", "htc-2", "htc-3"],
    )
    assert names(end.new_nodes) == ["htc-3"]
    assert [n.assignments for n in end.new_nodes] == [{"1", "2"}]


@row("dcalc.add_jobs")
def test_jobs_in_one_call_are_placed_one_after_another():
    """As several calls of add_job would."""
    jobs = [Job(str(i), {"ncpus": 3}) for i in range(3)]
    dcalc, one_by_one = a_calculator(), a_calculator()
    assert dcalc.add_jobs(jobs) is None
    for i in range(3):
        one_by_one.add_job(Job(str(i), {"ncpus": 3}))
    assignments = [
        [(n.name, n.assignments) for n in d.finish().new_nodes] for d in (dcalc, one_by_one)
    ]
    assert assignments[0] == assignments[1]
    assert len(assignments[0]) == 3


@row("dcalc._add_job")
def test_the_private_add_job_returns_the_result():
    """Upstream's tests look at it: partial packs succeed, scatters are all or nothing."""
    dcalc = a_calculator(an_htc_cluster(count=2))
    packed = dcalc._add_job(Job("1", {"ncpus": 1}, iterations=20))
    nothing = dcalc._add_job(Job("2", {"ncpus": 1}))
    scattered = a_calculator(an_htc_cluster(count=2))._add_job(Job("3", {"ncpus": 1}, node_count=3))
    assert isinstance(packed, AllocationResult)
    assert (bool(packed), len(packed.nodes)) == (True, 2)
    assert not nothing
    assert (bool(scattered), scattered.status) == (False, "CompoundFailure")


@row("dcalc.bootup")
def test_bootup_creates_all_new_nodes(cluster):
    """Without an argument; with a list those."""
    dcalc = a_calculator(cluster)
    dcalc.add_job(Job("1", {"ncpus": 4}, iterations=5))
    result = dcalc.bootup()
    assert names(result.nodes) == ["htc-3", "htc-4", "htc-5"]
    assert len(cluster.get_nodes().nodes) == 5
    assert dcalc.bootup([]).nodes is None


@row("dcalc.delete")
def test_delete_gives_up_the_nodes(cluster):
    """The result has those that the cluster took; with none, all unmatched ones."""
    dcalc = a_calculator(cluster)
    dcalc.add_job(Job("1", {"ncpus": 4}))
    given = dcalc.delete(dcalc.finish().unmatched_nodes)
    assert isinstance(given, DeleteResult)
    assert (bool(given), names(given.nodes)) == (True, ["htc-2"])
    assert names(a_calculator(cluster).delete().nodes) == ["htc-1"]
    assert cluster.get_nodes().nodes == []


def _pass(cluster, *jobs):
    """One pass with the history in its usual place."""
    dcalc = new_demand_calculator(a_config(cluster))
    for job in jobs:
        dcalc.add_job(job)
    dcalc.update_history()
    return dcalc


@row("dcalc.update_history")
@row("dcalc.find_unmatched_for")
def test_idle_nodes_are_found_by_a_number_or_by_node(cluster):
    """`at_least` is in seconds, or says so for each node; nodes with jobs are not idle."""
    now = clock.use_mock_clock()
    _pass(cluster)
    now.sleep(100)
    dcalc = _pass(cluster, Job("1", {"ncpus": 4}))
    by_number = [names(dcalc.find_unmatched_for(at_least=s)) for s in (99, 100, 300)]

    def by_name(node):
        return 50 if node.name == "htc-2" else 1e9

    assert by_number == [["htc-2"], [], []]
    assert names(dcalc.find_unmatched_for(at_least=by_name)) == ["htc-2"]
    assert names(_pass(cluster).find_unmatched_for(at_least=by_name)) == ["htc-2"]


@row("dcalc.find_booting")
def test_nodes_that_do_not_come_up_are_found(cluster):
    """After the time given; those that were ready once are not among them."""
    now = clock.use_mock_clock()
    cluster.add_node("htc-3", "htc", state="Preparing")
    _pass(cluster)
    now.sleep(1801)
    dcalc = _pass(cluster)
    assert names(dcalc.find_booting(at_least=1800)) == ["htc-3"]
    assert names(dcalc.find_booting(at_least=lambda node: 3600)) == []


@row("dcalc.update_history")
def test_the_history_is_that_of_the_calculator(cluster):
    """Nodes that it was never shown are learnt, and the printed times left come from it."""
    now = clock.use_mock_clock()
    _pass(cluster)
    now.sleep(100)
    dcalc = _pass(cluster)
    assert isinstance(dcalc.node_history, SQLiteNodeHistory)
    assert [n.idle_time_remaining for n in dcalc.finish().unmatched_nodes] == [200, 200]


def a_row(**changed):
    """A node as PBS shows it."""
    node = TempNode(
        "ip-0A000004",
        {"ncpus": 4, "mem": Memory(8, "g"), "group_id": "htc-0123456789abcdef"},
        name="htc-1",
        nodearray="htc",
        instance_id="0123456789abcdef",
        **changed,
    )
    node.available["ncpus"] = 3
    node.create_time_remaining = 12.34
    return node


def printed(columns, output_format="table_headerless", long=False, **changed):
    """What is printed of one such node."""
    stream = io.StringIO()
    demand = DemandResult([], [a_row(**changed)], [], [])
    print_demand(columns, demand, stream=stream, output_format=output_format, long=long)
    return stream.getvalue()


@row("demandprinter.print_demand")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("name", "htc-1"),
        ("hostname", "ip-0A000004"),
        ("ncpus", "4"),
        ("*ncpus", "3"),
        ("/ncpus", "3/4"),
        ("mem", "8.00g"),
        ("instance_id[:11]", "0123456789a"),
        ("group_id[-8:]", "89abcdef"),
        ("ctr@create_time_remaining", "12.3"),
        ("nothing:none", "none"),
        ("short@group_id[-2:]", "ef"),
        ("required", "False"),
    ],
)
def test_columns_of_printed_demand(column, value):
    """All of the syntax that PBS's lists carry."""
    assert printed([column]).strip() == value


@row("demandprinter.print_demand")
@row("demandprinter.OutputFormat")
def test_formats_of_printed_demand():
    """A table with and without its headers, and JSON; `long` leaves values whole."""
    columns = ["name", "ctr@create_time_remaining", "*ncpus", "instance_id[:4]"]
    table = printed(columns, "table").splitlines()
    assert get_args(OutputFormat) == ("json", "table", "table_headerless")
    assert table[0].split() == ["NAME", "CTR", "*NCPUS", "INSTANCE_ID"]
    assert printed(columns) == table[1] + "\n"
    assert table[1].split() == ["htc-1", "12.3", "3", "0123"]
    assert json.loads(printed(columns, "json")) == [
        {"name": "htc-1", "ctr": 12.34, "*ncpus": 3, "instance_id": "0123"}
    ]
    assert printed(columns, long=True).split()[-1] == "0123456789abcdef"


@row("demandprinter.print_demand")
def test_no_columns_mean_all_of_them():
    """Every property that can be asked for, every resource, name first; JSON can be read again."""
    (entry,) = json.loads(printed([], "json"))
    header = printed([], "table").splitlines()[0].split()
    assert header[0] == "NAME"
    assert "HOSTNAME_REQUIRED" not in header and "AVAILABLE" not in header
    assert {*QUERYABLE_PROPERTIES, "ncpus", "mem", "group_id"} <= entry.keys()
    assert entry["available"]["mem"] == "memory::8.00g"


@row("demandprinter.print_demand")
def test_printed_demand_in_the_log():
    """With log=True each line goes to the logger `demand`, as a record named `demandprinter`."""
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append((record.name, record.getMessage().split()))
    logger = logging.getLogger("demand")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        print_demand(
            ["name", "state"], DemandResult([], [a_row()], [], []), io.StringIO(), log=True
        )
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert heard == [
        ("demandprinter", ["NAME", "STATE"]),
        ("demandprinter", ["htc-1", "running"]),
    ]


@row("demandprinter.print_rows")
@pytest.mark.parametrize(
    ("output_format", "expected"),
    [
        ("table", "QUEUE     SLOTS\nall.q     4    \nlong.q,me 8    \n"),
        ("table_headerless", "all.q     4    \nlong.q,me 8    \n"),
    ],
)
def test_rows_of_anything(output_format, expected):
    """Grid Engine prints its queues by it, all arguments by name; lists are joined by commas."""
    stream = io.StringIO()
    print_rows(
        columns=["queue", "slots"],
        rows=[["all.q", 4], [["long.q", "me"], 8]],
        stream=stream,
        output_format=output_format,
    )
    assert stream.getvalue() == expected


@row("demandprinter.print_rows")
def test_rows_of_anything_as_json():
    """A list of objects by column."""
    stream = io.StringIO()
    print_rows(["a", "b"], [[1, {"x"}], [None, Memory(1, "g")]], stream, "json")
    assert json.loads(stream.getvalue()) == [
        {"a": 1, "b": ["x"]},
        {"a": None, "b": "memory::1.00g"},
    ]
