"""Showing a `Scene`: a live picture on a terminal, lines about what changed anywhere else. Nothing
is decided here."""

import time
from typing import Any, Protocol

from demo_kit.display import ChangedLines, coloured, new_table
from demo_kit.scene import Scene
from demo_kit.world import QUEUES

_EVENTS_SHOWN = 4


class View(Protocol):
    """Shows scenes as they change."""

    def show(self, scene: Scene) -> None:
        """Show this scene, which is always the same object."""


class Lines(ChangedLines, View):
    """One line when the numbers change, and one per event."""

    def show(self, scene: Scene) -> None:
        """Print what is new."""
        self.new_events(scene.events)
        self.when_changed("queues", self._queues(scene))
        self.when_changed("nodes", self._nodes(scene))
        self.when_changed("demand", self._demand(scene))

    def _queues(self, scene: Scene) -> str:
        parts = (
            f"{queue} {scene.waiting.get(queue, 0)} waiting"
            f" {scene.count(queue, 'STARTED')} running {scene.count(queue, 'SUCCESS')} done"
            for queue in QUEUES
        )
        return " | ".join(parts)

    def _nodes(self, scene: Scene) -> str:
        return " ".join(f"{n['name']}={n['state']}" for n in scene.nodes) or "none"

    def _demand(self, scene: Scene) -> str:
        rows = (f"{row['name']} ({row['state']}): {row['work']}" for row in scene.demand)
        return "; ".join([*rows, *scene.unsatisfied]) or "none"


class Picture(View):
    """Queues, nodes and demand, and the last events, redrawn in place; fits a terminal of 80 by
    24."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._start = time.monotonic()

    def show(self, scene: Scene) -> None:
        """Draw the scene."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        seconds = time.monotonic() - self._start
        done = f"{scene.done} of {len(scene.tasks)} tasks done"
        head = f"{seconds:5.1f} s   {done}   pass {scene.passes}"
        side_by_side = Table.grid(expand=True)
        side_by_side.add_column(ratio=5)
        side_by_side.add_column(ratio=4)
        side_by_side.add_row(self._nodes(scene), self._demand(scene))
        said = Text("\n".join(scene.unsatisfied), style="yellow", no_wrap=True, overflow="ellipsis")
        events = Text("\n".join(scene.events[-_EVENTS_SHOWN:]), style="dim", no_wrap=True)
        self._display.update(
            Group(Text(head, style="bold"), self._queues(scene), side_by_side, said, events)
        )

    def _queues(self, scene: Scene) -> Any:
        table = new_table("Queues", "queue", "waiting", "running", "done", "")
        for queue in QUEUES:
            done, running = scene.count(queue, "SUCCESS"), scene.count(queue, "STARTED")
            total = sum(task.queue == queue for task in scene.tasks.values())
            bar = "█" * done + "▒" * running + "·" * max(0, total - done - running)
            table.add_row(queue, str(scene.waiting.get(queue, 0)), str(running), str(done), bar)
        return table

    def _nodes(self, scene: Scene) -> Any:
        table = new_table("Nodes in CycleCloud", "name", "VM size", "state", "done")
        ran_on = scene.ran_on()
        for node in scene.nodes:
            size = node["vm_size"].removeprefix("Standard_")
            table.add_row(node["name"], size, coloured(node["state"]), str(ran_on[node["id"]]))
        return table

    def _demand(self, scene: Scene) -> Any:
        table = new_table("Demand", "node", "work")
        for row in scene.demand:
            table.add_row(row["name"], row["work"])
        return table
