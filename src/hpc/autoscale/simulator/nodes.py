"""One simulated node: what the model remembers about it.

`orchestrator` moves nodes through their phases; `attributes` shows them to callers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hpc.autoscale.simulator.description import MachineType, Nodearray
from hpc.autoscale.simulator.lifecycle import FACTS, Phase


@dataclass(frozen=True)
class EventCause:
    """The cause of something that happens to a node.

    `kind` is "rest" for a request of the protocol (`action`, `operation_id` and `request_id` then
    say which), "control" for one of the simulator's own, "description" for what exists from the
    start, or "evicted", "allocation_failed", "boot_failed", "machine_exited".
    """

    kind: str
    action: str = ""
    operation_id: str = ""
    request_id: str = ""

    def facts(self) -> dict[str, str]:
        """The cause in the form of the journal."""
        return {
            "cause": self.kind,
            "action": self.action,
            "operation_id": self.operation_id,
            "request_id": self.request_id,
        }


class MachineState(Enum):
    """The state of the local process that stands in for a node's VM, as far as the model knows."""

    NONE = "none"
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"


@dataclass(eq=False)
class SimNode:
    """One node.

    `entered` counts the phases so far, so that a timer of an earlier phase can be told from a valid
    one. `elapsed` says that the time of this phase is over and the node waits for its machine.
    `registered` says that its host name is known.
    """

    node_id: str
    name: str
    cluster: str
    nodearray: Nodearray
    machine_type: MachineType
    placement_group: str | None
    attributes: Mapping[str, Any]
    request_id: str | None
    cause: EventCause
    phase: Phase = Phase.OFF
    entered: int = 0
    elapsed: bool = False
    boot_fails: bool = False
    drop_record: bool = False
    vm_running: bool = False
    machine: MachineState = MachineState.NONE
    instance_id: str | None = None
    private_ip: str | None = None
    hostname: str | None = None
    registered: bool = False
    status_message: str = ""
    retry_count: int = 0

    @property
    def counts(self) -> bool:
        """Whether the node takes a place in its bucket, nodearray and cluster."""
        return FACTS[self.phase].target_state == "Started"

    @property
    def holds_quota(self) -> bool:
        """Whether the node's cores are charged to quotas: while it is to run or has a VM."""
        return self.counts or self.vm_running

    @property
    def parked(self) -> bool:
        """Whether the node has a record, and no VM that runs or is to run."""
        return self.phase in (Phase.OFF, Phase.TERMINATED)

    def is_set(self, attribute: str) -> bool:
        """Whether a boolean attribute such as KeepAlive is true; false when it is absent."""
        return flag(self.attributes, attribute, default=False)

    @property
    def keeps_record(self) -> bool:
        """Whether its record stays when the node is terminated."""
        return self.is_set("Fixed") or not self.nodearray.is_array

    @property
    def shutdown_action(self) -> str:
        """The action that the shutdown action stands for: "terminate" or "deallocate"."""
        policy = str(self.attributes.get("ShutdownPolicy") or "").lower()
        return "deallocate" if policy == "deallocate" else "terminate"


def flag(attributes: Mapping[str, Any], name: str, default: bool) -> bool:
    """A boolean attribute; as for CycleCloud, the words true and false will do."""
    value = attributes.get(name)
    if isinstance(value, str):
        return value.strip().lower() == "true"
    return default if value is None else bool(value)
