"""For the authors of integrations: small clusters, nodes and jobs, a stage for drivers, and the
promises of a driver.

    from hpc.autoscale.testing import a_cluster, a_job, a_node
    from hpc.autoscale.testing.conformance import DriverConformance

`builders` makes things. A `SchedulerWorld` is what an author supplies for the checks of
`conformance`, which needs pytest (the extra `testing`) and is imported by itself.
docs/writing-an-integration.md shows all of it in use. Nothing else in the library knows this
package.
"""

from hpc.autoscale.testing.builders import (
    CLUSTER_NAME,
    LOCATION,
    VM_SIZE,
    Nodearray,
    SimulatedCluster,
    a_cluster,
    a_config,
    a_description,
    a_host,
    a_job,
    a_mock_clock,
    a_node,
    a_simulated_cluster,
)
from hpc.autoscale.testing.guards import without_guard
from hpc.autoscale.testing.promise import BrokenPromise
from hpc.autoscale.testing.stage import Stage, on_stage
from hpc.autoscale.testing.world import (
    Host,
    Machine,
    NotInThisWorld,
    SchedulerWorld,
    SelfStartingWorld,
)

__all__ = [
    "CLUSTER_NAME",
    "LOCATION",
    "VM_SIZE",
    "Nodearray",
    "SimulatedCluster",
    "a_cluster",
    "a_config",
    "a_description",
    "a_host",
    "a_job",
    "a_mock_clock",
    "a_node",
    "a_simulated_cluster",
    "without_guard",
    "BrokenPromise",
    "Stage",
    "on_stage",
    "Host",
    "Machine",
    "NotInThisWorld",
    "SchedulerWorld",
    "SelfStartingWorld",
]
