"""What holds of every plan of the least-cost mode too: limits, slots, repeatability, and that
nothing is left out."""

from builders.engine_world import Books, World, job_of
from builders.plans_of_seeds import in_cost_mode
from builders.queues import features_of, jobs_in, queue
from builders.scenario_laws import for_scenarios


def cheap(seed):
    """A queue that is placed at the least cost."""
    return in_cost_mode(queue(seed))


def batches(scenario, world, before=lambda: None):
    """Place the jobs of each event in one call, and let the other events happen: the jobs of each
    call. `before` is called right before each."""
    for number, event in enumerate(scenario["events"]):
        if event["do"] == "jobs":
            jobs = [job_of(world, name, spec) for name, spec in jobs_in(event, number)]
            before()
            world.calculator.add_jobs(jobs)
            yield jobs
        elif event["do"] != "group":
            world.happen(event, world.named(event))


@for_scenarios(times=2, make=cheap, kinds=features_of)
def test_no_limit_is_exceeded(scenario):
    """However the queue is made up; and no node has less than nothing left."""
    world = World(scenario["cluster"])
    books = Books(world)
    asleep = set()

    def before():
        asleep.clear()
        asleep.update(books.asleep())

    for jobs in batches(scenario, world, before):
        placed = {job.name for job in jobs}
        used = {name for name, node in world.by_name().items() if node.assignments & placed}
        books.started |= asleep & used
        books.check()
        for node in world.by_name().values():
            for name in ("ncpus", "memgb", "lic", "share"):
                left = node.available.get(name)
                assert not isinstance(left, (int, float)) or left >= 0, (node, name)


@for_scenarios(times=2, make=cheap, kinds=features_of)
def test_each_job_is_where_it_says(scenario):
    """A job is assigned to a node if and only if some of it was placed, and never to more nodes
    than it has slots."""
    world = World(scenario["cluster"])
    for event in scenario["events"]:
        event["one name"] = False
    for jobs in batches(scenario, world):
        nodes = world.by_name().values()
        for job in jobs:
            on = sum(job.name in node.assignments for node in nodes)
            if job.node_count:
                assert on in (0, job.node_count)
                continue
            placed = job.iterations - job.iterations_remaining
            assert 0 <= placed <= job.iterations
            assert (on > 0) == (placed > 0)
            assert on <= placed
            assert not job.colocated or placed in (0, job.iterations)


@for_scenarios(make=cheap, kinds=features_of)
def test_nothing_is_left_out(scenario):
    """What is left of a queue finds no place when it is asked for once more.

    But for what may find one for other reasons: what takes one slot of each node finds those nodes
    again, what chooses among amounts, or wants one exactly, may like a node better when others have
    taken their part of it, a name may have come to be, and what is refused a new node so soon after
    a failure takes one that others opened.
    """
    world = World(scenario["cluster"])
    for jobs in batches(scenario, world):
        before = world.picture()
        for job in jobs:
            packs = job.packing_strategy == "pack" and job.to_dict()["constraints"]
            words = ("'or'", "'xor'", "node.name", "node.hostname", "capacity-failure-backoff")
            chooses = any(word in repr(job.to_dict()) for word in words)
            if (
                packs
                and not chooses
                and job.compiled_constraints().expr.monotone
                and job.iterations_remaining
            ):
                assert not world.calculator._add_job(job)
        assert world.picture() == before


@for_scenarios(make=cheap, kinds=features_of)
def test_same_input_same_plan(scenario):
    """Under a limit of work in place of one of time."""
    worlds = [World(scenario["cluster"]) for _ in range(2)]
    left = [
        [[job.iterations_remaining for job in jobs] for jobs in batches(scenario, world)]
        for world in worlds
    ]
    assert left[0] == left[1]
    assert worlds[0].picture() == worlds[1].picture()
