"""The binding over HTTP keeps the promises of a binding, against the simulator, also when replies
get lost."""

from collections.abc import Callable, Iterator

import pytest

from builders.binding_contract import ROOM, BindingContract, created, planned
from builders.scripted_server import FakeTime
from hpc.autoscale.ccbindings.client import Client
from hpc.autoscale.ccbindings.errors import MutationUnconfirmed, OperationNotFound
from hpc.autoscale.ccbindings.legacy import ClusterBinding
from hpc.autoscale.simulator import Simulator, serve

DESCRIPTION = {
    "clusters": {
        "c.1": {
            "region": "westus2",
            "nodearrays": {"htc": {"machine_types": ["Standard_F4"], "max_count": ROOM}},
        }
    }
}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with serve(DESCRIPTION) as running:
        yield running


@pytest.fixture
def binding(simulator: Simulator) -> ClusterBinding:
    return connect(simulator)


def connect(simulator: Simulator) -> ClusterBinding:
    config = simulator.connection("c.1")
    client = Client(config, pacing=FakeTime().pacing())
    return ClusterBinding(config, client.session, client)


class TestRestContract(BindingContract):
    """All of them."""

    @pytest.fixture
    def settle(self, simulator: Simulator) -> Callable[[], None]:
        return simulator.clock.settle


class TestRestContractWithLostReplies(TestRestContract):
    """The same when the reply to every first request is lost after it was carried out."""

    @pytest.fixture(autouse=True)
    def lose_replies(self, simulator: Simulator) -> None:
        for endpoint in ("create_nodes", "shutdown_nodes", "terminate_nodes", "start_nodes"):
            simulator.faults.add("lost_reply", endpoint=endpoint, calls=[1])


def test_what_one_pass_could_not_confirm_the_next_one_finds(simulator: Simulator) -> None:
    """Reply lost and nobody to ask: the id in the error leads a new binding to the nodes."""
    simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    simulator.faults.add("lost_reply", endpoint="get_nodes", calls=[1, 2, 3, 4])
    binding = connect(simulator)
    with pytest.raises(MutationUnconfirmed) as raised:
        binding.create_nodes(planned(binding, "htc-1", "htc-2"), "the-id")
    assert raised.value.request_id == "the-id"
    later = connect(simulator)
    assert len(later.get_nodes(request_id="the-id").nodes) == 2
    result = later.create_nodes(planned(later, "htc-1", "htc-2"), "the-id")
    assert [one.added for one in result.sets] == [2]
    assert len(simulator.cluster("c.1").nodes()) == 2


def test_a_create_that_never_arrived_may_use_its_id_again(simulator: Simulator) -> None:
    """An id that the server has not heard of is good for one create."""
    binding = connect(simulator)
    with pytest.raises(OperationNotFound):
        binding.get_nodes(request_id="the-id")
    binding.create_nodes(planned(binding, "htc-1"), "the-id")
    assert len(simulator.cluster("c.1").nodes()) == 1


def test_nodes_that_were_shut_down_disappear(simulator: Simulator) -> None:
    """Once their time has come the listing is empty, and is believed."""
    binding = connect(simulator)
    records = created(binding, "htc-1", "htc-2")
    simulator.clock.settle()
    binding.shutdown_nodes(node_ids=[record["NodeId"] for record in records])
    simulator.clock.settle()
    status = binding.get_cluster_status(nodes=True)
    binding.check_listing(status, binding.get_nodes())
    assert status.nodes == []
