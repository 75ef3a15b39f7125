"""Buckets for machines that CycleCloud does not know: nothing can be added to them by asking for
nodes.

Thousands of machines on premises are alike but for their names and for how much they have. They
share a bucket, in which each is judged by what it is itself; the bucket's example node only says
what is preferred. Whether a machine is a candidate at all is asked of what it is when nothing runs
on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import results
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket, NodeDefinition
from hpc.autoscale.node.constraints import NodeConstraint
from hpc.autoscale.node.default_resources import NODE_ID
from hpc.autoscale.node.limits import null_bucket_limits
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.shape import freeze
from hpc.autoscale.results import SatisfiedResult

_UNKNOWN = "unknown"


def unmanaged_key(node: Node) -> object:
    """Machines with equal keys share a bucket: those in one placement group that were given one
    bucket id. Where none was given, those of one size, with the same resources; amounts, and
    texts that name the machine, may differ."""
    if node._has_bucket_id:
        return (node.placement_group, node.bucket_id)
    names = {str(n).lower() for n in (node.name, node.hostname, node.fqdn) if n}
    kinds = frozenset((r, _kind(r, value, names)) for r, value in node.resources.items())
    return (node.placement_group, node.vm_size, kinds)


def _kind(resource: str, value: object, names: set[str]) -> object:
    if resource == NODE_ID or (isinstance(value, str) and value.lower() in names):
        return "its name"
    if isinstance(value, (int, float, ht.Size)) and not isinstance(value, bool):
        return "an amount"
    return (value.__class__, freeze(value))


def artificial_bucket(
    nodearray: str,
    vm_size: ht.VMSize = ht.VMSize(_UNKNOWN),  # noqa: B008
    location: ht.Location = ht.Location(_UNKNOWN),  # noqa: B008
    like: Node | None = None,
    count: int = 0,
    bucket_id: str | None = None,
) -> NodeBucket:
    """A bucket without room for new nodes, with the resources of the machine it is made for."""
    aux = vm_sizes.get_aux_vm_size_info(location, vm_size)
    definition = NodeDefinition(
        ht.NodeArrayName(nodearray),
        ht.BucketId(bucket_id or nodearray),
        vm_size,
        location,
        False,
        ht.SubnetId(_UNKNOWN),
        like.vcpu_count if like is not None else aux.vcpu_count,
        like.gpu_count if like is not None else aux.gpu_count,
        like.memory if like is not None else aux.memory,
        like.placement_group if like is not None else None,
        like.resources if like is not None else {},
        like.software_configuration if like is not None else {},
    )
    limits = null_bucket_limits(count, max(1, definition.vcpu_count))
    return NodeBucket(definition, limits, 0, [], artificial=True)


class IdleMachines:
    """Machines as they are when nothing runs on them; those that are alike are asked once. To be
    forgotten when a machine was written to."""

    def __init__(self) -> None:
        self._of: dict[NodeBucket, list[Node]] = {}
        self._answers: dict[Hashable, list[SatisfiedResult] | None] = {}

    def forget(self) -> None:
        """Machines have changed."""
        self._of.clear()
        self._answers.clear()

    def refusals(
        self,
        buckets: Iterable[NodeBucket],
        constraints: Sequence[NodeConstraint],
        key: Hashable = None,
    ) -> list[SatisfiedResult] | None:
        """Why no machine satisfies all constraints, each of them alone: what the first machine
        of each bucket refuses. None where one does. `key`: what the answer is remembered under,
        as long as nobody forgets; None where it may be another the next time."""
        if key is not None and key in self._answers:
            return self._answers[key]
        with results.muted():
            said = [
                [_refusal(constraints, machine) for machine in self._idle(bucket)]
                for bucket in buckets
            ]
        refused = [answer for answers in said for answer in answers[:1] if answer is not None]
        found = None if any(None in answers for answers in said) else refused
        if key is not None:
            self._answers[key] = found
        return found

    def _idle(self, bucket: NodeBucket) -> list[Node]:
        found = self._of.get(bucket)
        if found is None:
            kinds = {
                (node.placement_group, node.vm_size, freeze(node.resources)): node
                for node in bucket.nodes
            }
            found = self._of[bucket] = [_idle(node) for node in kinds.values()]
        return found


def _refusal(constraints: Sequence[NodeConstraint], machine: Node) -> SatisfiedResult | None:
    answers = (constraint.satisfied_by_node(machine) for constraint in constraints)
    return next((answer for answer in answers if not answer), None)


def _idle(machine: Node) -> Node:
    copied = machine.clone()
    copied.available.update(copied.resources)
    return copied
