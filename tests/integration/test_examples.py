"""examples/: each is run as its README says, against a simulator over HTTP."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.simulator import serve
from hpc.autoscale.traces.opening import read_trace

EXAMPLES = Path(__file__).parents[2] / "examples"
F4, F8 = "Standard_F4s_v2", "Standard_F8s_v2"
CLOUD = {
    "clusters": {
        "demo": {
            "region": "westus2",
            "nodearrays": {
                "execute": {"machine_types": [F4], "max_count": 100},
                "gpu": {"machine_types": [F8]},
            },
        }
    }
}


@pytest.fixture
def site(tmp_path):
    """A simulated cluster, and what a machine has that runs an example."""
    with serve(CLOUD) as simulator:
        yield Site(simulator, tmp_path)


class Site:
    """`home` stands for /opt/autoscale, and `jobs` for /shared/jobs."""

    def __init__(self, simulator, directory):
        self.simulator = simulator
        self.home, self.jobs = directory / "autoscale", directory / "jobs"
        for one in (self.home / "venv" / "bin", self.jobs / "waiting", self.jobs / "running"):
            one.mkdir(parents=True)
        python = self.home / "venv" / "bin" / "python3"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)

    def configure(self, **more):
        """Write autoscale.json."""
        path = self.home / "autoscale.json"
        path.write_text(json.dumps({**self.simulator.connection("demo"), **more}))
        path.chmod(0o600)

    def nodes(self):
        """How many there are of each nodearray that run or will run."""
        nodes = self.simulator.cluster("demo").nodes()
        return Counter(n["Template"] for n in nodes if n["TargetState"] == "Started")

    def settle(self, seconds=600):
        """Let what was started come up."""
        self.simulator.clock.advance(seconds)
        self.simulator.clock.settle()

    def hostname(self):
        """The host name of a node that is up."""
        return next(
            n["Hostname"] for n in self.simulator.cluster("demo").nodes() if n.get("Hostname")
        )

    def run(self, *command, **environment):
        """Run a command with nothing but this environment; the exit code and what it printed."""
        done = subprocess.run(
            command,
            cwd=self.home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout


# -- cron-autoscale


def cron(site):
    """Run the lines of the crontab as cron does: with its own small environment, by /bin/sh."""
    lines = (EXAMPLES / "cron-autoscale" / "crontab").read_text(encoding="utf-8")
    lines = lines.replace("/opt/autoscale", str(site.home)).replace("/shared/jobs", str(site.jobs))
    environment = {"HOME": str(site.home), "LOGNAME": "autoscale", "PATH": "/usr/bin:/bin"}
    commands = []
    for line in lines.splitlines():
        if line.startswith("*"):
            commands.append(line.split(maxsplit=5)[5])
        else:
            name, value = line.split("=", 1)
            environment[name] = value
    assert len(commands) == 1 and "%" not in commands[0]  # a percent sign ends the command in cron
    code, said = site.run("/bin/sh", "-c", commands[0], **environment)
    assert said == ""
    log = site.home / "cron.log"
    return code, log.read_text() if log.exists() else ""


@pytest.fixture
def crontab(site):
    """The site, installed as the README says."""
    script = EXAMPLES / "cron-autoscale" / "cron_autoscale.py"
    (site.home / script.name).write_bytes(script.read_bytes())
    site.configure()
    for directory in (site.jobs / "waiting", site.jobs / "running"):
        directory.rmdir()
    return site


def test_cron(crontab):
    """The nodes for all jobs are started once, and their number follows the queue."""
    (crontab.jobs / "a").write_text("cores=10\n#!/bin/sh\n")
    (crontab.jobs / "b").write_text("cores=8 nodearray=gpu\n")
    for _ in range(2):
        assert cron(crontab)[0] == 0
        assert crontab.nodes() == {"execute": 3, "gpu": 1}
    (crontab.jobs / "c").write_text("cores=4\n")
    assert cron(crontab)[0] == 0
    assert crontab.nodes() == {"execute": 4, "gpu": 1}


@pytest.mark.parametrize("line", [b"core=8", b"cores=-10", b"cores=x", b"cores=4 gpu", b"\xff"])
def test_cron_with_a_queue_that_cannot_be_read(crontab, line):
    """What was said last stands, and the log says why, and which file it is about."""
    (crontab.jobs / "a").write_text("cores=10\n")
    cron(crontab)
    store = RequestStore(str(crontab.home / "requestsets.db"))
    before = store.sets()
    (crontab.jobs / "b").write_bytes(line + b"\n")
    code, said = cron(crontab)
    assert code == 1
    assert f"b: expected a first line like cores=4, found {line.decode(errors='replace')!r}" in said
    assert store.sets() == before != []


def test_cron_with_a_server_that_is_away(crontab):
    """The wish is kept, and the log has one line about it."""
    (crontab.jobs / "a").write_text("cores=10\n")
    crontab.configure(url="https://127.0.0.1:9", retry={"attempts": 1})
    code, said = cron(crontab)
    assert code == 1
    assert "request set cron is recorded" in said and "Traceback" not in said
    assert [one.name for one in RequestStore(str(crontab.home / "requestsets.db")).sets()] == [
        "cron"
    ]


# -- job-files


def azscale(site, *arguments):
    """Run azscale as a command, where autoscale.json and jobfiles.py are."""
    words = [*arguments, "-c", "autoscale.json"]
    done = site.forked.run(words, site.home, {"PATH": "/bin"})
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def job_files(site, forked):
    """The site, with the plug-ins as the driver."""
    site.forked = forked
    source = EXAMPLES / "job-files"
    (site.home / "jobfiles.py").write_bytes((source / "jobfiles.py").read_bytes())
    shown = json.loads((source / "autoscale.json").read_text(encoding="utf-8"))
    section = {**shown["job_files"], "directory": str(site.jobs), "keep_for": 0}
    shown = {key: shown[key] for key in ("driver", "logging")}
    site.configure(**shown, job_files=section, idle_timeout=0)
    return site


@pytest.mark.parametrize("section", [None, {}, "/shared/jobs"])
def test_job_files_whose_section_says_no_directory(job_files, section):
    """What it has to say is said, and not which key Python did not find."""
    job_files.configure(driver="jobfiles:driver", job_files=section)
    code, said = azscale(job_files, "plan")
    assert (code, said.strip()) == (
        1,
        'azscale plan: error: job_files: expected {"directory": "<where the jobs are>"}, found'
        f" {section!r}",
    )


def job(site, name, host=None, **keys):
    """Put a job file where it belongs."""
    if host is None:
        path = site.jobs / "waiting" / f"{name}.json"
    else:
        path = site.jobs / "running" / host / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(keys))
    return path


def test_job_files(job_files):
    """Nodes come for the jobs that wait, stay while something runs there, and go after that."""
    waiting = job(job_files, "17", request_cpus=3)
    code, said = azscale(job_files, "demand")
    assert code == 0 and "execute-1" in said
    assert job_files.nodes() == {} and not (job_files.jobs / "states.db").exists()
    assert azscale(job_files, "autoscale")[0] == 0
    assert job_files.nodes() == {"execute": 1}
    job_files.settle()
    os.remove(waiting)
    running = job(job_files, "17", job_files.hostname())
    running.write_text("this is no JSON")  # busy, although nothing more is known
    for _ in range(3):
        assert azscale(job_files, "autoscale")[0] == 0
        job_files.settle()
    assert job_files.nodes() == {"execute": 1}
    os.remove(running)
    for _ in range(3):
        azscale(job_files, "autoscale")
        job_files.settle()
    assert job_files.nodes() == {}


def test_the_journal_counts_wishes_as_the_pass_does(job_files):
    """A wish that waits is one of the jobs of its pass, though no scheduler has it."""
    job(job_files, "17", request_cpus=3)
    job(job_files, "18", request_cpus=3, nodearray="nowhere")
    code, said = azscale(job_files, "autoscale")
    assert code == 0 and "2 jobs, 1 not satisfied" in said
    code, said = azscale(job_files, "journal", "show")
    columns, row = (line.split() for line in said.splitlines())
    shown = dict(zip(columns, row, strict=False))  # nothing is said of it
    assert (code, shown["JOBS"], shown["WAITING"]) == (0, "2", "1")


def test_what_job_files_say_of_time_is_in_the_journal(job_files, capsys):
    """So that `azscale simulate` knows it. No pass sees them wait, so nothing is said of waits."""
    assert azscale(job_files, "autoscale")[0] == 0
    running = [
        job(job_files, "17", "one", request_cpus=3, walltime="01:30:00"),
        job(job_files, "18", "one", request_cpus=1),
    ]
    assert azscale(job_files, "autoscale")[0] == 0
    for path in running:
        path.unlink()
    assert azscale(job_files, "autoscale")[0] == 0
    (journal,) = job_files.home.rglob("journal")
    one, other = sorted(read_trace(str(journal)).jobs, key=lambda each: each.name)
    assert (one.name, one.cores, one.requested_seconds, one.waited) == ("17", 3, 5400.0, None)
    assert (other.name, other.cores, other.requested_seconds) == ("18", 1, None)
    main(["simulate", str(journal), "--fixed", "--nodes", "1", "-F", "json"])
    (found,) = json.loads(capsys.readouterr().out)  # without waits as recorded: they are unknown
    assert (found["name"], found["jobs"]) == ("as given", 2)


def test_job_files_of_groups(job_files):
    """Get a group of nodes each, in one placement group, from the first look on."""
    for name in ("17", "18"):
        job(job_files, name, request_cpus=8, grouped=True)
    code, said = azscale(job_files, "demand", "-o", "name,nodearray,placement_group")
    assert code == 0
    rows = [line for line in said.splitlines() if line.startswith("execute-8-")]
    assert [row.split()[1] for row in rows] == ["execute:8"] * 4
    for _ in range(2):
        assert azscale(job_files, "autoscale")[0] == 0
    nodes = job_files.simulator.cluster("demo").nodes()
    assert Counter(Counter(node["PlacementGroupId"] for node in nodes).values()) == {2: 2}


def test_job_files_that_are_none(job_files):
    """Are set aside in the summary of the pass; the others are served."""
    job(job_files, "17", request_cpus=3)
    (job_files.jobs / "waiting" / "18.json").write_text('{"request_cpus": ')
    job(job_files, "19", request_cpus=-3)
    (job_files.jobs / "waiting" / "20.json").write_text("[" * 100_000)
    (job_files.jobs / "waiting" / "21.json").write_text("null")
    program = (
        "import jobfiles; from hpc.autoscale.autoscaler import Autoscaler;"
        "from hpc.autoscale.util import load_config; config = load_config('autoscale.json');"
        "print(Autoscaler(config, lambda: jobfiles.driver(config)).run_once())"
    )
    said = job_files.run(sys.executable, "-c", program, AUTOSCALE_HOME=str(job_files.home))[1]
    assert "4 set aside" in said
    assert "job 18 set aside: " in said and "18.json: Expecting value" in said
    assert "job 19 set aside: request_cpus: expected a whole number of 0 or more, found -3" in said
    assert "job 21 set aside: " in said and "expected a JSON object, found None" in said
    assert job_files.nodes() == {"execute": 1}


def test_job_files_that_are_none_where_something_runs(job_files):
    """The node stays, and the file is named."""
    job(job_files, "17", request_cpus=3)
    azscale(job_files, "autoscale")
    job_files.settle()
    os.remove(job_files.jobs / "waiting" / "17.json")
    job(job_files, "17", job_files.hostname(), request_cpus="three")
    for _ in range(3):
        said = azscale(job_files, "autoscale")[1]
        job_files.settle()
    assert "job 17 is set aside: request_cpus: expected" in said
    assert job_files.nodes() == {"execute": 1}


def test_what_is_no_file_among_job_files(job_files):
    """Nor a directory among those of hosts: it is named, and the others are served."""
    job(job_files, "17", request_cpus=3)
    (job_files.jobs / "waiting" / "22.json").mkdir()
    (job_files.jobs / "running" / "README").write_text("no host")
    code, said = azscale(job_files, "autoscale")
    assert code == 0 and job_files.nodes() == {"execute": 1}
    assert "22.json: it cannot be read: Is a directory" in said
    assert "README: expected the directory of a host, found a file" in said


def test_a_directory_of_job_files_that_is_away(job_files):
    """Ends the pass before anything is changed, in one line."""
    job(job_files, "17", request_cpus=3)
    assert azscale(job_files, "autoscale")[0] == 0
    job_files.settle()
    (job_files.jobs / "running").rmdir()
    os.remove(job_files.jobs / "waiting" / "17.json")
    code, said = azscale(job_files, "autoscale")
    assert code == 1
    assert "No such file or directory" in said and "Traceback" not in said
    assert job_files.nodes() == {"execute": 1}


def test_why_job_files_wait(job_files):
    """Is in a file beside them, and no more when they run or are gone."""
    reasons = job_files.jobs / "why-waiting.json"
    path = job(job_files, "17", request_cpus=1_000_000)
    (job_files.jobs / "waiting" / "18.json").write_text("null")
    assert azscale(job_files, "demand")[0] == 0 and not reasons.exists()
    azscale(job_files, "autoscale")
    found = json.loads(reasons.read_text())
    assert found.keys() == {"execute", "18"} and "expected a JSON object" in found["18"]
    assert "execute" in found["execute"] or "quota" in found["execute"]
    os.remove(path)
    azscale(job_files, "autoscale")
    assert json.loads(reasons.read_text()).keys() == {"18"}


def test_past_states_of_job_files(job_files):
    """Keep cores wanted for `keep_for` seconds after the job has gone."""
    config = json.loads((job_files.home / "autoscale.json").read_text())
    config["job_files"]["keep_for"] = 3600
    (job_files.home / "autoscale.json").write_text(json.dumps(config))
    path = job(job_files, "17", request_cpus=12)
    azscale(job_files, "autoscale")
    job_files.settle()
    os.remove(path)
    for _ in range(2):
        azscale(job_files, "autoscale")
    assert job_files.nodes() == {"execute": 3}
