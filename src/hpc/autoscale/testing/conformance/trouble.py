"""What a driver promises when things go wrong: nodes fail, vanish or do not come up, and the
scheduler does not answer."""

from __future__ import annotations

from contextlib import ExitStack

from hpc.autoscale.node.identity import short_name
from hpc.autoscale.testing.promise import expect
from hpc.autoscale.testing.stage import (
    BOOT_TIMEOUT,
    IDLE_TIMEOUT,
    Stage,
    replaced,
    snapshot,
)


class Trouble:
    """Checks of failed and lost nodes, and of silence."""

    # -- nodes

    def test_nodes_that_fail_to_boot_are_replaced(self, stage: Stage) -> None:
        """A failed node is given to handle_failed_nodes, deleted, and another one created for its
        work."""
        stage.submit(1)
        (name,) = stage.run().created
        stage.fail(name)
        replaced(stage, name, "it has failed; handle_failed_nodes must return it")

    def test_nodes_that_fail_after_joining_are_forgotten(self, stage: Stage) -> None:
        """The scheduler no longer knows the host, knows the others as before, and waiting work gets
        another node."""
        host, other = stage.grow(2)
        stage.start(other)
        before = stage.hosts()[short_name(other)]
        name = stage.node_of(host)

        def others_are_as_before() -> None:
            after = stage.hosts().get(short_name(other))
            expect(
                after == before,
                f"expected {host}, whose node has failed, and no other host to be removed."
                f" {other} before: {before}. After: {after}",
            )

        stage.fail(name)
        stage.resubmit()
        stage.driver.before["add_nodes_to_cluster"] = others_are_as_before
        replaced(stage, name, "it has failed; handle_failed_nodes must return it")
        _is_forgotten(stage, host, "its node has failed and is deleted")
        others_are_as_before()

    def test_nodes_that_do_not_come_up_are_replaced(self, stage: Stage) -> None:
        """After the boot timeout a node is given to handle_boot_timeout, deleted, and another one
        created."""
        stage.submit(1)
        (name,) = stage.run().created
        stage.prepare(name)
        stage.wait(BOOT_TIMEOUT + 1)
        replaced(
            stage,
            name,
            f"it was not ready after {BOOT_TIMEOUT} s; handle_boot_timeout must return it",
        )

    def test_nodes_that_vanish_are_forgotten(self, stage: Stage) -> None:
        """CycleCloud lists a node no more, as after an eviction: no work is counted on its host,
        which is removed."""
        lost, other = stage.grow(2)
        name = stage.node_of(lost)
        stage.vanish(name)
        stage.resubmit()
        stage.run_until(
            lambda: not stage.knows(lost) and stage.has_nodes(2),
            f"{lost} is removed from the scheduler and its work gets a node: {name} is not listed"
            " by CycleCloud any more. (Compare the two lists in validate_nodes. A scheduler may"
            " refuse to remove a host on which it says that tasks run: close it first, and let them"
            " wait again, by force.)",
        )
        expect(stage.knows(other), f"expected {other} to stay known to the scheduler")

    def test_hosts_that_were_never_nodes_stay(self, stage: Stage) -> None:
        """The scheduler may have hosts of its own, on premises: they are neither drained nor
        removed."""
        stage.world.add_own_host("on-premises-1")
        for _ in range(3):
            stage.run()
            stage.wait(IDLE_TIMEOUT + 1)
        expect(
            short_name("on-premises-1") in stage.open_hosts(),
            "expected on-premises-1, which CycleCloud never knew, to be left alone and take work."
            f" Hosts: {stage.hosts()}",
        )

    # -- the queue

    def test_work_that_makes_no_sense_stops_no_other(self, stage: Stage) -> None:
        """It is set aside in the summary of the pass, by name; the nodes for the rest are created,
        and those where tasks run stay."""
        (host,) = stage.grow(1)
        stage.start(host, stage.world.tasks_per_node)
        stage.world.submit_nonsense()
        stage.submit(stage.world.tasks_per_node)
        summary = stage.run(set_aside=1)
        expect(
            len(summary.created) == 1,
            f"expected 1 new node for what can be used of the queue. {summary}",
        )
        expect(stage.node_of(host) in stage.nodes(), f"expected {host}, where tasks run, to stay")

    # -- silence

    def test_without_an_answer_nothing_changes(self, stage: Stage) -> None:
        """While the scheduler cannot be asked the driver raises: unknown work is not no work."""
        (host,) = stage.grow_idle(1)
        name = stage.node_of(host)
        before = snapshot(stage)
        with stage.world.unreachable():
            for _ in range(2):
                expect(
                    stage.run_in_trouble() is None,
                    "expected the driver to raise, in initialize or when jobs and nodes are read,"
                    " because"
                    " the scheduler does not answer; it was read as if it had answered",
                )
                stage.wait(IDLE_TIMEOUT + 1)
            after = snapshot(stage)
        expect(before == after, f"expected no change. Before: {before}. After: {after}")
        stage.run_until(
            lambda: name not in stage.nodes(), f"{name} goes, once the scheduler answers again"
        )

    def test_without_an_answer_to_the_drain_nothing_is_deleted(self, stage: Stage) -> None:
        """The scheduler answers at the start of the pass, and no longer when nodes are drained."""
        (host,) = stage.grow_idle(1)
        name = stage.node_of(host)
        with ExitStack() as silence:
            stage.driver.before["handle_draining"] = lambda: silence.enter_context(
                stage.world.unreachable()
            )
            stage.run_in_trouble()
            expect(name in stage.nodes(), f"expected {name} to stay: nobody knows what runs there")
        stage.run_until(
            lambda: name not in stage.nodes(), f"{name} goes, once the scheduler answers again"
        )

    def test_a_silent_host_is_not_idle(self, stage: Stage) -> None:
        """Tasks run on a host of which nothing is heard: its node stays."""
        (host,) = stage.grow(1)
        name = stage.node_of(host)
        stage.start(host, stage.world.tasks_per_node)
        stage.run()
        with stage.world.silence(host):
            for _ in range(2):
                stage.wait(IDLE_TIMEOUT + 1)
                summary = stage.run()
                expect(
                    name in stage.nodes(),
                    f"expected {name} to stay: {host} is silent, and tasks run there. {summary}",
                )


def _is_forgotten(stage: Stage, host: str, why: str) -> None:
    __tracebackhide__ = True
    expect(
        not stage.knows(host),
        f"expected {host} to be removed from the scheduler: {why}. Hosts: {stage.hosts()}",
    )
