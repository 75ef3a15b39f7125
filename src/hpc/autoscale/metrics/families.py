"""The figures of the last pass, and of all passes, as families for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.modelbase import is_disabled
from hpc.autoscale.config.clusters import names_of
from hpc.autoscale.journal.records import PassRecord
from hpc.autoscale.metrics.exposition import Metric
from hpc.autoscale.metrics.health import COUNTED, Health, problems_of
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.requestsets.dynamic import array_in

PREFIX = "hpc_autoscale_"
_NODES = ("booting", "overdue", "missing", "idle", "failed", "spared", "deferred")


def of_record(record: PassRecord, health: Health | None = None) -> list[Metric]:
    """The figures of a pass of a journal; with `health` also of all passes."""
    found = of_pass(record.at, record.nodes, len(record.jobs), record.did, record.status)
    found += of_health(health) if health is not None else ()
    return of_clusters(names_of(record.config), found)


def of_clusters(names: str, families: Iterable[Metric]) -> list[Metric]:
    """The figures of a loop with the cluster that it is for: the files of two loops in one
    directory of node_exporter say different things."""
    own = {"cluster": names} if names else {}
    return [
        replace(family, samples=[({**own, **labels}, value) for labels, value in family.samples])
        for family in families
    ]


def of_pass(
    at: float,
    nodes: Iterable[Mapping[str, Any]],
    jobs: int,
    did: Mapping[str, Any],
    status: Mapping[str, Any],
) -> list[Metric]:
    """The figures of a pass. `nodes`: records, as the server has them; `did` and `status` as in a
    journal, with the jobs that wait."""
    problems = problems_of(did)
    return [
        _gauge("last_pass_timestamp_seconds", "When the last pass began.", at),
        _gauge("last_pass_duration_seconds", "How long it took.", did.get("duration")),
        _of_steps(did.get("steps") or {}),
        _gauge("last_pass_ok", "Whether nothing went wrong in it.", float(not problems)),
        _gauge("last_pass_errors", "What went wrong in it.", len(problems)),
        # what a pass that was ended has read, and whether it has, nobody knows: that is not zero
        *_of_look(nodes, jobs, did, status, has_looked=not did.get("ended_by")),
    ]


def _of_steps(seconds: Mapping[str, float]) -> Metric:
    family = Metric(f"{PREFIX}last_pass_step_seconds", "How long each step of it took.")
    for name, took in seconds.items():
        family.add(took, step=name)
    return family


def _of_look(
    nodes: Iterable[Mapping[str, Any]],
    jobs: int,
    did: Mapping[str, Any],
    status: Mapping[str, Any],
    has_looked: bool,
) -> list[Metric]:
    """What a pass has found; families without samples where it could not look."""
    handled = Metric(f"{PREFIX}nodes_in_pass", "Nodes by what the last pass found them to be.")
    for name in _NODES:
        handled.add(len(did.get(name) or ()), what=name)
    refused = Metric(f"{PREFIX}refused_commands", "Commands that a guard stood against, by reason.")
    for code, count in sorted(Counter(r["code"] for r in did.get("refused") or ()).items()):
        refused.add(count, code=code)
    waiting, aside = len(did.get("unsatisfied") or ()), len(did.get("set_aside") or ())
    found = [
        _gauge("jobs", "Jobs that the scheduler has.", jobs),
        _gauge("jobs_unsatisfied", "Jobs that did not get all nodes.", waiting),
        _gauge("jobs_set_aside", "Jobs that cannot be understood.", aside),
        handled,
        refused,
        *_of_nodes(nodes),
        *_of_limits(status),
    ]
    return found if has_looked else [replace(family, samples=[]) for family in found]


def of_health(health: Health) -> list[Metric]:
    """What all passes have come to."""
    passes = Metric(f"{PREFIX}passes_total", "Passes, by how they ended.", "counter")
    passes.add(health.passes - health.failed - health.with_errors, result="ok")
    passes.add(health.with_errors, result="errors")
    passes.add(health.failed, result="failed")
    done = Metric(f"{PREFIX}nodes_total", "How often something was done to a node.", "counter")
    for name in COUNTED:
        done.add(health.nodes.get(name, 0), what=name)
    good = Metric(f"{PREFIX}last_good_pass_timestamp_seconds", "When the last good pass began.")
    if health.last_good_pass is not None:
        good.add(health.last_good_pass)
    return [passes, done, good]


def _gauge(name: str, meaning: str, value: float | None) -> Metric:
    """A figure; without a sample where it is not known."""
    family = Metric(PREFIX + name, meaning)
    if value is not None:
        family.add(value)
    return family


def _of_nodes(nodes: Iterable[Mapping[str, Any]]) -> list[Metric]:
    counts: Counter[tuple[str, str, str]] = Counter()
    running: Counter[tuple[str, str, bool]] = Counter()
    for record in nodes:
        array, size = array_in(record), str(record.get("MachineType"))
        counts[array, size, str(record.get("Status"))] += 1
        if record.get("TargetState") == "Started":
            running[str(record.get("Region")), size, bool(record.get("Interruptible"))] += 1
    family = Metric(f"{PREFIX}nodes", "Nodes by nodearray, VM size and state.")
    for (array, size, state), count in sorted(counts.items()):
        family.add(count, nodearray=array, vm_size=size, state=state)
    total, unpriced = 0.0, 0
    for (region, size, spot), count in running.items():
        price = price_per_hour(ht.Location(region), ht.VMSize(size), spot)
        total, unpriced = total + count * (price or 0.0), unpriced + (count if price is None else 0)
    return [
        family,
        _gauge("price_dollars_per_hour", "What the nodes that run cost.", round(total, 6)),
        _gauge("nodes_unpriced", "Nodes that run, and whose price is not known.", unpriced),
    ]


def _of_limits(status: Mapping[str, Any]) -> list[Metric]:
    arrays = [
        array
        for part in (status, *(status.get("parts") or {}).values())
        for array in part.get("nodearrays") or ()
    ]
    room = Metric(f"{PREFIX}bucket_available_nodes", "Nodes that may still be created.")
    used = Metric(f"{PREFIX}bucket_active_nodes", "Nodes that count against the limits.")
    # one sample for each set of labels: Prometheus refuses the whole text otherwise
    free: dict[tuple[str, str], list[object]] = {}
    active: dict[tuple[str, str], list[object]] = {}
    for array in arrays:
        is_off = is_disabled(array.get("nodearray"))
        for bucket in array.get("buckets") or ():
            size = str((bucket.get("definition") or {}).get("machineType"))
            key = str(array.get("name")), size
            active.setdefault(key, []).append(bucket.get("activeCount"))
            if not is_off and bucket.get("valid") is not False:
                free.setdefault(key, []).append(bucket.get("availableCount"))
    for family, counts in ((room, free), (used, active)):
        for (name, size), known in counts.items():
            _add_sum(family, known, nodearray=name, vm_size=size)
    return [room, used]


def _add_sum(family: Metric, counts: Iterable[object], **labels: str) -> None:
    """The sum of counts as a sample; none where one of them is not known."""
    known = list(counts)
    numbers = [count for count in known if isinstance(count, int)]
    if len(numbers) == len(known):
        family.add(sum(numbers), **labels)
