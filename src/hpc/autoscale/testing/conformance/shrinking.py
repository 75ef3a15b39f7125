"""What a driver promises while a cluster shrinks: nothing is lost that runs, and drained comes
before deleted."""

from __future__ import annotations

from unittest.mock import patch

from hpc.autoscale.errors import CycleCloudError
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.testing.promise import expect
from hpc.autoscale.testing.stage import IDLE_TIMEOUT, Stage, replaced

_SIX_HOURS = 6 * 3600


class Shrinking:
    """Checks of draining, and of what comes after deleting."""

    def test_running_work_keeps_its_node(self, stage: Stage) -> None:
        """However long it runs, with nothing waiting: the node stays, and takes work besides."""
        (host,) = stage.grow(1)
        tasks = stage.world.tasks_per_node
        stage.start(host, tasks)
        stage.finish(host, tasks - 1)
        for _ in range(3):
            stage.wait(IDLE_TIMEOUT + 1)
            summary = stage.run()
            expect(
                not summary.deleted and not summary.idle,
                f"expected {host} to count as busy while a task runs there: it must be in the"
                " node's"
                f" `assignments`. {summary}",
            )
        _takes_work(stage, host, "a task runs there, and there is room for more")

    def test_idle_nodes_drain_before_they_go(self, stage: Stage) -> None:
        """The scheduler is told to start nothing there, and then the node is deleted; others
        stay."""
        idle, busy = stage.grow(2)
        for host in (idle, busy):
            stage.start(host, stage.world.tasks_per_node)
        stage.finish(idle, stage.world.tasks_per_node)
        stage.run()
        stage.wait(IDLE_TIMEOUT + 1)
        stage.driver.before["handle_post_delete"] = lambda: _is_drained(stage, idle)
        name, kept = stage.node_of(idle), stage.node_of(busy)
        summary = stage.run()
        expect(
            summary.deleted == (name,),
            f"expected {name} to be drained and deleted after {IDLE_TIMEOUT} s without work."
            f" {summary}",
        )
        expect(kept in stage.nodes(), f"expected {kept}, where tasks run, to stay")

    def test_only_idle_nodes_are_drained(self, stage: Stage) -> None:
        """A node with a task and room for more, and one that was idle for a moment only, take work
        as before."""
        idle, *others = _three_of_which_one_is_idle(stage)
        name = stage.node_of(idle)
        stage.driver.before["handle_post_delete"] = lambda: _stay_open(stage, others, idle)
        summary = stage.run()
        expect(summary.deleted == (name,), f"expected {name}, and no other node, to go. {summary}")
        _stay_open(stage, others, idle)

    def test_only_deleted_nodes_are_forgotten(self, stage: Stage) -> None:
        """The hosts of the others stay known as they were, with what runs there."""
        idle, *others = _three_of_which_one_is_idle(stage)
        before = {host: stage.hosts().get(short_name(host)) for host in others}
        stage.run()
        after = {host: stage.hosts().get(short_name(host)) for host in others}
        expect(
            before == after,
            f"expected handle_post_delete to remove {idle} and no other host."
            f" Before: {before}. After: {after}",
        )

    def test_an_idle_node_that_the_scheduler_does_not_know_goes(self, stage: Stage) -> None:
        """It has never joined, so nothing runs there: it is deleted after a while, and not paid for
        for ever."""
        tasks = stage.world.tasks_per_node
        stage.submit(2 * tasks)
        known, unknown = stage.run().created
        (host,) = stage.come_up(known)
        stage.come_up_unknown(unknown)
        stage.run()
        for _ in range(2):
            stage.start(host, tasks)
            stage.finish(host, tasks)
        for _ in range(4):
            stage.run()
            stage.wait(_SIX_HOURS)
        stage.run()
        expect(
            unknown not in stage.nodes(),
            f"expected {unknown} to be deleted: ready and idle for {4 * _SIX_HOURS // 3600} hours,"
            " and not known to"
            " the scheduler. handle_draining must return such nodes, or validate_nodes call them"
            " failed."
            f" Nodes: {stage.nodes()}. Hosts: {stage.hosts()}",
        )

    def test_deleted_nodes_are_forgotten(self, stage: Stage) -> None:
        """The scheduler no longer knows their hosts."""
        hosts = stage.grow_idle(2)
        stage.run()
        left = [host for host in hosts if stage.knows(host)]
        expect(not left, f"expected handle_post_delete to remove deleted nodes, found {left} known")

    def test_work_that_starts_before_the_drain_keeps_its_node(self, stage: Stage) -> None:
        """Between the look at the jobs and the drain a task has started: the node stays until the
        task has ended."""
        (host,) = stage.grow_idle(1)
        name = stage.node_of(host)
        stage.driver.before["handle_draining"] = lambda: _one_starts(stage, host)
        summary = stage.run()
        expect(
            name in stage.nodes(), f"expected {name}, where a task has started, to stay. {summary}"
        )
        stage.wait(IDLE_TIMEOUT + 1)
        stage.run()
        expect(name in stage.nodes(), f"expected {name} to stay while the task runs. {summary}")
        stage.finish(host)
        stage.run()
        stage.wait(IDLE_TIMEOUT + 1)
        stage.run_until(
            lambda: name not in stage.nodes(),
            f"{name} goes: drained when a task ran there, which has ended since",
        )

    def test_a_drained_node_that_is_needed_comes_back(self, stage: Stage) -> None:
        """It waits for its last task when work arrives that fits there: it takes work again, or
        another node comes."""
        (host,) = stage.grow_idle(1)
        stage.driver.before["handle_draining"] = lambda: _one_starts(stage, host)
        stage.run()
        stage.submit(1)
        summary = stage.run()
        expect(
            summary.requested or short_name(host) in stage.open_hosts(),
            f"expected {host} to be given back to the scheduler by add_nodes_to_cluster: it is"
            " drained,"
            f" and a waiting task was counted on it. Hosts: {stage.hosts()}. {summary}",
        )

    def test_a_drained_host_stays_closed_until_it_is_needed(self, stage: Stage) -> None:
        """A task that started before the drain runs on, and nothing waits: nothing else starts
        there, until it is gone."""
        (host,) = stage.grow_idle(1)
        name = stage.node_of(host)
        stage.driver.before["handle_draining"] = lambda: _one_starts(stage, host)
        stage.run()
        for _ in range(2):
            stage.run()
            _stays_closed(stage, host)
        stage.finish(host)
        stage.run()
        stage.wait(IDLE_TIMEOUT + 1)
        stage.driver.before["handle_draining"] = lambda: _stays_closed(stage, host)
        stage.run_until(lambda: name not in stage.nodes(), f"{name} goes, drained long since")

    def test_a_drained_node_that_could_not_be_deleted_goes_later(self, stage: Stage) -> None:
        """CycleCloud refuses for a while: the node, drained already, is drained once more and
        deleted then."""
        (host,) = stage.grow_idle(1)
        name = stage.node_of(host)
        with patch.object(stage.cluster, "delete_nodes", side_effect=_refused):
            stage.run_in_trouble()
        expect(
            name in stage.nodes(), f"expected {name} to stay when CycleCloud refuses to delete it"
        )
        stage.run_until(
            lambda: name not in stage.nodes(),
            f"{name} goes: handle_draining must return nodes that are drained already, too",
        )
        expect(not stage.knows(host), f"expected {host} to be removed from the scheduler")

    def test_hooks_may_be_repeated(self, stage: Stage) -> None:
        """A pass may be cut short anywhere: every hook is called twice with the same nodes, to the
        same end."""
        stage.driver.repeats = True
        (host,) = stage.grow_idle(1)
        (name,) = stage.nodes()
        summary = stage.run()
        expect(
            summary.deleted == (name,),
            f"expected {name} to be drained and deleted, also when hooks are called twice."
            f" {summary}",
        )
        expect(not stage.knows(host), f"expected {host} to be removed from the scheduler")
        stage.submit(1)
        (name,) = stage.run().created
        stage.fail(name)
        replaced(stage, name, "it has failed, and hooks are called twice")

    def test_hooks_take_empty_lists(self, stage: Stage) -> None:
        """No nodes means none: nothing is changed, nothing returned."""
        stage.grow_idle(2)
        driver = stage.driver
        config = driver.preprocess_config(dict(stage.config))
        driver.read_jobs_and_nodes(config, True)
        before = stage.hosts()
        for hook in (
            driver.handle_failed_nodes,
            driver.add_nodes_to_cluster,
            driver.handle_post_join_cluster,
            driver.handle_boot_timeout,
            driver.handle_draining,
            driver.handle_post_delete,
        ):
            returned = hook([])
            expect(
                returned == [] and not driver.broken and stage.hosts() == before,
                f"expected {hook.__name__} without nodes to do nothing and to return an empty list,"
                f" found {driver.broken or returned}. Before: {before}. After: {stage.hosts()}",
            )


def _three_of_which_one_is_idle(stage: Stage) -> tuple[str, str, str]:
    """Hosts: idle for longer than the timeout; with a task and room for more; and idle for half the
    timeout."""
    __tracebackhide__ = True
    tasks = stage.world.tasks_per_node
    idle, busy, resting = stage.grow(3)
    for host in (idle, busy, resting):
        stage.start(host, tasks)
    stage.finish(idle, tasks)
    stage.finish(busy, tasks - 1)
    stage.run()
    stage.wait(IDLE_TIMEOUT / 2)
    stage.run()
    stage.finish(resting, tasks)
    stage.wait(IDLE_TIMEOUT / 2 + 1)
    return idle, busy, resting


def _stay_open(stage: Stage, others: list[str], idle: str) -> None:
    __tracebackhide__ = True
    closed = [host for host in others if short_name(host) not in stage.open_hosts()]
    expect(
        not closed,
        f"expected {' and '.join(others)} to take work as before while {idle} is drained;"
        f" {' and '.join(closed)}"
        " takes none. handle_draining must close the nodes that it is given, and no others."
        f" Hosts: {stage.hosts()}",
    )


def _stays_closed(stage: Stage, host: str) -> None:
    __tracebackhide__ = True
    expect(
        short_name(host) not in stage.open_hosts(),
        f"expected {host} to take no work: it is drained, and nothing waits. add_nodes_to_cluster"
        " must open a"
        " closed host only when more is assigned to its node than runs there. Hosts:"
        f" {stage.hosts()}",
    )


def _takes_work(stage: Stage, host: str, when: str) -> None:
    __tracebackhide__ = True
    expect(
        short_name(host) in stage.open_hosts(),
        f"expected {host} to take work: {when}. Hosts: {stage.hosts()}",
    )


def _is_drained(stage: Stage, host: str) -> None:
    __tracebackhide__ = True
    expect(
        short_name(host) not in stage.open_hosts(),
        f"expected {host} to be drained before it is deleted, and it takes work. Hosts:"
        f" {stage.hosts()}",
    )


def _one_starts(stage: Stage, host: str) -> None:
    stage.submit(1)
    stage.start(host)


def _refused(*args: object, **kwargs: object) -> None:
    raise CycleCloudError("the cluster is locked, try again")
