"""What is FileQueueDriver's own, beside the promises that all drivers give."""

from pathlib import Path
from typing import Any

import pytest

from filequeue.driver import FileQueueDriver
from filequeue.scheduler import FileQueue
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.testing import a_cluster, a_config, a_node


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """A configuration for a queue without tasks."""
    FileQueue(tmp_path / "queue.json").create()
    return a_config(
        a_cluster(htc={"Standard_F4s_v2": 10}), filequeue={"path": str(tmp_path / "queue.json")}
    )


def test_a_node_has_a_slot_for_each_vcpu(config: dict[str, Any]) -> None:
    """Nine tasks need three nodes of four vCPUs."""
    FileQueue(config["filequeue"]["path"]).submit(*(f"task-{n}" for n in range(9)))
    summary = Autoscaler(config, FileQueueDriver(config), dry_run=True).run_once()
    assert summary.requested == ("htc-1", "htc-2", "htc-3")


def test_a_host_is_known_by_its_host_name(config: dict[str, Any]) -> None:
    """And remembers which node it is."""
    node = a_node("htc-1", hostname="ip-0a010002", slots=4)
    assert FileQueueDriver(config).add_nodes_to_cluster([node]) == [node]
    (host,) = FileQueue(config["filequeue"]["path"]).hosts().items()
    assert host[0] == "ip-0a010002"
    assert host[1].node_id == node.delayed_node_id.node_id


def test_a_queue_that_is_not_configured() -> None:
    """One line says what is expected."""
    with pytest.raises(ConfigurationException, match="filequeue: expected"):
        FileQueueDriver({})
