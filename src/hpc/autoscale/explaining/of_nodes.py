"""The verdict on one node of a scene.

It says why the node is there, why it is not deleted, what it waits for, and what the server says.
What becomes of it is not worked out here: a rehearsal of the next pass has it, and autostop itself
answers what the node would be told (`Fate`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hpc.autoscale import clock
from hpc.autoscale.backoff.hosts import nothing_left_of
from hpc.autoscale.config.reported_hosts import reports_idle_hosts
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.explaining.scene import Fate, Scene
from hpc.autoscale.explaining.words import at_time, in_time, listed, per_hour
from hpc.autoscale.hpctypes import READY_STATES
from hpc.autoscale.node.guards import AWAY, is_taken_back
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.onpremises.hosts import hosts_of
from hpc.autoscale.onpremises.listing import OFF, is_on_premises
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict
from hpc.autoscale.util import parse_boot_timeout, parse_idle_timeout

_GOING = {"delete": "deletes it", "stop_worker": "stops its worker"}
_COMING = {"start": "starts it", "start_worker": "starts its worker"}
_OTHERWISE = {
    # what else the next pass does with a node: the code, and what is said
    "undrain": ("TakenBack", "lets it take work again"),
    "join": ("Joins", "gives it to the scheduler"),
    "drain": ("Drains", "has it drained: it goes when the scheduler has let it go"),
}

_VERBS = ("is ", "was ", "has ")
"""What words of a guard begin with that tell of the node; others have a subject of their own."""


def find_node(name: str, scene: Scene) -> Node | None:
    """The node of a name, or of a host name. AutoscaleError for a host name that several have."""
    by_name = [node for node in scene.nodes if str(node.name) == name]
    short = short_name(name)
    by_host = [n for n in scene.nodes if n.hostname and short_name(n.hostname) == short]
    meant = by_name[:1] or [node for node in by_host if node.exists] or by_host
    if len(meant) > 1:
        names = listed([str(node.name) for node in meant])
        raise AutoscaleError(f"host name {name} stands for {len(meant)} nodes: {names}; name one")
    return meant[0] if meant else None


def explain_node(node: Node, scene: Scene) -> Verdict:
    """The verdict on a node."""
    causes = tuple(_causes(node, scene))
    first = causes[0]
    price = price_per_hour(node.location, node.vm_size, node.spot)
    rests = node.managed and not (node.exists or _is_planned(node))
    where = f"{node.nodearray}/{node.vm_size}, {per_hour(price)}{' when it runs' if rests else ''}"
    if not (node.managed or is_on_premises(node)):
        where = "not of CycleCloud"
    line = f"Node {node.name} ({where}) is {node.state}: {first.text}"
    about = f"node {node.name}"
    return Verdict(about, Stand.HAS, first.code, on_one_line(line), causes, until=first.until)


def _causes(node: Node, scene: Scene) -> Iterator[Cause]:
    """What is to be said of a node, what matters most first."""
    said = scene.calculator.node_mgr.get_status_messages([node])
    message = said.get(str(node.delayed_node_id.node_id), "")
    fate = scene.fate(node) if scene.fate is not None and not _is_planned(node) else Fate()
    yield from _by_state(node, scene, message)
    yield from _next_pass(fate)
    kept = list(_what_keeps(node, fate))
    if node.assignments:
        yield Cause("HasJobs", f"it has work: {_work(node)}")
    elif node.keep_alive:
        yield Cause("KeepAlive", "it is to be kept alive (KeepAlive in CycleCloud)")
    elif node.exists and is_up(node) and not _goes(fate):
        idle = _idle(node, scene, fate)
        if idle.until is None:  # it is not time that it waits for
            yield from kept
            kept = []
        yield idle
    yield from _otherwise(fate)
    yield from kept
    yield from _what_else(fate)
    is_unreported = _is_unreported(node, scene)
    if is_unreported and (node.closed or not _goes(fate)):
        text = "the scheduler does not report its host, or nothing available on it"
        yield Cause("NotReported", f"{text}: nothing starts there")
    if node.closed and not _rests(node, scene):
        whole = "a job takes it whole, or it is on its way out"
        alone = "its boot timeout is over" if is_unreported else "nobody can tell"
        why = whole if node.assignments else f"it is on its way out, or {alone}"
        yield Cause("Closed", f"it takes no more work now: {why}")
    if message and node.state in READY_STATES:
        yield Cause("StatusMessage", f"CycleCloud says: {message}", said=message)


def _is_planned(node: Node) -> bool:
    return node.managed and not (node.exists or node.delayed_node_id.node_id)


def is_up(node: Node) -> bool:
    """Whether a node has come up; a host that CycleCloud does not manage has, unless it is off."""
    return node.state in READY_STATES or not (node.managed or node.state == OFF)


def _is_unreported(node: Node, scene: Scene) -> bool:
    """Whether a node is ready and the scheduler, which reports hosts without work too, does not
    report its host, or has just begun to, with nothing available."""
    is_ready = node.managed and node.exists and node.state in READY_STATES
    is_host = node in scene.calculator.reported
    return is_ready and not is_host and reports_idle_hosts(scene.config)


def _rests(node: Node, scene: Scene) -> float | None:
    """Until when a host on premises rests; None where it does not."""
    known = scene.hosts.get(str(node.name)) if is_on_premises(node) else None
    return None if known is None else known.rests_until(clock.time())


def _next_pass(fate: Fate) -> Iterator[Cause]:
    """Whether a node goes in the next pass, or comes."""
    for action in fate.actions:
        if action in _GOING:
            why = f": it {fate.reason}" if fate.reason else ""
            spared = f"; what would spare it: {fate.spared_by}" if fate.spared_by else ""
            yield Cause("Goes", f"the next pass {_GOING[action]}{why}{spared}")
        elif action in _COMING:
            yield Cause("Comes", f"the next pass {_COMING[action]}")


def _otherwise(fate: Fate) -> Iterator[Cause]:
    """What else the next pass does with a node that stays."""
    if _goes(fate):
        return
    for action in fate.actions:
        if action in _OTHERWISE:
            code, text = _OTHERWISE[action]
            yield Cause(code, f"the next pass {text}")


def _goes(fate: Fate) -> bool:
    return any(action in _GOING for action in fate.actions)


def _what_keeps(node: Node, fate: Fate) -> Iterator[Cause]:
    """Why a node stays, beside having work."""
    told = {"HasJobs"} if node.assignments else {"KeepAlive"} if node.keep_alive else set()
    goes = "its worker is not stopped" if is_on_premises(node) else "it is not deleted"
    for refusal in fate.refusals:
        if refusal.code not in told:
            told.add(refusal.code)
            what = "it is not started" if refusal.command == "start" else goes
            why = refusal.text
            why = f"it {why}" if why.startswith(_VERBS) else why
            yield Cause(refusal.code, f"{what} now: {why}", nearness=1)
    if fate.is_left:
        text = (
            "it is not deleted now: others like it were told that they may stop, and it is wanted"
        )
        yield Cause("OthersStop", text, nearness=1)


def _what_else(fate: Fate) -> Iterator[Cause]:
    """What goes wrong in the next pass, and what a node is told that asks whether it may stop."""
    for problem in fate.problems:
        yield Cause("Trouble", f"in the next pass something goes wrong: {problem}", nearness=1)
    if fate.answer is not None:
        code = "MayStop" if fate.answer.accepted else "MayNotStop"
        yield Cause(code, f"if it asks by itself (autostop): {fate.answer.text}", nearness=1)


def _by_state(node: Node, scene: Scene, message: str) -> Iterator[Cause]:
    """What is to be said of a node that is not ready."""
    if node.state == "Failed":
        text = message or "the server does not say why"
        yield Cause("Failed", f"it has failed: {text}", said=message)
    elif _is_planned(node):
        held = scene.held.get(node.name)
        text = held.text if held else f"the next pass asks for it, for {_work(node)}"
        yield Cause("Planned", text)
    elif node.exists and node.state == AWAY:
        yield Cause("ClusterAway", "its cluster does not answer, so nothing is done with it")
    elif is_on_premises(node) and node.state == OFF:
        yield from _of_the_site(node, scene)
    elif is_taken_back(node):
        says = f"; CycleCloud says: {message}" if message else ""
        yield Cause("TakenAway", f"it is being taken away, and gets no work{says}", said=message)
    elif node.exists and not is_up(node):
        yield _boots(node, scene, message)
    elif not node.exists and not node.assignments:
        yield Cause("AtRest", "it rests, and takes no place: it is started when a job needs it")


def _of_the_site(node: Node, scene: Scene) -> Iterator[Cause]:
    """A host on premises whose worker was not started, or could not be."""
    until = _rests(node, scene)
    if until is not None:
        known = scene.hosts[str(node.name)]
        what = "stopped" if known.state == "stopping" else "started"
        why = f" ({known.backoff.message})" if known.backoff and known.backoff.message else ""
        code, text = "CommandFailed", f"its worker could not be {what}{why}"
        if known.is_silent:
            code = "NotReported"
            text = "its worker was started again, and the scheduler does not report it"
        yield Cause(code, f"{text}: next try {at_time(until)}", until=until)
    elif not node.assignments:
        text = "its worker is not started, until a job needs it"
        if node in scene.calculator.reported and (lacking := listed(nothing_left_of(node))):
            said = f"the scheduler reports its host, with no {lacking} available"
            text = f"its worker is not started, nor any job placed on it that needs that: {said}"
        yield Cause("AtRest", text)


def _work(node: Node) -> str:
    return listed(sorted(map(str, node.assignments))) or "nobody"


def _boots(node: Node, scene: Scene, message: str) -> Cause:
    created = node.create_time_unix
    says = f"; CycleCloud says: {message}" if message else ""
    if scene.was_ready(node):
        text = f"it boots again, for {_work(node)}; boot_timeout counts no more, as it was ready"
        return Cause("Boots", f"{text} before{says}", said=message)
    since = f" for {in_time(clock.time() - created)}" if created else ""
    limit = in_time(parse_boot_timeout(scene.config, node))
    text = f"it boots{since}, of {limit} at most, for {_work(node)}{says}"
    return Cause("Boots", text, said=message)


def _stopped_by_us(scene: Scene) -> set[str]:
    """The names of the hosts on premises whose worker is stopped when nobody needs it."""
    return {host.name for host in hosts_of(scene.config) if host.is_commanded}


def _idle(node: Node, scene: Scene, fate: Fate) -> Cause:
    """A node without work that stays: for how long of what."""
    timeout, idle = parse_idle_timeout(scene.config, node), fate.idle_seconds
    if not (node.managed or is_on_premises(node)):
        text = "nobody needs it; CycleCloud does not manage it, so it is left alone"
        return Cause("NotManaged", text)
    if is_on_premises(node) and str(node.name) not in _stopped_by_us(scene):
        return Cause("Idle", "nobody needs it; no command stops its worker, so it stays")
    if idle is None:
        return Cause("Idle", f"nobody needs it; it goes when that was so for {in_time(timeout)}")
    if idle <= timeout:
        text = f"nobody has needed it for {in_time(idle)}, of {in_time(timeout)} until it goes"
        return Cause("Idle", text, until=clock.time() + timeout - idle)
    text = f"nobody has needed it for {in_time(idle)}, and it may be idle for {in_time(timeout)}"
    return Cause("Idle", text)
