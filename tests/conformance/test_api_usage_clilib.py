"""Section 12, first half: `hpc.autoscale.clilib` and the helpers of CommonCLI that integrations
call and override."""

import argparse
import json
import os

import pytest

from builders.integration_cli import CLI, Driver, Runner
from builders.nodes import an_htc_cluster, names
from builders.published import row
from hpc.autoscale import clilib
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.testing import a_config


@pytest.fixture
def run(tmp_path, capsys):
    """Commands of an integration's command line."""
    return Runner(tmp_path, capsys)


@row("cli.GenericDriver")
def test_the_generic_driver_lets_everything_pass():
    """No jobs, no nodes, every hook gives back what it was given; a subclass adds to
    preprocess_node_mgr."""
    driver = GenericDriver("generic")
    nodes = [SchedulerNode("ip-1")]
    hooks = [
        driver.handle_failed_nodes,
        driver.add_nodes_to_cluster,
        driver.handle_post_join_cluster,
        driver.handle_boot_timeout,
        driver.handle_draining,
        driver.handle_post_delete,
    ]
    assert isinstance(driver, SchedulerDriver)
    assert [hook(nodes) for hook in hooks] == [nodes] * 6
    assert driver.add_nodes_to_cluster(nodes, include_permanent=True) == nodes
    assert tuple(map(list, driver.read_jobs_and_nodes({}))) == ([], [])
    assert driver.preprocess_config({"a": 1}) == {"a": 1}
    config = a_config(an_htc_cluster())
    bucket = CLI()._node_mgr(config, Driver()).get_buckets()[-1]
    assert (bucket.resources["slots"], bucket.placement_group) == (4, "Standard_F4_pg1")


class Plain:
    """An object that is no CommonCLI; any will do."""

    def hello_parser(self, parser):
        parser.add_argument("--who", default="you")

    def hello(self, config, who):
        """Says hello.

        In several lines."""
        print(
            f"hello {who} of {config['cluster_name']} {config['read_only']} {config['lock_file']}"
        )

    def fails(self, config):
        """Fails."""
        raise RuntimeError("no luck")

    def asserts(self, config):
        """Goes on up."""
        raise AssertionError("a bug")

    def initconfig(self):
        """Needs no configuration."""
        print("{}")

    def _private(self, config):
        raise NotImplementedError


@row("clilib.main")
def test_public_callables_are_sub_commands(tmp_path, capsys):
    """With the options of `<cmd>_parser` and -c for all but initconfig; read-only unless they say
    otherwise."""
    path = tmp_path / "autoscale.json"
    path.write_text('{"cluster_name": "c", "lock_file": "x"}')
    clilib.main(["hello", "-c", str(path), "--who", "me"], "proj", Plain())
    clilib.main(["hello", "--config", str(path)], project_name="proj", module=Plain())
    clilib.main(["initconfig"], "proj", Plain())
    assert capsys.readouterr().out.splitlines() == [
        "hello me of c True None",
        "hello you of c True None",
        "{}",
    ]
    for unknown in (["_private", "-c", str(path)], ["hello_parser"]):
        with pytest.raises(SystemExit):
            clilib.main(unknown, "proj", Plain())


@row("clilib.main")
def test_errors_are_one_line_and_exit_code_one(tmp_path, capsys):
    """`Error '…'` on stderr; an AssertionError goes up to the caller; without a command there is
    help."""
    path = tmp_path / "autoscale.json"
    path.write_text("{}")
    codes = []
    for argv in (["fails", "-c", str(path)], ["hello", "-c", str(tmp_path / "none.json")], []):
        with pytest.raises(SystemExit) as end:
            clilib.main(argv, "proj", Plain())
        codes.append(end.value.code)
    captured = capsys.readouterr()
    assert codes == [1, 1, 1]
    assert captured.err.splitlines()[0].startswith("Error 'no luck': ")
    assert "Could not parse config" in captured.err.splitlines()[1]
    assert "Says hello. In several lines." in captured.out
    with pytest.raises(AssertionError, match="a bug"):
        clilib.main(["asserts", "-c", str(path)], "proj", Plain())


@row("clilib.main")
def test_where_the_configuration_is_by_default(tmp_path, capsys):
    """`default_config`, or autoscale.json in the module's `autoscale_dir`; -c is needed when there
    is none."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "autoscale.json").write_text('{"cluster_name": "by-dir"}')
    (tmp_path / "other.json").write_text('{"cluster_name": "by-default"}')
    module = Plain()
    with pytest.raises(SystemExit) as end:
        clilib.main(["hello"], "no-such-project", module)
    module.autoscale_dir = str(tmp_path / "dir")
    clilib.main(["hello"], "proj", module)
    clilib.main(["hello"], "proj", module, default_config=str(tmp_path / "other.json"))
    captured = capsys.readouterr()
    assert end.value.code == 2
    assert [line.split()[3] for line in captured.out.splitlines()] == ["by-dir", "by-default"]


@row("clilib.main")
def test_initialize_is_called_before_the_command(run):
    """With the command's name and the loaded configuration, which it may change."""
    assert json.loads(run("greet", "--name", "me")) == ["me", None, "absent"]
    assert run.cli.calls == ["greet"]


@row("clilib.CommonCLI")
def test_a_subclass_must_write_five_methods():
    """And passes its name by keyword or to `CommonCLI.__init__`."""

    class Incomplete(clilib.CommonCLI):
        pass

    class Keyword(CLI):
        def __init__(self):
            super(CLI, self).__init__(project_name="other")

    with pytest.raises(TypeError):
        Incomplete("x")
    assert clilib.CommonCLI.__abstractmethods__ == {
        *("_setup_shell_locals", "_driver", "_default_output_columns"),
        *("_initconfig_parser", "_initconfig"),
    }
    assert (CLI().project_name, Keyword().project_name) == ("grid", "other")
    assert (CLI().example_nodes, CLI().node_names, CLI().hostnames) == ([], [], [])


@row("clilib.disablecommand")
def test_a_disabled_command_is_hidden_and_can_be_called(run):
    """It is no sub-command, is marked `disabled`, and its override reaches the base class."""
    run.node(1, state="Failed")
    run("retry_failed_nodes")
    unknown = run.code
    run.cli.retry_failed_nodes({"_mock_bindings": run.cluster})
    assert CLI.retry_failed_nodes.disabled is True
    assert unknown == 2
    assert run.cluster.nodes["htc-1"].state == "Acquiring"


@row("clilib.ShellDict")
def test_items_are_attributes_too():
    """Other characters are `_`, and what does not begin with a letter gets `k_`; with a prefix in
    front of all."""
    nodes = clilib.ShellDict({"ip-0A000004": 1, "12": 2, "htc.x y": 3, "items": 4})
    prefixed = clilib.ShellDict({"1": "a"}, prefix="job_")
    assert (nodes["ip-0A000004"], nodes.ip_0A000004, nodes.k_12, nodes.htc_x_y) == (1, 1, 2, 3)
    assert dict(nodes) == {"ip-0A000004": 1, "12": 2, "htc.x y": 3, "items": 4}
    assert isinstance(nodes, dict)
    assert prefixed.job_1 == prefixed["1"] == "a"


@row("clilib.str_list")
@pytest.mark.parametrize(
    ("text", "expected"), [("a,b", ["a", "b"]), ("a,b,", ["a", "b"]), ("a", ["a"])]
)
def test_str_list_as_an_argument_type(text, expected):
    """For argparse: between commas, of which a last one is dropped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queues", type=clilib.str_list)
    assert parser.parse_args(["--queues", text]).queues == expected


@row("cli._node_mgr")
def test_the_node_manager_of_a_command_is_made_once():
    """For a configuration, with or without a driver; `force` makes another."""
    cli, config = CLI(), a_config(an_htc_cluster())
    first = cli._node_mgr(config)
    assert isinstance(first, NodeManager)
    assert cli._node_mgr(config, Driver()) is first
    assert cli._node_mgr(config, force=True) is not first
    assert first.get_buckets()[0].resources["slots"] == 4


@row("cli._demand_calc")
@row("private.cli_underscores")
def test_demand_calc_is_what_every_command_calls(run):
    """The override is called back by the base class, and returns the calculator and the jobs."""
    run.queue("1", slots=2)
    run.node(1)
    cli = run.cli
    dcalc, jobs = cli._demand_calc(a_config(run.cluster), run.driver)
    given, _ = CLI()._demand_calc(a_config(run.cluster), run.driver, dcalc.node_mgr)
    assert isinstance(dcalc, DemandCalculator)
    assert [j.name for j in jobs] == ["1"]
    assert given.node_mgr is dcalc.node_mgr
    for command in ("nodes", "demand", "autoscale"):
        run(command)
        assert (run.code, "_demand_calc" in run.cli.calls) == (0, True)


class TwoArguments(CLI):
    """PBS's override: it knows two arguments only."""

    def _demand_calc(self, config, driver):
        self.calls.append("two")
        return clilib.CommonCLI._demand_calc(self, config, driver)


@row("cli._demand_calc")
def test_an_override_may_know_two_arguments_only():
    """It is called with what it can take."""
    cli = TwoArguments()
    cli.driver.jobs = [{"name": "1", "constraints": [{"ncpus": 1}], "node-count": 0}]
    _, _, nodes = cli._find_nodes(a_config(cli.cluster), [], ["*"])
    cli.demand(a_config(cli.cluster), ["name"], "table_headerless")
    assert nodes == []
    assert cli.calls == ["two", "two"]


class Waiting(CLI):
    """Leaves out jobs that run, one by one, as a loop over them asks."""

    def _demand_calc(self, config, driver, node_mgr=None):
        dcalc, jobs = super()._demand_calc(config, driver, node_mgr)
        return dcalc, filter(lambda job: job.metadata.get("job_state") != "running", jobs)


@row("cli._demand_calc")
@pytest.mark.parametrize("command", ["autoscale", "demand", "nodes", "explain 1"])
def test_the_jobs_of_an_override_may_be_any_iterable(run, command):
    """They are gone through as often as it takes."""
    run.cli = Waiting(run.cluster)
    run.queue("1", slots=2)
    run(*command.split())
    assert run.code == 0
    _, dcalc, _ = run.cli._find_nodes(a_config(run.cluster), [], ["*"])
    assert [node.assignments for node in dcalc.finish().matched_nodes] == [{"1"}]


@row("cli._find_nodes")
def test_nodes_by_host_names_and_node_names(run):
    """In any case of letters; `*` is all; an unknown host is the scheduler's own, an unknown name
    an error."""
    for number in (1, 2):
        run.node(number)
    config = a_config(run.cluster)
    driver, dcalc, nodes = run.cli._find_nodes(config, ["IP-1"], ["HTC-2"])
    _, _, everything = run.cli._find_nodes(config, ["*"], [])
    _, _, stranger = run.cli._find_nodes(config, ["onprem-1"], None)
    assert (driver, type(dcalc)) == (run.driver, DemandCalculator)
    assert names(nodes) == ["htc-1", "htc-2"]
    assert sorted(names(everything)) == ["htc-1", "htc-2"]
    assert [(type(n), n.hostname) for n in stranger] == [(SchedulerNode, "onprem-1")]
    with pytest.raises(RuntimeError, match="htc-9"):
        run.cli._find_nodes(config, [], ["htc-9"])


@row("cli._add_hostnames")
@row("cli._add_nodenames")
def test_options_for_nodes():
    """-H and -N, each a list between commas, empty when they are not given."""
    parser = argparse.ArgumentParser()
    CLI()._add_hostnames(parser)
    CLI()._add_nodenames(parser)
    given = parser.parse_args(["-H", "ip-1,ip-2", "--node-names", "htc-1,"])
    none = parser.parse_args([])
    assert (given.hostnames, given.node_names) == (["ip-1", "ip-2"], ["htc-1"])
    assert not none.hostnames and not none.node_names
    assert parser.parse_args(["--hostnames", "x", "-N", "y"]).hostnames == ["x"]


@row("cli._get_example_nodes")
def test_example_nodes_are_kept_for_completion(run, tmp_path):
    """One for each bucket, and all names; hooks add to the cache and read from it, and it is read
    before the cluster."""
    run.node(1)
    config = a_config(run.cluster)
    made = run.cli._get_example_nodes(config, force=True)
    reader = CLI(run.cluster)
    again = reader._get_example_nodes({"cluster_name": "not asked"})
    assert all(isinstance(node, Node) for node in made)
    assert [n.vm_size for n in again] == [n.vm_size for n in made] == ["Standard_F4"] * 3
    assert (reader.node_names, reader.hostnames, reader.queues) == (["htc-1"], ["ip-1"], ["all.q"])
    assert (tmp_path / ".example_node_cache.json").exists()
    assert os.stat(tmp_path / ".example_node_cache.json").st_mode & 0o077 == 0


@row("cli._driver")
def test_the_driver_of_every_command_is_the_hooks(run):
    """What the hook returns reads the jobs."""
    run.queue("17")
    assert [job["name"] for job in json.loads(run("jobs"))] == ["17"]


@row("cli._get_default_output_columns")
def test_default_columns_and_a_super_call(run):
    """Of the configuration for the command, for all, or the integration's for the command; the
    override adds one."""
    run.node(1)
    by_integration = run("nodes").splitlines()[0].split()
    run.config["output-columns"] = {"default": ["vm_size"]}
    by_default = run("nodes").splitlines()[0].split()
    run.config["output-columns"]["nodes"] = ["location"]
    by_command = run("nodes").splitlines()[0].split()
    assert by_integration == ["NAME", "HOSTNAME", "REQUIRED"]
    assert by_default == ["VM_SIZE", "REQUIRED"]
    assert by_command == ["LOCATION", "REQUIRED"]
    assert run("demand").split()[0] == "VM_SIZE"


@row("cli._ctx_handler")
def test_the_context_handler_hears_of_every_job(run):
    """HPC Pack's own handler gets the results under `[Job <name>]`."""
    run.queue("1")
    run.queue("2", ncpus=64)
    run("demand")
    by_context = run.cli.handler.by_context
    assert {"[Job 1]", "[Job 2]"} <= by_context.keys()
    assert any(not result for result in by_context["[Job 2]"])
