"""The course of the demo: start everything, submit, watch, end everything, judge."""

import json
import os
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import messages
import tasks
from demo_kit import checks
from demo_kit.broker import Broker
from demo_kit.cloud import Cloud
from demo_kit.loop import Loop
from demo_kit.processes import Processes
from demo_kit.scene import Scene, TaskRecord
from demo_kit.stage import Failure
from demo_kit.view import View
from demo_kit.world import EXAMPLE, QUEUES, TIME_LIMIT, WORK, clusters, overrides
from hpc.autoscale.util import load_config

_LOOK_EVERY = 0.4


class Show:
    """One run of the demo. Call `open`, `watch`, `close`, in this order."""

    def __init__(self, work: Path, processes: Processes, broker: Broker) -> None:
        self._work = work
        self._processes = processes
        self._broker = broker
        self._deliveries = work / "deliveries.jsonl"
        self._scene = Scene()

    def open(self) -> None:
        """Start the simulator and the loop, and submit the tasks. There are no nodes yet."""
        password = secrets.token_hex(16)
        description = clusters(self._broker, self._deliveries)
        self._cloud = Cloud(self._processes, self._work, description, "demo", password)
        config = load_config(
            str(EXAMPLE / "autoscale.json"), overrides(self._cloud.url, password, self._work)
        )
        path = self._work / "autoscale.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=2))
        for work in WORK:
            for _ in range(work.count):
                self._submit(work.task, work.arguments)
        self._event(f"submitted {len(self._scene.tasks)} tasks to the {self._broker.kind} broker")
        self._loop = Loop(self._processes, path)

    def watch(self, view: View, kill_worker: bool) -> None:
        """Look and show until all tasks are done and all nodes gone. Failure when that takes too
        long."""
        deadline = time.monotonic() + TIME_LIMIT
        scene = self._scene
        while not (scene.done == len(scene.tasks) and scene.passes and not scene.nodes):
            if time.monotonic() > deadline:
                raise Failure(f"not at its end after {TIME_LIMIT} s: {self._where_it_stands()}")
            if self._loop.process.poll() is not None:
                raise Failure(f"the loop ended by itself: {self._processes.tail('loop')}")
            self._look()
            if kill_worker and not scene.killed and scene.done >= len(scene.tasks) // 2:
                scene.killed = self._kill_a_worker()
            view.show(scene)
            time.sleep(_LOOK_EVERY)
        self._event("all tasks are done and all nodes are gone")
        view.show(scene)

    def close(self) -> None:
        """End loop and simulator in order, then judge. Failure with everything that was not as it
        must be."""
        faults = []
        for name, process in (("loop", self._loop.process), ("simulator", self._cloud.process)):
            code = self._processes.stop(process, grace=30)
            if code != 0:
                faults.append(f"the {name} ended with code {code}: {self._processes.tail(name)}")
        lives = self._cloud.lives()
        faults += checks.task_faults(self._scene.tasks.values(), lives)
        faults += checks.node_faults(lives.values())
        if self._scene.killed:
            faults += checks.redelivery_faults(self._delivered(), self._scene.killed)
        if faults:
            raise Failure("\n  ".join(["", *faults]))
        print(self._verdict(len(lives)))

    def _submit(self, task: str, arguments: tuple[int, float]) -> None:
        """The id is kept and not the result object, which would go on talking to the broker when it
        is garbage."""
        task_id = tasks.app.tasks[task].delay(*arguments).id
        queue = tasks.app.conf.task_routes[task]["queue"]
        self._scene.tasks[task_id] = TaskRecord(task_id, queue)

    def _look(self) -> None:
        """Bring the scene up to date."""
        scene = self._scene
        for task in scene.tasks.values():
            if not task.done:
                meta = tasks.app.backend.get_task_meta(task.task_id)
                task.state = meta["status"]
                task.receipt = meta["result"] if task.state == "SUCCESS" else None
        with messages.connected(tasks.app) as connection:
            scene.waiting = messages.depths(connection, QUEUES)
        before = {node["id"]: node for node in scene.nodes}
        scene.nodes = self._cloud.nodes()
        self._notice_nodes(before, {node["id"]: node for node in scene.nodes})
        for table in self._loop.new_passes():
            scene.passes += 1
            scene.demand = table
        scene.unsatisfied = self._loop.unsatisfied()

    def _notice_nodes(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        for node_id, node in now.items():
            if node_id not in before:
                self._event(f"+ {node['name']} ({node['vm_size']}) was requested")
            elif node["state"] != before[node_id]["state"]:
                self._event(f"  {node['name']} is {node['state']}")
        for node_id in before.keys() - now.keys():
            self._event(f"- {before[node_id]['name']} is gone")

    def _kill_a_worker(self) -> str | None:
        """kill -9 a worker that is at work on the queue with the most tasks; its NodeId, None when
        there is none."""
        ready = sum(node["state"] == "Ready" for node in self._scene.nodes)
        # with a limit it returns with the last answer: later, the tasks in question might be over
        replies = tasks.app.control.broadcast("census", reply=True, timeout=1.0, limit=ready)
        for said in (census for reply in replies for census in reply.values()):
            if QUEUES[0] in said.get("queues", ()) and said["held"]:
                os.kill(said["pid"], signal.SIGKILL)
                self._event(
                    f"! killed the worker of node {self._name_of(said['node_id'])} (kill -9)"
                )
                return str(said["node_id"])
        return None

    def _name_of(self, node_id: str) -> str:
        return next((n["name"] for n in self._scene.nodes if n["id"] == node_id), node_id)

    def _event(self, text: str) -> None:
        self._scene.events.append(text)

    def _delivered(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._deliveries.read_text().splitlines()]

    def _where_it_stands(self) -> str:
        scene = self._scene
        nodes = ", ".join(f"{node['name']} {node['state']}" for node in scene.nodes) or "no nodes"
        return f"{scene.done} of {len(scene.tasks)} tasks done, {nodes}, {scene.passes} passes"

    def _verdict(self, nodes: int) -> str:
        count = len(self._scene.tasks)
        again = sum(
            bool(task.receipt and task.receipt["redelivered"])
            for task in self._scene.tasks.values()
        )
        extra = f", {again} of them after their worker was killed" if self._scene.killed else ""
        return (
            f"OK: {count} tasks ran{extra}, each on one of {nodes} nodes that were created for"
            " them and are gone"
        )
