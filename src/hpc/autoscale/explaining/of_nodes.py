"""The verdict on one node of a scene.

It says why the node is there, why it is not deleted, what it waits for, and what the server says.
"""

from __future__ import annotations

from collections.abc import Iterator

from hpc.autoscale import clock
from hpc.autoscale.explaining.scene import Scene
from hpc.autoscale.explaining.words import in_time, listed, per_hour
from hpc.autoscale.node.guards import GUARDS, key_of
from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict
from hpc.autoscale.util import parse_boot_timeout, parse_idle_timeout

_READY = ("Ready", "Started")


def find_node(name: str, scene: Scene) -> Node | None:
    """The node of a name, or of a host name."""
    by_name = [node for node in scene.nodes if str(node.name) == name]
    short = short_name(name)
    by_host = (n for n in scene.nodes if n.hostname and short_name(n.hostname) == short)
    return by_name[0] if by_name else next(by_host, None)


def explain_node(node: Node, scene: Scene) -> Verdict:
    """The verdict on a node."""
    causes = tuple(_causes(node, scene))
    first = causes[0]
    price = price_per_hour(node.location, node.vm_size, node.spot)
    where = f"{node.nodearray}/{node.vm_size}, {per_hour(price)}"
    line = f"Node {node.name} ({where}) is {node.state}: {first.text}"
    about = f"node {node.name}"
    return Verdict(about, Stand.HAS, first.code, on_one_line(line), causes, until=first.until)


def _causes(node: Node, scene: Scene) -> Iterator[Cause]:
    """What is to be said of a node, what matters most first."""
    said = scene.calculator.node_mgr.get_status_messages([node])
    message = said.get(str(node.delayed_node_id.node_id), "")
    guards = list(_guards(node, scene))
    yield from _by_state(node, scene, message)
    if node.assignments:
        yield Cause("HasJobs", f"it has work: {_work(node)}")
    elif node.keep_alive:
        yield Cause("KeepAlive", "it is to be kept alive (KeepAlive in CycleCloud)")
    elif node.exists and node.state in _READY:
        yield _idle(node, scene)
    for code, text in guards:
        if code not in ("HasJobs", "KeepAlive"):
            yield Cause(code, f"it is not deleted now: it {text}", nearness=1)
    if node.closed:
        yield Cause("Closed", "it takes no work now: it is on its way out, or nobody can tell")
    if message and node.state in _READY:
        yield Cause("StatusMessage", f"CycleCloud says: {message}", said=message)


def _by_state(node: Node, scene: Scene, message: str) -> Iterator[Cause]:
    """What is to be said of a node that is not ready."""
    if node.state == "Failed":
        text = message or "the server does not say why"
        yield Cause("Failed", f"it has failed: {text}", said=message)
    elif not node.exists and node.state != "Deallocated":
        held = scene.held.get(node.name)
        text = held.text if held else f"the next pass asks for it, for {_work(node)}"
        yield Cause("Planned", text)
    elif node.exists and node.state not in _READY:
        yield _boots(node, scene, message)
    elif node.state not in _READY and not node.assignments:
        yield Cause("AtRest", "it rests, and takes no place: it is started when a job needs it")


def _work(node: Node) -> str:
    return listed(sorted(map(str, node.assignments))) or "nobody"


def _boots(node: Node, scene: Scene, message: str) -> Cause:
    created = node.create_time_unix
    since = f" for {in_time(clock.time() - created)}" if created else ""
    limit = in_time(parse_boot_timeout(scene.config, node))
    says = f"; CycleCloud says: {message}" if message else ""
    text = f"it boots{since}, of {limit} at most, for {_work(node)}{says}"
    return Cause("Boots", text, said=message)


def _idle(node: Node, scene: Scene) -> Cause:
    """A node without work: for how long of what."""
    timeout = parse_idle_timeout(scene.config, node)
    since = node.last_match_time_unix
    if not since:
        return Cause("Idle", f"nobody needs it; it goes when that was so for {in_time(timeout)}")
    idle = max(0.0, clock.time() - since)
    until = since + timeout
    text = f"nobody has needed it for {in_time(idle)}, of {in_time(timeout)} until it goes"
    if until > clock.time():
        return Cause("Idle", text, until=until)
    said = f"nobody has needed it for {in_time(idle)}, and it may be idle for {in_time(timeout)}"
    return Cause("Idle", f"{said}: it goes unless something stands against that")


def _guards(node: Node, scene: Scene) -> Iterator[tuple[str, str]]:
    """What stands against draining a node because it is idle, of every guard."""
    gate = scene.calculator.node_mgr.gate
    facts = gate.facts
    if not (node.exists and node.managed) or node.state not in _READY:
        return
    if scene.idle_passes is None:
        facts.min_idle_passes = 0
    else:
        facts.idle_passes = scene.idle_passes
    facts.why.setdefault(key_of(node), "idle")
    for guard in GUARDS.values():
        if guard.applies("drain", gate) and not guard.is_ration:
            text = guard.objection(node, gate, "drain")
            if text:
                yield guard.code, text
