"""What holds of every plan: limits, slots, failures without a trace, repeatability, and what more
capacity does."""

from copy import deepcopy

from builders.calculators import shown
from builders.engine_world import Books, World
from builders.opaque_constraints import Amount, with_twins
from builders.oracle_facts import REQUEST
from builders.oracle_reading import FAMILIES
from builders.scenario_laws import for_scenarios
from builders.scenarios import MANY, Maker
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    SharedConsumableConstraint,
    SharedConsumableResource,
    compile_constraints,
    get_constraints,
)
from hpc.autoscale.packing.expr import IDENTITY_NAMES, UNBOUNDED
from hpc.autoscale.packing.plan import Request


def world_of(scenario):
    """The cluster of a scenario; in half of them some constraints are such that the engine does not
    know them."""
    share = 0.3 if scenario["look"] else 0
    return World(scenario["cluster"], with_twins(scenario["seed"], share))


def carry_out(world, event, index):
    """An event; what came of it when it is a request."""
    if event["do"] == "request":
        return world.request(event, f"job{index}")
    return world.happen(event, world.named(event))


def requests_of(scenario):
    """The requests of a scenario."""
    return [event for event in scenario["events"] if event["do"] == "request"]


def state_of(world):
    """All that can be seen of a world."""
    return world.picture(), world.left_in_pools()


# -- limits


@for_scenarios(times=3)
def test_no_limit_is_ever_exceeded(scenario):
    """However often is asked, no more nodes come to be than any limit allows."""
    events = [event for event in scenario["events"] if event["do"] != "group"]
    world = world_of(scenario)
    books = Books(world)
    for index, event in enumerate(events + events):
        asleep = books.asleep()
        answer = carry_out(world, event, index)
        if answer is not None:
            books.started |= asleep & set(answer[1])
        books.check()


# -- slots


@for_scenarios()
def test_each_slot_is_placed_once(scenario):
    """What is reported node by node adds up to what is reported in all, and never to more than was
    asked for."""
    world = world_of(scenario)
    for index, event in enumerate(requests_of(scenario)):
        total, matches = world.reported(event, f"job{index}")
        each, whole = REQUEST[event["how"]]
        names = [name for name, _ in matches]
        assert sum(slots for _, slots in matches) == total <= event["units"]
        assert len(set(names)) == len(names)
        assert all(0 < slots <= each for _, slots in matches)
        assert not whole or total in (0, event["units"])
        assigned = [
            name for name, node in world.by_name().items() if f"job{index}" in node.assignments
        ]
        assert sorted(assigned) == sorted(names)


@for_scenarios()
def test_a_job_knows_what_is_left_of_it(scenario):
    """Asked again and again, a job places each of its slots once."""
    world = world_of(scenario)
    for index, event in enumerate(requests_of(scenario)):
        job = Job(f"job{index}", world.express(world, event["constraints"]), event["units"])
        placed = 0
        for _ in range(3):
            result = job.do_allocate(world.manager)
            placed += result.total_slots if result else 0
            assert job.iterations_remaining == event["units"] - placed >= 0


# -- no trace


@for_scenarios(times=2)
def test_a_failure_leaves_no_trace(scenario):
    """Nothing is different after it, and nothing later: not even the names of nodes that come to
    be."""
    world, spared = world_of(scenario), world_of(scenario)
    for index, event in enumerate(scenario["events"]):
        before = state_of(world)
        answer = carry_out(world, event, index)
        if answer is not None and answer[0] == 0:
            assert state_of(world) == before
        else:
            assert carry_out(spared, event, index) == answer
    assert state_of(world) == state_of(spared)


class Faulty(Amount):
    """An integration's constraint with a mistake in it: it raises when it is asked to take for the
    third time."""

    def __init__(self, key, value):
        super().__init__(key, value)
        self.asked = 0

    def do_decrement(self, node):
        self.asked += 1
        if self.asked == 3:
            raise ZeroDivisionError
        return super().do_decrement(node)


@for_scenarios()
def test_a_constraint_that_raises_leaves_no_trace(scenario):
    """What it raises reaches the caller; nodes, limits and pools are as before."""
    world = world_of(scenario)
    for index, event in enumerate(requests_of(scenario)):
        pool = SharedConsumableResource("licences", "server", 20, 20)
        faulty = Faulty("memgb", 1)
        constraints = [{"ncpus": 1}, SharedConsumableConstraint([pool], 1), faulty]
        before = state_of(world)
        try:
            world.manager.allocate(
                constraints, slot_count=event["units"] + 2, all_or_nothing=scenario["report"]
            )
        except ZeroDivisionError:
            assert state_of(world) == before
            assert pool.current_value == 20
        assert faulty.asked <= 3
        carry_out(world, event, index)


@for_scenarios()
def test_a_name_hook_that_raises_leaves_no_trace(scenario):
    """New nodes that cannot be named are not made, and what went with them neither."""
    world = world_of(scenario)

    def hook(bucket, index):
        raise ZeroDivisionError

    world.manager.set_node_name_hook(hook)
    for index, event in enumerate(requests_of(scenario)):
        before = state_of(world)
        try:
            world.request(event, f"job{index}")
        except ZeroDivisionError:
            assert state_of(world) == before


@for_scenarios()
def test_a_question_changes_nothing(scenario):
    """Asked without committing, the answer is the same twice, and nothing that is seen later is
    different."""
    world, other = world_of(scenario), world_of(scenario)
    for index, event in enumerate(scenario["events"]):
        if event["do"] == "request":
            before = state_of(world)
            answers = [asked(world, event) for _ in range(2)]
            assert answers[0] == answers[1]
            assert state_of(world) == before
        assert carry_out(world, event, index) == carry_out(other, event, index)
    assert state_of(world) == state_of(other)


def asked(world, event):
    """What the engine would do, as (bucket, first, end, units on each); of what it can judge
    alone."""
    without_pools = [c for c in event["constraints"] if "pool:" not in repr(c)]
    expr = compile_constraints(get_constraints(without_pools)).expr
    if expr.reads_any(IDENTITY_NAMES):
        return None
    each, whole = REQUEST[event["how"]]
    wanted = Request(event["units"], 1 if each == 1 else UNBOUNDED, whole)
    world.manager._placer.sync()
    plan = world.manager._placer.planner.ask(expr, wanted)
    return [(p.candidate.name, p.lo, p.hi, p.times) for p in plan.steps]


# -- repeatability


@for_scenarios()
def test_same_input_same_plan(scenario):
    """Twice the same cluster and the same requests: the same nodes by the same names, whatever ids
    were made up."""
    worlds = [world_of(scenario) for _ in range(2)]
    for index, event in enumerate(scenario["events"]):
        answers = [carry_out(world, event, index) for world in worlds]
        assert answers[0] == answers[1]
    assert state_of(worlds[0]) == state_of(worlds[1])


def jobs_of(world, scenario):
    """The requests of a scenario as jobs."""
    return [
        Job(
            f"job{index}",
            world.express(world, event["constraints"]),
            iterations=event["units"],
            node_count=event["units"] if event["how"].endswith("nodes") else 0,
            colocated=event["how"] in ("job-colocated", "whole-slots"),
        )
        for index, event in enumerate(requests_of(scenario))
    ]


@for_scenarios()
def test_jobs_together_are_jobs_one_by_one(scenario):
    """add_jobs does what add_job does for each, and looking at the demand in between changes
    nothing."""
    together, alone = world_of(scenario), world_of(scenario)
    jobs = [jobs_of(world, scenario) for world in (together, alone)]
    together.calculator.add_jobs(jobs[0])
    for job in jobs[1]:
        alone.calculator.add_job(job)
        shown(alone.calculator.get_demand())
    assert state_of(together) == state_of(alone)
    assert shown(together.calculator.get_demand()) == shown(alone.calculator.get_demand())
    assert [j.iterations_remaining for j in jobs[0]] == [j.iterations_remaining for j in jobs[1]]


# -- more capacity


def enlarged(description, seed):
    """The same cluster with more of something: higher limits, more buckets, more machines."""
    maker = Maker(seed)
    larger = deepcopy(description)
    for kind in ("regions", "families"):
        for key, (used, quota) in larger[kind].items():
            larger[kind][key] = (used, maker.of(quota, quota + 16, MANY))
    larger["max_cores"] += maker.of(0, 16)
    for array in larger["arrays"]:
        array["max_nodes"] += maker.of(0, 3)
        array["max_cores"] += maker.of(0, 16)
        array["group_size"] += maker.of(0, 2)
        for bucket in array["buckets"]:
            more = maker.of(0, 2)
            bucket["max"] += more
            bucket["available"] += more
    if maker.one_in(2):
        array = maker.nodearray("more")
        larger["arrays"].insert(maker.of(0, len(larger["arrays"])), array)
        larger["regions"].setdefault((array["location"], array["spot"]), (0, MANY))
        for bucket in array["buckets"]:
            key = (array["location"], FAMILIES[bucket["size"]])
            larger["families"].setdefault(key, (0, MANY))
    larger["machines"] = larger["machines"] + [(2, None)] * maker.of(0, 1, 2)
    return larger


@for_scenarios(times=2)
def test_more_capacity_never_hurts_what_stays_together(scenario):
    """One slot, or all in one bucket: what can be placed in a cluster can be placed in a larger
    one.

    A job that may be spread is another matter: where one quota is shared, a bucket that got more
    room may come first and use the quota up with fewer slots on each core. First fit follows the
    declared order all the same.
    """
    small = {**scenario["cluster"], "nodes": []}
    large = enlarged(small, scenario["seed"])
    for event in requests_of(scenario):
        units = event["units"] if REQUEST[event["how"]][1] else 1
        event = {**event, "units": units}
        if World(small).request(event, "job")[0] == units:
            assert World(large).request(event, "job")[0] == units


@for_scenarios()
def test_more_machines_never_hurt(scenario):
    """Machines that cost no quota: what could be placed without them can be placed with them,
    spread or not."""
    small = scenario["cluster"]
    large = {**small, "machines": small["machines"] + [(4, "ann"), (2, None)]}
    for event in requests_of(scenario):
        placed, _ = World(small).request(event, "job")
        assert World(large).request(event, "job")[0] >= placed


# -- words


@for_scenarios()
def test_every_answer_can_be_read(scenario):
    """A failure says why, in sentences; also when it is read after other things have happened."""
    world = world_of(scenario)
    results = []
    for index, event in enumerate(requests_of(scenario)):
        constraints = world.express(world, event["constraints"])
        results.append(
            world.manager.allocate(
                constraints, slot_count=event["units"], assignment_id=f"job{index}"
            )
        )
    for result in results:
        assert str(result)
        assert result or result.reasons
        assert all(isinstance(reason, str) and reason for reason in result.reasons)
