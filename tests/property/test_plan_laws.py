"""What a plan says is what the next pass does; a plan is carried out just so, or refused.

Sites are drawn: clusters, quotas, capacity that runs out, queues, request sets, workers, hosts on
premises, policies, limits per pass. At each site both laws are tried, pass after pass.
"""

import copy
import os

import pytest

from builders.plan_worlds import CHANGES, PlanWorld, WideWorld, done, planned, truth
from hpc.autoscale.cli.autoscaling import PassIncomplete
from hpc.autoscale.rehearsal import PassPlan, PlanError

SITES = int(os.environ.get("PLAN_SITES", "4"))
"""So many sites are drawn; `PLAN_SITES=500` for all that was promised."""

FIRST = int(os.environ.get("PLAN_FIRST", "0"))
"""The seed of the first of them."""

FOUND = (658, 1032)
"""Sites at which something was found once: a node that is off goes, one is drained again."""

FOUND_WIDE = (5005,)
"""The same over several clusters: nodes of dynamic arrays under the limit of their cluster."""

PASSES = 9


def parts_of(summary):
    """What of a summary has to be the same."""
    names = ("deferred", "joined", "idle", "drained", "undrained", "overdue", "failed")
    return {
        **{name: getattr(summary, name) for name in names},
        "refused": [refusal[2:4] for refusal in summary.refused],
        "waiting": [(job.name, job.missing) for job in summary.unsatisfied],
    }


@pytest.mark.parametrize("seed", sorted({*range(FIRST, FIRST + SITES), *FOUND}))
def test_plans_come_true(home, seed, capsys):
    """A plan is what the next pass does, in every pass, and making it changes nothing; it is
    carried out just so, and refused where the next pass would do something else by now."""
    check_passes(PlanWorld(seed, home), home, seed)


@pytest.mark.parametrize("seed", sorted({*range(FIRST, FIRST + max(1, SITES // 3)), *FOUND_WIDE}))
def test_plans_over_several_clusters_come_true(home, seed, capsys):
    """The same where clusters go away, regions have weights, and arrays are dynamic."""
    check_passes(WideWorld(seed, home), home, seed)


def check_passes(world, home, seed):
    """The law, in passes of a world."""
    for number in range(PASSES):
        world.step()
        before = truth(world)
        found = world.foreseen()
        assert truth(world) == before
        PassPlan.of(found).write(str(home / "plan.json"))
        kinds = ["nothing", sorted(CHANGES)[(seed + number) % len(CHANGES)]]
        carry_out(world, found, kinds[number % 2])
        summary = world.run()
        expected = rows_of(world, planned(found, before))
        assert expected == rows_of(world, done(before, truth(world)))
        assert parts_of(found.summary) == parts_of(summary)


def rows_of(world, rows):
    """Rows without joins, where nobody tells which hosts the scheduler has."""
    reports = world.settings["autoscale"].get("scheduler_reports_hosts", True)
    return {row: count for row, count in rows.items() if reports or row[0] != "join"}


def decisions(rows):
    """Rows without joins: every pass lets in whatever has become ready."""
    return {row: count for row, count in rows.items() if row[0] != "join"}


def asked_by(found):
    """What is asked for in a plan, joins left out."""
    return {(row.action, row.node or row.bucket) for row in found.changes if row.action != "join"}


def carry_out(world, found, kind):
    """Apply a plan in a copy of the world to which something has happened, and hold that against
    what a pass does in another copy. It is refused where a pass would decide otherwise."""
    at_first, changed = world.keep_files(), copy.deepcopy(world)
    CHANGES[kind](changed)
    before = truth(changed)
    now = expected = rows_of(world, planned(found, before))
    if kind != "nothing":
        files, twin = changed.keep_files(), copy.deepcopy(changed)
        twin.run()
        now = rows_of(world, done(before, truth(twin)))
        changed.lay_out(files)
    try:
        changed.apply(str(changed.home / "plan.json"))
    except PlanError as refused:
        assert kind != "nothing", refused
        # what is drained already is drained once more, which nobody sees
        differs = decisions(now) != decisions(expected)
        assert differs or asked_by(changed.foreseen()) != asked_by(found), (kind, refused)
        assert "nothing was changed" in str(refused)
        assert truth(changed) == before
    except PassIncomplete:
        assert changed.down
    else:
        assert not changed.down
    if truth(changed) != before:
        assert rows_of(world, done(before, truth(changed))) == now, kind
        assert decisions(now) == decisions(expected), kind
    world.lay_out(at_first)
