"""The course of the demo: start everything, submit, watch, take a region away and give it back,
end everything, judge."""

import json
import secrets
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import requests

from demo_kit.broker import start_broker
from demo_kit.cloud import Cloud
from demo_kit.processes import Processes
from demo_kit.stage import Failure
from hpc.autoscale.hpctypes import Location, VMSize
from hpc.autoscale.node.vm_sizes import price_per_hour
from hpc_queue import Queue
from hpc_queue.settings import Settings
from hpc_queue.stored import Job, state_of, tries_of
from hpc_queue.views import by_definition
from regions_kit import audit, world
from regions_kit.audit import Figures, Machines, Outcome, Run
from regions_kit.scene import Scene
from regions_kit.view import View

_LOOK_EVERY = 0.3
_USER = "demo"


class Show:
    """One run of the demo. Call `open`, `watch`, `close`, in this order."""

    def __init__(self, work: Path, processes: Processes, jobs: int) -> None:
        self._work = work
        self._processes = processes
        self._scale = world.Scale(jobs)
        self._scene = Scene(jobs)
        self._runs = work / "runs"
        self._read = 0
        self._lost_at: float | None = None
        self._back = False

    def open(self) -> None:
        """Start broker, simulator and loop, and submit the jobs. There are no nodes yet."""
        self._runs.touch()
        broker = start_broker("embedded", self._work / "broker", self._processes)
        section = world.queue_section(broker.url, self._work, self._scale)
        settings = Settings.read({"hpcq": section})
        queue_file, loop_file = self._work / "queue.json", self._work / "autoscale.json"
        queue_file.write_text(json.dumps({"hpcq": section}))
        self._password = secrets.token_hex(16)
        self._cloud = Cloud(
            self._processes,
            self._work,
            world.clusters(queue_file, self._runs),
            _USER,
            self._password,
            [place.cluster for place in world.PLACES],
        )
        connection = {"url": self._cloud.url, "username": _USER, "password": self._password}
        config = world.configuration(connection, section, self._work, queue_file, self._runs)
        loop_file.touch(mode=0o600)
        loop_file.write_text(json.dumps(config, indent=2))
        self._queue = Queue.open(settings)
        self._jobs = [self._queue.submit(spec) for spec in self._scale.specs()]
        self._event(f"submitted {self._scene.jobs} jobs as {len(self._jobs)} arrays")
        command = [sys.executable, "-m", "hpc.autoscale.cli", "autoscale"]
        command += ["--config", str(loop_file), "--interval", str(world.PASS_INTERVAL)]
        self._loop = self._processes.start("loop", command, {"PYTHONPATH": str(world.SOURCE)})

    def watch(self, view: View) -> None:
        """Look and show until all jobs have ended and all workers are gone. Failure when that
        takes too long."""
        deadline = time.monotonic() + self._scale.time_limit
        scene = self._scene
        while scene.done < scene.jobs or scene.nodes or scene.hosts:
            if time.monotonic() > deadline:
                raise Failure(f"not at its end after {self._scale.time_limit} s: {self._stands()}")
            if self._loop.poll() is not None:
                raise Failure(f"the loop ended by itself: {self._processes.tail('loop')}")
            self._look()
            self._move_capacity()
            view.show(scene)
            time.sleep(_LOOK_EVERY)
        self._event("all jobs have ended, and all workers are gone")
        view.show(scene)

    def close(self) -> None:
        """End loop and simulator in order, then judge. Failure with everything that was not as it
        must be."""
        faults = []
        for name, process in (("loop", self._loop), ("simulator", self._cloud.process)):
            code = self._processes.stop(process, grace=30)
            if code != 0:
                faults.append(f"the {name} ended with code {code}: {self._processes.tail(name)}")
        jobs = [self._queue.store.job(job) for job in self._jobs]
        runs = [Run.parse(line) for line in self._runs.read_text().splitlines()]
        outcomes = [self._outcome(job) for job in jobs]
        for line in audit.table(self._machines(), runs, _figures(jobs), world.SLOTS):
            print(line)
        faults += audit.job_faults(outcomes, runs)
        if not self._back:
            faults.append(f"{world.LOSES.region} did not lose its capacity and get it back")
        if faults:
            more = len(faults) - audit.MOST_FAULTS
            said = faults[: audit.MOST_FAULTS] + ([f"and {more} more"] if more > 0 else [])
            raise Failure("\n  ".join(["", *said]))
        lost = sum(len(tries) for each in outcomes for tries in each.lost().values())
        failed = sum(job.spec.count for job in jobs if job.spec.retry_failed)
        print(
            f"OK: {self._scene.jobs} jobs ran exactly as often as their retries say: {failed} that"
            f" always fail {world.RETRIES_OF_FAILING + 1} times; {lost} runs were lost with their"
            " workers and ran again"
        )

    # -- looking

    def _look(self) -> None:
        """Bring the scene up to date."""
        scene = self._scene
        with open(self._runs, "rb") as file:
            file.seek(self._read)
            added = file.read()
        lines = added[: added.rfind(b"\n") + 1]
        self._read += len(lines)
        scene.ran.update(Run.parse(line).region for line in lines.decode().splitlines())
        scene.counts = by_definition(self._queue.store.counts())
        workers = {str(worker.said.get("host")) for worker in self._queue.store.workers()}
        scene.hosts = [host for host in world.HOSTS if host in workers]
        before = {node["id"]: node for node in scene.nodes}
        scene.nodes = self._cloud.nodes()
        now = {node["id"]: node for node in scene.nodes}
        for sign, nodes, others, what in (
            ("+", now, before, "was requested"),
            ("-", before, now, "is gone"),
        ):
            for node_id, node in nodes.items():
                if node_id not in others:
                    self._event(f"{sign} {node['cluster']}/{node['name']} {what}")

    def _move_capacity(self) -> None:
        """Half-way one region loses its machines and can have no others; at three quarters it can
        again."""
        scene, place = self._scene, world.LOSES
        if self._lost_at is None and scene.done >= scene.jobs // 2:
            self._lost_at = time.monotonic()
            scene.away = True
            self._post(f"regions/{place.region}/capacity", {world.SIZE: 0})
            lost = [
                self._post(f"clusters/{place.cluster}/evict", {"names": [node["name"]]})
                for node in scene.nodes
                if node["cluster"] == place.cluster and node["state"] == "Ready"
            ]
            self._event(f"! {place.region} has no capacity any more: {sum(lost)} nodes are lost")
        elif scene.away and scene.done >= scene.jobs * 3 // 4:
            scene.away = False
            self._back = True
            self._post(f"regions/{place.region}/capacity", {world.SIZE: 100})
            self._event(f"! {place.region} has capacity again")

    def _post(self, path: str, body: dict[str, Any]) -> bool:
        """Command the simulator; False when a node is leaving anyhow. Failure for any other
        refusal."""
        answer = requests.post(
            f"{self._cloud.url}/simulator/{path}",
            json=body,
            auth=(_USER, self._password),
            timeout=30,
        )
        if not answer.ok and answer.status_code not in (404, 409):
            raise Failure(f"the simulator refused {path}: {answer.text}")
        return answer.ok

    def _event(self, text: str) -> None:
        self._scene.events.append(text)

    def _stands(self) -> str:
        scene = self._scene
        nodes = ", ".join(f"{node['name']} {node['state']}" for node in scene.nodes) or "no nodes"
        return f"{scene.done} of {scene.jobs} jobs done, {nodes}, hosts {scene.hosts}"

    # -- judging

    def _outcome(self, job: Job) -> Outcome:
        store = self._queue.store
        elements = [(state_of(byte), tries_of(byte)) for byte in store.states(job.id)]
        history = [(low, high, text) for low, high, _, text in store.history(job.id)]
        return Outcome(job.id, job.spec, elements, history)

    def _machines(self) -> dict[str, Machines]:
        """What the journal tells of the nodes of each region. Hosts cost nothing."""
        regions = {place.cluster: place.region for place in world.PLACES}
        found = {"": Machines(dict.fromkeys(world.HOSTS, 0.0), set(world.HOSTS))}
        for region in regions.values():
            price = price_per_hour(Location(region), VMSize(world.SIZE), spot=True)
            found[region] = Machines(price=price)
        since: dict[str, float] = {}
        for entry in self._cloud.journal():
            machines = found.get(regions.get(entry.get("cluster", ""), ""))
            node = entry.get("node_id")
            if machines is None or node is None:
                continue
            when = datetime.fromisoformat(entry["time"]).timestamp()
            if entry["event"] == "acquiring":
                since[node] = when
            elif entry["event"] == "ready":
                machines.ready.add(node)
            elif entry["event"] == "terminated" and node in since:
                machines.seconds[node] = when - since.pop(node)
        return found


def _figures(jobs: list[Job]) -> Figures:
    begun = min((job.begun for job in jobs if job.begun is not None), default=0.0)
    ended = max((job.ended for job in jobs if job.ended is not None), default=0.0)
    count = sum(job.spec.count for job in jobs)
    return Figures(begun - min(job.submitted for job in jobs), max(0.001, ended - begun), count)
