"""Bindings and drivers that stand around others: what passes everything on, and what can only be
read."""

import inspect
from typing import Any
from unittest.mock import create_autospec

import pytest

from builders.journals import a_pass_record
from hpc.autoscale.ccbindings.errors import ClusterAway
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.ccbindings.nocluster import NoCluster
from hpc.autoscale.ccbindings.reproduce import ReproduceFromResponse
from hpc.autoscale.errors import ReadOnlyModeException
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.rehearsal.passing_on import PassingBinding, PassingDriver
from hpc.autoscale.rehearsal.recorded import RecordedBinding
from hpc.autoscale.rehearsal.recording import Recorder, RecordingBinding
from hpc.autoscale.replaying.doors import JournalBinding, NotInRecord, Tape

READS = {"cluster_name", "get_cluster_status", "get_nodes"}
COMMANDS = sorted(ClusterBindingInterface.__abstractmethods__ - READS)

ARGUMENTS: dict[str, dict[str, Any]] = {
    "create_nodes": {"nodes": ["n"], "request_id": "r"},
    "delete_nodes": {"nodes": ["n"], "request_id": "r"},
    "retry_failed_nodes": {},
    "scale": {"nodearray": "htc", "total_core_count": None, "total_node_count": 3},
}
"""What a command is called with; one that is not here is for nodes of some names."""


def arguments(call: str) -> dict[str, Any]:
    return ARGUMENTS.get(call, {"names": ["n"], "request_id": "r"})


READ_ONLY = {
    "no cluster": (lambda: NoCluster("c1", "it is down"), ClusterAway, "it is down"),
    "saved replies": (
        lambda: ReproduceFromResponse({"cluster_response": {"nodearrays": []}}),
        AssertionError,
        "cannot be changed",
    ),
    "a pass of a journal": (
        lambda: RecordedBinding(a_pass_record(1)),
        ReadOnlyModeException,
        "is read and not changed",
    ),
}


@pytest.mark.parametrize("call", COMMANDS)
@pytest.mark.parametrize("kind", READ_ONLY)
def test_what_can_only_be_read_takes_no_command(kind, call):
    """Whichever of the interface's it is."""
    make, error, said = READ_ONLY[kind]
    with pytest.raises(error, match=said):
        getattr(make(), call)(**arguments(call))


@pytest.mark.parametrize("call", sorted({*COMMANDS} - {"create_nodes", "delete_nodes"}))
def test_a_rehearsal_takes_no_command_that_no_pass_gives(call):
    """Neither those that it does not know, nor those it knows for nodes that only have a name."""
    cluster = create_autospec(MockClusterBinding, instance=True)
    with pytest.raises(ReadOnlyModeException, match=call):
        getattr(RecordingBinding(cluster, Recorder()), call)(**arguments(call))
    assert cluster.mock_calls == []


@pytest.mark.parametrize("call", ["retry_failed_nodes", "scale", "reimage_nodes"])
def test_a_pass_that_is_decided_again_gives_no_command_that_no_record_has(call):
    """It went another way than the pass that was recorded."""
    with pytest.raises(NotInRecord, match=call):
        getattr(JournalBinding(Tape(a_pass_record(1))), call)(**arguments(call))


@pytest.mark.parametrize("call", COMMANDS)
def test_commands_are_passed_on(call):
    """With what they were called with; the answer is that of the binding within."""
    cluster = create_autospec(ClusterBindingInterface, instance=True)
    asked = arguments(call)
    assert getattr(PassingBinding(cluster), call)(**asked) is getattr(cluster, call).return_value
    signature = inspect.signature(getattr(ClusterBindingInterface, call))
    _, args, kwargs = getattr(cluster, call).mock_calls[0]
    given = signature.bind(None, *args, **kwargs)
    given.apply_defaults()
    assert {k: v for k, v in given.arguments.items() if k != "self" and v} == {
        k: v for k, v in asked.items() if v
    }


@pytest.mark.parametrize(
    "asked", [{}, {"operation_id": "o"}, {"request_id": "r"}], ids=["all", "operation", "request"]
)
def test_listings_are_asked_for_as_they_were(asked):
    """A binding of an integration may know only one way."""
    cluster = create_autospec(ClusterBindingInterface, instance=True)
    found = PassingBinding(cluster).get_nodes(**asked)
    assert found is cluster.get_nodes.return_value
    cluster.get_nodes.assert_called_once_with(**asked)


HOOKS = sorted(
    name
    for name, value in vars(SchedulerDriver).items()
    if callable(value) and (not name.startswith("_") or name == "_read_jobs_and_nodes")
)


@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_are_passed_on(hook):
    """With what they were called with; the answer is that of the driver within."""
    driver = create_autospec(SchedulerDriver, instance=True)
    driver.name = "d"
    parameters = list(inspect.signature(getattr(SchedulerDriver, hook)).parameters)[1:]
    given = [True if name in ("force", "include_permanent") else [name] for name in parameters]
    found = getattr(PassingDriver(driver), hook)(*given)
    method = getattr(driver, hook)
    method.assert_called_once_with(*given)
    assert found is method.return_value or found is None


def test_a_driver_of_fewer_arguments_is_passed_what_it_takes():
    """`force` and `include_permanent` came later than some drivers."""

    class Old(SchedulerDriver):
        def read_jobs_and_nodes(self, config):
            return ["job"], ["host"]

        def add_nodes_to_cluster(self, nodes):
            return nodes

    Old.__abstractmethods__ = frozenset()
    passing = PassingDriver(Old("old"))
    assert passing.read_jobs_and_nodes({}, force=True) == (["job"], ["host"])
    assert passing.add_nodes_to_cluster(["n"], include_permanent=True) == ["n"]


def test_what_only_the_one_within_has_is_found():
    """Of a binding and of a driver; nothing that it has not."""
    inner = MockClusterBinding("clusty")
    inner.extra = 42  # type: ignore[attr-defined]
    passing = PassingBinding(inner)
    assert (passing.extra, passing.cluster_name, str(passing)) == (42, "clusty", str(inner))
    assert passing.where == inner.where
    with pytest.raises(AttributeError):
        _ = passing.nothing_of_the_kind
