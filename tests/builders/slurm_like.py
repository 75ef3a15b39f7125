"""An integration in the style of Slurm's: it starts nodes by their names, and leaves deciding to
the scheduler.

Written against the published names only, as its authors wrote theirs against upstream. Slurm says
which of its nodes it wants, by name; each is allocated by a node name hook that knows that one
name, in the partition's nodearray and, for MPI partitions, in a placement group. The scheduler is
`Slurmctld`, which lives in memory.
"""

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from hpc.autoscale import clilib, clock, util
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings import ClusterBindingInterface, new_cluster_bindings
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandprinter import OutputFormat
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.results import AllocationResult

MAX_WAIT = 600


class Slurmctld:
    """Slurm's side: what `scontrol` would be told."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        self.down: set[str] = set()


class Driver(GenericDriver):
    """Nothing to read from Slurm; what the cluster's nodes have is what matters."""

    def __init__(self) -> None:
        super().__init__("slurm")

    def preprocess_node_mgr(self, config: dict[str, Any], node_mgr: NodeManager) -> None:
        config.setdefault("nodearrays", {})
        for bucket in node_mgr.get_buckets():
            slurm = bucket.software_configuration.get("slurm", {})
            section = config["nodearrays"].setdefault(bucket.nodearray, {})
            count = 1 if slurm.get("hpc") else 0
            section["generated_placement_group_buffer"] = count
            section["max_placement_groups"] = count
        super().preprocess_node_mgr(config, node_mgr)

        def slurm_memory(node: Node) -> Size:
            return max(
                Memory(1, "g"), min(node.memory - Memory.value_of("1g"), node.memory * 0.95)
            ).convert_to("m")

        node_mgr.add_default_resource(
            selection={}, resource_name="slurm_memory", default_value=slurm_memory
        )
        node_mgr.add_default_resource(
            selection={}, resource_name="slurm_cpus", default_value="node.pcpu_count"
        )
        node_mgr.add_default_resource(
            selection={}, resource_name="slurm_gpus", default_value="node.gpu_count"
        )


class Partition:
    """A bucket as Slurm sees it: a prefix and so many nodes."""

    def __init__(self, bucket: NodeBucket, name: str, prefix: str) -> None:
        self.bucket = bucket
        self.name = name
        self.prefix = prefix
        self.is_hpc = bucket.placement_group is not None

    @property
    def names(self) -> list[str]:
        """The names of its nodes."""
        return [
            f"{self.prefix}{self.bucket.nodearray}-{n}" for n in range(1, self.bucket.max_count + 1)
        ]

    def conf(self) -> str:
        """A line of slurm.conf."""
        node = self.bucket.example_node
        memory = node.resources["slurm_memory"]
        if not isinstance(memory, Size):
            raise TypeError(memory)
        cpus = node.resources["slurm_cpus"]
        threads = self.bucket.vcpu_count // self.bucket.pcpu_count
        gres = f" Gres=gpu:{self.bucket.gpu_count}" if self.bucket.gpu_count else ""
        return (
            f"Nodename={self.names[0]}..{len(self.names)} Feature=cloud State=CLOUD CPUs={cpus}"
            f" ThreadsPerCore={threads} RealMemory={math.floor(memory.value)}{gres}"
        )


def fetch_partitions(node_mgr: NodeManager) -> dict[str, Partition]:
    """One partition for each nodearray that Slurm may scale: in a placement group for MPI, else
    outside of any."""
    found: dict[str, Partition] = {}
    for bucket in node_mgr.get_buckets():
        slurm = bucket.software_configuration.get("slurm", {})
        if not slurm.get("autoscale", True):
            continue
        is_hpc = bool(slurm.get("hpc"))
        if is_hpc != (bucket.placement_group is not None):
            continue
        if is_hpc and bucket.placement_group != f"{bucket.vm_size}_pg0":
            continue
        partition = Partition(bucket, slurm["partition"], slurm.get("node_prefix", ""))
        found.setdefault(bucket.nodearray, partition)
    return found


def allocate(node_mgr: NodeManager, names: Sequence[str]) -> list[Node]:
    """A node for each name; RuntimeError when one cannot be had."""
    partitions = fetch_partitions(node_mgr)
    by_name = {name: p for p in partitions.values() for name in p.names}
    known: dict[str, Node] = {node.name: node for node in node_mgr.get_nodes()}
    nodes = []
    for name in names:
        existing = known.get(name)
        if existing is not None and existing.exists:
            nodes.append(existing)
            continue
        partition = by_name[name]

        def hook(bucket: NodeBucket, index: int, name: str = name) -> str:
            if index != 1:
                raise RuntimeError(f"Could not create node with name {name}: it exists")
            return name

        node_mgr.set_node_name_hook(hook)
        constraints = {
            "node.bucket_id": partition.bucket.bucket_id,
            "node.placement_group": partition.bucket.placement_group,
            "exclusive": True,
        }
        result: AllocationResult = node_mgr.allocate(
            constraints, node_count=1, allow_existing=False, assignment_id=name
        )
        if len(result.nodes) != 1:
            reasons = getattr(result, "reasons", [])
            raise RuntimeError(f"Could not allocate {name}: {result.message} {len(reasons)}")
        (node,) = result.nodes
        if node.name != name:
            raise RuntimeError(f"Expected {name}, found {node.name}")
        node.name_format = name
        nodes.append(node)
    return nodes


class SlurmCLI(clilib.CommonCLI):
    """azslurm."""

    def __init__(self, ctld: Slurmctld) -> None:
        super().__init__(project_name="slurm")
        self.ctld = ctld
        self.driver = Driver()

    def _driver(self, config: dict[str, Any]) -> Driver:
        return self.driver

    def _default_output_columns(self, config: dict[str, Any], cmd: str | None = None) -> list[str]:
        columns = ["name", "hostname", "state", "vm_size"]
        return columns if util.LEGACY else columns[:1]

    def _initconfig_parser(self, parser: ArgumentParser) -> None:
        parser.add_argument("--accounting", dest="accounting__subscription_id")

    def _initconfig(self, config: dict[str, Any]) -> None:
        config["azslurmd"] = {"sleep_time": 15}

    def _setup_shell_locals(self, config: dict[str, Any]) -> dict[str, Any]:
        node_mgr = self._node_mgr(config)
        return {"node_mgr": node_mgr, "partitions": clilib.ShellDict(fetch_partitions(node_mgr))}

    def partitions(self, config: dict[str, Any]) -> None:
        """Prints slurm.conf for the partitions."""
        for partition in fetch_partitions(self._node_mgr(config, self._driver(config))).values():
            print(f"PartitionName={partition.name}", partition.conf())

    def resume_parser(self, parser: ArgumentParser) -> None:
        """Options of resume."""
        parser.set_defaults(read_only=False)
        names = parser.add_argument("--node-list", type=clilib.str_list, required=True)
        vars(names)["completer"] = self._complete  # as argcomplete reads it
        parser.add_argument("--no-wait", action="store_true")

    def resume(self, config: dict[str, Any], node_list: list[str], no_wait: bool = False) -> None:
        """Starts nodes by name and waits until they have an address."""
        logging.set_context("[resume]")
        node_mgr = self._node_mgr(config, self._driver(config))
        nodes = allocate(node_mgr, node_list)
        result = node_mgr.bootup(nodes)
        if not result:
            raise RuntimeError(result.message)
        print(json.dumps([n.name for n in nodes]))
        if not no_wait:
            self._wait_for(config, node_list)

    def _wait_for(self, config: dict[str, Any], names: Sequence[str]) -> None:
        bindings: ClusterBindingInterface = new_cluster_bindings(config)
        deadline = clock.time() + MAX_WAIT
        waiting = set(names)
        while waiting and clock.time() < deadline:
            for record in bindings.get_nodes().nodes:
                name = record["Name"]
                if name not in waiting or record["TargetState"] != "Started":
                    continue
                if record["Status"] == "Failed":
                    self.ctld.down.add(name)
                    waiting.discard(name)
                elif record["PrivateIp"]:
                    self.ctld.addresses[name] = record["PrivateIp"]
                    waiting.discard(name)
            if waiting:
                clock.sleep(15)
        self.ctld.down |= waiting

    def suspend_parser(self, parser: ArgumentParser) -> None:
        """Options of suspend."""
        parser.set_defaults(read_only=False)
        parser.add_argument("--node-list", type=clilib.str_list, required=True)

    def suspend(self, config: dict[str, Any], node_list: list[str]) -> None:
        """Shuts nodes down by name."""
        node_mgr = self._node_mgr(config, self._driver(config))
        by_name: dict[str, Node] = {n.name: n for n in node_mgr.get_nodes()}
        nodes = [by_name[n] for n in node_list if n in by_name and not by_name[n].keep_alive]
        result = node_mgr.shutdown_nodes(nodes)
        if not result:
            raise RuntimeError(result.message)
        for node in nodes:
            self.ctld.addresses.pop(node.name, None)

    def restart_nodes(
        self, config: dict[str, Any], hostnames: Sequence[str], node_names: Sequence[str]
    ) -> None:
        """Restarts nodes, which Slurm forgets meanwhile."""
        for name in node_names:
            self.ctld.addresses.pop(name, None)
        super().restart_nodes(config=config, hostnames=hostnames, node_names=node_names)

    def reimage_nodes(
        self, config: dict[str, Any], hostnames: Sequence[str], node_names: Sequence[str]
    ) -> None:
        """Reimages nodes."""
        super().reimage_nodes(config=config, hostnames=hostnames, node_names=node_names)

    @clilib.disablecommand
    def autoscale(
        self,
        config: dict[str, Any],
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        dry_run: bool = False,
        long: bool = False,
    ) -> DemandResult:
        """Not for Slurm."""
        return super().autoscale(config, output_columns, output_format, dry_run=dry_run, long=long)

    @clilib.disablecommand
    def demand(
        self,
        config: dict[str, Any],
        output_columns: Sequence[str] | None,
        output_format: OutputFormat | None,
        long: bool = False,
    ) -> DemandResult:
        """Not for Slurm."""
        return super().demand(config, output_columns, output_format, long=long)

    @clilib.disablecommand
    def jobs(self, config: dict[str, Any]) -> None:
        """Not for Slurm."""
        super().jobs(config)

    @clilib.disablecommand
    def join_nodes(
        self,
        config: dict[str, Any],
        hostnames: Sequence[str],
        node_names: Sequence[str],
        include_permanent: bool = False,
    ) -> None:
        """Not for Slurm."""
        super().join_nodes(config, hostnames, node_names, include_permanent)

    def _complete(self, prefix: str, parsed_args: Namespace, **kwargs: object) -> list[str]:
        self._get_example_nodes(clilib_config(parsed_args))
        return [name for name in self.node_names if name.startswith(prefix)]

    def limits_of(self, config: dict[str, Any], constraint: str) -> None:
        """A helper of its own on top of validate_constraint."""
        self.validate_constraint(config, [constraint], writer=sys.stderr, quiet=True)

    vars(limits_of)["disabled"] = True


def clilib_config(parsed_args: Namespace) -> dict[str, Any]:
    """The configuration of a line that is being completed."""
    return util.load_config(parsed_args.config)
