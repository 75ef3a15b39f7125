"""What the generators make, counted: a kind of constraint, limit, request or outcome that is rare
proves nothing.

Counted over fixed numbers of scenarios that are always the same, so that this fails when a
generator is changed and never by chance. How often each kind occurred is told at the end of a test
run.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from builders.engine_world import World
from builders.opaque_constraints import LEVELS, TWINS_OF, with_twins
from builders.oracle_world import NaiveWorld
from builders.queues import FEATURES, features_of, jobs_in, queue
from builders.random_constraints import expressions
from builders.scenarios import (
    COMPOSITE_KINDS,
    EVENT_KINDS,
    LEAF_KINDS,
    LIMIT_KINDS,
    NODE_STATES,
    REQUEST_KINDS,
    composites_of,
    kinds_of,
    leaf_kind,
    leaves_of,
    scenario,
)
from hpc.autoscale.node.constraints.parse import KEYWORDS

SCENARIOS, QUEUES, EXPRESSIONS = 300, 100, 500
HALF_WAY = "a limit reached half-way"
LEVELS_OF_TWINS = {f"level {level}" for level in LEVELS}
CONSTRAINT_KINDS = {
    *(f"leaf {kind}" for kind in LEAF_KINDS),
    *(f"composite {kind}" for kind in COMPOSITE_KINDS),
}
SCENARIO_KINDS = {
    *CONSTRAINT_KINDS,
    *LEVELS_OF_TWINS,
    *(f"stopped by {kind}" for kind in LIMIT_KINDS),
    *(f"request {kind}" for kind in REQUEST_KINDS),
    *(f"gang {kind}" for kind in ("placed", "refused", "in a placement group", "on several nodes")),
    *(f"placed {kind}" for kind in ("all", "part", "nothing", "on several nodes", "on a machine")),
    *(f"event {kind}" for kind in EVENT_KINDS),
    *(f"node {kind}" for kind in NODE_STATES),
    "machine",
    "order declared",
    "order existing-first",
}
NOT_IN_EXPRESSIONS = {"leaf pool", "leaf identity"}
"""What the laws of the algebra say nothing about: pools, and what differs from node to node."""


SPELT_OTHERWISE = {"exclusive_task": "exclusive-task", "shared-consumable-constraint": "pool"}
"""Keywords that the generators make under another name."""
BY_HAND = {
    "not-allocated": "deprecated; tried by its own methods, as custom constraints are",
    "shared-non-consumable-constraint": "the same for all nodes and at all times",
}
"""Keywords that no generator makes, and why."""


def test_every_keyword_has_a_generator():
    """A keyword that the parser knows is generated, and its kind is one that must occur; or it is
    said why not."""
    generated = {*LEAF_KINDS, *COMPOSITE_KINDS}
    known = {SPELT_OTHERWISE.get(keyword, keyword) for keyword in KEYWORDS}
    assert known - generated == set(BY_HAND)


def check(counts, of, expected, record_property):
    """Every expected kind is in more than one in a hundred; and tell how often each is."""
    told = ", ".join(f"{kind} {100 * counts[kind] / of:.0f}%" for kind in sorted(expected))
    record_property("occurrences", f"of {of}: {told}")
    rare = {kind: counts[kind] for kind in expected if counts[kind] <= of / 100}
    assert not rare, f"at most one in a hundred of {of}"
    assert set(counts) <= expected


def outcomes_of(scenario):
    """What comes of the requests of a scenario, and which limits stand in the way."""
    naive = NaiveWorld(World(scenario["cluster"]), scenario["cluster"])
    for index, event in enumerate(scenario["events"]):
        if event["do"] != "request":
            naive.happen(event, naive.named(event))
            continue
        placed = naive.request(event, f"job{index}")
        count = sum(slots for _, slots in placed)
        yield "placed " + (
            "nothing" if not placed else "all" if count == event["units"] else "part"
        )
        if "whole" in event["how"] or event["how"] == "job-colocated":
            yield from gang_outcomes(naive, placed)
        if len(placed) > 1:
            yield "placed on several nodes"
        if any(name.startswith("onprem") for name, _ in placed):
            yield "placed on a machine"
    yield from (f"stopped by {name.split(':')[0]}" for name in naive.cluster["stopped"])


def gang_outcomes(naive, placed):
    """What came of a request that is all or nothing."""
    yield f"gang {'placed' if placed else 'refused'}"
    if len(placed) > 1:
        yield "gang on several nodes"
    groups = {
        node["name"]: bucket["group"]
        for bucket in naive.cluster["buckets"]
        for node in bucket["nodes"]
    }
    if any(groups[name] for name, _ in placed):
        yield "gang in a placement group"


def levels_of(scenario):
    """The levels of custom constraints in a scenario, where a share of them is custom."""
    world = World(scenario["cluster"], with_twins(scenario["seed"], 0.3, "mixed"))
    pending = [
        constraint
        for event in scenario["events"]
        if event["do"] == "request"
        for constraint in world.express(world, event["constraints"])
    ]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list):
            pending += each
        else:
            yield from (f"level {k}" for k, v in TWINS_OF.items() if type(each) in v.values())


def test_every_kind_is_in_the_scenarios(record_property):
    """Constraints, levels of custom ones, requests, gangs, events, nodes, limits that stand in the
    way, and outcomes."""
    counts = Counter()
    for seed in range(SCENARIOS):
        found = scenario(seed)
        counts.update({*kinds_of(found), *outcomes_of(found), *levels_of(found)})
    check(counts, SCENARIOS, SCENARIO_KINDS, record_property)


def half_way(scenario):
    """Whether a limit stops equal neighbours half-way, by what the naive packer says."""
    naive = NaiveWorld(World(scenario["cluster"]), scenario["cluster"])
    for number, event in enumerate(scenario["events"]):
        if event["do"] != "jobs":
            naive.happen(event, naive.named(event))
            continue
        last = None
        for name, spec in jobs_in(event, number):
            placed = sum(slots for _, slots in naive.request(spec, name))
            if last == (spec, True) and placed < spec["units"]:
                yield HALF_WAY
            last = spec, placed == spec["units"]


def test_every_feature_is_in_the_queues(record_property):
    """Neighbours that are alike, shapes in turn, limits that are reached half-way."""
    counts = Counter()
    for seed in range(QUEUES):
        found = queue(seed)
        counts.update({*features_of(found), *half_way(found)})
    check(counts, QUEUES, {*FEATURES, HALF_WAY}, record_property)


def test_every_kind_is_in_the_expressions(record_property):
    """Those that the laws of the algebra are tested with."""
    counts, drawn = Counter(), []

    @settings(
        max_examples=EXPRESSIONS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(expressions)
    def draw(expression):
        drawn.append(expression)

    draw()
    for expression in drawn:
        kinds = {f"leaf {leaf_kind(*leaf)}" for leaf in leaves_of([expression])}
        counts.update(kinds | {f"composite {kind}" for kind in composites_of([expression])})
    check(counts, len(drawn), CONSTRAINT_KINDS - NOT_IN_EXPRESSIONS, record_property)


def test_a_rare_kind_fails(record_property):
    """One in a hundred is too rare, and so is a kind that nobody expects."""
    counts = Counter(often=50, seldom=1)
    check(Counter(often=50), 100, {"often"}, lambda *told: None)
    for expected in ({"often", "seldom"}, {"often"}, {"often", "seldom", "never"}):
        with pytest.raises(AssertionError):
            check(counts, 100, expected, lambda *told: None)
