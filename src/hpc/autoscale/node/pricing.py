"""What a node costs per hour, in US dollars: what a plan says of it and what a journal keeps."""

from __future__ import annotations

from hpc.autoscale.node.node import Node
from hpc.autoscale.node.vm_sizes import price_per_hour


def node_price(node: Node) -> float | None:
    """Dollars per hour; 0 for a machine that CycleCloud does not know, None where nobody knows."""
    return price_per_hour(node.location, node.vm_size, bool(node.spot)) if node.managed else 0.0


def is_paid_for(node: Node) -> bool:
    """Whether there is a machine of the cluster behind it; of one that is off, nothing is paid that
    its deletion would save."""
    return bool(node.managed and node.exists)
