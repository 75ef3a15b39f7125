"""The CycleCloud side of the library: everything that knows the server or its protocol.

`new_cluster_bindings` is the way in; the node manager calls it once for each pass.
"""

from hpc.autoscale.ccbindings.interface import ClusterBindingInterface

__all__ = ["ClusterBindingInterface"]
