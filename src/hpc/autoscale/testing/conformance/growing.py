"""What a driver promises while a cluster grows: work is counted once, and exactly the nodes that
are ready join."""

from __future__ import annotations

from hpc.autoscale.node.identity import short_name
from hpc.autoscale.testing.promise import expect
from hpc.autoscale.testing.stage import IDLE_TIMEOUT, Stage, snapshot


class Growing:
    """Checks of reading jobs and nodes, and of joining."""

    # -- reading

    def test_waiting_work_makes_nodes(self, stage: Stage) -> None:
        """As many nodes as the waiting tasks fill, and one for what is left."""
        stage.submit(2 * stage.world.tasks_per_node + 1)
        summary = stage.run()
        expect(
            len(summary.created) == 3,
            f"expected 3 new nodes for {2 * stage.world.tasks_per_node + 1} waiting tasks, of which"
            f" {stage.world.tasks_per_node} fill a node; found {len(summary.created)}. {summary}",
        )

    def test_work_is_counted_once(self, stage: Stage) -> None:
        """While nodes boot, when they have joined and when tasks have started: it is the same work,
        and needs no more."""
        tasks = stage.world.tasks_per_node
        stage.submit(2 * tasks)
        first = stage.run().created
        _nothing_new(stage, "while the nodes for them boot")
        busy, half = stage.come_up(*first)
        _nothing_new(stage, "when the nodes for them have come up")
        stage.start(busy, tasks)
        _nothing_new(stage, "when half of them have started: running work waits for nothing")
        stage.start(half)
        _nothing_new(stage, "when one more has started, and the others fit beside it")

    def test_busy_nodes_have_no_room(self, stage: Stage) -> None:
        """What running tasks use of a node is not there for waiting ones: these get a node of their
        own."""
        (host,) = stage.grow(1)
        stage.start(host, stage.world.tasks_per_node)
        stage.submit(1)
        created = stage.run().created
        expect(
            len(created) == 1,
            f"expected 1 new node for a waiting task while {host} is full, found {len(created)}:"
            " what runs on a node must be taken off its `available`",
        )

    def test_a_dry_run_changes_nothing(self, stage: Stage) -> None:
        """Idle nodes stay, ready ones do not join, lost ones are not removed, and what waits still
        waits."""
        (host,) = stage.grow_idle(1)
        _dry_run(stage, f"{host} is idle")
        stage.submit(2 * stage.world.tasks_per_node)
        _dry_run(stage, "work waits")
        created = stage.run().created
        expect(len(created) == 1, f"expected 1 new node after the dry run, found {created}")
        stage.come_up(*created)
        _dry_run(stage, f"{created[0]} is ready")
        stage.run()
        stage.vanish(created[0])
        _dry_run(stage, f"{created[0]} has vanished")

    # -- joining

    def test_ready_nodes_join_and_others_do_not(self, stage: Stage) -> None:
        """A node that boots takes no work, with a host name or without; it joins in the pass after
        it is ready."""
        stage.submit(3 * stage.world.tasks_per_node)
        one, two, three = stage.run().created
        stage.run()
        _open(stage, set(), "no node is ready")
        ready = set(stage.come_up(one))
        stage.prepare(two)
        stage.run()
        _open(stage, ready, f"{one} is ready, {two} has a host name and is Preparing")
        ready |= set(stage.come_up(two, three))
        stage.run()
        _open(stage, ready, "all are ready")

    def test_joining_is_repeated_every_pass(self, stage: Stage) -> None:
        """Nodes that have joined are handed over again in each pass; that changes nothing, whatever
        runs on them."""
        hosts = stage.grow(2)
        stage.start(hosts[0])
        before = snapshot(stage)
        for _ in range(3):
            stage.run()
            _unchanged(stage, before, "the nodes joined once more")

    def test_a_host_name_that_is_used_again_joins(self, stage: Stage) -> None:
        """A new node may have the name and the host name of one that was deleted; it is a node like
        any other."""
        (host,) = stage.grow_idle(1)
        (name,) = stage.run().deleted
        stage.submit(1)
        created = stage.run().created
        expect(
            created == (name,), f"expected a new node {name} for a waiting task, found {created}"
        )
        stage.come_up(name, hostname=host)
        stage.run()
        _open(stage, {host}, f"the new {name} is ready")
        stage.start(host)

    def test_nothing_changes_when_nothing_happens(self, stage: Stage) -> None:
        """Two passes in a row over the same cluster and the same work: the second does nothing."""
        hosts = stage.grow(2)
        stage.start(hosts[0])
        stage.submit(2 * stage.world.tasks_per_node)
        stage.run()
        before = snapshot(stage)
        summary = stage.run()
        expect(
            not summary.requested and not summary.drained and not summary.deleted,
            f"expected a pass in which nothing happens, found {summary}",
        )
        _unchanged(stage, before, "nothing has happened between two passes")

    def test_a_job_is_told_once_why_it_waits(self, stage: Stage) -> None:
        """explain_job, if there is one, may be called again, raises nothing and changes nothing but
        what users read; the same is not said in every pass."""
        stage.driver.repeats = True
        stage.submit(100 * stage.world.tasks_per_node)
        for _ in range(2):
            stage.run()
        told, before = list(stage.driver.told), snapshot(stage)
        stage.run()
        expect(
            stage.driver.told == told,
            f"expected nothing new to be said of jobs, found {stage.driver.told[len(told):]}: the"
            " verdict of a job may not depend on the driver",
        )
        _unchanged(stage, before, "a job was told why it waits")

    def test_another_process_goes_on(self, stage: Stage) -> None:
        """A driver that has just been made knows from the scheduler what the one before it did."""
        (host,) = stage.grow(1)
        stage.start(host, stage.world.tasks_per_node)
        stage.finish(host, stage.world.tasks_per_node - 1)
        stage.run()
        before = snapshot(stage)
        for _ in range(2):
            stage.wait(IDLE_TIMEOUT + 1)
            stage.new_process()
            missing = stage.run().missing
            _unchanged(stage, before, "another process runs a pass")
            expect(
                not missing,
                f"expected the host of {', '.join(missing)} to be reported as before when another"
                " process runs a pass",
            )


def _dry_run(stage: Stage, when: str) -> None:
    __tracebackhide__ = True
    before = snapshot(stage)
    stage.run(dry_run=True)
    _unchanged(stage, before, f"{when} and a dry run is made")


def _unchanged(stage: Stage, before: object, when: str) -> None:
    __tracebackhide__ = True
    after = snapshot(stage)
    expect(before == after, f"expected no change when {when}. Before: {before}. After: {after}")


def _nothing_new(stage: Stage, when: str) -> None:
    __tracebackhide__ = True
    created = stage.run().created
    expect(not created, f"expected no further node {when}, found {', '.join(created)} created")


def _open(stage: Stage, hosts: set[str], when: str) -> None:
    __tracebackhide__ = True
    expected = sorted(map(short_name, hosts))
    found = sorted(stage.open_hosts())
    expect(
        found == expected,
        f"{when}: expected {expected} to take work, found {found}. Hosts: {stage.hosts()}",
    )
