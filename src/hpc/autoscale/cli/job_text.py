"""What the commands jobs and analyze print: the jobs of a scheduler, and what becomes of one of
them, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpc.autoscale.autoscaler import SetAsideJob, UnsatisfiedJob
from hpc.autoscale.cli.painting import table_width, text_width
from hpc.autoscale.columns import row_order
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.node import Node
from hpc.autoscale.plaintext import on_one_line, wrapped
from hpc.autoscale.results import Result
from hpc.autoscale.tables import OutputFormat, print_rows
from hpc.autoscale.util import json_or_text

# of a status in front of its message
_STATUS_WIDTH = 24
_COLUMNS = ("name", "tasks", "nodes", "state", "hosts", "constraints")


class Reason(NamedTuple):
    """Why a job gets no nodes, or not all: the status of a result, and what it says, by lines."""

    status: str
    lines: Sequence[str]


class Analysis(NamedTuple):
    """What becomes of the job of a name: `jobs` are those that have it, none where it is only known
    as work of its nodes, and `nodes` those that the job has or gets."""

    name: str
    jobs: Sequence[Job]
    nodes: Sequence[Node]
    reasons: Sequence[Reason]

    @property
    def is_running(self) -> bool:
        """Whether the scheduler says that it runs, of the job or of its nodes."""
        return not self.jobs or self.jobs[0].metadata.get("job_state") == "running"


def print_jobs(jobs: Iterable[object], output_format: OutputFormat) -> None:
    """Print jobs on stdout: all that is known of them as JSON, or a row each. Of what a driver
    handed over that is no job there is only what a pass calls it."""
    known = [job.to_dict() if isinstance(job, Job) else {"name": repr(job)} for job in jobs]
    if output_format == "json":
        print(json.dumps(known, indent=2, default=json_or_text))
        return
    print_rows(_COLUMNS, map(_row, known), output_format=output_format, width=table_width())


def _row(job: Mapping[str, Any]) -> list[Any]:
    state = (job.get("metadata") or {}).get("job_state")
    wants = ", ".join(_wishes(job.get("constraints") or ()))
    hosts = job.get("executing-hostnames")
    return [job["name"], job.get("iterations"), job.get("node-count") or None, state, hosts, wants]


def _wishes(constraints: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Constraints as an option -C has them: `ncpus=4`."""
    for constraint in constraints:
        for name, value in constraint.items():
            yield f"{name}={value if isinstance(value, str) else json.dumps(value, default=str)}"


def reasons_of(
    name: str,
    refused: Iterable[Result],
    unsatisfied: Iterable[UnsatisfiedJob],
    set_aside: Iterable[SetAsideJob],
    long: bool,
) -> list[Reason]:
    """Why a job gets no nodes, or not all; what is said twice, as of two buckets, is told once. A
    result that only sums up other failures is one only with `long`."""
    found = []
    for result in refused:
        if not result and (result.status != "CompoundFailure" or long):
            # a reason may begin with the status that stands before it
            said = [
                on_one_line(r).removeprefix(f"{result.status}: ")
                for r in result.reasons or [result.message]
            ]
            found.append(Reason(result.status, "\n".join(dict.fromkeys(said)).splitlines()))
    for short in unsatisfied:
        if short.name == name and short.limit:
            limit = on_one_line(f"{short.lacking} short: {short.limit}")
            found.append(Reason("Limit", [limit]))
    found += [
        Reason("SetAside", [on_one_line(bad.reason)]) for bad in set_aside if bad.name == name
    ]
    return list({(each.status, *each.lines): each for each in found}.values())


def print_analysis(found: Analysis, output_format: OutputFormat, long: bool) -> None:
    """Print what becomes of a job on stdout; with `long` also the job itself, and lines as long as
    they are."""
    if output_format == "json":
        print(json.dumps(_as_data(found, long), indent=2, default=json_or_text))
        return
    if long:
        print_jobs(found.jobs, "json")
    if found.is_running:
        print(f"Job {on_one_line(found.name)} is running.")
    if found.nodes:
        print(f"Job {on_one_line(found.name)} is assigned to the following nodes:")
        for node in sorted(found.nodes, key=row_order):
            print(f"    {on_one_line(str(node))}")
    for reason in found.reasons:
        _print_reason(reason, long)


def _as_data(found: Analysis, long: bool) -> dict[str, Any]:
    return {
        "job": found.name,
        "is_running": found.is_running,
        "nodes": [
            {
                "name": node.name,
                "nodearray": node.nodearray,
                "vm_size": node.vm_size,
                "placement_group": node.placement_group,
                "state": str(node.state),
                "exists": node.exists,
            }
            for node in sorted(found.nodes, key=row_order)
        ],
        "reasons": [
            {"code": reason.status, "text": "; ".join(reason.lines)} for reason in found.reasons
        ],
        **({"jobs": [job.to_dict() for job in found.jobs]} if long else {}),
    }


def _print_reason(reason: Reason, long: bool) -> None:
    prefix = reason.status.ljust(_STATUS_WIDTH) + ":"
    lines = list(reason.lines) or [""]
    if not long:
        room = max(20, text_width() - len(prefix))
        lines = [part for line in lines for part in wrapped(line, room) or [""]]
    for line in lines:
        print(prefix + line)
        prefix = " " * len(prefix)
