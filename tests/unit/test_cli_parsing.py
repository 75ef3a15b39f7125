"""From objects to commands: discovery, options, what a command is called with."""

import json
import types

import pytest

from hpc.autoscale import clilib
from hpc.autoscale.cli import ScaleLibCLI
from hpc.autoscale.cli.parsing import commands_of
from hpc.autoscale.cli.scalelib import DriverCLI

BASE = (
    "analyze apply autoscale buckets config connect create_nodes debug_cluster_status explain "
    "default_output_columns delete_nodes demand initconfig jobs join_nodes limits nodes plan "
    "refresh_autocomplete reimage_nodes remove_nodes restart_nodes retry_failed_nodes shell "
    "validate_constraint whatif"
)


class Plain:
    """An object with three commands, and other things that are none."""

    attribute = ["no", "command"]

    def __init__(self):
        self.called = []

    def one(self, config):
        """Does
        100% of one thing."""
        self.called.append(("one", config))

    def two_parser(self, parser):
        """Options."""
        parser.add_argument("--size", type=int, default=1)
        parser.set_defaults(read_only=False)

    def two(self, config, size):
        """Does another."""
        self.called.append(("two", config, size))

    def initconfig(self):
        """Needs no configuration."""
        self.called.append("initconfig")

    @clilib.disablecommand
    def hidden(self):
        """Is not offered."""

    def _helper(self):
        """Is not offered either."""


@pytest.fixture(autouse=True)
def no_logging_setup(monkeypatch):
    """Logging of the test run stays as it is."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)


@pytest.fixture
def config(tmp_path):
    """The path of a configuration."""
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps({"cluster_name": "c"}))
    return str(path)


def test_every_public_callable_is_a_command():
    """But for helpers, parsers of options, and what is disabled."""
    assert [name for name, _ in commands_of(Plain())] == ["initconfig", "one", "two"]


def test_a_module_works_as_well():
    """As long as it looks like one."""
    module = types.ModuleType("commands")
    called = []
    module.run = lambda config: called.append(config)
    assert [name for name, _ in commands_of(module)] == ["run"]


def test_the_commands_of_all_integrations():
    """No helper of ours is taken for one, and none of the names is missing; azscale has some
    more."""
    more = (
        "apply autostop completion cost doctor explain journal metrics plan replay report request"
        " requests serve serve_autostop simulate status weights whatif"
    )
    every = {*BASE.split(), *more.split()}
    assert [name for name, _ in commands_of(DriverCLI())] == sorted(every)
    without = {"jobs", "join_nodes", "remove_nodes"}
    assert {name for name, _ in commands_of(ScaleLibCLI())} == every - without


def test_an_integration_may_take_any_other_name():
    """Commands of today's integrations do not meet anything in the base class."""
    theirs = (
        "cost topology partitions validate resume suspend generate_topology scale status doctor"
    )
    for name in theirs.split():
        assert not hasattr(clilib.CommonCLI, name)


def test_the_overview():
    """Each command with its docstring on one line."""
    parser = clilib.create_arg_parser("x", Plain())
    assert "\n    one                  - Does 100% of one thing." in parser.format_help()


def test_calling_a_command(config):
    """With its options by name, and the configuration loaded. Reading only, unless it says
    otherwise."""
    plain = Plain()
    clilib.main(["one", "-c", config], "x", plain)
    clilib.main(["two", "--config", config, "--size", "3"], "x", plain)
    assert plain.called == [
        ("one", {"cluster_name": "c", "read_only": True, "lock_file": None}),
        ("two", {"cluster_name": "c"}, 3),
    ]


def test_options_of_integrations_may_be_cut_short(config):
    """As published, and as their users' scripts may have it; those of azscale may not."""
    plain = Plain()
    clilib.main(["two", "--conf", config, "--si", "3"], "x", plain)
    assert plain.called == [("two", {"cluster_name": "c"}, 3)]


def test_only_the_command_that_is_run_is_prepared(config):
    """To prepare all of `azscale` takes longer than many a command."""
    prepared = []

    class Observed(Plain):
        def one_parser(self, parser):
            prepared.append("one")

        def two_parser(self, parser):
            prepared.append("two")
            super().two_parser(parser)

    clilib.main(["two", "-c", config, "--size", "3"], "x", Observed())
    assert prepared == ["two"]
    with pytest.raises(SystemExit):
        clilib.main(["--help"], "x", Observed())
    assert prepared == ["two", "one", "two"]


def test_the_command_that_needs_no_configuration():
    """Writes one."""
    plain = Plain()
    clilib.main(["initconfig"], "x", plain)
    assert plain.called == ["initconfig"]


def test_where_the_configuration_is(config, tmp_path, monkeypatch):
    """Given by the caller, in the integration's directory, in its home; else it must be named."""
    plain = Plain()
    clilib.main(["one"], "x", plain, default_config=config)
    plain.autoscale_dir = str(tmp_path)
    clilib.main(["one"], "x", plain)
    assert len(plain.called) == 2
    del plain.autoscale_dir
    with pytest.raises(SystemExit) as ended:
        clilib.main(["one"], "no-such-project", plain)
    assert ended.value.code == 2


def test_initialize_comes_first(config):
    """Where there is such a method, with the command and the configuration."""

    class Careful(Plain):
        def _initialize(self, command, config):
            self.called.append((command, config["cluster_name"]))

    careful = Careful()
    clilib.main(["two", "-c", config], "x", careful)
    assert careful.called[0] == ("two", "c")


def test_no_command_prints_help(capsys):
    """And ends with exit code 1."""
    with pytest.raises(SystemExit) as ended:
        clilib.main([], "x", Plain())
    assert ended.value.code == 1
    assert "Does another." in capsys.readouterr().out


def test_options_for_developers(config, monkeypatch):
    """Only when the environment asks for them."""
    plain = Plain()
    with pytest.raises(SystemExit):
        clilib.main(["one", "-c", config, "--cluster-response", "x.json"], "x", plain)
    monkeypatch.setenv("AZURE_HPC_DEV", "1")
    clilib.main(["one", "-c", config, "--cluster-response", "x.json"], "x", plain)
    assert plain.called[0][1]["_mock_bindings"] == {
        "name": "reproduce",
        "cluster_response": "x.json",
    }


def test_an_override_with_fewer_options(config):
    """The base class has no options that integrations do not know."""

    class Theirs(DriverCLI):
        def autoscale_parser(self, parser):
            clilib.CommonCLI.autoscale_parser(self, parser)

        def autoscale(self, config, output_columns, output_format, dry_run=False, long=False):
            self.called = (output_columns, output_format, long)

        def demand(self, config, output_columns, output_format, long=False):
            self.called = (output_columns, output_format, long)

        def restart_nodes(self, config, hostnames, node_names):
            self.called = (hostnames, node_names)

    theirs = Theirs()
    clilib.main(["autoscale", "-c", config, "-o", "name", "-F", "json", "-l"], "x", theirs)
    assert theirs.called == (["name"], "json", True)
    clilib.main(["demand", "-c", config], "x", theirs)
    assert theirs.called == (None, "table", False)
    clilib.main(["restart_nodes", "-c", config, "-N", "a,b"], "x", theirs)
    assert theirs.called == ([], ["a", "b"])


def test_a_command_of_an_integration_that_has_the_name_of_one_of_ours(config):
    """It knows nothing of our options, and is called without them; one that is used is refused."""

    class Theirs(DriverCLI):
        def plan(self, config):
            self.called = "plan"

        def explain(self, config, topic="all"):
            self.called = topic

        def limits(self, config, output_format="json"):
            self.called = output_format

    theirs = Theirs()
    for name, called in {"plan": "plan", "explain": "all", "limits": "json"}.items():
        clilib.main([name, "-c", config], "x", theirs)
        assert theirs.called == called
    with pytest.raises(SystemExit):
        clilib.main(["limits", "-c", config, "-o", "name"], "x", theirs)
