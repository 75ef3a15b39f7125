"""The published `NodeManager`, and how one is made for a cluster.

`building` and `records`: from the server's replies to buckets and nodes. `manager`: the manager. `placing`: one demand.
`naming`: names of new nodes. `commanding`: creating and deleting. `unmanaged`: machines CycleCloud does not know.
"""

from hpc.autoscale.ccbindings import new_cluster_bindings as new_cluster_bindings
from hpc.autoscale.node.default_resources import GetFromBaseNode as GetFromBaseNode
from hpc.autoscale.node.default_resources import MemoryDefault as MemoryDefault
from hpc.autoscale.node.nodemanager.creation import new_node_manager as new_node_manager
from hpc.autoscale.node.nodemanager.manager import NodeManager as NodeManager
