"""Clusters, jobs and what happens to them, as plain values: what the engine and the naive packer
are given alike.

A scenario is {"cluster": description, "events": [...]}; `engine_world` makes a real cluster of the
description, and `kinds_of` says which kinds of constraints, requests and clusters it holds, for the
test that counts them.

A scenario is made of one number, which Hypothesis draws (see `scenario_laws`): what it draws piece
by piece is mostly small and alike, and few of such scenarios reach a limit or use two alternatives.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

from builders.oracle_reading import FAMILIES

T = TypeVar("T")

MANY = 10**6
SIZES = tuple(sorted(FAMILIES))
GROUPS = ("pg0", "pg1")
LEAF_KINDS = (
    "number",
    "size",
    "resource",
    "property",
    "exclusive",
    "exclusive-task",
    "in-a-placement-group",
    "never",
    "capacity-failure-backoff",
    "pool",
    "identity",
)
COMPOSITE_KINDS = ("and", "or", "xor", "not")
LIMIT_KINDS = ("cluster", "region", "spot", "family", "nodearray", "bucket", "group")
REQUEST_KINDS = (
    "job-slots",
    "job-nodes",
    "job-colocated",
    "job-scatter",
    "slots",
    "nodes",
    "whole-slots",
    "whole-nodes",
    "new-slots",
)
EVENT_KINDS = ("write", "assign", "release", "close", "fail", "group", "offer", "default")
NODE_STATES = ("Ready", "Failed", "Deallocated", "Starting")


class Maker:
    """Makes up scenarios; `one_in` and `rarely` keep each kind of trouble frequent and together
    infrequent."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.known: list[list[dict[str, Any]]] = []

    def of(self, *values: T) -> T:
        """One of some values."""
        return self.random.choice(values)

    def up_to(self, most: int, least: int = 0) -> int:
        """A number."""
        return self.random.randint(least, most)

    def one_in(self, n: int) -> bool:
        """True in one of n cases."""
        return self.random.randrange(n) == 0

    def rarely(self, n: int, value: Callable[[], T], usual: T) -> T:
        """`value()` in one of n cases."""
        return value() if self.one_in(n) else usual

    # -- clusters

    def cluster(self) -> dict[str, Any]:
        """One to three nodearrays with up to six buckets, nodes that are there, and limits of every
        kind."""
        names = self.random.sample(["htc", "hpc", "gpu"], self.of(1, 2, 2, 3))
        arrays = [self.nodearray(name) for name in names]
        regions = {(array["location"], array["spot"]) for array in arrays}
        families = {
            (array["location"], FAMILIES[bucket["size"]])
            for array in arrays
            for bucket in array["buckets"]
        }
        return {
            "order": self.rarely(4, lambda: "declared", "existing-first"),
            "max_cores": self.rarely(4, lambda: self.up_to(48), MANY),
            "configured_groups": {"default": "pg1", "htc": "pg2"} if self.one_in(6) else {},
            "arrays": arrays,
            "regions": {region: self.quota() for region in sorted(regions)},
            "families": {family: self.quota() for family in sorted(families)},
            "nodes": [self.node() for _ in range(self.of(0, 1, 2, 4, 8))],
            "machines": [
                (self.of(2, 4, 8), self.of(None, "ann", "ann"))
                for _ in range(self.of(0, 0, 0, 2, 4))
            ],
            "pools": {"tokens": self.up_to(12)},
        }

    def quota(self) -> tuple[int, int]:
        """(cores used by others, quota in cores)."""
        used = self.up_to(12)
        return used, used + self.rarely(3, lambda: self.up_to(32), MANY)

    def nodearray(self, name: str) -> dict[str, Any]:
        """A nodearray with one to three buckets."""
        sizes = self.random.sample(SIZES, self.of(1, 2, 2, 3))
        return {
            "name": name,
            "location": self.of("westus2", "westus2", "eastus"),
            "spot": self.one_in(3),
            "resources": self.resources(),
            "max_nodes": self.rarely(4, lambda: self.up_to(5), MANY),
            "max_cores": self.rarely(4, lambda: self.up_to(32), MANY),
            "group_size": self.rarely(2, lambda: self.up_to(3), 100),
            "buckets": [self.bucket(size) for size in sizes],
        }

    def bucket(self, size: str) -> dict[str, Any]:
        """A bucket of a VM size."""
        most = self.up_to(8)
        return {
            "size": size,
            "max": most,
            "available": self.rarely(3, lambda: self.up_to(most), most),
            "groups": self.random.sample(GROUPS, self.of(0, 0, 1, 2)),
            "failed": self.rarely(4, lambda: self.of(10.0, 500.0), None),
        }

    def resources(self) -> dict[str, Any]:
        """What a nodearray's configuration says its nodes have."""
        known = {
            "lic": self.up_to(6),
            "share": self.up_to(10) / 10,
            "disk": f"size::{10 * self.up_to(4, 1)}g",
            "owner": self.of("ann", "bob", "anna"),
            "fast": self.of(True, False),
            "tier": self.up_to(3, 1),
        }
        return {name: value for name, value in known.items() if not self.one_in(3)}

    def node(self) -> dict[str, Any]:
        """A node that is there."""
        return {
            "slot": self.up_to(8),
            "group": self.of(None, None, None, *GROUPS),
            "state": self.of("Ready", "Ready", "Ready", "Ready", *NODE_STATES),
            "used": self.of(0, 0, 1, 2, 4),
            "keep": self.one_in(8),
        }

    # -- constraints

    def number(self) -> dict[str, Any]:
        """An amount, as a number."""
        name = self.of("ncpus", "ncpus", "ncpus", "memgb", "lic", "share", "ngpus", "extra")
        amounts = {"memgb": self.up_to(12, 1), "share": self.up_to(6, 1) / 10}
        return {name: amounts.get(name, self.up_to(3))}

    def size(self) -> dict[str, Any]:
        """An amount, as a size."""
        return self.of(
            {"memgb": f"memory::{self.up_to(20, 1)}g"},
            {"memmb": f"memory::{self.up_to(20, 1) * 512}m"},
            {"disk": f"size::{self.up_to(30, 1)}g"},
        )

    def equality(self) -> dict[str, Any]:
        """A resource with one of some values."""
        return self.of(
            {"owner": self.of("ann", "an*", "*", "b?b", ["bob", "ann"], ["ann*"])},
            {"fast": self.of(True, False)},
            {"tier": self.of([1], [2, 3], [3, 1])},
            {"ncpus": self.of([4], [2, 4], [8], [1, 6], True)},
            {"nodearray": self.of("htc", ["hpc", "htc"], "*")},
            {"gone": "x"},
        )

    def property(self) -> dict[str, Any]:
        """A property with one of some values."""
        sizes = [self.of(*SIZES), self.of(*SIZES), "Standard_*"]
        return self.of(
            {"node.vm_size": self.of("Standard_F*", sizes, sizes[:2], sizes[:1], sizes[1])},
            {"node.nodearray": self.of("htc", ["hpc", "htc"], ["*"], ["gpu", "*"])},
            {"node.placement_group": self.of(None, "pg0", ["pg1", "pg0"], ["pg?", None])},
            {"node.vcpu_count": self.of(4, [8, 4, 2], [1, 2])},
            {"node.vm_family": self.of("standardF*", "standardFFamily")},
            {"node.gpu_count": self.of(0, 1, [1, 0])},
            {self.of("node.spot", "node.colocated", "node.exists"): self.of(True, False)},
            {"node.state": self.of("Ready", ["Off", "Ready"], "Off", "running")},
            {"node.location": self.of("westus2", ["eastus", "westus2"])},
        )

    def switch(self) -> dict[str, Any]:
        """A keyword."""
        return self.of(
            {"exclusive": self.rarely(5, lambda: False, True)},
            {"exclusive-task": self.rarely(5, lambda: False, True)},
            {"in-a-placement-group": self.of(True, True, False)},
            {"capacity-failure-backoff": self.of(60, 1000)},
            {"pool:tokens": self.up_to(3)},
            {"pool:tokens": 1},
        )

    def leaf(self) -> dict[str, Any]:
        """Any constraint that holds no other."""
        if self.one_in(25):
            return {"never": "not today"}
        made = (
            self.number,
            self.number,
            self.size,
            self.equality,
            self.property,
            self.property,
            self.switch,
        )
        return self.of(*made)()

    def identity(self) -> dict[str, Any]:
        """What differs from node to node."""
        name = {"node.name": self.of("htc-1", "h*-2", ["hpc-1", "htc-3"])}
        found = self.of(name, {"node.hostname": self.of("ip-1", ["ip-2", "ip-1"])})
        return self.of(found, {"not": found})

    def tree(self, depth: int = 2) -> dict[str, Any]:
        """A constraint that may hold others."""
        if depth == 0 or self.one_in(2):
            return self.leaf()
        word = self.of("and", "or", "or", "xor", "not", "keys")
        if word == "not":
            return {"not": self.tree(depth - 1)}
        children = [self.tree(depth - 1) for _ in range(self.of(2, 2, 3))]
        if word == "keys":
            return {key: value for child in children for key, value in child.items()}
        return {word: children}

    def constraints(self) -> list[dict[str, Any]]:
        """Those of a job: often what another job has asked for before, since queues are full of
        equal jobs."""
        if not self.known or self.one_in(3):
            self.known.append(self.new_constraints())
        return self.of(*self.known)

    def new_constraints(self) -> list[dict[str, Any]]:
        """Those of a job; at most one of them draws on a pool."""
        found = []
        if not self.one_in(4):
            found.append({"ncpus": self.up_to(4, 1)})
        found += [self.tree() for _ in range(self.of(0, 0, 1, 1, 2))]
        if self.one_in(15):
            found.append(self.identity())
        pools = [key for key, _ in leaves_of(found) if key.startswith("pool:")]
        nested = any(hidden(constraint, "pool:") for constraint in found)
        if len(pools) > 1 or (nested and entangled(found)):
            return [constraint for constraint in found if "pool:" not in repr(constraint)]
        return found

    # -- what happens

    def event(self) -> dict[str, Any]:
        """A request, or something that happens to a node or a bucket."""
        if not self.one_in(4):
            return {
                "do": "request",
                "how": self.of(*REQUEST_KINDS, "job-slots", "job-slots", "slots"),
                "units": self.of(1, 1, 2, 2, 3, 4, 6, 9, 14),
                "constraints": self.constraints(),
            }
        what = self.of(*EVENT_KINDS, "write", "write")
        if what == "group":
            return {"do": what, "bucket": self.up_to(9), "name": "pg9"}
        if what == "offer":
            return {"do": what, "bucket": self.up_to(9), "lic": self.up_to(6)}
        if what == "default":
            return {"do": what, "extra": self.up_to(4)}
        event = {"do": what, "node": self.up_to(12)}
        if what == "write":
            event["resource"] = self.of("ncpus", "ncpus", "memgb", "lic", "owner")
            event["quarters"] = self.up_to(4)
        return event


def scenario(seed: int) -> dict[str, Any]:
    """The scenario of a seed. `seed`, `look` and `report` are for tests that have a choice of their
    own."""
    maker = Maker(seed)
    return {
        "cluster": maker.cluster(),
        "events": [maker.event() for _ in range(maker.up_to(9, 3))],
        "seed": seed,
        "look": maker.one_in(2),
        "report": maker.one_in(2),
    }


# -- what there is in a scenario


def leaves_of(constraints: Iterable[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Every leaf, as (key, value)."""
    for constraint in constraints:
        for key, value in constraint.items():
            if key in ("and", "or", "xor"):
                yield from leaves_of(value)
            elif key == "not":
                yield from leaves_of([value])
            else:
                yield key, value


def hidden(constraint: dict[str, Any], prefix: str) -> bool:
    """Whether an alternative or a negation holds a leaf whose name begins so."""
    return any(
        (
            any(name.startswith(prefix) for name, _ in leaves_of([{key: value}]))
            if key in ("or", "xor", "not")
            else key == "and" and any(hidden(child, prefix) for child in value)
        )
        for key, value in constraint.items()
    )


def entangled(constraints: Sequence[dict[str, Any]]) -> bool:
    """Whether a condition may depend on what is taken meanwhile: an alternative closes the node, or
    a resource stands in an alternative or is compared, and stands elsewhere too. Or an alternative
    is about new nodes alone.

    What only its own methods understand is asked again for each slot, after the rest has taken its
    part. The published protocol has it so; then the order in which constraints stand decides, and
    there is nothing to hold the engine to. Amounts of one resource that must all be there are no
    such case.
    """
    alone = ("exclusive", "capacity-failure-backoff")
    if any(hidden(constraint, key) for constraint in constraints for key in alone):
        return True
    counts = Counter(key for key, _ in leaves_of(constraints) if not key.startswith("node."))
    conditions = {
        key for key, value in leaves_of(constraints) if leaf_kind(key, value) == "resource"
    }
    conditions |= {key for key in counts if any(hidden(each, key) for each in constraints)}
    return any(counts[key] > 1 for key in conditions)


def leaf_kind(key: str, value: object) -> str:
    """Which of LEAF_KINDS a leaf is."""
    if key.startswith("pool:"):
        return "pool"
    if key in LEAF_KINDS:
        return key
    if key in ("node.name", "node.hostname"):
        return "identity"
    if key.startswith("node."):
        return "property"
    if isinstance(value, str) and "::" in value:
        return "size"
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if number else "resource"


def composites_of(constraints: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Which of COMPOSITE_KINDS occur."""
    for constraint in constraints:
        if len(constraint) > 1:
            yield "and"
        for key, value in constraint.items():
            if key in COMPOSITE_KINDS:
                yield key
                yield from composites_of([value] if key == "not" else value)


def kinds_of(scenario: dict[str, Any]) -> Iterator[str]:
    """The kinds of constraint, request, event and cluster in a scenario."""
    for event in scenario["events"]:
        if event["do"] != "request":
            yield f"event {event['do']}"
            continue
        yield f"request {event['how']}"
        yield from (f"leaf {leaf_kind(*leaf)}" for leaf in leaves_of(event["constraints"]))
        yield from (f"composite {kind}" for kind in composites_of(event["constraints"]))
    cluster = scenario["cluster"]
    yield f"order {cluster['order']}"
    yield from (f"node {node['state']}" for node in cluster["nodes"])
    yield from ("machine" for _ in cluster["machines"])
