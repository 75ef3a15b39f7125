"""Asking a driver, and checking what kind of thing it answers.

A hook may return anything. What is not of the kind that its caller counts on is a `HookError` here,
in one line with the driver, the hook and what was expected, before anything is done with it. Called
by the loop and by commands; what hooks raise themselves goes on up as it is. Hooks that return
nodes are called by `Faults.nodes` in the loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hpc.autoscale.autoscaler.faults import (
    HookError,
    at_once,
    call_with_up_to,
    calling,
    checked_nodes,
    has_name,
    name_of,
    short,
    without_exit,
)
from hpc.autoscale.errors import one_line, one_line_and_where, while_doing
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import UnusableHost
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory
from hpc.autoscale.util import SingletonLock

T = TypeVar("T")


def ask(hook: Callable[..., T], *args: Any) -> T:
    """What a hook answers. What it raises is as `calling` has it, and `hook_of` knows of it."""
    with _noting(hook), calling(name_of(hook)):
        return hook(*args)


_RAISED_IN = "_raised_in"


@contextmanager
def _noting(hook: Callable[..., object]) -> Iterator[None]:
    """A context after which `hook_of` knows of what was raised in it."""
    try:
        yield
    except Exception as error:
        _note_hook(error, hook)
        raise


def _note_hook(error: Exception, hook: Callable[..., object]) -> None:
    # in a list, for a journal keeps the texts among the attributes of an error
    vars(error)[_RAISED_IN] = [getattr(hook, "__name__", "")]


def hook_of(error: Exception) -> str:
    """The name of the hook that raised an error, or its cause, or whose answer it is about; else
    empty."""
    found = vars(error).get(_RAISED_IN) or vars(error.__cause__ or error).get(_RAISED_IN, ())
    return "".join(found)


def end_of_pass(error: Exception) -> str:
    """What is kept of an error that ended a pass: one line, with the hook where one raised it."""
    return one_line_and_where(error) if hook_of(error) else one_line(error)


def ask_for_nodes(hook: Callable[..., Any], nodes: list[Node], *more: Any) -> list[Node]:
    """The nodes that a hook returns, none for None, where a person gives a command. `more` is given
    to hooks that take it. What it raises is as for `ask`; HookError for what are no nodes."""
    with calling(name_of(hook)):
        found = at_once(call_with_up_to(hook, nodes, *more))
    return checked_nodes(name_of(hook), found or [])


def checked_driver(driver: object) -> SchedulerDriver:
    """The driver. HookError when it is none."""
    if not isinstance(driver, SchedulerDriver):
        raise HookError(f"expected a SchedulerDriver for the loop, found {short(driver)}")
    return driver


def made(new_driver: Callable[[], object]) -> SchedulerDriver:
    """The driver that a function makes. HookError when it makes none."""
    with without_exit("making a driver"):
        found = new_driver()
    return checked_driver(found)


def prepared_config(driver: SchedulerDriver, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with what the driver adds to it. HookError also for a driver whose
    directory is no path."""
    found: object = ask(driver.preprocess_config, config)
    if not isinstance(found, Mapping):
        raise _error(driver.preprocess_config, "the configuration, a dict,", found)
    home: object = driver.autoscale_home
    if not (isinstance(home, str | os.PathLike) and str(home)):
        whose = f"{type(driver).__name__}.autoscale_home"
        raise HookError(f"{whose}: expected the path of a directory, found {short(home)}")
    return found if isinstance(found, dict) else dict(found)


def new_lock(driver: SchedulerDriver, config: dict[str, Any]) -> SingletonLock:
    """The lock, taken. HookError for what could not be given back: nobody knows then whether it is
    held."""
    found = ask(driver.new_singleton_lock, config)
    if not callable(getattr(found, "unlock", None)):
        raise _error(driver.new_singleton_lock, "a SingletonLock that is held", found)
    return found


def has_own_lock(driver: SchedulerDriver) -> bool:
    """Whether a driver takes another lock than the one that `lock_file` names."""
    return type(driver).new_singleton_lock is not SchedulerDriver.new_singleton_lock


def new_history(driver: SchedulerDriver, config: dict[str, Any]) -> NodeHistory:
    """The node history."""
    found: object = ask(driver.new_node_history, config)
    if not isinstance(found, NodeHistory):
        raise _error(driver.new_node_history, "a NodeHistory", found)
    return found


def new_queue(driver: SchedulerDriver, config: dict[str, Any]) -> NodeQueue:
    """The order in which nodes are reported."""
    found: object = ask(driver.new_node_queue, config)
    if not isinstance(found, NodeQueue):
        raise _error(driver.new_node_queue, "a NodeQueue", found)
    return found


def name_of_job(driver: SchedulerDriver, name: str) -> str:
    """The name of the job that stands for the one that users call `name`. HookError for what is no
    text."""
    found: object = ask(driver.name_of_job, name)
    if not isinstance(found, str) or not found:
        raise _error(driver.name_of_job, "the name of a job", found)
    return found


def standing_for(driver: SchedulerDriver, name: str, jobs: Iterable[object]) -> str:
    """The name of the job, of those that were read, that users call `name`: that name itself where
    a job has it, else what the driver says. HookError as for `name_of_job`."""
    if any(getattr(job, "name", None) == name for job in jobs):
        return name
    return name_of_job(driver, name)


def read(
    driver: SchedulerDriver, config: dict[str, Any], again: bool = False
) -> tuple[list[Job], list[SchedulerNode]]:
    """Jobs and nodes as the driver has read them, or, with `again`, as the scheduler has them now,
    whatever the driver's base class remembers.

    HookError unless they are two lists, the second of nodes. What is no job is left to whoever
    sets jobs aside; a host without a name is among these jobs.
    """
    hook, wanted = driver.read_jobs_and_nodes, "a list of jobs and a list of SchedulerNodes"
    try:
        with without_exit(name_of(hook)):
            found: object = call_with_up_to(hook, config, True) if again else hook(config)
    except Exception as error:
        while_doing(error, "reading the scheduler")
        raise
    if not isinstance(found, list | tuple) or len(found) != 2:
        raise _error(hook, wanted, found)
    jobs, hosts = found
    for each in (jobs, hosts):
        # what can be iterated over once would be empty for the next one who asks
        if not isinstance(each, Sequence) or isinstance(each, str | bytes):
            raise _error(hook, wanted, each)
    for host in hosts:
        if not isinstance(host, Node):
            raise _error(hook, wanted, host)
    nameless = [
        UnusableHost(number, short(host.fqdn))
        for number, host in enumerate(hosts, 1)
        if not has_name(host)
    ]
    return ([*jobs, *nameless], list(filter(has_name, hosts))) if nameless else (jobs, hosts)


def validate(driver: SchedulerDriver, hosts: list[SchedulerNode], nodes: list[Node]) -> None:
    """Let the driver compare the scheduler's nodes with CycleCloud's; it may take hosts out of the
    list, and put others in. HookError for anything but nodes."""
    ask(driver.validate_nodes, hosts, nodes)
    for host in hosts:
        given: object = host
        if not isinstance(given, Node):
            raise HookError(
                f"{name_of(driver.validate_nodes)}: expected a list of SchedulerNodes to be left,"
                f" found {short(given)} in it"
            )


def wanted_arrays(driver: SchedulerDriver, config: dict[str, Any]) -> list[Mapping[str, Any]]:
    """What the driver wants of nodearrays."""
    hook, wanted = driver.wanted_arrays, "a list of nodearray definitions"
    with _noting(hook), without_exit(name_of(hook)):
        found: object = at_once(hook(config))
    if not isinstance(found, list):
        raise _error(hook, wanted, found)
    for array in found:
        if not isinstance(array, Mapping):
            raise _error(hook, wanted, array)
    return found


def _error(hook: Callable[..., object], wanted: str, found: object) -> HookError:
    said = f"{name_of(hook)}: expected {wanted} to be returned, found {short(found)}"
    error = HookError(said)
    _note_hook(error, hook)
    return error
