"""Answers nodes that ask whether they may stop, and stops those that are told yes.

Demand is looked at as a dry run looks at it: the request sets in force, and the jobs of the
scheduler where there is a driver. A yes takes a look of its own; a no is repeated for some seconds,
so that thousands of nodes that are wanted cost no look each. Nodes that ask while others are being
answered are answered together. `web` calls this for requests over HTTP.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler import learning
from hpc.autoscale.autoscaler.loop import Autoscaler, NewDriver
from hpc.autoscale.autoscaler.passes import READING_CLUSTERS, Pass
from hpc.autoscale.autoscaler.summary import PassError
from hpc.autoscale.autostop.decision import Answer, Code, KnownNode, Surplus, refusals
from hpc.autoscale.autostop.ledger import Ledger
from hpc.autoscale.config.clusters import members_of
from hpc.autoscale.errors import AutoscaleError, ReadOnlyModeException, one_line
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.guards import Refusal
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.requestsets.store import RequestSet, RequestStore

NO_SECONDS = 10.0
"""How long a no is repeated without a look, unless a request set has changed."""


class StopService:
    """Answers for the cluster of a configuration. Any number of threads may ask.

    `new_driver` makes the driver for one look. `ledger` is the file that all who decide on this
    cluster share; it is made when there is none. `store` has the request sets. `has_scheduler`:
    whether the driver knows what all nodearrays are for; else nodes may stop only in those that a
    request set has ever named. `autostop.terminate` of the configuration says whether nodes are
    deleted here, or stop by themselves.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        new_driver: NewDriver,
        ledger: Ledger,
        store: RequestStore,
        has_scheduler: bool,
    ) -> None:
        if config.get("read_only"):
            raise ReadOnlyModeException("nodes cannot be stopped: the configuration is read-only")
        self._terminates = (config.get("autostop") or {}).get("terminate", True)
        self._ledger = ledger
        self._store = store
        self._has_scheduler = has_scheduler
        self._autoscaler = Autoscaler(
            config, new_driver, dry_run=True, new_calculator=_calculator_that_commands
        )
        # a node knows its cluster by the name that it has in CycleCloud
        names = [str(own["cluster_name"]) for _, own in members_of(config)]
        self.cluster_names: Collection[str] = names or [str(config.get("cluster_name") or "")]
        self.cluster_name = ", ".join(dict.fromkeys(self.cluster_names))
        ledger.prepare()
        # one thread, because drivers may keep what belongs to the thread that made it
        self._worker = ThreadPoolExecutor(1, "autostop")
        self._queue = threading.Lock()
        self._questions: list[_Question] = []
        self._last: _Look | None = None

    def ask(self, instance: str, reason: str = "") -> Answer:
        """Whether the node with this InstanceId, or NodeId, may stop.

        It never raises: what cannot be found out is an answer, too. `reason` is for the log.
        """
        question = _Question(instance)
        with self._queue:
            self._questions.append(question)
        self._worker.submit(self._answer_waiting).result()
        answer = question.answer or _unknown("it was not answered")
        said = f" ({reason})" if reason else ""
        logging.info("%s asks to stop%s: %s", answer.node or instance, said, answer.text)
        return answer

    def _answer_waiting(self) -> None:
        """Answer all who wait; nobody may, where the one before was answered with others."""
        with self._queue:
            questions, self._questions = self._questions, []
        if not questions:
            return
        try:
            self._repeat(questions)
            rest = [question for question in questions if question.answer is None]
            if rest:
                self._decide(rest)
        except Exception as error:  # noqa: BLE001  drivers are not ours: each node gets an answer
            logging.error("autostop: %s", one_line(error))
            logging.debug("stack trace", exc_info=error)
            for question in questions:
                question.answer = question.answer or _unknown(one_line(error))
        finally:
            self._autoscaler.driver.close_histories()

    def _repeat(self, questions: Sequence[_Question]) -> None:
        """Answer those that are told no by the last look, if that was a moment ago."""
        last, now = self._last, clock.time()
        if last is None or not 0 <= now - last.at < NO_SECONDS or self._standing() != last.sets:
            return
        asking = {q: last.surplus.find(q.instance) for q in questions}
        known = {q: found[0].node_id for q, found in asking.items() if len(found) == 1}
        no = refusals(last.surplus, known.values(), self._ledger.reserved(now))
        for question, node_id in known.items():
            question.answer = no.get(node_id)

    def _decide(self, questions: Sequence[_Question]) -> None:
        sets, now = self._standing(), clock.time()
        one = self._autoscaler.look()
        # nodes of a cluster that does not answer are told no, and the others what is so
        faults = [each for each in one.faults.found if each.phase != READING_CLUSTERS]
        if faults:
            raise AutoscaleError("; ".join(map(str, faults)))
        surplus = one.surplus(None if self._has_scheduler else self._store.nodearrays())
        self._last = _Look(surplus, now, sets)
        known: dict[str, list[_Question]] = {}
        now = clock.time()
        for question in questions:
            found = surplus.find(question.instance)
            if len(found) == 1:
                known.setdefault(found[0].node_id, []).append(question)
            else:
                question.answer = self._not_found(question.instance, found, now)
        if not known:
            return
        answers = self._ledger.decide(surplus, list(known), now, not self._terminates)
        yes = [each for each in known if answers[each].accepted]
        if yes and self._terminates:
            answers.update(self._stop(one, surplus, yes))
        for node_id, asking in known.items():
            for question in asking:
                question.answer = answers[node_id]

    def _standing(self) -> list[RequestSet]:
        now = clock.time()
        return [one for one in self._store.sets() if one.stands(now)]

    def _not_found(self, instance: str, found: Sequence[KnownNode], now: float) -> Answer:
        if found:
            names = ", ".join(one.name for one in found)
            return Answer(Code.AMBIGUOUS, f"instance {instance} stands for several nodes: {names}")
        return self._ledger.told_yes(instance, now) or Answer(
            Code.UNKNOWN_INSTANCE,
            f"cluster {self.cluster_name} has no node with instance {instance} that runs",
        )

    def _stop(self, one: Pass, surplus: Surplus, node_ids: Sequence[str]) -> dict[str, Answer]:
        """Delete nodes that may go; another answer for those of which nothing came."""
        refused = one.stop(node_ids)
        deleted = set(one.outcome.get("deleted", ()))
        answers: dict[str, Answer] = {}
        for node_id in node_ids:
            name = surplus.by_id[node_id].name
            if name not in deleted:
                answers[node_id] = _why_not(name, refused.get(node_id), one.faults.found)
        needed = (Code.HAS_WORK, Code.KEEP_ALIVE)
        released = [each for each, no in answers.items() if no.code in needed]
        if released:
            self._ledger.release(released)
        return answers


def _why_not(name: str, refusal: Refusal | None, faults: Sequence[PassError]) -> Answer:
    """What a node is told that may stop and was not deleted."""
    if faults:
        problem = "; ".join(map(str, faults))
        text = f"{name} may stop, and could not be stopped yet: {problem}"
        return Answer(Code.STOP_FAILED, text, name)
    if refusal is None:
        text = f"{name} may stop when the scheduler has drained it"
        return Answer(Code.DRAINING, text, name)
    if refusal.is_ration:
        return Answer(Code.LATER, f"{name} may stop, but not yet: it {refusal.text}", name)
    code = Code.KEEP_ALIVE if refusal.code == "KeepAlive" else Code.HAS_WORK
    return Answer(code, f"{name} {refusal.text}", name)


class _Look(NamedTuple):
    """What a look has found, when it began, and which request sets stood then."""

    surplus: Surplus
    at: float
    sets: list[RequestSet]


class _Question:
    """One node that asks, and what it is told."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self.answer: Answer | None = None


def _unknown(why: str) -> Answer:
    return Answer(Code.DEMAND_UNKNOWN, f"what is wanted is unknown now: {why}")


def _calculator_that_commands(
    config: dict[str, Any], driver: SchedulerDriver
) -> tuple[DemandCalculator, Sequence[Job]]:
    """A calculator for a dry run whose nodes can be deleted afterwards. The driver is told that
    nothing may be changed. What is deleted is written down where the loop looks, which gives no
    work to nodes whose removal may still arrive; nor are they counted on here."""
    commanding = {**learning.with_requests_file(config, driver), "read_only": False}
    node_mgr = new_node_manager(commanding)
    driver.preprocess_node_mgr(config, node_mgr)
    return learning.new_calculator(config, driver, node_mgr)
