"""Who may stop: the one rule, for nodes that ask, for the loop and for the simulator.

A node may stop when demand does without it. Nodes of a pool can take each other's place, so of a
pool as many may stop as no demand was placed on, whichever of them ask. A group may stop as a whole
or not at all. Nothing here reads or keeps anything; `surplus` and `ledger` do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from hpc.autoscale.config.clusters import split_name

RESERVED_SECONDS = 600.0
"""How long a yes stands for a node that does not go."""
ASKED_SECONDS = 300.0
"""How long a node of a group counts as one that wants to stop after it has asked."""


class Code(Enum):
    """What an answer says, in one word; programs may rely on it. `status` is its HTTP status."""

    MAY_STOP = ("may_stop", 200)
    WANTED = ("wanted", 409)
    HAS_WORK = ("has_work", 409)
    KEEP_ALIVE = ("keep_alive", 409)
    GROUP_WANTED = ("group_wanted", 409)
    GROUP_WAITS = ("group_waits", 409)
    DRAINING = ("draining", 409)
    LATER = ("later", 409)
    AMBIGUOUS = ("ambiguous", 409)
    UNKNOWN_INSTANCE = ("unknown_instance", 404)
    UNKNOWN_CLUSTER = ("unknown_cluster", 404)
    DEMAND_UNKNOWN = ("demand_unknown", 503)
    STOP_FAILED = ("stop_failed", 503)

    def __init__(self, word: str, status: int) -> None:
        self.word = word
        self.status = status


@dataclass(frozen=True)
class Answer:
    """What a node is told. Only MAY_STOP is a yes."""

    code: Code
    text: str
    node: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether the node may stop."""
        return self.code is Code.MAY_STOP


@dataclass(frozen=True)
class KnownNode:
    """What is known of a node that exists.

    `pool`: nodes with the same one can take each other's place. `group`: nodes with the same one
    may stop together only. `wanted`: demand was placed on it. `serves`: demand can be placed on it,
    which it cannot on a node that has failed. `refusal`: what keeps this very node, whatever demand
    says; DEMAND_UNKNOWN where nobody knows what its nodearray is for.
    """

    node_id: str
    name: str
    pool: tuple[str, ...]
    instance_id: str | None = None
    group: str | None = None
    wanted: bool = False
    serves: bool = True
    refusal: Answer | None = None


class Surplus:
    """The nodes of a cluster at one time, as demand was placed on them."""

    def __init__(self, candidates: Iterable[KnownNode]) -> None:
        self.by_id = {one.node_id: one for one in candidates}
        self._by_instance: dict[str, list[KnownNode]] = defaultdict(list)
        self._groups: dict[str, list[KnownNode]] = defaultdict(list)
        self._spare: Counter[tuple[str, ...]] = Counter()
        for one in self.by_id.values():
            if one.instance_id:
                self._by_instance[one.instance_id].append(one)
            if one.group is not None:
                self._groups[one.group].append(one)
            elif one.serves and not one.wanted:
                self._spare[one.pool] += 1

    def find(self, instance: str) -> list[KnownNode]:
        """The nodes with this InstanceId; where there is none, those with this NodeId, which says
        nothing of the cluster where there are several."""
        found = self._by_instance.get(instance)
        if found:
            return found
        if instance in self.by_id:
            return [self.by_id[instance]]
        return [one for key, one in self.by_id.items() if split_name(key)[1] == instance]

    def members(self, group: str) -> Sequence[KnownNode]:
        """The nodes of a group."""
        return self._groups[group]

    def spare(self, pool: tuple[str, ...], reserved: Iterable[str]) -> int:
        """How many more nodes of a pool may stop, given who has been told yes."""
        going = (self.by_id[each] for each in reserved if each in self.by_id)
        return self._spare[pool] - sum(
            one.serves and one.pool == pool and one.group is None for one in going
        )


def refusals(surplus: Surplus, node_ids: Iterable[str], reserved: set[str]) -> dict[str, Answer]:
    """The answers for those of the nodes that are told no as long as nothing changes.

    Nodes of groups are not among them: whether they may stop depends on who asks.
    """
    found: dict[str, Answer] = {}
    spare: dict[tuple[str, ...], int] = {}
    for node_id in node_ids:
        one = surplus.by_id[node_id]
        if one.group is not None or (node_id in reserved and one.refusal is None):
            continue
        if one.pool not in spare:
            spare[one.pool] = surplus.spare(one.pool, reserved)
        if one.refusal is not None:
            found[node_id] = one.refusal
        elif spare[one.pool] < 1 and (one.serves or one.wanted):
            found[node_id] = _decide_one(one, spare)
    return found


def decide(
    surplus: Surplus,
    node_ids: Iterable[str],
    reserved: set[str],
    asked: Iterable[str],
    yes_is_final: bool = True,
) -> dict[str, Answer]:
    """The answer for each node that asks, all of which must be in `surplus`.

    `reserved`: the nodes that have been told yes and may not be gone yet; those that are told yes
    now are added to it, and so are the other nodes of their groups. `asked`: the nodes that have
    asked lately. `yes_is_final`: whether one that was told yes stops by itself. Where it is deleted
    for it, one that asks again was not deleted, and is decided about anew, before the others; it
    is taken off `reserved` when demand takes it now. Cost: linear in the nodes.
    """
    node_ids = list(node_ids)
    asking = {*asked, *node_ids}
    if not yes_is_final:
        node_ids.sort(key=lambda each: each not in reserved)
        reserved.difference_update(e for e in node_ids if surplus.by_id[e].refusal is None)
    spare: dict[tuple[str, ...], int] = {}
    answers: dict[str, Answer] = {}
    for node_id in node_ids:
        one = surplus.by_id[node_id]
        if one.refusal is not None:
            answers[node_id] = one.refusal
        elif node_id in reserved:
            answers[node_id] = _yes(one)
        elif one.group is not None:
            answers[node_id] = _decide_group(surplus, one, reserved, asking)
        elif not one.serves and not one.wanted:
            reserved.add(node_id)
            answers[node_id] = _yes(one)
        else:
            if one.pool not in spare:
                spare[one.pool] = surplus.spare(one.pool, reserved)
            answers[node_id] = _decide_one(one, spare)
            if answers[node_id].accepted:
                reserved.add(node_id)
    return answers


def _decide_one(one: KnownNode, spare: dict[tuple[str, ...], int]) -> Answer:
    """The answer for a node outside of groups; a yes is taken off what its pool can spare."""
    if spare[one.pool] < 1:
        return Answer(Code.WANTED, f"{one.name} is wanted: demand takes all such nodes", one.name)
    spare[one.pool] -= 1
    return _yes(one)


def _decide_group(surplus: Surplus, one: KnownNode, reserved: set[str], asking: set[str]) -> Answer:
    members = surplus.members(str(one.group))
    for other in members:
        kept = other.refusal
        if kept is not None:
            return Answer(kept.code, f"group {one.group} stays whole: {kept.text}", one.name)
    if any(other.wanted for other in members):
        return Answer(Code.GROUP_WANTED, f"{one.name}: group {one.group} is wanted", one.name)
    ready = sum(other.node_id in asking or other.node_id in reserved for other in members)
    if ready < len(members):
        return Answer(
            Code.GROUP_WAITS,
            f"{one.name}: {ready} of the {len(members)} nodes of group {one.group} have asked",
            one.name,
        )
    reserved.update(other.node_id for other in members)
    return _yes(one)


def _yes(one: KnownNode) -> Answer:
    return Answer(Code.MAY_STOP, f"{one.name} may stop: demand does without it", one.name)
