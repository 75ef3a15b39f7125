"""What a driver promises while a cluster shrinks: nothing is lost that runs, and drained comes before deleted."""

from __future__ import annotations

from unittest.mock import patch

from hpc.autoscale.errors import CycleCloudError
from hpc.autoscale.testing.stage import IDLE_TIMEOUT, Stage, expect, replaced
from hpc.autoscale.testing.watching import short


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
                f"expected {host} to count as busy while a task runs there: it must be in the node's"
                f" `assignments`. {summary}",
            )
        _takes_work(stage, host, "a task runs there, and there is room for more")

    def test_idle_nodes_drain_before_they_go(self, stage: Stage) -> None:
        """The scheduler is told to start nothing there, and then the node is deleted; others stay."""
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
            f"expected {name} to be drained and deleted after {IDLE_TIMEOUT} s without work. {summary}",
        )
        expect(kept in stage.nodes(), f"expected {kept}, where tasks run, to stay")

    def test_deleted_nodes_are_forgotten(self, stage: Stage) -> None:
        """The scheduler no longer knows their hosts."""
        hosts = stage.grow_idle(2)
        stage.run()
        left = [host for host in hosts if stage.knows(host)]
        expect(not left, f"expected handle_post_delete to remove deleted nodes, found {left} known")

    def test_work_that_starts_before_the_drain_keeps_its_node(self, stage: Stage) -> None:
        """Between the look at the jobs and the drain a task has started: the node stays until the task has ended."""
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
        """It waits for its last task when work arrives that fits there: it takes work again, or another node comes."""
        (host,) = stage.grow_idle(1)
        stage.driver.before["handle_draining"] = lambda: _one_starts(stage, host)
        stage.run()
        stage.world.submit(1)
        summary = stage.run()
        expect(
            summary.requested or short(host) in stage.open_hosts(),
            f"expected {host} to be given back to the scheduler by add_nodes_to_cluster: it is drained,"
            f" and a waiting task was counted on it. Hosts: {stage.hosts()}. {summary}",
        )

    def test_a_drained_node_that_could_not_be_deleted_goes_later(self, stage: Stage) -> None:
        """CycleCloud refuses for a while: the node, drained already, is drained once more and deleted then."""
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
        """A pass may be cut short anywhere: every hook is called twice with the same nodes, to the same end."""
        stage.driver.repeats = True
        (host,) = stage.grow_idle(1)
        (name,) = stage.nodes()
        summary = stage.run()
        expect(
            summary.deleted == (name,),
            f"expected {name} to be drained and deleted, also when hooks are called twice. {summary}",
        )
        expect(not stage.knows(host), f"expected {host} to be removed from the scheduler")
        stage.world.submit(1)
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


def _takes_work(stage: Stage, host: str, when: str) -> None:
    __tracebackhide__ = True
    expect(
        short(host) in stage.open_hosts(),
        f"expected {host} to take work: {when}. Hosts: {stage.hosts()}",
    )


def _is_drained(stage: Stage, host: str) -> None:
    __tracebackhide__ = True
    expect(
        short(host) not in stage.open_hosts(),
        f"expected {host} to be drained before it is deleted, and it takes work. Hosts: {stage.hosts()}",
    )


def _one_starts(stage: Stage, host: str) -> None:
    stage.world.submit(1)
    stage.start(host)


def _refused(*args: object, **kwargs: object) -> None:
    raise CycleCloudError("the cluster is locked, try again")
