"""Commands about jobs, configuration, completion and the shell, over a cluster in memory."""

import errno
import json
import os
import stat
import subprocess
import sys
from argparse import Namespace

import pytest

from builders.grid_cli import GridCLI
from builders.grid_cli import grid as grid
from hpc.autoscale import clilib
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode

BIG = "--output-format=json"


# -- demand


def test_demand_and_autoscale(grid):
    """The first says what the second does."""
    grid.scheduler.queue("a", slots=8)
    table = grid("demand")
    assert table.split() == ["NAME", "STATE", "JOB_IDS", "htc-1", "Off", "a", "htc-2", "Off", "a"]
    assert not grid.cluster.nodes
    grid("autoscale")
    assert set(grid.cluster.nodes) == {"htc-1", "htc-2"}
    assert [row["job_ids"] for row in grid.json("demand", BIG)] == [["a"], ["a"]]


def test_demand_needs_no_lock(grid):
    """It changes nothing, so anybody may ask."""
    lock = grid.scheduler.new_singleton_lock({"lock_file": str(grid.home / "lock.file")})
    grid("demand")
    grid("autoscale", code=3)
    assert "held by process" in grid.errors
    lock.unlock()
    grid("autoscale")


def test_the_exit_code_of_a_pass_in_which_something_failed(grid, monkeypatch):
    """Is not 0, and the line says what it was; the demand is printed all the same."""
    monkeypatch.setattr(grid.scheduler, "add_nodes_to_cluster", _raise(RuntimeError("qconf: no")))
    assert grid("autoscale", code=1).split() == ["NAME", "STATE", "JOB_IDS"]
    assert grid.errors.startswith("Error 'joining nodes: qconf: no'")


def test_columns_of_ones_own(grid):
    """With -o, headers and all; `all` means all."""
    grid.scheduler.queue("a", slots=3)
    assert grid("demand", "-o", "n@name,/ncpus,", "-F", "table_headerless").split() == [
        "htc-1",
        "1/4",
    ]
    assert "VM_SIZE" in grid("demand", "-o", "all")


def test_columns_from_the_configuration(grid):
    """By command, then by default, then the integration's."""
    assert grid("demand").split() == ["NAME", "STATE", "JOB_IDS"]
    grid.config["output-columns"] = {"default": ["name"]}
    assert grid("demand").split() == ["NAME"]
    grid.config["output-columns"]["autoscale"] = ["state"]
    assert grid("demand").split() == ["STATE"]
    assert grid("default_output_columns").splitlines()[0] == "--output-columns name"
    assert "autoscale" in grid("default_output_columns", "-d", "autoscale")


def test_columns_by_default_are_those_that_are_printed(grid):
    """Of buckets and limits as of nodes; of a command that does not exist there are none."""

    def said(*argv):
        option, _, snippet = grid("default_output_columns", *argv).partition("\n")
        columns = option.removeprefix("--output-columns ").split(",")
        assert columns in json.loads(snippet)["output-columns"].values()
        return columns

    assert said("-d", "nodes") == said() == ["name", "state", "job_ids"]
    for command in ("buckets", "limits"):
        assert said("-d", command) == list(grid.json(command, BIG)[0])
    assert grid("buckets") == grid("buckets", "-o", ",".join(said("-d", "buckets")))
    grid.config["output-columns"] = {"buckets": ["vm_size"]}
    assert said("-d", "buckets") == ["vm_size"]
    grid("default_output_columns", "-d", "bucket", code=1)
    assert "there is no command 'bucket'; did you mean 'buckets'?" in grid.errors


def test_jobs(grid):
    """As the driver reads them."""
    grid.scheduler.queue("a", slots=8)
    (job,) = grid.json("jobs")
    assert (job["name"], job["iterations"]) == ("a", 8)


# -- analyze


def test_analyze_a_job_that_gets_nodes(grid):
    """Lists them."""
    grid.scheduler.queue("a", slots=8)
    lines = grid("analyze", "-j", "a").splitlines()
    assert lines[0] == "Job a is assigned to the following nodes:"
    assert [line.split("(")[1].split(",")[0] for line in lines[1:]] == ["htc-1", "htc-2"]


def test_analyze_a_job_that_gets_none(grid, monkeypatch):
    """Each reason behind its status, in columns, cut to the width of the terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    grid.scheduler.queue("odd", ncpus=64)
    lines = grid("analyze", "-j", "odd").splitlines()
    assert lines
    assert all(line[24] in ": " and len(line) <= 80 for line in lines)
    assert any("InsufficientResource" in line for line in lines)


def test_analyze_says_a_status_once(grid):
    """In front of the message, and not again in it."""
    grid.scheduler.queue("odd", ncpus=64)
    gang = Job("gang", {"node.placement_group": ["*"]}, node_count=500, colocated=True)
    grid.scheduler.jobs.append(gang.to_dict())
    for job in ("odd", "gang"):
        lines = grid("analyze", "-j", job, "-l").partition("\n]\n")[2].splitlines()
        said = [line.partition(":") for line in lines if not line.startswith(" ")]
        assert said
        for status, _, message in said:
            assert not message.strip().startswith(status.strip()), lines


def test_analyze_speaks_of_machines_in_words(grid):
    """As of buckets: what they have, and what is needed."""
    grid.scheduler.hosts = [SchedulerNode("onprem-1", {"ncpus": 2})]
    grid.scheduler.queue("odd", ncpus=64)
    out = " ".join(grid("analyze", "-j", "odd").split())
    assert "InsufficientResource: Node[name=onprem-1 attr=ncpus] has 2 of 'ncpus', and 64" in out
    assert "SatisfiedResult(" not in out


def test_analyze_with_everything(grid):
    """Lines are whole, and the job itself is printed."""
    grid.scheduler.queue("odd", ncpus=64)
    out = grid("analyze", "-j", "odd", "-l")
    assert json.loads(out[: out.index("]\n") + 1])[0]["name"] == "odd"
    assert max(map(len, out.splitlines())) > 120


def test_analyze_says_which_limit_stopped_a_job(grid):
    """Also when it got some nodes."""
    grid.scheduler.queue("a", slots=50)
    out = grid("analyze", "-j", "a")
    assert "is assigned to" in out
    assert "Limit" in out
    assert "10 slots short" in out


def test_analyze_a_job_that_runs(grid):
    """Says so."""
    grid.scheduler.queue("a")
    grid.scheduler.jobs[0]["metadata"] = {"job_state": "running"}
    assert grid("analyze", "-j", "a") == "Job a is running.\n"


def test_analyze_a_job_that_is_known_as_work_of_its_host(grid):
    """What runs is in no queue of most schedulers, and explain says that it runs."""
    host = SchedulerNode("onprem-1", {"ncpus": 4})
    host.assign("a")
    grid.scheduler.hosts = [host]
    lines = grid("analyze", "-j", "a").splitlines()
    assert lines[:2] == ["Job a is running.", "Job a is assigned to the following nodes:"]
    assert "onprem-1" in lines[2]
    found = grid.json("analyze", "-j", "a", BIG)
    assert (found["is_running"], len(found["nodes"]), found["reasons"]) == (True, 1, [])


def test_analyze_no_name(grid):
    """As of a variable of a script that is not set: the driver is not asked what it calls that."""
    grid("analyze", "-j", "", code=2)
    assert "--job-id: expected the name of a job, found ''" in grid.errors


def test_analyze_a_job_for_which_another_stands(grid, monkeypatch):
    """As explain does: it was no job of the scheduler."""
    grid.scheduler.queue("a", slots=8)
    stands_for = {"a_7": "a", "b_7": "b"}
    monkeypatch.setattr(grid.scheduler, "name_of_job", lambda name: stands_for.get(name, name))
    assert grid("analyze", "-j", "a_7") == grid("analyze", "-j", "a")
    grid("analyze", "-j", "b_7", code=1)
    assert "the scheduler has no job 'b_7'" in grid.errors


def test_analyze_an_unknown_job(grid):
    """Is an error."""
    grid("analyze", "-j", "nope", code=1)
    assert "no job 'nope'" in grid.errors


# -- configuration


def test_the_configuration_without_its_secrets(grid):
    """As the driver leaves it, and as the user wrote it: not read-only because the command is."""
    grid.config.update(password="secret", url="https://me:secret@cc", token=None)
    out = grid("config")
    assert "secret" not in out
    shown = json.loads(out)
    assert shown["password"] == "***"
    assert "read_only" not in shown
    assert grid.config["nodehistorydb"] == shown["nodehistorydb"]


def test_a_configuration_to_start_with(grid):
    """With the password, because installers need it, and with the integration's own sections."""
    shown = grid.json(
        *("initconfig", "--cluster-name", "c", "--username", "u", "--password", "p"),
        *("--url", "https://cc", "--idle-timeout", "60", "--queue", "short.q"),
        *("--default-resource", '{"select": {}, "name": "a", "value": "node.memory"}'),
        *("--default-resource", '{"select": {}, "name": "b", "value": 1}'),
    )
    assert shown["password"] == "p"
    assert shown["grid"] == {"queue": "short.q", "done": True}
    assert shown["logging"] == {"config_file": str(grid.home / "logging.conf")}
    assert shown["lock_file"] == str(grid.home / "scalelib.lock")
    assert (shown["idle_timeout"], shown["boot_timeout"]) == (60, 1800)
    assert [resource["name"] for resource in shown["default_resources"]] == ["a", "b"]
    assert shown["disable_default_resources"] is False


def test_a_configuration_without_a_password(grid):
    """Has no such key, so that it can come from elsewhere."""
    shown = grid.json("initconfig", "--cluster-name", "c", "--username", "u", "--url", "x")
    assert "password" not in shown


# -- an integration's own


def test_a_command_of_ones_own(grid):
    """Every public method is one, with the options that its parser adds."""
    assert grid("hello") == "hello world, clusty\n"
    assert grid("hello", "--name", "you") == "hello you, clusty\n"
    assert grid.cli.initialized == ["hello"]


def test_a_calculator_of_ones_own(grid, monkeypatch):
    """An override of today, with the lock that it takes itself, is what every command uses; a pass
    compares the nodes."""
    compared = []
    monkeypatch.setattr(grid.scheduler, "validate_nodes", lambda *given: compared.append(given))
    made = []

    def demand_calc(self, config, driver):
        jobs, hosts = driver.read_jobs_and_nodes(config, force=True)
        lock = driver.new_singleton_lock(config)
        node_mgr = self._node_mgr(config, driver)
        history = driver.new_node_history(config)
        made.append(new_demand_calculator(config, hosts, node_mgr, history, singleton_lock=lock))
        return made[-1], jobs

    monkeypatch.setattr(GridCLI, "_demand_calc", demand_calc)
    grid.scheduler.queue("a", slots=8)
    assert "htc-2" in grid("autoscale")
    assert compared == [([], [])]
    assert "htc-2" in grid("analyze", "-j", "a")
    assert "htc-2" in grid("nodes")
    assert len(made) == 3


def test_no_command(grid):
    """Prints what there is."""
    out = grid(code=1)
    assert "hello                - Greets." in out
    assert "retry_failed_nodes   - Retries all nodes that failed." in out


def test_errors_of_assertions_go_on_up(grid, monkeypatch):
    """Integrations test with them."""
    monkeypatch.setattr(grid.scheduler, "preprocess_config", _raise(AssertionError("mine")))
    with pytest.raises(AssertionError, match="mine"):
        grid("connect")


def test_the_error_line(grid, monkeypatch):
    """In the form that scripts know, also for errors without any text; a hook is named."""
    monkeypatch.setattr(grid.scheduler, "preprocess_config", _raise(KeyError("queue")))
    grid("connect", code=1)
    assert grid.errors == "Error 'raising: KeyError: 'queue'': See the rest in the log file\n"
    monkeypatch.setattr(grid.scheduler, "preprocess_config", _raise(RuntimeError()))
    grid("connect", code=1)
    assert grid.errors == "Error 'RuntimeError': See the rest in the log file\n"


def test_saved_responses(grid, monkeypatch):
    """Developers can answer from files."""
    grid.cluster.add_node("htc-1", "htc")
    (grid.home / "status.json").write_text(grid("debug_cluster_status", "--nodes"))
    monkeypatch.setenv("AZURE_HPC_DEV", "1")
    monkeypatch.setattr(type(grid.cli), "_initialize", lambda *_: None)
    out = grid("nodes", "--cluster-response", str(grid.home / "status.json"), "-o", "name")
    assert out.split()[0] == "NAME"


# -- completion


def test_what_completion_knows(grid):
    """Is written by refresh_autocomplete, for the owner only, and read without asking anybody."""
    grid.cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    grid("refresh_autocomplete")
    cache = grid.home / ".example_node_cache.json"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    assert [path.name for path in grid.home.iterdir() if "cache" in path.name] == [cache.name]
    fresh = type(grid.cli)(grid.scheduler, None)
    assert fresh._complete_node_names("") == ["htc-1,"]
    assert fresh._complete_hostnames("") == ["host-1,"]
    assert fresh._complete_nodearrays("") == ["htc"]
    assert fresh._complete_things("") == ["host-1", "htc", "htc-1", "htc/Standard_F4s"]
    assert "ncpus," in fresh._complete_output_columns("")
    assert "name,ncpus," in fresh._complete_output_columns("name,nc")
    assert "node.vm_size=" in fresh._complete_constraints("")
    assert fresh._complete_constraints("node.vm_size=") == ["node.vm_size=Standard_F4s"]
    assert fresh._complete_constraints("ncpus=") == ["ncpus=4"]
    assert fresh._complete_constraints("memgb=") == ["memgb=memory::8.00g"]


def test_completion_knows_the_hosts_that_only_the_scheduler_has(grid, monkeypatch):
    """Machines on premises, each once; without an answer of the scheduler the others are kept."""
    grid.cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    hosts = [SchedulerNode("HOST-1", {"ncpus": 4}), SchedulerNode("onprem-1", {"ncpus": 4})]
    grid.scheduler.hosts = hosts
    grid("refresh_autocomplete")
    fresh = type(grid.cli)(grid.scheduler, None)
    assert fresh._complete_hostnames("") == ["host-1,", "onprem-1,"]
    assert fresh._complete_node_names("") == ["htc-1,", "onprem-1,"]
    assert "onprem-1" in grid("remove_nodes", "-N", "onprem-1")
    monkeypatch.setattr(grid.scheduler, "read_jobs_and_nodes", _raise(RuntimeError("qhost: no")))
    grid("refresh_autocomplete")
    assert type(grid.cli)(grid.scheduler, None)._complete_hostnames("") == ["host-1,"]


def test_completion_offers_what_can_be_started(grid):
    """After a pass, too, which knows machines on premises: no nodearray and no size of them."""
    grid.scheduler.hosts = [SchedulerNode("onprem-1", {"ncpus": 4})]
    grid("autoscale")
    fresh = type(grid.cli)(grid.scheduler, None)
    assert fresh._complete_node_names("") == ["onprem-1,"]
    assert fresh._complete_nodearrays("") == ["htc"]
    assert fresh._complete_vm_sizes("", Namespace(nodearray=None)) == ["Standard_F4s"]


def test_state_is_kept_at_home_with_the_driver(grid, monkeypatch, tmp_path):
    """Wherever the command line has its home: what completion knows, the lock, the history, what
    failed and the requests."""
    home = tmp_path / "driver"
    home.mkdir()
    monkeypatch.setattr(type(grid.scheduler), "autoscale_home", str(home))
    del grid.config["nodehistorydb"]
    before = set(os.listdir(grid.home)) | {"autoscale.json"}
    grid.scheduler.queue("a", slots=3)
    grid("autoscale")
    kept = {".example_node_cache.json", "lock.file", "nodehistory.db", "requests.db", "backoff.db"}
    assert set(os.listdir(home)) == kept
    (home / ".example_node_cache.json").unlink()
    grid("refresh_autocomplete")
    assert set(os.listdir(home)) == kept
    assert set(os.listdir(grid.home)) == before
    fresh = type(grid.cli)(grid.scheduler, None)
    line = Namespace(config=str(grid.home / "autoscale.json"))
    assert fresh._complete_node_names("", parsed_args=line) == ["htc-1,"]


def test_the_shell_completes(grid):
    """Commands, options and names, in a process of its own that asks nobody."""
    grid.cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    grid("refresh_autocomplete")

    def completed(line):
        answer = grid.home / "answer"
        env = {
            **os.environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        command = [sys.executable, "-m", "hpc.autoscale.cli"]
        subprocess.run(command, env=env, check=True, timeout=60, capture_output=True)
        return [word.strip() for word in answer.read_text().splitlines()]

    assert "delete_nodes" in completed("azscale del")
    assert "htc-1," in completed("azscale delete_nodes -N h")
    assert "node.vm_size=" in completed("azscale buckets -C node.vm_s")
    assert "--interval" not in completed("azscale delete_nodes --")
    assert completed("azscale buckets -F t") == ["table", "table_headerless"]
    assert "wide," in completed("azscale buckets -o wi")


def test_autoscale_keeps_completion_up_to_date(grid):
    """A pass that cannot write it is a good pass all the same."""
    grid("autoscale")
    assert (grid.home / ".example_node_cache.json").exists()


def test_what_completion_knows_on_a_full_disk(grid, monkeypatch):
    """Is an error that names the file, and leaves no half of one behind."""

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hpc.autoscale.wholefiles.os.fsync", full)
    grid("refresh_autocomplete", code=1)
    path = grid.home / ".example_node_cache.json"
    assert f"{path}: it cannot be written: No space left on device" in grid.errors
    assert not [path for path in grid.home.iterdir() if "cache" in path.name]


def test_a_broken_cache_is_no_cache(grid):
    """It is read again from the cluster."""
    (grid.home / ".example_node_cache.json").write_text("{")
    grid("connect")
    assert grid.cli._complete_node_names("") == []


def test_a_cache_of_ones_own(grid, monkeypatch):
    """Integrations may keep more in it."""
    grid.cluster.add_node("htc-1", "htc")
    kept = {}
    monkeypatch.setattr(
        clilib.CommonCLI, "_add_completion_data", lambda self, data: data.update(mine=1)
    )
    monkeypatch.setattr(
        clilib.CommonCLI, "_read_completion_data", lambda self, data: kept.update(data)
    )
    grid("refresh_autocomplete")
    fresh = type(grid.cli)(grid.scheduler, None)
    fresh._get_example_nodes(grid.config)
    assert kept["mine"] == 1
    assert fresh.node_names == ["htc-1"]


# -- shell


def test_a_script_in_the_shell(grid, tmp_path):
    """Has the names of the shell as globals."""
    script = tmp_path / "script.py"
    script.write_text("print(answer, Memory(1, 'g'), Job.__name__, shell_args)\n")
    assert grid("shell", "-s", str(script), "x", "y") == "42 1.00g Job ['x', 'y']\n"


def _raise(error):
    def raising(*args, **kwargs):
        raise error

    return raising
