"""The gate before every command to the cluster: what must hold of a node, and for whom.

A guard is a row of `GUARDS`: a name, a reason code, the commands that it is asked for, who is asked
about, and a function that says what is in the way. `operations` asks a `Gate` before it sends
anything; the loop and the command line ask the same gate earlier, where they decide. So a rule of
this kind is written once, here, and what it refuses is told with its code.

Unknown is never zero: where a guard needs to know something and `Facts` does not say it, the guard
refuses. Nothing is read here; whoever asks brings what is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import counted
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.contents import server_id_of
from hpc.autoscale.node.offerings import Offering, lacking, least_used, offering_of
from hpc.autoscale.onpremises.hosts import ON_PREMISES

OF_THE_SITE = "is a host on premises, whose worker the loop alone starts and stops"

Command = Literal["create", "start", "retry", "drain", "shutdown", "restart", "reimage", "delete"]
"""What may be asked of the cluster, or, for `drain`, of the scheduler before nodes are deleted."""

Why = Literal["idle", "asked", "overdue", "failed", "marked", "unfinished", "surplus", "gang"]
"""Why the loop wants rid of a node: it has no work, it has itself asked to stop, it did not become
ready in time, it has failed, the scheduler wants rid of it, its removal was never answered, it
boots for workers whom nobody wants any more, or it is of a gang of which too few nodes came."""


NOT_PLANNED = "NotPlanned"
"""The code of what is refused while a plan is carried out, because it is not in the plan."""

AWAY = "Unreachable"
"""The state of a node whose cluster, one of several, is set aside in this pass."""


class Asker(Enum):
    """On whose behalf a command is sent, which says how much has to hold."""

    LOOP = "the loop"
    """The autoscaler, with nobody watching: everything has to be known."""

    PERSON = "a person"
    """A command of the command line, without `--force`."""

    CALLER = "a caller"
    """A program that names the nodes, or a person with `--force`: CycleCloud's word is enough."""


class Facts:
    """What is known when a command is asked for. None means that it is not known.

    - `asker`: who asks
    - `cluster_target`: the state that the cluster is to reach, as CycleCloud has it
    - `existing`: how many nodes of CycleCloud exist
    - `why`: for what reason the loop wants rid of a node, by `key_of`
    - `busy`: keys of the nodes that have work, or may have, by a reading of the scheduler that is
      newer than the decision
    - `listed`: records by NodeId of a listing of CycleCloud that is newer than the decision
    - `missing`: keys of the nodes whose hosts the scheduler has reported before and does not now,
      and `is_complete`: whether its answer has all hosts otherwise
    - `unwitnessed`: keys of the nodes that were ready when the node history began, and whose hosts
      the scheduler has never reported
    - `idle_passes`: in how many passes in a row a node was seen idle, by `key_of`, and
      `min_idle_passes`, how many there have to be
    - `now`, and `min_lifetime`: how many seconds ago a node has to have come at least
    - `work`: what a person is told of the work on a node; an empty text when it has none
    - `bounds`: what is in the way of a command where only what was planned may be done
    - `max_new`, `max_deletes`, `max_share`: how many nodes may be asked for, and may go, in one
      pass; None for any number. The share counts where more than `share_above` nodes exist
    """

    existing: int | None = None
    busy: Collection[object] | None = None
    listed: Mapping[str, Mapping[str, Any]] | None = None
    missing: Collection[object] = ()
    is_complete: bool | None = None
    unwitnessed: Collection[object] = ()
    idle_passes: Mapping[object, int] = MappingProxyType({})
    min_idle_passes: int = 0
    now: float = 0.0
    min_lifetime: float = 0.0
    work: Callable[[Node], str] | None = None
    bounds: Callable[[Node, Command], str] | None = None
    max_new: int | None = None
    max_deletes: int | None = None
    max_share: float | None = None
    share_above: int = 20

    def __init__(self, asker: Asker = Asker.CALLER, cluster_target: str | None = None) -> None:
        self.asker = asker
        self.cluster_target = cluster_target
        self.why: dict[object, Why] = {}


class Refusal(NamedTuple):
    """A node for which a command was refused: by which guard, its reason code, in words, and
    whether only because others were allowed before it."""

    node: Node
    command: Command
    guard: str
    code: str
    text: str
    is_ration: bool = False

    def __str__(self) -> str:
        return in_words([self])[0]


def in_words(refused: Iterable[Refusal]) -> list[str]:
    """Refusals as sentences, one for all nodes that were refused for the same reason."""
    alike: dict[tuple[str, str], list[str]] = {}
    for refusal in refused:
        alike.setdefault((refusal.text, refusal.code), []).append(refusal.node.name)
    sentences = []
    for (text, code), names in alike.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        sentences.append(f"{', '.join(names[:3])}{more}: {text} [{code}]")
    return sentences


class Clearance(NamedTuple):
    """The nodes for which a command may be sent, in the order given, and the refusals."""

    allowed: list[Node]
    refused: list[Refusal]


def is_taken_back(node: Node) -> bool:
    """Whether a node that should run is about to be taken away, as a spot node of whose eviction
    Azure has given notice."""
    return node.state == "Unavailable" and node.target_state == "Started"


def key_of(node: Node) -> object:
    """What a node of the cluster is told from others by, also when a driver returns a copy of
    it."""
    return server_id_of(node) or id(node)


class Gate:
    """Asked before every command about every node. One gate stands for one cluster and one pass.

    It counts what it has allowed, so that limits per pass are those of the whole cluster, however
    many times and in how many parts it is asked; a node that was allowed once is not counted again.
    `where` names the cluster and its server in the log.
    """

    def __init__(self, facts: Facts | None = None, where: str = "") -> None:
        self.facts = facts or Facts()
        self._where = where
        self.refused: dict[tuple[object, Command, str], Refusal] = {}
        self._coming: set[object] = set()
        self._leaving: set[object] = set()
        self._offerings_coming: defaultdict[Offering, list[Node]] = defaultdict(list)
        self._used_of_coming: dict[Offering, tuple[int, dict[str, float]]] = {}

    def ask(self, command: Command, nodes: Iterable[Node], rationed: bool = True) -> Clearance:
        """Which nodes the command may be sent for. Every guard is asked, rations last.

        With `rationed` false only what the nodes themselves are asked about counts, and nothing is
        counted: for a decision that is made before it is known how many others there are.
        """
        guards = [g for g in GUARDS.values() if g.applies(command, self)]
        if not rationed:
            guards = [guard for guard in guards if not guard.is_ration]
        return self._ask(command, nodes, guards, counts=rationed)

    def ration(self, command: Command, nodes: Iterable[Node]) -> Clearance:
        """As `ask`, but only how many: for nodes of which all else is asked later."""
        guards = [g for g in GUARDS.values() if g.is_ration and g.applies(command, self)]
        return self._ask(command, nodes, guards, counts=True)

    def keeps(self, node: Node) -> bool:
        """Whether a node may not even be drained, for a reason of its own. Nothing is noted."""
        guards = (g for g in GUARDS.values() if not g.is_ration and g.applies("drain", self))
        return any(guard.objection(node, self, "drain") for guard in guards)

    def give_back(self, nodes: Iterable[Node]) -> None:
        """Nodes that were allowed to go, and stay: others may go in their place."""
        self._leaving.difference_update(map(key_of, nodes))

    def is_counted(self, node: Node, command: Command) -> bool:
        """Whether the node was allowed to come, or to go, before."""
        return key_of(node) in self._ledger(command)

    def allowed_to_come(self) -> int:
        """How many nodes were allowed to come."""
        return len(self._coming)

    def allowed_to_go(self) -> int:
        """How many nodes were allowed to go."""
        return len(self._leaving)

    def is_coming(self, node: Node) -> bool:
        """Whether nodes of the same offering were allowed to come, for work that this one is large
        enough for."""
        offering = offering_of(node)
        coming = self._offerings_coming.get(offering)
        if not coming:
            return False
        count, used = self._used_of_coming.get(offering, (0, {}))
        if count != len(coming):
            used = least_used(coming)
            self._used_of_coming[offering] = len(coming), used
        return not lacking(node, used)

    def _ledger(self, command: Command) -> set[object]:
        if command in ("create", "start"):
            return self._coming
        return self._leaving if command in ("drain", "shutdown", "delete") else set()

    def _ask(
        self, command: Command, nodes: Iterable[Node], guards: Sequence[Guard], counts: bool
    ) -> Clearance:
        allowed: list[Node] = []
        refused: list[Refusal] = []
        ledger = self._ledger(command) if counts else set()
        for node in nodes:
            refusal = self._first_refusal(command, node, guards)
            if refusal is not None:
                refused.append(refusal)
                self.refused.setdefault((key_of(node), command, refusal.code), refusal)
                continue
            ledger.add(key_of(node))
            if ledger is self._coming:
                self._offerings_coming[offering_of(node)].append(node)
            allowed.append(node)
        if refused:
            expected = command == "drain" or all(refusal.is_ration for refusal in refused)
            log = logging.info if expected else logging.warning
            place = f"{self._where}: " if self._where else ""
            log("%s%s refused: %s", place, command, "; ".join(in_words(refused)))
        return Clearance(allowed, refused)

    def _first_refusal(
        self, command: Command, node: Node, guards: Sequence[Guard]
    ) -> Refusal | None:
        for guard in guards:
            text = guard.objection(node, self, command)
            if text:
                return Refusal(node, command, guard.name, guard.code, text, guard.is_ration)
        # last, so that what is counted here is sent
        bounds = self.facts.bounds
        text = bounds(node, command) if bounds is not None else ""
        return Refusal(node, command, "planned", NOT_PLANNED, text) if text else None


# -- the guards


class Guard(NamedTuple):
    """A row of the table: `objection` says in words what is in the way of a command for a node, or
    nothing. `meaning` is for the documentation. A ration limits how many."""

    name: str
    code: str
    commands: tuple[Command, ...]
    askers: tuple[Asker, ...]
    meaning: str
    objection: Callable[[Node, Gate, Command], str]
    is_ration: bool = False

    def applies(self, command: Command, gate: Gate) -> bool:
        """Whether the guard is asked at all."""
        return command in self.commands and gate.facts.asker in self.askers


GUARDS: dict[str, Guard] = {}
"""All guards by name, in the order in which they are asked. `hpc.autoscale.testing.without_guard`
takes one out, for tests alone."""

_ALL = (Asker.LOOP, Asker.PERSON, Asker.CALLER)
_WATCHFUL = (Asker.LOOP, Asker.PERSON)
_LOOP = (Asker.LOOP,)
_COMING: tuple[Command, ...] = ("create", "start")
_LEAVING: tuple[Command, ...] = ("drain", "shutdown", "delete")
_THERE: tuple[Command, ...] = ("start", "retry", "shutdown", "restart", "reimage", "delete")
_DISTURBING: tuple[Command, ...] = ("drain", "shutdown", "restart", "reimage", "delete")

Objection = Callable[[Node, Gate, Command], str]


def _guard(
    name: str,
    code: str,
    commands: tuple[Command, ...],
    askers: tuple[Asker, ...],
    meaning: str,
    is_ration: bool = False,
) -> Callable[[Objection], Objection]:
    """Put a function into the table."""

    def register(objection: Objection) -> Objection:
        GUARDS[name] = Guard(name, code, commands, askers, meaning, objection, is_ration)
        return objection

    return register


@_guard(
    "managed",
    "NotManaged",
    ("drain", *_THERE),
    _ALL,
    "CycleCloud manages the node. Hosts that only the scheduler knows may be drained, and hosts on"
    " premises by the loop alone.",
)
def _managed(node: Node, gate: Gate, command: Command) -> str:
    if node.managed:
        return ""
    is_loop = gate.facts.asker is Asker.LOOP
    if node.location == ON_PREMISES and not (command == "drain" and is_loop):
        return OF_THE_SITE
    return "" if command == "drain" else "is not managed by CycleCloud"


@_guard("created", "NeverCreated", _THERE, _ALL, "The node has a NodeId: CycleCloud made it.")
def _created(node: Node, gate: Gate, command: Command) -> str:
    return "" if server_id_of(node) else "was never created"


@_guard(
    "cluster-answers",
    "ClusterAway",
    (*_THERE, "drain"),
    _ALL,
    "The cluster of the node answered in this pass, where it is one of several.",
)
def _cluster_answers(node: Node, gate: Gate, command: Command) -> str:
    listed = (gate.facts.listed or {}).get(str(server_id_of(node))) or {}
    is_away = AWAY in (node.state, listed.get("Status"))
    return "its cluster does not answer in this pass" if is_away else ""


@_guard(
    "cluster-wanted",
    "ClusterTerminated",
    (*_COMING, "retry"),
    _ALL,
    "The cluster itself is not on its way to be terminated.",
)
def _cluster_wanted(node: Node, gate: Gate, command: Command) -> str:
    target = gate.facts.cluster_target
    return "the target state of the cluster is Terminated" if target == "Terminated" else ""


@_guard(
    "scheduler-asked",
    "SchedulerUnknown",
    ("delete",),
    _LOOP,
    "The scheduler was read again after the node was chosen, and answered with something new.",
)
def _scheduler_asked(node: Node, gate: Gate, command: Command) -> str:
    return "" if gate.facts.busy is not None else "it is not known whether work has started there"


@_guard(
    "cluster-asked",
    "ClusterUnknown",
    ("delete",),
    _LOOP,
    "CycleCloud was read again after the node was chosen, and did not contradict itself.",
)
def _cluster_asked(node: Node, gate: Gate, command: Command) -> str:
    return "" if gate.facts.listed is not None else "it is not known what CycleCloud has of it now"


@_guard(
    "answer-complete",
    "SchedulerIncomplete",
    ("drain", "delete"),
    _LOOP,
    "The scheduler reports the host of the node, where it has before, any hosts at all, and all but"
    " a tenth (or one) of those that it has before; unless the node has failed or is marked, or"
    " `autoscale.scheduler_reports_hosts` is false.",
)
def _answer_complete(node: Node, gate: Gate, command: Command) -> str:
    if _is_given_up(node, gate):
        return ""
    if not gate.facts.is_complete:
        return "the scheduler does not report hosts that it has reported before"
    if key_of(node) in gate.facts.missing:
        return "the scheduler has reported its host before, and does not now"
    return ""


def _is_given_up(node: Node, gate: Gate) -> bool:
    """Whether CycleCloud or the scheduler itself said that the node is of no use."""
    return gate.facts.why.get(key_of(node)) in ("failed", "marked")


@_guard(
    "host-reported",
    "HostNeverReported",
    ("drain", "delete"),
    _LOOP,
    "An idle node whose host the scheduler has never reported was seen before it was ready,"
    " unless `autoscale.scheduler_reports_hosts` is false.",
)
def _host_reported(node: Node, gate: Gate, command: Command) -> str:
    facts = gate.facts
    if facts.why.get(key_of(node)) != "idle" or key_of(node) not in facts.unwitnessed:
        return ""
    return (
        "was ready when it was first seen, and the scheduler has never reported its host"
        " (autoscale.scheduler_reports_hosts)"
    )


@_guard(
    "still-so",
    "Recovered",
    ("delete",),
    _LOOP,
    "A node that had failed, did not become ready in time, or boots for workers whom nobody wants"
    " any more or for a gang that was given up, is not ready by the newer listing.",
)
def _still_so(node: Node, gate: Gate, command: Command) -> str:
    record = (gate.facts.listed or {}).get(str(server_id_of(node))) or {}
    why = gate.facts.why.get(key_of(node))
    was_not = why in ("failed", "overdue", "surplus") or (why == "gang" and node.state != "Ready")
    recovered = was_not and record.get("Status") == "Ready"
    return "has become ready meanwhile" if recovered else ""


@_guard(
    "no-jobs",
    "HasJobs",
    _DISTURBING,
    _WATCHFUL,
    "No job runs on the node or was placed there, by NodeId or by host name, and none has started"
    " since the node was chosen.",
)
def _no_jobs(node: Node, gate: Gate, command: Command) -> str:
    facts = gate.facts
    if facts.work is not None and (said := facts.work(node)):
        return said
    if node.assignments:
        return f"has jobs: {', '.join(sorted(map(str, node.assignments)))}"
    return "has work, or may have" if facts.busy and key_of(node) in facts.busy else ""


@_guard(
    "not-kept",
    "KeepAlive",
    ("drain", "delete"),
    _WATCHFUL,
    "The node is not to be kept alive, by the newest listing.",
)
def _not_kept(node: Node, gate: Gate, command: Command) -> str:
    record = (gate.facts.listed or {}).get(str(server_id_of(node))) or {}
    kept = node.managed and (node.keep_alive or record.get("KeepAlive"))
    return "is to be kept alive" if kept else ""


@_guard(
    "not-required",
    "IsRequired",
    ("drain", "restart", "reimage", "delete"),
    (Asker.PERSON,),
    "Nobody said that the node is needed, such as an integration for work that is planned.",
)
def _not_required(node: Node, gate: Gate, command: Command) -> str:
    # a node that is to be kept alive counts as required, and may be started afresh
    return "is required" if node.required and not node.keep_alive else ""


@_guard(
    "not-both",
    "OfferingWanted",
    ("drain", "delete"),
    _LOOP,
    "No node of the same nodearray, VM size and placement group is created in the same pass for"
    " work that it is large enough for, where the node is only idle, its removal was never"
    " answered, or it is of a gang that was given up.",
)
def _not_both(node: Node, gate: Gate, command: Command) -> str:
    is_idle = gate.facts.why.get(key_of(node)) in ("idle", "unfinished", "gang")
    if not is_idle or not gate.is_coming(node):
        return ""
    return "nodes like it are created in the same pass"


@_guard(
    "idle-passes",
    "IdleTooBriefly",
    ("drain", "delete"),
    _LOOP,
    "An idle node was idle in so many passes in a row (`autoscale.min_idle_passes`).",
)
def _idle_passes(node: Node, gate: Gate, command: Command) -> str:
    facts = gate.facts
    passes = facts.idle_passes.get(key_of(node), 0)
    if facts.why.get(key_of(node)) != "idle" or passes >= facts.min_idle_passes:
        return ""
    return f"was idle in {passes} of {facts.min_idle_passes} passes"


@_guard(
    "min-lifetime",
    "TooYoung",
    ("drain", "delete"),
    _LOOP,
    "An idle node has been there for so many seconds (`autoscale.min_lifetime`).",
)
def _min_lifetime(node: Node, gate: Gate, command: Command) -> str:
    facts = gate.facts
    if facts.why.get(key_of(node)) != "idle" or not facts.min_lifetime:
        return ""
    if not node.create_time_unix:
        return "it is not known for how long it has been there"
    age = max(0.0, facts.now - node.create_time_unix)
    if age >= facts.min_lifetime:
        return ""
    return f"has been there for {age:.0f} of {facts.min_lifetime:.0f} seconds"


@_guard(
    "max-new",
    "MaxNewNodes",
    _COMING,
    _LOOP,
    "No more nodes are asked for in one pass than `autoscale.max_new_nodes_per_pass`, those for the"
    " first jobs of the queue first.",
    is_ration=True,
)
def _max_new(node: Node, gate: Gate, command: Command) -> str:
    most = gate.facts.max_new
    if most is None or gate.is_counted(node, command) or gate.allowed_to_come() < most:
        return ""
    return f"is left for the next pass: at most {counted(most, 'new node')} in one"


@_guard(
    "max-deletes",
    "MaxDeletes",
    _LEAVING,
    _LOOP,
    "No more nodes go in one pass than `autoscale.max_deletes_per_pass`.",
    is_ration=True,
)
def _max_deletes(node: Node, gate: Gate, command: Command) -> str:
    most = gate.facts.max_deletes
    if most is None or gate.is_counted(node, command) or gate.allowed_to_go() < most:
        return ""
    return f"is left for the next pass: at most {counted(most, 'node')} may go in one"


@_guard(
    "max-share",
    "MaxDeleteShare",
    _LEAVING,
    _LOOP,
    "No more than `autoscale.max_delete_share` of the nodes that exist go in one pass, or one where"
    " that is less than one and not 0, where more than `autoscale.max_delete_share_above` do, but"
    " for those that boot for workers whom nobody wants any more.",
    is_ration=True,
)
def _max_share(node: Node, gate: Gate, command: Command) -> str:
    facts = gate.facts
    if facts.max_share is None or gate.is_counted(node, command):
        return ""
    if facts.why.get(key_of(node)) == "surplus":
        return ""  # nothing can be lost there
    if facts.existing is None:
        return "it is not known how many nodes exist"
    if facts.existing <= facts.share_above:
        return ""
    # a share of few nodes that comes to less than one would keep them for ever
    most = max(1, int(facts.existing * facts.max_share)) if facts.max_share else 0
    if gate.allowed_to_go() < most:
        return ""
    return f"is left for the next pass: at most {most} of {facts.existing} nodes may go in one"
