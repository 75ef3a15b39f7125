"""The README's examples, run: every constraint against docs/first-cluster.json, the program, the
configuration pieces."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.config import check_config
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.bucket import node_from_bucket
from hpc.autoscale.node.constraints import get_constraints
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.simulator import serve
from hpc.autoscale.util import parse_boot_timeout, parse_idle_timeout

pytest.importorskip("werkzeug")

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSTRAINTS = README.split("\n## Constraints\n")[1].split("\n## ")[0]
FITS = re.findall(r"<!-- fits:(.*?)-->\n```json\n(.*?)```", CONSTRAINTS, re.DOTALL)
# properties whose values JSON has no literal for
NOT_IN_JSON = {"memory", "create_time", "last_match_time", "delete_time"}


def block(marker):
    """The code block below an invisible marker of the README."""
    (found,) = re.findall(rf"<!-- {marker} -->\n```\w*\n(.*?)```", README, re.DOTALL)
    return found


def azscale(*words, **options):
    """Run the program azscale that is installed beside this Python; nothing is asserted of it."""
    program = Path(sys.executable).with_name("azscale")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The simulator with docs/first-cluster.json, as the README starts it; its URL."""
    work = tmp_path_factory.mktemp("first")
    ready = work / "url"
    command = [
        sys.executable,
        "-m",
        "hpc.autoscale.simulator",
        str(ROOT / "docs/first-cluster.json"),
    ]
    options = [
        "--port",
        "0",
        "--username",
        "first",
        "--password",
        "secret",
        "--ready-file",
        str(ready),
    ]
    with subprocess.Popen([*command, *options], cwd=work, stderr=subprocess.DEVNULL) as process:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.05)
        yield json.loads(ready.read_text())["url"]
        process.terminate()


@pytest.fixture(scope="module")
def config(server):
    """The README's configuration, for this server."""
    return {"cluster_name": "first", "url": server, "username": "first", "password": "secret"}


@pytest.fixture(scope="module")
def buckets(config):
    """The buckets of docs/first-cluster.json."""
    return new_node_manager(config, disable_default_resources=False).get_buckets()


def test_every_constraint_example_says_what_it_fits():
    """None is without its line, so none is untested."""
    assert len(FITS) == CONSTRAINTS.count("```json") > 15


@pytest.mark.parametrize(("fits", "example"), FITS, ids=lambda text: " ".join(text.split()))
def test_constraint_example(fits, example, buckets):
    """It fits what the README says it fits, and survives its JSON form."""
    constraints = get_constraints([json.loads(example)])
    found = {
        bucket.nodearray
        for bucket in buckets
        if all(constraint.satisfied_by_bucket(bucket) for constraint in constraints)
    }
    assert found == set(fits.split())
    (constraint,) = constraints
    assert get_constraints([constraint.to_dict()]) == [constraint]


@pytest.mark.parametrize("name", sorted(QUERYABLE_PROPERTIES))
def test_node_property_as_a_constraint(name, buckets):
    """A node satisfies the constraint that names its own value, and not one that names another."""
    node = node_from_bucket(buckets[0], "htc-1", "Off", "Off", "Off", exists=False)
    value = getattr(node, name)
    (other,) = get_constraints([{f"node.{name}": "no such value"}])
    assert not other.satisfied_by_node(node)
    if name not in NOT_IN_JSON:
        (same,) = get_constraints([{f"node.{name}": json.loads(json.dumps(value))}])
        assert same.satisfied_by_node(node)


@pytest.mark.parametrize("name", sorted(QUERYABLE_PROPERTIES))
def test_node_property_as_a_default_resource(name, config):
    """A default resource may take its value from any of them."""
    resource = {"select": {}, "name": "copy", "value": f"node.{name}"}
    node_mgr = new_node_manager({**config, "default_resources": [resource]})
    for bucket in node_mgr.get_buckets():
        node = bucket.example_node
        if getattr(node, name) is not None:
            assert node.resources["copy"] == getattr(node, name)


def test_the_first_program(config, tmp_path):
    """Ten lines; it prints the four nodes that are needed, and when it runs again, that none is
    missing."""
    program = block("first-program")
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    program = program.replace("http://127.0.0.1:8080", config["url"])
    first = run_program(program, tmp_path)
    assert [line.split()[:2] for line in first[:-1]] == [
        ["htc-1", "Standard_F4s_v2"],
        ["htc-2", "Standard_F4s_v2"],
        ["htc-3", "Standard_F4s_v2"],
        ["gpu-1", "Standard_NC4as_T4_v3"],
    ]
    assert "status=success" in first[-1]
    assert len(run_program(program, tmp_path)) == 1


def run_program(program, directory):
    """What a program prints, line by line; nothing in it is warned of, and nothing is left open."""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    # what the README does not mention is not printed, on stderr either
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


SLURM = """\
17 8 Resources
18_1 120 Priority
19 1 JobHeldUser
20 1 Dependency
21 1 BeginTime
"""
PBS = """\

pbs:
                                                            Req'd  Req'd   Elap
Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time
--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----
17.pbs          ann      workq    solve         --    1   8    --    --  Q   --
18[1].pbs       ann      workq    solve         --    2 120    8gb 01:00 Q   --
19.pbs          ann      workq    solve         --    1   1    --    --  H   --
"""
GRID_ENGINE = """\
job-ID  prior   name       user         state submit/start at     queue       slots ja-task-ID
-----------------------------------------------------------------------------------------------
     17 0.00000 solve      ann          qw    11/28/2026 23:00:00                 8
     18 0.00000 solve      ann          Rq    11/28/2026 23:00:01               120 1
     19 0.00000 solve      ann          hqw   11/28/2026 23:00:02                 1
     20 0.00000 solve      ann          hRq   11/28/2026 23:00:02                 1
"""


@pytest.mark.skipif(shutil.which("awk") is None, reason="there is no awk")
@pytest.mark.parametrize(
    ("scheduler", "printed", "second"),
    [("Slurm", SLURM, "18_1"), ("PBS", PBS, "18[1].pbs"), ("Grid Engine", GRID_ENGINE, "18.1")],
)
def test_the_first_commands(scheduler, printed, second, tmp_path):
    """Each makes a name and a number of cores of what its scheduler prints, and of nothing else."""
    first = {"PBS": "17.pbs"}.get(scheduler, "17")
    assert names_and_cores(scheduler, printed, tmp_path) == [[first, "8"], [second, "120"]]


def names_and_cores(scheduler, printed, tmp_path):
    """What the README's command for a scheduler makes of what that one prints."""
    (line,) = (line for line in block("first-commands").splitlines() if f"# {scheduler}" in line)
    program = tmp_path / line.split()[0]
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}END\n")
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", line], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    return [each.split() for each in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("awk") is None, reason="there is no awk")
@pytest.mark.parametrize(
    ("reason", "waits_for_cores"),
    [
        ("None", True),
        ("ReqNodeNotAvail, UnavailableNodes:htc-[1-4]", True),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs", True),
        ("PartitionConfig", True),
        ("job requeued in held state", False),
        ("launch failed requeued held", False),
        ("JobArrayTaskLimit", False),
        ("Licenses", False),
        ("PartitionDown", False),
        ("PartitionTimeLimit", False),
        ("QOSMaxCpuPerUserLimit", False),
    ],
)
def test_reasons_of_slurm(reason, waits_for_cores, tmp_path):
    """Jobs that no new node would start are not counted, whatever Slurm calls the reason."""
    found = names_and_cores("Slurm", f"17 8 {reason}\n", tmp_path)
    assert found == ([["17", "8"]] if waits_for_cores else [])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("scheduler", ["Slurm", "PBS", "Grid Engine"])
def test_the_first_driver_without_an_answer(scheduler, tmp_path):
    """A scheduler that cannot be asked is none without jobs, although awk has nothing to say."""
    (line,) = (line for line in block("first-commands").splitlines() if f"# {scheduler}" in line)
    program = tmp_path / line.split()[0]
    program.write_text("#!/bin/sh\necho cannot connect >&2\nexit 1\n")
    program.chmod(0o755)
    (tmp_path / "waiting.py").write_text(block("first-driver"))
    ask = (
        "from waiting import Waiting\n"
        f"Waiting('first')._read_jobs_and_nodes({{'waiting': {{'command': {line!r}}}}})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask],
        env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[0] == "cannot connect"
    assert "CalledProcessError" in done.stderr.splitlines()[-1]


def test_the_first_dry_run(tmp_path):
    """The driver, the configuration and the commands, as a user copies them; what they print is
    what the README shows, and no node is made."""
    description = json.loads((ROOT / "docs/first-cluster.json").read_text(encoding="utf-8"))
    steps = re.split(r"^\$ (.*)\n", block("first-dry-run"), flags=re.MULTILINE)[1:]
    (tmp_path / "waiting.py").write_text(block("first-driver"))
    environment = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    with serve(description, username="first", password="secret") as simulator:
        written = block("first-configuration").replace("http://127.0.0.1:8080", simulator.url)
        (tmp_path / "autoscale.json").write_text(written)
        for command, shown in zip(steps[::2], steps[1::2], strict=True):
            if command.startswith("export "):
                environment.update([command.removeprefix("export ").split("=")])
                continue
            program, *words = command.split()
            assert program == ".venv/bin/azscale"
            done = azscale(*words, cwd=tmp_path, env=environment)
            assert (done.stdout, done.stderr) == (shown, ""), command
        assert not simulator.cluster("first").nodes()


def test_the_default_resources(config):
    """Slots by nodearray and then by core, memory less one GiB, scratch where there is a GPU."""
    given = json.loads(block("default-resources"))
    check_config(given)
    buckets = new_node_manager({**config, **given}).get_buckets()
    nodes = {bucket.nodearray: bucket.example_node for bucket in buckets}
    assert nodes["himem"].resources["slots"] == 1
    assert nodes["hpc"].resources["slots"] == nodes["hpc"].pcpu_count
    assert nodes["himem"].resources["mem"].convert_to("g").value == 63
    assert [name for name, node in nodes.items() if "scratch" in node.resources] == ["gpu"]


def test_the_least_cost():
    """Four nodes of the size with a price of the user's own, which is what the demand says."""
    binding = MockClusterBinding()
    binding.add_nodearray("htc", {}, location="southcentralus")
    for size in ("Standard_F16s_v2", "Standard_F8s_v2"):
        binding.add_bucket("htc", size, 10, 10)
    config = {**json.loads(block("least-cost")), "_mock_bindings": binding}
    calculator = new_demand_calculator(config, node_history=NullNodeHistory())
    calculator.add_jobs([Job(str(n), {"ncpus": 8}) for n in range(4)])
    said = str(calculator.get_demand().cost)
    assert said == block("least-cost-says").strip()


def test_the_timeouts(buckets):
    """Numbers, or numbers by nodearray."""
    given = json.loads(block("timeouts"))
    check_config(given)
    nodes = {bucket.nodearray: bucket.example_node for bucket in buckets}
    assert parse_idle_timeout(given, nodes["hpc"]) == 300
    assert parse_boot_timeout(given, nodes["hpc"]) == 3600
    assert parse_boot_timeout(given, nodes["htc"]) == 1800


def test_the_driver(tmp_path):
    """The sketch of an integration is a driver that can be made, and reads what it says."""
    (tmp_path / "my_module.py").write_text(block("driver"))
    program = (
        "from my_module import MyDriver\n"
        "jobs, nodes = MyDriver('mine').read_jobs_and_nodes({})\n"
        "print([job.name for job in jobs], [node.hostname for node in nodes])\n"
    )
    assert run_program(program, tmp_path) == ["['42'] ['htc-1']"]


def test_the_drivers_methods():
    """The table of methods is what a driver must have."""
    table = README.split("\n## Write an integration\n")[1].split("```")[0]
    documented = set(re.findall(r"^\| `(\w+)\(", table, re.MULTILINE))
    assert documented == set(SchedulerDriver.__abstractmethods__)


def test_the_version(config):
    """`azscale --version` says which it is, and needs no configuration."""
    done = azscale("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"azscale \d+\.\d+\.\d+\S*\n", done.stdout)


def test_the_steps_to_a_cluster_of_ones_own(config, tmp_path):
    """From initconfig to autoscale, as the README has them, against the simulator; the passes are
    in the journal afterwards, without anybody having asked for it, and are decided alike again."""
    environment = {**os.environ, "CYCLECLOUD_PASSWORD": "secret", "AUTOSCALE_HOME": str(tmp_path)}

    def run(*arguments):
        done = azscale(*arguments, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    who = ["--cluster-name", "first", "--url", config["url"], "--username", "first"]
    written = run("initconfig", *who)
    check_config(json.loads(written))
    given = {key: value for key, value in json.loads(written).items() if key != "logging"}
    (tmp_path / "autoscale.json").write_text(json.dumps(given))
    assert run("connect", "-c", "autoscale.json") == ""
    assert "Standard_NC4as_T4_v3" in run("buckets", "-c", "autoscale.json")
    assert "Nothing to do" in run("plan", "-c", "autoscale.json")
    run("autoscale", "-c", "autoscale.json")
    assert "NAME" in run("nodes", "-c", "autoscale.json")
    (made,) = json.loads(run("journal", "show", "-c", "autoscale.json", "-F", "json"))
    assert made["did"]["errors"] == []
    assert run("replay", str(tmp_path / "journal")).startswith("1 pass")


def test_services_are_stopped_without_ending_what_the_driver_has_started():
    """SIGTERM goes to the main process alone, so that the pass in hand can be finished."""
    units = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.service")]
    assert units
    for unit in [README, *units]:
        assert "\nKillMode=mixed\n" in unit
