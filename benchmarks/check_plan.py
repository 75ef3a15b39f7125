"""Checks a plan against its workload from first principles: `check_plan.py FILE` with {"workload":
..., "plan": ...}.

It imports nothing of the library and believes nothing that the library says but what came out:
which nodes there are, who is on them, what they have left, and what is left of each job.
`clusters.plan_of` writes that down; `violations` says what is wrong with it. It holds for any way
of packing: order and price are no business of the checker, but work that was left out although
there is room for it, or a node that could still be opened for it, is.

A plan is {"nodes": [{"name", "nodearray", "vm_size", "placement_group", "exists", "available",
"assignments"}], "remaining": {job: iterations}, "new": [names]}; memory in GiB. A workload may have
"quotas": {"cluster_cores": n, "location_cores": {location: n}, "family_cores": {family: n}}, and
"resources": amounts that every node has besides its own.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from check_constraints import Amounts, Choice, Site, Unjudged, choices, fits, times
from check_counts import Pair, settle

Record = Mapping[str, Any]
Limit = tuple[Any, ...]
"""The name of a limit: what it limits, and where."""

MANY = 10**9


@dataclass
class Spot:
    """A node of the plan, or one that could be opened. `start`: its amounts before the pass;
    `free`: after it."""

    name: str
    bucket: int
    group: str | None
    exists: bool
    start: Amounts
    free: Amounts
    assigned: frozenset[str] = frozenset()
    closed: bool = False

    @property
    def used(self) -> Amounts:
        """What the pass took."""
        return {name: self.start[name] - self.free[name] for name in self.start}


@dataclass
class Check:
    """One plan under examination; `problems` is what is wrong with it."""

    workload: Record
    plan: Record
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.buckets: Sequence[Record] = self.workload["buckets"]
        self.jobs = {job["name"]: job for job in self.workload["jobs"]}
        self.numbers = {(b["nodearray"], b["vm_size"]): i for i, b in enumerate(self.buckets)}
        self.spots: list[Spot] = []
        self.on: dict[str, list[Spot]] = defaultdict(list)
        self._texts: dict[str, str] = {}
        self._choices: dict[object, list[Choice]] = {}

    def run(self) -> list[str]:
        """Examine everything."""
        self._read_nodes()
        self._check_limits()
        pairs = self._pairs()
        self._check_counts(pairs)
        self._check_gangs()
        self._check_left_out()
        return self.problems

    # -- nodes

    def _read_nodes(self) -> None:
        there = {node["name"]: node for node in self.workload["nodes"]}
        for name, count in Counter(node["name"] for node in self.plan["nodes"]).items():
            if count > 1:
                self.problems.append(f"{name}: {count} nodes have this name")
        seen = set()
        for node in self.plan["nodes"]:
            spot = self._spot(node, there.get(node["name"]))
            if spot is not None:
                seen.add(spot.name)
                self.spots.append(spot)
                for job in sorted(spot.assigned):
                    self.on[job].append(spot)
        self.problems += [f"{name}: existed and is gone" for name in there if name not in seen]
        new = {spot.name for spot in self.spots if not spot.exists}
        for name in sorted(new ^ set(self.plan["new"])):
            self.problems.append(f"{name}: either new and not in the demand, or the reverse")
        for job in sorted(set(self.on) - set(self.jobs)):
            self.problems.append(f"{job}: is on a node, and no job of the workload")

    def _spot(self, node: Record, known: Record | None) -> Spot | None:
        name = node["name"]
        number = self.numbers.get((node["nodearray"], node["vm_size"]))
        if number is None:
            self.problems.append(f"{name}: no bucket has {node['nodearray']}, {node['vm_size']}")
            return None
        bucket = self.buckets[number]
        if (known is not None) != node["exists"] or (known and known["bucket"] != number):
            self.problems.append(f"{name}: not what the workload says of it")
        if node["placement_group"] not in (None, *bucket["pgs"]):
            self.problems.append(f"{name}: {bucket['vm_size']} has no {node['placement_group']}")
        start = {**self._whole(bucket), **(known["free"] if known else {})}
        if known is None and not node["assignments"]:
            self.problems.append(f"{name}: new, and nobody is on it")
        free = {each: float(node["available"].get(each, 0.0)) for each in start}
        for each, amount in free.items():
            if not -1e-5 <= amount <= start[each] + 1e-5:
                self.problems.append(f"{name}: has {amount:g} {each} left of {start[each]:g}")
        group = node["placement_group"]
        assigned = frozenset(node["assignments"])
        return Spot(name, number, group, known is not None, start, free, assigned)

    def _whole(self, bucket: Record) -> dict[str, float]:
        """The amounts of an empty node."""
        own = {"ncpus": bucket["vcpus"], "memgb": bucket["mem_gb"], "ngpus": bucket["gpus"]}
        given = {**own, **self.workload.get("resources", {})}
        return {name: float(amount) for name, amount in given.items()}

    # -- limits

    def _check_limits(self) -> None:
        before = self._used(spot for spot in self.spots if spot.exists)
        for what, used in self._used(self.spots).items():
            most = self._most(what)
            if used > max(most, before[what]):
                self.problems.append(f"{' '.join(map(str, what))}: {used} of {most}")

    def _used(self, spots: Iterable[Spot]) -> Counter[Limit]:
        """What nodes count for, limit by limit."""
        used: Counter[Limit] = Counter()
        for spot in spots:
            used.update(dict(self._costs(spot.bucket, spot.group)))
        return used

    def _costs(self, number: int, group: str | None) -> Iterator[tuple[Limit, int]]:
        """What one more node of a bucket counts for, limit by limit."""
        bucket = self.buckets[number]
        yield ("bucket", number), 1
        yield ("cluster cores",), bucket["vcpus"]
        yield ("cores in", bucket["location"]), bucket["vcpus"]
        yield ("cores of", bucket["family"]), bucket["vcpus"]
        if group is not None:
            yield ("group", number, group), 1

    def _most(self, what: Limit) -> int:
        quotas = self.workload.get("quotas", {})
        kind = what[0]
        if kind == "bucket":
            return int(self.buckets[what[1]]["max_count"])
        if kind == "group":
            return int(self.buckets[what[1]]["pg_size"])
        if kind == "cluster cores":
            return int(quotas.get("cluster_cores", MANY))
        section = "location_cores" if kind == "cores in" else "family_cores"
        return int(quotas.get(section, {}).get(what[1], MANY))

    def _openable(self, number: int, group: str | None, used: Mapping[Limit, int]) -> int:
        """How many nodes more the limits allow."""
        return min(
            max(0, self._most(what) - used.get(what, 0)) // amount
            for what, amount in self._costs(number, group)
        )

    # -- who is where

    def _choices_of(self, job: Record, spot: Spot, most: Amounts, occupied: bool) -> list[Choice]:
        """How a job may be on a node when so much was there. Worked out once for nodes and jobs
        that are alike."""
        text = self._texts.get(job["name"])
        if text is None:
            text = self._texts[job["name"]] = json.dumps(job["constraints"])
        alike = (text, spot.bucket, spot.group, spot.exists, occupied)
        key = (*alike, tuple(most.items()), tuple(spot.free.items()))
        known = self._choices.get(key)
        if known is None:
            site = self._site(spot, most, occupied)
            try:
                known = choices(job["constraints"], site)
            except Unjudged as error:
                self.problems.append(f"{job['name']}: cannot be judged: {error}")
                known = []
            self._choices[key] = known
        return known

    def _site(self, spot: Spot, most: Amounts, occupied: bool) -> Site:
        bucket = self.buckets[spot.bucket]
        props = {
            "vm_size": bucket["vm_size"],
            "vm_family": bucket["family"],
            "nodearray": bucket["nodearray"],
            "location": bucket["location"],
            "spot": bucket["spot"],
            "vcpu_count": bucket["vcpus"],
            "gpu_count": bucket["gpus"],
            "placement_group": spot.group,
            "colocated": spot.group is not None,
            "exists": spot.exists,
        }
        return Site(props, {"nodearray": bucket["nodearray"]}, most, spot.free, occupied)

    def _pairs(self) -> list[Pair]:
        found = []
        for name, spots in self.on.items():
            job = self.jobs.get(name)
            if job is None:
                continue
            count = self._count_on_each(job, len(spots))
            for spot in spots:
                ways = self._choices_of(job, spot, spot.start, False)
                if not ways:
                    self.problems.append(f"{name}: {spot.name} does not meet its constraints")
                    continue
                if all(way.closes for way in ways):
                    spot.closed = True
                    if len(spot.assigned) > 1:
                        others = ", ".join(sorted(spot.assigned - {name}))
                        self.problems.append(f"{name}: not alone on {spot.name}, but with {others}")
                found.append(Pair(name, spot.name, ways, count))
        return found

    def _placed(self, job: Record) -> int:
        """Iterations that found a place, by what is left of the job."""
        if job["node_count"]:
            return len(self.on.get(job["name"], ()))
        return int(job["iterations"]) - int(self.plan["remaining"][job["name"]])

    def _count_on_each(self, job: Record, nodes: int) -> int | None:
        """How often it is on each of its nodes, where that is plain."""
        placed = self._placed(job)
        if job["node_count"] or placed <= nodes:
            return 1
        return placed if nodes == 1 else None

    def _check_counts(self, pairs: Sequence[Pair]) -> None:
        for name, job in self.jobs.items():
            placed, nodes = self._placed(job), len(self.on.get(name, ()))
            wanted = job["node_count"] or job["iterations"]
            if not 0 <= placed <= wanted or nodes > placed or (placed and not nodes):
                self.problems.append(
                    f"{name}: {placed} of {wanted} are said to be placed, on {nodes} nodes"
                )
        used = {spot.name: spot.used for spot in self.spots}
        in_all = {name: self._placed(job) for name, job in self.jobs.items()}
        counts, problems = settle(pairs, used, in_all)
        self.problems += problems
        free = {spot.name: spot.free for spot in self.spots}
        for pair in pairs:
            for index, count in counts.get((pair.job, pair.node), {}).items():
                self._check_order(pair, index, count, free[pair.node])

    def _check_order(self, pair: Pair, index: int, count: int, free: Amounts) -> None:
        """Of alternatives the first that fits is taken: none before it fits in what is left and
        what it took."""
        taken = pair.choices[index]
        before = {name: free[name] + count * taken.takes.get(name, 0.0) for name in free}
        for earlier in pair.choices[:index]:
            if fits(earlier.takes, before) and earlier.closes == taken.closes:
                self.problems.append(
                    f"{pair.job}: on {pair.node} takes {dict(taken.takes)}, "
                    f"and {dict(earlier.takes)} came first"
                )

    # -- gangs

    def _check_gangs(self) -> None:
        for name, job in self.jobs.items():
            spots = self.on.get(name, [])
            if not _is_gang(job) or not spots:
                continue
            groups = {(spot.bucket, spot.group) for spot in spots}
            wanted = job["node_count"] or job["iterations"]
            if len(groups) > 1:
                self.problems.append(f"{name}: is in {len(groups)} placement groups")
            if self._placed(job) != wanted:
                self.problems.append(f"{name}: {self._placed(job)} of {wanted}, and not whole")

    # -- what was left out

    def _check_left_out(self) -> None:
        used = self._used(self.spots)
        fresh = [
            (Spot("", i, group, False, whole, whole), self._openable(i, group, used))
            for i, bucket in enumerate(self.buckets)
            for group in (None, *bucket["pgs"])
            for whole in [self._whole(bucket)]
        ]
        alike = list({_state(spot): spot for spot in self.spots}.values())
        seen: set[tuple[object, ...]] = set()
        for name, job in self.jobs.items():
            wanted = job["node_count"] or job["iterations"]
            rest = wanted - self._placed(job)
            kind = (json.dumps(job["constraints"]), job["node_count"], job["colocated"], rest)
            if rest <= 0 or kind in seen:
                continue
            seen.add(kind)
            if _is_gang(job):
                self._check_gang_left_out(job, fresh)
                continue
            for spot in alike:
                if not spot.closed and self._fits_now(job, spot):
                    self.problems.append(f"{name}: not placed, and {spot.name} has room for it")
                    break
            for spot, more in fresh:
                if more and self._fits_now(job, spot):
                    size = self.buckets[spot.bucket]["vm_size"]
                    self.problems.append(f"{name}: not placed, and a {size} could be opened for it")
                    break

    def _fits_now(self, job: Record, spot: Spot, each: int = 1) -> int:
        """How often it would fit on the node as it is now, up to a number."""
        ways = [] if spot.closed else self._choices_of(job, spot, spot.free, bool(spot.assigned))
        return times(ways[0].takes, spot.free, each) if ways else 0

    def _check_gang_left_out(self, job: Record, fresh: Sequence[tuple[Spot, int]]) -> None:
        wanted = job["node_count"] or job["iterations"]
        each = 1 if job["node_count"] else wanted
        room: Counter[tuple[int, str | None]] = Counter()
        for spot in self.spots:
            room[spot.bucket, spot.group] += self._fits_now(job, spot, each)
        for spot, more in fresh:
            room[spot.bucket, spot.group] += more * self._fits_now(job, spot, each)
        for (number, group), count in room.items():
            if count >= wanted:
                size = self.buckets[number]["vm_size"]
                self.problems.append(
                    f"{job['name']}: not placed, and {count} of it would fit in {group} of {size}"
                )
                return


def _state(spot: Spot) -> tuple[object, ...]:
    """What decides whether something fits."""
    occupied = bool(spot.assigned)
    return (spot.bucket, spot.group, spot.exists, occupied, spot.closed, *spot.free.items())


def _is_gang(job: Record) -> bool:
    """Whether it is all or nothing, in one place."""
    return bool(job["colocated"] or job["node_count"])


def violations(workload: Record, plan: Record) -> list[str]:
    """What is wrong with a plan, in sentences; [] when it is right. KeyError when it is no plan of
    this workload."""
    return Check(workload, plan).run()


def main() -> int:
    """Check the plan of a file; 1 when something is wrong with it."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = violations(given["workload"], given["plan"])
    print("plan checked: " + ("ok" if not found else f"{len(found)} violations"))
    for each in found:
        print(f"  {each}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
