"""How a `NodeManager` is made from a configuration: connect, look, build, define default
resources."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from hpc.autoscale import ccbindings, hpclogging
from hpc.autoscale import config as configuration
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import ClusterStatus, NodeList
from hpc.autoscale.config.naming import unknown_nodearrays
from hpc.autoscale.node import operations, vm_sizes
from hpc.autoscale.node.default_resources import definitions_from_config
from hpc.autoscale.node.nodemanager.building import Built, build
from hpc.autoscale.node.nodemanager.manager import NodeManager
from hpc.autoscale.node.nodemanager.policies import configured_policy
from hpc.autoscale.node.requests import RequestLog


def new_node_manager(
    config: dict[str, Any],
    existing_nodes: object = None,
    disable_default_resources: bool = True,
) -> NodeManager:
    """The nodes of the cluster that `config` names, as they are now.

    System default resources are defined unless the configuration's `disable_default_resources` says
    otherwise; passing False defines them whatever it says. `existing_nodes` is accepted and not
    used: see `add_unmanaged_nodes`. CycleCloudError when the cluster cannot be read, or when what
    it says contradicts itself; ConfigurationException, before anything is read, when the `packing`
    section cannot be understood.
    """
    if hpclogging.is_configured(config):
        hpclogging.initialize_logging(config)
    if config.get("packing"):
        # a whole configuration is checked where it is read from a file; a mistake here would cost
        # money unnoticed
        configuration.check_config({"packing": config["packing"]})
    definitions = definitions_from_config(config.get("default_resources") or [])
    policy = configured_policy(config)
    vm_sizes.configure(config)
    binding = ccbindings.new_cluster_bindings(config)
    requests = RequestLog(config.get("requests_file"))
    operations.settle_lost_creates(binding, requests)
    built = read_cluster(config, binding)
    existing_first = (config.get("packing") or {}).get("order", "existing-first") != "declared"
    manager = NodeManager(binding, built.buckets, existing_first, built.problems, policy)
    provisioner, inventory = manager._provisioner, manager._inventory
    provisioner.requests = requests
    provisioner.assume_hostnames = bool(config.get("assume_standalone_hostnames"))
    inventory.names.reserve(built.names)
    inventory.leaving = built.leaving
    manager.doubts = unknown_nodearrays(config, built.nodearrays)
    for doubt in manager.doubts:
        _warn_once(doubt)
    if not disable_default_resources or not config.get("disable_default_resources", False):
        manager.set_system_default_resources()
    manager._define(definitions)
    return manager


@functools.cache
def _warn_once(doubt: str) -> None:
    """Log it, the first time in this process: a loop makes a manager for every pass."""
    hpclogging.warning("%s", doubt)


def read_cluster(config: Mapping[str, Any], binding: ClusterBindingInterface) -> Built:
    """Status and nodes of the cluster, held against each other before anything is made of them.

    The status is asked for without its nodes, which would be most of them once more.
    """
    # a binding written for another client answers in that client's objects
    status = ClusterStatus.adopt(binding.get_cluster_status(nodes=False))
    listing = NodeList.adopt(binding.get_nodes())
    _check(binding, status, listing)
    return build(config, status, listing.nodes or [])


def look_again(binding: ClusterBindingInterface) -> Sequence[Mapping[str, Any]]:
    """The nodes in use as the status lists them now: to be read before nodes are deleted.

    This is another reply than the listing that a manager is made of. CycleCloudError when it cannot
    be read, or when it contradicts itself.
    """
    status = ClusterStatus.adopt(binding.get_cluster_status(nodes=True))
    _check(binding, status)
    return status.nodes or []


def _check(binding: ClusterBindingInterface, *replies: Any) -> None:
    check = getattr(binding, "check_listing", None)
    if check is not None:
        check(*replies)
