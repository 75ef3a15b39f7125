"""What a plan says is what the next pass does; a plan is carried out just so, or refused."""

import os
from collections import Counter

import pytest

from builders.plan_worlds import PlanWorld, truth
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler, Reporter
from hpc.autoscale.rehearsal import PassPlan, PlanError, rehearse

SITES = int(os.environ.get("PLAN_SITES", "6"))
"""So many sites are drawn; `PLAN_SITES=500` for all that was promised."""

PASSES = 9


@pytest.fixture
def worlds(tmp_path_factory, monkeypatch):
    """Makes sites with a home of their own; the clock of the process is theirs meanwhile."""
    before = clock.use_clock(clock.Clock())

    def make(seed):
        world = PlanWorld(seed, tmp_path_factory.mktemp("site"))
        clock.use_clock(world.clock)
        return world

    yield make
    clock.use_clock(before)


def done(before, after):
    """What has happened between two looks at the world, as rows of a plan would say it."""
    rows = Counter()
    for name, (node_id, target, bucket) in after["nodes"].items():
        was = before["nodes"].get(name)
        if was is None or was[0] != node_id:
            rows["create", bucket] += 1
        elif was[1] != "Started" and target == "Started":
            rows["start", name] += 1
        elif was[1] == "Started" and target != "Started":
            rows["delete", name] += 1
    for name in before["nodes"].keys() - after["nodes"].keys():
        rows["delete", name] += 1
    return rows


def planned(changes):
    """The same of a plan."""
    rows = Counter()
    for row in changes:
        if row.action in ("create", "start", "delete"):
            rows[row.action, row.node or row.bucket] += row.count
    return rows


def a_pass(world):
    return Autoscaler(world.config, world.cli()._driver(world.config), reporter=Reporter())


def foreseen(world):
    return rehearse(world.config, world.cli()._driver(world.config))


@pytest.mark.parametrize("seed", range(SITES))
def test_a_plan_is_what_the_next_pass_does(worlds, seed):
    """On every site, pass after pass; and making it changes nothing."""
    world = worlds(seed)
    for _ in range(PASSES):
        world.step()
        before = truth(world)
        found = foreseen(world)
        assert truth(world) == before
        summary = a_pass(world).run_once()
        after = truth(world)
        assert planned(found.changes) == done(before, after)
        joined = {row.node for row in found.changes if row.action == "join"}
        assert len(joined) == len(after["hosts"] - before["hosts"])
        for part in ("deferred", "joined", "idle", "drained", "undrained", "overdue", "failed"):
            assert getattr(found.summary, part) == getattr(summary, part), part
        assert [r[2:4] for r in found.refused] == [r[2:4] for r in summary.refused]
        assert [(j.name, j.missing) for j in found.summary.unsatisfied] == [
            (j.name, j.missing) for j in summary.unsatisfied
        ]


CHANGES = {
    "nothing": lambda world: None,
    "a job comes": lambda world: world.submit(),
    "a job ends": lambda world: world.queue.jobs.popitem() if world.queue.jobs else None,
    "time passes": lambda world: world.model.after(45.0),
    "work starts": lambda world: world.queue.start(world.rng),
    "a node fails": lambda world: fail_some(world),
    "a node is to be kept": lambda world: keep_some(world),
    "other timeouts": lambda world: world.config.update(idle_timeout=301, boot_timeout=1801),
    "another cap": lambda world: world.config["autoscale"].update(max_new_nodes_per_pass=1),
}


def fail_some(world):
    for node in world.cluster.nodes()[:1]:
        world.cluster.fail([node.name], "it was drawn")


def keep_some(world):
    for node in world.cluster.nodes()[-1:]:
        world.cluster.edit([node.name], {"KeepAlive": True})


@pytest.mark.parametrize("seed", range(SITES))
def test_a_plan_is_carried_out_just_so_or_not_at_all(worlds, seed, capsys):
    """Whatever has changed meanwhile; where nothing has, it is carried out."""
    world = worlds(1000 + seed)
    path = str(world.home / "plan.json")
    for number in range(PASSES):
        world.step()
        kind = sorted(CHANGES)[(seed + number) % len(CHANGES)]
        plan = PassPlan.of(foreseen(world))
        plan.write(path)
        CHANGES[kind](world)
        before = truth(world)
        try:
            world.cli().apply(world.config, path)
        except PlanError as refused:
            assert kind != "nothing", refused
            assert "nothing was changed" in str(refused)
            assert truth(world) == before
            a_pass(world).run_once()
        else:
            assert done(before, truth(world)) == planned(plan.changes), kind
