"""What a failure says something about: one node, one bucket, a VM size somewhere, or more.

A `Subject` is the one form of key there is. Those under which a bucket may be held back are
`subjects_of` its facts, and what a failure is filed under is always one of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from hpc.autoscale.config.clusters import cluster_of_bucket
from hpc.autoscale.node import vm_sizes

if TYPE_CHECKING:
    from hpc.autoscale.node.bucket import NodeBucket
    from hpc.autoscale.node.node import Node


class Reach(StrEnum):
    """How far a failure reaches."""

    NODE = "node"
    BUCKET = "bucket"
    GROUP = "group"
    OFFER = "offer"
    FAMILY = "family"
    REGION = "region"
    SUBSCRIPTION = "subscription"


class BucketFacts(NamedTuple):
    """What of a bucket decides which failures concern it. `family`: whose quota it is charged to;
    `group`: its placement group, or nothing. `cluster`: of which cluster it is, where there are
    several: each has its own quotas, and its own say about capacity."""

    nodearray: str
    vm_size: str
    location: str
    spot: bool
    family: str = ""
    group: str = ""
    cluster: str = ""


def facts_of(bucket: NodeBucket | Node) -> BucketFacts:
    """What of a bucket, or of the bucket of a node, decides which failures concern it."""
    return BucketFacts(
        str(bucket.nodearray),
        str(bucket.vm_size),
        str(bucket.location),
        bool(bucket.spot),
        vm_sizes.quota_family(bucket.location, bucket.vm_size),
        str(bucket.placement_group or ""),
        cluster_of_bucket(str(bucket.bucket_id), str(bucket.nodearray)),
    )


class Subject(NamedTuple):
    """A reach with the facts that it leaves open. `of`: those facts, as texts."""

    reach: Reach
    of: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A text for files; `read_subject` understands it."""
        return "\x1f".join((self.reach.value, *self.of))

    def __str__(self) -> str:
        if self.reach is Reach.SUBSCRIPTION and self.of:
            return f"The subscription of {self.of[0]}"
        return _WORDS[self.reach].format(*self.of)


_WORDS = {
    Reach.NODE: "Node {0}",
    Reach.BUCKET: "Bucket({0}, {1})",
    Reach.GROUP: "{2} {0} in placement groups of {1}",
    Reach.OFFER: "{2} {0} in {1}",
    Reach.FAMILY: "{2} quota of {0} in {1}",
    Reach.REGION: "{1} quota of {0}",
    Reach.SUBSCRIPTION: "The subscription",
}
_LENGTHS = {
    Reach.NODE: 1,
    Reach.BUCKET: 4,
    Reach.GROUP: 3,
    Reach.OFFER: 3,
    Reach.FAMILY: 3,
    Reach.REGION: 2,
    Reach.SUBSCRIPTION: 0,
}


_BY_VALUE = {reach.value: reach for reach in Reach}


def node(node_id: str) -> Subject:
    """One node, which exists."""
    return Subject(Reach.NODE, (node_id,))


def subject(reach: Reach, facts: BucketFacts) -> Subject:
    """What a failure of this reach is about, given where it happened.

    Spot and regular nodes never share one: they have quotas and capacity of their own. A failure in
    a placement group that reaches no further is about all placement groups of the size; outside of
    one there is no such thing, and it is about the size.
    """
    market = "Spot" if facts.spot else "Regular"
    size, location = facts.vm_size.lower(), facts.location.lower()
    if facts.cluster:
        location = f"{location} of {facts.cluster}"
    if reach is Reach.GROUP and not facts.group:
        reach = Reach.OFFER
    if reach is Reach.FAMILY and (facts.spot or not facts.family):
        reach = Reach.REGION if facts.spot else Reach.OFFER
    if reach is Reach.BUCKET:
        return Subject(reach, (facts.nodearray, size, location, market))
    if reach in (Reach.GROUP, Reach.OFFER):
        return Subject(reach, (size, location, market))
    if reach is Reach.FAMILY:
        return Subject(reach, (facts.family.lower(), location, market))
    if reach is Reach.REGION:
        return Subject(reach, (location, market))
    return Subject(reach, (facts.cluster,) if facts.cluster else ())


def subjects_of(facts: BucketFacts) -> tuple[Subject, ...]:
    """Every subject that a bucket belongs to, the narrowest first."""
    every = (subject(reach, facts) for reach in Reach if reach is not Reach.NODE)
    return tuple(dict.fromkeys(every))


def read_subject(key: str) -> Subject | None:
    """The subject of a key; None for a text that is none."""
    reach, *of = key.split("\x1f")
    found = _BY_VALUE.get(reach)
    if found is Reach.SUBSCRIPTION and len(of) == 1:
        return Subject(found, tuple(of))
    return Subject(found, tuple(of)) if found and len(of) == _LENGTHS[found] else None
