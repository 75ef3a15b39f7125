"""Dynamic arrays as the rest of the library sees them: nodearrays with buckets of their own.

The server has only the nodearray that a dynamic array extends. Which array a node is of is kept in
its record, in the configuration under `autoscale.dynamic_array`, which it was given when it was
created; its name begins with that of its array, too. An array is there as long as a request set
that stands lists it, or it has nodes; without the former it takes no more of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hpc.autoscale import clock
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import NodeCreationResult, NodeList
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.bucket import NodeDefinition
from hpc.autoscale.node.limits import BucketLimits
from hpc.autoscale.requestsets.definitions import MARK, merged, read_arrays

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node
    from hpc.autoscale.requestsets.store import RequestSet

Record = Mapping[str, Any]

_LONGEST_NAME = 50


class DynamicArray(NamedTuple):
    """`extends`: the nodearray of the cluster that its nodes come from. `machine_types`: those
    that it may have, in order of preference, in lower case; empty for all that the nodearray has.
    `attributes`: merged onto that nodearray's. `is_listed`: by a request set that stands."""

    name: str
    extends: str
    machine_types: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = {}
    is_listed: bool = True

    @property
    def key(self) -> str:
        """What its records go by: an array that was made of another nodearray before has nodes of
        either. It begins as that nodearray does, with the cluster where there are several."""
        return f"{self.extends} for {self.name}"

    def takes(self, vm_size: str) -> bool:
        """Whether new nodes may have this size."""
        return self.is_listed and (not self.machine_types or vm_size.lower() in self.machine_types)

    def rank(self, vm_size: str) -> int:
        """The place of a size among those of the array."""
        size = vm_size.lower()
        known = self.machine_types
        return known.index(size) if size in known else len(known)

    def definition(self, of: NodeDefinition) -> NodeDefinition:
        """The definition of a bucket of the nodearray, for this array."""
        configuration = self._over({"Configuration": of.software_configuration})["Configuration"]
        autoscale = configuration["autoscale"]
        made = of.in_placement_group(None, ht.with_sizes(autoscale.get("resources") or {}))
        made.nodearray = ht.NodeArrayName(self.name)
        made.bucket_id = ht.BucketId(f"{of.bucket_id}/{self.name}")
        made.software_configuration = configuration
        made.spot = bool(self.attributes.get("Interruptible", of.spot))
        made.subnet = ht.SubnetId(self.attributes.get("SubnetId") or of.subnet)
        return made

    def limits(self, of: BucketLimits, vm_size: str) -> BucketLimits:
        """The limits of a bucket of the nodearray, for this array: the very same ones, and none of
        its nodes can be added where the array takes none."""
        if self.takes(vm_size):
            return of
        why = "which does not list this size" if self.is_listed else "which nobody lists any more"
        return of.closed(f"Dynamic array {self.name}, {why},")

    def sent(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes of a new node as the server is asked for it."""
        return merged(self._over({}), attributes)

    def _over(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        made = merged(attributes, self.attributes)
        return merged(made, {"Configuration": {"autoscale": {MARK: self.name}}})


class DynamicArrays:
    """All dynamic arrays of a cluster: those that are listed, and those that have nodes.

    `nodearrays`: the names of those that the server has. What says that it is of one of these is.
    """

    def __init__(self, listed: Sequence[DynamicArray] = (), nodearrays: Iterable[str] = ()) -> None:
        self._nodearrays = frozenset(nodearrays)
        self._known: dict[tuple[str, str], DynamicArray] = {}
        self._listed: dict[str, DynamicArray] = {}
        self._of: dict[str, list[DynamicArray]] = {}
        self._prefixes: dict[tuple[str, str], list[str]] = {}
        for array in listed:
            if array.name not in self._nodearrays:
                self._add(array)

    def _add(self, array: DynamicArray) -> None:
        self._known[array.name, array.extends] = array
        if array.is_listed:
            self._listed.setdefault(array.name, array)
        self._of.setdefault(array.extends, []).append(array)
        self._prefixes.setdefault((prefix_of(array.name), array.extends), []).append(array.name)

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, nodearray: str) -> Sequence[DynamicArray]:
        """The dynamic arrays that extend a nodearray."""
        return self._of.get(nodearray, ())

    def extended_by(self, name: str) -> list[str]:
        """The nodearrays of the cluster that dynamic arrays of a name extend, which may have
        wildcards."""
        return [extends for known, extends in self._known if fnmatchcase(known, name)]

    @property
    def prefixes(self) -> dict[str, str]:
        """What names of nodes begin with, by array."""
        return {name: prefix_of(name) for name, _ in self._known}

    def keyed(self, records: Sequence[Record]) -> list[Record]:
        """Node records with the key of the dynamic array as `Template` where the node is of one. An
        array that was not known so far is from now on."""
        found = [(record, self._array_of(record)) for record in records]
        return [{**record, "Template": of.key} if of else record for record, of in found]

    def named(self, records: Sequence[Record]) -> list[Record]:
        """Node records with the name of the dynamic array as `Template` where the node is of
        one."""
        found = [(record, self._array_of(record)) for record in records]
        return [{**record, "Template": of.name} if of else record for record, of in found]

    def _array_of(self, record: Record) -> DynamicArray | None:
        configuration = record.get("Configuration")
        extends = record.get("Template")
        if (configuration is None and not self._prefixes) or not isinstance(extends, str):
            return None
        name = marked(configuration) or self._by_name(record, configuration, extends)
        if not name or name in self._nodearrays:
            return None
        if (name, extends) not in self._known:
            self._add(DynamicArray(name, extends, is_listed=False))
        return self._known[name, extends]

    def _by_name(self, record: Record, configuration: object, extends: str) -> str | None:
        """The array that the name of a node says, where its record has no configuration at all."""
        if configuration:
            return None
        prefix, _, number = str(record.get("Name")).rpartition("-")
        names = self._prefixes.get((prefix, extends), ())
        return names[0] if len(names) == 1 and number.isdecimal() else None

    def seen_through(self, binding: ClusterBindingInterface) -> ClusterBindingInterface:
        """A binding to which new nodes may be of dynamic arrays, and which says of each node which
        array it is of."""
        return cast(ClusterBindingInterface, _Binding(binding, self)) if self else binding

    def as_sent(self, node: Node) -> Node:
        """A planned node as the server is asked for it."""
        array = self._listed.get(node.nodearray)
        return node if array is None else cast("Node", _Sent(node, array))


class _Binding:
    """A binding that knows dynamic arrays; it answers all other calls as the one within it does.

    What all nodes are is held against the counts of the server, so that stays as it is.
    """

    def __init__(self, binding: ClusterBindingInterface, arrays: DynamicArrays) -> None:
        self._binding = binding
        self._arrays = arrays

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binding, name)

    def __str__(self) -> str:
        return str(self._binding)

    def extended_by(self, name: str) -> list[str]:
        """As `DynamicArrays` says."""
        return self._arrays.extended_by(name)

    def create_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> NodeCreationResult:
        """Ask for new nodes that are like these."""
        sent = [self._arrays.as_sent(node) for node in nodes]
        return self._binding.create_nodes(sent, request_id=request_id)

    def get_nodes(self, operation_id: str | None = None, request_id: str | None = None) -> NodeList:
        """All node records, as the server has them, or those of one operation."""
        listing = self._binding.get_nodes(operation_id=operation_id, request_id=request_id)
        if operation_id is None and request_id is None:
            return listing
        records = [cast(dict[str, Any], r) for r in self._arrays.named(listing.nodes or [])]
        return NodeList(nodes=records, operation=listing.operation)


class _Sent:
    """A planned node of a dynamic array, as one of the nodearray that it extends. What is written
    to it is written to the node."""

    def __init__(self, node: Node, array: DynamicArray) -> None:
        self.__dict__.update(
            _node=node,
            nodearray=array.extends,
            name_format=node.name_format or f"{prefix_of(array.name)}-%d",
            node_attribute_overrides=array.sent(node.node_attribute_overrides),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._node, name, value)


def marked(configuration: object) -> str | None:
    """The dynamic array that the configuration of a node names."""
    kinds = ht.OBJECT_KINDS
    autoscale = configuration.get("autoscale") if isinstance(configuration, kinds) else None
    name = autoscale.get(MARK) if isinstance(autoscale, kinds) else None
    return name if name and isinstance(name, str) else None


def array_of(node: Node) -> str:
    """The nodearray of a node, also where it is sent as one of what a dynamic array extends."""
    return marked(node.node_attribute_overrides.get("Configuration")) or str(node.nodearray)


def bucket_of(node: Node) -> str:
    """Nodearray, VM size and placement group, as they are named to people."""
    parts = (array_of(node), str(node.vm_size), str(node.placement_group or ""))
    return "/".join(part for part in parts if part)


def array_in(record: Record) -> str:
    """The nodearray of a node record of the server, as `array_of` has it."""
    return marked(record.get("Configuration")) or str(record.get("Template") or "")


def prefix_of(array: str) -> str:
    """What the names of its nodes begin with: what host names may have of its own."""
    plain = re.sub("[^a-z0-9-]+", "-", array.lower())[:_LONGEST_NAME].strip("-")
    return plain or "dynamic"


def listed_by(sets: Iterable[RequestSet], now: float) -> list[DynamicArray]:
    """The dynamic arrays that standing request sets list. Where several list one, the definitions
    are merged in the order in which they were reported."""
    found: dict[tuple[str, str], DynamicArray] = {}
    for one in sorted(sets, key=lambda one: (one.reported_at, one.name)):
        if not one.stands(now):
            continue
        for request in read_arrays(one.arrays):
            sizes = tuple(size.lower() for size in request.machine_types)
            for name in request.dynamic_arrays:
                array = DynamicArray(name, request.base, sizes, request.attributes)
                before = found.get((name, request.base))
                found[name, request.base] = _both(before, array) if before else array
    return list(found.values())


def _both(one: DynamicArray, other: DynamicArray) -> DynamicArray:
    both = (one.machine_types, other.machine_types)
    sizes = tuple(dict.fromkeys((*both[1], *both[0]))) if all(both) else ()
    return other._replace(machine_types=sizes, attributes=merged(one.attributes, other.attributes))


def listed_in(config: Mapping[str, Any]) -> tuple[list[DynamicArray], list[str]]:
    """The dynamic arrays that the request sets of a configuration list now, and what keeps them
    from being read, if anything: nobody loses sight of the nodes that there are because of it."""
    if not (config.get("requestsetsdb") or config.get("nodehistorydb")):
        return [], []
    from hpc.autoscale.requestsets.extending import standing_sets

    try:
        return listed_by(standing_sets(config, ""), clock.time()), []
    except AutoscaleError as error:
        return [], [str(error)]
