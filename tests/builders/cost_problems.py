"""Small least-cost problems as plain values, for the engine and for a second formulation that knows
nothing of it.

A problem: {"bins": [{"ncpus", "memgb", "price", "most", "quota", "there": [{"ncpus", "memgb"}]}],
"quotas": [cores or None], "items": [{"ways": [{"ncpus", "memgb", "closes"}], "units"}]}. `there`
are nodes that run already and are used in part; they cost nothing. A unit takes what one of its
`ways` says; one that closes its node has it to itself.
"""

from collections.abc import Iterator
from random import Random
from typing import Any


def problem(seed: int) -> dict[str, Any]:
    """The problem of a seed."""
    random = Random(seed)
    bins = [a_bin(random) for _ in range(random.choice((1, 2, 2, 3)))]
    widest = max(each["ncpus"] for each in bins)
    return {
        "bins": bins,
        "quotas": [
            random.choice((None, None, random.randint(widest, 12 * widest))) for _ in range(2)
        ],
        "items": [an_item(random, widest) for _ in range(random.choice((1, 2, 3, 4)))],
        "seed": seed,
    }


def a_bin(random: Random) -> dict[str, Any]:
    """Nodes of one kind."""
    cores = random.choice((2, 3, 4, 6, 8))
    memory = cores * random.choice((1, 2, 3))
    there = [
        {"ncpus": random.randint(0, cores), "memgb": random.randint(0, memory)}
        for _ in range(random.choice((0, 0, 1, 3)))
    ]
    return {
        "ncpus": cores,
        "memgb": memory,
        "price": round(cores * random.uniform(0.6, 1.4), 3),
        "most": random.choice((1000, 1000, random.randint(2, 20))),
        "quota": random.randrange(2),
        "there": there,
    }


def an_item(random: Random, widest: int) -> dict[str, Any]:
    """Equal demands."""
    ways = [a_way(random, widest) for _ in range(random.choice((1, 1, 1, 2)))]
    return {"ways": ways, "units": random.choice((1, 2, 5, 12, 40))}


def a_way(random: Random, widest: int) -> dict[str, Any]:
    """What a unit takes."""
    memory = random.choice((0, random.randint(1, 9)))
    return {
        "ncpus": random.randint(1, max(1, widest - 1)),
        "memgb": memory,
        "closes": random.randrange(8) == 0,
    }


def features_of(problem: dict[str, Any]) -> Iterator[str]:
    """What a problem has, to be counted."""
    if any(each["there"] for each in problem["bins"]):
        yield "nodes that are there"
    if any(each["most"] < 1000 for each in problem["bins"]):
        yield "few nodes"
    if any(quota is not None for quota in problem["quotas"]):
        yield "quota"
    for item in problem["items"]:
        yield "alternatives" if len(item["ways"]) > 1 else "one way"
        if any(way["closes"] for way in item["ways"]):
            yield "closes"
