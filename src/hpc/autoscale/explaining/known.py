"""What the nodes of a cluster have, and what is said of a job that wants what none of them has:
causes with guesses of what was meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.config.clusters import cluster_named
from hpc.autoscale.config.naming import NODEARRAYS
from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.explaining.found import Found
from hpc.autoscale.explaining.refusing import Refused
from hpc.autoscale.explaining.words import (
    a_property,
    an_amount,
    has_no_nodearray,
    listed,
    meant,
    names_of,
)
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.packing.expr import IDENTITY_NAMES, text_pattern


def clusters_away(node_mgr: NodeManager) -> tuple[str, ...]:
    """Of several clusters those that are set aside in this pass, by name."""
    return tuple(getattr(node_mgr.cluster_bindings, "away", ()))


def clusters_that_may_have(nodearray: str, node_mgr: NodeManager) -> list[str]:
    """The clusters that are set aside and may have a nodearray of this name, which may have
    wildcards, or the one that a dynamic array of this name extends."""
    extended = getattr(node_mgr.cluster_bindings, "extended_by", None)
    names = [nodearray, *(extended(nodearray) if extended else ())]
    away = clusters_away(node_mgr)
    return [each for each in away if any(cluster_named(name, (each,)) for name in names)]


class Known:
    """What resources and values the nodes of a cluster have, worked out when it is asked for."""

    def __init__(self, node_mgr: NodeManager) -> None:
        self.buckets = node_mgr.get_buckets()
        self.unusable = [bucket for bucket, _ in node_mgr.get_unusable()]
        self.away_with = partial(clusters_that_may_have, node_mgr=node_mgr)
        self._resources: dict[str, None] | None = None
        self._values: dict[str, list[object]] = {}
        # by what is unknown: guesses take long, and thousands of buckets say the same
        self._unknown: dict[tuple[str, str], Found] = {}

    @property
    def resources(self) -> dict[str, None]:
        """Names of the resources that any bucket or any of its nodes has."""
        if self._resources is None:
            every = [*self.buckets, *self.unusable]
            self._resources = {name: None for bucket in every for name in bucket.resources}
            machines = (b for b in self.buckets if b.resources == {} or has_no_nodearray(b))
            for bucket in machines:
                for node in bucket.nodes:
                    self._resources.update(dict.fromkeys(node.resources))
        return self._resources

    @cached_property
    def hosts(self) -> dict[str, str]:
        """Host names of nodes as jobs ask for them, by how they are compared."""
        names = (node.hostname for bucket in self.buckets for node in bucket.nodes)
        return {short_name(name): name for name in names if name}

    def values(self, name: str) -> list[object]:
        """The values that new nodes have for a property (`node.X`) or a resource."""
        if name in self._values:
            return self._values[name]
        found: dict[str, object] = {}
        for bucket in (*self.buckets, *self.unusable):
            value = value_of_new(bucket, name)
            if value is not None and not has_no_nodearray(bucket):
                found.setdefault(repr(value), value)
        return self._values.setdefault(name, list(found.values()))

    def once(self, kind: str, said: str, make: Callable[[], Found]) -> Found:
        """What is found of a kind and a text, made once; each time another object."""
        key = (kind, said)
        if key not in self._unknown:
            self._unknown[key] = make()
        return replace(self._unknown[key], buckets=[], facts=[], limits=[])


def value_of_new(bucket: NodeBucket, name: str) -> Any:
    """The value that new nodes of a bucket have for a property (`node.X`) or a resource; None where
    they have none."""
    if name.startswith("node."):
        return getattr(bucket.example_node, name[5:], None)
    return bucket.resources.get(name)


def undefined(name: str, known: Known) -> Found:
    """New nodes of a bucket lack a resource; or nobody has one of that name."""
    if name in known.resources:
        return Found("OtherValue", ("lacks", name), f"new nodes have no {name}")

    def unknown() -> Found:
        guess = a_property(name) or did_you_mean(name, known.resources)
        return Found("UnknownResource", (name,), f"no node has a resource {name!r}{guess}")

    return known.once("resource", name, unknown)


def no_such_node(wanted: str, known: Known, elsewhere: Sequence[NodeBucket] = ()) -> Found:
    """No node has a name that a job wants, as in `node.hostname is 'ip-1'`; or only nodes of other
    nodearrays have it, those of `elsewhere`."""
    said = wanted.removeprefix("node.")
    if elsewhere:
        where = f"among {names_of(elsewhere)}, and the job wants another nodearray"
        text = f"the only nodes whose {said} are {where}"
        return Found("OtherNodearray", (text,), text, rank=CODES["NoSuchNode"].nearness)
    text = f"there is no node whose {said}"
    _, is_host, name = wanted.partition("node.hostname is ")
    host = known.hosts.get(short_name(name.strip("'"))) if is_host else None
    if host:  # nodes have it without its domain
        text += f"; did you mean {host!r}?"
    return Found("NoSuchNode", (text,), text)


def other_value(refused: Refused, known: Known, elsewhere: Sequence[NodeBucket] = ()) -> Found:
    """Nodes have another value than the job wants; or none has it that there are. `elsewhere`: as
    in `no_such_node`."""
    name, has, wanted = refused.reject.facts
    name, said = str(name), str(wanted)
    if name in IDENTITY_NAMES:
        return no_such_node(f"{name} is {said}", known, elsewhere)
    is_array, short = name in NODEARRAYS, name.removeprefix("node.")
    index_of = getattr(wanted, "index_of", None)
    values = known.values(name)
    if index_of is not None and any(_is_wanted(name, index_of, value) for value in values):
        if is_array:
            return Found("OtherNodearray", (said,), f"the job wants nodearray {said}")
        return Found("OtherValue", (name, said), facts=[has])
    if index_of is None:  # one of several alternatives
        return Found("OtherValue", (name, said), f"{short} is not {said}", facts=[has])
    texts = list(getattr(wanted, "all", ()))
    if is_array and any(known.away_with(str(text)) for text in texts):
        # nobody knows whether there is one
        return Found("OtherNodearray", (said,), f"the job wants nodearray {said}")
    place = str(refused.bucket.location)
    make = partial(_unknown_value, name, said, texts, values, refused.bucket)
    return known.once(f"{short} in {place}", said, make)


def _is_wanted(name: str, index_of: Callable[..., int], value: object) -> bool:
    if isinstance(value, ht.Size):  # numbers are in its unit, but for properties: in bytes
        unit = 1 if name.startswith("node.") else ht.magnitude_bytes(value.magnitude)
        return index_of(value.bytes, unit) >= 0
    return index_of(value) >= 0


def _unknown_value(
    name: str, said: str, wanted: list[object], values: list[object], bucket: NodeBucket
) -> Found:
    short = name.removeprefix("node.")
    texts = [value for value in values if isinstance(value, str)]
    asked = [each for each in wanted if isinstance(each, str)]
    guess = next((found for each in asked if (found := _guess(each, texts))), "")
    is_pattern = any(text_pattern(each) is not None for each in asked)
    if not is_pattern and short == "vm_size" and len(wanted) == 1:
        size = str(wanted[0])
        place = ht.Location(str(bucket.location))
        if _is_sold_elsewhere(size, place):
            text = f"Azure has no {size} in {place}, by its list of prices"
            return Found("SizeNotInRegion", (said,), text)
        if size in vm_sizes.all_possible_vm_sizes():
            return Found("UnknownValue", (short, said), f"no nodearray has the VM size {size}")
        suggested = vm_sizes.suggest_vm_size(size)
        guess = guess or (f"; did you mean {suggested!r}?" if suggested else "")
    noun = {"vm_size": "VM size", "nodearray": "nodearray"}.get(short, short)
    has = "" if guess or not values else f"; nodes have {listed(map(repr, values))}"
    lacks = f"no {noun} matches {said}" if is_pattern else f"no node has the {noun} {said}"
    return Found(
        "UnknownValue", (short, said), f"{lacks}{guess or has}{an_amount(name, wanted, values)}"
    )


def _guess(word: str, known: list[str]) -> str:
    """As `did_you_mean`, also of a pattern."""
    if text_pattern(word) is None:
        return did_you_mean(word, known)
    near = meant(word, known)
    return f"; did you mean {near[0]!r}?" if near else ""


def _is_sold_elsewhere(vm_size: str, place: ht.Location) -> bool:
    """Whether a size has a price in other places, and none in one where others have."""
    size = ht.VMSize(vm_size)
    every = map(ht.Location, vm_sizes.all_possible_locations())
    return (
        vm_sizes.price_per_hour(place, size) is None
        and vm_sizes.price_per_hour(place, ht.VMSize("Standard_D2s_v3")) is not None
        and any(vm_sizes.price_per_hour(each, size) is not None for each in every)
    )
