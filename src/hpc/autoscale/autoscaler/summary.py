"""What one pass of the autoscaler did, as values: for logs, metrics, exit codes and people.

Nothing here acts or reads anything. A summary is made at the end of a pass (`passes`), printed by
reporters and the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hpc.autoscale.errors import counted
from hpc.autoscale.explaining.words import how_jobs_wait, with_next_try
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.guards import Refusal
from hpc.autoscale.plaintext import NAMED_AT_MOST, on_one_line, shorten
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict
from hpc.autoscale.util import partition

if TYPE_CHECKING:
    from hpc.autoscale.results.costs import PlanCost

Detail = Literal["waits", "note", "error"]
"""What a line beside the first is about: jobs, something odd, something that went wrong."""

GROUPS_TOLD = 8
"""Of how many groups of jobs that wait for the same it is said why; the others are counted."""

JOBS_FOR_ONE = 1_000
"""A pass works out why jobs wait for as many groups as it tells; for one for each so many jobs
where that is more, which is a small part of placing them. Jobs kept out by the same limits or by
the same pool are one group, which is worked out once."""

_NAMED_JOBS = 3


class Explanation:
    """What stopped jobs that are alike. `explain` gives all that is known, and the limits among it;
    `judge` the verdict on the first of them; `kind_of` what others have in common that wait for the
    same, or None. Each is given what this is `of`, when it is first read: a queue has thousands of
    these."""

    __slots__ = ("_explain", "_judge", "_kind", "_kind_of", "_of", "_said", "_verdict")

    def __init__(
        self,
        explain: Callable[[Any], tuple[str, str | None]],
        judge: Callable[[Any], Verdict] | None = None,
        of: Any = None,
        kind_of: Callable[[Any], Hashable | None] | None = None,
    ) -> None:
        self._explain = explain
        self._judge = judge
        self._kind_of = kind_of
        self._of = of
        self._said: tuple[str, str | None] | None = None
        self._verdict: Verdict | None = None
        self._kind: Hashable | None = None

    @property
    def kind(self) -> Hashable:
        """Equal for what stopped other jobs, too, where that is known without judging them."""
        if self._kind is None:
            found = None if self._kind_of is None else self._kind_of(self._of)
            self._kind = id(self) if found is None else found
        return self._kind

    @property
    def said(self) -> tuple[str, str | None]:
        """The reason, and the limits or None."""
        if self._said is None:
            self._said = self._explain(self._of)
        return self._said

    @property
    def verdict(self) -> Verdict | None:
        """What there is to say of the first of the jobs; None where nobody can judge."""
        if self._verdict is None and self._judge is not None:
            self._verdict = self._judge(self._of)
        return self._verdict


class UnsatisfiedJob:
    """A job that did not get all it wants: `missing` slots, or nodes where the job asks for nodes
    (`unit`).

    `reason` may be given as the cause that it shares with other jobs, which knows the limit then.
    `job`: the job itself, where it is known. Parts of a job are jobs of one name.
    """

    __slots__ = ("cause", "job", "missing", "name", "unit")

    def __init__(
        self,
        name: str,
        missing: int,
        reason: str | Explanation,
        limit: str | None = None,
        unit: str = "slots",
        job: Job | None = None,
    ) -> None:
        self.name = name
        self.job = job
        self.missing = missing
        self.unit = unit
        self.cause = (
            reason if isinstance(reason, Explanation) else Explanation(lambda _: (reason, limit))
        )

    @property
    def reason(self) -> str:
        """All that is known."""
        return self.cause.said[0]

    @property
    def limit(self) -> str | None:
        """The limits that stopped it (quotas, maxima); None when nothing but the job's own
        constraints did."""
        return self.cause.said[1]

    @property
    def verdict(self) -> Verdict:
        """Why it waits, with all causes; without what would change it."""
        about = f"job {self.name}"
        found = self.cause.verdict
        if found is None:
            causes = (Cause("Unexplained", on_one_line(self.limit or self.reason)),)
            line = f"Job {self.name} waits: {causes[0].text}"
            return Verdict(about, Stand.WAITS, "Unexplained", on_one_line(line), causes)
        return found.about_another(about)

    @property
    def lacking(self) -> str:
        """What it lacks, in words: `3 slots`, `1 node`."""
        return counted(self.missing, self.unit.removesuffix("s"))

    def __str__(self) -> str:
        return f"job {self.name} lacks {self.lacking}: {self.limit or self.reason}"

    def __repr__(self) -> str:
        return f"UnsatisfiedJob({self.name!r}, {self.missing}, unit={self.unit!r})"


def part_that_counts(parts: Sequence[UnsatisfiedJob]) -> UnsatisfiedJob:
    """Of the parts of a job that wait, one that can never run, as the job cannot then; else the
    first."""
    never = (part for part in parts if part.verdict.stand is Stand.NEVER)
    return parts[0] if len(parts) == 1 else next(never, parts[0])


def name_of_job(job: object) -> str:
    """The name of a job; of what a driver handed over that is no job, how Python shows it."""
    return str(getattr(job, "name", None) or repr(job))


@dataclass(frozen=True)
class SetAsideJob:
    """A job that could not be looked at; the others were. `runs`: the driver says where it runs, so
    that it wants nothing. `is_host`: it is a host without a name, which stands among jobs."""

    name: str
    reason: str
    runs: bool = False
    is_host: bool = False

    @property
    def about(self) -> str:
        """What it is, with its name."""
        return self.name if self.is_host else f"job {self.name}"

    @property
    def wants_nothing(self) -> bool:
        """Whether no node would be made for it, could it be looked at."""
        return self.runs or self.is_host

    def __str__(self) -> str:
        return f"{self.about} set aside: {self.reason}"


@dataclass(frozen=True)
class StuckJobs:
    """Jobs that wait for the same: how many, the names of the first, and why. `never`: they cannot
    run whatever happens; None where that was not worked out. `until`: unix time at which it may
    change, where that is known."""

    count: int
    names: Sequence[str]
    code: str
    cause: str
    never: bool | None = False
    until: float | None = None

    def __str__(self) -> str:
        said = how_jobs_wait(self.count, self.names, self.never, self.cause)
        return on_one_line(with_next_try(said, self.until))


def stuck_jobs(
    unsatisfied: Sequence[UnsatisfiedJob], *, judge: int = GROUPS_TOLD
) -> list[StuckJobs]:
    """Jobs by the first cause that they wait for, most jobs first. `GROUPS_TOLD` groups are told
    one by one; of the others last how many there are. Why they wait is worked out for the largest
    groups (`JOBS_FOR_ONE`), for `judge` at least. Those that can never run are told apart among
    the others, too, as far as that was worked out."""
    kinds = partition(unsatisfied, lambda job: job.cause.kind)
    alike = sorted(kinds.values(), key=len, reverse=True)
    most = max(judge, len(unsatisfied) // JOBS_FOR_ONE)
    found = _by_cause(alike[:most])
    others = found[GROUPS_TOLD:]
    found = found[:GROUPS_TOLD]
    for never in (True, False):
        alone = [group for group in others if group.never is never]
        found += _folded([(group.count, group.names[0]) for group in alone], never)
    return found + _folded([(len(jobs), jobs[0].name) for jobs in alike[most:]], None)


def _by_cause(alike: Iterable[Sequence[UnsatisfiedJob]]) -> list[StuckJobs]:
    """Groups of jobs that are alike, those with one cause together; most jobs first."""
    judged: dict[tuple[str, str], StuckJobs] = {}
    for jobs in alike:
        verdict = jobs[0].verdict
        cause = verdict.causes[0].text if verdict.causes else verdict.line
        known = judged.get((verdict.code, cause))
        names = [*(known.names if known else ()), *(job.name for job in jobs[:_NAMED_JOBS])]
        judged[verdict.code, cause] = StuckJobs(
            len(jobs) + (known.count if known else 0),
            names[:_NAMED_JOBS],
            verdict.code,
            on_one_line(cause),
            verdict.stand is Stand.NEVER,
            verdict.until,
        )
    return sorted(judged.values(), key=lambda each: -each.count)


def jobs_aside(set_aside: Sequence[SetAsideJob]) -> list[StuckJobs]:
    """Jobs that could not be looked at by the reason, most jobs first; of all but `GROUPS_TOLD`
    groups last how many there are."""
    groups = partition(set_aside, lambda job: job.reason).items()
    alike = sorted(groups, key=lambda each: -len(each[1]))
    found = [
        StuckJobs(
            len(jobs), [job.name for job in jobs[:_NAMED_JOBS]], "SetAside", on_one_line(why), True
        )
        for why, jobs in alike[:GROUPS_TOLD]
    ]
    return found + _folded([(len(jobs), jobs[0].name) for _, jobs in alike[GROUPS_TOLD:]], True)


def _folded(groups: Sequence[tuple[int, str]], never: bool | None) -> list[StuckJobs]:
    """Groups that are only counted, as one: the number of jobs of each, and the name of the
    first."""
    if not groups:
        return []
    jobs, names = sum(count for count, _ in groups), [name for _, name in groups[:_NAMED_JOBS]]
    said = f"{counted(len(groups), 'other reason')}: azscale explain JOB says which"
    return [StuckJobs(jobs, names, "", said, never)]


SKIPPED = "skipped"


@dataclass(frozen=True)
class PassError:
    """Something that went wrong without ending the pass. `retry_after`: seconds that the other side
    asked for."""

    phase: str
    message: str
    retry_after: float | None = None

    @property
    def is_skip(self) -> bool:
        """A pass of a loop did not begin, since somebody else had the lock."""
        return self.phase == SKIPPED

    def __str__(self) -> str:
        return f"{self.phase}: {self.message}"


@dataclass(frozen=True)
class PassSummary:
    """One pass. Nodes are given by name; times are unix seconds, durations seconds.

    - `requested`: planned by this pass; `created` and `started` are those of them that CycleCloud
      confirmed (made anew, or switched on again); `deferred` are left for the next pass by
      `max_new_nodes_per_pass`
    - `joined`: handed to the scheduler, and accepted there; `newly_joined` are those of them that
      the scheduler has never reported, as far as is known, and None where nothing is
    - `booting`: asked for and not ready yet; `overdue` are those of them past their boot timeout
    - `missing`: the scheduler has reported their hosts before, and does not now
    - `idle`: past their idle timeout; `drained` are those of them that may go
    - `given_back`: still booting, for workers whom nobody wants any more (`hpc.autoscale.workers`)
    - `undrained`: were on their way out, and take work again
    - `failed`: in state Failed
    - `spared`: were to be deleted, and have work after all or are to be kept alive
    - `hosts_started`, `hosts_stopped`: hosts on premises whose worker was started, or stopped
    - `deleted`: CycleCloud was told to shut down
    - `refused`: commands that a guard stood against, each for a node, with its reason code
    - `notes`: what is worth knowing and is not an error
    """

    started_at: float = 0.0
    duration: float = 0.0
    dry_run: bool = False
    jobs: int = 0
    unsatisfied: tuple[UnsatisfiedJob, ...] = ()
    set_aside: tuple[SetAsideJob, ...] = ()
    requested: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    booting: tuple[str, ...] = ()
    overdue: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    given_back: tuple[str, ...] = ()
    undrained: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    hosts_started: tuple[str, ...] = ()
    hosts_stopped: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[PassError, ...] = ()
    demand: DemandResult | None = field(default=None, repr=False, compare=False)
    newly_joined: tuple[str, ...] | None = None

    @property
    def ok(self) -> bool:
        """Nothing went wrong. Jobs that cannot be satisfied, or are set aside, are not errors of
        the pass."""
        return not self.errors

    @property
    def retry_after(self) -> float | None:
        """The longest time that the other side asked to be left alone for, in seconds."""
        return max((e.retry_after for e in self.errors if e.retry_after is not None), default=None)

    @property
    def aside_waiting(self) -> list[SetAsideJob]:
        """The jobs that could not be looked at, and wait."""
        return [job for job in self.set_aside if not job.wants_nothing]

    @property
    def aside_wanting_nothing(self) -> list[SetAsideJob]:
        """What else could not be looked at: jobs that run, and hosts without a name."""
        return [job for job in self.set_aside if job.wants_nothing]

    @property
    def cost(self) -> PlanCost | None:
        """What the planned nodes cost; None without the least-cost mode, or without any."""
        return None if self.demand is None else self.demand.cost

    def fields(self) -> dict[str, Any]:
        """Counts, then names: plain JSON values for structured logs and metrics. `price_per_hour`:
        US dollars for the new nodes, None where that was not worked out or the price of one is not
        known."""
        names = {name: list(getattr(self, name)) for name in _NODE_FIELDS}
        return {
            "started_at": self.started_at,
            "duration": self.duration,
            "dry_run": self.dry_run,
            "jobs": self.jobs,
            "jobs_unsatisfied": len(self.unsatisfied),
            "jobs_set_aside": len(self.set_aside),
            "price_per_hour": None if self.cost is None else self.cost.total_per_hour,
            **{f"nodes_{name}": len(nodes) for name, nodes in names.items()},
            "refused": [
                {"node": r.node.name, "command": r.command, "code": r.code, "reason": r.text}
                for r in self.refused
            ],
            "notes": list(self.notes),
            "errors": [str(error) for error in self.errors],
            "unsatisfied": [
                {
                    "job": j.name,
                    "missing": j.missing,
                    "unit": j.unit,
                    "reason": j.reason,
                    "limit": j.limit,
                }
                for j in self.unsatisfied
            ],
            "set_aside": [{"job": j.name, "reason": j.reason} for j in self.set_aside],
            **names,
        }

    def headline(self) -> str:
        """What was done, in one line. Nodes that the scheduler knows already, which are handed to
        it in each pass, are not named as joined."""
        head = "dry run: " if self.dry_run else ""
        said = [
            f"{len(self.unsatisfied)} not satisfied" if self.unsatisfied else "",
            f"{len(self.set_aside)} set aside" if self.set_aside else "",
            *self._about_nodes(),
            self._about_refusals(),
            counted(len(self.errors), "error") if self.errors else "",
        ]
        parts = ", ".join([counted(self.jobs, "job"), *filter(None, said)])
        return on_one_line(f"{head}{parts}, in {self.duration:.1f} s")

    def details(self, *, judge_all: bool = False) -> Iterator[tuple[Detail, str]]:
        """What there is to say beside what was done, a line each: why jobs wait, and what is odd or
        went wrong. `judge_all`: it is worked out for all jobs why they wait."""
        if self.cost is not None:
            yield "note", f"new nodes: {self.cost}"
        rest: list[tuple[Detail, Sequence[object]]] = [
            ("waits", self.aside_waiting),
            ("note", self.aside_wanting_nothing),
            ("note", self.notes),
            ("error", self.errors),
        ]
        judge = len(self.unsatisfied) if judge_all else GROUPS_TOLD
        for group in stuck_jobs(self.unsatisfied, judge=judge):
            yield "waits", str(group)
        for kind, things in rest:
            for thing in things[:NAMED_AT_MOST]:
                yield kind, on_one_line(str(thing))
            if len(things) > NAMED_AT_MOST:
                yield kind, f"… and {len(things) - NAMED_AT_MOST} more like this"

    def __str__(self) -> str:
        return "\n".join([self.headline(), *(f"  {text}" for _, text in self.details())])

    def _about_nodes(self) -> Iterable[str]:
        for name in _NODE_FIELDS:
            nodes = getattr(self, name)
            if name == "joined" and self.newly_joined is not None:
                nodes = self.newly_joined
            if nodes and not (name == "requested" and self._all_confirmed()):
                yield f"{len(nodes)} {name} ({shorten(nodes)})"

    def _about_refusals(self) -> str:
        """How many nodes were refused a command, by reason code: `3 refused (KeepAlive)`."""
        nodes: dict[str, set[str]] = {}
        for refusal in self.refused:
            nodes.setdefault(refusal.code, set()).add(refusal.node.name)
        codes = [
            f"{code} {len(names)}" if len(nodes) > 1 else code for code, names in nodes.items()
        ]
        return f"{len(set().union(*nodes.values()))} refused ({', '.join(codes)})" if nodes else ""

    def _all_confirmed(self) -> bool:
        return len(self.requested) == len(self.created) + len(self.started)


_NODE_FIELDS = [
    "requested",
    "created",
    "started",
    "deferred",
    "joined",
    "booting",
    "overdue",
    "missing",
    "idle",
    "drained",
    "given_back",
    "undrained",
    "failed",
    "spared",
    "deleted",
    "hosts_started",
    "hosts_stopped",
]
