"""The published `Node` and what belongs to it.

`machine`: names and hardware. `handle`: the node itself. `unmanaged`: one that CycleCloud does not know. `decrementing`:
placing work on one node. `record`: its JSON form. `shaping`: what the engine sees of it. `tracked`: containers that
report writes.
"""

from hpc.autoscale.node.node.decrementing import minimum_space as minimum_space
from hpc.autoscale.node.node.handle import Node as Node
from hpc.autoscale.node.node.machine import QUERYABLE_PROPERTIES as QUERYABLE_PROPERTIES
from hpc.autoscale.node.node.unmanaged import UnmanagedNode as UnmanagedNode
