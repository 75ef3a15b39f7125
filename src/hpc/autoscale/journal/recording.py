"""Listening to a pass: what comes in through its doors, and what goes out, becomes a record.

The doors are the binding of the cluster and the driver of the scheduler. `PassRecorder` stands
beside them: it answers nothing and changes nothing, and what fails here never fails a pass. Called
by the loop; a pass finds it in its configuration.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from operator import itemgetter
from socket import gethostname
from typing import Any, Concatenate, ParamSpec, cast

from hpc.autoscale import clock
from hpc.autoscale import hpctypes as ht
from hpc.autoscale._version import __version__
from hpc.autoscale.ccbindings import MADE_BY, new_cluster_bindings
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.models import ClusterStatus, NodeList
from hpc.autoscale.commands import Ran
from hpc.autoscale.config.secrets import known_secrets
from hpc.autoscale.errors import one_line
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.journal.changes import NO_ROWS, Rows, change, distinct, leading, settled
from hpc.autoscale.journal.digests import digest
from hpc.autoscale.journal.listening import COMMANDS, HeardBinding
from hpc.autoscale.journal.raised import as_json
from hpc.autoscale.journal.records import EMPTY, NAMES, Written, key_of_node, status_rows
from hpc.autoscale.journal.snapshots import host_rows, job_rows
from hpc.autoscale.journal.waiting import unsatisfied_rows
from hpc.autoscale.leastcost.searches import SEARCHES, Searches
from hpc.autoscale.node.guards import key_of
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import server_ids_of
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.pricing import is_paid_for, node_price
from hpc.autoscale.node.requests import RequestLog, Sender, file_of, hearing_ids
from hpc.autoscale.onpremises.hosts import ON_PREMISES
from hpc.autoscale.onpremises.workers import RUN_EACH, RunEach, State, run_here
from hpc.autoscale.redaction import Hiding, redact, redact_texts
from hpc.autoscale.requestsets.dynamic import bucket_of
from hpc.autoscale.requestsets.extending import DRIVERS_WISH, DriversWish

RECORDER = "_journal"
"""The entry of a pass's configuration with its recorder."""

_HOOKS = {"handle_undraining": "undrain", "handle_draining": "drain"}
_OF_WORKERS = {"starting": "start_worker", "stopping": "stop_worker"}


P = ParamSpec("P")


def _apart(
    hear: Callable[Concatenate[PassRecorder, P], None],
) -> Callable[Concatenate[PassRecorder, P], None]:
    """Let what fails while something is heard be a problem of the record, and not of the pass."""

    @functools.wraps(hear)
    def heard(recorder: PassRecorder, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            hear(recorder, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see above
            said = f"the pass could not be recorded: {one_line(error)}"
            recorder.problem = recorder.problem or said

    return heard


class PassRecorder:
    """What is heard of one pass. It may be called by several threads. `problem`: why the record is
    not complete."""

    def __init__(self, at: float, driver: object, before: Mapping[str, Rows] | None = None) -> None:
        """`before`: the lists of the last record, where they are known."""
        self.at = at
        self.by = {
            "program": f"hpc-autoscale {__version__}",
            "driver": f"{type(driver).__module__}:{type(driver).__qualname__}",
            "scheduler": str(driver),
            "host": gethostname(),
            "pid": os.getpid(),
            "source": "loop",
        }
        queue = getattr(driver, "new_node_queue", None)
        if getattr(queue, "__func__", None) is not SchedulerDriver.new_node_queue:
            self.by["queue"] = "own"  # nodes are in an order that nobody else knows
        self.lists: dict[str, Rows] = dict(EMPTY)
        self.decided: list[dict[str, Any]] = []
        self.why: Mapping[object, str] = {}
        self._before = before or {}
        self._named: tuple[list[Node], Rows] = ([], NO_ROWS)
        self.problem: str | None = None
        self.calls: list[dict[str, Any]] = []
        self.times: list[float] = []
        self._times_beside: list[float] = []
        self._thread = threading.get_ident()
        self.ids: list[str] = []
        self.doors: dict[str, Any] = {}
        self._hosts: list[Node] = []
        self._called: dict[str, int] = {}
        self._turn = threading.Lock()
        self._is_new = {"status", "nodes", "jobs", "hosts"}

    @_apart
    def note_senders(self, config: Mapping[str, Any]) -> None:
        """Note who this is to those who look at requests, how the clock is set, and of others with
        requests under way whether they still run."""
        self.doors["here"] = list(Sender.here())
        self.doors["booted_at"] = clock.booted_at()
        path = config.get("requests_file")
        if not path or not os.path.exists(file_of(path)):
            return
        log = RequestLog(path)
        others = {sent.sender for sent in log.creates} | {each.sender for each in log.removals}
        others.discard(Sender.here())
        if others:
            self.doors["senders"] = [[*each, each.state()] for each in sorted(others)]

    # -- the doors

    def around(self, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration of a pass that is listened to."""
        made_by = config.get(MADE_BY)

        def make(own: Mapping[str, Any]) -> ClusterBindingInterface:
            try:
                binding = new_cluster_bindings({**own, MADE_BY: made_by} if made_by else own)
            except Exception as error:
                self.heard("binding", error=as_json(error))
                raise
            return cast(ClusterBindingInterface, HeardBinding(binding, self))

        return {
            **config,
            MADE_BY: make,
            RUN_EACH: self._runner(config.get(RUN_EACH) or run_here),
            RECORDER: self,
            SEARCHES: config.get(SEARCHES) or Searches(),
        }

    def _runner(self, run: RunEach) -> RunEach:
        """What runs the commands of hosts on premises, listened to."""

        def heard(
            doing: State, commands: Mapping[str, Sequence[str]], timeouts: Mapping[str, float]
        ) -> dict[str, Ran]:
            self.heard_workers(doing, commands)
            with self.outside():
                ran = run(doing, commands, timeouts)
            said = [[host, *each] for host, each in ran.items()]  # keys are no names, for `scrub`
            self.heard("workers", doing=doing, asked=list(commands), ran=said)
            return ran

        return heard

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While a pass runs: the time that it is told and the ids that it draws are kept."""
        self._thread = threading.get_ident()
        with clock.heard_by(self._heard_time), hearing_ids(self.ids.append):
            yield

    def _heard_time(self, now: float) -> None:
        """The pass was told the time. Threads that work for it side by side are told it in any
        order, and how often depends on that."""
        own = threading.get_ident() == self._thread
        (self.times if own else self._times_beside).append(now)

    def outside(self) -> AbstractContextManager[None]:
        """While others work: what time they are told decides nothing here."""
        return clock.heard_by(None)

    @_apart
    def heard_reading(self, jobs: Sequence[object], hosts: Sequence[Node]) -> None:
        """The scheduler was read."""
        found = {
            "jobs": job_rows(jobs, self._known("jobs")),
            "hosts": host_rows(hosts, self._known("hosts")),
        }
        self._hosts = list(hosts)
        self.heard("reading", **self._lists(found))

    @_apart
    def heard_no_reading(self, error: Exception) -> None:
        """The scheduler could not be read."""
        self.heard("reading", error=as_json(error))

    @_apart
    def heard_validation(self, hosts: Sequence[Node], node_mgr: NodeManager) -> None:
        """The driver has compared its hosts with the nodes of the cluster, and prepared the
        manager."""
        gone: list[int] = []
        if list(hosts) != self._hosts:
            kept = set(map(id, hosts))
            gone = [index for index, host in enumerate(self._hosts) if id(host) not in kept]
        why = node_mgr.gate.facts.why
        failed = sorted(str(key) for key, reason in why.items() if reason == "marked")
        self.lists["resources"] = resource_rows(node_mgr.get_buckets())
        if gone or failed:
            self.doors["validated"] = {"gone": gone, "failed": failed}

    @_apart
    def heard_status(self, status: object, nodes: bool, news: Mapping[str, Any]) -> None:
        """The cluster has answered with its status. `news`: what else is another one now."""
        rows = {"status": status_rows(status_json(status))._replace(plain=redact_texts)}
        listed = ClusterStatus.adopt(status).nodes
        if listed is not None:
            rows["nodes"] = node_rows(listed, self._known("nodes"))
        self.heard("status", asked=nodes, **self._lists(rows), **news)

    @_apart
    def heard_nodes(self, listing: object, news: Mapping[str, Any]) -> None:
        """The cluster has listed its nodes. `news` as in `heard_status`."""
        found = NodeList.adopt(listing)
        source = getattr(found, "body", None)
        rows = {"nodes": node_rows(found.nodes or (), self._known("nodes"), source)}
        self.heard("nodes", **self._lists(rows), **news)

    @_apart
    def heard_as_read(self, status: object, listing: object, news: Mapping[str, Any]) -> None:
        """The status and the nodes of several clusters, without what was set aside since they were
        read. `news` as in `heard_status`."""
        rows = {
            "status": status_rows(status_json(status))._replace(plain=redact_texts),
            "nodes": node_rows(NodeList.adopt(listing).nodes or (), self._known("nodes")),
        }
        self.heard("as_read", **self._lists(rows), **news)

    @_apart
    def heard_workers(self, doing: str, hosts: Iterable[str]) -> None:
        """Workers of hosts on premises are about to be started, or stopped."""
        action = _OF_WORKERS[doing]
        rows = [
            {"action": action, "bucket": ON_PREMISES, "count": 1, "nodes": [host]}
            | {"price_per_hour": 0.0, "jobs": [], "node": host}
            for host in hosts
        ]
        with self._turn:
            self.decided += rows

    @_apart
    def heard_telling(self, notes: Sequence[str]) -> None:
        """What is noted of telling why jobs wait, which is the driver's business."""
        self.doors["telling"] = list(notes)

    @_apart
    def heard_listing(self, asked: str | None, listing: object, news: Mapping[str, Any]) -> None:
        """The nodes of an operation or a request were listed. `news` as in `heard_status`."""
        answer = redact_texts(NodeList.adopt(listing).to_dict())
        self.heard("listing", id=asked, answer=answer, **news)

    @_apart
    def heard_done(self, known: Mapping[str, Any], answer: Any, news: Mapping[str, Any]) -> None:
        """A command was answered. `known`: which one; `news` as in `heard_status`."""
        plain = answer.to_dict() if hasattr(answer, "to_dict") else None
        # what no server sends, as it is what the client made of a lost answer
        own = {"is_worked_out": True} if getattr(answer, "is_worked_out", False) else {}
        self.heard("command", **known, answer=plain, **own, **news)

    @_apart
    def heard_error(self, door: str, known: Mapping[str, Any], error: Exception) -> None:
        """A question to the cluster, or a command, has failed."""
        self.heard(door, **known, error=as_json(error))

    def heard(self, door: str, **what: Any) -> None:
        """Something came in through a door."""
        with self._turn:
            self.calls.append({"door": door, **what})

    def _known(self, name: str) -> Rows:
        """The list of that name that was heard or recorded last."""
        known = self._before if name in self._is_new else self.lists
        return known.get(name, NO_ROWS)

    def _lists(self, found: Mapping[str, Rows]) -> dict[str, Any]:
        """Lists that were read: the first of each is that of the record, and others say how they
        differ from it."""
        said: dict[str, Any] = {}
        for name, rows in found.items():
            if self._first(name):
                self.lists[name] = rows
            else:
                said[name] = change(self.lists[name], rows)
        return said

    @_apart
    def heard_command(self, action: str, nodes: Iterable[Node]) -> None:
        """A command about nodes is about to be given."""
        rows = list(self._rows(action, list(nodes)))
        with self._turn:
            self.decided += rows

    @_apart
    def heard_hook(self, hook: str, given: Sequence[Node]) -> None:
        """A method of the driver that takes nodes is about to be called."""
        action = _HOOKS.get(hook)
        if action and given:
            self.heard_command(action, given)

    @_apart
    def heard_answer(self, hook: str, given: Sequence[Node], answer: object) -> None:
        """Such a method has returned, or raised."""
        number = self._called.get(hook, 0)
        self._called[hook] = number + 1
        name = f"{hook}:{number}" if number else hook
        self.lists[f"given:{name}"] = self._names(given, f"given:{name}")
        if isinstance(answer, BaseException):
            self.heard("hook", name=hook, error=as_json(answer))
            return
        if isinstance(answer, list) and answer == given:
            self.heard("hook", name=hook)
            return
        listed = answer if isinstance(answer, list) else [answer]
        odd = [each for each in listed if not isinstance(each, Node)]
        if odd:
            self.heard("hook", name=hook, odd=repr(odd[0])[:200], among=listed is answer)
            return
        names = self._names(cast(list[Node], listed), f"returned:{name}")
        self.lists[f"returned:{name}"] = names
        self.heard("hook", name=hook, returned=True)

    def _names(self, nodes: Sequence[Node], name: str) -> Rows:
        """What nodes are called, for the list of that name; the same nodes are asked once."""
        known, names = self._named
        if list(nodes) != known:
            names = Rows.of_texts(names_of(nodes), self._before.get(name))
            self._named = (list(nodes), names)
        return names

    def _first(self, what: str) -> bool:
        with self._turn:
            is_first = what in self._is_new
            self._is_new.discard(what)
            return is_first

    def _rows(self, action: str, nodes: Sequence[Node]) -> Iterable[dict[str, Any]]:
        """What is decided, as rows: one for each node, and for new ones one for each bucket."""
        if action != "create":
            for node in nodes:
                found = _about(action, [node])
                reason = self.why.get(key_of(node))
                yield {**found, "node": str(node.name), **({"reason": reason} if reason else {})}
            return
        alike: dict[str, list[Node]] = {}
        for node in nodes:
            alike.setdefault(bucket_of(node), []).append(node)
        for some in alike.values():
            yield _about(action, some)

    # -- the end

    def note_waiting(self, jobs: Sequence[Any]) -> None:
        """Note the jobs that wait, as a summary has them."""
        before = self._before.get("unsatisfied", NO_ROWS)
        self.lists["unsatisfied"] = unsatisfied_rows(jobs, before)

    def written(self, config: Mapping[str, Any], did: Mapping[str, Any]) -> Written:
        """The record. `did`: what the pass did, as JSON, `unsatisfied` left out."""
        own = dict(did)
        searches: Searches | None = config.get(SEARCHES)
        if searches and searches.went:
            self.doors["searches"] = searches.went
        wish: DriversWish | None = config.get(DRIVERS_WISH)
        self.doors["driver"] = wish.name if wish else ""
        # a driver is not asked again what it could not answer, or was not asked in this pass
        if wish and wish.answered:
            self.doors["wanted"] = redact_texts([dict(each) for each in wish.answered])
        for name in NAMES:
            self.lists[name] = Rows.of_texts(own.pop(name, ()), self._before.get(name))
        return Written(
            at=self.at,
            by=self.by,
            config=readable(config),
            # what could not be read is not known, which is another thing than that there is none
            lists={name: rows for name, rows in self.lists.items() if name not in self._is_new},
            decided=_in_order(self.decided),
            did=own,
            doors={
                **self.doors,
                "calls": self.calls,
                "clock": self.times,
                **({"clock_beside": self._times_beside} if self._times_beside else {}),
                "ids": self.ids,
            },
            hiding=Hiding(*known_secrets(config)),
        )


def _in_order(decided: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Commands, where those of one kind that follow each other are sorted by cluster, and new nodes
    by bucket: clusters and requests are asked side by side."""

    def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
        bucket = str(row["bucket"])
        return (bucket, row["nodes"]) if row["action"] == "create" else (bucket.split("/")[0],)

    return [
        row
        for action, rows in groupby(decided, key=itemgetter("action"))
        for row in (sorted(rows, key=place) if action in COMMANDS.values() else rows)
    ]


def readable(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as a journal has it: without secrets, and without live objects."""
    own = {k: v for k, v in config.items() if not str(k).startswith("_")}
    found: dict[str, Any] = redact(own)
    return found


def names_of(nodes: Sequence[Node]) -> list[str]:
    """What nodes are called in a record: each by its NodeId, else by its host name or name."""
    pairs = zip(server_ids_of(nodes), nodes, strict=True)
    return [known or str(node.hostname or node.name) for known, node in pairs]


def resource_rows(buckets: Iterable[Any]) -> Rows:
    """What nodes of each bucket offer, once all default resources are defined."""
    found = [
        (f"{b.nodearray}/{b.vm_size}/{b.placement_group or ''}", dict(b.resources)) for b in buckets
    ]
    return Rows(distinct([key for key, _ in found]), [value for _, value in found])


def node_rows(
    records: Sequence[Mapping[str, Any]], before: Rows = NO_ROWS, source: bytes | None = None
) -> Rows:
    """The records of a listing. `before`: those of the last one; a record that is as it was there
    is the same object. `source`: the reply that they were made of, where that is known."""
    if source is not None and source == before.source:
        return before
    if source is not None and before.are_digests and before.source == digest(source):
        # no pass writes to a record; they are written only where that of this pass stands by itself
        return Rows(before.keys, list(records), redact_texts, source=source, digested=before)
    rows = settled(records, before, leading, _name_of_record, dict, plain=redact_texts)
    return rows._replace(source=source)


def _name_of_record(record: Mapping[str, Any]) -> str:
    return str(key_of_node(record))


def status_json(status: object) -> dict[str, Any]:
    """The JSON form of a status, that of several clusters with its parts."""
    parts: Mapping[str, ClusterStatus] = getattr(status, "parts", None) or {}
    found: dict[str, Any] = ClusterStatus.adopt(status).to_dict()
    found.pop("nodes", None)
    if parts:
        found["nodearrays"] = []
        found["problems"] = list(getattr(status, "problems", ()))
        found["parts"] = {name: part.to_dict() for name, part in parts.items()}
    return found


def _about(action: str, nodes: Sequence[Node]) -> dict[str, Any]:
    prices = [
        node_price(node) if action != "delete" or is_paid_for(node) else 0.0 for node in nodes
    ]
    known = [price for price in prices if price is not None]
    sign = -1 if action in ("delete",) else 1
    changes = action in ("create", "start", "delete")
    total: float | None = round(sign * sum(known), 6) if len(known) == len(prices) else None
    jobs = {str(job) for node in nodes for job in node.assignments}
    return {
        "action": action,
        "bucket": bucket_of(nodes[0]),
        "count": len(nodes),
        "nodes": [str(node.name) for node in nodes],
        "price_per_hour": total if changes else 0.0,
        "jobs": sorted(jobs, key=ht.name_order),
    }
