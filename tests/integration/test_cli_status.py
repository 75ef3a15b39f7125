"""`azscale status` over HTTP: one screen of how things stand, once and live."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from builders.command_lines import at_home
from hpc.autoscale import cli
from hpc.autoscale.cli import status
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.simulator import serve
from hpc.autoscale.util import SingletonFileLock, new_loop_lock

SIZE, BARE = "Standard_F4s_v2", "Standard_F2s_v2"
DRIVER = """
import json, os
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.workers import WorkerDemand

HERE = os.path.dirname(os.path.abspath(__file__))

class Driver(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        with open(os.path.join(HERE, "jobs.json")) as stream:
            said = json.load(stream)
        waiting = said["waiting"].items()
        jobs = [Job(name, {"ncpus": n}, iterations=min(n, 1)) for name, n in waiting]
        for name, host in said["running"].items():
            jobs.append(Job(name, {"ncpus": 4}, executing_hostnames=[host]))
            if said["state"]:
                jobs[-1].metadata["job_state"] = "running"
        if said["workers"]:
            jobs += WorkerDemand(waiting=said["workers"], name="short").jobs()
        return jobs, [SchedulerNode(host, {"ncpus": 4}) for host in said["hosts"]]
"""


@pytest.fixture
def simulator():
    """A cluster with a quota of three nodes, and a size of which there are no machines."""
    arrays = {"htc": {"machine_types": [SIZE]}, "no": {"machine_types": [BARE]}}
    clusters = {"demo": {"region": "westus2", "max_count": 50, "nodearrays": arrays}}
    regions = {"westus2": {"family_quotas": {"standardFSv2Family": 12}, "capacity": {BARE: 0}}}
    with serve({"clusters": clusters, "regions": regions}) as running:
        yield running


class Site:
    """Where azscale runs."""

    def __init__(self, home, simulator, capsys):
        self.home = home
        self.capsys = capsys
        self.path = home / "autoscale.json"
        config = {**simulator.connection("demo"), "driver": "statusdriver:Driver"}
        self.path.write_text(json.dumps({**config, "autoscale": {"interval": 60}}))
        self.path.chmod(0o600)
        self.jobs()

    def jobs(self, hosts=(), running=None, workers=0, state=True, **waiting):
        """What the scheduler has; `workers`: how many are wanted by number; `state`: it says of
        jobs that run that they do, and not only where."""
        said = {"waiting": waiting, "running": running or {}, "hosts": list(hosts)}
        said |= {"workers": workers, "state": state}
        (self.home / "jobs.json").write_text(json.dumps(said))

    def __call__(self, command, *args):
        """Run a command in this process; what it printed on stdout."""
        cli.main([command, "-c", str(self.path), *args])
        return self.capsys.readouterr().out

    def keep_a_journal(self):
        """As sites do; most tests have none."""
        self.path.write_text(json.dumps({**json.loads(self.path.read_text()), "journal": {}}))

    def stands(self):
        """How things stand."""
        return json.loads(self("status", "-F", "json"))

    def command(self, *args):
        """The command line for a process of its own."""
        return [sys.executable, "-m", "hpc.autoscale.cli", *args, "-c", str(self.path)]


@pytest.fixture
def site(simulator, tmp_path, monkeypatch, capsys):
    """A directory with a configuration and a driver."""
    at_home(monkeypatch, tmp_path, statusdriver=DRIVER)
    return Site(tmp_path, simulator, capsys)


def test_a_pass_of_cron_names_nodes_as_joined_until_they_are_hosts(site, simulator):
    """Each is a process of its own, and hands all nodes over in each pass."""
    site.jobs(a=4)
    site("autoscale")
    simulator.clock.settle()
    (node,) = simulator.cluster("demo").nodes()
    for hosts, joins in (((), True), ((), True), ((node["Hostname"],), False)):
        site.jobs(hosts, a=4)
        cli.main(["autoscale", "-c", str(site.path)])
        assert ("1 joined" in site.capsys.readouterr().err) is joins


@pytest.mark.parametrize("is_in_environment", [False, True])
def test_the_address_of_the_server_is_shown_without_a_password(
    site, monkeypatch, is_in_environment
):
    """Wherever it stands; that it must have none is the error."""
    config = json.loads(site.path.read_text())
    url = config.pop("url").replace("://", "://me:hunter2@")
    if is_in_environment:
        monkeypatch.setenv("CYCLECLOUD_URL", url)
    site.path.write_text(json.dumps(config if is_in_environment else {**config, "url": url}))
    with pytest.raises(SystemExit):
        site("status")
    said = site.capsys.readouterr()
    assert said.out.startswith(f"demo at {url.replace('hunter2', '***')}")
    assert "must not contain credentials" in said.err and "hunter2" not in said.out + said.err


NO_JOBS = {"run": 0, "will_start": 0, "stuck": 0, "served": 0, "workers": 0}


def test_request_sets_are_no_jobs(site, simulator):
    """What they want is said to be served when its nodes are there or come, and not to wait."""
    site("request", "--name", "htc", "--instancecount", "2")
    assert site.stands()["jobs"] == {**NO_JOBS, "served": 1}
    simulator.clock.settle()
    said = site("status")
    assert "jobs: 0 running, 0 waiting for nodes or a place, 0 stuck" in said
    assert "request sets: 1 wish served" in said
    site("request", "--name", "htc", "--instancecount", "9")
    assert site.stands()["jobs"] == {**NO_JOBS, "stuck": 1}


def test_workers_that_are_wanted_by_number_are_no_request_sets(site):
    """Nobody has reported any."""
    site.jobs(workers=2)
    assert site.stands()["jobs"] == {**NO_JOBS, "workers": 1}
    said = site("status")
    assert "workers by number: 1 demand served" in said and "request sets" not in said


def test_what_remains_of_an_array_waits(site):
    """A part of it runs on a host, and the pass makes nodes for the rest, as `plan` says."""
    site.jobs(["elsewhere"], {"array": "elsewhere"}, state=False, a=4)
    assert site.stands()["jobs"] == {**NO_JOBS, "will_start": 2}
    assert "Job array will start" in site("explain", "array")
    site.jobs(["elsewhere"], {"array": "elsewhere"}, state=True, a=4)
    assert site.stands()["jobs"] == {**NO_JOBS, "run": 1, "will_start": 1}


def test_an_array_at_its_limit_waits_for_no_nodes(site):
    """Nothing more of it may start, as explain says of it."""
    site.jobs(array=0, a=4)
    assert site.stands()["jobs"] == {**NO_JOBS, "will_start": 1}
    assert "wants nothing now" in site("explain", "array")
    assert "jobs: 0 running, 1 waiting for nodes or a place, 0 stuck" in site("status")


def test_a_host_without_a_name_is_no_job(site):
    """That can never run: it is a problem, and the plan ends as that of any other change."""
    site.jobs([""], a=4)
    found = site.stands()
    assert (found["jobs"], found["stuck"]) == ({**NO_JOBS, "will_start": 1}, [])
    assert any("host 1 of the scheduler set aside" in each for each in found["problems"])
    with pytest.raises(SystemExit) as ended:
        site("plan")
    assert ended.value.code == 2


def test_how_things_stand(site, simulator):
    """Nodes by state, the limits, jobs that run, will start and are stuck with their cause, the
    cost and the last pass; looking changes nothing."""
    site.jobs(a=4, b=4, c=4, d=4, e=4)
    first = site.stands()
    assert (first["nodes"], first["last_pass"]) == ({"planned": 3}, None)
    assert simulator.cluster("demo").nodes() == []
    site("autoscale")
    simulator.clock.settle()
    host = simulator.cluster("demo").nodes()[0]["Hostname"]
    site.jobs([host], {"a": host}, d=4, e=4, odd=500)
    before = {path: path.read_bytes() for path in site.home.iterdir() if path.is_file()}
    journal = len(simulator.journal.entries(event="created"))
    found = site.stands()
    assert found["nodes"] == {"busy": 1, "joining": 2}
    assert found["jobs"] == {"run": 1, "will_start": 2, "stuck": 1, "served": 0, "workers": 0}
    (limit,) = [each for each in found["limits"] if "standardFSv2Family" in each["name"]]
    assert (limit["used"], limit["planned"], limit["most"], limit["unit"]) == (12, 0, 12, "cores")
    (stuck,) = found["stuck"]
    assert (stuck["names"], stuck["never"], "500" in stuck["cause"]) == (["odd"], True, True)
    assert found["cost"]["per_hour"] > 0
    assert 0 <= found["at"] - found["last_pass"] < 600
    assert found["next_pass"] is None
    assert (found["lock"]["state"], found["lock_holders"]) == ("free", [])
    assert len(simulator.journal.entries(event="created")) == journal
    assert {path: path.read_bytes() for path in before} == before


def test_ready_nodes_join_and_are_idle_once_they_are_hosts(site, simulator):
    """Where the driver reports no hosts without work, nobody can tell, and they are idle."""
    site.jobs(a=4, b=4)
    site("autoscale")
    assert site.stands()["nodes"] == {"booting": 2}
    simulator.clock.settle()
    assert site.stands()["nodes"] == {"joining": 2}
    assert re.search(r" JOINING .*\n +htc/Standard_F4s_v2 +2 ", site("status"))
    host = simulator.cluster("demo").nodes()[0]["Hostname"]
    site.jobs([host], a=4, b=4)
    assert site.stands()["nodes"] == {"joining": 1, "idle": 1}
    config = json.loads(site.path.read_text())
    config["autoscale"]["scheduler_reports_hosts"] = False
    site.path.write_text(json.dumps(config))
    assert site.stands()["nodes"] == {"idle": 2}


def test_a_host_on_premises_whose_worker_is_not_started_rests(site):
    """It is not idle, as one is whose worker waits for jobs; one that has work is busy."""
    config = json.loads(site.path.read_text())
    host = {"resources": {"ncpus": 4}, "start": ["true"], "stop": ["true"]}
    config["on_premises"] = [{"name": name, **host} for name in ("rack-1", "rack-2")]
    site.path.write_text(json.dumps(config))
    assert site.stands()["nodes"] == {"resting": 2}
    site.jobs(a=4)
    site("autoscale")
    site.jobs(["rack-1"])
    assert site.stands()["nodes"] == {"idle": 1, "resting": 1}
    site.jobs(["rack-1", "rack-2"], running={"b": "rack-2"})
    assert site.stands()["nodes"] == {"idle": 1, "busy": 1}


def test_what_is_only_planned_is_not_in_use(site):
    """Neither of a limit in cores nor of one in nodes, and the screen shows what a pass would
    fill."""
    site.jobs(a=4, b=4, c=4)
    figures = {(each["name"], each["unit"]): each for each in site.stands()["limits"]}
    quota = figures["VM Family(standardFSv2Family, westus2)", "cores"]
    assert (quota["used"], quota["planned"]) == (0, 12)
    cluster = figures["Cluster", "nodes"]
    assert (cluster["used"], cluster["planned"], cluster["most"]) == (0, 3, 50)
    assert re.search(r"quota of standardFSv2Family.* 0 of 12 cores \.+ \+12", site("status"))


@pytest.mark.parametrize("command", ["plan", "demand", "whatif", "autoscale"])
def test_a_damaged_file_is_named_as_the_site_has_it(site, capsys, command):
    """And not the copy of it that a command looks into, which is gone when it has ended."""
    site("autoscale")
    path = site.home / "requests.db"
    path.write_text("garbage-garbage")
    more = ["--set", "idle_timeout=7"] if command == "whatif" else []
    with pytest.raises((SystemExit, AutoscaleError)) as ended:
        site(command, *more)
    said = f"{ended.value} {capsys.readouterr().err}"
    assert f"request ids {path}: it is damaged" in said
    assert "/hpc-autoscale-" not in said


def test_how_the_last_pass_ended(site):
    """By the journal, of which a site has one by default: ok, or with which error."""
    site.keep_a_journal()
    site.jobs(a=4)
    assert site.stands()["last_end"] is None
    site("autoscale")
    good = site.stands()["last_end"]
    assert (good["error"], good["failed"], good["last_good"]) == ("", False, good["at"])
    assert good["took"] > 0
    assert "ok in" in site("status")
    (site.home / "jobs.json").unlink()
    with pytest.raises(SystemExit):
        site("autoscale")
    site.capsys.readouterr()
    site.jobs(a=4)
    found = site.stands()
    bad = found["last_end"]
    assert bad["failed"] and "jobs.json" in bad["error"] and bad["at"] > good["at"]
    assert found["last_pass"] == pytest.approx(bad["at"] + bad["took"])
    out = site("status")
    assert "failed after" in out and "No such file" in out


def loop(site, monkeypatch, *args):
    """Make one pass of a loop, which is stopped after it."""
    with monkeypatch.context() as patch:
        patch.setattr("hpc.autoscale.clock.sleep", lambda _: os.kill(os.getpid(), signal.SIGINT))
        site("autoscale", *args)


def test_when_the_next_pass_is_due(site, monkeypatch):
    """By the interval of the loop that made the last one, whatever autoscale.interval says."""
    site.keep_a_journal()
    site.jobs(a=4)
    loop(site, monkeypatch, "--interval", "3")
    found = site.stands()
    assert found["next_pass"] == pytest.approx(found["last_pass"] + 3, abs=0.5)
    loop(site, monkeypatch, "--interval")
    found = site.stands()
    assert found["next_pass"] == pytest.approx(found["last_pass"] + 60, abs=0.5)
    assert re.search(r"last pass .* ago: ok in .*, next in \d+ s", site("status"))


def test_a_loop_that_is_late_and_passes_that_are_not(site, monkeypatch):
    """Nobody knows when somebody makes a pass by hand, or cron does; how often there was one does
    not say."""
    site.keep_a_journal()
    real = time.time
    loop(site, monkeypatch, "--interval", "3")
    monkeypatch.setattr("hpc.autoscale.clock.time", lambda: real() + 100)
    assert re.search(r", 9\d s late", site("status"))
    for later in (200, 300, 400, 500, 600):
        monkeypatch.setattr("hpc.autoscale.clock.time", lambda later=later: real() + later)
        site("autoscale")
    monkeypatch.setattr("hpc.autoscale.clock.time", lambda: real() + 900)
    assert site.stands()["next_pass"] is None
    out = site("status")
    assert "last pass 5 min ago: ok in" in out and "late" not in out and "next in" not in out


def test_a_loop_that_has_ended(site):
    """Makes no next pass, and is not late."""
    site.keep_a_journal()
    command = site.command("autoscale", "--interval", "3")
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        process.stderr.readline()
        running = site.stands()
        process.terminate()
        process.communicate(timeout=60)
    assert running["next_pass"] is not None and running["last_end"]["loop"]["pid"] == process.pid
    found = site.stands()
    assert (found["next_pass"], found["loop_is_gone"]) == (None, True)
    assert re.search("last pass .* ago: ok in .*; its loop has ended", site("status"))


def test_the_pause_after_a_pass_that_failed_is_not_known(site, monkeypatch):
    """It depends on how many have failed before."""
    site.keep_a_journal()
    (site.home / "jobs.json").unlink()
    loop(site, monkeypatch, "--interval", "3")
    site.jobs()
    found = site.stands()
    assert found["last_end"]["failed"] and found["next_pass"] is None


def test_the_last_good_pass_is_that_of_the_metrics(site):
    """Also without a health file: both have it from the journal."""
    site.keep_a_journal()
    site("autoscale")
    good = site.stands()["last_end"]["at"]
    (site.home / "jobs.json").unlink()
    for _ in range(2):
        with pytest.raises(SystemExit):
            site("autoscale")
    site.capsys.readouterr()
    site.jobs()
    found = site.stands()["last_end"]
    known = json.loads(site("metrics", "--health", "-F", "json"))
    assert found["failed"] and found["last_good"] == known["last_good_pass"] == good
    assert "the last good one began" in " ".join(site("status").split())


@pytest.mark.parametrize("away", ["scheduler", "cluster"])
def test_what_is_known_without_an_answer_is_shown(site, simulator, away):
    """Who holds the lock and how the last pass ended stand before the error; there is no JSON."""
    site.keep_a_journal()
    site("autoscale")
    if away == "scheduler":
        (site.home / "jobs.json").unlink()
    else:
        site.path.write_text(
            json.dumps({**json.loads(site.path.read_text()), "url": "http://127.0.0.1:9"})
        )
    site.capsys.readouterr()
    with pytest.raises(SystemExit):
        site("status")
    said = site.capsys.readouterr()
    assert re.search(r"^demo at http.*\nlast pass .* ago: ok in .* lock free", said.out)
    assert len(said.out.splitlines()) == 2 and len(said.err.splitlines()) == 1
    with pytest.raises(SystemExit):
        site("status", "-F", "json")
    assert not site.capsys.readouterr().out


def test_what_fails_is_said_with_the_servers_words(site, simulator):
    """The nodes that failed, and what rests because of it."""
    site("create_nodes", "-a", "no", "-n", "2")
    for _ in range(100):
        simulator.clock.advance(2)
        if {node["Status"] for node in simulator.cluster("demo").nodes()} == {"Failed"}:
            break
    found = site.stands()
    assert {each["node"] for each in found["failed"]} == {"no-1", "no-2"}
    assert all("AllocationFailed" in each["message"] for each in found["failed"])
    assert any("next try in" in text and "AllocationFailed" in text for text in found["backoffs"])
    out = site("status")
    assert "failed: 2" in out
    assert max(map(len, out.splitlines())) <= 80


def test_who_holds_the_lock(site, simulator):
    """Is shown, and is no hindrance."""
    config = json.loads(site.path.read_text())
    lock = SingletonFileLock(str(site.home / "lock.file")).hold_cluster(config)
    try:
        assert f"lock held by process {os.getpid()}" in site("status")
    finally:
        lock.unlock()
    assert "lock free" in site("status")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells who has a lock")
def test_a_lock_that_is_held_by_somebody_else(site):
    """Another program, or a loop of another cluster with the same file: by which process."""
    path = site.home / "lock.file"
    config = json.loads(site.path.read_text())
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lock = site.stands()["lock"]
        assert (lock["state"], lock["holders"]) == (
            "held",
            [f"process {os.getpid()} of user {os.getuid()}"],
        )
        assert path.read_text() == ""
    other = SingletonFileLock(str(path)).hold_cluster({**config, "cluster_name": "other"})
    try:
        assert f"lock held by process {os.getpid()}" in site("status")
    finally:
        other.unlock()
    assert "lock free: no loop is in a pass" in site("status")
    loop = new_loop_lock()
    loop.take(config)
    try:
        said = f"lock free, the loop of the cluster is process {os.getpid()} of user"
        assert said in " ".join(site("status").split())
    finally:
        loop.unlock()


def test_a_lock_that_cannot_be_looked_at(site):
    """Is not said to be free: its directory is not there."""
    config = json.loads(site.path.read_text())
    path = site.home / "none" / "lock"
    site.path.write_text(json.dumps({**config, "lock_file": str(path)}))
    assert site.stands()["lock"]["state"] == "unknown"
    out = " ".join(site("status").split())
    assert "lock not known: there is no directory" in out and "lock free" not in out
    assert not path.parent.exists()
    site.path.write_text(json.dumps({**config, "lock_file": None}))
    assert "no lock: lock_file is null" in site("status")
    site.path.write_text(json.dumps({**config, "lock_path": str(path)}))
    assert "there is no directory" in site.stands()["lock"]["note"]


@pytest.mark.parametrize("form", ["table", "json"])
def test_watching_without_a_terminal(site, monkeypatch, form):
    """Is a line for each look, plain or JSON, until a signal; a look that fails does not end it."""
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            (site.home / "jobs.json").write_text("no json")
        if len(waits) == 4:
            site.jobs()
        if len(waits) >= 6:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("hpc.autoscale.clock.sleep", wait)
    site.jobs(a=4)
    cli.main(["status", "-c", str(site.path), "--watch", "1", "-F", form])
    said = site.capsys.readouterr()
    first, last = said.out.splitlines()
    if form == "json":
        assert [json.loads(line)["jobs"]["will_start"] for line in (first, last)] == [1, 0]
    else:
        assert "1 planned; jobs: 0 running, 1 waiting, 0 stuck" in first
        assert "no nodes; jobs: 0 running" in last
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:]{8}Z .*JSONDecodeError", said.err)
    assert waits == [0.5] * 6


def test_ctrl_c_interrupts_a_look(site, monkeypatch):
    """It is not waited for: a server that does not answer takes minutes."""
    ended = []

    def look(*_):
        os.kill(os.getpid(), signal.SIGINT)
        ended.append("look")

    monkeypatch.setattr(status, "look", look)
    cli.main(["status", "-c", str(site.path), "--watch"])
    assert ended == []


def test_watching_on_a_terminal(site):
    """Draws the screen that is printed, and gives the terminal back."""
    site.jobs(a=4)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    command = site.command("status", "--watch", "60")
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    drawn = b""
    deadline = time.monotonic() + 60
    try:
        while b"Ctrl-C ends" not in drawn and time.monotonic() < deadline:
            drawn += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                drawn += os.read(ours, 65536)
            except OSError:
                break
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    text = drawn.decode()
    assert "demo at http://127.0.0.1" in text
    assert "jobs: 0 running, 1 waiting for nodes or a place, 0 stuck" in text
    assert text.count("\x1b[?1049h") == text.count("\x1b[?1049l") == 1
    assert "\x1b[31m" not in text


def test_watching_on_a_terminal_that_cannot_be_drawn_on(monkeypatch, capsys):
    """As in a shell of Emacs: a line for each look, where nothing was shown."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    with status._shown(1.0, "table") as show:
        show(None, "the server is away")
    assert "the server is away" in capsys.readouterr().err


def test_watching_without_rich(monkeypatch):
    """One line says what to install."""
    monkeypatch.delitem(sys.modules, "hpc.autoscale.cli.live", raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(AutoscaleError, match=r"pip install 'hpc-autoscale\[watch\]'"):
        status._shown(1.0, "table")
