"""The published `NodeManager`, and how one is made for a cluster.

`manager`: the manager, and how it is made for a configuration. `inventory`: buckets, nodes, names
and machines on premises. `building` and `records`: from the replies of the server to these.
`placing`: one demand, with `probing`, `reporting` and `policies`. `provisioner`: creating and
deleting.
"""

from hpc.autoscale.ccbindings import new_cluster_bindings as new_cluster_bindings
from hpc.autoscale.node.default_resources import GetFromBaseNode as GetFromBaseNode
from hpc.autoscale.node.default_resources import MemoryDefault as MemoryDefault
from hpc.autoscale.node.nodemanager.manager import NodeManager as NodeManager
from hpc.autoscale.node.nodemanager.manager import new_node_manager as new_node_manager
