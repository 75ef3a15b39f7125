"""How long `azscale explain` takes for one job among ten thousand on five thousand nodes.

    python benchmarks/bench_explain.py [--jobs 10000] [--nodes 5000]

A simulator in a process of its own, and azscale in this one: from the call to the last line,
imports left out, best of `--runs`. The jobs that are explained: one that will start, one that waits
for a quota behind thousands of others, one with a typo, and one gang.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from hpc.autoscale import cli
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.simulator import serve

SMALL, LARGE = "Standard_F4s_v2", "Standard_HB120rs_v3"
DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode

class Driver(GenericDriver):
    jobs = hosts = 0

    def _read_jobs_and_nodes(self, config):
        half = self.jobs // 2
        jobs = [Job(f"first{n}", {"ncpus": 1 + n % 4, "nodearray": "htc"}) for n in range(half)]
        jobs += [Job("typo", {"ncpsu": 1}), Job("fits", {"ncpus": 1, "nodearray": "hpc"})]
        gang = {"nodearray": "hpc", "in-a-placement-group": True}
        jobs += [Job("gang", gang, node_count=400, colocated=True)]
        jobs += [Job(f"then{n}", {"ncpus": 4, "nodearray": "htc"}) for n in range(half)]
        jobs += [Job("last", {"ncpus": 4, "nodearray": "htc"})]
        hosts = []
        for n in range(self.hosts):
            host = SchedulerNode(f"htc-{n + 1}", {"ncpus": 4})
            host.available["ncpus"] = n % 3
            host.assign(f"running{n}")
            hosts.append(host)
        return jobs, hosts
"""


def main() -> None:
    """Print a line for each job."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    quota = 4 * options.nodes + 400
    cloud = {
        "clusters": {
            "demo": {
                "region": "southcentralus",
                "nodearrays": {
                    "htc": {"machine_types": [SMALL, "Standard_F8s_v2", "Standard_F16s_v2"]},
                    "hpc": {"machine_types": [LARGE], "max_placement_group_size": 100},
                },
            }
        },
        "regions": {"southcentralus": {"family_quotas": {"standardFSv2Family": quota}}},
    }
    with tempfile.TemporaryDirectory() as home, serve(cloud) as simulator:
        os.environ["AUTOSCALE_HOME"] = home
        Path(home, "bench_driver.py").write_text(DRIVER)
        sys.path.insert(0, home)
        import bench_driver  # type: ignore[import-not-found]

        bench_driver.Driver.jobs, bench_driver.Driver.hosts = options.jobs, options.nodes
        connection = simulator.connection("demo")
        made = new_node_manager(connection)
        made.allocate({"node.vm_size": SMALL, "nodearray": "htc"}, node_count=options.nodes)
        made.bootup()
        simulator.clock.settle()
        listed = len(new_cluster_bindings(connection).get_nodes().nodes)
        path = Path(home, "autoscale.json")
        path.write_text(json.dumps({**connection, "driver": "bench_driver:Driver"}))
        path.chmod(0o600)
        print(f"{listed} nodes, {options.jobs} jobs")
        for name in ("fits", "typo", "gang", "first100", "last"):
            times = []
            for _ in range(options.runs):
                printed = io.StringIO()
                began, cpu = time.perf_counter(), time.thread_time()
                with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
                    cli.main(["explain", "-c", str(path), name])
                times.append((time.perf_counter() - began, time.thread_time() - cpu))
            wall, cpu = min(times)[0], min(each for _, each in times)
            first = printed.getvalue().partition("\n")[0]
            print(f"{name:9} {wall:5.2f} s, {cpu:5.2f} s of CPU here: {first[:110]}")
            if name == "last":
                print(printed.getvalue())


if __name__ == "__main__":
    main()
