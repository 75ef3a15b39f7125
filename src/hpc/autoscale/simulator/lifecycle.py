"""The life of a node as a table: which phase follows which event, and what each phase means.

`TRANSITIONS` is the only place that says what may happen to a node; the orchestrator looks it up
and the table in docs/lifecycle.md is rendered from it. When something happens, and what it costs,
is not decided here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The phase of a node's life; the value is what its record shows as `Status`."""

    OFF = "Off"
    ALLOCATION = "Allocation"
    ACQUIRING = "Acquiring"
    PREPARING = "Preparing"
    READY = "Ready"
    RESTARTING = "Restarting"
    REIMAGING = "Reimaging"
    EVICTING = "Unavailable"
    FAILED = "Failed"
    DEALLOCATING = "Deallocating"
    DEALLOCATED = "Deallocated"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    REMOVED = "Removed"


class Event(StrEnum):
    """An event that can happen to a node."""

    START = "start"
    ALLOCATED = "allocated"
    VM_STARTED = "VM started"
    VM_REFUSED = "VM refused"
    CONFIGURED = "configured"
    FAIL = "fail"
    RESTART = "restart"
    REIMAGE = "reimage"
    EVICT = "evict"
    DEALLOCATE = "deallocate"
    VM_STOPPED = "VM stopped"
    TERMINATE = "terminate"
    VM_DELETED = "VM deleted"
    REMOVE_RECORD = "remove record"


MEANING: Mapping[Event, str] = {
    Event.START: "asked to start, or to try again after a failure",
    Event.ALLOCATED: "a VM has been requested for the node",
    Event.VM_STARTED: "the VM is up; it has an instance id and an address",
    Event.VM_REFUSED: "the region has no capacity left for this VM size",
    Event.CONFIGURED: "the node is configured (and its local machine, if it has one, is up)",
    Event.FAIL: "configuring failed, or the local machine ended by itself",
    Event.RESTART: "asked to restart",
    Event.REIMAGE: "asked to start again from the image",
    Event.EVICT: "a spot VM got notice of its eviction",
    Event.DEALLOCATE: "asked to stop the VM and keep record and disks",
    Event.VM_STOPPED: "the VM is stopped",
    Event.TERMINATE: "asked to end, or given up after an eviction or a lack of capacity",
    Event.VM_DELETED: "the VM is gone",
    Event.REMOVE_RECORD: (
        "the record goes: nothing keeps it (Fixed nodes, and those outside of nodearrays, keep"
        " theirs until removed)"
    ),
}

TRANSITIONS: Mapping[Phase, Mapping[Event, Phase]] = {
    Phase.OFF: {
        Event.START: Phase.ALLOCATION,
        Event.REMOVE_RECORD: Phase.REMOVED,
    },
    Phase.ALLOCATION: {
        Event.ALLOCATED: Phase.ACQUIRING,
        Event.FAIL: Phase.FAILED,
        Event.DEALLOCATE: Phase.DEALLOCATING,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.ACQUIRING: {
        Event.VM_STARTED: Phase.PREPARING,
        Event.VM_REFUSED: Phase.FAILED,
        Event.FAIL: Phase.FAILED,
        Event.DEALLOCATE: Phase.DEALLOCATING,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.PREPARING: {
        Event.CONFIGURED: Phase.READY,
        Event.FAIL: Phase.FAILED,
        Event.RESTART: Phase.RESTARTING,
        Event.REIMAGE: Phase.REIMAGING,
        Event.EVICT: Phase.EVICTING,
        Event.DEALLOCATE: Phase.DEALLOCATING,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.READY: {
        Event.FAIL: Phase.FAILED,
        Event.RESTART: Phase.RESTARTING,
        Event.REIMAGE: Phase.REIMAGING,
        Event.EVICT: Phase.EVICTING,
        Event.DEALLOCATE: Phase.DEALLOCATING,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.RESTARTING: {
        Event.VM_STARTED: Phase.PREPARING,
        Event.FAIL: Phase.FAILED,
        Event.EVICT: Phase.EVICTING,
        Event.DEALLOCATE: Phase.DEALLOCATING,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.REIMAGING: {
        Event.VM_STARTED: Phase.PREPARING,
        Event.FAIL: Phase.FAILED,
        Event.EVICT: Phase.EVICTING,
        Event.DEALLOCATE: Phase.DEALLOCATING,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.EVICTING: {
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.FAILED: {
        Event.START: Phase.ALLOCATION,
        Event.RESTART: Phase.RESTARTING,
        Event.REIMAGE: Phase.REIMAGING,
        Event.EVICT: Phase.EVICTING,
        Event.DEALLOCATE: Phase.DEALLOCATING,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.DEALLOCATING: {
        Event.VM_STOPPED: Phase.DEALLOCATED,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.DEALLOCATED: {
        Event.START: Phase.ACQUIRING,
        Event.TERMINATE: Phase.TERMINATING,
    },
    Phase.TERMINATING: {
        Event.VM_DELETED: Phase.TERMINATED,
    },
    Phase.TERMINATED: {
        Event.START: Phase.ALLOCATION,
        Event.REMOVE_RECORD: Phase.REMOVED,
    },
    Phase.REMOVED: {},
}


@dataclass(frozen=True)
class PhaseFacts:
    """What a phase means for callers of the protocol.

    `state` and `target_state` are what the record shows; a node whose target is Started takes a
    place in its bucket, nodearray and cluster. `duration` names the entry of the description's
    `lifecycle` after which the phase ends by itself; it is empty when only a request ends the
    phase.
    """

    state: str
    target_state: str
    duration: str = ""


FACTS: Mapping[Phase, PhaseFacts] = {
    # Not "Off": a caller that waits for a node to reach its target state compares one of State and
    # Status with it.
    Phase.OFF: PhaseFacts("Terminated", "Terminated"),
    Phase.ALLOCATION: PhaseFacts("Starting", "Started", "allocation"),
    Phase.ACQUIRING: PhaseFacts("Starting", "Started", "acquiring"),
    Phase.PREPARING: PhaseFacts("Starting", "Started", "preparing"),
    Phase.READY: PhaseFacts("Started", "Started", "time_to_eviction"),
    Phase.RESTARTING: PhaseFacts("Started", "Started", "restarting"),
    Phase.REIMAGING: PhaseFacts("Started", "Started", "reimaging"),
    Phase.EVICTING: PhaseFacts("Started", "Started", "eviction_notice"),
    Phase.FAILED: PhaseFacts("Error", "Started", "allocation_failed"),
    Phase.DEALLOCATING: PhaseFacts("Deallocating", "Deallocated", "deallocating"),
    Phase.DEALLOCATED: PhaseFacts("Deallocated", "Deallocated"),
    Phase.TERMINATING: PhaseFacts("Terminating", "Terminated", "terminating"),
    Phase.TERMINATED: PhaseFacts("Terminated", "Terminated"),
    Phase.REMOVED: PhaseFacts("Terminated", "Terminated"),
}


def after(phase: Phase, event: Event) -> Phase | None:
    """The phase that follows, or None when `event` cannot happen in `phase`."""
    return TRANSITIONS[phase].get(event)


def render_table() -> str:
    """The life cycle as two Markdown tables, for docs/lifecycle.md."""
    lines = [
        "| Status | State | TargetState | ends by itself after |",
        "|---|---|---|---|",
    ]
    for phase, facts in FACTS.items():
        if phase is not Phase.REMOVED:
            duration = f"`{facts.duration}`" if facts.duration else ""
            lines.append(f"| {phase} | {facts.state} | {facts.target_state} | {duration} |")
    lines += ["", "| from Status | what happens | to Status |", "|---|---|---|"]
    for phase, arrows in TRANSITIONS.items():
        for event, target in arrows.items():
            into = target if target is not Phase.REMOVED else "(record is gone)"
            lines.append(f"| {phase} | {event}: {MEANING[event]} | {into} |")
    return "\n".join(lines) + "\n"
