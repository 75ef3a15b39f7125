"""What a scheduler says of hosts that have just come up."""

from __future__ import annotations

from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.amounts import is_amount


def takes_no_work(host: Node) -> bool:
    """Whether a scheduler has nothing available of a host, though nothing runs there."""
    has = [name for name, amount in host.resources.items() if _is_some(amount)]
    is_empty = not any(_is_some(host.available.get(name)) for name in has)
    return bool(has) and is_empty and not host.assignments


def _is_some(amount: object) -> bool:
    return is_amount(amount) and amount > 0
