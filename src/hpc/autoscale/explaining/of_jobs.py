"""The verdict on one job of a scene: it runs, has its nodes, gets them, or waits.

Of one that waits it says what would let it start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hpc.autoscale import clock
from hpc.autoscale.errors import counted, did_you_mean
from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.explaining.fixes import fixes_for
from hpc.autoscale.explaining.of_nodes import is_up
from hpc.autoscale.explaining.refusals import in_the_way
from hpc.autoscale.explaining.refusing import who_refuses
from hpc.autoscale.explaining.scene import Scene
from hpc.autoscale.explaining.words import in_time, listed, per_hour
from hpc.autoscale.hpctypes import name_order
from hpc.autoscale.job.job import Job
from hpc.autoscale.jobs import is_running
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.onpremises.listing import OFF, is_on_premises
from hpc.autoscale.plaintext import in_words, on_one_line
from hpc.autoscale.requestsets.demand import RequestJob
from hpc.autoscale.results.verdicts import Cause, Verdict

LONGEST_REASON = 300


def explain_job(name: str, scene: Scene) -> Verdict:
    """The verdict on a job by its name, with what would let it start when it waits. One that waits
    with others, for which another job stands, may run in part."""
    if scene.handed_over:
        return _handed_over(name, scene)
    return _explain(name, scene)


def _handed_over(name: str, scene: Scene) -> Verdict:
    """The verdict on a job for which the driver hands over another."""
    other = scene.handed_over
    mine = [node for node in scene.nodes if name in node.assignments]
    if other not in scene.known_jobs():
        text = f"it is handed over as {other!r}, of which nothing more is wanted now"
        verdict = _simple(name, "NotInQueue", text)
    else:
        verdict = _explain(other, scene).about_another(f"job {name} (handed over as {other})")
    return _partly(verdict, mine) if mine else verdict


def _explain(name: str, scene: Scene) -> Verdict:
    """The verdict on a job of the queue."""
    job = next((job for job in scene.jobs if getattr(job, "name", None) == name), None)
    if name in scene.set_aside:
        reason = in_words(scene.set_aside[name], LONGEST_REASON)
        if not is_running(job):
            return _simple(name, "SetAside", reason)
        return _simple(name, "Running", f"on {_hosts(job)}; it is set aside: {reason}")
    mine = [node for node in scene.nodes if name in node.assignments]
    if not isinstance(job, Job) and mine:
        # what runs is in no queue: drivers report it as work of its nodes
        return _simple(name, "Running", f"on {_named(mine)}")
    if not isinstance(job, Job):
        guess = did_you_mean(name, scene.known_jobs())
        return _simple(name, "NotInQueue", f"the scheduler has no job {name!r}{guess}")
    if job.metadata.get("job_state") == "running":
        return _simple(name, "Running", f"on {_hosts(job)}")
    waits = scene.waiting(name)
    if waits is None and max(job.node_count, job.iterations) < 1:
        return _of_none(name, mine)
    if waits is None:
        return _placed(job, mine, scene)
    job, verdict = waits.job, waits.verdict
    node_mgr = scene.calculator.node_mgr
    found = in_the_way(job, who_refuses(job, node_mgr), node_mgr)
    verdict = verdict.fixed_by(*fixes_for(job, found, scene))
    return _partly(verdict, mine) if mine else verdict


def _of_none(name: str, mine: Sequence[Node]) -> Verdict:
    """The verdict on a job of which no task is handed over, as of an array that may have no more at
    once than run."""
    if mine:
        return _simple(name, "Running", f"on {_named(mine)}; nothing more is wanted for it now")
    line = f"Job {name} wants nothing now: no task of it may start"
    cause = Cause("HasNodes", line.partition(": ")[2], nearness=0)
    return Verdict(f"job {name}", CODES["HasNodes"].stand, "HasNodes", on_one_line(line), (cause,))


def explain_unknown(name: str, guess: str) -> Verdict:
    """The verdict on a name that neither a job nor anything else has. `guess`: as of
    `did_you_mean`."""
    line = f"No job, node or bucket is called {name!r}{guess}"
    verdict = _simple(name, "NotInQueue", line[0].lower() + line[1:])
    return replace(verdict, line=on_one_line(line))


def _hosts(job: object) -> str:
    """Where a job runs, which need not be one."""
    names = job.executing_hostnames if isinstance(job, Job) else ()
    return listed(names) or "hosts that the driver does not name"


def _partly(verdict: Verdict, mine: Sequence[Node]) -> Verdict:
    """The verdict on a job that has a part of what it wants."""
    verb = "is" if len(mine) == 1 else "are"
    some = f"for a part of it {counted(len(mine), 'node')} {verb} there or planned"
    return replace(verdict, line=f"{verdict.line} ({some})")


def _simple(name: str, code: str, text: str) -> Verdict:
    """A verdict of one cause."""
    about, stand = f"job {name}", CODES[code].stand
    words = {"Running": "runs", "SetAside": "is set aside"}
    line = f"Job {name} {words.get(code, 'is not in the queue')}: {text}"
    cause = Cause(code, on_one_line(text), nearness=CODES[code].nearness)
    return Verdict(about, stand, code, on_one_line(line), (cause,))


def _is_started(host: Node, scene: Scene) -> bool:
    """Whether the next pass starts the worker of a host that has work: one that was not started, or
    once more, since its scheduler misses it."""
    if host.state == OFF or scene.fate is None:
        return host.state == OFF
    return "start_worker" in scene.fate(host).actions


def _in_order(nodes: Sequence[Node]) -> list[str]:
    return sorted((str(node.name) for node in nodes), key=name_order)


def _named(nodes: Sequence[Node]) -> str:
    return listed(_in_order(nodes))


def _placed(job: Job, mine: Sequence[Node], scene: Scene) -> Verdict:
    """A job that has all that it wants, on nodes that are there or to be made."""
    name = job.name
    about = f"job {name}"
    new = [node for node in mine if not node.exists and not is_on_premises(node)]
    hosts = [node for node in mine if is_on_premises(node) and _is_started(node, scene)]
    booting = [n for n in mine if n.exists and not is_up(n) and n not in hosts]
    held = [scene.held[node.name] for node in new if node.name in scene.held]
    if held:
        code, how = "HeldByCap", "will start in a later pass on"
        which = "it" if len(new) == 1 else f"{len(held)} of the {len(new)}"
        said = held[0].text if len(held) == 1 else held[0].text.replace("is left", "are left", 1)
        text = f"{_in_words(new)}: {which} {said}"
    elif new or hosts:
        started = _in_order(hosts)
        text = listed([*([_in_words(new)] if new else []), *started])
        there = len(mine) - len(new) - len(hosts)
        if there:
            verb = "is" if there == 1 else "are"
            text += f", beside {counted(there, 'node')} that {verb} there"
        code, how = "Starts", "will start at the next pass on"
    elif booting:
        code, text, how = "WaitsForBoot", _booting(booting, scene), "waits for"
    elif mine:
        names = _named(mine)
        code, how = "HasNodes", "has its nodes"
        # a request set wants nodes, which no scheduler need know of
        is_wish = isinstance(job, RequestJob)
        text = names if is_wish else f"{names}: the scheduler is to start it there"
    else:
        code, how, text = "HasNodes", "wants nothing more", "all of it is placed"
    stand = CODES[code].stand
    line = f"Job {name} {how} {text}" if how.endswith((" on", "for", "nodes")) else ""
    line = line or f"Job {name} {how}: {text}"
    message = _messages(booting, scene)
    cause = Cause(code, on_one_line(text), count=len(mine) or 1, nearness=0, said=message)
    return Verdict(about, stand, code, on_one_line(line), (cause,))


def _in_words(nodes: Sequence[Node]) -> str:
    """New nodes, by bucket, with what they cost."""
    many = Counter(f"{node.nodearray}/{node.vm_size}" for node in nodes)
    prices = [price_per_hour(node.location, node.vm_size, node.spot) for node in nodes]
    known = [price for price in prices if price is not None]
    total = sum(known) if len(known) == len(prices) else None
    each = ", ".join(f"{count} x {where}" for where, count in many.items())
    return f"{each} ({per_hour(total)})"


def _booting(nodes: Sequence[Node], scene: Scene) -> str:
    names = _named(nodes)
    states = listed(sorted({str(node.state) for node in nodes}))
    new = [node for node in nodes if not scene.was_ready(node)]
    first = min((node.create_time_unix or 0.0 for node in new), default=0.0)
    since = f" for {in_time(clock.time() - first)}" if first else ""
    left = [node.create_time_remaining for node in new if node.create_time_remaining > 0]
    rest = f", {in_time(min(left))} before it is given up" if left else ""
    noun = "node" if len(nodes) == 1 else "nodes"
    verb = "boots" if len(nodes) == 1 else "boot"
    return f"{noun} {names}, which {verb} ({states}{since}{rest})"


def _messages(nodes: Sequence[Node], scene: Scene) -> str:
    """What the server says of nodes."""
    return listed(scene.calculator.node_mgr.get_status_messages(nodes).values())
