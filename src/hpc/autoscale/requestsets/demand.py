"""From the request sets that stand to jobs, which the engine places like those of a scheduler.

Each nodearray of each set is one job that takes nodes whole. So nodes that exist are taken first,
limits and reasons are those of every job, and what several sets want adds up in nodes after each
was rounded up. Nodes that a scheduler's work is on are not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.requestsets.definitions import ArrayRequest, read_arrays
from hpc.autoscale.requestsets.store import RequestSet, RequestStore, store_path

# Resources that nodes have only while request sets are served, by which targets are counted:
# a scheduler may have made something else of ncpus.
_CORES = "request_set_cores"
_NODES = "request_set_nodes"


class RequestJob(Job):
    """The nodes that one request set wants of one nodearray, as many as there are to be had."""

    def __init__(self, request_set: str, request: ArrayRequest) -> None:
        resource = _CORES if request.cores else _NODES
        constraints: list[dict[str, Any]] = [
            {"node.nodearray": request.name},
            {"exclusive": True},
            {resource: 1},
        ]
        sizes = [{"node.vm_size": size} for size in request.machine_types]
        if sizes:
            constraints.append({"or": sizes} if len(sizes) > 1 else sizes[0])
        super().__init__(
            f"request:{request_set}/{request.name}",
            constraints,
            iterations=request.cores or request.nodes,
        )
        self.node_attributes = request.attributes


def jobs_of(sets: Iterable[RequestSet], now: float) -> list[RequestJob]:
    """A job for each nodearray of which a set that stands wants nodes."""
    return [
        RequestJob(one.name, request)
        for one in sets
        if one.stands(now)
        for request in read_arrays(one.arrays)
        if request.nodes or request.cores
    ]


def standing_jobs(config: Mapping[str, Any], home: str) -> list[RequestJob]:
    """The jobs of the request sets of a configuration, as of now."""
    return jobs_of(RequestStore(store_path(config, home)).sets(), clock.time())


def requested_jobs(config: Mapping[str, Any], home: str, node_mgr: NodeManager) -> list[RequestJob]:
    """`standing_jobs`, and nodes are given the resources that these count by."""
    jobs = standing_jobs(config, home)
    if jobs:
        node_mgr.add_default_resource({}, _CORES, "node.vcpu_count")
        node_mgr.add_default_resource({}, _NODES, 1)
    return jobs


def give_attributes(jobs: Iterable[Job], new_nodes: Iterable[Node]) -> None:
    """Let planned nodes have the attributes that the definitions ask for by which they came."""
    by_name = {
        job.name: job.node_attributes
        for job in jobs
        if isinstance(job, RequestJob) and job.node_attributes
    }
    if not by_name:
        return
    for node in new_nodes:
        for name in by_name.keys() & node.assignments:
            node.node_attribute_overrides.update(deepcopy(dict(by_name[name])))
