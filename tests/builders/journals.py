"""Passes as a journal has them, of any size, without a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpc.autoscale.journal import PassRecord

START = 1_767_225_600.0


def a_node_record(name: str, ready: bool = True, **more: Any) -> dict[str, Any]:
    """The record of a node that runs, or boots."""
    return {
        "Name": name,
        "NodeId": f"id of {name}",
        "Template": "htc",
        "MachineType": "Standard_F4s_v2",
        "Region": "westus2",
        "Status": "Ready" if ready else "Preparing",
        "State": "Started" if ready else "Starting",
        "TargetState": "Started",
        **more,
    }


def a_waiting_job(name: str, reason: str = "no node has room", **more: Any) -> dict[str, Any]:
    """A job that lacks something, as a summary has it."""
    return {"job": name, "missing": 1, "unit": "slots", "reason": reason, "limit": None, **more}


def a_status(used: int = 4, most: int = 40) -> dict[str, Any]:
    """A status with one bucket, of whose regional quota so many cores are used."""
    bucket = {
        "definition": {"machineType": "Standard_F4s_v2"},
        "activeCount": used // 4,
        "maxCount": 10,
        "regionalConsumedCoreCount": used,
        "regionalQuotaCoreCount": most,
        "familyConsumedCoreCount": used,
        "familyQuotaCoreCount": 10_000_000,
    }
    array = {"name": "htc", "nodearray": {"Region": "westus2"}, "buckets": [bucket]}
    return {"state": "Started", "nodearrays": [array]}


def a_pass_record(
    number: int,
    nodes: Sequence[Mapping[str, Any]] = (),
    waiting: Sequence[Mapping[str, Any]] = (),
    created: int = 0,
    **did: Any,
) -> PassRecord:
    """The pass of that number, ten minutes after the one before."""
    decided = [{"action": "create", "bucket": "htc/Standard_F4s_v2", "count": created, "nodes": []}]
    return PassRecord(
        at=START + 600 * number,
        config={"cluster_name": "demo"},
        status=a_status(),
        nodes=list(nodes),
        decided=decided if created else [],
        did={"jobs": len(waiting), "unsatisfied": list(waiting), "errors": [], **did},
        number=number,
    )


def a_long_story(passes: int, nodes: int, jobs: int) -> list[PassRecord]:
    """Many nodes that come and go, and many jobs that wait for several reasons."""
    every = [a_node_record(f"htc-{n}", Template=f"array{n % 12}") for n in range(nodes)]
    reasons = [f"quota {n} of westus2 is used up" for n in range(30)]
    waiting = [a_waiting_job(f"job-{n}", reasons[n % 30]) for n in range(jobs)]
    records = []
    for number in range(passes):
        first = number * nodes // (2 * passes)
        part = every[first : first + nodes // 2 + 1]
        records.append(a_pass_record(number, part, waiting if number % 2 else [], created=number))
    records[-1] = a_pass_record(passes - 1, every, waiting)
    return records
