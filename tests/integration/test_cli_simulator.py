"""`azscale` and the loop over HTTP: scaling up and down, limits, lost replies, lost listings,
signals."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib import resources

import pytest

from builders.command_lines import at_home
from builders.processes import until
from builders.scripted_server import Answer, serving
from hpc.autoscale import cli
from hpc.autoscale.simulator import serve
from hpc.autoscale.util import SingletonFileLock

SIZE = "Standard_F4s_v2"  # four vCPUs
DRIVER = """
import json, os, time
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode

HERE = os.path.dirname(os.path.abspath(__file__))

class Driver(GenericDriver):
    '''Jobs are in jobs.json: the number of slots by name. While a file named slow is there, reading
    takes a while.'''

    def _read_jobs_and_nodes(self, config):
        with open(os.path.join(HERE, "jobs.json")) as stream:
            jobs = json.load(stream)
        open(os.path.join(HERE, "reading"), "w").close()
        while os.path.exists(os.path.join(HERE, "slow")):
            time.sleep(0.02)
        return [Job(name, {"ncpus": 4}, iterations=slots) for name, slots in jobs.items()], []
"""


@pytest.fixture
def simulator():
    """A cluster of which the quota of the family allows 25 nodes."""
    clusters = {"demo": {"region": "westus2", "nodearrays": {"htc": {"machine_types": [SIZE]}}}}
    regions = {"westus2": {"family_quotas": {"standardFSv2Family": 100}}}
    with serve({"clusters": clusters, "regions": regions}) as running:
        yield running


@pytest.fixture
def site(simulator, tmp_path, monkeypatch, capsys):
    """A directory with a configuration and a driver, and a way of running azscale there."""
    at_home(monkeypatch, tmp_path, simdriver=DRIVER)
    config = {
        **simulator.connection("demo"),
        "driver": "simdriver:Driver",
        "idle_timeout": 0,
        "disable_default_resources": False,
        "retry": {"attempts": 1},
    }
    return Site(tmp_path, config, capsys)


class Site:
    """Where azscale runs."""

    def __init__(self, home, config, capsys):
        self.home = home
        self.path = home / "autoscale.json"
        self.path.write_text(json.dumps(config))
        self.path.chmod(0o600)
        self.capsys = capsys
        self.errors = ""

    def jobs(self, **slots):
        """What the scheduler has: slots by name of a job."""
        (self.home / "jobs.json").write_text(json.dumps(slots))

    def __call__(self, command, *args, code=0):
        """Run a command in this process; what it printed on stdout. `code` None: however it
        ends."""
        ended = 0
        try:
            cli.main([command, "-c", str(self.path), *args])
        except SystemExit as end:
            ended = end.code
        captured = self.capsys.readouterr()
        self.errors = captured.err
        assert code in (None, ended), captured
        return captured.out

    def start(self, *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
        """Start a command in a process of its own."""
        command = [sys.executable, "-m", "hpc.autoscale.cli", args[0], "-c", str(self.path)]
        return subprocess.Popen(
            command + list(args[1:]),
            stdout=stdout,
            stderr=stderr,
            text=True,
            cwd=self.home,
        )

    def wait_for(self, name):
        """Wait until a file is there."""
        until(lambda: (self.home / name).exists(), 30)


@pytest.fixture
def bare_site(tmp_path, monkeypatch, capsys):
    """Make a site for a simulator, with some of its configuration."""
    at_home(monkeypatch, tmp_path, simdriver=DRIVER)

    def make(running, **config):
        config = {**running.connection("demo"), "driver": "simdriver:Driver", **config}
        return Site(tmp_path, config, capsys)

    return make


def test_the_cheapest_nodes_for_the_jobs(bare_site):
    """`azscale demand` and the pass that follows choose by the price of what each job needs, by the
    packaged list."""
    large, small = "Standard_HB120rs_v3", "Standard_F4s_v2"
    arrays = {"hpc": {"machine_types": [large]}, "htc": {"machine_types": [small]}}
    with serve({"clusters": {"demo": {"region": "southcentralus", "nodearrays": arrays}}}) as run:
        site = bare_site(run, packing={"policy": "cheapest"})
        site.jobs(one=1, two=30)
        columns = ("-o", "vm_size,job_ids", "-F", "json")
        planned = json.loads(site("demand", *columns))
        created = json.loads(site("autoscale", *columns))
    by_job = {node["job_ids"][0]: node["vm_size"] for node in planned}
    assert by_job == {"one": small, "two": large}
    assert created == planned


HUGE = "Standard_M128"
TEN_SMALL, ONE_HUGE = {SIZE: 10}, {HUGE: 1}


@pytest.mark.parametrize(
    ("packing", "sizes"),
    [
        ({}, ONE_HUGE),
        ({"order": "declared"}, ONE_HUGE),
        ({"order": "declared", "objective": "cost"}, TEN_SMALL),
        ({"policy": "spot-first"}, {"Standard_F8s_v2": 5}),
        ({"policy": "capacity-aware"}, ONE_HUGE),
        ({"policy": "cheapest"}, {"Standard_F8s_v2": 5}),
        ({"policy": "least-waste"}, {"Standard_F8s_v2": 5}),
        ({"objective": "first-fit"}, ONE_HUGE),
        ({"objective": "cost"}, {"Standard_F8s_v2": 5}),
        ({"objective": "cost", "optimize_seconds": 1}, {"Standard_F8s_v2": 5}),
        ({"objective": "cost", "optimize_rounds": 0}, {"Standard_F8s_v2": 5}),
    ],
)
def test_options_of_packing(bare_site, packing, sizes):
    """Say the same to `azscale demand` and `azscale autoscale` as to a program: which nodes ten
    jobs of four cores get."""
    arrays = {
        "big": {"machine_types": [HUGE]},
        "htc": {"machine_types": [SIZE]},
        "spot": {"machine_types": ["Standard_F8s_v2"], "spot": True},
    }
    if sizes is TEN_SMALL:
        del arrays["spot"]
    with serve({"clusters": {"demo": {"region": "westus2", "nodearrays": arrays}}}) as run:
        site = bare_site(run, packing=packing)
        site.jobs(**{f"job{number}": 1 for number in range(10)})
        columns = ("-o", "name,vm_size", "-F", "json")
        planned = json.loads(site("demand", *columns))
        table = site("demand", "-o", "vm_size")
        created = json.loads(site("autoscale", *columns))
    assert Counter(node["vm_size"] for node in planned) == sizes
    assert created == planned
    assert ("New nodes: $" in table) == (packing.get("objective") == "cost")
    if sizes is TEN_SMALL:
        assert "New nodes: $1.6900 per hour, at most 0.000% above the least" in table


def test_a_solver_prints_nothing(bare_site, simulator):
    """What a process prints at the least cost is JSON and nothing else: the solver, which writes to
    the same stream, says nothing."""
    site = bare_site(simulator, packing={"objective": "cost"})
    # jobs that leave room on each node, so that it takes more than the first guess
    (site.home / "simdriver.py").write_text(DRIVER.replace('"ncpus": 4', '"ncpus": 3'))
    site.jobs(one=3)
    out, errors = site.start("demand", "-o", "vm_size", "-F", "json").communicate(timeout=60)
    assert json.loads(out) == [{"vm_size": SIZE}] * 3, errors


@pytest.mark.parametrize(
    ("policy", "size"),
    [("least-waste", "Standard_HB120rs_v3"), ("cheapest", "Standard_F2s_v2")],
)
def test_a_lone_job(bare_site, policy, size):
    """docs/configuration.md: `least-waste` counts on others to use what is left over of a large
    node, `cheapest` does not."""
    arrays = {
        "htc": {"machine_types": ["Standard_F2s_v2"]},
        "hpc": {"machine_types": ["Standard_HB120rs_v3"]},
    }
    with serve({"clusters": {"demo": {"region": "southcentralus", "nodearrays": arrays}}}) as run:
        site = bare_site(run, packing={"policy": policy})
        (site.home / "simdriver.py").write_text(DRIVER.replace('"ncpus": 4', '"ncpus": 1'))
        site.jobs(one=1)
        assert json.loads(site("demand", "-o", "vm_size", "-F", "json")) == [{"vm_size": size}]


@pytest.mark.parametrize("command", ["plan", "status", "demand", "autoscale"])
def test_without_a_driver_no_jobs_are_known_of(bare_site, simulator, command):
    """That is said, as none that are known of are not the same as none."""
    site = bare_site(simulator, driver=None)
    site(command)
    assert "no driver is configured, and nobody has reported a request" in site.errors
    assert "no jobs are known of" in site.errors


def started(simulator):
    """Names of the nodes that run or will run."""
    nodes = simulator.cluster("demo").nodes()
    return sorted(node["Name"] for node in nodes if node["TargetState"] == "Started")


def test_up_and_down(site, simulator):
    """Nodes come for jobs, and go when there are none; each command says its part of it."""
    site.jobs(a=3)
    site("demand")
    assert "3 requested (htc-1, htc-2, htc-3)" in site.errors
    site("autoscale", "--dry-run")
    assert started(simulator) == []
    site("autoscale")
    assert "3 created" in site.errors
    assert started(simulator) == ["htc-1", "htc-2", "htc-3"]
    simulator.clock.settle()
    site("autoscale")
    assert "3 joined" in site.errors
    states = json.loads(site("nodes", "-F", "json", "-o", "name,state"))
    assert {node["state"] for node in states} == {"Ready"}
    site.jobs()
    site("autoscale")
    assert "3 refused (IdleTooBriefly)" in site.errors
    site("autoscale")
    assert "3 deleted" in site.errors
    simulator.clock.settle()
    assert started(simulator) == []


def test_creating_more_nodes_than_a_quota_leaves_room_for(site, simulator):
    """Says the quota, what is in use of it, and what was asked for; and what is never allowed."""
    for nodes, only, said in (
        ("20", "20", ""),
        ("10", "5", "has 80 of 100 cores in use, and 10 nodes take 40"),
        ("2000", "5", "allows 100 cores in all, and 8000 are needed"),
    ):
        site("create_nodes", "-n", nodes, "-v", "Standard_F4s_v2", code=1 if said else 0)
        assert len(started(simulator)) == 20
        if said:
            expected = (
                f"only {only} of {nodes} nodes can be created, and none was created: the quota"
            )
            assert f"{expected} of standardFSv2Family in westus2 {said}\n" in site.errors


def test_exactly_as_many_as_the_quota_allows(site, simulator):
    """Of 60 nodes 25, and never more in any later pass; the limit is named, and what of it is only
    planned."""
    site.jobs(big=60)
    full = "has 100 of 100 cores in use"
    for said in (f"{full} or planned (100 cores planned)", full, full):
        site("autoscale")
        assert len(started(simulator)) == 25
        assert "1 job (big) waits: the quota of standardFSv2Family" in site.errors
        assert f"{said}, and a node takes 4\n" in site.errors
        simulator.clock.advance(30)
    out = site("analyze", "-j", "big")
    assert "35 slots short" in out
    assert "standardFSv2Family" in out


def test_the_shipped_logging_says_once_why_jobs_wait(bare_site):
    """One entry for all jobs that wait for the same, however many they are, and none for each of
    their results."""
    clusters = {"demo": {"region": "westus2", "nodearrays": {"htc": {"machine_types": [SIZE]}}}}
    regions = {"westus2": {"family_quotas": {"standardFSv2Family": 8}}}
    shipped = resources.files("hpc.autoscale") / "logging.conf"
    with serve({"clusters": clusters, "regions": regions}) as running:
        site = bare_site(running, logging={"config_file": str(shipped)})
        site.jobs(**{f"job{number}": 1 for number in range(300)})
        # in a process of its own, which sets up its log
        process = site.start("autoscale")
        process.communicate(timeout=60)
    assert process.returncode == 0
    written = (site.home / "autoscale.log").read_text().splitlines()
    said = [line for line in written if "[hpc.autoscale.results:" in line]
    assert len(said) == 1
    assert "INFO" in said[0]
    assert "job job2 lacks 1 slot: " in said[0]
    assert "NodesFull" in said[0]
    assert "(and 297 more jobs)" in said[0]


def test_a_create_whose_reply_is_lost(site, simulator):
    """Exactly the wanted number of nodes after the next pass, which is another process as far as it
    knows."""
    simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    site.jobs(a=4)
    site("autoscale", code=None)
    site("autoscale", code=None)
    assert len(started(simulator)) == 4
    assert len(simulator.journal.entries(event="created")) == 4


def test_a_listing_without_nodes_is_no_evidence(site, simulator):
    """Nothing is created, nothing deleted, and the line says what contradicts what."""
    site.jobs(a=3)
    site("autoscale")
    simulator.clock.settle()
    simulator.faults.add("empty_nodes", endpoint="*")
    site.jobs(a=3, b=2)
    site("autoscale", code=1)
    assert "demo" in site.errors
    assert site.errors.count("\n") == 1
    simulator.faults.clear()
    assert started(simulator) == ["htc-1", "htc-2", "htc-3"]


def test_a_server_that_never_answers(site, simulator):
    """The command ends after so many tries, and says on stderr what it waits for."""
    with serving() as silent:
        for path in ("status", "nodes"):
            silent.on("GET", f"/clusters/demo/{path}", Answer(fault="silence"))
        config = json.loads(site.path.read_text())
        changes = {"url": silent.url, "timeout": 0.3, "retry": {"attempts": 2}}
        site.path.write_text(json.dumps({**config, **changes}))
        process = site.start("nodes")
        out, said = process.communicate(timeout=60)
        assert (process.returncode, out, len(silent.requests)) == (1, "", 2)
    first, second, error = said.splitlines()
    for line, number in ((first, 1), (second, 2)):
        assert line.startswith(f"{silent.url}/clusters/demo/status?nodes=false: no answer")
        assert line.endswith(f" s; try {number} of 2)")
    assert error.startswith(f"azscale nodes: error: {silent.url}")


def test_what_cannot_be_explained_is_said_once(site, simulator):
    """On stdout, with exit code 1: a job that is not in the queue, and whatever is asked about
    while the server does not answer."""
    site.jobs(mine=1)
    assert "did you mean 'mine'?" in site("explain", "mien", code=1)
    assert site.errors == ""
    simulator.faults.add("no_reply", endpoint="get_cluster_status")
    assert "nobody can tell, because CycleCloud" in site("explain", "mine", code=1)
    assert site.errors == ""
    simulator.faults.clear()


def test_nodes_by_hand(site, simulator):
    """Created under a name and with attributes, and deleted."""
    out = site("create_nodes", "-n", "2", "--name-format", "web-%d", "-O", '{"Tag": "x"}')
    assert "web-1" in out
    assert started(simulator) == ["web-1", "web-2"]
    assert simulator.cluster("demo").nodes()[0]["Tag"] == "x"
    simulator.clock.settle()
    site.jobs()
    out = site("delete_nodes", "-N", "web-2")
    assert "Removed the following nodes from the scheduler:" in out
    assert started(simulator) == ["web-1"]
    config = json.loads(site.path.read_text())
    site.path.write_text(json.dumps({key: v for key, v in config.items() if key != "driver"}))
    out = site(
        "delete_nodes", "-N", "web-1"
    )  # without a scheduler, there is nothing to be removed from
    assert "Removed the following nodes:" in out


def test_a_dry_run_has_the_names_that_are_asked_for(site, simulator):
    """The lowest free numbers, as the server gives them; nothing is made."""
    site.jobs()
    site("create_nodes", "-n", "2", "--name-format", "web-%d")
    shown = json.loads(
        site("create_nodes", "-d", "-n", "2", "--name-format", "web-%d", "-F", "json")
    )
    assert [row["name"] for row in shown] == ["web-3", "web-4"]
    (row,) = json.loads(site("create_nodes", "-d", "--name-format", "login", "-F", "json"))
    assert row["name"] == "login"
    shown = json.loads(site("create_nodes", "-d", "--name-format", "%s-%d", "-F", "json"))
    assert [row["name"] for row in shown] == ["htc-1"]
    assert started(simulator) == ["web-1", "web-2"]


def test_what_the_server_refuses(site, simulator):
    """Is said in words, with the cluster and its server."""
    site.jobs()
    site("create_nodes")
    site("restart_nodes", "-N", "htc-1", code=1)
    assert f"restarting the nodes failed: cluster demo at {simulator.url}: htc-1: " in site.errors
    assert "Result(" not in site.errors


def test_looking(site):
    """Commands that only look work without the driver's help."""
    assert site("connect") == ""
    assert json.loads(site("limits"))[0]["family_max_core_count"] == 100
    assert "htc" in json.dumps(json.loads(site("debug_cluster_status", "--nodes")))
    assert json.loads(site("config"))["password"] == "***"


@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGTERM], [signal.SIGINT], [signal.SIGHUP, signal.SIGHUP, signal.SIGTERM]],
    ids=["SIGTERM", "SIGINT", "SIGHUP"],
)
def test_a_signal_finishes_the_pass(site, simulator, numbers):
    """The loop ends after it, with code 0 and without a lock. A terminal that goes sends SIGHUP
    more than once."""
    site.jobs(a=3)
    (site.home / "slow").touch()
    loop = site.start("autoscale", "--interval", "60", "-o", "name")
    try:
        site.wait_for("reading")
        for number in numbers:
            loop.send_signal(number)
            time.sleep(0.05)
        time.sleep(0.1)
        assert loop.poll() is None
        (site.home / "slow").unlink()
        out, err = loop.communicate(timeout=30)
    finally:
        loop.kill()
        loop.wait()
    assert (loop.returncode, "Traceback" in err) == (0, False), err
    assert "3 created" in err
    assert "htc-1" in out
    assert len(started(simulator)) == 3
    SingletonFileLock(str(site.home / "lock.file")).unlock()


DRAINS_SLOWLY = """
    def handle_draining(self, nodes):
        open(os.path.join(HERE, "draining"), "w").close()
        while os.path.exists(os.path.join(HERE, "slow drain")):
            time.sleep(0.02)
        return nodes
"""
ON_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "hpc.autoscale.cli", *sys.argv[1:]])
"""


def signalled(site, simulator, endpoint, number, *words, seconds=1):
    """A command that gets a signal while it waits for an answer: its exit code, and stderr."""
    simulator.faults.add("latency", endpoint=endpoint, seconds=seconds, times=1)
    process = site.start(*words)
    try:
        until(lambda: simulator.faults.report()[0]["fired"], 30)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    return process.returncode, err


def test_a_signal_in_the_middle_of_a_listing(site, simulator):
    """The pass goes on with the answer: its nodes are created."""
    site.jobs(a=3)
    loop = ("autoscale", "--interval", "60")
    code, err = signalled(site, simulator, "get_nodes", signal.SIGHUP, *loop)
    assert (code, "3 created" in err) == (0, True), err
    SingletonFileLock(str(site.home / "lock.file")).unlock()


def test_a_terminal_that_goes_while_nodes_are_drained(site, simulator):
    """They are deleted, and the loop ends as at other signals, without a lock."""
    (site.home / "simdriver.py").write_text(DRIVER + DRAINS_SLOWLY)
    site.jobs(a=3)
    site("autoscale")
    simulator.clock.settle()
    site.jobs()
    site("autoscale")
    (site.home / "slow drain").touch()
    ours, terminal = os.openpty()
    command = ["autoscale", "-c", str(site.path), "--interval", "0.1"]
    with subprocess.Popen(
        [sys.executable, "-c", ON_ITS_TERMINAL, *command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=site.home,
        start_new_session=True,
    ) as loop:
        os.close(terminal)
        try:
            site.wait_for("draining")
            os.close(ours)
            time.sleep(0.1)
            assert loop.poll() is None
            (site.home / "slow drain").unlink()
            assert loop.wait(30) == 0
        finally:
            loop.kill()
    assert started(simulator) == []
    SingletonFileLock(str(site.home / "lock.file")).unlock()


@pytest.mark.parametrize("words", [["--interval", "60"], []], ids=["loop", "one pass"])
def test_ctrl_c_at_a_terminal_is_answered(site, simulator, words):
    """Who is told that the pass is being finished does not end it in the middle of a create."""
    site.jobs(a=3)
    (site.home / "slow").touch()
    ours, terminal = os.openpty()
    loop = site.start("autoscale", *words, stderr=terminal)
    os.close(terminal)
    try:
        site.wait_for("reading")
        loop.send_signal(signal.SIGINT)
        said = b""
        while b"finishing what is under way; Ctrl-C again ends it at once" not in said:
            said += os.read(ours, 500)
        (site.home / "slow").unlink()
        assert loop.wait(30) == 0
    finally:
        loop.kill()
        os.close(ours)
    assert len(started(simulator)) == 3


def test_a_create_that_is_interrupted_says_that_nobody_knows(site, simulator):
    """And where to look; the next pass asks."""
    site.jobs(a=3)
    command = ("create_nodes", "-n", "2")
    code, err = signalled(site, simulator, "create_nodes", signal.SIGINT, *command, seconds=10)
    assert code == 130
    assert "interrupted: `azscale requests` has what may be carried out all the same" in err
    assert "create_nodes" in site("requests")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("words", [["--interval", "0.1"], []], ids=["loop", "one pass"])
def test_a_full_disk_for_what_is_said_costs_no_pass(site, simulator, words):
    """Nor does it end a loop, which says more once there is room."""
    site.jobs(a=3)
    with open("/dev/full", "w") as full:
        process = site.start("autoscale", *words, stderr=full)
    try:
        until(lambda: len(started(simulator)) == 3, 30)
        if words:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, started(simulator)) == (0, ["htc-1", "htc-2", "htc-3"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("is_full", [True, False])
def test_output_that_is_not_taken_leaves_no_node_drained_and_there(
    site, simulator, monkeypatch, is_full
):
    """What a command does to nodes is done to its end, and then said to be an error."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    site.jobs(a=3)
    site("autoscale")
    site.jobs()
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "w") as full, os.fdopen(writer, "w") as unread:
        stdout = full if is_full else unread
        process = site.start("delete_nodes", "-N", "htc-1,htc-2", "--force", stdout=stdout)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, "cannot be written" in said) == (1, is_full)
    assert started(simulator) == ["htc-3"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_for_the_demand_is_no_failure_of_a_loop(site):
    """It is said once, and the next pass comes after the usual pause."""
    site.jobs(a=3)
    with open("/dev/full", "w") as full:
        loop = site.start("autoscale", "--interval", "0.1", "-F", "json", stdout=full)
    try:
        told = [loop.stderr.readline() for _ in range(4)]
    finally:
        loop.terminate()
        loop.communicate(timeout=30)
    problem = "standard output cannot be written: No space left on device"
    assert f"{problem}; demand is not printed any more" in told[0]
    assert all("1 job, " in line for line in told[1:]), told
    assert loop.returncode == 0


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_a_loop_to_which_nobody_listens_any_more_ends_after_the_pass(
    site, simulator, stream, words
):
    """As in `azscale autoscale --interval 60 2>&1 | head -1`: the pass is done, and the lock is
    free. A reader of the demand that goes is none for whom passes fail."""
    site.jobs(a=3)
    loop = site.start("autoscale", "--interval", "0.1", "-F", "json", *words)
    getattr(loop, stream).close()
    try:
        assert loop.wait(30) == 1
        if stream == "stdout":
            passed, *_, ended = loop.stderr.read().splitlines()
            assert "3 created" in passed or "3 requested" in passed
            assert ended.endswith("nobody reads any more what the loop says, and it has ended")
    finally:
        loop.kill()
        loop.stdout.close()
        loop.stderr.close()
    assert len(started(simulator)) == (0 if words else 3)
    SingletonFileLock(str(site.home / "lock.file")).unlock()


def test_a_loop_under_nohup_goes_on(site):
    """Where SIGHUP is ignored it stays so, and SIGTERM ends the loop as ever."""
    site.jobs(a=1)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        loop = site.start("autoscale", "--interval", "0.1")
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        loop.stderr.readline()
        loop.send_signal(signal.SIGHUP)
        for _ in range(3):
            assert "1 job, " in loop.stderr.readline()
        assert loop.poll() is None
        loop.send_signal(signal.SIGTERM)
        loop.communicate(timeout=30)
    finally:
        loop.kill()
        loop.wait()
    assert loop.returncode == 0


def test_a_loop_keeps_the_configuration_and_driver_that_it_began_with(site, simulator):
    """As documented: what is written into the files meanwhile, mistakes too, is for the next
    one."""
    site.jobs(a=1)
    loop = site.start("autoscale", "--interval", "0.1")
    try:
        loop.stderr.readline()
        site.path.write_text("{no JSON")
        (site.home / "simdriver.py").write_text("no Python")
        site.jobs(a=1, b=1)
        while "1 created (htc-2)" not in (line := loop.stderr.readline()):
            assert "1 job, " in line
        loop.send_signal(signal.SIGTERM)
        _, rest = loop.communicate(timeout=30)
    finally:
        loop.kill()
        loop.wait()
    assert loop.returncode == 0
    assert all(" 2 jobs, " in line for line in rest.splitlines())
    site("autoscale", code=1)
    assert str(site.path) in site.errors


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_loop_says_little(site, simulator, form):
    """A line with the time for each pass, as text or JSON, why a job waits once, and no table
    unless it is asked for or on a terminal."""
    site.jobs(a=1, big=100)
    loop = site.start("autoscale", "--interval", "0.1", "--log-format", form)
    try:
        first = loop.stderr.readline()
        reason = loop.stderr.readline() if form == "text" else first
        later = [loop.stderr.readline() for _ in range(3)]
        loop.send_signal(signal.SIGTERM)
        out, rest = loop.communicate(timeout=30)
    finally:
        loop.kill()
        loop.wait()
    assert (loop.returncode, out) == (0, "")
    assert "standardFSv2Family" in reason
    lines = [first, *later, *rest.splitlines()]
    if form == "json":
        assert {json.loads(line)["event"] for line in lines} == {"pass"}
        return
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 2 jobs, ", line) for line in lines)


def test_a_single_pass_in_json(site):
    """Is one object on stderr; the demand is printed as ever."""
    site.jobs(a=1)
    assert "htc-1" in site("autoscale", "--log-format", "json")
    (said,) = map(json.loads, site.errors.splitlines())
    assert (said["event"], said["created"]) == ("pass", ["htc-1"])


def test_a_loop_on_a_terminal_shows_what_it_does(site, monkeypatch):
    """As a table, after the passes that did something."""
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("hpc.autoscale.clock.sleep", wait)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    site.jobs(a=1)
    out = site("autoscale", "--interval", "0.5")
    assert out.count("NAME ") == 1
    assert out.count("htc-1 ") == 1
    assert len(site.errors.splitlines()) == 3


@pytest.mark.parametrize("form", ["text", "json"])
def test_dry_passes_are_plans(site, simulator, monkeypatch, form):
    """Pass after pass, told of again when a pass would do something else; nothing is done."""
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            site.jobs(a=3)
        if len(waits) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("hpc.autoscale.clock.sleep", wait)
    site.jobs(a=1)
    assert site("autoscale", "--dry-run", "--interval", "0.5", "--log-format", form) == ""
    lines = site.errors.splitlines()
    assert started(simulator) == []
    if form == "json":
        said = [json.loads(line) for line in lines]
        plans = [each["changes"][0]["count"] for each in said if each["event"] == "plan"]
        assert plans == [1, 1, 3]
        assert [each["dry_run"] for each in said if each["event"] == "pass"] == [True] * 3
        return
    assert sum("dry run: 1 job, " in line for line in lines) == 3
    plans = [line.split()[:3] for line in lines if line.startswith("+")]
    assert plans == [["+", "create", "1"], ["+", "create", "3"]]


def test_dry_passes_go_on_after_a_failure(site, monkeypatch):
    """And print the demand for those who ask for it."""
    waits = []

    def wait(seconds):
        waits.append(seconds)
        site.jobs(a=1)
        if len(waits) > 5:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("hpc.autoscale.clock.sleep", wait)
    (site.home / "jobs.json").write_text("no json")
    out = site("autoscale", "--dry-run", "--interval", "0.5", "-o", "name")
    assert "next pass in 2 s" in site.errors.splitlines()[0]
    assert out.split()[:2] == ["NAME", "htc-1"]


def test_a_second_signal_ends_it(site, simulator):
    """For when the pass in hand never ends; the lock goes with the process."""
    site.jobs(a=3)
    (site.home / "slow").touch()
    loop = site.start("autoscale", "--interval", "60")
    try:
        site.wait_for("reading")
        loop.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        loop.send_signal(signal.SIGTERM)
        loop.communicate(timeout=30)
    finally:
        loop.kill()
        loop.wait()
    assert loop.returncode == -signal.SIGTERM
    SingletonFileLock(str(site.home / "lock.file")).unlock()


def test_the_loop_goes_on_after_a_failure(site, simulator):
    """And says when it tries again."""
    (site.home / "jobs.json").write_text("no json")
    loop = site.start("autoscale", "--interval", "0.5")
    try:
        site_error = loop.stderr.readline()
        site.jobs(a=1)
        rest = loop.stderr.readline()
        loop.send_signal(signal.SIGTERM)
        loop.communicate(timeout=30)
    finally:
        loop.kill()
        loop.wait()
    assert "next pass in 2 s" in site_error
    assert "1 created" in rest
    assert len(started(simulator)) == 1


KEEPING = """
import simdriver

class Driver(simdriver.Driver):
    # reads once in its life, and has no way to be asked again

    kept = None

    def read_jobs_and_nodes(self, config):
        if self.kept is None:
            self.kept = self._read_jobs_and_nodes(config)
        return self.kept
"""


def test_the_loop_works_on_the_queue_that_there_is_now(site, simulator):
    """Also with a driver that reads once and keeps what it read: it is another one in each pass."""
    (site.home / "keeping.py").write_text(KEEPING)
    config = json.loads(site.path.read_text())
    site.path.write_text(json.dumps({**config, "driver": "keeping:Driver"}))
    site.jobs(a=1)
    loop = site.start("autoscale", "--interval", "0.1")
    try:
        assert any("1 created" in loop.stderr.readline() for _ in range(30))
        site.jobs(a=1, b=2)
        assert any("2 created" in loop.stderr.readline() for _ in range(30))
        loop.send_signal(signal.SIGTERM)
        loop.communicate(timeout=30)
    finally:
        loop.kill()
        loop.wait()
    assert len(started(simulator)) == 3


def test_two_at_once(site):
    """The second says who is first, and ends with code 3."""
    site.jobs()
    (site.home / "slow").touch()
    first = site.start("autoscale")
    try:
        site.wait_for("reading")
        second = site.start("autoscale")
        _, err = second.communicate(timeout=30)
        assert second.returncode == 3
        assert f"held by process {first.pid}" in err
        (site.home / "slow").unlink()
        first.communicate(timeout=30)
    finally:
        first.kill()
        first.wait()
    assert first.returncode == 0


def test_an_interval_from_the_configuration(site):
    """Is used when the option stands alone; none there is an error."""
    site.jobs()
    site("autoscale", "--interval", code=1)
    assert "autoscale.interval" in site.errors
    for wrong in ("0", "-1", "soon"):
        site("autoscale", f"--interval={wrong}", code=2)


def test_the_version(capsys):
    """Of the installed package."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("azscale ")


def test_the_name_of_the_program_may_come_first(site, tmp_path):
    """As some launchers have it."""
    launcher = tmp_path / "azscale"
    launcher.write_text("")
    cli.main([str(launcher), "connect", "-c", str(site.path)])


def test_a_first_try_needs_no_installation(site, monkeypatch, simulator):
    """Where the home does not exist, files are kept beside autoscale.json."""
    monkeypatch.setenv("AUTOSCALE_HOME", "/no/such/home")
    site.jobs(a=1)
    site("autoscale")
    assert {"lock.file", "nodehistory.db", "requests.db", ".example_node_cache.json"} <= set(
        os.listdir(site.home)
    )
    shown = site_config(site)
    assert not {"lock_file", "logging"} & set(shown)


def site_config(site, *options):
    """What initconfig prints."""
    cli.main(["initconfig", "--cluster-name", "demo", "--username", "u", "--url", "x", *options])
    return json.loads(site.capsys.readouterr().out)


def test_a_configuration_to_start_with_works_as_it_is(site, monkeypatch, simulator):
    """It names no file that is not there, unless one asks for that; commands with it have nothing
    to complain of."""
    known = simulator.connection("demo")
    options = ["--url", known["url"], "--username", known["username"]]
    shown = site_config(site, *options, "--password", known["password"])
    assert "logging" not in shown
    assert shown["packing"] == {"policy": "least-waste"}
    site.path.write_text(json.dumps({**shown, "cluster_name": known["cluster_name"]}))
    site("buckets")
    assert site.errors == ""
    asked = site_config(site, "--log-config", "/x/logging.conf")
    assert asked["logging"] == {"config_file": "/x/logging.conf"}
    (site.home / "logging.conf").write_text("")
    assert site_config(site)["logging"] == {"config_file": str(site.home / "logging.conf")}


def test_the_shell(site, simulator, tmp_path):
    """Has the cluster at hand."""
    site.jobs(a=1)
    site("autoscale")
    script = tmp_path / "script.py"
    script.write_text(
        "print(sorted(nodes), list(jobs), config['cluster_name'], type(cli).__name__)\n"
        "print(nodes.htc_1.available.ncpus, demand_calc.node_mgr is node_mgr)\n"
    )
    assert site("shell", "-s", str(script)).splitlines() == [
        "['htc-1'] ['a'] demo DriverCLI",
        "4 True",
    ]


# -- a plan that is carried out in trouble: what is planned is done once

NODES = ["htc-1", "htc-2", "htc-3"]


@pytest.fixture
def plan(site):
    """The path of a plan for three nodes."""
    site.jobs(a=3)
    path = str(site.home / "plan.json")
    site("plan", "--out", path, code=2)
    return path


def test_a_reply_that_was_lost(site, simulator, plan):
    """The nodes are found by the id of the request; a second apply makes no others."""
    simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    site("apply", plan, code=None)
    assert started(simulator) == NODES
    site("apply", plan, code=1)
    assert "nothing was changed" in site.errors
    assert started(simulator) == NODES
    assert "create" not in site("plan", code=None)


def test_a_request_that_never_arrived(site, simulator, plan):
    """It is said that the plan was not carried out, and it can be later."""
    simulator.faults.add("no_reply", endpoint="create_nodes")
    site("apply", plan, code=1)
    assert site.errors.splitlines()[-1].startswith("azscale apply: error: ")
    assert started(simulator) == []
    simulator.faults.clear()
    site("apply", plan)
    assert started(simulator) == NODES


def test_it_was_killed_while_the_server_worked(site, simulator, plan):
    """Whoever comes next finds what was made, and makes nothing twice."""
    simulator.faults.add("latency", endpoint="create_nodes", seconds=1.5)
    process = site.start("apply", plan)
    try:
        deadline = time.monotonic() + 60
        while not started(simulator):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
    simulator.faults.clear()
    site("apply", plan, code=1)
    assert "nothing was changed" in site.errors
    site("autoscale")
    assert started(simulator) == NODES


def test_nodes_that_are_new_have_all_their_time_to_boot(site):
    """Planned or just created: the boot timeout of their nodearray, as `nodes` says it later on."""
    config = json.loads(site.path.read_text())
    site.path.write_text(json.dumps({**config, "boot_timeout": {"htc": 900, "default": 60}}))
    site.jobs()
    for words in (["--dry-run"], []):
        (node,) = json.loads(site("create_nodes", "-F", "json", *words))
        assert (node["ctr"], node["itr"]) == (900, -1)
    site.jobs(a=3)
    for command in ("demand", "autoscale"):
        known = json.loads(site(command, "-F", "json"))
        assert [node["ctr"] for node in known if node["name"] != "htc-1"] == [900, 900]
    assert len(json.loads(site("nodes", "-F", "json"))) == 3


def test_a_price_that_nobody_knows_is_none(tmp_path, monkeypatch, capsys):
    """Neither of a node that is planned nor of one that is created; never zero."""
    machine = {"name": "Custom_1", "vcpus": 4, "memory_gb": 8, "family": "customFamily"}
    nodearrays = {"htc": {"machine_types": [machine]}}
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    with serve({"clusters": {"demo": {"region": "westus2", "nodearrays": nodearrays}}}) as running:
        site = Site(tmp_path, running.connection("demo"), capsys)
        for words in (["--dry-run"], []):
            (node,) = json.loads(site("create_nodes", "-F", "json", "-o", "name,price", *words))
            assert node == {"name": "htc-1", "price": None}
        heads, values = site("create_nodes").splitlines()
        assert heads.split()[-1] == "$/H"
        assert values.split() == ["htc-2", "Allocation", "Custom_1", "create_nodes()"]
