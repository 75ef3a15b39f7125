"""FileQueue: a scheduler that is a file. In your integration this would be qstat, qsub and qconf.

The file has the tasks that wait, and the hosts with what they are and what runs on them. When it
cannot be read every command raises OSError.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class QueueHost:
    """A host: how many tasks it can run, whether it starts new ones, and which run.

    `node_id` is the id of the node that it is, None when it is not CycleCloud's.
    """

    slots: int
    node_id: str | None = None
    open: bool = True
    running: list[str] = field(default_factory=list)


class FileQueue:
    """The commands of the scheduler."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def create(self) -> None:
        """Make a queue without tasks and hosts."""
        self._path.write_text('{"waiting": [], "hosts": {}}', encoding="utf-8")

    def waiting(self) -> list[object]:
        """The names of the tasks that wait; whatever else somebody has written there, as it is."""
        return list(self._read()["waiting"])

    def hosts(self) -> dict[str, QueueHost]:
        """All hosts, by name."""
        return {name: QueueHost(**host) for name, host in self._read()["hosts"].items()}

    def submit(self, *tasks: str) -> None:
        """Let tasks wait."""
        with self._changing() as state:
            state["waiting"] += tasks

    def comments(self) -> dict[str, str]:
        """What is noted on tasks, by name: what users see of a task that waits."""
        return dict(self._read().get("comments", {}))

    def comment(self, task: str, text: str) -> None:
        """Note something on a task; an empty text takes back what is noted."""
        with self._changing() as state:
            comments = state.setdefault("comments", {})
            comments.pop(task, None)
            comments.update({task: text} if text else {})

    def start(self, hostname: str) -> bool:
        """Start the task that waits longest on a host.

        False when there is no such host, no task, or no room.
        """
        host = self.hosts().get(hostname)
        if not host or not host.open or len(host.running) >= host.slots or not self.waiting():
            return False
        with self._changing() as state:
            state["hosts"][hostname]["running"].append(state["waiting"].pop(0))
        return True

    def finish(self, hostname: str) -> None:
        """End the task that runs longest on a host."""
        with self._changing() as state:
            state["hosts"][hostname]["running"].pop(0)

    def add_host(self, hostname: str, slots: int, node_id: str | None = None) -> None:
        """Let a new host in."""
        with self._changing() as state:
            state["hosts"][hostname] = asdict(QueueHost(slots, node_id))

    def set_open(self, hostname: str, is_open: bool) -> None:
        """Whether a host starts new tasks. What runs there runs on."""
        with self._changing() as state:
            state["hosts"][hostname]["open"] = is_open

    def remove_host(self, hostname: str) -> None:
        """Forget a host, if it is known; what ran there waits again."""
        with self._changing() as state:
            host = state["hosts"].pop(hostname, {"running": []})
            state["waiting"] += host["running"]

    def _read(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        return state

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        state = self._read()
        yield state
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(state), encoding="utf-8")
        os.replace(new, self._path)
