"""From what the engine says of each bucket to causes: what is in the way, equal things once.

Of one bucket that what is hardest to lift counts: all of it must be lifted. Buckets of which the
same is said are one cause, which names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.backoff.held import HeldBack, ShutOff
from hpc.autoscale.config.clusters import cluster_of_bucket
from hpc.autoscale.config.naming import NODEARRAYS
from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.codes import AFTER_LIMITS, OF_BACKOFF
from hpc.autoscale.explaining.found import Found, nearest_first
from hpc.autoscale.explaining.known import (
    Known,
    clusters_away,
    clusters_that_may_have,
    no_such_node,
    other_value,
    undefined,
)
from hpc.autoscale.explaining.limit_words import (
    left_in_words,
    name_of_limit,
    resting_in_words,
    room_in_words,
    too_small_in_words,
)
from hpc.autoscale.explaining.refusing import OF_ROOM, Refused, WhyNot, who_refuses
from hpc.autoscale.explaining.rewriting import constraints_of, unit_of, values_of
from hpc.autoscale.explaining.words import (
    ASKED_BUCKET,
    ASKED_NODE,
    at_time,
    away_in_words,
    in_time,
    listed,
    without_codes,
)
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import SharedConstraint, SharedConsumableResource
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.packing.amounts import how_many
from hpc.autoscale.packing.compound import Refusals
from hpc.autoscale.packing.limits import NO_LIMIT, Limit
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.plaintext import in_words, shorten
from hpc.autoscale.results import Result, SatisfiedResult
from hpc.autoscale.results.verdicts import Stand
from hpc.autoscale.shown import Shown

_OF_EVERY_BUCKET = ("PoolEmpty", "NeverAllowed")
LONGEST_TEXT = 300
_REASONS = {
    "autoscale.enabled=false": "NodearrayDisabled",
    "NotActivated": "SizeNotActivated",
    "DisabledMachineType": "SizeRetired",
}
SAID = {
    # by code of a refusal: the code of the cause, and the text made of its sentence and its facts
    "NotInAPlacementGroup": (
        "PlacementGroup",
        "the job must be in a placement group, and these nodes are in none",
    ),
    "InAPlacementGroup": (
        "PlacementGroup",
        "the job must not be in a placement group, and these nodes are in one",
    ),
    "NodesFull": ("Busy", "all that would do have other work, or are too small"),
    "ExclusiveRequirementFailed": ("Busy", "all that would do have other work"),
    "NodeClosed": ("NodesClosed", "the nodes that would do take no work now"),
    "NodeUnusable": ("NodesClosed", "the nodes that would do cannot be used: {0}"),
    "InvalidSharedValue": ("PoolEmpty", "{0}"),
    "Never": ("NeverAllowed", "the job says: {1}"),
    "XORFailed": ("NoAlternative", "a node {0}"),
    "not(success)": ("Excluded", "the job wants none that is: {1}"),
}


def in_the_way(
    job: Job, why: WhyNot, node_mgr: NodeManager, known: Known | None = None
) -> list[Found]:
    """What is in the way of a job, as of `by_bucket`. Where nothing but answers of constraints is
    known, as of one that the engine does not understand, what it understands may tell more.
    `known`: what was worked out for other jobs."""
    known = known or Known(node_mgr)
    found = by_bucket(job, why, node_mgr, known)
    if not why.understood or any(each.code != "Constraint" for each in found):
        return found
    by_node = job.node_count > 0
    part = Job(
        job.name,
        why.understood,
        iterations=job.iterations if by_node else why.request.units,
        node_count=job.node_count,
        colocated=job.colocated,
        packing_strategy=job.packing_strategy,
    )
    known_of_part = by_bucket(part, who_refuses(part, node_mgr), node_mgr, known)
    first = known_of_part[0] if known_of_part else None
    # limits are in the way of no bucket that answers refuse
    tells_more = first is not None and (first.is_never or first.code in _OF_EVERY_BUCKET)
    return known_of_part if tells_more else found


def by_bucket(job: Job, why: WhyNot, node_mgr: NodeManager, known: Known) -> list[Found]:
    """What is in the way of a job, nearest first: of the buckets that there are, of those that the
    cluster has and nobody can use, and of pools."""
    found: dict[tuple[object, ...], Found] = {}

    def note(each: Found, bucket: NodeBucket | None) -> None:
        known = found.setdefault((each.code, *each.key), each)
        if bucket is not None:
            known.buckets.append(bucket)
        if known is not each:
            known.facts += each.facts
            known.limits += [limit for limit in each.limits if limit not in known.limits]

    if why.units >= why.request.units > 0:  # a node was deleted in the meantime
        note(
            Found("RoomByNow", (), "there is room by now, and the next pass tries again"),
            None,
        )
    for refused in _of_each_bucket(why.refused):
        note(_read(refused, why, known), refused.bucket)
    are_empty = any(pool.reject() is not None for pool in why.unpaid)
    for answer in [] if are_empty else why.answers:
        said = _of_a_machine("; ".join(answer.reasons) or answer.message)
        note(Found("Constraint", (said,), said), None)
    for each, of_bucket in _out_of_use(job, node_mgr):
        note(each, of_bucket)
    for each in found.values():
        each.facts += _of_hosts(each, why.answers, node_mgr)
        _finish(each, job)
    of_buckets = sorted(found.values(), key=nearest_first)
    of_pools = {each.key: each for each in (pool_cause(p, why.request) for p in why.unpaid)}
    return _both(of_buckets, sorted(of_pools.values(), key=nearest_first), why.is_nowhere)


def _both(of_buckets: list[Found], of_pools: list[Found], is_nowhere: bool) -> list[Found]:
    """What is in the way of buckets, of which one is enough, and of pools, which must all do: first
    what can never be lifted."""
    if any(each.is_never for each in of_pools):
        return [*of_pools[::-1], *of_buckets]
    if is_nowhere and all(each.is_never for each in of_buckets):
        return [*of_buckets, *of_pools]
    return sorted([*of_pools, *of_buckets], key=nearest_first)


def _of_hosts(found: Found, answers: Sequence[Result], node_mgr: NodeManager) -> list[Any]:
    """What machines that cannot be ordered have of that of which a job needs more. Of those that
    are of one kind only one has answered."""
    if found.code != "TooLarge":
        return []
    name = str(found.key[0])
    lacking = [each for each in answers if each.status == "InsufficientResource"]
    kinds = {each.node.bucket_id for each in lacking if isinstance(each, SatisfiedResult)}
    if not kinds:  # most sites have no such machines, and thousands of nodes
        return []
    hosts = [node for node in node_mgr.get_nodes() if node.bucket_id in kinds]
    return [host.resources[name] for host in hosts if name in host.resources]


def _of_a_machine(answer: str) -> str:
    """What a constraint has said of a bucket, or of a machine that cannot be ordered, such as a
    host on premises, by its name."""
    said = re.sub(rf"(?:\b\w+: )?{ASKED_NODE}", r"\1", answer)
    said = re.sub(rf"(?:\b\w+: )?{ASKED_BUCKET}", r"\1/\2", said)
    return in_words(said, LONGEST_TEXT)


def _of_each_bucket(refused: Iterable[Refused]) -> Iterator[Refused]:
    """One refusal of each bucket: that of its new nodes, where it can have any."""
    chosen: dict[NodeBucket, Refused] = {}
    for each in refused:
        known = chosen.get(each.bucket)
        if known is None or each.reject.code != "NodesFull":
            chosen[each.bucket] = each
    return iter(chosen.values())


def _read(refused: Refused, why: WhyNot, known: Known) -> Found:
    """What one refusal comes to."""
    reject = refused.reject
    match reject.code:
        case "UndefinedResource":
            return undefined(str(reject.facts[0]), known)
        case "InsufficientResource":
            name, has, needed = reject.facts
            return Found("TooLarge", (name, needed), facts=[has])
        case "CompoundFailure":
            _, refusals = reject.facts
            if isinstance(refusals, Refusals):
                key = (reject.code, refusals.children)
                return Found("NoAlternative", key, facts=[refusals.rejects()])
        case "SharedLimitReached":
            return _empty_pool(*reject.facts)
        case "NoSuchNode":
            return no_such_node(str(reject.facts[0]), known, why.elsewhere)
        case "InvalidOption":
            return other_value(refused, known, why.elsewhere)
        case "CapacityFailureBackoff":
            return _rests(refused)
        case code if code in OF_ROOM:
            return _no_room(refused, why, known)
    code, template = SAID.get(reject.code, ("Constraint", "{0}"))
    sentence = reject.explain().partition(": ")[2]
    facts = (without_codes(str(fact)) for fact in reject.facts)
    text = template.format(in_words(without_codes(sentence), LONGEST_TEXT), *facts)
    # nobody waits for the machines on premises where more of others can be had
    is_of_machines = code == "Busy" and refused.bucket.is_artificial
    rank = AFTER_LIMITS if is_of_machines else None
    text += _closed_among(refused.bucket) if is_of_machines else ""
    same = (reject.code,) if code == "NoAlternative" else (text, rank)
    return Found(code, same, text, rank=rank)


def _closed_among(bucket: NodeBucket) -> str:
    """What is to be added of the machines of a bucket that have no work and take none, as while a
    host on premises rests."""
    names = [str(node.name) for node in bucket.nodes if node.closed and not node.assignments]
    if not names:
        return ""
    return f"; {shorten(names)} {'takes' if len(names) == 1 else 'take'} no work now"


def _out_of_use(job: Job, node_mgr: NodeManager) -> Iterator[tuple[Found, NodeBucket | None]]:
    """Buckets that would do and that nobody can use, and clusters that may have some."""
    for bucket, reason in node_mgr.get_unusable():
        if job.is_served_by(bucket):
            yield unusable_cause(bucket, reason), bucket
    for cluster in clusters_missing(job, node_mgr):
        yield _cluster_away(cluster), None


def clusters_missing(job: Job, node_mgr: NodeManager) -> list[str]:
    """The clusters that are set aside and of which nobody can tell whether they would do for a job:
    those whose nodearrays it names; where it names none, those that were never read."""
    away = clusters_away(node_mgr)
    if not away:
        return []
    given = constraints_of(job)
    named = [str(value) for name in NODEARRAYS for value in values_of(given, name)]
    if not named:
        return list(getattr(node_mgr.cluster_bindings, "never_read", ()))
    meant = {cluster for name in named for cluster in clusters_that_may_have(name, node_mgr)}
    return [cluster for cluster in away if cluster in meant]


def _cluster_away(cluster: str) -> Found:
    return Found("ClusterAway", (cluster,), away_in_words(cluster))


def _rests(refused: Refused) -> Found:
    elapsed, rest = refused.reject.facts
    seconds = max(0.0, _number(rest) - _number(elapsed))
    until = clock.time() + seconds
    where = f"{refused.bucket.vm_size} in {refused.bucket.location}"
    ago = in_time(_number(elapsed))
    text = f"Azure had no capacity for {where} {ago} ago: next try {at_time(until)}"
    return Found("CapacityBackoff", (round(until),), text, until=until, rest=seconds)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def nodes_needed(refused: Refused, why: WhyNot) -> int:
    """How many nodes of a bucket the request takes, all of it; 1 where nobody can tell."""
    return max(1, -(-why.request.units // refused.each)) if refused.each else 1


def _new_nodes_needed(refused: Refused, why: WhyNot) -> int:
    """How many new nodes of a bucket the request needs at least, beside those that are there."""
    if refused.reject.code != "GangTooLarge" or not refused.each:
        return nodes_needed(refused, why)
    limits = (limit for limit in refused.bucket.limits.parts if limit.is_charged)
    return 1 + max(0, min((limit.room(refused.bucket.vcpu_count) for limit in limits), default=0))


def binding_limits(bucket: NodeBucket, nodes: int) -> list[Limit]:
    """The limits that leave the least room for new nodes of a bucket, less than so many. What the
    server allows of the bucket alone counts where no other limit explains it."""
    cores, own = bucket.vcpu_count, bucket.limits.own
    room = {limit: limit.room(cores) for limit in bucket.limits.parts if limit.is_charged}
    shared = {limit: left for limit, left in room.items() if limit is not own and left < nodes}
    least = min(shared.values(), default=NO_LIMIT)
    if own in room and room[own] < min(least, nodes):
        return [own]
    return [limit for limit, left in shared.items() if left == least]


def _allowing_fewer(bucket: NodeBucket, nodes: int) -> list[Limit]:
    """The limits that allow fewer nodes of a bucket than so many, whatever else runs; the one that
    allows the fewest first."""
    own = bucket.limits.own
    most = {
        limit: bucket.limits.most_of(limit)
        for limit in bucket.limits.parts
        if limit.is_charged and limit is not own and not isinstance(limit, HeldBack)
    }
    return sorted((limit for limit in most if most[limit] < nodes), key=most.__getitem__)


def limits_of_bucket(bucket: NodeBucket, nodes: int = 1) -> list[Found]:
    """The limits that leave the least room for new nodes of a bucket, less than so many."""
    found = [_limited(limit, bucket, nodes) for limit in binding_limits(bucket, nodes)]
    for each in found:
        each.buckets.append(bucket)
    return found


def _no_room(refused: Refused, why: WhyNot, known: Known) -> Found:
    bucket = refused.bucket
    if bucket.is_artificial:
        return _of_machines(refused, why, known)
    binding = binding_limits(bucket, _new_nodes_needed(refused, why))
    if not binding:
        text = in_words(refused.reject.explain().partition(": ")[2], LONGEST_TEXT)
        return Found("Busy", (text,), text)
    nodes = nodes_needed(refused, why) if why.request.whole else 1
    each = [_limited(limit, bucket, nodes) for limit in binding]
    if not any(found.is_never for found in each):
        # what leaves the least room now may have more later, and another never enough
        small = [limit for limit in _allowing_fewer(bucket, nodes) if limit not in binding]
        binding += small
        each = [_limited(limit, bucket, nodes) for limit in small[:1]] or each
    hardest = max(each, key=lambda found: (found.is_never, found.nearness))
    others = [found.text for found in each if found is not hardest]
    hardest.text = "; and ".join([hardest.text, *others])
    hardest.limits = binding
    return hardest


def _of_machines(refused: Refused, why: WhyNot, known: Known) -> Found:
    """What keeps a job from machines that nobody can have more of, whatever their limits are
    called: too few for all of it, or others have them."""
    there, units = len(refused.bucket.nodes), why.request.units
    nodes = -(-units // why.request.per_node)
    if not why.request.whole or (nodes <= there and refused.most >= units):
        return _read(refused._replace(reject=Reject("NodesFull", there)), why, known)
    machines, needs = counted(there, "machine"), "the job needs {} together, and "
    if nodes > there:
        verb = "is" if there == 1 else "are"
        text = needs.format(f"{nodes} nodes") + f"there {verb} {machines}"
    else:
        verb = "takes" if there == 1 else "take"
        unit = "node" if why.request.per_node == 1 else "slot"
        text = needs.format(counted(units, unit)) + f"{machines} {verb} {refused.most} at most"
    return Found("Busy", (text,), text, Stand.NEVER, rank=AFTER_LIMITS)


def _limited(limit: Limit, bucket: NodeBucket, nodes: int) -> Found:
    """What one limit comes to that has no room for so many nodes."""
    if isinstance(limit, HeldBack):
        return _held(limit, bucket)
    if isinstance(limit, ShutOff):
        return Found("GangGathers", (limit.name,), limit.describe())
    code, _ = name_of_limit(limit)
    is_own = limit is bucket.limits.own
    text = left_in_words(bucket, nodes) if is_own else room_in_words(limit, bucket, nodes)
    most, stand = bucket.limits.most_of(limit), None
    if nodes > most:
        stand = Stand.NEVER
        code = "GroupTooSmall" if code == "GroupFull" else code
        text = too_small_in_words(limit, bucket, nodes, most)
    groups = code in ("GroupFull", "GroupTooSmall")
    key = (bucket.nodearray, bucket.vm_size) if groups else (limit.name, stand)
    return Found(code, key, text, stand)


def _held(limit: HeldBack, bucket: NodeBucket) -> Found:
    known = limit.known
    code = OF_BACKOFF.get(known.cause.value, "CapacityBackoff")
    until = known.until if clock.time() < known.until else known.open_at
    text = resting_in_words(limit, bucket)
    return Found(code, (limit.name,), text, until=until, said=known.message)


def pool_cause(pool: SharedConstraint, request: Request) -> Found:
    """What jobs share, and there is too little of; never enough, where all of it would not do."""
    at_once = request.units if request.whole or request.per_node == 1 else 1
    at_once = 1 if pool.once else at_once
    small = _small_pool(pool, at_once)
    if small is not None:
        return small
    reject, units = pool.reject(), request.units
    if reject is not None and reject.code == "SharedLimitReached":
        name, left, wanted = reject.facts
        if at_once > 1:  # one of them alone cannot start
            wanted = Shown(pool.pools_and_amount()[1] * at_once, None)
        return _empty_pool(name, left, wanted)
    if reject is not None:
        name, has, wanted = reject.facts
        text = f"{name} is {has}, and the job wants {wanted}"
        return Found("PoolEmpty", (text,), text)
    names = listed(each.resource_name for each in pool.pools_and_amount()[0]) or "what it shares"
    text = f"{names}: enough is left for {pool.cap(units)} of {units}"
    return Found("PoolEmpty", (text,), text)


def _small_pool(constraint: SharedConstraint, units: int) -> Found | None:
    """That a pool has less, when nobody draws on it, than so many units take of it."""
    pools, amount = constraint.pools_and_amount()
    for pool in pools:
        most = pool.initial_value
        full = SharedConsumableResource(pool.resource_name, pool.source, most, most)
        if (
            0 < full.remaining >= pool.remaining  # none at all may be a server that is down
            and how_many(full.remaining, full.quantity(amount)) < units
        ):
            needed, there_are = Shown(amount * units, None), f"there are {Shown(most, None)}"
            text = f"the job needs {needed} of {pool.resource_name}, and {there_are} in all"
            return Found("PoolEmpty", (text,), text, Stand.NEVER)
    return None


def _empty_pool(name: object, left: object, wanted: object) -> Found:
    verb = "is" if str(left) == "1" else "are"
    text = f"the job needs {wanted} of {name}, and {left} of them {verb} left"
    return Found("PoolEmpty", (text,), text)


def unusable_cause(bucket: NodeBucket, reason: str) -> Found:
    """A bucket that nobody can use, and why."""
    if reason == "ClusterAway":
        return _cluster_away(cluster_of_bucket(str(bucket.bucket_id), bucket.nodearray))
    code = _REASONS.get(reason, "SizeUnusable")
    if code == "NodearrayDisabled":
        text = f"nodearray {bucket.nodearray} is disabled (autoscale.enabled=false)"
        return Found(code, (bucket.nodearray,), text)
    texts = {
        "SizeNotActivated": "is not activated for the subscription (NotActivated)",
        "SizeRetired": "is retired or disabled in CycleCloud (DisabledMachineType)",
    }
    text = f"{bucket.vm_size} {texts.get(code, f'cannot be used: {reason}')}"
    return Found(code, (bucket.vm_size, reason), text, said=reason)


def _finish(found: Found, job: Job) -> None:
    """Put into the text what is known only when all buckets were looked at."""
    if found.code == "TooLarge":
        name, needed = found.key
        numbers = sorted(found.facts, key=lambda has: _number(getattr(has, "value", has)))
        most = numbers[-1] if numbers else 0
        # a size is written as the job writes it; what has no unit is none
        is_sized = any(getattr(each, "unit", None) is not None for each in (needed, most))
        values = values_of(constraints_of(job), str(name)) if is_sized else ()
        for size in (value for value in values if isinstance(value, Size)):
            needed, most = (
                each.in_unit(unit_of(size)) if isinstance(each, Shown) else each
                for each in (needed, most)
            )
        found.text = f"the job needs {needed} {name} on one node, and the largest has {most}"
    elif found.code == "NoAlternative" and found.facts:
        each = [_nearest(rejects) for rejects in zip(*found.facts, strict=True)]
        found.text = f"a node satisfies none of {len(each)} alternatives: {'; '.join(each)}"
    elif found.code == "OtherValue" and not found.text:
        name, said = map(str, found.key)
        has = listed(found.facts)
        found.text = f"{name.removeprefix('node.')} is {has}, and the job wants {said}"


def _nearest(rejects: Sequence[Reject]) -> str:
    """What all buckets say of one alternative: of amounts that of the one that is the nearest to
    having enough."""
    lacking = [each for each in rejects if each.code == "InsufficientResource"]
    if not lacking:
        return without_codes(rejects[0].explain())

    def part(reject: Reject) -> float:
        has, needed = (_number(getattr(each, "value", each)) for each in reject.facts[1:])
        return has / needed if needed else 0.0

    most = max(lacking, key=part)
    others = {str(each.facts[1]) for each in lacking if each.facts[0] == most.facts[0]}
    said = without_codes(most.explain())
    return f"the largest {said}" if len(others) > 1 else said
