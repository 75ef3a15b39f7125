"""Limits in words: what people call them, what they have too little of, and what is in back-off."""

from __future__ import annotations

import re
from copy import copy

from hpc.autoscale import clock
from hpc.autoscale.backoff.held import HeldBack
from hpc.autoscale.backoff.subjects import Reach
from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.words import ASKED_NODE, at_time, name_of
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.packing.limits import NO_LIMIT, Limit

_LIMITS = (
    # how the name of a limit begins, the code, and what it is called
    ("Region(", "RegionQuota", "the core quota of {0}"),
    ("Spot(", "SpotQuota", "the spot quota of {0}"),
    ("VM Family(", "FamilyQuota", "the quota of {0}"),
    ("Cluster of ", "ClusterLimit", "the limit of cluster {0}"),
    ("Cluster", "ClusterLimit", "the limit of the cluster"),
    ("NodeArray(", "NodearrayLimit", "the limit of nodearray {0}"),
    ("PlacementGroup(", "GroupFull", "placement group {0}"),
    ("Bucket(", "BucketLimit", "what CycleCloud allows of {0}"),
)
_CODE = re.compile(r"^[A-Z][A-Za-z]+: ")
_BUCKET = re.compile(r"NodeBucket\(nodearray=([^,)]*), vm_size=([^,)]*)[^)]*\)")
_SETTINGS = {"cores": "MaxCoreCount", "nodes": "MaxCount"}
_TRIED = {
    # by kind of failure: what was tried; {0} is what it concerns
    "throttle": "there were too many requests for {0}",
    "capacity": "Azure had no capacity for {0}",
    "evicted": "Azure took nodes of {0} back",
    "boot": "nodes of {0} did not become ready",
    "host": "hosts of new nodes of {0} took no work",
    "refused": "CycleCloud refused to make nodes of {0}",
    "quota": "Azure says that {0} is used up",
    "subscription": "Azure says that {0} cannot be used",
}
_IN_A_ROW = {
    # of nodes that were tried by themselves; {1} is how many
    "boot": "{1} nodes of {0} in a row did not become ready",
    "host": "the hosts of {1} new nodes of {0} in a row took no work",
}
_SET_BY_UNIT = ("ClusterLimit", "NodearrayLimit")


def name_of_limit(limit: Limit, unit: str = "") -> tuple[str, str]:
    """The code of a limit, and what people call it; with what it is set by, where that depends on
    its unit."""
    code, called = limit_in_words(limit.name)
    set_by = f" ({_SETTINGS[unit]})" if unit and code in _SET_BY_UNIT else ""
    return code, called + set_by


def limit_in_words(name: str) -> tuple[str, str]:
    """The code of a limit, and what people call it: `the quota of f in westus2` for `VM Family(f,
    westus2)`. A name that no limit has is returned as it is."""
    for beginning, code, called in _LIMITS:
        if name.startswith(beginning):
            inside = name[len(beginning) :].replace(")", "", 1)
            if code == "NodearrayLimit" and "/" in inside:  # its name has the cluster already
                inside = inside.partition(" of ")[0]
            between = "/" if code == "BucketLimit" else " in "
            return code, called.format(inside.replace(", ", between, 1))
    return "BucketLimit", name


def reason_in_words(said: str) -> str:
    """What the engine has noted of a refusal, as journals have it, with buckets and limits by the
    names that people know: `htc/F4 has 4 of 'ncpus', and 64 is needed` for
    `InsufficientResource: NodeBucket(nodearray=htc, vm_size=F4) has …`."""
    parts = []
    for part in said.split("; "):
        text = re.sub(ASKED_NODE, r"\1", _BUCKET.sub(r"\1/\2", _CODE.sub("", part)))
        name, has, rest = text.partition(" has ")
        parts.append(f"{limit_in_words(name)[1]}{has}{rest}")
    return "; ".join(parts)


def room_in_words(limit: Limit, bucket: NodeBucket, nodes: int) -> str:
    """What a limit has too little of, in its figures: of cores, of nodes, or of both."""
    cores = nodes * bucket.vcpu_count
    shown = copy(limit)
    code, called = name_of_limit(limit)
    is_set_by = code in _SET_BY_UNIT
    few_nodes = limit.used_nodes + nodes > limit.max_nodes
    few_cores = limit.used_cores + cores > limit.max_cores
    if few_cores and not few_nodes:
        shown.max_nodes = NO_LIMIT
        called += f" ({_SETTINGS['cores']})" if is_set_by else ""
    elif few_nodes and not few_cores:
        shown.max_cores = NO_LIMIT
        called += f" ({_SETTINGS['nodes']})" if is_set_by else ""
    said = shown.describe()
    if not said.startswith(f"{limit.name} has "):
        return said
    figures = said.removeprefix(f"{limit.name} has ")
    takes = f"{nodes} nodes take {cores}" if nodes > 1 else f"a node takes {cores}"
    needed = f", and {_needed(nodes)}" if nodes > 1 else ""
    return f"{called} has {figures}{f', and {takes}' if few_cores else needed}"


def left_in_words(bucket: NodeBucket, nodes: int) -> str:
    """For how many more nodes of a bucket the server says that it has room."""
    left, most = bucket.limits.available_count, bucket.limits.max_count
    wanted = f", and {_needed(nodes)}" if nodes > 1 else ""
    room = "no more nodes" if left < 1 else counted(left, "more node")
    return f"CycleCloud has room for {room} of {name_of(bucket)} (at most {most}){wanted}"


def too_small_in_words(limit: Limit, bucket: NodeBucket, nodes: int, most: int) -> str:
    """What so many nodes of a bucket are more than, whatever else runs. `most`: how many nodes the
    limit allows."""
    _, called = name_of_limit(limit)
    cores, at_most = nodes * bucket.vcpu_count, counted(most, "node")
    if limit is bucket.limits.own:
        if called == limit.name:  # of a bucket that was closed, with the reason
            return f"{called} takes no new nodes"
        return f"CycleCloud allows {at_most} of {name_of(bucket)} in all, and {_needed(nodes)}"
    if limit.max_cores < min(NO_LIMIT, cores):
        if limit.name.startswith("PlacementGroup("):
            return f"a placement group takes at most {at_most}, and {_needed(nodes)}"
        return f"{called} allows {counted(limit.max_cores, 'core')} in all, and {_needed(cores)}"
    return f"{called} allows {at_most} in all, and {_needed(nodes)}"


def _needed(count: int) -> str:
    return "1 is needed" if count == 1 else f"{count} are needed"


def what_rests(limit: HeldBack, bucket: NodeBucket) -> str:
    """What is in back-off, as people call it: a VM size somewhere, a quota, the subscription."""
    reach, of = limit.about
    # of several clusters each has its own, and the place says of which
    of_cluster = "".join(
        f" of {name}" for _, _, name in (each.partition(" of ") for each in of) if name
    )
    size, place = f"{bucket.vm_size}", f"{bucket.location}{of_cluster}"
    kind = "spot " if bucket.spot else ""
    match reach:
        case Reach.BUCKET:
            return name_of(bucket)
        case Reach.GROUP:
            return f"{kind}{size} in a placement group in {place}"
        case Reach.OFFER:
            return f"{kind}{size} in {place}"
        case Reach.FAMILY:
            return f"the quota of {bucket.vm_family} in {place}"
        case Reach.REGION:
            return f"the {kind or 'core '}quota of {place}"
    return "the subscription" + (f" of cluster {of[0]}" if of else "")


def tried_in_words(kind: str, what: str, streak: int) -> str:
    """What was tried and failed. `what`: in the words of `what_rests`; `streak`: how often in a
    row."""
    if kind == "quota" and " quota of " not in what:
        what = f"a quota for {what}"
    tried = _TRIED.get(kind, "{0} could not be had")
    if streak > 1:
        tried = _IN_A_ROW.get(kind, tried + ", {1} times in a row")
    return tried.format(what, streak)


def resting_in_words(limit: HeldBack, bucket: NodeBucket) -> str:
    """What was tried and failed, and when it is tried again."""
    known = limit.known
    text = tried_in_words(known.cause.value, what_rests(limit, bucket), known.streak)
    if clock.time() < known.until:
        return f"{text}: next try {at_time(known.until)}"
    few = counted(limit.max_nodes, "node") if limit.max_nodes else "nodes that boot"
    return f"{text}: tried again with {few} first, with all {at_time(known.open_at)}"
