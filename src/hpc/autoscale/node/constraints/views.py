"""How constraints look at nodes and buckets, and how they name them in messages.

Everything that a constraint of this package knows of a node goes through `view_of` or `bucket_view`, and everything that
it takes goes through `take`, so that nodes, buckets and stand-ins for nodes are treated alike.
"""

from __future__ import annotations

from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.decrementing import take as take
from hpc.autoscale.node.node.shaping import NodeView
from hpc.autoscale.packing.expr import View
from hpc.autoscale.packing.reject import Reject


def view_of(node: Node) -> View:
    """The node as an expression sees it. Of a stand-in, `available`, `assignments` and its attributes are enough."""
    own_view = getattr(node, "_view", None)
    return own_view() if own_view is not None else NodeView(node)


def bucket_view(bucket: NodeBucket) -> View:
    """A new node of the bucket as an expression sees it, with the bucket's last capacity failure."""
    return NodeView(bucket.example_node, getattr(bucket, "last_capacity_failure", None))


def subject(node: Node, attr: str = "") -> str:
    """What a message is about: `Bucket[array=htc vm_size=Standard_F4 attr=ncpus]`, or `Node[name=htc-1 attr=ncpus]`."""
    what = f" attr={attr}" if attr else ""
    name = getattr(node, "name", None)
    if name == f"{getattr(node, 'nodearray', None)}-0":
        return f"Bucket[array={node.nodearray} vm_size={node.vm_size}{what}]"
    return f"Node[name={name}{what}]"


def sentence(reject: Reject, node: Node, attr: str = "") -> str:
    """Why the node was refused, with a guess at what a resource that it does not have was meant to be."""
    said = reject.explain(subject(node, attr))
    return said + did_you_mean(attr, node.available) if reject.code == "UndefinedResource" else said
