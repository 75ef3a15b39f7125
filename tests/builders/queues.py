"""Queues: scenarios in which many jobs come at once, most of them like their neighbours.

A scenario as of `strategies`, with events {"do": "jobs", "blocks": [{"jobs": [spec, ...], "times":
n}, ...]}: each block is its jobs in a row, n times over. A spec is a request for a job. `jobs_in`
spells an event out, one spec for each job.
"""

from collections.abc import Iterator
from typing import Any

from builders.scenarios import MANY, Maker, leaves_of

KINDS = ("job-slots", "job-nodes", "job-colocated", "job-scatter")
FEATURES = (
    "equal neighbours",
    "interleaved shapes",
    "one slot",
    "several slots",
    "exclusive",
    "alternatives",
    "pool",
    "existing nodes",
    "written to between calls",
    "a name twice",
)
"""What must occur in queues often enough; see `features_of`."""


class QueueMaker(Maker):
    """Makes up clusters with more room than those of `Maker`, and queues that fill them."""

    def cluster(self) -> dict[str, Any]:
        """A cluster whose limits are reached by dozens of jobs rather than by a few."""
        made = super().cluster()
        made["max_cores"] = self.rarely(3, lambda: self.up_to(90, 10), MANY)
        for kind in ("regions", "families"):
            for key in made[kind]:
                used = self.up_to(12)
                made[kind][key] = used, used + self.rarely(3, lambda: self.up_to(60, 8), MANY)
        for array in made["arrays"]:
            for bucket in array["buckets"]:
                most = self.up_to(12, 2)
                bucket["max"] = most
                bucket["available"] = self.up_to(most) if self.one_in(4) else most
        return made

    def spec(self) -> dict[str, Any]:
        """A job: mostly one slot of what many others want too."""
        return {
            "do": "request",
            "how": self.of(*KINDS, *["job-slots"] * 6),
            "units": self.of(1, 1, 1, 1, 2, 3, 5, 11),
            "constraints": self.plain() if self.one_in(2) else self.constraints(),
        }

    def plain(self) -> list[dict[str, Any]]:
        """What most queued jobs ask for."""
        cores = {"ncpus": self.of(1, 1, 2, 3, 4)}
        return self.of(
            [cores],
            [cores, {"memgb": f"memory::{self.up_to(8, 1)}g"}],
            [{**cores, "exclusive": True}],
            [cores, {"node.vm_size": ["Standard_F4", "Standard_F*"]}],
            [{"or": [{"ncpus": 4}, {"memgb": self.up_to(6, 1)}]}],
            [cores, {"or": [{"owner": "ann"}, {"tier": [1, 2]}]}],
            [cores, {"lic": self.up_to(2, 1)}],
        )

    def block(self) -> dict[str, Any]:
        """Equal neighbours, or a few shapes in turn."""
        specs = [self.spec() for _ in range(self.of(1, 1, 1, 2, 3))]
        return {"jobs": specs, "times": self.of(1, 2, 4, 9, 16, 25) // len(specs) or 1}

    def jobs(self) -> dict[str, Any]:
        """Jobs that come together; blocks may repeat."""
        blocks = [self.block() for _ in range(self.of(1, 2, 2, 3))]
        if self.one_in(3):
            blocks.append(self.of(*blocks))
        return {"do": "jobs", "blocks": blocks, "one name": self.one_in(12)}


def queue(seed: int) -> dict[str, Any]:
    """The scenario of a seed."""
    maker = QueueMaker(seed)
    cluster = maker.cluster()
    events = []
    for _ in range(maker.of(1, 2, 2, 3)):
        events.append(maker.jobs())
        made = (maker.event() for _ in range(maker.of(0, 1, 2, 4)))
        events += [event for event in made if event["do"] != "request"]
    return {
        "cluster": cluster,
        "events": [*events, maker.jobs()],
        "seed": seed,
        "look": maker.one_in(2),
        "report": maker.one_in(3),
    }


def jobs_in(event: dict[str, Any], number: int) -> list[tuple[str, dict[str, Any]]]:
    """[(name, spec)] of an event; `number` tells the events of a scenario apart."""
    specs = [
        spec for block in event["blocks"] for _ in range(block["times"]) for spec in block["jobs"]
    ]
    return [
        (f"job{number}" if event["one name"] else f"job{number}.{i}", spec)
        for i, spec in enumerate(specs)
    ]


def features_of(scenario: dict[str, Any]) -> Iterator[str]:
    """Which of FEATURES a queue has."""
    if scenario["cluster"]["nodes"]:
        yield "existing nodes"
    if any(event["do"] != "jobs" for event in scenario["events"]):
        yield "written to between calls"
    for event in scenario["events"]:
        for block in event.get("blocks", ()):
            if block["times"] > 1:
                yield "equal neighbours" if len(block["jobs"]) == 1 else "interleaved shapes"
            if event["one name"] and (block["times"] > 1 or len(block["jobs"]) > 1):
                yield "a name twice"
            for spec in block["jobs"]:
                yield "one slot" if spec["units"] == 1 else "several slots"
                yield from features_in(spec["constraints"])


def features_in(constraints: list[dict[str, Any]]) -> Iterator[str]:
    """Which of FEATURES constraints have."""
    names = {key.partition(":")[0] for key, _ in leaves_of(constraints)}
    if names & {"exclusive", "exclusive-task"}:
        yield "exclusive"
    if "pool" in names:
        yield "pool"
    if any(key in ("or", "xor") for constraint in constraints for key in constraint):
        yield "alternatives"
