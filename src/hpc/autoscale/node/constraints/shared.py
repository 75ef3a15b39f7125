"""Constraints on what all nodes share, such as licences and the limits of a queue.

Whether a pool has enough does not depend on a node, so these constraints are kept apart
(see `compiled`). Reading the JSON form makes new pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from hpc.autoscale.errors import ConstraintError, check_entries, did_you_mean
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node.constraints.base import (
    BaseNodeConstraint,
    Compiled,
    located,
    published_space,
    subject,
)
from hpc.autoscale.node.constraints.conditions import checked_amount, size_of
from hpc.autoscale.node.constraints.pools import (
    SharedConsumableResource,
    SharedNonConsumableResource,
)
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.amounts import Quantity, how_many, left
from hpc.autoscale.packing.expr import UNBOUNDED
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.results import SatisfiedResult


class SharedConstraint(BaseNodeConstraint):
    """Base of the constraints on shared resources: whatever the node is, the answer is the same.

    A subclass says so by `reject` and `pools_and_amount`. One that has the published methods
    instead is asked by these.
    """

    JSON_NAME = ""

    def reject(self) -> Reject | None:
        """Why not one more iteration is possible; None when it is."""
        return None

    def pools_and_amount(self) -> tuple[Sequence[SharedConsumableResource], int | float | Size]:
        """The pools, none unless a subclass has some, and what one iteration takes of each."""
        return (), 0

    @property
    def once(self) -> bool:
        """Whether iterations after the next one take nothing."""
        return False

    def cap(self, times: int) -> int:
        """How many of `times` iterations are possible; `pool_room` is for several constraints."""
        return min(times, pool_room([self]))

    def refusal(self, times: int = 1) -> str:
        """Why `times` iterations are too many, as a sentence."""
        enough = f"SharedLimitReached: {self} is enough for {self.cap(times)} of {times}"
        reject = self.reject()
        return enough if reject is None else reject.explain()

    def pay(self, times: int = 1) -> bool:
        """Take what `times` iterations need; False, and nothing taken, when that is not there."""
        return self.reject() is None

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """From JSON. ConstraintError when a key is missing, unknown or of the wrong kind."""
        check_entries(f"{cls.__name__}.from_dict", {}, d)
        with located(cls.JSON_NAME):
            return cls.read(d.get(cls.JSON_NAME))

    @classmethod
    def read(cls, given: Any) -> Self:
        """From what stands under `JSON_NAME`."""
        raise NotImplementedError(f"{cls.__name__} has no JSON form to be read from")

    def join(self, compiled: Compiled) -> None:
        compiled.pooled += (self,)

    def satisfied_by_node(self, node: Node) -> SatisfiedResult:
        """Whether one more iteration is possible on any node."""
        reject = self.reject()
        if reject is None:
            return SatisfiedResult("success", self, node)
        return SatisfiedResult(reject.code, self, node, lambda: [reject.explain(subject(node))])

    def do_decrement(self, node: Node) -> bool:
        return self.pay()


class SharedConsumableConstraint(SharedConstraint):
    """Each iteration takes `amount` from every one of several pools, or from none when one of them
    has less.

    With `decrement_once` only the first iteration pays, however many nodes the rest is spread over.
    A plain number asked of a pool that holds a size is in that size's own unit. InvalidAmount for a
    negative amount. The JSON form has one pool for each source; `source` and `initial-value` are
    understood too, and a value that is given once counts for every pool.
    """

    JSON_NAME = "shared-consumable-constraint"

    def __init__(
        self,
        shared_resources: Sequence[SharedConsumableResource] | SharedConsumableResource,
        amount: int | float | Size,
        decrement_once: bool = False,
    ) -> None:
        if isinstance(shared_resources, SharedConsumableResource):
            shared_resources = [shared_resources]
        self.shared_resources = list(shared_resources)
        for pool in self.shared_resources:
            if not isinstance(pool, SharedConsumableResource):
                raise ConstraintError("a SharedConsumableResource as each pool", pool)
        self.amount = checked_amount(amount)
        self.decrement_once = decrement_once
        self._paid = False

    @property
    def once(self) -> bool:
        return self.decrement_once

    def reject(self) -> Reject | None:
        pools, amount = self.pools_and_amount()
        for pool in pools:
            if how_many(pool.remaining, pool.quantity(amount)) < 1:
                left_over = str(pool.current_value)
                return Reject("SharedLimitReached", pool.resource_name, left_over, str(amount))
        return None

    def pools_and_amount(self) -> tuple[Sequence[SharedConsumableResource], int | float | Size]:
        """As for any shared constraint; no pools once it is paid for."""
        return () if self.decrement_once and self._paid else self.shared_resources, self.amount

    def minimum_space(self, node: Node) -> int:
        """For how many more iterations the emptiest pool lasts."""
        return published_space(pool_room([self]))

    def pay(self, times: int = 1) -> bool:
        if pool_room([self]) < times:
            return False
        pools, amount = self.pools_and_amount()
        for pool in pools:
            pool.use(amount, 1 if self.decrement_once else times)
        self._paid = True
        return True

    def saved(self) -> Any:
        return self._paid, super().saved()

    def restore(self, saved: Any) -> None:
        self._paid, in_pools = saved
        super().restore(in_pools)

    @classmethod
    def read(cls, given: Any) -> Self:
        body = _body(
            given,
            ("resource-name", "sources", "initial-values", "requested"),
            ("current-value", "decrement-once"),
            {
                "source": "sources",
                "initial-value": "initial-values",
                "current-values": "current-value",
            },
        )
        sources = body["sources"]
        if not isinstance(sources, (list, tuple)):
            sources = [sources]
        count = len(sources)
        names = _for_each(body, "resource-name", count)
        initial = [_quantity(v) for v in _for_each(body, "initial-values", count)]
        current = initial
        if "current-value" in body:
            current = [_quantity(v) for v in _for_each(body, "current-value", count)]
        facts = zip(names, sources, initial, current, strict=True)
        pools = [SharedConsumableResource(*each) for each in facts]
        return cls(pools, _quantity(body["requested"]), bool(body.get("decrement-once", False)))

    def to_dict(self) -> dict[str, Any]:
        """The pools as they are now, and what is asked of them; one value of a kind where all pools
        have the same."""
        pools = self.shared_resources
        body: dict[str, Any] = {
            "resource-name": _one_or_all([p.resource_name for p in pools]),
            "sources": [p.source for p in pools],
            "initial-values": [p.initial_value for p in pools],
            "current-value": _one_or_all([p.current_value for p in pools]),
            "requested": self.amount,
        }
        if self.decrement_once:
            body["decrement-once"] = True
        return {self.JSON_NAME: body}

    def __str__(self) -> str:
        return f"(Shared {self.shared_resources!r} >= {self.amount})"


class SharedNonConsumableConstraint(SharedConstraint):
    """A shared value must be `target`, for which the JSON form has `requested`, or `target` too."""

    JSON_NAME = "shared-non-consumable-constraint"

    def __init__(self, shared_resource: SharedNonConsumableResource, target: Any) -> None:
        self.shared_resource = shared_resource
        self.target = target

    def reject(self) -> Reject | None:
        name, value = self.shared_resource.resource_name, self.shared_resource.current_value
        if value == self.target:
            return None
        return Reject("InvalidSharedValue", name, value, self.target)

    @classmethod
    def read(cls, given: Any) -> Self:
        needed = ("resource-name", "source", "current-value", "requested")
        body = _body(given, needed, (), {"target": "requested"})
        *facts, target = (body[key] for key in needed)
        return cls(SharedNonConsumableResource(*facts), target)

    def to_dict(self) -> dict[str, Any]:
        resource = self.shared_resource
        body = {
            "resource-name": resource.resource_name,
            "source": resource.source,
            "current-value": resource.current_value,
            "requested": self.target,
        }
        return {self.JSON_NAME: body}

    def __str__(self) -> str:
        return f"(Shared {self.shared_resource!r} == {self.target!r})"


def _one_or_all(values: list[Any]) -> Any:
    """The value that all are, else the list of them."""
    alike = values and all(type(v) is type(values[0]) and v == values[0] for v in values)
    return values[0] if alike else values


def pool_room(pooled: Iterable[SharedConstraint]) -> int:
    """How many more iterations are possible when each pays all of these, or UNBOUNDED."""
    first: dict[int, Quantity] = {}
    every: dict[int, Quantity] = {}
    pools: dict[int, SharedConsumableResource] = {}
    for each in pooled:
        if each.reject() is not None:
            return 0
        drawn_on, amount = each.pools_and_amount()
        charges = first if each.once else every
        for pool in drawn_on:
            pools[id(pool)] = pool
            charges[id(pool)] = charges.get(id(pool), 0) + pool.quantity(amount)
    room = UNBOUNDED
    for key, pool in pools.items():
        if how_many(pool.remaining, first.get(key, 0)) < 1:
            return 0
        if key in every:
            room = min(room, how_many(left(pool.remaining, first.get(key, 0)), every[key]))
    return room


def _body(
    given: Any, needed: Sequence[str], optional: Sequence[str], aliases: Mapping[str, str]
) -> dict[str, Any]:
    """What is given, by the usual names of its keys."""
    if not isinstance(given, Mapping):
        raise ConstraintError("a dict that describes a shared resource", given)
    keys = (*needed, *optional)
    body = {aliases.get(key, key): value for key, value in given.items()}
    for key in body:
        if key not in keys:
            raise ConstraintError(
                f"one of {', '.join(keys)}", key, hint=did_you_mean(str(key), keys)
            )
    for key in needed:
        if key not in body:
            raise ConstraintError(f"the key {key!r}", sorted(map(str, given)))
    return body


def _for_each(body: Mapping[str, Any], key: str, count: int) -> list[Any]:
    """One value for each of `count` pools."""
    values = body[key]
    if not isinstance(values, (list, tuple)):
        return [values] * count
    if len(values) != count:
        raise ConstraintError(f"{count} values in {key!r}, one for each source", values)
    return list(values)


def _quantity(value: Any) -> int | float | Size:
    """A number, or the size that a text stands for."""
    size = size_of(value)
    if size is not None:
        return size
    if isinstance(value, bool) or not isinstance(value, (int, float, Size)):
        raise ConstraintError("a number or a size", value)
    return value
