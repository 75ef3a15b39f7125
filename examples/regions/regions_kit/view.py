"""Showing a `Scene`: a live picture on a terminal, lines about what changed anywhere else. Nothing
is decided here."""

import time
from collections import Counter
from typing import Any, Protocol

from demo_kit.display import ChangedLines, coloured, new_table
from hpc_queue import State
from regions_kit.scene import Scene
from regions_kit.world import HOSTS, LOSES, ON_PREMISES, PLACES

_EVENTS_SHOWN = 6
_ENDED = [state for state in State if state.ended]
_BAR = 30
_TENTHS = 10


class View(Protocol):
    """Shows scenes as they change."""

    def show(self, scene: Scene) -> None:
        """Show this scene, which is always the same object."""


def _states(scene: Scene, cluster: str) -> Counter[str]:
    return Counter(node["state"] for node in scene.nodes if node["cluster"] == cluster)


class Lines(ChangedLines, View):
    """A line per event, when nodes change, and for each tenth of the jobs."""

    def show(self, scene: Scene) -> None:
        """Print what is new."""
        self.new_events(scene.events)
        self.when_changed("nodes", self._nodes(scene))
        tenth = scene.done * _TENTHS // scene.jobs
        self.when_changed("jobs", f"at least {tenth * scene.jobs // _TENTHS} done")

    def _nodes(self, scene: Scene) -> str:
        parts = [f"{ON_PREMISES} {len(scene.hosts)}"]
        for place in PLACES:
            states = sorted(_states(scene, place.cluster).items())
            said = ", ".join(f"{number} {state}" for state, number in states) or "none"
            parts.append(f"{place.region} {said}")
        return " | ".join(parts)


class Picture(View):
    """Regions, definitions and the last events, redrawn in place; fits a terminal of 80 by 24."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._start = time.monotonic()

    def show(self, scene: Scene) -> None:
        """Draw the scene."""
        from rich.console import Group
        from rich.text import Text

        seconds = time.monotonic() - self._start
        head = f"{seconds:5.1f} s   {scene.done} of {scene.jobs} jobs done"
        events = Text("\n".join(scene.events[-_EVENTS_SHOWN:]), style="dim", no_wrap=True)
        self._display.update(
            Group(Text(head, style="bold"), self._regions(scene), self._queues(scene), events)
        )

    def _regions(self, scene: Scene) -> Any:
        table = new_table("Regions", "region", "weight", "nodes", "runs", "")
        ran = str(scene.ran[""])
        table.add_row(ON_PREMISES, "first", f"{len(scene.hosts)} of {len(HOSTS)}", ran, "")
        for place in PLACES:
            states = sorted(_states(scene, place.cluster).items())
            nodes = ", ".join(f"{number} {coloured(state)}" for state, number in states)
            away = "[red]no capacity[/red]" if scene.away and place is LOSES else ""
            ran = str(scene.ran[place.region])
            table.add_row(place.region, str(place.weight), nodes or "none", ran, away)
        return table

    def _queues(self, scene: Scene) -> Any:
        table = new_table("Jobs", "definition", "waiting", "running", "done", "")
        for definition in scene.counts:
            waiting = scene.count(definition, State.Waiting)
            running = scene.count(definition, State.Running)
            done = scene.count(definition, *_ENDED)
            full = _BAR * done // max(1, waiting + running + done)
            bar = "█" * full + "·" * (_BAR - full)
            table.add_row(definition, str(waiting), str(running), str(done), bar)
        return table
