"""Local machines: real processes that come and go with the nodes, and never outlive the
simulator."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import requests

from hpc.autoscale.simulator import serve

# Writes down what it knows, has a child, ignores SIGTERM when told to, and says when it is ready.
MACHINE = """
import os, pathlib, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
if os.environ.get("STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("facts").write_text(" ".join(sys.argv[1:]) + " " + os.environ.get("NODE", ""))
pathlib.Path("pids").write_text("%d %d" % (os.getpid(), child.pid))
pathlib.Path("ready").touch()
time.sleep(600)
"""


def described(**machine):
    """A cluster of one nodearray with such machines, whose simulated phases take no time."""
    template = {
        "command": ["{python}", "-c", MACHINE],
        "ready_file": "ready",
        "grace": 5,
        **machine,
    }
    phases = "allocation acquiring preparing terminating deallocating restarting eviction_notice"
    return {
        "clusters": {
            "c1": {
                "region": "westus2",
                "nodearrays": {
                    "htc": {
                        "machine_types": ["Standard_F2s_v2"],
                        "spot": True,
                        "machine": template,
                    }
                },
            }
        },
        "lifecycle": dict.fromkeys(phases.split(), 0),
    }


def eventually(true, seconds=30.0):
    """Wait until something holds; what it returned."""
    deadline = time.monotonic() + seconds
    while not (result := true()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
    return result


def alive(pid):
    """Whether a process runs; a zombie does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


class Cluster:
    """The cluster c1 of a simulator on a real clock."""

    def __init__(self, simulator):
        self.simulator = simulator
        self.nodes = simulator.cluster("c1").nodes

    def post(self, path, body):
        """A request that must be accepted."""
        response = requests.post(
            f"{self.simulator.url}{path}",
            json=body,
            auth=(self.simulator.username, self.simulator.password),
            timeout=10,
        )
        assert response.status_code in (200, 202), response.text

    def boot(self, count=1):
        """Nodes that are Ready; the pids of their processes, child after parent."""
        sets = [{"nodearray": "htc", "count": count}]
        self.post("/clusters/c1/nodes/create", {"sets": sets})
        eventually(lambda: self.statuses() == ["Ready"] * count)
        return [pid for machine in self.simulator.machines() for pid in pids_of(machine)]

    def act(self, action, *names):
        """An action of the protocol."""
        self.post(f"/clusters/c1/nodes/{action}", {"names": list(names)})

    def statuses(self):
        """Status of every node."""
        return [node["Status"] for node in self.nodes()]

    def events(self):
        """What the journal tells of nodes."""
        return [entry["event"] for entry in self.simulator.journal.entries(cluster="c1")]


def pids_of(machine):
    """The machine's process and its child."""
    return [int(word) for word in (Path(machine["work_dir"]) / "pids").read_text().split()]


@pytest.fixture
def running(tmp_path):
    """Start simulators; afterwards no process may be left of any of their machines."""

    @contextlib.contextmanager
    def start(**machine):
        with serve(described(**machine), clock="real", work_dir=tmp_path) as simulator:
            yield Cluster(simulator)

    yield start
    pids = [int(word) for path in tmp_path.rglob("pids") for word in path.read_text().split()]
    assert [pid for pid in pids if alive(pid)] == []


def test_a_machine_runs_while_its_node_does(running):
    """It knows its node, is Ready only when it says so, and is gone with its children before the
    node is."""
    command = ["{python}", "-c", MACHINE, "{name}", "{hostname}", "{private_ip}", "{vm_size}"]
    command += ["{nodearray}", "{cluster}", "{vcpus}", "{memory_gb}", "{gpus}", "{{x}}"]
    with running(command=command, env={"NODE": "{node_id}", "STUBBORN": ""}) as cluster:
        pids = cluster.boot()
        (machine,) = cluster.simulator.machines()
        (node,) = cluster.nodes()
        assert (machine["node_id"], machine["ready"], machine["pid"]) == (
            node["NodeId"],
            True,
            pids[0],
        )
        facts = (Path(machine["work_dir"]) / "facts").read_text().split()
        assert facts[:4] == ["htc-1", node["Hostname"], node["PrivateIp"], node["MachineType"]]
        assert facts[4:] == ["htc", "c1", "2", "4", "0", "{x}", node["NodeId"]]
        assert os.getsid(pids[0]) == pids[0] != os.getsid(0)
        cluster.act("terminate", "htc-1")
        eventually(lambda: not cluster.nodes())
        assert not any(alive(pid) for pid in pids)
        assert cluster.events().index("machine_gone") < cluster.events().index("terminated")


def test_ending_the_simulator_ends_all_machines(running):
    """With everything that they started; the fixture checks."""
    with running() as cluster:
        assert all(alive(pid) for pid in cluster.boot(3))


def test_a_machine_that_ignores_sigterm_is_killed_after_its_grace(running):
    """And its node waits for that."""
    with running(env={"STUBBORN": "1"}, grace=0.2) as cluster:
        pids = cluster.boot()
        cluster.act("terminate", "htc-1")
        eventually(lambda: not cluster.nodes())
        assert not any(alive(pid) for pid in pids)


def test_a_machine_that_dies_fails_its_node(running):
    """With the reason; the node can be ended as any other."""
    with running() as cluster:
        pid, child = cluster.boot()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: cluster.statuses() == ["Failed"])
        assert "killed by SIGKILL" in cluster.nodes()[0]["StatusMessage"]
        assert not alive(child)
        cluster.act("terminate", "htc-1")
        eventually(lambda: not cluster.nodes())


def test_a_failed_machine_comes_back_when_its_node_is_retried(running):
    """As another process."""
    with running() as cluster:
        pid, _ = cluster.boot()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: cluster.statuses() == ["Failed"])
        cluster.post("/cloud/actions/retry/c1", {})
        eventually(lambda: cluster.statuses() == ["Ready"])
        assert cluster.simulator.machines()[0]["pid"] != pid


def test_a_machine_may_be_restarted_when_it_dies(running):
    """The node stays as it is."""
    with running(on_exit="restart", restart_delay=0.05) as cluster:
        pid, _ = cluster.boot()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: cluster.events().count("machine_up") == 2)
        assert cluster.statuses() == ["Ready"]
        (machine,) = cluster.simulator.machines()
        assert machine["starts"] == 2 and machine["pid"] != pid
        cluster.act("terminate", "htc-1")
        eventually(lambda: not cluster.nodes())


def test_a_machine_that_waits_to_be_restarted_can_be_ended(running):
    """Its node is terminated in the pause."""
    with running(on_exit="restart", restart_delay=60) as cluster:
        pid, _ = cluster.boot()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: "machine_restarts" in cluster.events())
        cluster.act("terminate", "htc-1")
        eventually(lambda: not cluster.nodes())


def test_a_command_that_does_not_exist_fails_the_node(running):
    """The message names it."""
    with running(command=["/no/such/program"]) as cluster:
        sets = [{"nodearray": "htc", "count": 1}]
        cluster.post("/clusters/c1/nodes/create", {"sets": sets})
        eventually(lambda: cluster.statuses() == ["Failed"])
        assert "/no/such/program: No such file" in cluster.nodes()[0]["StatusMessage"]


def test_the_last_words_of_a_machine_are_in_the_message(running):
    """What it wrote to standard error, and its exit code."""
    with running(command=["{python}", "-c", "import sys; sys.exit('no broker')"]) as cluster:
        cluster.post("/clusters/c1/nodes/create", {"sets": [{"nodearray": "htc", "count": 1}]})
        eventually(lambda: cluster.statuses() == ["Failed"])
        assert "exit code 1 (no broker)" in cluster.nodes()[0]["StatusMessage"]


def test_a_node_is_ready_when_the_command_says_so(running):
    """It is asked again until it succeeds."""
    asked = "import os, sys; os.path.exists('go') or (open('asked', 'w'), sys.exit(1))"
    with running(ready_command=["{python}", "-c", asked]) as cluster:
        cluster.post("/clusters/c1/nodes/create", {"sets": [{"nodearray": "htc", "count": 1}]})
        (machine,) = eventually(cluster.simulator.machines)
        eventually((Path(machine["work_dir"]) / "asked").exists)
        assert cluster.statuses() == ["Preparing"]
        (Path(machine["work_dir"]) / "go").touch()
        eventually(lambda: cluster.statuses() == ["Ready"])


def test_a_machine_that_is_never_ready_can_be_ended(running):
    """Also while its readiness is being asked for."""
    hang = ["{python}", "-c", "import time; time.sleep(600)"]
    with running(ready_command=hang) as cluster:
        cluster.post("/clusters/c1/nodes/create", {"sets": [{"nodearray": "htc", "count": 1}]})
        (machine,) = eventually(cluster.simulator.machines)
        eventually((Path(machine["work_dir"]) / "pids").exists)
        cluster.act("terminate", "htc-1")
        eventually(lambda: not cluster.nodes())


def test_restart_and_deallocate_are_other_processes_of_the_same_node(running):
    """The VM keeps its address; its work directory stays."""
    with running() as cluster:
        pids = cluster.boot()
        address = cluster.nodes()[0]["PrivateIp"]
        cluster.act("restart", "htc-1")
        eventually(lambda: cluster.events().count("ready") == 2)
        cluster.act("deallocate", "htc-1")
        eventually(lambda: cluster.statuses() == ["Deallocated"])
        assert cluster.simulator.machines() == []
        cluster.act("start", "htc-1")
        eventually(lambda: cluster.statuses() == ["Ready"])
        (machine,) = cluster.simulator.machines()
        assert pids_of(machine)[0] not in pids
        assert cluster.nodes()[0]["PrivateIp"] == address


def test_an_evicted_machine_gets_no_grace(running):
    """Its power is cut."""
    with running(env={"STUBBORN": "1"}, grace=600) as cluster:
        pids = cluster.boot()
        cluster.simulator.cluster("c1").evict("htc-1")
        eventually(lambda: not cluster.nodes())
        assert not any(alive(pid) for pid in pids)


def test_processes_that_left_the_session_are_ended_too(running):
    """A daemon of the machine is found as an orphan."""
    daemon = (
        "import os, time; os.setsid(); open('pids', 'w').write(str(os.getpid())); time.sleep(600)"
    )
    shell = f"""{sys.executable} -c "{daemon}" & touch ready; sleep 600"""
    with running(command=["sh", "-c", shell]) as cluster:
        cluster.post("/clusters/c1/nodes/create", {"sets": [{"nodearray": "htc", "count": 1}]})
        eventually(lambda: cluster.statuses() == ["Ready"])
        (machine,) = cluster.simulator.machines()
        path = Path(machine["work_dir"]) / "pids"
        (pid,) = eventually(lambda: path.exists() and [int(w) for w in path.read_text().split()])
        assert os.getsid(pid) == pid
        cluster.act("terminate", "htc-1")
        eventually(lambda: not cluster.nodes())
        assert not alive(pid)


def test_a_killed_keeper_takes_its_machine_along(running):
    """The process between simulator and machine is no weak spot."""
    with running() as cluster:
        pids = cluster.boot()
        os.kill(psutil.Process(pids[0]).ppid(), signal.SIGKILL)
        eventually(lambda: cluster.statuses() == ["Failed"])
        eventually(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_machines_end_with_the_process_of_the_simulator(tmp_path, number):
    """However that ends."""
    program = """
import json, signal, sys, time
from hpc.autoscale.simulator import serve
import requests
# ignored in what a shell starts in the background
signal.signal(signal.SIGINT, signal.default_int_handler)
with serve(json.loads(sys.argv[1]), clock="real", work_dir=sys.argv[2]) as simulator:
    sets = [{"nodearray": "htc", "count": 2}]
    auth = (simulator.username, simulator.password)
    requests.post(simulator.url + "/clusters/c1/nodes/create", json={"sets": sets}, auth=auth)
    print("running", flush=True)
    time.sleep(600)
"""
    arguments = [json.dumps(described(env={"STUBBORN": "1"}, grace=0.3)), str(tmp_path)]
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"running\n"
        eventually(lambda: len(list(tmp_path.rglob("ready"))) == 2)
        pids = [int(w) for path in tmp_path.rglob("pids") for w in path.read_text().split()]
        process.send_signal(number)
        process.wait(30)
        eventually(lambda: not any(alive(pid) for pid in pids))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
