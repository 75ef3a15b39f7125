"""The verdict on a bucket, a nodearray or a VM size of a scene, and on what constraints ask for.

It says how many nodes could be had now, and what keeps that down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.fixes import fixes_for
from hpc.autoscale.explaining.refusals import (
    Found,
    by_bucket,
    cause_of,
    limits_of_bucket,
    unusable_cause,
)
from hpc.autoscale.explaining.refusing import who_refuses
from hpc.autoscale.explaining.scene import Scene
from hpc.autoscale.explaining.waiting import verdict_of
from hpc.autoscale.explaining.words import name_of, names_of, per_hour
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict


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
    room = {id(bucket): bucket.available_count for bucket in plain if bucket.valid}
    best = max(plain, key=lambda bucket: room.get(id(bucket), -1))
    count = room.get(id(best), 0)
    causes = tuple(_causes(plain, scene))
    price = per_hour(price_per_hour(best.location, best.vm_size, best.spot))
    about = f"bucket {name}"
    if count > 0:
        of_which = f" of {name_of(best)}" if len(plain) > 1 else ""
        line = (
            f"{names_of(plain)}: {counted(count, 'more node')}{of_which} can be had, {price} each"
        )
        cause = Cause("Available", f"{counted(count, 'more node')} can be had")
        return Verdict(about, Stand.HAS, "Available", on_one_line(line), (cause, *causes))
    first = causes[0] if causes else Cause("BucketLimit", "no node can be had of it")
    line = f"{names_of(plain)}: no node can be had: {first.text}"
    return Verdict(about, Stand.WAITS, first.code, on_one_line(line), causes, until=first.until)


def _causes(buckets: Sequence[NodeBucket], scene: Scene) -> Iterator[Cause]:
    """What keeps buckets from getting nodes, nearest first."""
    reasons = {id(b): reason for b, reason in scene.calculator.node_mgr.get_unusable()}
    found: list[Found] = []
    for bucket in buckets:
        if id(bucket) in reasons:
            found.append(unusable_cause(bucket, reasons[id(bucket)]))
        else:
            found += limits_of_bucket(bucket)
    texts: dict[str, Found] = {}
    for each in sorted(found, key=lambda each: (each.is_never, each.nearness)):
        texts.setdefault(each.text, each)
    yield from map(cause_of, texts.values())


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
    found = by_bucket(job, why, node_mgr)
    verdict = verdict_of(job.name, found).about_another("a job with these constraints")
    return replace(verdict, about=about, fixes=fixes_for(job, found, scene))


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
