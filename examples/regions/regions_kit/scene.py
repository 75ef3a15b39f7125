"""What there is to see at one moment of the demo."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hpc_queue import State


@dataclass
class Scene:
    """`nodes` as CycleCloud tells it, `hosts` on premises that have a worker, `counts` by
    definition and state from the queue, `ran` by region from what jobs have written."""

    jobs: int
    nodes: list[dict[str, Any]] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    ran: Counter[str] = field(default_factory=Counter)
    events: list[str] = field(default_factory=list)
    away: bool = False

    def count(self, definition: str, *states: State) -> int:
        """How many jobs of a definition are in one of these states."""
        return sum(self.counts.get(definition, {}).get(state.name, 0) for state in states)

    @property
    def done(self) -> int:
        """How many jobs have ended."""
        return sum(
            self.count(definition, *(state for state in State if state.ended))
            for definition in self.counts
        )
