"""A CycleCloud to run against, for tests, demonstrations and practice.

It speaks the REST protocol and simulates the clusters behind it.

    python -m hpc.autoscale.simulator CLUSTERS.json

It answers on 127.0.0.1 until SIGTERM; `serve` does the same inside a Python program. The model
(`cluster`) is pure and deterministic; time, randomness and ids come from outside. Nothing else in
the library knows this package.

**The description** is a JSON file. Everything but clusters, nodearrays, their region and machine
types has a default:

    {
      "clusters": {
        "demo": {
          "region": "westus2",
          "max_count": 100,                    nodes of the whole cluster (10000)
          "max_core_count": 1000,              and their cores (no limit)
          "subnet_id": "rg/vnet/subnet",
          "lifecycle": {…},                    as below, for this cluster
          "nodes": {                           nodes outside of nodearrays, there from the start
            "scheduler": {
              "machine_type": "Standard_F2s_v2",      a name or an object, as below
              …                                and region, subnet_id, hostnames, attributes,
                                               lifecycle and machine, as below
            }
          },
          "nodearrays": {
            "htc": {
              "machine_types": [               VM sizes of the catalogue in order of preference,
                                               as names or objects
                "Standard_F2s_v2",
                {
                  "name": "Standard_F4s_v2",
                  "max_count": 10,             nodes of this size in this nodearray
                  "invalid_reason": "NotActivated",    or DisabledMachineType: cannot be used
                  "spot_placement_score": "High",      or Medium, Low
                  "vcpus": 4, "pcpus": 2, "memory_gb": 8, "gpus": 0, "infiniband": false,
                  "family": "…"                numbers to report; makes sizes usable that the
                }                              catalogue lacks
              ],
              "region": "westus2",             where not that of the cluster
              "subnet_id": "rg/vnet/subnet",
              "max_count": 20,                 nodes of this nodearray (as many as the cluster)
              "max_core_count": 80,
              "spot": false,
              "max_placement_group_size": 40,
              "placement_groups": ["pg0"],     groups that exist without nodes; others exist
                                               while they have some
              "priority": 10,
              "throttle_capacity": false,      after a lack of capacity, no such nodes for
              "throttle_capacity_time": 300,   so many seconds
              "hostnames": "name",             or "address", as in ip-0A000004
              "attributes": {…},               more of the nodearray's record: Configuration,
                                               KeepAlive, ShutdownPolicy, …
              "lifecycle": {…},                as below, for this nodearray
              "machine": {…}                   local processes in the place of VMs
            }
          }
        }
      },
      "regions": {
        "westus2": {
          "quota": 1000,                       cores of regular VMs, over all clusters
          "spot_quota": 100,                   cores of spot VMs
          "family_quotas": {"standardFSv2Family": 50},   cores of regular VMs of a family
          "default_family_quota": 500,         of the families that are not listed
          "capacity": {"Standard_F2s_v2": 3}   VMs that Azure has; a node too many fails with
                                               AllocationFailed
        }
      },
      "lifecycle": {
        "allocation": 1, "acquiring": 5, "preparing": 10, "restarting": 5, "reimaging": 10,
        "deallocating": 5, "terminating": 5,   seconds in each phase
        "allocation_failed": 5,                seconds until a node that got no VM is given up
        "eviction_notice": 30,                 seconds from the notice to the end of the VM
        "time_to_eviction": null,              mean seconds that a spot node lives; null: for ever
        "jitter": 0.1,                         each duration is up to this part shorter or longer
        "boot_failure_rate": 0.05              probability that configuring a node fails
      },
      "faults": [{"kind": "lost_reply", "endpoint": "create_nodes", "calls": [1]}]
    }

Faults are described in `simulator.faults`, the simulator's own endpoints (clock, journal,
accidents) in `simulator.control`, the life of a node in docs/lifecycle.md.

**Local machines**: with a `machine`, a real process runs while a node of the nodearray has a VM.

    "machine": {
      "command": ["{python}", "worker.py", "--name", "{hostname}"],    never through a shell
      "env": {"NODE_ID": "{node_id}"},         in addition to the simulator's own environment
      "ready_file": "ready",                   the node is Ready when this file exists (relative to
                                               its work_dir) …
      "ready_command": ["true"],               … and this command has succeeded; without both: as
                                               soon as the process runs
      "grace": 10,                             seconds between SIGTERM and SIGKILL
      "on_exit": "fail",                       when the process ends by itself: fail the node, or
                                               "restart" the process
      "restart_delay": 1
    }

The placeholders are those of `simulator.templating`: {node_id} {name} {hostname} {private_ip}
{nodearray} {vm_size} {cluster} {vcpus} {memory_gb} {gpus} {placement_group} {work_dir} {python}.
Write {{ and }} for braces. The process leads a session of its own; what it writes is in stdout.log
and stderr.log of its work_dir. It ends when its node does: SIGTERM, the grace, SIGKILL for all of
its process group; on an eviction SIGKILL at once. It also ends when the simulator ends, even by
SIGKILL.
"""

from hpc.autoscale.simulator.errors import DescriptionError as DescriptionError
from hpc.autoscale.simulator.errors import StartError as StartError
from hpc.autoscale.simulator.handles import Simulator as Simulator
from hpc.autoscale.simulator.handles import serve as serve
from hpc.autoscale.simulator.loading import load_description as load_description
