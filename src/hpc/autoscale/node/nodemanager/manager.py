"""The published `NodeManager`: the nodes of a cluster, existing and possible, and what can be done
with them; and how one is made from a configuration: connect, look, build, define default resources.

What there is is kept by its `Inventory`, work is placed by its `Placer`, and the cluster is asked
to change by its `Provisioner`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpc.autoscale import ccbindings
from hpc.autoscale import config as configuration
from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.backoff.listed import Listed
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import ClusterStatus, NodeList
from hpc.autoscale.config.naming import (
    check_placement_groups,
    checked_placement_group,
    unknown_nodearrays,
)
from hpc.autoscale.config.timeouts import parse_boot_timeout
from hpc.autoscale.errors import AutoscaleError, check_kinds
from hpc.autoscale.node import operations, vm_sizes
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import compile_constraints, get_constraints
from hpc.autoscale.node.default_resources import (
    SYSTEM_DEFAULTS,
    DefaultResource,
    definition_from,
    definitions_from_config,
)
from hpc.autoscale.node.guards import Gate
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager.building import Built, Unusable
from hpc.autoscale.node.nodemanager.inventory import Inventory, NameHook, artificial_bucket
from hpc.autoscale.node.nodemanager.placing import Ask, Placer
from hpc.autoscale.node.nodemanager.policies import DEFAULT, configured_policy
from hpc.autoscale.node.nodemanager.provisioner import Provisioner
from hpc.autoscale.node.requests import COPIED_REQUESTS, RequestLog
from hpc.autoscale.onpremises.hosts import SECTION
from hpc.autoscale.packing.expr import UNBOUNDED
from hpc.autoscale.packing.order import OrderPolicy
from hpc.autoscale.packing.plan import Request
from hpc.autoscale.regions import Weights, configured_weights, share_out
from hpc.autoscale.requestsets.dynamic import DynamicArrays, listed_in
from hpc.autoscale.results import (
    AllocationResult,
    BootupResult,
    DeallocateResult,
    DeleteResult,
    ReimageResult,
    RemoveResult,
    RestartResult,
    ShutdownResult,
    StartResult,
    TerminateResult,
)
from hpc.autoscale.util import uuid

if TYPE_CHECKING:
    from hpc.autoscale.backoff.holds import Holds


class NodeManager:
    """Buckets and their nodes.

    `problems` says, a sentence each, what of the cluster could not be used when it was read, and
    `doubts` what of the configuration fits nothing there. `existing_first`: nodes with room are
    used before new ones are opened, across all buckets; otherwise bucket by bucket. `policy`: in
    which order buckets are asked; see `set_order_policy`.
    """

    def __init__(
        self,
        cluster_bindings: ClusterBindingInterface,
        node_buckets: Sequence[NodeBucket],
        existing_first: bool = True,
        problems: Sequence[str] = (),
        policy: str | OrderPolicy = DEFAULT,
    ) -> None:
        self.problems = list(problems)
        self.doubts: list[str] = []
        self._unusable: list[Unusable] = []
        self._listed: Listed | None = None
        self._inventory = Inventory()
        self._placer = Placer(self._inventory, existing_first, policy)
        self._provisioner = Provisioner(cluster_bindings, self._inventory)
        self._placer.where = functools.partial(operations.where, cluster_bindings)
        self._inventory.add(node_buckets)

    @property
    def cluster_bindings(self) -> ClusterBindingInterface:
        """The cluster that is asked."""
        return self._provisioner.cluster_bindings

    @property
    def requests(self) -> RequestLog:
        """The creates and removals whose outcome is not known."""
        return self._provisioner.requests

    @property
    def gate(self) -> Gate:
        """What every command is asked for before it is sent; `gate.facts` says for whom."""
        return self._provisioner.gate

    @property
    def holds(self) -> Holds | None:
        """What is held back because it has failed, and what is learnt about that; None where that
        is not asked for."""
        return self._provisioner.holds

    # -- buckets, and cores in all by cluster and by region

    def get_buckets(self) -> list[NodeBucket]:
        """The valid buckets, in order."""
        return [bucket for bucket in self._inventory.buckets if bucket.valid]

    @property
    def cluster_max_core_count(self) -> int:
        """Most cores the cluster can have; AssertionError when there is no bucket to tell."""
        return self._any_bucket().limits.cluster_max_core_count

    @property
    def cluster_consumed_core_count(self) -> int:
        """Cores the cluster uses; AssertionError when there is no bucket to tell."""
        return self._any_bucket().limits.cluster_consumed_core_count

    def _any_bucket(self) -> NodeBucket:
        for bucket in self._inventory.buckets:
            if not bucket._artificial:
                return bucket
        raise AssertionError("expected at least one bucket in the cluster, found none")

    def get_locations(self) -> list[ht.Location]:
        """Regions of all buckets, each once, in order."""
        return list(dict.fromkeys(bucket.location for bucket in self.get_buckets()))

    def get_regional_max_core_count(self, location: ht.Location) -> int:
        """Regional quota in cores; RuntimeError when no bucket is there."""
        return self._bucket_in(location).limits.regional_quota_core_count

    def get_regional_consumed_core_count(self, location: ht.Location) -> int:
        """Cores in use in a region; RuntimeError when no bucket is there."""
        return self._bucket_in(location).limits.regional_consumed_core_count

    def _bucket_in(self, location: ht.Location) -> NodeBucket:
        inside = [bucket for bucket in self.get_buckets() if bucket.location == location]
        if not inside:
            raise AutoscaleError(
                f"expected a region with buckets ({', '.join(self.get_locations())}), found"
                f" {location!r}"
            )
        return next((bucket for bucket in inside if not bucket.spot), inside[0])

    def get_invalid_buckets(self) -> list[NodeBucket]:
        """Buckets that only describe existing nodes: nothing new can be placed there."""
        return [bucket for bucket in self._inventory.buckets if not bucket.valid]

    def get_unusable(self) -> list[Unusable]:
        """Buckets that the cluster has and of which no node can be had, with the reason; new nodes
        in them have the default resources."""
        for bucket, _ in self._unusable:
            self._inventory.defaults.apply(bucket.example_node)
        return list(self._unusable)

    def get_buckets_by_id(self) -> dict[ht.BucketId, NodeBucket]:
        """Buckets by id. RuntimeError when ids repeat, as with placement groups."""
        found: dict[ht.BucketId, NodeBucket] = {}
        for bucket in self.get_buckets():
            other = found.setdefault(bucket.bucket_id, bucket)
            if other is not bucket:
                shared = f"bucket id {bucket.bucket_id} stands for"
                raise AutoscaleError(f"{shared} {other} and for {bucket}")
        return found

    def get_nodes(self) -> list[Node]:
        """All nodes, planned and failed ones included, in bucket order."""
        return self._inventory.nodes()

    def get_status_messages(self, nodes: Iterable[Node]) -> dict[str, str]:
        """What the server says of nodes beside their state, by NodeId, each on one line; those of
        which it says nothing are left out."""
        from hpc.autoscale.backoff.causes import plain

        known = {node.delayed_node_id.node_id for node in operations.each_once(nodes)}
        ids = {str(node_id) for node_id in known if node_id}
        records = self._listed.find(ids) if self._listed is not None and ids else {}
        said = {each: plain(record.get("StatusMessage")) for each, record in records.items()}
        return {node_id: message for node_id, message in said.items() if message}

    def get_failed_nodes(self) -> list[Node]:
        """Nodes whose state is Failed; a list of the caller's own."""
        return [node for node in self.get_nodes() if node.state == "Failed"]

    @property
    def _is_as_declared(self) -> bool:
        """Whether work goes bucket by bucket."""
        return not self._placer.planner.existing_first

    def get_non_failed_nodes(self) -> list[Node]:
        """All other nodes."""
        return [node for node in self.get_nodes() if node.state != "Failed"]

    @property
    def new_nodes(self) -> list[Node]:
        """Nodes that are planned and not created yet, and deallocated ones with work."""
        return self._inventory.new_nodes()

    def get_new_nodes(self) -> list[Node]:
        """`new_nodes`."""
        return self.new_nodes

    def _add_bucket(self, bucket: NodeBucket) -> None:
        self._inventory.add([bucket])

    # -- placing

    def allocate(
        self,
        constraints: Any,
        node_count: int | None = None,
        slot_count: int | None = None,
        allow_existing: bool = True,
        all_or_nothing: bool = False,
        assignment_id: str | None = None,
        node_namer: object = None,
    ) -> AllocationResult[Node]:
        """Place `slot_count` slots, or `node_count` nodes with one iteration each (slots win when
        both are given).

        `constraints`: JSON, a constraint, or a list of either. `allow_existing` false: only nodes
        that do not exist yet. `all_or_nothing`: in one bucket, or not at all; otherwise part of it
        is a success too. `assignment_id` is noted on every node used (made up when None).
        `node_namer` is accepted and not used; see `set_node_name_hook`. A failure changes nothing.
        """
        check_kinds("allocate", int | None, node_count=node_count, slot_count=slot_count)
        given = constraints if isinstance(constraints, (list, tuple)) else [constraints or {}]
        parsed = get_constraints(given)
        if not allow_existing:
            parsed = [*get_constraints([{"node.exists": False}]), *parsed]
        units = slot_count if slot_count and slot_count > 0 else node_count
        if not units or units < 0:
            reasons = ["Either node_count or slot_count must be above 0"]
            return AllocationResult("NothingRequested", reasons=reasons, where=self._placer.where())
        per_node = UNBOUNDED if slot_count and slot_count > 0 else 1
        request = Request(units, per_node, all_or_nothing)
        compiled = compile_constraints(parsed)
        ask = Ask(compiled, request, assignment_id or uuid("assignment"))
        return self._placer.place(ask)

    @property
    def order_policy(self) -> str | OrderPolicy:
        """The policy by which buckets are asked, as it was given: a name, or a policy."""
        return self._placer.order_policy

    def set_order_policy(self, policy: str | OrderPolicy) -> None:
        """Ask buckets in this order from now on; what is placed stays. A name of `packing.policy`,
        or any function of an `Offering`. ConfigurationException for a name that nobody knows,
        PolicyError for what is no policy."""
        self._placer.set_order_policy(policy)

    def allocate_at_least(self, *args: Any, **kwargs: Any) -> AllocationResult[Node]:
        """Published, and never implemented upstream either."""
        raise NotImplementedError("allocate_at_least; use allocate")

    def set_node_name_hook(self, hook: NameHook) -> None:
        """Name new nodes by `hook(bucket, index)`, asked with index 1 and then increasing ones
        until the name is free."""
        self._inventory.names.set_hook(hook)

    # -- default resources

    def add_default_resource(
        self,
        selection: Mapping[str, Any] | Sequence[Any],
        resource_name: str,
        default_value: ht.ResourceTypeAtom | Callable[[Node], Any] | str,
        modifier: str | None = None,
        modifier_magnitude: Any = None,
        allow_none: bool = True,
    ) -> None:
        """Give nodes and buckets a resource that they do not have yet; see `default_resources`."""
        arithmetic = modifier, modifier_magnitude
        made = definition_from(selection, resource_name, default_value, *arithmetic, allow_none)
        self._define([made])

    def set_system_default_resources(self) -> None:
        """Define ncpus, pcpus, ngpus, memb … memtb, nodearray and ccnodeid."""
        self._define(DefaultResource((), name, value) for name, value in SYSTEM_DEFAULTS.items())

    def _define(self, definitions: Iterable[DefaultResource]) -> None:
        try:
            self._inventory.define(definitions)
        finally:
            self._placer.forget_defaults()

    def example_node(self, location: ht.Location, vm_size: ht.VMSize) -> Node:
        """What a node of a size would look like, whether there is a bucket for it or not."""
        node = artificial_bucket("__example__", vm_size, location)._new_node("__example__", "")
        self._inventory.defaults.apply(node)
        return node

    # -- machines that CycleCloud does not know, and placement groups

    def add_unmanaged_nodes(self, existing_nodes: Sequence[Node]) -> None:
        """Take in machines that cannot be ordered; those whose host name is taken in already are
        ignored. Those that were given one bucket id share a bucket, and so do those that are
        alike where none was given."""
        self._inventory.add_unmanaged(operations.each_once(existing_nodes, "add_unmanaged_nodes"))

    def add_placement_group(self, pg_name: str, bucket: NodeBucket) -> None:
        """Add a placement group to a bucket; one that its nodearray and VM size have already is
        left alone. RuntimeError for a name that is none."""
        check_kinds("add_placement_group", NodeBucket, bucket=bucket)
        group = checked_placement_group(pg_name, str(bucket))
        if self._inventory.has(bucket.nodearray, bucket.vm_size, group):
            logging.warning("placement group %s of %s exists already", pg_name, bucket)
            return
        self._inventory.take_on(bucket.clone_with_placement_group(group))

    def get_placement_groups(self, bucket: NodeBucket) -> list[ht.PlacementGroup]:
        """Placement groups of the bucket's nodearray, one entry for each VM size that has one."""
        check_kinds("get_placement_groups", NodeBucket, bucket=bucket)
        return [
            b.placement_group
            for b in self._inventory.buckets
            if b.nodearray == bucket.nodearray and b.placement_group
        ]

    # -- commands to the cluster

    def bootup(
        self,
        nodes: Sequence[Node] | None = None,
        request_id_start: str | None = None,
        request_id_create: str | None = None,
    ) -> BootupResult[Node]:
        """Start deallocated nodes and create planned ones (`new_nodes` when none are given).

        Nodes that exist already are left alone, so calling it twice creates nothing twice. What the
        server does not make is dropped from the plan, and the reasons say why. The nodes of the
        result are those that now exist.
        """
        return self._provisioner.bootup(nodes, request_id_start, request_id_create)

    def start_nodes(
        self, nodes: Sequence[Node], request_id: str | None = None
    ) -> StartResult[Node]:
        """Start deallocated nodes."""
        return self._provisioner.command("start_nodes", StartResult, nodes, request_id)

    def delete(self, nodes: Sequence[Node]) -> DeleteResult[Node]:
        """Shut nodes down for good."""
        return self._provisioner.command("delete_nodes", DeleteResult, nodes)

    def shutdown_nodes(self, nodes: Sequence[Node]) -> ShutdownResult[Node]:
        """Terminate or deallocate, as each node's shutdown policy says."""
        return self._provisioner.command("shutdown_nodes", ShutdownResult, nodes)

    def terminate_nodes(self, nodes: Sequence[Node]) -> TerminateResult[Node]:
        """Delete the VMs."""
        return self._provisioner.command("terminate_nodes", TerminateResult, nodes)

    def deallocate_nodes(self, nodes: Sequence[Node]) -> DeallocateResult[Node]:
        """Stop the VMs and keep the nodes."""
        return self._provisioner.command("deallocate_nodes", DeallocateResult, nodes)

    def remove_nodes(self, nodes: Sequence[Node]) -> RemoveResult[Node]:
        """Shut nodes down for good; published under this name too."""
        return self._provisioner.command("shutdown_nodes", RemoveResult, nodes)

    def reimage_nodes(self, nodes: Sequence[Node]) -> ReimageResult[Node]:
        """Give nodes a fresh image."""
        return self._provisioner.command("reimage_nodes", ReimageResult, nodes)

    def restart_nodes(self, nodes: Sequence[Node]) -> RestartResult[Node]:
        """Reboot nodes."""
        return self._provisioner.command("restart_nodes", RestartResult, nodes)

    def get_nodes_by_request_id(self, request_id: str) -> list[Node]:
        """The nodes that a request has touched, as they are now.

        OperationNotFound when there was no such request.
        """
        return self._provisioner.nodes_by_request_id(request_id)

    def get_nodes_by_operation(self, operation_id: str) -> list[Node]:
        """The nodes that an operation has touched, as they are now; unlisted ones are gone."""
        return self._provisioner.nodes_by_operation(operation_id)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for debugging."""
        return {
            "buckets": [
                {
                    "nodearray": bucket.nodearray,
                    "vm_size": bucket.vm_size,
                    "placement_group": bucket.placement_group,
                    "available_count": bucket.available_count,
                    "resources": dict(bucket.resources),
                    "nodes": [node.to_dict() for node in bucket.nodes],
                }
                for bucket in self._inventory.buckets
            ],
            "problems": list(self.problems),
        }

    def __str__(self) -> str:
        return f"NodeManager({self.cluster_bindings}, {len(self._inventory.buckets)} buckets)"

    __repr__ = __str__


def placer_of(manager: NodeManager) -> Placer:
    """The part of a manager that places demands, for strategies that place whole queues."""
    return manager._placer


def _packing(config: dict[str, Any]) -> tuple[str, Weights | None]:
    """The order policy and the weights of regions in a configuration."""
    if not config.get("packing"):
        return DEFAULT, None
    # a whole configuration is checked where it is read from a file; a mistake here would cost money
    # unnoticed
    configuration.check_config({"packing": config["packing"]})
    return configured_policy(config), configured_weights(config)


def new_node_manager(
    config: str | dict[str, Any],
    existing_nodes: object = None,
    disable_default_resources: bool = True,
) -> NodeManager:
    """The nodes of the cluster that `config` names (a dict, or the path of a file), as they are
    now.

    System default resources are defined unless the configuration's `disable_default_resources` says
    otherwise; passing False defines them whatever it says. `existing_nodes` is accepted and not
    used: see `add_unmanaged_nodes`. CycleCloudError when the cluster cannot be read, or when what
    it says contradicts itself; ConfigurationException, before anything is read, when the `packing`
    section or what is said of nodearrays cannot be understood.
    """
    if not isinstance(config, dict):
        config = configuration.loaded(config)
    if logging.is_configured(config):
        logging.initialize_logging(config)
    policy, weights = _packing(config)
    check_placement_groups(config)
    entries = config.get("default_resources")
    definitions = definitions_from_config(entries) if entries else []
    vm_sizes.configure(config)
    binding = ccbindings.new_cluster_bindings(config)
    kept_in = config.get(COPIED_REQUESTS if config.get("read_only") else "requests_file")
    requests = RequestLog(kept_in) if kept_in else None
    if requests is not None:
        operations.settle_lost_creates(binding, requests)
    dynamic, built = read_cluster(config, binding, requests)
    holds = _holds_of(config, built)
    unread: Sequence[str] = getattr(binding, "never_read", ())
    unweighted = share_out(weights, built.buckets, not unread, built.regions) if weights else ()
    existing_first = (config.get("packing") or {}).get("order", "existing-first") != "declared"
    seen = dynamic.seen_through(binding)
    manager = NodeManager(seen, built.buckets, existing_first, built.problems, policy)
    provisioner, inventory = manager._provisioner, manager._inventory
    if requests is not None:
        provisioner.requests = requests
    provisioner.assume_hostnames = bool(config.get("assume_standalone_hostnames"))
    inventory.names.reserve(built.names)
    inventory.names.prefixes = dynamic.prefixes
    inventory.leaving = built.leaving
    provisioner.holds = holds
    if holds is not None and holds.closes_nodes:
        for node in inventory.nodes():
            node.closed = node.closed or holds.is_closed(str(node.delayed_node_id.node_id))
    _take_in_hosts(config, manager)
    provisioner.cluster_target = built.target_state
    manager._unusable, manager._listed = built.unusable, built.listed
    manager.doubts = [*unknown_nodearrays(config, built.nodearrays, unread), *unweighted]
    for doubt in manager.doubts:
        _warn_once(doubt)
    if not disable_default_resources or not config.get("disable_default_resources", False):
        manager.set_system_default_resources()
    manager._define(definitions)
    # so that the first demand finds the engine ready
    manager._placer.sync()
    return manager


def _holds_of(config: Mapping[str, Any], built: Built) -> Holds | None:
    """What rests after it has failed, where the configuration says where that is kept."""
    if not config.get("backoffdb"):
        return None
    from hpc.autoscale.backoff.settings import new_holds

    holds = new_holds(config)
    if holds is not None:
        holds.look(built.listed, built.buckets)
        built.problems.extend(holds.problems)
    return holds


def _take_in_hosts(config: Mapping[str, Any], manager: NodeManager) -> None:
    """Let the manager have the hosts on premises that the configuration names."""
    if not config.get(SECTION):
        return
    # with what runs their commands, which few have a use for
    from hpc.autoscale.onpremises.listing import nodes_of

    configuration.check_config({SECTION: config[SECTION]})
    inventory = manager._inventory
    names = (name for node in inventory.nodes() for name in (node.name, node.hostname))
    hosts, problems = nodes_of(config, {short_name(name) for name in names if name})
    for problem in problems:
        logging.warning("%s", problem)
    manager.problems.extend(problems)
    inventory.take_in(hosts)


@functools.cache
def _warn_once(doubt: str) -> None:
    """Log it, the first time in this process: a loop makes a manager for every pass."""
    logging.warning("%s", doubt)


def read_cluster(
    config: Mapping[str, Any], binding: ClusterBindingInterface, requests: RequestLog | None = None
) -> tuple[DynamicArrays, Built]:
    """Status and nodes of the cluster, held against each other, and against what `requests` have
    made, before anything is made of them; with the dynamic arrays that are listed or have nodes.

    The status is asked for without its nodes, which would be most of them once more.
    """
    arrays, unread = listed_in(config)
    made = [] if requests is None else requests.made
    # a binding written for another client answers in that client's objects
    status = ClusterStatus.adopt(binding.get_cluster_status(nodes=False))
    listing = NodeList.adopt(binding.get_nodes())
    _check(binding, status, listing)
    if requests is not None:
        within = parse_boot_timeout(config)
        operations.check_made(binding, requests, made, listing.nodes or [], within)
    as_read = getattr(binding, "as_read", None)
    if as_read is not None:  # one of several clusters may be set aside by now
        status, listing = as_read()
    dynamic = DynamicArrays(arrays, (str(array.name) for array in status.nodearrays or ()))
    built = Built(config, status, listing.nodes or [], dynamic)
    built.problems[:0] = unread
    return dynamic, built


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
