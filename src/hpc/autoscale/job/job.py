"""The published `Job`: what a queued piece of work needs, how much of it there is, and how much is
left to place; and the `Outcome` of placing one.

Thousands of queued jobs say the same, so what was understood of one is kept for all that say it, as
long as the parsers of constraints stay the same. The constraint objects of one job are made when
somebody looks at them. In which order jobs are placed is the business of `placement`, on which
nodes that of the manager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache, partial
from itertools import count
from marshal import dumps, loads
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale import results
from hpc.autoscale.errors import ConstraintError, check_entries, check_kinds
from hpc.autoscale.node.bucket import NodeBucket, bucket_candidates, sift
from hpc.autoscale.node.constraints import (
    Compiled,
    NodeConstraint,
    compile_constraints,
    compile_expressions,
    get_constraints,
)
from hpc.autoscale.node.constraints.base import Source, json_of
from hpc.autoscale.node.constraints.declared import is_declared, is_plain
from hpc.autoscale.node.constraints.parse import CUSTOM_PARSERS
from hpc.autoscale.node.node.contents import reads
from hpc.autoscale.node.nodemanager.placing import Ask
from hpc.autoscale.packing.expr import UNBOUNDED
from hpc.autoscale.packing.plan import ONE_SLOT, Request
from hpc.autoscale.packing.shape import freeze
from hpc.autoscale.results import AllocationResult, CandidatesResult

if TYPE_CHECKING:
    from hpc.autoscale.node.node import Node
    from hpc.autoscale.node.nodemanager import NodeManager

_default_names = count(1)
# the status where a calculator finds nothing for a job, by whether it scatters
_REFUSED_AS = ("Failed", "CompoundFailure")
_MOST_KNOWN = 10_000  # distinct constraints that are remembered

Parsers = tuple[tuple[str, Any], ...]
"""What is registered for constraints of integrations: a text means the same as long as these are
the same."""


class PackingStrategy:
    """How the iterations of a job are spread: as many as fit on each node, or one on each."""

    PACK = "pack"
    SCATTER = "scatter"

    @classmethod
    def is_valid(cls, strategy: object) -> bool:
        """Whether it is one of the two."""
        return strategy in (cls.PACK, cls.SCATTER)


class Job:
    """Work in the queue.

    `iterations`: how many slots it needs; or `node_count` above 0: how many nodes, one iteration on
    each. `colocated`: all in one bucket (placement group) or not at all. `constraints`: JSON, a
    constraint, or a list of either; one that cannot be understood raises ConstraintError here.
    Without a name it gets the next number of this process. `packing_strategy` is SCATTER when there
    is a node count, else PACK. AssertionError for arguments of a wrong kind.
    """

    # of most jobs nobody asks for these
    __executing_hostnames: list[str] | None = None
    __metadata: dict[str, Any] | None = None
    __parsed: list[NodeConstraint] | None = None

    def __init__(
        self,
        name: str | None = None,
        constraints: Any = None,
        iterations: int = 1,
        node_count: int = 0,
        colocated: bool = False,
        packing_strategy: str | None = None,
        executing_hostnames: Sequence[str] | None = None,
    ) -> None:
        # there are tens of thousands of jobs, so this does no more than it must
        name = name or str(next(_default_names))
        if not (
            name.__class__ is str
            and iterations.__class__ is int
            and node_count.__class__ is int
            and colocated.__class__ is bool
        ):
            check_kinds(f"job {name}", str, name=name)
            check_kinds(f"job {name}", int, iterations=iterations, node_count=node_count)
            check_kinds(f"job {name}", bool | int, colocated=colocated)
            colocated = bool(colocated)
        self.__name = name
        self.__iterations = iterations
        self.iterations_remaining = iterations
        self.__node_count = node_count
        self.__colocated = colocated
        self.__packing_strategy = (
            PackingStrategy.SCATTER if node_count > 0 else PackingStrategy.PACK
        )
        if packing_strategy:
            self.packing_strategy = packing_strategy
        if executing_hostnames is not None:
            self.executing_hostnames = executing_hostnames
        try:
            self.__compiled = compiled = _understand(constraints)
        except ConstraintError as error:
            raise _named(error, name) from None
        if compiled.source is None:
            self.__parsed = list(compiled.constraints)
            _assign(self.__parsed, self.name)

    name = reads("_Job__name", ht.JobId, "Id in the scheduler; what nodes are assigned to.")
    iterations = reads("_Job__iterations", int, "Slots; `iterations_remaining` are to be placed.")
    node_count = reads("_Job__node_count", int, "Nodes wanted; 0 when it is slots.")
    colocated = reads("_Job__colocated", bool, "All in one bucket or not at all.")

    @property
    def packing_strategy(self) -> str:
        """`PackingStrategy.PACK` or `.SCATTER`; AssertionError for anything else."""
        return self.__packing_strategy

    @packing_strategy.setter
    def packing_strategy(self, value: str) -> None:
        if not PackingStrategy.is_valid(value):
            said = f"job {self.name}: expected packing strategy pack or scatter"
            raise AssertionError(f"{said}, found {value!r}")
        self.__packing_strategy = value

    @property
    def executing_hostnames(self) -> list[str]:
        """Where it runs already: a live list, to which callers add hosts."""
        if self.__executing_hostnames is None:
            self.__executing_hostnames = []
        return self.__executing_hostnames

    @executing_hostnames.setter
    def executing_hostnames(self, value: Sequence[str] | None) -> None:
        if isinstance(value, str) or not isinstance(value, Iterable | None):
            said = f"job {self.name}: expected executing_hostnames to be a list of names"
            raise AssertionError(f"{said}, found {value!r}")
        self.__executing_hostnames = value if isinstance(value, list) else list(value or ())

    @property
    def metadata(self) -> dict[str, Any]:
        """Whatever the integration notes on the job: a live dict."""
        if self.__metadata is None:
            self.__metadata = {}
        return self.__metadata

    @metadata.setter
    def metadata(self, value: dict[str, Any]) -> None:
        self.__metadata = value

    def _as_read(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """All that a driver has said of it: its name and hosts; and what many have in common: what
        it needs, constraint objects, metadata, slots, slots that remain, nodes, how spread, whether
        colocated. Hosts, objects and metadata are None where there are none."""
        needs, objects, metadata = self.__compiled, self.__parsed, self.__metadata
        amounts = (self.__iterations, self.iterations_remaining, self.__node_count)
        shared = (needs, objects, metadata, *amounts, self.__packing_strategy, self.__colocated)
        return (self.__name, tuple(self.__executing_hostnames or ()) or None), shared

    @staticmethod
    def _read_alike(jobs: Sequence[Any], own: Sequence[Any], shared: Sequence[Any]) -> int:
        """Of how many at the start all is as was known, in the terms of `_as_read`. There are tens
        of thousands, so nothing is called for each."""
        for at, (job, (name, hosts), known) in enumerate(zip(jobs, own, shared, strict=True)):
            if type(job) is not Job or job.__name != name:  # another class may have more to say
                return at
            if (
                job.__compiled,
                job.__parsed,
                job.__metadata,
                job.__iterations,
                job.iterations_remaining,
                job.__node_count,
                job.__packing_strategy,
                job.__colocated,
            ) != known:
                return at
            where = job.__executing_hostnames
            if (tuple(where) if where else None) != hosts:
                return at
        return len(jobs)

    @property
    def _constraints(self) -> list[NodeConstraint]:
        """The constraints, each knowing the job's name where it cares; a live list."""
        if self.__parsed is None:
            self.__parsed = self.__compiled.made_anew()
            _assign(self.__parsed, self.name)
        return self.__parsed

    def add_constraint(self, constraint: Any) -> None:
        """One more condition: JSON or a constraint."""
        try:
            added = get_constraints([constraint])
        except ConstraintError as error:
            raise _named(error, self.name) from None
        _assign(added, self.name)
        self._constraints.extend(added)

    def compiled_constraints(self, own: bool = False) -> Compiled:
        """The constraints as the engine takes them; `own`: of objects that know the job's name."""
        if own or self.__parsed is not None:
            return compile_constraints(self._constraints)
        return self.__compiled

    def bucket_candidates(self, buckets: Sequence[NodeBucket]) -> CandidatesResult[NodeBucket]:
        """Which of the buckets may serve, in order of preference."""
        return bucket_candidates(buckets, self._constraints)

    def is_served_by(self, bucket: NodeBucket) -> bool:
        """Whether a new node of a bucket would do, were the bucket valid and had it room."""
        return bool(sift([bucket], self._constraints)[0])

    def do_allocate(
        self, node_mgr: NodeManager, allow_existing: bool = True, all_or_nothing: bool = False
    ) -> AllocationResult[Node]:
        """Place what remains of the job; `iterations_remaining` goes down by what was placed.

        `all_or_nothing` is implied when colocated.
        """
        return self._allocate(node_mgr, all_or_nothing, True, allow_existing).result

    def _allocate(
        self,
        node_mgr: NodeManager,
        all_or_nothing: bool | None = None,
        explain: bool = True,
        allow_existing: bool = True,
    ) -> Outcome:
        """Place what remains of the job.

        `all_or_nothing`: None for a job of a queue, which is placed as a whole or not at all where
        it scatters; of any other, as much as there is room for. `explain`: the result says what
        keeps the rest out as things are now; otherwise as they are when it is read, unless a
        handler must hear it now. `allow_existing` false: on nodes that do not exist yet.
        """
        is_queued = all_or_nothing is None
        if all_or_nothing is None:
            all_or_nothing = self.__packing_strategy == PackingStrategy.SCATTER
        request = self._request(all_or_nothing or self.__colocated)
        if request.units <= 0:
            done, where = [f"job {self.name} has nothing left to place"], node_mgr._placer.where()
            nothing = AllocationResult[Any]("NothingRequested", reasons=done, where=where)
            return Outcome(node_mgr, self, 0, nothing)
        compiled = self.__compiled if self.__parsed is None else self.compiled_constraints()
        if not allow_existing:
            constraints = get_constraints([{"node.exists": False}, *self._constraints])
            compiled = compile_constraints(constraints)
        placer, result = node_mgr._placer, None
        plan = None if explain else placer.place_at_once(compiled, request, self.__name)
        if plan is None:
            own = partial(self.compiled_constraints, own=True)
            slots = self.iterations if all_or_nothing else request.units
            failed_as = (_REFUSED_AS[all_or_nothing], slots) if is_queued else None
            result = placer.place(Ask(compiled, request, self.__name, failed_as, own))
            units = result.total_slots if result else 0
        else:
            units = plan.units
        if self.__node_count <= 0:
            self.iterations_remaining -= units
        return Outcome(node_mgr, self, units, result)

    def _request(self, whole: bool) -> Request:
        """What remains to be placed. A job of nodes asks for all of them again each time."""
        if self.__node_count > 0:
            return Request(self.__node_count, 1, whole)
        left = self.iterations_remaining
        if left.__class__ is not int:
            check_kinds(f"job {self.name}", int, iterations_remaining=left)
        if left == 1 and not whole:
            return ONE_SLOT
        each = 1 if self.__packing_strategy == PackingStrategy.SCATTER else UNBOUNDED
        return Request(left, each, whole)

    @property
    def remaining(self) -> Request:
        """What remains to be placed of a job of a queue."""
        return self._request(self.colocated or self.packing_strategy == PackingStrategy.SCATTER)

    def _ask(self) -> Ask:
        """The demand for what remains of a job of a queue."""
        own = partial(self.compiled_constraints, own=True)
        return Ask(self.compiled_constraints(), self.remaining, self.__name, own=own)

    def part(self, node_count: int, where: Sequence[Any]) -> Job:
        """A job of this name for so many of its nodes that meet further constraints, anywhere."""
        return Job(self.__name, [*self._constraints, *where], node_count=node_count)

    def to_dict(self) -> dict[str, Any]:
        """The published JSON form."""
        return {
            "name": self.name,
            "constraints": [constraint.to_dict() for constraint in self._constraints],
            "iterations": self.iterations,
            "iterations-remaining": self.iterations_remaining,
            "node-count": self.node_count,
            "colocated": self.colocated,
            "packing-strategy": self.packing_strategy,
            "executing-hostnames": list(self.executing_hostnames),
            "metadata": deepcopy(self.metadata),
        }

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Job:
        """A job from its published JSON form. KeyError without name and constraints; a missing node
        count is 1."""
        check_entries("Job.from_dict", {"metadata": Mapping | None}, d)
        job = Job(
            d["name"],
            d["constraints"],
            iterations=d.get("iterations", 1),
            node_count=d.get("node-count", 1),
            colocated=d.get("colocated", False),
            packing_strategy=d.get("packing-strategy"),
            executing_hostnames=d.get("executing-hostnames"),
        )
        job.iterations_remaining = d.get("iterations-remaining", job.iterations)
        job.metadata = deepcopy(dict(d.get("metadata") or {}))
        return job

    def __str__(self) -> str:
        # without the constraints: logs have a line for each job
        return (
            f"Job(name={self.name}, iterations={self.iterations}, node_count={self.node_count}, "
            f"colocated={self.colocated}, packing_strategy={self.packing_strategy})"
        )

    __repr__ = __str__


as_read, read_alike = Job._as_read, Job._read_alike


class Outcome:
    """What one job came to.

    `units`: slots that it was given now, or nodes where it asks for nodes. `missing`: those that it
    still lacks. `error`: what was raised while it was looked at; it was given nothing then.
    """

    __slots__ = ("_manager", "_result", "error", "job", "units")

    def __init__(
        self,
        manager: NodeManager,
        job: Job,
        units: int,
        result: AllocationResult[Node] | None = None,
        error: Exception | None = None,
    ) -> None:
        self.job = job
        self.units = units
        self.error = error
        self._manager = manager
        self._result = result

    @property
    def missing(self) -> int:
        """Slots, or nodes where the job asks for nodes, that it lacks."""
        job = self.job
        nodes_left = job.node_count - self.units
        return max(0, nodes_left if job.node_count > 0 else job.iterations_remaining)

    @property
    def reasons(self) -> list[str]:
        """Why it got no more, one sentence each; of a job that was placed without asking for
        reasons, as things are when this is first read."""
        return self.result.reasons

    @property
    def was_told(self) -> bool:
        """Whether its result was made while it was placed. One that is made for a reader looks for
        the job on all nodes."""
        return self._result is not None

    @property
    def result(self) -> AllocationResult[Node]:
        """This outcome as a result; nobody is told of one that is made only now."""
        if self._result is None:
            with results.muted():
                self._result = self._made()
        return self._result

    def _made(self) -> AllocationResult[Node]:
        name, manager = self.job.name, self._manager
        if not self.units:
            status = _REFUSED_AS[self.job.packing_strategy == PackingStrategy.SCATTER]
            return AllocationResult(status, reasons=self._why_not, where=manager._placer.where())

        def nodes() -> list[Node]:
            return [node for node in manager.get_nodes() if name in node.assignments]

        return AllocationResult("success", nodes, self.units, self._why_not)

    def _why_not(self) -> list[str]:
        return self._manager._placer.why_not(self.job._ask()) if self.missing else []


def _named(error: ConstraintError, name: str) -> ConstraintError:
    """The error with the job's name before what it says: a driver makes thousands, and whoever
    reads it must find the one."""
    error.args = (f"job {name}: {error.args[0]}",)
    return error


def _assign(constraints: Sequence[NodeConstraint], name: str) -> None:
    """Tell every constraint that cares whose it is."""
    for constraint in constraints:
        if hasattr(constraint, "assignment_id"):
            constraint.assignment_id = name
        _assign(list(constraint.get_children()), name)


def _understand(constraints: Any) -> Compiled:
    """What JSON, a constraint, or a list of either means. ConstraintError where something cannot be
    understood.

    What has a `source` is shared by all jobs that say the same; without one, it belongs to the one
    job.
    """
    if constraints is None:
        constraints = []
    elif type(constraints) is not list:
        several = isinstance(constraints, (list, tuple))
        constraints = list(constraints) if several else [constraints]
    parsers = tuple(CUSTOM_PARSERS.items()) if CUSTOM_PARSERS else ()
    # values through and through are told apart as bytes; this form has no references, so that equal
    # values are equal
    try:
        text = dumps(constraints, 2)
        return _of_text(text, parsers) or compile_constraints(get_constraints(loads(text)))
    except (ValueError, ConstraintError):  # an object; one with a buffer is written as its bytes
        if not is_plain(constraints):
            # told apart by their address, which may be used again
            return compile_constraints(get_constraints(constraints))
    values = _PlainValues([freeze(constraints)])
    values.given = constraints
    shared = _of_values(values, parsers)
    return shared or compile_constraints(get_constraints(deepcopy(constraints)))


class _PlainValues(tuple[Any]):
    """Constraints that are values through and through, frozen, and as they were `given`."""

    given: list[Any]


@lru_cache(_MOST_KNOWN)
def _of_text(text: bytes, parsers: Parsers) -> Compiled | None:
    """What JSON as `marshal` writes it means to every job; None where each must have its own."""
    return compile_expressions(loads(text), text) or _shared(text)


@lru_cache(_MOST_KNOWN)
def _of_values(values: _PlainValues, parsers: Parsers) -> Compiled | None:
    """As `_of_text`, for values that are not plain JSON."""
    return _shared(deepcopy(values.given))


def _shared(source: Source) -> Compiled | None:
    compiled = compile_constraints(get_constraints(json_of(source)))
    if compiled.pooled or not all(map(is_declared, compiled.opaque)):
        return None  # it does not do for every job that says the same
    compiled.source = source
    return compiled
