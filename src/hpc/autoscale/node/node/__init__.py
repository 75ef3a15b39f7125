"""The published `Node` and what belongs to it.

`node`: the node itself, and one that CycleCloud does not know. `contents`: containers that report
writes, what equal nodes have in common, and what the engine sees of a node. `state`: what is kept
of the nodes of one bucket, and where they are by name. `decrementing`: placing work on one node.
`record`: its JSON form.
"""

from hpc.autoscale.node.node.decrementing import minimum_space as minimum_space
from hpc.autoscale.node.node.node import QUERYABLE_PROPERTIES as QUERYABLE_PROPERTIES
from hpc.autoscale.node.node.node import Node as Node
from hpc.autoscale.node.node.node import UnmanagedNode as UnmanagedNode
