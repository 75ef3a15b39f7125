"""Reading the scheduler, pass after pass, and telling what is read from what was only remembered.

A driver may keep what it read for as long as it lives, which is harmless in one pass. In the next
one it would be the queue of before for ever: nodes would be created for work that is done, and
deleted under work that has begun. Who reads, and when, is decided by `loop` and `passes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.autoscaler.faults import short
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node

Reading = tuple[list[Job], list[SchedulerNode]]
"""The jobs and nodes of a scheduler."""

Prepared = tuple[SchedulerDriver, dict[str, Any]]
"""A driver, initialized, and the configuration with what it adds to it."""


_REMEDY = (
    "let _read_jobs_and_nodes ask the scheduler and make its objects anew, or give Autoscaler a"
    " function that makes the driver"
)


class StaleReading(AutoscaleError):
    """A driver handed over, once more, the very objects of an earlier pass; nobody knows what the
    scheduler has now."""


class Readings:
    """What was read in this pass and in the one before, and `reported`: keys of the nodes whose
    hosts were among what was read, unless the scheduler has given them up since."""

    def __init__(self) -> None:
        self.reported: set[object] = set()
        # they are kept, so that nothing new can have the id of something old
        self._objects: list[object] = []
        self._stamps: list[object] = []
        self._lists: tuple[object, object] = (None, None)
        self._has_warned = False

    def read(self, driver: SchedulerDriver, config: dict[str, Any]) -> Reading:
        """The first look of a pass. StaleReading when any of it was in the last pass."""
        jobs, hosts = read_again(driver, config)
        stamp = hooks.ask(driver.reading_stamp)
        repeated = self._repeated(jobs, hosts, stamp)
        if repeated is not None:
            raise StaleReading(
                f"{driver}: expected jobs and nodes that were read anew, found the same"
                f" {repeated} as in the pass before. It keeps what it read, so"
                f" nothing is created or deleted: {_REMEDY}"
            )
        is_unknown = stamp is None and self._are_the_same_empty_lists(jobs, hosts)
        if is_unknown and not self._has_warned:
            self._has_warned = True
            logging.warning(
                "%s returned the very lists of the pass before, and both are empty. If it keeps"
                " what it read, it will never see a job: then give Autoscaler a function that makes"
                " the driver",
                driver,
            )
        self.remember((jobs, hosts), stamp)
        return jobs, hosts

    def remember(self, reading: Reading, stamp: object) -> None:
        """Note what was read at first, and what the driver said of when that was."""
        jobs, hosts = reading
        self._objects = [*jobs, *hosts]
        self._stamps = [stamp]
        self._lists = (jobs, hosts)

    def read_for_deletion(
        self, driver: SchedulerDriver, config: dict[str, Any], another: Callable[[], Prepared]
    ) -> Reading:
        """The look before nodes are deleted, after the first one of this pass.

        A driver that only repeats itself is no witness, so that another one is asked. StaleReading
        when that does not help either; when both looks are empty and nobody can tell, there is
        nothing newer than the driver's own word for the nodes that it gave back.
        """
        reading, stamp = read_again(driver, config), hooks.ask(driver.reading_stamp)
        if self._is_old(reading, stamp):
            other, its_config = another()
            if other is not driver:
                reading, stamp = read_again(other, its_config), hooks.ask(other.reading_stamp)
        repeated = self._repeated(*reading, stamp)
        if repeated is not None:
            raise StaleReading(
                f"{driver}: expected jobs and nodes that were read anew before nodes are deleted,"
                f" found the same {repeated} as at the start of the pass. It is not"
                f" known whether work has started since: {_REMEDY}"
            )
        if self._is_old(reading, stamp):
            logging.warning(
                "%s hands over what it read at the start of the pass: whether work has started"
                " since then is known only from what it returned when nodes were drained",
                driver,
            )
        self._objects += [*reading[0], *reading[1]]
        self._stamps.append(stamp)
        return reading

    def _is_old(self, reading: Reading, stamp: object) -> bool:
        old = self._repeated(*reading, stamp) is not None
        return old or (stamp is None and self._are_the_same_empty_lists(*reading))

    def _repeated(self, jobs: list[Job], hosts: list[SchedulerNode], stamp: object) -> str | None:
        """What was handed over before: a stamp, a job or a node."""
        if stamp is not None and stamp in self._stamps:
            return f"reading_stamp, {short(stamp)},"
        known = set(map(id, self._objects))
        for each in (*jobs, *hosts):
            if id(each) in known and isinstance(each, Job | Node):
                what = f"job {each.name}" if isinstance(each, Job) else f"node {each}"
                return f"{what} object"
        return None

    def _are_the_same_empty_lists(self, jobs: list[Job], hosts: list[SchedulerNode]) -> bool:
        """Then nobody can tell a scheduler without jobs and nodes from one that was not asked."""
        return not jobs and not hosts and jobs is self._lists[0] and hosts is self._lists[1]


def read_again(driver: SchedulerDriver, config: dict[str, Any]) -> Reading:
    """Jobs and nodes as the scheduler has them now, whatever the driver's base class remembers."""
    return hooks.read(driver, config, again=True)
