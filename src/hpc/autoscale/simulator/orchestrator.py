"""What happens to nodes over time.

Phases end, VMs come up or are refused, spot VMs are evicted, machines report. This is the only
place that changes a node's phase, always through `fire` and the table in `lifecycle`. It is pure:
the time is told to `advance`, randomness and ids are arguments, journal entries and orders to local
machines are handed out as values. Which requests are allowed is not decided here.
"""

import heapq
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hpc.autoscale.simulator.description import MachineTemplate
from hpc.autoscale.simulator.lifecycle import FACTS, Event, Phase, after
from hpc.autoscale.simulator.nodes import EventCause, MachineState, SimNode
from hpc.autoscale.simulator.usage import UsageLog

Entry = dict[str, Any]


@dataclass(frozen=True)
class MachineOrder:
    """An order to start (`template` given) or to end the local machine of a node.

    `hard` ends it as a power failure would.
    """

    node_id: str
    template: MachineTemplate | None = None
    values: Mapping[str, object] | None = None
    hard: bool = False


class Orchestrator:
    """The timers and transitions of all nodes of all clusters.

    `new_id` makes node, instance and operation ids; `rng` decides jitter, boot failures and
    evictions; `note` takes journal entries. `orders` collects what the machines have to do, for the
    caller to take away. `capacity` is how many VMs a region can run, by (region, lower-case size),
    and may be changed at any time.
    """

    def __init__(
        self,
        now: float,
        rng: random.Random,
        new_id: Callable[[], str],
        note: Callable[[Entry], None],
        capacity: dict[tuple[str, str], int],
    ) -> None:
        self.now = now
        self.new_id = new_id
        self.capacity = capacity
        self.orders: list[MachineOrder] = []
        self.nodes: dict[str, SimNode] = {}
        self.usage = UsageLog()
        self.capacity_failures: dict[tuple[str, str, str], float] = {}
        self._rng = rng
        self._note = note
        self._timers: list[tuple[float, int, SimNode, int]] = []
        self._set_timers = 0
        self._addresses = 0

    # ---------------------------------------------------------------- time

    def advance(self, now: float) -> None:
        """Let everything happen that is due until `now`, each thing at its own time. Time never
        goes back."""
        while self._timers and self._timers[0][0] <= now:
            due, _, node, entered = heapq.heappop(self._timers)
            if node.entered == entered:
                self.now = max(self.now, due)
                node.elapsed = True
                self._end_phase(node)
        self.now = max(self.now, now)

    def next_due(self) -> float | None:
        """The time when the next phase ends; None when nothing ends by itself."""
        while self._timers and self._timers[0][2].entered != self._timers[0][3]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    # ---------------------------------------------------------------- nodes

    def add(self, node: SimNode) -> None:
        """Take in a new node, which is Off until it is started."""
        self.nodes[node.node_id] = node
        self.record("created", node)

    def fire(
        self, node: SimNode, event: Event, cause: EventCause | None = None, why: str = ""
    ) -> bool:
        """Let `event` happen to a node; False when it cannot happen in the node's phase.

        `why` is for the node's StatusMessage.
        """
        target = after(node.phase, event)
        if target is None:
            return False
        if cause is not None:
            node.cause = cause
        node.phase = target
        node.entered += 1
        node.elapsed = False
        node.status_message = why
        self.record(target.name.lower(), node, why)
        self._enter(node)
        return True

    def record(self, event: str, node: SimNode, message: str = "", **more: Any) -> None:
        """Write into the journal what happens to a node."""
        self.note(
            event,
            cluster=node.cluster,
            node_id=node.node_id,
            name=node.name,
            nodearray=node.nodearray.name,
            vm_size=node.machine_type.name,
            **node.cause.facts(),
            message=message,
            **more,
        )

    def note(self, event: str, **facts: Any) -> None:
        """Write an event into the journal at the present time, without facts that are None."""
        when = datetime.fromtimestamp(self.now, UTC).isoformat(timespec="milliseconds")
        entry = {"time": when.replace("+00:00", "Z"), "event": event, **facts}
        self._note({key: value for key, value in entry.items() if value != ""})

    # ---------------------------------------------------------------- local machines

    def machine_up(self, node_id: str, pid: int) -> None:
        """The local machine of a node runs and is ready."""
        node = self.nodes.get(node_id)
        if node is not None and node.machine is MachineState.STARTING:
            node.machine = MachineState.UP
            self.record("machine_up", node, pid=pid)
            if node.elapsed:
                self._end_phase(node)

    def machine_gone(self, node_id: str, message: str) -> None:
        """The local machine of a node has ended and been reaped.

        When that was not ordered, the node fails.
        """
        node = self.nodes.get(node_id)
        if node is None or node.machine is MachineState.NONE:
            return
        ordered = node.machine is MachineState.STOPPING
        node.machine = MachineState.NONE
        self.record("machine_gone", node, message)
        if not ordered:
            self.fire(node, Event.FAIL, EventCause("machine_exited"), message)
        elif node.phase is Phase.PREPARING:
            self._start_machine(node)
        elif node.elapsed:
            self._end_phase(node)

    def machine_restarts(self, node_id: str, message: str) -> None:
        """The local machine of a node ended by itself and is started again, as its template
        says."""
        node = self.nodes.get(node_id)
        if node is not None and node.machine in (MachineState.STARTING, MachineState.UP):
            node.machine = MachineState.STARTING
            self.record("machine_restarts", node, message)

    def _start_machine(self, node: SimNode) -> None:
        template = node.nodearray.machine
        if template is not None and node.machine is MachineState.NONE:
            node.machine = MachineState.STARTING
            self.orders.append(MachineOrder(node.node_id, template, self._facts(node)))

    def _stop_machine(self, node: SimNode, hard: bool = False) -> None:
        if node.machine in (MachineState.STARTING, MachineState.UP):
            node.machine = MachineState.STOPPING
            self.orders.append(MachineOrder(node.node_id, hard=hard))

    def _facts(self, node: SimNode) -> dict[str, object]:
        """The values for the placeholders of a machine template."""
        size = node.machine_type
        return {
            "node_id": node.node_id,
            "name": node.name,
            "hostname": node.hostname,
            "private_ip": node.private_ip,
            "nodearray": node.nodearray.name,
            "vm_size": size.name,
            "cluster": node.cluster,
            "vcpus": size.vcpus,
            "memory_gb": f"{size.memory_gb:g}",
            "gpus": size.gpus,
            "placement_group": node.placement_group or "",
        }

    # ---------------------------------------------------------------- phases

    def capacity_left(self, region: str, size: str) -> int | None:
        """How many more VMs of a size a region can run; None for any number."""
        capacity = self.capacity.get((region, size.lower()))
        return None if capacity is None else capacity - self._running(region, size.lower())

    def _enter(self, node: SimNode) -> None:
        """Do what a phase does when it begins."""
        phase = node.phase
        if phase is Phase.PREPARING:
            self._vm_comes_up(node)
        elif phase is Phase.READY:
            node.registered = True
        elif phase is Phase.TERMINATING:
            self._stop_machine(node, hard=node.cause.kind == "evicted")
        elif phase in (Phase.ALLOCATION, Phase.DEALLOCATING, Phase.RESTARTING, Phase.REIMAGING):
            self._stop_machine(node)
        elif phase is Phase.DEALLOCATED:
            self._vm_stops(node)
        if phase in (Phase.TERMINATED, Phase.ALLOCATION):
            self._forget_vm(node)
        if phase is Phase.TERMINATED and (node.drop_record or not node.keeps_record):
            self.fire(node, Event.REMOVE_RECORD)
        elif phase is Phase.REMOVED:
            del self.nodes[node.node_id]
        else:
            self._set_timer(node)

    def _vm_comes_up(self, node: SimNode) -> None:
        node.vm_running = True
        self.usage.vm_up(node, self.now)
        node.instance_id = node.instance_id or self.new_id().replace("-", "")
        node.private_ip = node.private_ip or self._new_address()
        node.hostname = _hostname(node)
        node.registered = False
        node.boot_fails = self._rng.random() < node.nodearray.lifecycle.boot_failure_rate
        self._start_machine(node)

    def _vm_stops(self, node: SimNode) -> None:
        node.vm_running = node.registered = False
        self.usage.vm_gone(node, self.now)

    def _forget_vm(self, node: SimNode) -> None:
        self._vm_stops(node)
        node.instance_id = node.private_ip = node.hostname = None

    def _new_address(self) -> str:
        """The next address of 10.0.0.0/8; none ends in 0 or 255 and the first ones are the subnet's
        own."""
        number = 3 + self._addresses
        self._addresses += 1
        block, last = divmod(number, 254)
        second, third = divmod(block, 256)
        return f"10.{second % 256}.{third}.{last + 1}"

    def _set_timer(self, node: SimNode) -> None:
        seconds = self._duration(node)
        if seconds is not None:
            self._set_timers += 1
            heapq.heappush(self._timers, (self.now + seconds, self._set_timers, node, node.entered))

    def _duration(self, node: SimNode) -> float | None:
        """How many seconds this phase lasts this time; None when it does not end by itself."""
        lifecycle = node.nodearray.lifecycle
        if node.phase is Phase.READY:
            mean = lifecycle.time_to_eviction
            if mean is None or not node.nodearray.spot:
                return None
            return self._rng.expovariate(1.0 / mean) if mean > 0 else 0.0
        if node.phase is Phase.FAILED and node.cause.kind != "allocation_failed":
            return None
        if node.phase is Phase.TERMINATING and node.cause.kind == "evicted":
            return 0.0
        name = FACTS[node.phase].duration
        if not name:
            return None
        seconds: float = getattr(lifecycle, name)
        return seconds * (1.0 + lifecycle.jitter * self._rng.uniform(-1.0, 1.0))

    def _end_phase(self, node: SimNode) -> None:
        """Do what follows when the time of a phase is over, or wait for the node's machine."""
        phase = node.phase
        if phase is Phase.ALLOCATION:
            self.fire(node, Event.ALLOCATED)
        elif phase is Phase.ACQUIRING:
            self._ask_for_vm(node)
        elif phase is Phase.PREPARING:
            self._configure(node)
        elif phase is Phase.READY:
            self.evict(node)
        elif phase is Phase.EVICTING:
            self.fire(node, Event.TERMINATE, EventCause("evicted"))
        elif phase is Phase.FAILED:
            self.fire(node, Event.TERMINATE)
        elif node.machine is MachineState.NONE:
            ends = {Phase.TERMINATING: Event.VM_DELETED, Phase.DEALLOCATING: Event.VM_STOPPED}
            self.fire(node, ends.get(phase, Event.VM_STARTED))

    def _ask_for_vm(self, node: SimNode) -> None:
        region, size = node.nodearray.region, node.machine_type.name
        capacity = self.capacity.get((region, size.lower()))
        if capacity is None or self._running(region, size.lower()) < capacity:
            self.fire(node, Event.VM_STARTED)
            return
        bucket = (node.cluster, node.nodearray.name, size.lower())
        self.capacity_failures[bucket] = self.now
        why = f"AllocationFailed: {region} has no capacity left for {size} (it has {capacity})"
        self.fire(node, Event.VM_REFUSED, EventCause("allocation_failed"), why)

    def _running(self, region: str, size: str) -> int:
        return sum(
            node.vm_running
            and node.nodearray.region == region
            and node.machine_type.name.lower() == size
            for node in self.nodes.values()
        )

    def _configure(self, node: SimNode) -> None:
        if node.boot_fails:
            self.fire(
                node, Event.FAIL, EventCause("boot_failed"), "The node could not be configured"
            )
        elif node.nodearray.machine is None or node.machine is MachineState.UP:
            self.fire(node, Event.CONFIGURED)

    # ---------------------------------------------------------------- accidents

    def evict(self, node: SimNode) -> bool:
        """Give a spot node notice of its eviction; False when that is impossible."""
        return self.fire(node, Event.EVICT, EventCause("evicted"), "Waiting for eviction (Preempt)")

    def fail(self, nodes: Iterable[SimNode], why: str) -> list[str]:
        """Let nodes fail now; returns the names of those that could."""
        cause = EventCause("control", "fail")
        return [node.name for node in nodes if self.fire(node, Event.FAIL, cause, why)]


def _hostname(node: SimNode) -> str:
    """The host name of a node, made of its name, or of its address as CycleCloud's own DNS does."""
    if node.nodearray.hostnames == "address" and node.private_ip:
        return "ip-" + "".join(f"{int(part):02X}" for part in node.private_ip.split("."))
    return "".join(c if c.isalnum() else "-" for c in node.name.lower())
