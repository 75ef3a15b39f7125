"""One demand, from its constraints to nodes: asks the engine, and makes its answer true on the
handles.

What the engine cannot judge alone goes through `probing`; what registered handlers are told,
through `reporting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import NamedTuple

from hpc.autoscale import results
from hpc.autoscale.config.naming import number_of_spare
from hpc.autoscale.node.bucket import NodeBucket, sift
from hpc.autoscale.node.constraints import Compiled, NotAsDeclared, SharedConstraint, pool_room
from hpc.autoscale.node.constraints.declared import Declarations
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager.inventory import Inventory
from hpc.autoscale.node.nodemanager.policies import DEFAULT, arrange_by, policy_named
from hpc.autoscale.node.nodemanager.probing import HandleProbe, Sorted, sort_out
from hpc.autoscale.node.nodemanager.reporting import (
    NothingFound,
    PlacementReport,
    criteria,
    report,
    sentences,
    unpayable,
)
from hpc.autoscale.packing.candidate import Candidate
from hpc.autoscale.packing.compound import any_reads
from hpc.autoscale.packing.cursor import Cursor
from hpc.autoscale.packing.feasibility import Ranking
from hpc.autoscale.packing.order import OrderPolicy, checked
from hpc.autoscale.packing.plan import Plan, Request, Step
from hpc.autoscale.packing.planner import Planner
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.plaintext import without_repeats
from hpc.autoscale.results import AllocationResult, Result, SatisfiedResult

_MOST_SORTINGS = 10_000


class Ask(NamedTuple):
    """One demand: what it needs, how many units, and who will be assigned.

    `failed_as`: the status of a refusal, where it is not to say what kind of refusal it was, and
    how many slots it names; None when no calculator asks. `own`: makes the constraints of a job
    anew, which then know its name.
    """

    compiled: Compiled
    request: Request
    assignment_id: str
    failed_as: tuple[str, int] | None = None
    own: Callable[[], Compiled] | None = None


class Decision(NamedTuple):
    """What became of a demand: a status word, the buckets asked and not asked, the plan, and why
    not all was placed.

    `refusals` are answers of constraints that the engine does not understand, `pooled` the pools
    that are to pay for it.
    """

    status: str
    ranking: Ranking
    refusals: list[Result]
    plan: Plan | None
    reasons: Callable[[], list[str]]
    pooled: Sequence[SharedConstraint] = ()


class Placer:
    """Places demands on the buckets of an inventory.

    `planner` has the engine's state of the buckets; what was written to them is told to it before
    it is asked, and what it plans is made true on them. `existing_first`: nodes with room are used
    before new ones are opened, across all buckets. `policy`: see `set_order_policy`.
    """

    def __init__(
        self,
        inventory: Inventory,
        existing_first: bool = True,
        policy: str | OrderPolicy = DEFAULT,
    ) -> None:
        self.inventory = inventory
        self.where: Callable[[], str] = str  # the cluster and the server, for messages
        self.planner = Planner(existing_first)
        self.order_policy: str | OrderPolicy = policy
        table = self.planner.table
        self._blank = table.shape(table.template({}, {}), {})
        self._by_candidate: dict[Candidate, NodeBucket] = {}
        self._sizes: dict[tuple[str, str], int] = {}  # in the order of their first buckets
        # buckets for which `sync` must work something out
        self._stale: dict[NodeBucket, None] = {}
        self._sortings: dict[int, tuple[Compiled, Sorted]] = {}
        inventory.on_join = self._join
        if policy != DEFAULT:
            self.set_order_policy(policy)

    # -- the buckets, as the engine knows them

    @cached_property
    def declarations(self) -> Declarations:
        """What is known of constraints that say what they read."""
        return Declarations()

    def _join(self, bucket: NodeBucket) -> None:
        inventory = self.inventory
        candidate = bucket._join(self._blank, inventory.defaults, inventory.written, self._outdated)
        self._by_candidate[candidate] = bucket
        size = self._sizes.setdefault((bucket.nodearray, bucket.vm_size), len(self._sizes))
        spare = number_of_spare(bucket.placement_group, bucket.vm_size)
        # as when nobody had asked for it, so that work stays where it was counted
        candidate.turn = () if spare is None else (size, spare)
        self.planner.add(candidate)

    def _outdated(self, bucket: NodeBucket) -> None:
        self._stale[bucket] = None

    def bucket_of(self, candidate: Candidate) -> NodeBucket:
        """The bucket that the engine knows as this candidate."""
        return self._by_candidate[candidate]

    def nodes_of(self, plan: Plan) -> list[Node]:
        """The nodes that a plan placed something on, in its order."""
        return [
            self._by_candidate[step.candidate]._nodes.handle(position)
            for step in plan.steps
            for position in range(step.lo, step.hi)
        ]

    def forget_defaults(self) -> None:
        """Default resources were defined: what differs from node to node may be another now."""
        self._sortings.clear()
        self.planner.forget_demands()

    # -- the order in which buckets are asked

    def set_order_policy(self, policy: str | OrderPolicy) -> None:
        """Ask buckets in this order from now on; what is placed stays. ConfigurationException for a
        name that nobody knows, PolicyError for what is no policy."""
        found = policy_named(policy) if isinstance(policy, str) else checked(policy, repr(policy))
        self.order_policy = policy
        self._arrange_by(found)

    @contextmanager
    def asked_in_order_of(self, policy: OrderPolicy) -> Iterator[None]:
        """Ask buckets in the order of a policy for a while; `order_policy` stays what it is."""
        before = self.planner.arrange
        self._arrange_by(policy)
        try:
            yield
        finally:
            self.planner.arrange = before
            self.planner.forget_rankings()

    def _arrange_by(self, policy: OrderPolicy) -> None:
        arrange_by(policy, self.planner, self._by_candidate.__getitem__)
        self.planner.forget_rankings()

    # -- making plans true

    def sync(self) -> None:
        """Let the engine know what new nodes are made from, where that was written to since."""
        while self._stale:
            bucket, _ = self._stale.popitem()
            if bucket._sync(self.planner.table):
                self.planner.forget_rankings()

    def _carry_out(self, plan: Plan, assignment_id: str) -> None:
        """Make a plan of the engine true: all of it, or nothing when naming new nodes fails."""
        if isinstance(plan, Step):  # as most are
            bucket = self._by_candidate[plan.candidate]
            taken = self.inventory.names.of(bucket, plan.hi - plan.lo) if plan.opened else ()
            self.planner.apply(plan)
            bucket._took(plan, taken, assignment_id)
            return
        of_opened = iter(self.names_of([step for step in plan.steps if step.opened]))
        for step in self.planner.apply(plan):
            bucket = self._by_candidate[step.candidate]
            bucket._took(step, next(of_opened) if step.opened else (), assignment_id)
        for effect in plan.effects:
            effect()

    def carry_out_jointly(self, plan: Plan, placed: Iterable[tuple[str, Sequence[Step]]]) -> None:
        """Make a plan true that was made for many demands on a copy of the engine's state.
        `placed`: of each demand, who is assigned and its part of the steps.

        StalePlan where nodes are not as they were on the copy; that, and what naming a node raises,
        leave nothing changed.
        """
        self.sync()
        opened = [step for step in plan.steps if step.opened]
        self.planner.adopt(plan)
        fresh = self.names_of(opened)
        self.planner.apply(plan)
        for step, each in zip(opened, fresh, strict=True):
            # the nodes are there now, with nobody on them yet
            self.bucket_of(step.candidate)._took(step, each, None)
        for assignment_id, steps in placed:
            for step in steps:
                self.bucket_of(step.candidate)._took(step, (), assignment_id)

    def names_of(self, opened: Sequence[Step]) -> Sequence[Sequence[str]]:
        """Names for the new nodes of some steps of a plan. They are in use from now on; an error of
        a hook that names them changes nothing."""
        wanted = [(self._by_candidate[step.candidate], step.hi - step.lo) for step in opened]
        return self.inventory.names.take(wanted) if wanted else ()

    def sorting_of(self, compiled: Compiled) -> Sorted:
        """The constraints by who can answer for them. Worked out once for each list in use."""
        known = self._sortings.get(id(compiled))
        if known is None or known[0] is not compiled or not known[1].may_be_believed():
            if len(self._sortings) > _MOST_SORTINGS:
                self._sortings.clear()
            known = (compiled, sort_out(compiled, self.inventory.defaults, self.declarations))
            self._sortings[id(compiled)] = known
        return known[1]

    # -- by the engine alone

    def _cursor(self, compiled: Compiled) -> Cursor | None:
        """What is remembered of some constraints, up to date with what was written; None where the
        engine alone cannot answer for them."""
        if self._stale:
            self.sync()
        planner = self.planner
        if compiled.opaque:
            demand = self.sorting_of(compiled)
            return planner.cursor(demand.common) if demand.by_shape else None
        if compiled in planner.by_demand:
            return planner.by_demand[compiled]
        found = None
        if not (compiled.pooled or any_reads(compiled.parts, self.inventory.defaults.personal)):
            meeting = planner.who_serves(compiled.parts)
            found = planner.cursor(compiled.expr, meeting) if meeting else planner.nowhere
        planner.by_demand[compiled] = found
        return found

    def place_at_once(
        self, compiled: Compiled, request: Request, assignment_id: str, partly: bool = True
    ) -> Plan | None:
        """Place a request where that takes the engine alone and nobody must be told why not; what
        was done. None: nothing was done, and `place` must be asked.

        `partly`: nobody wants to know now what keeps the rest out.
        """
        cursor = None if self._stale else self.planner.by_demand.get(compiled)
        try:
            if cursor is None:
                cursor = self._cursor(compiled)
                if cursor is None:
                    return None
            plan = self.planner.plan(cursor, request, explain=False)
        except NotAsDeclared:
            return None
        if plan.units < request.units:
            is_refused = not (plan.units or request.whole)
            if not partly or (results.HANDLERS and not is_refused):
                return None
        if plan.units:
            self._carry_out(plan, assignment_id)
        if results.HANDLERS:
            if plan.units:
                results.tell(PlacementReport(self, cursor, plan))
            else:
                self._tell_refused(compiled, request)
        return plan

    # -- one demand

    def place(self, ask: Ask) -> AllocationResult[Node]:
        """Place a demand, or say why not. Nothing is changed on failure."""
        ask = self._told_whose(ask)
        plan = self.place_at_once(ask.compiled, ask.request, ask.assignment_id, partly=False)
        if plan is not None:
            self._note_apart(ask, plan)
            results.settle()
            with results.muted():  # the handlers have heard it
                return AllocationResult("success", partial(self.nodes_of, plan), plan.units)
        self.sync()
        decision = self._decide(ask)
        if decision.plan:
            self._carry_out(decision.plan, ask.assignment_id)
            for each in decision.pooled:
                each.pay(decision.plan.units)
            self._note_apart(ask, decision.plan)
        if results.HANDLERS:
            report(self, ask.compiled, ask.request, decision)
        if decision.plan:
            nodes, units = partial(self.nodes_of, decision.plan), decision.plan.units
            return AllocationResult("success", nodes, units, reasons=decision.reasons)
        status, slots = ask.failed_as or (decision.status, None)
        return AllocationResult(status, None, slots, decision.reasons, self.where())

    def _note_apart(self, ask: Ask, plan: Plan) -> None:
        """Remember what was placed beside all calculators."""
        for step in plan.steps if ask.failed_as is None else ():
            bucket = self.bucket_of(step.candidate)
            self.inventory.apart.note(bucket, step.lo, step.hi, {ask.assignment_id})

    def why_not(self, ask: Ask) -> list[str]:
        """Why a demand cannot be placed, or not all of it, as things are now; nothing is changed,
        and nobody is told."""
        with results.muted():
            decision, _ = self.considered(ask)
            if decision.plan and decision.plan.units >= ask.request.units:
                return ["there is room for it by now"]
            return decision.reasons()

    def considered(self, ask: Ask) -> tuple[Decision, Sorted]:
        """What would become of a demand as things are now, and its constraints by who can answer
        for them. Nothing is changed."""
        ask = self._told_whose(ask)
        self.sync()
        return self._decide(ask), self.sorting_of(ask.compiled)

    def _told_whose(self, ask: Ask) -> Ask:
        """With the job's own constraints, where jobs share them and nodes are asked one by one."""
        own, compiled = ask.own, ask.compiled
        if own is None or compiled.source is None or not self.sorting_of(compiled).needs_probe:
            return ask
        return ask._replace(compiled=own())

    def _tell_refused(self, compiled: Compiled, request: Request) -> None:
        """Tell handlers of a request for which the engine found nothing. Those that ask for the
        same share what is said."""
        key = compiled, request
        refusal = self.planner.refused.get(key)
        if not isinstance(refusal, NothingFound):
            ask = Ask(compiled, request, "", ("Failed", request.units))

            def decide() -> Decision:
                self.sync()
                return self._decide(ask)

            refusal = self.planner.refused[key] = NothingFound(decide, self, compiled, request)
        results.tell(results.Report(refusal.results))

    def _decide(self, ask: Ask) -> Decision:
        """What is to become of a demand; nothing has changed yet."""
        try:
            return self._decide_now(ask)
        except NotAsDeclared:
            # once more, with one class less that is believed
            return self._decide(ask)

    def _decide_now(self, ask: Ask) -> Decision:
        request = ask.request
        demand = self.sorting_of(ask.compiled)
        # with an opaque constraint the probe asks all of them together, pooled ones included
        pooled = () if demand.opaque else demand.pooled
        room = pool_room(pooled) if pooled else request.units
        empty = [each for each in pooled if each.cap(1) < 1]
        if empty:
            # no node is a candidate for what not one iteration can be paid for
            asked = self.planner.ranking(demand.common)
            return _nowhere(Ranking((), lambda: asked.rejects), self._unpaid(empty, asked))
        if room < 1 or (request.whole and room < request.units):
            nobody = Ranking(())
            return Decision(
                "NoAllocationSelected", nobody, [], None, lambda: unpayable(demand, request, pooled)
            )
        ranking, refusals = self._ranking(demand, request)
        if not ranking.candidates:
            return _nowhere(ranking, refusals)
        payable = request._replace(units=min(room, request.units))
        plan = self._ask(demand, payable, ranking, ask.assignment_id)
        if not plan:
            said = self._no_candidate(ask.compiled, demand, ranking)
            if said is not None:
                return _nowhere(Ranking((), lambda: ranking.rejects), [*refusals, *said])

            def why() -> list[str]:
                rejects = (*ranking.rejects, *plan.rejects)
                return [criteria(demand, request), *sentences(rejects)]

            return Decision("NoAllocationSelected", ranking, refusals, plan, why)
        short = room < request.units

        def why_not_all() -> list[str]:
            rest = unpayable(demand, request, pooled)[1:] if short else []
            return [*sentences(plan.rejects), *rest]

        return Decision("success", ranking, refusals, plan, why_not_all, pooled)

    def _unpaid(self, short: Sequence[SharedConstraint], ranking: Ranking) -> list[Result]:
        """What the pools say, where a bucket is left that nothing else speaks against."""
        with results.muted():
            examples = [
                self.bucket_of(candidate).example_node for candidate in ranking.candidates[:1]
            ]
            return [each.satisfied_by_node(example) for example in examples for each in short]

    def _no_candidate(
        self, compiled: Compiled, demand: Sorted, ranking: Ranking
    ) -> list[SatisfiedResult] | None:
        """What machines that cannot be ordered refuse, where nothing else is left; None where
        something would serve if nothing ran there and no limit were reached."""
        if not all(candidate.artificial for candidate in ranking.candidates):
            return None
        machines = map(self.bucket_of, ranking.candidates)
        key = None if demand.needs_probe or demand.pooled else demand.common
        return self.inventory.idle_machines.refusals(machines, compiled.constraints, key)

    def _ask(self, demand: Sorted, request: Request, ranking: Ranking, assignment_id: str) -> Plan:
        as_given = demand.ranks and self._is_order_theirs(demand, ranking.candidates)
        given = ranking.candidates if demand.ranks else None
        if not demand.needs_probe:
            return self.planner.ask(demand.common, request, given, as_given=as_given)
        probe = HandleProbe(self.bucket_of, demand, assignment_id)
        try:
            return self.planner.ask(demand.common, request, given, probe, as_given)
        except BaseException:  # a constraint raised: shared pools must not keep what was tried
            probe.settle(keep=False)
            raise

    def _is_order_theirs(self, demand: Sorted, candidates: Sequence[Candidate]) -> bool:
        """Whether new nodes go by the order of the candidates, and not by weights of regions."""
        if not any(candidate.share for candidate in candidates):
            return True
        with results.muted():
            return results.is_any_preferred(demand.general, map(self.bucket_of, candidates))

    def _ranking(self, demand: Sorted, request: Request) -> tuple[Ranking, list[Result]]:
        """The candidates to ask, in order; through the constraints' own methods where the engine
        does not know them all. A personal constraint has no say in it: it may hold for some nodes
        of a bucket and not for others."""
        if not demand.ranks:
            return _awake(self.planner.ranking(demand.common), demand), []
        with results.muted():
            ordered = self.planner.arranged(demand.common, request)
            candidate_of = {self._by_candidate[candidate]: candidate for candidate in ordered}
            valid = [bucket for bucket in candidate_of if bucket.valid]
            buckets, refusals = sift(valid, demand.general, ask_artificial=False)
        candidates = tuple(candidate_of[bucket] for bucket in buckets)
        return _awake(Ranking(candidates), demand), refusals


def _nowhere(ranking: Ranking, refusals: list[Result]) -> Decision:
    """No bucket would serve, whatever runs there: what each of them says."""
    return Decision(
        "NoCandidatesFound",
        ranking,
        refusals,
        None,
        lambda: [*sentences(ranking.rejects), *without_repeats(map(_in_words, refusals))],
    )


def _in_words(refusal: Result) -> str:
    """A refusal as those of the engine are said: its status, once, and its reasons."""
    said = "; ".join(refusal.reasons) or refusal.message
    return said if said.startswith(refusal.status) else f"{refusal.status}: {said}"


def _awake(ranking: Ranking, demand: Sorted) -> Ranking:
    """The ranking; one without candidates where none of them has a node and all must rest before
    they make one."""
    resting: list[tuple[Candidate, Reject]] = []
    for candidate in ranking.candidates:
        reject = None if candidate.shapes else candidate.at_rest(demand.common)
        if reject is None:
            return ranking
        resting.append((candidate, reject))
    return Ranking((), lambda: (*ranking.rejects, *resting)) if resting else ranking
