"""The running simulator without HTTP: model, clock, journal, faults and machines under one lock.

Everything that looks at the model or changes it goes through `Runtime.call`, which first lets the
model catch up with the time. The HTTP application, the machines' supervisor and the Python handles
call it.
"""

import random
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hpc.autoscale.simulator.clock import Clock, DrivenClock, RealClock
from hpc.autoscale.simulator.cluster import Cloud
from hpc.autoscale.simulator.description import Description
from hpc.autoscale.simulator.faults import Fault, FaultBook
from hpc.autoscale.simulator.journal import EventLog
from hpc.autoscale.simulator.machines import LocalMachines

T = TypeVar("T")

# A settling clock gives up here: with evictions or endless boots there is always something to come.
_LONGEST_SETTLE = 86400.0
# Waiting for something that is due in centuries is more than the threading module takes.
_LONGEST_WAIT = 3600.0


class Runtime:
    """A model whose time passes and whose machines run, between `start` and `stop`.

    `work_dir` is where local machines have their files; with None it is a temporary directory that
    goes with the simulator. Raises StartError when journal or work directory cannot be used.
    """

    def __init__(
        self,
        description: Description,
        clock: Clock,
        seed: int | None = None,
        journal: str | Path | None = None,
        work_dir: str | Path | None = None,
    ) -> None:
        self.clock = clock
        self.journal = EventLog(journal)
        self.machines = LocalMachines(work_dir, self)
        self.cloud = Cloud(
            description, clock.now(), _random(seed, "behaviour"), _ids(seed), self.journal.write
        )
        self.faults = FaultBook(description.faults, self.cloud.clusters, _random(seed, "faults"))
        self._changed = threading.Condition()
        self._running = False
        self._stopped = False
        self._ticker = threading.Thread(target=self._tick, name="ticker", daemon=True)

    def start(self) -> None:
        """Let time pass and machines run."""
        self._running = True
        self.cloud.orchestrator.note("server_started")
        self.machines.start()
        if not self.clock.driven:
            self._ticker.start()

    def stop(self) -> None:
        """End every machine and wait for it; then close the journal.

        It may be called twice, and without a start.
        """
        with self._changed:
            was_running, self._running = self._running, False
            self._changed.notify_all()
        if self._stopped:
            return
        self._stopped = True
        if was_running and not self.clock.driven:
            self._ticker.join()
        self.machines.close()
        if was_running:
            self.call(lambda cloud: cloud.orchestrator.note("server_stopped"))
        self.journal.close()

    # ---------------------------------------------------------------- the one way to the model

    def call(self, act: Callable[[Cloud], T]) -> T:
        """The result of `act`, which is called at the present time while nobody else uses the
        model.

        Its exceptions are raised.
        """
        with self._changed:
            self.cloud.orchestrator.advance(self.clock.now())
            try:
                return act(self.cloud)
            finally:
                self._hand_over_orders()
                self._changed.notify_all()

    def next_fault(self, endpoint: str, cluster: str | None) -> Fault | None:
        """The fault for a call, which is noted in the journal; None when the call is to go well."""

        def look(cloud: Cloud) -> Fault | None:
            fault = self.faults.next(endpoint, cluster)
            if fault is not None:
                cloud.orchestrator.note("fault", action=endpoint, message=fault.kind)
            return fault

        return self.call(look)

    def advance(self, seconds: float) -> None:
        """Move a driven clock forward.

        Raises Conflict for a real clock, and for a step that is too large.
        """
        with self._changed:
            self.clock.move_to(self.clock.now() + seconds)
            self.call(lambda cloud: None)

    def settle(self, limit: float = _LONGEST_SETTLE) -> None:
        """Move a driven clock until nothing is due any more, at most `limit` seconds.

        Machines are not waited for.
        """
        with self._changed:
            last = self.clock.now() + limit
            while (due := self.cloud.orchestrator.next_due()) is not None and due <= last:
                self.clock.move_to(max(due, self.clock.now()))
                self.call(lambda cloud: None)

    def _hand_over_orders(self) -> None:
        orders = self.cloud.orchestrator.orders
        if orders:
            self.machines.submit(list(orders))
            orders.clear()

    def _tick(self) -> None:
        """Let things happen when they are due, even while no request comes."""
        with self._changed:
            while self._running:
                self.cloud.orchestrator.advance(self.clock.now())
                self._hand_over_orders()
                due = self.cloud.orchestrator.next_due()
                left = None if due is None else self.clock.real_seconds_until(due)
                self._changed.wait(None if left is None else min(left, _LONGEST_WAIT))

    # ---------------------------------------------------------------- reports of the machines

    def machine_up(self, node_id: str, pid: int) -> None:
        """A machine is ready."""
        self.call(lambda cloud: cloud.orchestrator.machine_up(node_id, pid))

    def machine_restarts(self, node_id: str, message: str) -> None:
        """A machine ended by itself and is started again."""
        self.call(lambda cloud: cloud.orchestrator.machine_restarts(node_id, message))

    def machine_gone(self, node_id: str, message: str) -> None:
        """A machine has ended for good."""
        self.call(lambda cloud: cloud.orchestrator.machine_gone(node_id, message))


def new_clock(kind: str, speed: float = 1.0) -> Clock:
    """The clock for the option `--clock`: "real" or "driven"."""
    return DrivenClock() if kind == "driven" else RealClock(speed)


def _random(seed: int | None, purpose: str) -> random.Random:
    """A source of random numbers for one purpose.

    How many are taken for another purpose does not change them.
    """
    return random.Random(None if seed is None else f"{seed} {purpose}")


def _ids(seed: int | None) -> Callable[[], str]:
    if seed is None:
        return lambda: str(uuid.uuid4())
    stream = _random(seed, "ids")
    return lambda: str(uuid.UUID(int=stream.getrandbits(128), version=4))
