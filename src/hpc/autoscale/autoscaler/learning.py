"""The half of a pass that only looks: jobs, nodes, demand, and why some of it cannot be met.

Nothing in this module changes the cluster or the scheduler. `passes` calls it before it commands
anything.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from itertools import groupby, islice
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.autoscaler.faults import name_of, try_each
from hpc.autoscale.autoscaler.summary import (
    Explanation,
    SetAsideJob,
    UnsatisfiedJob,
    name_of_job,
    stuck_jobs,
)
from hpc.autoscale.backoff.hosts import is_at_work, takes_no_work
from hpc.autoscale.collector import collecting_seldom
from hpc.autoscale.config.reported_hosts import reports_idle_hosts
from hpc.autoscale.errors import counted, one_line
from hpc.autoscale.explaining.alike import Kinds, kind_by_text
from hpc.autoscale.explaining.known import Known
from hpc.autoscale.explaining.refusals import clusters_missing
from hpc.autoscale.explaining.waiting import verdict_on_waiting
from hpc.autoscale.explaining.words import away_in_words
from hpc.autoscale.gangs.gathering import GangNews, Gangs
from hpc.autoscale.job.demandcalculator import DemandCalculator, new_demand_calculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job, Outcome
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import UnusableHost, UnusableJob, checked, is_running
from hpc.autoscale.node import nodehistory
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import Compiled
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.identity import Identities, claimed_ids, names_of, short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodehistory import NodeHistory
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.onpremises.hosts import SECTION
from hpc.autoscale.onpremises.listing import is_on_premises
from hpc.autoscale.onpremises.workers import STATES_FILE
from hpc.autoscale.packing.amounts import is_amount
from hpc.autoscale.plaintext import shorten
from hpc.autoscale.regions import going_first, with_weights
from hpc.autoscale.requestsets.demand import (
    RequestJob,
    keep_at_work,
    requested_jobs,
    take_off_work,
)
from hpc.autoscale.requestsets.extending import DRIVERS_WISH, DriversWish
from hpc.autoscale.results import muted
from hpc.autoscale.results.verdicts import Verdict
from hpc.autoscale.statefiles import (
    HOSTS,
    REQUEST_SETS,
    REQUESTS,
    STATE_FILES,
    directory_of_files,
    is_kept,
    path_of,
)
from hpc.autoscale.util import SingletonLock, partition
from hpc.autoscale.workers import WorkerJob, prepare

VERDICTS_FILE = "verdicts.json"
CAUSES_LOGGED = 50
"""Reasons why jobs wait that one pass writes to the log at most, or works out before it deletes."""

_log = logging.getLogger("hpc.autoscale.results")

SetContext = Callable[[str], None]
NewCalculator = Callable[[dict[str, Any], SchedulerDriver], tuple[DemandCalculator, Sequence[Job]]]


@collecting_seldom()
def new_calculator(
    config: dict[str, Any],
    driver: SchedulerDriver,
    node_mgr: NodeManager | None = None,
    lock: SingletonLock | None = None,
) -> tuple[DemandCalculator, list[Job]]:
    """A demand calculator over CycleCloud's and the scheduler's nodes, and the jobs that it should
    be given: those of the scheduler, and those for what the driver and the request sets that stand
    want of nodearrays.

    The lock is taken from the driver unless it is given.
    """
    jobs, scheduler_nodes = hooks.read(driver, config)
    if node_mgr is None:
        config = config if DRIVERS_WISH in config else for_a_pass(config, driver)
        node_mgr = new_node_manager(config)
        hooks.ask(driver.preprocess_node_mgr, config, node_mgr)
    # before they are joined: hosts that the driver takes out of the list get no work
    validate(driver, scheduler_nodes, node_mgr)
    at_work = functools.partial(nodes_at_work, node_mgr, jobs)
    requested = requested_jobs(config, driver.autoscale_home, node_mgr, at_work)
    prepare(node_mgr, jobs)
    calculator = new_demand_calculator(
        config,
        existing_nodes=scheduler_nodes,
        node_mgr=node_mgr,
        node_history=_history(config, driver),
        # the node manager has them, unless the configuration's own are to come first
        disable_default_resources=not config.get("disable_default_resources", False),
        node_queue=hooks.new_queue(driver, config),
        singleton_lock=lock or hooks.new_lock(driver, config),
    )
    for node in _just_up(scheduler_nodes, node_mgr, jobs):
        node.available.update(node.resources)
        calculator.reported.discard(node)
    if reports_idle_hosts(config):
        calculator.await_hosts()
    calculator.nodes_are_validated = True
    return calculator, [*jobs, *requested]


def nodes_at_work(node_mgr: NodeManager, jobs: Iterable[object]) -> set[object]:
    """Keys of the nodes on which jobs that can be read run, as these say."""
    read = [job for job in jobs if isinstance(job, Job) and not isinstance(job, UnusableJob)]
    return busy_nodes(node_mgr.get_nodes(), read, ())


def _just_up(
    hosts: Iterable[SchedulerNode], node_mgr: NodeManager, jobs: Iterable[object]
) -> list[Node]:
    """The nodes whose hosts a scheduler reports with nothing available because they have just come
    up. They keep the work that they were ordered for, as before their hosts were reported; else
    other nodes would be ordered for it until something is available."""
    holds = node_mgr.holds
    if holds is None or not (watched := holds.may_become_fit()):
        return []
    identities = Identities(node for node in node_mgr.get_nodes() if key_of(node) in watched)
    named = hosts_named(jobs)
    empty = (host for host in hosts if takes_no_work(host, named))
    return [node for node, _ in identities.pairs(empty)]


def prepared_manager(
    node_mgr: NodeManager, config: dict[str, Any], driver: SchedulerDriver
) -> NodeManager:
    """A new node manager as a pass would have it, for who asks without a calculator: the driver has
    prepared it, and it has the resources of the system that the configuration's own definitions,
    which come first under `disable_default_resources`, leave out."""
    hooks.ask(driver.preprocess_node_mgr, config, node_mgr)
    if config.get("disable_default_resources"):
        node_mgr.set_system_default_resources()
    return node_mgr


def hosts_listed_twice(driver: SchedulerDriver, hosts: Iterable[SchedulerNode]) -> str | None:
    """A sentence on hosts that a driver lists more than once; None when it lists none so.

    Work is placed by one entry for each host name, so the room of the others is not seen. Hosts
    that say that they are different nodes are different hosts.
    """
    counts = Counter((short_name(host.hostname), claimed_ids(host)) for host in hosts)
    twice = [name for (name, _), count in counts.items() if count > 1]
    if not twice:
        return None
    return (
        f"{name_of(driver.read_jobs_and_nodes)}: expected each host once, found {shorten(twice)}"
        " more than once: only one entry of each is looked at"
    )


_AMOUNTS = frozenset((int, float, bool, ht.Size, ht.Memory))


def odd_amounts(
    driver: SchedulerDriver, hosts: Iterable[SchedulerNode], buckets: Iterable[NodeBucket]
) -> list[str]:
    """A sentence on each resource of which nodes have an amount and hosts of a driver something
    else, such as `"4"` or `"16gb"`.

    Work that asks for an amount fits on no such host, so that others are made in its place again
    and again.
    """
    others: dict[str, list[SchedulerNode]] = {}
    for host in hosts:
        for name, value in host.available.items():
            if value.__class__ not in _AMOUNTS and not isinstance(value, ht.Size):
                others.setdefault(name, []).append(host)
    amounts: set[str] = set()
    for bucket in (each for each in buckets if others and not each.is_artificial):
        values = {name: bucket.resources.get(name) for name in others}
        amounts.update(n for n, v in values.items() if is_amount(v) or isinstance(v, ht.Size))
    what = name_of(driver.read_jobs_and_nodes)
    return [
        f"{what}: expected {name} of a host to be a number or a size, as nodes have it, found"
        f" {given[0].available[name]!r} for {shorten([str(host.hostname) for host in given])}:"
        " no work that asks for an amount of it fits there"
        for name, given in others.items()
        if name in amounts
    ]


def managed_nodes(node_mgr: NodeManager, nodes: Sequence[Node]) -> list[Node]:
    """CycleCloud's nodes for nodes that may be known only as the scheduler reports them; where one
    may be either of two, neither."""
    if not nodes:
        return []
    identities = Identities(node for node in node_mgr.get_nodes() if node.managed)
    found: list[Node] = []

    def look_up(node: Node) -> None:
        known = node if node.managed else identities.find(node)
        if known is not None:
            found.append(known)

    def leave(node: Node, reason: str) -> None:
        logging.warning("%s is not deleted: %s", node, reason)

    try_each(nodes, look_up, leave)
    return found


def _history(config: dict[str, Any], driver: SchedulerDriver) -> NodeHistory:
    """The driver's node history; one that lets nothing be deleted where that cannot be used."""
    try:
        return hooks.new_history(driver, config)
    except nodehistory.NodeHistoryError as error:
        from hpc.autoscale.node.nodehistory.away import NodeHistoryAway

        logging.warning("nodes are created, and none is deleted: %s", error)
        return NodeHistoryAway(error)


def validate(driver: SchedulerDriver, hosts: list[SchedulerNode], node_mgr: NodeManager) -> None:
    """Let the driver compare the scheduler's nodes with CycleCloud's, and with hosts on premises.

    It is not asked while nobody knows what nodes one of several clusters has, since it would take
    the hosts of these for lost. The gate is told of nodes that the driver calls failed: CycleCloud
    may list them as ready on.
    """
    if getattr(node_mgr.cluster_bindings, "never_read", ()):
        return
    gate = node_mgr.gate
    # whoever has made the calculator may have taken in what only the scheduler knows
    nodes = [node for node in node_mgr.get_nodes() if node.managed or is_on_premises(node)]
    failed = {key_of(node) for node in nodes if node.state == "Failed"}
    with clock.heard_by(None):  # what time the driver is told is no part of the journal
        hooks.validate(driver, hosts, list(nodes))
    given_up = {key_of(node) for node in nodes if node.state == "Failed"} - failed
    gate.facts.why.update(dict.fromkeys(given_up, "marked"))


WEIGHTS_PROBLEM = "_weights_problem"
"""The entry of the configuration of a pass that says why there are no new weights of regions."""


def for_a_pass(config: dict[str, Any], driver: SchedulerDriver) -> dict[str, Any]:
    """The configuration with the file of the request sets, with what the driver wants of
    nodearrays, with the weights of regions that hold now where it says `auto`, and with files in
    which requests and what failed outlive this process: beside the node history, if anywhere.

    A create whose reply was lost is then settled by the next pass, also when that is another
    process.
    """
    wish = DriversWish(driver.name, functools.partial(hooks.wanted_arrays, driver, config))
    config = {
        **config,
        REQUEST_SETS.key: path_of(REQUEST_SETS, config, driver.autoscale_home),
        DRIVERS_WISH: wish,
    }
    problems: list[str] = []
    config = with_weights(config, functools.partial(_current_weights, driver, problems))
    if problems:
        config[WEIGHTS_PROBLEM] = problems[0]
    if config.get(SECTION):
        config[STATES_FILE] = path_of(HOSTS, config, driver.autoscale_home)
    directory = directory_of_files(config, driver.autoscale_home)
    if not os.path.isdir(directory):
        return config
    for file in STATE_FILES:
        if file.may_be_off and is_kept(file, config):
            config[file.key] = path_of(file, config, driver.autoscale_home)
    config.setdefault("verdicts_file", os.path.join(directory, VERDICTS_FILE))
    return config if config.get("read_only") else with_requests_file(config, driver)


def with_requests_file(config: dict[str, Any], driver: SchedulerDriver) -> dict[str, Any]:
    """The configuration with the file in which requests outlive this process: the one that it
    names, or one beside the node history where there is such a directory."""
    directory = directory_of_files(config, driver.autoscale_home)
    if config.get(REQUESTS.key) or not os.path.isdir(directory):
        return config
    return {**config, REQUESTS.key: path_of(REQUESTS, config, driver.autoscale_home)}


def _current_weights(
    driver: SchedulerDriver, problems: list[str], config: dict[str, Any]
) -> dict[str, int]:
    from hpc.autoscale.weights import current_weights

    found = current_weights(config, driver.autoscale_home)
    if found.problem:
        held = "others stand in" if found.taken_at is None else "the last ones hold"
        problems.append(f"weights of regions: {found.problem}; {held}")
    return dict(found.weights)


def driver_wants(config: Mapping[str, Any]) -> bool:
    """Whether the driver of a pass wants something of nodearrays, beside what it has jobs for."""
    wish: DriversWish | None = config.get(DRIVERS_WISH)
    return wish is not None and bool(wish.arrays())


def want_workers(jobs: Iterable[object]) -> bool:
    """Whether workers are wanted by number, if only none."""
    return any(isinstance(job, WorkerJob) for job in jobs)


def nothing_to_start(node_mgr: NodeManager) -> str | None:
    """Why no node can be started in the whole cluster, whatever a job wants; None when some can.

    A manager over nothing but machines that CycleCloud does not know has nothing to start, and no
    reason to complain.
    """
    if any(not bucket.is_artificial for bucket in node_mgr.get_buckets()):
        return None
    said = list(node_mgr.problems)
    invalid: dict[str, list[str]] = {}
    for bucket in node_mgr.get_invalid_buckets():
        invalid.setdefault(bucket.nodearray, []).append(bucket.vm_size)
    said.extend(
        f"nodearray {nodearray}: expected a VM size that can be used, found only "
        f"{', '.join(sizes)}, which CycleCloud says cannot"
        for nodearray, sizes in invalid.items()
    )
    return "; ".join(said) or None


def add_jobs(
    calculator: DemandCalculator,
    jobs: Iterable[Job],
    set_context: SetContext,
    gangs: Gangs | None = None,
) -> tuple[list[UnsatisfiedJob], list[SetAsideJob]]:
    """Give the jobs to the calculator, one context each. Running jobs have their nodes already and
    are passed over. `gangs` decides about those of which only a part could be had."""
    queue = list(jobs)
    listener = _Listener(set_context)
    waiting: list[Job] = []

    def look_at(job: Job) -> None:
        if checked(job).metadata.get("job_state") != "running":
            waiting.append(job)

    try_each(queue, look_at, listener.set_aside)
    kept = gangs.kept_from(waiting, calculator.node_mgr) if gangs is not None else {}
    later = {id(job) for alike in kept.values() for job in alike}
    first = gangs.at_home(waiting, calculator.node_mgr) if gangs is not None else {}

    def place(some: Sequence[Job]) -> list[Outcome]:
        if not first:
            return calculator.place(some, listener)
        found: list[Outcome] = []
        for share, alike in groupby(some, key=lambda job: first.get(id(job))):
            with going_first(share) if share is not None else nullcontext():
                found += calculator.place(list(alike), listener)
        return found

    wishes = [job for job in waiting if isinstance(job, RequestJob) and job.counts_work]
    nodes = calculator.node_mgr.get_nodes() if wishes else []
    needed = {key_of(node) for node in nodes if node.required}
    outcomes = _place(place, [job for job in waiting if id(job) not in later], calculator.node_mgr)
    for limits, alike in kept.items():
        with ExitStack() as stack:
            for limit in limits:
                stack.enter_context(limit.shut())
            outcomes += place(alike)
    if gangs is not None:
        set_context("[gangs]")
        gangs.settle(outcomes, calculator.node_mgr)
    if wishes:
        counted = [job for job in queue if id(job) not in listener.found]
        keep_at_work(wishes, nodes, busy_nodes(nodes, counted, ()), needed)
    set_context("[unsatisfied]")
    short = [outcome for outcome in outcomes if outcome.error is None and outcome.missing]
    set_aside = [listener.found[id(job)] for job in queue if id(job) in listener.found]
    known = gangs.reasons if gangs is not None else {}
    unsatisfied = _explain(short, calculator.node_mgr, known)
    _log_causes(unsatisfied)
    return unsatisfied, set_aside


def _place(
    place: Callable[[Sequence[Job]], list[Outcome]], waiting: Sequence[Job], node_mgr: NodeManager
) -> list[Outcome]:
    """Place jobs; wishes that include the nodes of jobs come last, and want less by those."""
    last = [job for job in waiting if isinstance(job, RequestJob) and job.includes_jobs]
    if not last:
        return place(waiting)
    ids = set(map(id, last))
    outcomes = place([job for job in waiting if id(job) not in ids])
    wishes = [job for job in waiting if isinstance(job, RequestJob)]
    take_off_work(last, wishes, node_mgr.get_nodes())
    missing = [job for job in last if job.iterations_remaining]
    return [*outcomes, *place(missing)]


class _Listener:
    """Says what is being worked on, and sets aside the jobs that fail."""

    def __init__(self, set_context: SetContext) -> None:
        self.found: dict[int, SetAsideJob] = {}  # by the id of the job, which need not be one
        self._set_context = set_context

    def begins(self, job: Job) -> None:
        """A context of its own for each job."""
        self._set_context(f"[Job {job.name}]")

    def failed(self, job: Job, error: Exception) -> bool:
        """Set a job aside, with a line in the log; the others are placed."""
        logging.debug("set aside: %r", job, exc_info=error)
        self.set_aside(job, one_line(error))
        return True

    def set_aside(self, job: Job, reason: str) -> None:
        """Keep and log why a job could not be looked at."""
        aside = SetAsideJob(
            name_of_job(job), reason, is_running(job), isinstance(job, UnusableHost)
        )
        self.found[id(job)] = aside
        logging.warning("%s is set aside: %s", aside.about, reason)


class _Explainer:
    """Says of outcomes what stopped their jobs, by the limits of the buckets as they were when this
    was made."""

    def __init__(self, node_mgr: NodeManager) -> None:
        self._node_mgr = node_mgr
        self._buckets = node_mgr.get_buckets()
        self._full = {id(bucket): stopping_limits(bucket) for bucket in self._buckets}
        self._known = Known(node_mgr)
        self._kinds = Kinds(node_mgr)

    def cause_of(self, outcome: Outcome) -> tuple[str, str | None]:
        """Why a job got no more, and the limits among that."""
        with muted():
            candidates = outcome.job.bucket_candidates(self._buckets).candidates
        said = dict.fromkeys(limit for bucket in candidates for limit in self._full[id(bucket)])
        limit = "; ".join(said) or None
        away = map(away_in_words, clusters_missing(outcome.job, self._node_mgr))
        reasons = dict.fromkeys((*away, *(" ".join(each.split()) for each in outcome.reasons)))
        return "; ".join(reasons) or limit or "no node has room", limit

    def verdict_on(self, outcome: Outcome) -> Verdict:
        """The verdict on its job."""
        return verdict_on_waiting(outcome.job, self._node_mgr, known=self._known)

    def kind_of(self, compiled: Compiled, outcome: Outcome) -> Hashable | None:
        """What its job has in common with others that wait for the same; None where nobody knows
        of any. `compiled`: its constraints as they were when it was placed."""
        return self._kinds.kind_of(outcome.job, compiled)

    def cause_of_gang(self, of: tuple[Outcome, GangNews, Explanation]) -> tuple[str, str | None]:
        """What is known of a gang, before what stops all jobs like it."""
        _, (known, _), cause = of
        reason, limit = cause.said
        return f"{known}; {reason}", f"{known}; {limit}" if limit else known

    def verdict_on_gang(self, of: tuple[Outcome, GangNews, Explanation]) -> Verdict:
        """The verdict on a gang of which something is known."""
        outcome, known, _ = of
        return verdict_on_waiting(outcome.job, self._node_mgr, known, self._known)


def _kind_of_gang(compiled: Compiled, of: tuple[Outcome, GangNews, Explanation]) -> Hashable | None:
    """What a gang has in common with others that ask for just the same, and of which the same is
    known."""
    outcome, known, _ = of
    asked = kind_by_text(outcome.job, compiled)
    return asked and (asked, known)


def _explain(
    short: Iterable[Outcome], node_mgr: NodeManager, of_gangs: Mapping[str, GangNews]
) -> list[UnsatisfiedJob]:
    """Say of each job what stopped it. Equal jobs are stopped by the same things; that is worked
    out once, when it is read. `of_gangs`: what is known of gangs beside that, by job.

    Limits are said as they are now: a pass that goes on charges them, or gives back.
    """
    explainer = _Explainer(node_mgr)
    known: dict[tuple[Compiled, int, bool], Explanation] = {}
    explained = []
    for outcome in short:
        job = outcome.job
        alike = (job.compiled_constraints(), job.node_count, job.colocated)
        cause = known.get(alike)
        if cause is None:
            kind_of = functools.partial(explainer.kind_of, alike[0])
            cause = Explanation(explainer.cause_of, explainer.verdict_on, outcome, kind_of)
            known[alike] = cause
        if job.colocated and job.name in of_gangs:
            given = (outcome, of_gangs[job.name], cause)
            kind_of = functools.partial(_kind_of_gang, alike[0])
            cause = Explanation(explainer.cause_of_gang, explainer.verdict_on_gang, given, kind_of)
        unit = "nodes" if job.node_count > 0 else "slots"
        explained.append(UnsatisfiedJob(job.name, outcome.missing, cause, unit=unit, job=job))
    return explained


def _log_causes(unsatisfied: Sequence[UnsatisfiedJob]) -> None:
    """Write why jobs wait, at INFO: an entry for each cause that names one of the jobs and counts
    the others.

    Nothing is worked out where nobody reads it, nor for more than `CAUSES_LOGGED` causes.
    """
    if not _log.isEnabledFor(logging.INFO):
        return
    alike = partition(unsatisfied, lambda job: id(job.cause))
    for jobs in islice(alike.values(), CAUSES_LOGGED):
        first, others = jobs[0], len(jobs) - 1
        more = f" (and {counted(others, 'more job')})" if others else ""
        _log.info("job %s lacks %s: %s%s", first.name, first.lacking, first.reason, more)
    rest = sum(len(jobs) for jobs in islice(alike.values(), CAUSES_LOGGED, None))
    if rest:
        causes = counted(len(alike) - CAUSES_LOGGED, "other reason")
        _log.info("and %s, for %s", counted(rest, "more job"), causes)


def judge_now(unsatisfied: Sequence[UnsatisfiedJob], most: int | None = CAUSES_LOGGED) -> None:
    """Work out why jobs wait, for `most` causes or for all, before anything gives back what the
    jobs were stopped by; in any case what a summary tells."""
    causes = {id(job.cause): job.cause for job in unsatisfied}
    for cause in islice(causes.values(), most):
        _ = cause.said
    for cause in causes.values() if most is None else ():
        _ = cause.verdict
    stuck_jobs(unsatisfied)


def stopping_limits(bucket: NodeBucket) -> list[str]:
    """The limits that leave no room for a node of a bucket, each said once.

    A limit that several buckets share says more than a bucket's own count, which the server has cut
    down to it.
    """
    if bucket.is_artificial:
        return []
    full = [limit for limit in bucket.limits.parts if limit.room(bucket.vcpu_count) < 1]
    shared = [limit for limit in full if limit is not bucket.limits.own]
    return list(dict.fromkeys(limit.describe() for limit in shared or full))


def node_names(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Names, those of one nodearray by number."""
    return tuple(sorted([node.name for node in nodes], key=ht.name_order))


def hosts_named(jobs: Iterable[object]) -> set[str]:
    """The short names of the hosts that jobs name as where they run."""
    return {
        short_name(hostname)
        for job in jobs
        for hostname in getattr(job, "executing_hostnames", None) or []  # it may be no job at all
    }


def busy_nodes(
    nodes: Iterable[Node],
    jobs: Iterable[Job],
    scheduler_nodes: Iterable[SchedulerNode],
    gone: Collection[str] = (),
) -> set[object]:
    """Keys of the cluster's nodes on which, as the scheduler has it, something runs, or of which
    that cannot be ruled out. `gone`: ids of nodes that there were before."""
    jobs, hosts, nodes = list(jobs), list(scheduler_nodes), list(nodes)
    if any(isinstance(job, UnusableJob) and job.runs_who_knows_where for job in jobs):
        return set(map(key_of, nodes))
    identities = Identities(nodes, gone)
    named = hosts_named(jobs)
    busy = [host for host in hosts if is_at_work(host, named)]
    found = [node for host in busy for node in identities.might_be(host)]
    alone = named.difference(short_name(host.hostname) for host in hosts)
    called: dict[str, list[Node]] = {}
    for node in nodes if alone else ():
        for name in names_of(node):
            called.setdefault(name, []).append(node)
    # whoever names no host of the cluster may mean the node of that name
    found.extend(n for name in alone for n in identities.named(name) or called.get(name, []))
    return set(map(key_of, found))
