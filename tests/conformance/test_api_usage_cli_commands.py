"""Section 12, second half: commands that integrations override with super() calls, or run from
scripts."""

import io
import json

import pytest

from builders.integration_cli import Runner
from builders.nodes import names
from builders.published import row
from hpc.autoscale import clilib, clock
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.testing import a_config


@pytest.fixture
def run(tmp_path, capsys):
    """Commands of an integration's command line."""
    return Runner(tmp_path, capsys)


@row("cli.restart_nodes")
@row("cli.reimage_nodes")
@pytest.mark.parametrize(
    ("command", "state"), [("restart_nodes", "Restarting"), ("reimage_nodes", "Reimaging")]
)
def test_restart_and_reimage_through_super(run, command, state):
    """With three keyword arguments; the cluster carries it out and the nodes are printed."""
    for number in (1, 2, 3):
        run.node(number)
    out = run(command, "-H", "ip-1", "-N", "htc-2")
    nothing = run(command)
    assert (out.splitlines()[0], out.count("htc-")) == (f"{state} the following nodes:", 2)
    assert (nothing, run.code) == ("", 1)
    assert [run.cluster.nodes[f"htc-{n}"].state for n in (1, 2, 3)] == [state, state, "Ready"]


@row("cli.restart_nodes")
@row("cli.reimage_nodes")
@pytest.mark.parametrize("command", ["restart_nodes", "reimage_nodes"])
def test_force_reaches_restart_and_reimage_through_super(run, command):
    """Although the override has three arguments; without it a busy node is left alone."""
    run.node(1)
    run.driver.hosts = [SchedulerNode("ip-1", {"ncpus": 4})]
    run.driver.hosts[0].assign("7")
    assert (run(command, "-N", "htc-1"), run.code) == ("", 1)
    assert "has jobs: 7" in run.errors
    assert "htc-1" in run(command, "-N", "htc-1", "--force")


@row("cli.autoscale")
def test_autoscale_through_super(run):
    """Creates what jobs need, joins what runs, prints the table, and returns the demand."""
    run.node(1)
    run.queue("1", slots=6)
    out = run("autoscale", "-o", "name,job_ids", "-F", "table_headerless")
    assert [line.split() for line in out.splitlines()] == [["htc-1", "1"], ["htc-2", "1"]]
    assert [r["Name"] for r in run.cluster.get_nodes().nodes] == ["htc-1", "htc-2"]
    assert ("join", ["htc-1"], False) in run.driver.asked


@row("cli.autoscale")
def test_autoscale_as_a_dry_run(run):
    """Called as Slurm calls it: everything is shown, and nothing is changed."""
    run.queue("1", slots=6)
    config = a_config(run.cluster)
    demand = run.cli.autoscale(config, ["name"], "table", dry_run=True, long=False)
    assert isinstance(demand, DemandResult)
    assert names(demand.new_nodes) == ["htc-1", "htc-2"]
    assert run.cluster.get_nodes().nodes == []
    assert run.driver.asked == []


@row("cli.autoscale")
def test_idle_nodes_are_drained_deleted_and_removed_in_this_order(run):
    """After the idle timeout of the configuration; the scheduler knows no host (F-lost-history)."""
    now = clock.use_mock_clock()
    run.config["idle_timeout"] = 60
    run.config["autoscale"] = {"scheduler_reports_hosts": False}
    run.node(1)
    run("autoscale")
    now.sleep(61)
    run("autoscale")
    steps = [step for step in run.driver.asked if step[0] != "join"]
    assert steps == [("drain", ["htc-1"]), ("remove", ["htc-1"])]
    assert run.cluster.get_nodes().nodes == []


@row("cli.demand")
def test_demand_through_super(run):
    """Shows what autoscale would do."""
    run.queue("1", slots=5)
    entries = json.loads(run("demand", "-F", "json", "-o", "name,job_ids"))
    assert entries == [{"name": "htc-1", "job_ids": ["1"]}, {"name": "htc-2", "job_ids": ["1"]}]
    assert run.cluster.get_nodes().nodes == []


@row("cli.jobs")
def test_jobs_through_super(run):
    """What the driver reads, as JSON."""
    run.queue("1", slots=5)
    (job,) = json.loads(run("jobs"))
    assert (job["name"], job["iterations"], job["constraints"]) == ("1", 5, [{"ncpus": 1}])


@row("cli.join_nodes")
def test_join_nodes_through_super(run):
    """The driver gets the nodes; with --include-permanent those removed for good as well."""
    run.node(1)
    out = run("join_nodes", "-N", "htc-1")
    run("join_nodes", "-H", "ip-1", "--include-permanent")
    assert out.splitlines()[0] == "Joined the following nodes:"
    assert "htc-1" in out
    assert run.driver.asked == [("join", ["htc-1"], False), ("join", ["htc-1"], True)]


@row("cli.remove_nodes")
def test_remove_nodes_leaves_the_machine_running(run):
    """It is drained and removed in the scheduler; --permanent keeps it from joining again."""
    run.node(1)
    run.driver.hosts = [SchedulerNode("onprem-1", {"ncpus": 4})]
    run("remove_nodes", "-N", "htc-1", "--permanent")
    out = run("remove_nodes", "-H", "onprem-1")
    history = run.cli._node_history(a_config(run.cluster))
    assert run.code == 0
    assert [r["TargetState"] for r in run.cluster.get_nodes().nodes] == ["Started"]
    assert run.driver.asked[:2] == [("drain", ["htc-1"]), ("remove", ["htc-1"])]
    assert "onprem-1" in out
    assert [found[1] for found in history.find_ignored()] == ["ip-1"]


@row("cli.analyze")
def test_analyze_says_where_a_job_runs_or_why_not(run):
    """The nodes it is assigned to, or each reason behind its status; an unknown job is exit code
    1."""
    run.queue("1")
    run.queue("2", ncpus=64)
    placed, refused = run("analyze", "--job-id", "1"), run("analyze", "-j", "2", "--long")
    unknown = run("analyze", "-j", "3")
    assert placed.splitlines()[0] == "Job 1 is assigned to the following nodes:"
    assert "htc-1" in placed
    assert any(
        line.startswith("InsufficientResource".ljust(24) + ":") for line in refused.splitlines()
    )
    assert (unknown, run.code) == ("", 1)


@row("cli.shell")
def test_shell_runs_a_script_with_the_cluster_at_hand(run, tmp_path):
    """The integration's names, the classes, and the arguments behind the script; nodes read as
    attributes."""
    run.node(1)
    script = tmp_path / "script.py"
    script.write_text(
        "import json\n"
        "print(json.dumps([nodes.htc_1.name, dcalc.finish().unmatched_nodes[0].state, shell_args,"
        " Job.__name__, str(Memory(1, 'g')), SchedulerNode.__name__, NodeBucket.__name__]))\n"
    )
    out = run("shell", "--script", str(script), "a", "b")
    assert json.loads(out) == [
        *("htc-1", "Ready", ["a", "b"], "Job", "1.00g", "SchedulerNode", "NodeBucket")
    ]


@row("cli.validate_constraint")
def test_validate_constraint_with_a_writer(run):
    """As Slurm calls it: expressions as JSON texts; JSON to the writer, words on stderr unless
    quiet."""
    writer = io.StringIO()
    exprs = [clilib.constraint_type("node.vm_size=Standard_F4"), '{"ncpus": 2}']
    run.cli.validate_constraint({}, exprs, writer=writer, quiet=True)
    quiet = run.capsys.readouterr()
    run.cli.validate_constraint({}, exprs, writer=io.StringIO())
    assert json.loads(writer.getvalue()) == {"node.vm_size": "Standard_F4", "ncpus": 2}
    assert (quiet.out, quiet.err) == ("", "")
    assert "Standard_F4" in run.capsys.readouterr().err


INITCONFIG = [
    *("initconfig", "--cluster-name", "clusty", "--username", "alice", "--password", "secret"),
    *("--url", "https://cc", "--lock-file", "/x/lock", "--log-config", "/x/logging.conf"),
    *("--idle-timeout", "60", "--boot-timeout", "3600", "--disable-default-resources"),
    "--default-resource",
    '{"select": {}, "name": "ncpus", "value": "node.vcpu_count"}',
    "--default-resource",
    '{"select": {}, "name": "mem", "value": "node.memory", "subtract": "1g"}',
    *("--queues", "a.q,b.q"),
]


@row("cli.commands")
def test_initconfig_as_installers_run_it(run):
    """Every option lands in its key, `a__b` nested, password included: installers redirect it into
    autoscale.json."""
    written = json.loads(run(*INITCONFIG))
    assert written == {
        "cluster_name": "clusty",
        "username": "alice",
        "password": "secret",
        "url": "https://cc",
        "lock_file": "/x/lock",
        "logging": {"config_file": "/x/logging.conf"},
        "idle_timeout": 60,
        "boot_timeout": 3600,
        "disable_default_resources": True,
        "default_resources": [
            {"select": {}, "name": "ncpus", "value": "node.vcpu_count"},
            {"select": {}, "name": "mem", "value": "node.memory", "subtract": "1g"},
        ],
        "grid": {"queues": ["a.q", "b.q"], "initialized": True},
    }


@row("cli.commands")
def test_a_written_configuration_is_usable(run):
    """A magnitude in it may be a text, and `config` shows it back without its secret."""
    written = json.loads(run(*INITCONFIG))
    written.pop("logging")
    run.config = written
    shown = json.loads(run("config"))
    bucket, *_ = json.loads(run("buckets", "-F", "json"))
    assert shown["grid"] == {"queues": ["a.q", "b.q"], "initialized": True}
    assert shown["password"] != "secret"
    assert bucket["mem"] == "memory::7.00g"


@row("cli.commands")
def test_initconfig_fills_in_what_is_not_given(run, tmp_path):
    """Timeouts of 300 and 1800 seconds, and files in the home of the integration."""
    argv = ["initconfig", "--cluster-name", "c", "--username", "u", "--url", "https://cc"]
    written = json.loads(run(*argv))
    incomplete = run("initconfig", "--cluster-name", "c")
    assert (written["idle_timeout"], written["boot_timeout"]) == (300, 1800)
    assert written["lock_file"] == str(tmp_path / "scalelib.lock")
    assert written["logging"]["config_file"] == str(tmp_path / "logging.conf")
    assert (written["default_resources"], written["disable_default_resources"]) == ([], False)
    assert (incomplete, run.code) == ("", 2)


@row("cli.commands")
@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["connect"], ""),
        (["buckets", "-o", "vm_size,available_count", "-C", "node.placement_group=null"], "9"),
        (["limits"], '"regional_quota_core_count": 1000000'),
        (["nodes", "-o", "name"], "htc-1"),
        (["jobs"], '"name": "1"'),
        (["demand"], "htc-1"),
        (["config"], '"cluster_name": "clusty"'),
        (["validate_constraint", "-C", "ncpus=2"], '"ncpus": 2'),
        (["default_output_columns"], "--output-columns name"),
        (["refresh_autocomplete"], ""),
        (["debug_cluster_status"], '"nodearrays"'),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_that_scripts_run(run, argv, expected):
    """They end with exit code 0, print what they are about, and change nothing in the cluster."""
    run.node(1)
    run.queue("1")
    out = run(*argv)
    assert (run.code, expected in out) == (0, True)
    assert [r["TargetState"] for r in run.cluster.get_nodes().nodes] == ["Started"]


@row("cli.commands")
def test_create_and_delete_nodes_from_a_script(run):
    """Nodes by number, with constraints and attributes; deletion drains, deletes and removes."""
    out = run(
        *("create_nodes", "-n", "2", "-a", "htc", "-v", "Standard_F4", "-C", "ncpus=1"),
        *("-O", '{"Tags": "x"}', "-o", "name", "-F", "table_headerless", "--keep-alive"),
    )
    refused = run("delete_nodes", "-N", "htc-1"), run.code
    run.cluster.nodes["htc-2"].keep_alive = False
    run.queue("1", exclusive=True)
    deleted = run("delete_nodes", "-N", "htc-2", "--force")
    assert out.split() == ["htc-1", "htc-2"]
    assert run.cluster.nodes["htc-1"].keep_alive is True
    assert refused == ("", 1)
    assert [line for line in deleted.splitlines() if not line.startswith(" ")] == [
        "Drained the following nodes:",
        "Deleting the following nodes:",
        "Removed the following nodes from grid:",
    ]


@row("cli.commands")
def test_slots_and_nodes_exclude_each_other(run):
    """create_nodes by slots makes as many as hold them; both numbers at once are an error."""
    dry = run("create_nodes", "--slots", "6", "-C", "ncpus=1", "--dry-run", "-o", "name")
    assert dry.split() == ["NAME", "htc-1", "htc-2"]
    assert run.cluster.get_nodes().nodes == []
    assert (run("create_nodes", "-n", "1", "-s", "1"), run.code) == ("", 1)


@row("private.copied_clilib")
def test_job_by_its_long_path_in_an_interpreter():
    """Grid Engine's own copy of older command line code pushes this import into a console."""
    console = clilib.ReraiseAssertionInterpreter(locals={})
    for line in ("from hpc.autoscale.job.job import Job", "made = Job('1', {'ncpus': 1})"):
        assert console.push(line) is False
    assert console.locals["made"].name == "1"
    with pytest.raises(AssertionError):
        console.push("raise AssertionError")
