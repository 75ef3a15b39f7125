"""Arguments of the wrong kind: errors that say what was expected and what was found."""

import json
import re

import pytest

from builders.nodes import an_htc_cluster
from hpc.autoscale.errors import ConfigurationException, InvalidArgument
from hpc.autoscale.hpclogging import initialize_logging
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.demandprinter import print_demand, print_rows
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode
from hpc.autoscale.jobs import build_jobs
from hpc.autoscale.node.bucket import bucket_candidates
from hpc.autoscale.node.constraints import BaseNodeConstraint, register_parser
from hpc.autoscale.node.node import UnmanagedNode
from hpc.autoscale.node.nodehistory import NodeHistoryError, NullNodeHistory, SQLiteNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.results import AllocationResult
from hpc.autoscale.testing import a_node
from hpc.autoscale.util import (
    ShellDict,
    SingletonFileLock,
    json_dump,
    load_config,
    parse_boot_timeout,
    parse_idle_timeout,
    partition,
    partition_single,
    set_uuid_func,
)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"slot_count": 2.5}, "allocate: expected slot_count to be int or None, found 2.5"),
        ({"slot_count": "2"}, "allocate: expected slot_count to be int or None, found '2'"),
        ({"node_count": 2.0}, "allocate: expected node_count to be int or None, found 2.0"),
    ],
)
def test_counts(counts, said):
    """Whole numbers or None; nothing is placed for others."""
    node_mgr = new_node_manager({"_mock_bindings": an_htc_cluster()})
    with pytest.raises(RuntimeError, match=said):
        node_mgr.allocate({"ncpus": 1}, **counts)
    assert node_mgr.new_nodes == []


@pytest.mark.parametrize("config", [None, 7, ["autoscale.json"]])
@pytest.mark.parametrize("make", [new_node_manager, new_demand_calculator, load_config])
def test_configurations(make, config):
    """A mapping, or a path."""
    with pytest.raises(ConfigurationException, match="expected a configuration as a mapping, or"):
        make(config)


def test_a_manager_of_a_file(tmp_path):
    """A path will do, as for a calculator; the error about one that is not there names it."""
    status = an_htc_cluster().get_cluster_status(True).to_dict()
    reproduced = {"name": "reproduce", "cluster_response": status}
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps({"cluster_name": "c", "_mock_bindings": reproduced}))
    assert [b.nodearray for b in new_node_manager(str(path)).get_buckets()] == ["htc"]
    with pytest.raises(ConfigurationException, match=r"none\.json"):
        new_node_manager(str(tmp_path / "none.json"))


@pytest.mark.parametrize("job", [{"name": "a", "constraints": []}, None, "a"])
def test_jobs(job):
    """Jobs of no other kind; those before it are placed."""
    config = {"_mock_bindings": an_htc_cluster()}
    calculator = new_demand_calculator(config, node_history=NullNodeHistory())
    with pytest.raises(AssertionError, match="expected job to be Job, found"):
        calculator.add_job(job)
    with pytest.raises(RuntimeError, match="expected job to be Job, found"):
        calculator.add_jobs([Job("first", {"ncpus": 1}), job])
    assert [node.assignments for node in calculator.node_mgr.new_nodes] == [{"first"}]


@pytest.fixture
def calculator(tmp_path):
    """One with a history in a file."""
    history = SQLiteNodeHistory(tmp_path / "nodehistory.db")
    return new_demand_calculator({"_mock_bindings": an_htc_cluster()}, node_history=history)


@pytest.mark.parametrize("kind", [SchedulerNode, TempNode, UnmanagedNode])
def test_hosts(kind):
    """Resources by name. A name that is none is looked at by those who read the hosts, as one of
    them must not stop the others."""
    for resources in (5, "ncpus", ["ncpus"]):
        with pytest.raises(InvalidArgument, match="host a: expected resources to be Mapping"):
            kind("a", resources)
    assert kind(None).hostname is None


@pytest.mark.parametrize("wrong", [None, 5, "host", b"host", [None], ["host"], [{}], {"a": 1}])
def test_lists_of_nodes(calculator, wrong):
    """Nothing of a list is taken in where one of it is no node."""
    good = SchedulerNode("a", {"ncpus": 4})
    given = [good, *wrong] if isinstance(wrong, list) else wrong
    asked = [
        calculator.update_scheduler_nodes,
        calculator.node_mgr.add_unmanaged_nodes,
        calculator.node_mgr.get_status_messages,
        calculator.node_history.update,
        calculator.node_history.mark_ignored,
    ]
    if wrong is not None:
        asked.append(lambda nodes: calculator.find_unmatched_for(300, nodes))
        asked.append(lambda nodes: calculator.find_booting(300, nodes))
    for ask in asked:
        with pytest.raises(InvalidArgument, match="expected"):
            ask(given)
    assert calculator.node_mgr.get_nodes() == []


@pytest.mark.parametrize("wrong", [None, "300", float("nan"), b"1"])
def test_seconds(calculator, wrong):
    """A number, also where no node is asked about; NaN would be after none."""
    history = calculator.node_history
    for ask in (calculator.find_booting, calculator.find_unmatched_for):
        with pytest.raises(InvalidArgument, match="expected at_least to be a number, found"):
            ask(wrong)
    for ask in (history.find_booting, history.find_unmatched):
        with pytest.raises(InvalidArgument, match="expected for_at_least to be a number, found"):
            ask(wrong)


def test_what_is_given_at_the_wrong_place(calculator):
    """As a manager for the list of nodes."""
    manager, config = calculator.node_mgr, {"_mock_bindings": an_htc_cluster()}
    for given in ({"existing_nodes": manager}, {"node_mgr": []}, {"node_history": "h.db"}):
        with pytest.raises(InvalidArgument, match=r"expected (a list of nodes|node_\w+ to be)"):
            new_demand_calculator(config, **{"node_history": NullNodeHistory(), **given})
    with pytest.raises(InvalidArgument, match="expected jobs to be Iterable, found None"):
        calculator.add_jobs(None)
    for ask in (manager.get_placement_groups, lambda b: manager.add_placement_group("pg", b)):
        with pytest.raises(InvalidArgument, match="expected bucket to be NodeBucket, found 'htc'"):
            ask("htc")


class _OwnHistory:
    """A history as somebody writes it who knows no base class."""

    def now(self):
        return 0.0

    def find_booting(self, for_at_least=0.0):
        return []

    def decorate(self, nodes, config=None):
        return None


def test_what_behaves_like_a_history_is_one():
    """As in tests of integrations."""
    config = {"_mock_bindings": an_htc_cluster()}
    assert new_demand_calculator(config, node_history=_OwnHistory()).find_booting(300) == []


def test_parsers_hooks_and_constraints(calculator):
    """Are refused when they are given, and not when they are used."""
    with pytest.raises(InvalidArgument, match="expected parser to be Callable, found None"):
        register_parser("x", None)
    with pytest.raises(InvalidArgument, match="expected custom_attribute to be str, found 5"):
        register_parser(5, dict)
    with pytest.raises(InvalidArgument, match=r"expected hook to be .*Callable.* or None, found 5"):
        calculator.node_mgr.set_node_name_hook(5)
    buckets = calculator.node_mgr.get_buckets()
    with pytest.raises(InvalidArgument, match=r"expected a constraint, .* found {'r': 1}"):
        bucket_candidates(buckets, [{"r": 1}])
    with pytest.raises(RuntimeError, match=r"expected one of add, .* found 5"):
        calculator.node_mgr.add_default_resource({}, "r", 1, 5, 2)


def test_columns_are_names(calculator, capsys):
    """A text has them with commas between, as for azscale; its letters are none."""
    demand = calculator.get_demand()
    for columns in ("name,hostname", ["name", "hostname"]):
        print_demand(columns, demand)
        assert capsys.readouterr().out.split() == ["NAME", "HOSTNAME"]
    for columns in ([None], [5], [b"name"]):
        with pytest.raises(ConfigurationException, match=r"column .*: expected a name such as"):
            print_demand(columns, demand)


def refused(said, ask, *given, **more):
    """That a call is refused with a text."""
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        ask(*given, **more)


@pytest.mark.parametrize("path", [None, 5, ["a"]])
def test_files(path):
    """Of the node history and of locks."""
    refused(
        f"node history: expected path to be str or bytes or os.PathLike, found {path!r}",
        SQLiteNodeHistory,
        path,
    )
    refused(
        f"lock file: expected path to be str or os.PathLike, found {path!r}",
        SingletonFileLock,
        path,
    )


def test_ids_of_operations(calculator):
    """One text: a list of them names none."""
    refused(
        "get_nodes: expected operation_id to be str or None, found ['a']",
        calculator.node_mgr.get_nodes_by_operation,
        ["a"],
    )


def test_what_is_printed(calculator):
    """Columns, and how wide a line may be."""
    result = calculator.finish()
    refused("columns: expected names to be Iterable or None, found 5", print_demand, 5, result)
    refused(
        "expected width to be int or None, found 'x'", print_demand, ["name"], result, width="x"
    )
    refused("expected demand_result to have an attribute 'compute_nodes'", print_demand, [], None)
    for log in (False, True):
        said = "to have an attribute 'write', found 5"
        refused(said, print_demand, ["name"], result, stream=5, log=log)
    formats = "expected output_format to be one of json, table, table_headerless, found"
    for wrong, hint in (("jsn", "; did you mean 'json'?"), (5, "")):
        said = f"{formats} {wrong!r}{hint}"
        refused(said, print_demand, ["name"], result, output_format=wrong)


@pytest.mark.parametrize("host", [SchedulerNode("a"), a_node("htc-1")])
def test_what_is_placed_on_a_node(host):
    """Constraints, as objects, under the id of a job; nothing is placed otherwise."""
    refused("decrement: expected constraints to be Iterable, found None", host.decrement, None)
    for wrong in ("x", [{"ncpus": 1}], {"ncpus": 1}):
        refused("expected a constraint, as get_constraints makes them", host.decrement, wrong)
    said = f"node {host.name}: expected assignment_id to be str, found ['a']"
    refused(said, host.assign, ["a"])
    assert not host.assignments


def test_a_constraint_that_raises_a_type_error_is_one():
    """What it raises is told as it is."""

    class Raises(BaseNodeConstraint):
        def satisfied_by_node(self, node):
            raise TypeError("mine")

        def do_decrement(self, node):
            return True

        def to_dict(self):
            return {}

        def __str__(self):
            return "Raises"

    with pytest.raises(TypeError, match=r"^mine$"):
        SchedulerNode("a").decrement([Raises()])


class _OwnOrder(NodeQueue):
    """A queue whose order reads what nodes may have."""

    def node_priority(self, node):
        return node.slots


def test_what_is_queued():
    """Nodes; what an order of one's own raises of a node is told as it is."""
    for wrong in (None, "x", ["a"]):
        said = f"NodeQueue.push: expected node to be Node, found {wrong!r}"
        refused(said, NodeQueue().push, wrong)
    with pytest.raises(AttributeError, match="slots"):
        _OwnOrder().push(SchedulerNode("a"))


def test_mappings(calculator):
    """Of a job, for a shell, and configurations with timeouts."""
    refused("Job.from_dict: expected d to be Mapping, found None", Job.from_dict, None)
    refused("ShellDict: expected wrapped to be Mapping, found 5", ShellDict, 5)
    for parse in (parse_idle_timeout, parse_boot_timeout):
        refused("_timeout: expected config to be Mapping, found None", parse, None, a_node())
    refused(
        "node history: expected config to be Mapping or None, found 5",
        calculator.node_history.decorate,
        [],
        5,
    )


def test_what_is_grouped():
    """A list, by a function."""
    for ask in (partition, partition_single):
        refused("partition: expected node_list to be Iterable, found None", ask, None, str)
        refused("partition: expected func to be Callable, found 5", ask, [1], 5)


def test_queues_rows_and_files():
    """A list of entries, lists of columns and of rows, and what can be written to."""
    refused("build_jobs: expected entries to be Iterable, found None", build_jobs, None, Job)
    refused("printing rows: expected columns to be Iterable, found None", print_rows, None, [])
    refused("printing rows: expected rows to be Iterable, found None", print_rows, ["a"], None)
    refused("json_dump: expected writer to have an attribute 'write', found 5", json_dump, {}, 5)


def test_a_text_is_one_reason():
    """And not one for each of its letters."""
    assert AllocationResult("NoCapacity", reasons="no room").reasons == ["no room"]
    assert AllocationResult("NoCapacity", reasons="no room").message == "no room"


def test_a_path_that_no_file_can_have():
    """The error names it."""
    with pytest.raises(NodeHistoryError, match=r"cannot open the node history /tmp/a.*b: .*null"):
        SQLiteNodeHistory("/tmp/a\0b")


def test_metadata_of_hosts(calculator):
    """The host is named; one without a name has metadata as others have."""
    host = SchedulerNode("a", {"ncpus": 4})
    host.metadata = "text"
    refused(
        "host a: expected metadata to be Mapping, found 'text'",
        calculator.update_scheduler_nodes,
        [host],
    )


def test_what_the_process_is_told():
    """Where ids come from, and where the log goes."""
    refused("set_uuid_func: expected func to be Callable, found 5", set_uuid_func, 5)
    refused(
        "initialize_logging: expected config to be Mapping or None, found 5", initialize_logging, 5
    )
