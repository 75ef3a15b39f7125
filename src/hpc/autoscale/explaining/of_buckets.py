"""The verdict on a bucket, a nodearray or a VM size of a scene, and on what constraints ask for.

It says how many nodes could be had now, and what keeps that down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.fixes import fixes_for
from hpc.autoscale.explaining.found import Found, cause_of
from hpc.autoscale.explaining.refusals import in_the_way, limits_of_bucket, unusable_cause
from hpc.autoscale.explaining.refusing import who_refuses
from hpc.autoscale.explaining.scene import Scene
from hpc.autoscale.explaining.waiting import verdict_of
from hpc.autoscale.explaining.words import name_of, names_of, per_hour
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict

# what one line names of many
_MOST_OFFERS = 3


def find_buckets(name: str, scene: Scene) -> list[NodeBucket]:
    """The buckets of a name: `htc/Standard_F4s_v2`, a nodearray, a VM size, or a placement group;
    those that cannot be used among them."""
    node_mgr = scene.calculator.node_mgr
    every = [*node_mgr.get_buckets(), *(bucket for bucket, _ in node_mgr.get_unusable())]
    return [bucket for bucket in every if name.lower() in map(str.lower, _names_of(bucket))]


def _names_of(bucket: NodeBucket) -> list[str]:
    """What a bucket may be called, the names that it shares with others among them."""
    names = [name_of(bucket), str(bucket.nodearray), str(bucket.vm_size)]
    group = str(bucket.placement_group or "")
    return [*names, group, f"{name_of(bucket)}/{group}"] if group else names


def bucket_names(scene: Scene) -> list[str]:
    """What buckets may be called."""
    node_mgr = scene.calculator.node_mgr
    every = [*node_mgr.get_buckets(), *(bucket for bucket, _ in node_mgr.get_unusable())]
    return list(dict.fromkeys(n for b in every for n in (name_of(b), b.nodearray, b.vm_size)))


def explain_buckets(name: str, buckets: Sequence[NodeBucket], scene: Scene) -> Verdict:
    """The verdict on buckets that go by one name."""
    plain = [bucket for bucket in buckets if not bucket.placement_group] or list(buckets)
    causes = tuple(_causes(plain, scene))
    about = f"bucket {name}"
    offers = _offers(plain)
    if offers:
        said = _all_of(offers) if len(offers) > 1 else _the_one(*offers[0], len(plain) > 1)
        line = on_one_line(f"{names_of(plain)}: {said}")
        told = (*_available(offers, len(plain) > 1), *causes)
        return Verdict(about, Stand.HAS, "Available", line, told)
    first = causes[0] if causes else Cause("BucketLimit", "no node can be had of it")
    line = f"{names_of(plain)}: no node can be had: {first.text}"
    return Verdict(about, Stand.WAITS, first.code, on_one_line(line), causes, until=first.until)


def _offers(buckets: Sequence[NodeBucket]) -> list[tuple[NodeBucket, int]]:
    """What can be had of each nodearray and VM size that has room, the most first: the bucket that
    has most of it, and how many nodes."""
    best: dict[str, tuple[NodeBucket, int]] = {}
    for bucket in buckets:
        count = bucket.available_count if bucket.valid else 0
        if count > best.get(name_of(bucket), (bucket, 0))[1]:
            best[name_of(bucket)] = (bucket, count)
    return sorted(best.values(), key=lambda offer: -offer[1])


def _the_one(bucket: NodeBucket, count: int, is_named: bool) -> str:
    of_which = f" of {name_of(bucket)}" if is_named else ""
    return f"{counted(count, 'more node')}{of_which} can be had{_price_of_each(bucket)}"


def _all_of(offers: Sequence[tuple[NodeBucket, int]]) -> str:
    """What can be had in one phrase, the first few of many: each alone, since they share limits."""
    (first, count), *others = offers
    said = [f"{counted(count, 'more node')} of {name_of(first)}"]
    said += [f"{many} of {name_of(bucket)}" for bucket, many in others[: _MOST_OFFERS - 1]]
    more = len(offers) - len(said)
    if more:
        said.append(f"some of {counted(more, 'other bucket')}")
    return f"{', '.join(said[:-1])} or {said[-1]} can be had"


def _available(offers: Sequence[tuple[NodeBucket, int]], is_named: bool) -> Iterator[Cause]:
    """What can be had, a cause each; of a bucket alone the line has said at what price."""
    for bucket, count in offers:
        text = f"{counted(count, 'more node')} can be had"
        if is_named:
            yield Cause("Available", f"{text}{_price_of_each(bucket)}", name_of(bucket))
        else:
            yield Cause("Available", text)


def _price_of_each(bucket: NodeBucket) -> str:
    price = price_per_hour(bucket.location, bucket.vm_size, bucket.spot)
    return f", {per_hour(price)}{' each' if price is not None else ''}"


def _causes(buckets: Sequence[NodeBucket], scene: Scene) -> Iterator[Cause]:
    """What keeps buckets from getting nodes, nearest first."""
    reasons = {id(b): reason for b, reason in scene.calculator.node_mgr.get_unusable()}
    found: list[Found] = []
    for bucket in buckets:
        if id(bucket) in reasons:
            found.append(unusable_cause(bucket, reasons[id(bucket)]))
            found[-1].buckets.append(bucket)
        elif bucket.is_artificial:
            found.append(_not_of_the_cluster(bucket))
        else:
            found += limits_of_bucket(bucket)
    texts: dict[str, Found] = {}
    for each in sorted(found, key=lambda each: (each.is_never, each.nearness)):
        same = texts.setdefault(each.text, each)
        if same is not each:
            same.buckets += each.buckets
    yield from map(cause_of, texts.values())


def _not_of_the_cluster(bucket: NodeBucket) -> Found:
    """Of machines that are no nodes of the cluster: no limit or quota counts them."""
    text = (
        f"it has {counted(len(bucket.nodes), 'machine')}, not of CycleCloud, which makes no more"
        " of them"
    )
    return Found("NotManaged", (text,), text, Stand.NEVER, rank=0, buckets=[bucket])


def explain_constraints(constraints: Sequence[Any], scene: Scene) -> Verdict:
    """The verdict on a node that satisfies constraints, as if a job asked for it now."""
    job = Job("of -C", list(constraints))
    node_mgr = scene.calculator.node_mgr
    fitting = job.bucket_candidates(node_mgr.get_buckets()).candidates
    about = "constraints"
    why = who_refuses(job, node_mgr)
    scene.queue.add_last(job)
    if why.units:
        where = names_of(fitting) if fitting else "nodes that are there"
        text = on_one_line(f"finds room: {where}{_where_it_goes(job, scene)}")
        cause = Cause("Available", text, count=max(1, len(fitting)))
        line = f"A job with these constraints {text}"
        return Verdict(about, Stand.HAS, "Available", line, (cause,))
    found = in_the_way(job, why, node_mgr)
    verdict = verdict_of(job.name, found).about_another("a job with these constraints")
    return replace(verdict, about=about).fixed_by(*fixes_for(job, found, scene))


def _where_it_goes(job: Job, scene: Scene) -> str:
    """What would start for a job behind all others, in words; empty where a trial cannot tell."""
    turn, request = scene.queue.at_turn(job), scene.queue.wanted(job)
    got = None if turn is None or request is None else scene.queue.ask(turn, job, request)
    if got is None or not scene.queue.is_exact:
        return ""
    if not got.nodes:
        return "; it would go on a node that is there or planned"
    many = ", ".join(f"{count} x {place}" for place, count in got.nodes.items())
    return f"; it would start {many}, {per_hour(got.price)}"
