"""A day as data: the work that arrives and the things that go wrong, drawn from one seed.

Times are seconds since the start of the day. A script is all that a day depends on: the same script
gives the same day, and a script with an entry less is a script too, which is how days are shrunk.
"""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

HOUR = 3600.0
DAY = 8 * HOUR
LAST_FAULT = 6.0 * HOUR
LAST_ARRIVAL = 6.6 * HOUR
"""After `LAST_FAULT` nothing goes wrong any more; after `LAST_ARRIVAL` no work comes."""
OVERTIME = 2 * HOUR
"""How much longer than a day it may take until everything is done and no node is left."""

INTERVAL = 370.0
IDLE_TIMEOUT = 900.0
BOOT_TIMEOUT = 1800.0
GANG_DEADLINE = 900.0

HTC, SPOT, MPI = "htc", "spot", "mpi"
CORES = {HTC: 4, SPOT: 4, MPI: 44}
SIZES = {HTC: "Standard_F4s_v2", SPOT: "Standard_D4s_v5", MPI: "Standard_HC44rs"}
REGION = "westus2"
CLUSTER = "c1"


@dataclass(frozen=True)
class Work:
    """A job: `tasks` of `cores` cores each, or a gang of `nodes` whole nodes that start together.

    Tasks may go on nodes of `arrays`; each runs for `seconds`.
    """

    number: int
    at: float
    seconds: float
    arrays: tuple[str, ...]
    tasks: int
    cores: int
    nodes: int = 0

    @property
    def name(self) -> str:
        """Its name in the scheduler."""
        return f"job-{self.number}"

    @property
    def satisfiable(self) -> bool:
        """Whether some node is large enough."""
        return any(self.cores <= CORES[array] for array in self.arrays)


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong at a time, or from then on for `seconds`.

    `where` is the kind of request that it is about (`*`: whichever comes next), or a nodearray;
    `amount` is how much, in the unit of its kind; `part` says which of several.
    """

    at: float
    kind: str
    where: str = ""
    seconds: float = 0.0
    amount: float = 0.0
    part: float = 0.0


@dataclass(frozen=True)
class Shape:
    """The limits of the cluster: most nodes of each nodearray, the quotas of the region in cores,
    how many nodes a pass may create or delete, in how many passes a node must have been idle and
    for how many seconds it must have been there before it goes (None: as is usual).

    `careful` says whether the driver refuses, as a real scheduler does, to give up a busy node.
    """

    most: dict[str, int]
    quota: int
    spot_quota: int
    max_new: int | None = None
    max_deletes: int | None = None
    min_idle_passes: int | None = None
    min_lifetime: float | None = None
    careful: bool = True


@dataclass(frozen=True)
class Script:
    """A whole day."""

    seed: int
    shape: Shape
    works: tuple[Work, ...]
    troubles: tuple[Trouble, ...]


RUSH = 1000
"""Jobs that arrive in the middle of a pass have numbers from here on."""

READS = ("status", "nodes")
"""The requests that every pass sends; others are `create`, `operation`, `status_nodes` and
`shutdown`. `reread` is when the scheduler is read again before nodes are deleted, `join` when it is
given hosts."""


def _on_the_wire(kind: str, *where: str) -> Callable[[random.Random, float], Trouble]:
    def draw(rng: random.Random, at: float) -> Trouble:
        return Trouble(at, kind, rng.choice(where), part=rng.random())

    return draw


def _lasting(
    kind: str, least: float, most: float, *where: str, amount: tuple[float, float] = (0.0, 0.0)
) -> Callable[[random.Random, float], Trouble]:
    def draw(rng: random.Random, at: float) -> Trouble:
        place = rng.choice(where) if where else ""
        seconds = rng.uniform(least, most)
        return Trouble(at, kind, place, seconds, rng.uniform(*amount), rng.random())

    return draw


_POSTS = ("create", "create", "create", "shutdown", "*")
_ANY = ("*", *READS, "create", "operation", "shutdown")

DRAWN: dict[str, tuple[float, Callable[[random.Random, float], Trouble]]] = {
    # the network and the server
    "lost_reply": (4, _on_the_wire("lost_reply", *_POSTS)),
    "lost_request": (2, _on_the_wire("lost_request", *_ANY)),
    "late_request": (
        3,
        _lasting("late_request", 60, 1200, "create", "create", "shutdown", amount=(1, 6)),
    ),
    "sent_twice": (2, _on_the_wire("sent_twice", *_POSTS)),
    "old_reply": (2, _on_the_wire("old_reply", "nodes", "operation", "create")),
    "behind": (2, _on_the_wire("behind", "status")),
    "delay": (3, _lasting("delay", 5, 120, *_ANY)),
    "throttled": (3, _lasting("throttled", 5, 200, *_ANY)),
    "unavailable": (3, _lasting("unavailable", 0, 900, *_ANY)),
    "failed_after": (2, _on_the_wire("failed_after", *_POSTS)),
    "page": (1, _on_the_wire("page", *_ANY)),
    "cut_off": (2, _on_the_wire("cut_off", *_ANY)),
    "garbage": (2, _on_the_wire("garbage", *_ANY)),
    "no_nodes": (2, _on_the_wire("no_nodes", "nodes", "operation", "status_nodes")),
    "half_nodes": (3, _on_the_wire("half_nodes", "nodes", "status_nodes")),
    # the cloud
    "cluster_ends": (1, _lasting("cluster_ends", 600, 2400)),
    "no_capacity": (2, _lasting("no_capacity", 600, 3600, HTC, SPOT, MPI)),
    "few_machines": (1, _lasting("few_machines", 7200, 14400, MPI, amount=(1, 4))),
    "less_quota": (2, _lasting("less_quota", 1200, 5400, HTC, SPOT, amount=(0.2, 0.9))),
    "eviction": (3, _lasting("eviction", 0, 0, SPOT, amount=(1, 4))),
    "boot_hangs": (3, _lasting("boot_hangs", 0, 0, HTC, SPOT, MPI, amount=(1, 3))),
    "wakes_up": (2, _on_the_wire("wakes_up", "reread")),
    "boot_fails": (3, _lasting("boot_fails", 0, 0, HTC, SPOT, MPI, amount=(1, 3))),
    "never_boots": (0, _lasting("never_boots", 7200, 14400, HTC, SPOT)),
    "kept_alive": (2, _lasting("kept_alive", 600, 3600, *READS, "reread", amount=(1, 4))),
    "node_lost": (1, _lasting("node_lost", 0, 0, HTC, SPOT)),
    # the scheduler
    "rush": (3, _lasting("rush", 120, 900, *READS, "create", amount=(1, 4))),
    "scheduler_down": (3, _lasting("scheduler_down", 60, 1500)),
    "goes_silent": (2, _lasting("goes_silent", 30, 300, "reread", *READS)),
    "weak_hosts": (1, _lasting("weak_hosts", 0, 0, HTC, SPOT, amount=(1, 6))),
    "silent_hosts": (0, _lasting("silent_hosts", 0, 0, HTC, SPOT, amount=(1, 4))),
    "half_hosts": (2, _lasting("half_hosts", 60, 1800)),
    "half_jobs": (1, _lasting("half_jobs", 60, 1200)),
    "nothing_read": (2, _lasting("nothing_read", 60, 1800)),
    # our own process
    "killed": (6, _lasting("killed", 1, 900, amount=(1, 30))),
    "second_loop": (3, _on_the_wire("second_loop", "*", "create", "join", "join")),
    "others_create": (2, _lasting("others_create", 0, 0, HTC, "create", amount=(1, 3))),
    "person": (2, _lasting("person", 0, 0, amount=(1, 8))),
    "clock_ahead": (1, _lasting("clock_ahead", 600, 7200)),
    "clock_back": (1, _lasting("clock_back", 60, 7200)),
    "away": (1, _lasting("away", 900, 1800)),
    "disk_full": (3, _lasting("disk_full", 60, 1500)),
    "history_gone": (1, _lasting("history_gone", 0, 0)),
    "begins_anew": (1, _lasting("begins_anew", 1200, 1800, amount=(1, 4))),
    "history_locked": (1, _lasting("history_locked", 60, 900)),
    "history_garbled": (1, _lasting("history_garbled", 0, 0)),
}
"""What can go wrong: how often, beside the others, and how the details are drawn. What has 0 there
happens on the days alone that are made for it."""

USUAL = tuple(kind for kind, (weight, _) in DRAWN.items() if weight)


def draw(seed: int, kinds: Collection[str] = USUAL, careful: bool | None = None) -> Script:
    """The script of a seed. `kinds` are the things that go wrong on that day, `careful` how its
    driver is (None: as drawn)."""
    rng = random.Random(f"day {seed}")
    scale = rng.choice((1.0, 1.0, 1.5, 2.5))
    shape = Shape(
        most={
            HTC: int(rng.randint(8, 24) * scale),
            SPOT: int(rng.randint(6, 16) * scale),
            MPI: rng.randint(8, 12),
        },
        quota=rng.choice((10_000, 10_000, 44 * 12 + 60)),
        spot_quota=rng.choice((10_000, 40)),
        max_new=rng.choice((None, None, 15)),
        max_deletes=rng.choice((None, None, 5)),
        min_idle_passes=rng.choice((None, None, 5)),
        min_lifetime=rng.choice((None, None, 3600.0)),
        careful=(rng.random() < 0.6) if careful is None else careful,
    )
    works = _works(rng, shape, scale)
    drawn = list(kinds)
    weights = [DRAWN[kind][0] or 1 for kind in drawn]
    times = sorted(rng.uniform(0.1 * HOUR, LAST_FAULT) for _ in range(rng.randint(45, 60)))
    troubles = (
        DRAWN[kind][1](rng, at)
        for at, kind in zip(times, rng.choices(drawn, weights, k=len(times)), strict=True)
    )
    return Script(seed, shape, works, tuple(map(_in_time, troubles)))


def _in_time(trouble: Trouble) -> Trouble:
    """The trouble, over before nothing is to go wrong any more."""
    return replace(trouble, seconds=min(trouble.seconds, LAST_FAULT - trouble.at))


def _works(rng: random.Random, shape: Shape, scale: float) -> tuple[Work, ...]:
    """Jobs for the day: tasks for htc, whole nodes for spot or htc, gangs, and one that never fits.

    Tasks of htc are of one width, so that how many nodes they need does not depend on their order.
    """
    width = rng.choice((1, 2, 4))
    drawn: list[tuple[float, float, tuple[str, ...], int, int, int]] = []
    most = shape.most[HTC]
    first = int(max(12, rng.uniform(0.5, 1.0) * most) * 4 // width)
    drawn.append((rng.uniform(60, 1200), 1800.0, (HTC,), first, width, 0))
    for _ in range(rng.randint(8, 14)):
        tasks = rng.randint(1, max(1, int(12 * scale * 4 // width)))
        drawn.append((_arrival(rng), rng.uniform(120, 2400), (HTC,), tasks, width, 0))
    for _ in range(rng.randint(3, 7)):
        tasks = rng.randint(1, int(6 * scale))
        drawn.append((_arrival(rng), rng.uniform(120, 1800), (SPOT, HTC), tasks, CORES[SPOT], 0))
    for _ in range(rng.randint(1, 3)):
        nodes = rng.randint(2, shape.most[MPI] // 2)
        drawn.append((_arrival(rng), rng.uniform(300, 1800), (MPI,), nodes, CORES[MPI], nodes))
    drawn.append((_arrival(rng), 600.0, (HTC,), 2, 64, 0))
    drawn.sort()
    return tuple(Work(number, *rest) for number, rest in enumerate(drawn, 1))


def _arrival(rng: random.Random) -> float:
    return rng.uniform(0.05 * HOUR, LAST_ARRIVAL)
