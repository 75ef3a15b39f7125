"""Prints a digest of what becomes of some scenarios: to be run in a process of its own, see
`test_plan_repeats`.

`python -m builders.plans_of_seeds FIRST LAST`. Names, placements, assignments and what is left are
in it; ids that are made up are not.
"""

import hashlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

from builders.engine_world import World, job_of
from builders.opaque_constraints import with_twins
from builders.queues import jobs_in, queue
from builders.scenarios import scenario


def settled(value: Any) -> Any:
    """The same without the order in which sets happen to be."""
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, dict):
        return sorted((name, settled(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return [settled(each) for each in value]
    return value


def story_of(scenario: dict[str, Any], level: str | None) -> Iterator[object]:
    """All that comes of a scenario, in order."""
    world = World(
        scenario["cluster"], with_twins(scenario["seed"], 0.3 if level else 0, level or "opaque")
    )
    for number, event in enumerate(scenario["events"]):
        if event["do"] == "jobs":
            jobs = [job_of(world, name, spec) for name, spec in jobs_in(event, number)]
            world.calculator.add_jobs(jobs)
            yield [job.iterations_remaining for job in jobs]
        elif event["do"] == "request":
            yield world.request(event, f"job{number}")
        else:
            world.happen(event, world.named(event))
    demand = world.calculator.get_demand()
    yield [node.name for node in demand.new_nodes]
    yield sorted(node.name for node in demand.matched_nodes)
    yield world.picture()
    yield world.left_in_pools()


def in_cost_mode(scenario: dict[str, Any]) -> dict[str, Any]:
    """The same scenario, placed at the least cost under a limit of work."""
    packing = {"objective": "cost", "optimize_rounds": 5, "optimize_seconds": 1000.0}
    return {**scenario, "cluster": {**scenario["cluster"], "packing": packing}}


def digest(first: int, last: int) -> str:
    """Of the scenarios and queues of some seeds."""
    hashed = hashlib.sha256()
    for seed in range(first, last):
        for found in (scenario(seed), queue(seed), in_cost_mode(queue(seed))):
            for level in (None, "mixed"):
                hashed.update(repr(settled(list(story_of(found, level)))).encode())
    return hashed.hexdigest()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(digest(int(sys.argv[1]), int(sys.argv[2])))
