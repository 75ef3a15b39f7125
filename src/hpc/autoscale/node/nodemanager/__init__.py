"""The published `NodeManager`, and how one is made for a cluster.

`manager`: the manager. `inventory`: buckets, nodes, names and machines. `building` and `records`:
from the replies of the server to these. `creation`: a manager for a configuration. `placing`: one
demand. `naming`: names of new nodes. `provisioner`: creating and deleting. `unmanaged`: machines
that CycleCloud does not know.
"""

from hpc.autoscale.ccbindings import new_cluster_bindings as new_cluster_bindings
from hpc.autoscale.node.default_resources import GetFromBaseNode as GetFromBaseNode
from hpc.autoscale.node.default_resources import MemoryDefault as MemoryDefault
from hpc.autoscale.node.nodemanager.creation import new_node_manager as new_node_manager
from hpc.autoscale.node.nodemanager.manager import NodeManager as NodeManager
