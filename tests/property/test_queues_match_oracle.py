"""Many jobs at once: `add_jobs` does exactly what `add_job` does for each in turn, and what the
naive packer does."""

from contextlib import contextmanager

from builders.calculators import shown
from builders.engine_world import World, job_of
from builders.opaque_constraints import with_twins
from builders.oracle_world import NaiveWorld
from builders.queues import features_of, jobs_in, queue
from builders.scenario_laws import for_scenarios, tell
from hpc.autoscale import results


def one_by_one(world, jobs):
    """Jobs placed one call each."""
    for job in jobs:
        world.calculator.add_job(job)


def together(world, jobs):
    """Jobs placed by one call."""
    world.calculator.add_jobs(jobs)


@contextmanager
def told(scenario):
    """What a handler is told, in a list that fills; without a handler when the scenario has
    none."""
    matches = []

    def keep(result):
        if isinstance(result, results.MatchResult):
            name = result.node.name if result else None
            matches.append((str(result.status), name, result.total_slots))
        elif isinstance(result, results.AllocationResult):
            matches.append((str(result.status), result.total_slots))

    if scenario["report"]:
        results.register_result_handler(keep)
    try:
        yield matches
    finally:
        if scenario["report"]:
            results.unregister_result_handler(keep)


def run(world, place, scenario, number, event):
    """Place the jobs of an event: what is left of each, and what was reported of them."""
    jobs = [job_of(world, name, spec) for name, spec in jobs_in(event, number)]
    with told(scenario) as matches:
        place(world, jobs)
    return [job.iterations_remaining for job in jobs], matches


def hold_alike(scenario, express):
    """Two worlds, one given its jobs together and one by one, are the same all along."""
    worlds = [World(scenario["cluster"], express) for _ in range(2)]
    for number, event in enumerate(scenario["events"]):
        if event["do"] != "jobs":
            about = worlds[0].named(event)
            for world in worlds:
                world.happen(event, about)
            continue
        answers = [
            run(world, place, scenario, number, event)
            for world, place in zip(worlds, (together, one_by_one), strict=True)
        ]
        tell(scenario, f"{event}: {answers}")
        assert answers[0] == answers[1]
        if scenario["look"]:
            assert worlds[0].picture() == worlds[1].picture()
    assert worlds[0].picture() == worlds[1].picture()
    assert worlds[0].left_in_pools() == worlds[1].left_in_pools()
    one, other = (shown(world.calculator.get_demand()) for world in worlds)
    assert one == other


@for_scenarios(times=4, make=queue, kinds=features_of)
def test_jobs_together_are_jobs_in_turn(scenario):
    """Placements, assignments, what is left of each job, what handlers hear, and the demand."""
    hold_alike(scenario, World.__init__.__defaults__[0])


@for_scenarios(make=queue, kinds=features_of)
def test_jobs_together_are_jobs_in_turn_for_classes_of_others(scenario):
    """The same where some constraints are such that only their own methods understand them."""
    hold_alike(scenario, with_twins(scenario["seed"], 0.3))


@for_scenarios(times=3, make=queue, kinds=features_of)
def test_queues_are_placed_as_the_naive_packer_does(scenario):
    """Each job of a queue that comes in one call ends up where the naive packer puts it."""
    world = World(scenario["cluster"])
    naive = NaiveWorld(world, scenario["cluster"])
    for number, event in enumerate(scenario["events"]):
        if event["do"] != "jobs":
            about = naive.named(event)
            naive.happen(event, about)
            world.happen(event, about)
            continue
        left, _ = run(world, together, scenario, number, event)
        for (name, spec), rest in zip(jobs_in(event, number), left, strict=True):
            placed = naive.request(spec, name)
            tell(scenario, f"{name} {spec}: {placed}")
            count = 0 if spec["how"] == "job-nodes" else sum(slots for _, slots in placed)
            assert rest == spec["units"] - count
        if scenario["look"]:
            assert world.picture() == naive.picture()
    assert world.picture() == naive.picture()
    assert world.left_in_pools() == naive.left_in_pools()
