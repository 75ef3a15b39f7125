"""Jobs of one slot that are alike and stand side by side, placed again by `explain`: as one by one.

Clusters and jobs are those that the naive packer is held against.
"""

from builders.engine_world import World, job_of
from builders.queues import QueueMaker, queue
from builders.scenario_laws import for_scenarios
from hpc.autoscale.explaining.supposing import Supposition
from hpc.autoscale.job.placement import asked_by
from hpc.autoscale.node.nodemanager.manager import placer_of
from hpc.autoscale.packing.plan import ONE_SLOT, Request


def neighbours(seed):
    """A cluster, and a few shapes of one slot with how often each is asked for in a row."""
    maker = QueueMaker(seed)
    specs = [{**maker.spec(), "how": "job-slots", "units": 1} for _ in range(3)]
    order = [(maker.up_to(2), maker.of(1, 2, 5, 17, 60)) for _ in range(6)]
    policy = maker.of("declared", "cheapest", "least-waste", "spot-first")
    cluster = {**queue(seed)["cluster"], "packing": {"policy": policy}}
    return {"cluster": cluster, "specs": specs, "order": order, "seed": seed}


def kinds(scenario):
    """In which order new nodes are opened."""
    yield f"order {scenario['cluster']['order']}"
    yield f"policy {scenario['cluster']['packing']['policy']}"


def seen(supposed, demands):
    """What is used of each limit, and where one more, or a few more, of each shape would lie."""
    plans = (
        supposed.place(demand, request, keep=False)
        for demand in demands
        for request in (ONE_SLOT, Request(7))
    )
    return (
        [
            (str(bucket), limit.used_nodes, limit.used_cores)
            for bucket, limits in supposed.limits()
            for limit in limits
        ],
        [
            [(str(s.candidate), s.lo, s.hi, s.units, s.opened) for s in plan.steps] if plan else []
            for plan in plans
        ],
        supposed.free("ncpus"),
    )


@for_scenarios(times=2, make=neighbours, kinds=kinds)
def test_neighbours_that_are_alike_lie_as_one_by_one(scenario):
    world = World(scenario["cluster"])
    demands = [asked_by(job_of(world, "job", spec))[0] for spec in scenario["specs"]]
    together, by_one = (Supposition(placer_of(world.manager)) for _ in range(2))
    for number, times in scenario["order"]:
        known = together.place_in_turn(demands[number], ONE_SLOT, times)
        plans = [by_one.place(demands[number], ONE_SLOT) for _ in range(times)]
        assert known is (None not in plans)
        assert seen(together, demands) == seen(by_one, demands)
