"""A cluster in memory, for tests: of this library and of every integration.

`binding` answers the interface, over the state that `cluster` holds; `capacity` is its buckets and
their arithmetic, `nodes` its nodes. Pass a `MockClusterBinding` as `_mock_bindings` of the
configuration; what one node manager does to it, the next one sees.
"""

from hpc.autoscale.ccbindings.mock.binding import MockClusterBinding
from hpc.autoscale.ccbindings.mock.cluster import MockNodeManagementResult

__all__ = ["MockClusterBinding", "MockNodeManagementResult"]
