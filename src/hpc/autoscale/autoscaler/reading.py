"""Reading the scheduler, pass after pass, and telling what is read from what was only remembered.

A driver may keep what it read for as long as it lives, which is harmless in one pass. In the next
one it would be the queue of before for ever: nodes would be created for work that is done, and
deleted under work that has begun. Who reads, and when, is decided by `loop` and `passes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.faults import call_with_up_to
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
    "let _read_jobs_and_nodes make its Job and SchedulerNode objects anew, or give Autoscaler a"
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
        self._lists: tuple[object, object] = (None, None)
        self._has_warned = False

    def read(self, driver: SchedulerDriver, config: dict[str, Any]) -> Reading:
        """The first look of a pass. StaleReading when any of it was in the last pass."""
        jobs, hosts = read_again(driver, config)
        repeated = self._repeated(jobs, hosts)
        if repeated is not None:
            raise StaleReading(
                f"{driver}: expected jobs and nodes that were read anew, found the same"
                f" {_what(repeated)} object as in the pass before. It keeps what it read, so"
                f" nothing is created or deleted: {_REMEDY}"
            )
        if self._are_the_same_empty_lists(jobs, hosts) and not self._has_warned:
            self._has_warned = True
            logging.warning(
                "%s returned the very lists of the pass before, and both are empty. If it keeps"
                " what it read, it will never see a job: then give Autoscaler a function that makes"
                " the driver",
                driver,
            )
        self._objects = [*jobs, *hosts]
        self._lists = (jobs, hosts)
        return jobs, hosts

    def read_for_deletion(
        self, driver: SchedulerDriver, config: dict[str, Any], another: Callable[[], Prepared]
    ) -> Reading:
        """The look before nodes are deleted, after the first one of this pass.

        A driver that only repeats itself is no witness, so that another one is asked. StaleReading
        when that does not help either; when both looks are empty and nobody can tell, there is
        nothing newer than the driver's own word for the nodes that it gave back.
        """
        reading = read_again(driver, config)
        if self._is_old(reading):
            other, its_config = another()
            if other is not driver:
                reading = read_again(other, its_config)
        repeated = self._repeated(*reading)
        if repeated is not None:
            raise StaleReading(
                f"{driver}: expected jobs and nodes that were read anew before nodes are deleted,"
                f" found the same {_what(repeated)} object as at the start of the pass. It is not"
                f" known whether work has started since: {_REMEDY}"
            )
        if self._is_old(reading):
            logging.warning(
                "%s hands over what it read at the start of the pass: whether work has started"
                " since then is known only from what it returned when nodes were drained",
                driver,
            )
        self._objects += [*reading[0], *reading[1]]
        return reading

    def _is_old(self, reading: Reading) -> bool:
        return self._repeated(*reading) is not None or self._are_the_same_empty_lists(*reading)

    def _repeated(self, jobs: list[Job], hosts: list[SchedulerNode]) -> Job | Node | None:
        """A job or a node that was handed over before."""
        known = set(map(id, self._objects))
        for each in (*jobs, *hosts):
            if id(each) in known and isinstance(each, Job | Node):
                return each
        return None

    def _are_the_same_empty_lists(self, jobs: list[Job], hosts: list[SchedulerNode]) -> bool:
        """Then nobody can tell a scheduler without jobs and nodes from one that was not asked."""
        return not jobs and not hosts and jobs is self._lists[0] and hosts is self._lists[1]


def _what(thing: Job | Node) -> str:
    return f"job {thing.name}" if isinstance(thing, Job) else f"node {thing}"


def read_again(driver: SchedulerDriver, config: dict[str, Any]) -> Reading:
    """Jobs and nodes as the scheduler has them now, whatever the driver's base class remembers."""
    return call_with_up_to(driver.read_jobs_and_nodes, config, True)
