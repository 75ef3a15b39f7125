"""Section 0: what callers use of the package besides importing names from it."""

import importlib.metadata
import json
import logging
import logging.config
import os
import runpy
import subprocess
import sys
import tarfile
import tomllib
from argparse import Namespace
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

import hpc.autoscale
from builders.nodes import a_planned_node, an_htc_cluster
from builders.processes import python
from builders.published import row
from hpc.autoscale import cli, hpclogging
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.demandprinter import ExcludeDemandPrinterFilter
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory
from hpc.autoscale.util import new_singleton_lock

PACKAGE = Path(hpc.autoscale.__file__).parent

LOGGING_CONF = """
[loggers]
keys=root

[handlers]
keys=log

[formatters]
keys=line

[logger_root]
level=DEBUG
handlers=log

[handler_log]
class=FileHandler
level=DEBUG
formatter=line
filters=no_table
args=({path!r},)

[filter_no_table]
class=hpc.autoscale.job.demandprinter.ExcludeDemandPrinterFilter

[formatter_line]
format=%(levelname)s %(context)s %(pid)s %(message)s
"""


@row("package.file")
def test_dirname_of_the_package_leads_to_its_files():
    """`__file__` is a text, and its directory holds logging.conf, as shell scripts expect."""
    found = python("import hpc.autoscale as h, os; print(os.path.dirname(h.__file__))")
    assert isinstance(hpc.autoscale.__file__, str)
    assert found.stdout.strip() == str(PACKAGE)
    assert os.path.isfile(os.path.join(found.stdout.strip(), "logging.conf"))


@row("package.logging_conf")
def test_the_packaged_logging_conf_shows_the_context_of_every_record(tmp_path):
    """It loads by fileConfig, and foreign loggers get through its `%(context)s` and `%(pid)s` as
    ours do."""
    code = """
import logging, logging.config, os, sys
import hpc.autoscale
from hpc.autoscale import hpclogging
foreign = logging.getLogger("foreign")
conf = os.path.join(os.path.dirname(hpc.autoscale.__file__), "logging.conf")
logging.config.fileConfig(conf, disable_existing_loggers=False)
hpclogging.set_context("[here]")
foreign.warning("from abroad")
hpclogging.warning("from home")
"""
    done = python(code, AUTOSCALE_HOME=str(tmp_path))
    lines = (tmp_path / "autoscale.log").read_text().splitlines()
    assert done.returncode == 0, done.stderr
    assert ["[here] from abroad" in lines[0], "[here] from home" in lines[1]] == [True, True]
    assert lines[0].split()[2].isdigit()


@row("package.logging_conf")
def test_an_integrations_own_logging_conf_loads(tmp_path):
    """A configuration of an integration with `%(context)s` and `%(pid)s` works through
    initialize_logging."""
    log, conf = tmp_path / "own.log", tmp_path / "logging.conf"
    conf.write_text(LOGGING_CONF.format(path=str(log)))
    code = """
import sys
from hpc.autoscale import hpclogging as logging
logging.initialize_logging({"logging": {"config_file": sys.argv[1]}})
logging.set_context("[Job 1]")
logging.info("hello")
"""
    done = python(code, str(conf))
    assert (done.returncode, done.stderr) == (0, "")
    assert log.read_text().startswith("INFO [Job 1] ")


@row("package.vm_sizes_json")
def test_packaged_vm_sizes_read_as_location_size_record():
    """The file is package data; through VM_SIZES it reads as location, size, record, and regions
    can stand in."""
    raw = json.loads((PACKAGE / "node" / "vm_sizes.json").read_text(encoding="utf-8"))
    proxies = raw["proxied-locations"]
    alias, location = next((a, b) for a, b in proxies.items() if b in vm_sizes.VM_SIZES)
    record = vm_sizes.VM_SIZES["westus2"]["Standard_F4"]
    assert record["name"] == "Standard_F4"
    assert record["capabilities"]["vCPUs"] == 4
    assert alias not in vm_sizes.VM_SIZES
    assert vm_sizes.get_aux_vm_size_info(alias, "Standard_F4").vcpu_count == 4
    assert vm_sizes.get_aux_vm_size_info(location, "Standard_F4").vcpu_count == 4


@row("package.exclude_filter")
@pytest.mark.parametrize("arguments", [(), ("demandprinter",), ("",)])
def test_the_filter_of_a_logging_conf_drops_printed_demand(arguments):
    """Its constructor takes at most a name, and it drops the records named `demandprinter`,
    whatever that name is."""
    demand_filter = ExcludeDemandPrinterFilter(*arguments)
    printed, other = (
        logging.makeLogRecord({"name": name, "msg": "NAME HOSTNAME"})
        for name in ("demandprinter", "root")
    )
    assert (bool(demand_filter.filter(printed)), bool(demand_filter.filter(other))) == (False, True)


@row("package.exclude_filter")
def test_the_filter_is_found_by_its_dotted_name(tmp_path):
    """logging configuration finds it as
    `hpc.autoscale.job.demandprinter.ExcludeDemandPrinterFilter`."""
    dotted = "hpc.autoscale.job.demandprinter.ExcludeDemandPrinterFilter"
    logger = logging.getLogger("conformance.filtered")
    settings = {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"no_table": {"()": dotted, "name": "x"}},
        "handlers": {
            "log": {"class": "logging.FileHandler", "filename": "x.log", "filters": ["no_table"]}
        },
        "loggers": {"conformance.filtered": {"handlers": ["log"], "propagate": False}},
    }
    logging.config.dictConfig(settings)
    logger.handle(logging.makeLogRecord({"name": "demandprinter", "msg": "table", "levelno": 30}))
    logger.warning("kept")
    for handler in list(logger.handlers):
        handler.close()
        logger.removeHandler(handler)
    assert (tmp_path / "x.log").read_text() == "kept\n"


def _saved_cluster(tmp_path):
    """A configuration file over a saved cluster status, as a support engineer would make one."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-0A010002")
    status = cluster.get_cluster_status(nodes=True).to_dict()
    config = {
        "cluster_name": "clusty",
        "_mock_bindings": {"name": "reproduce", "cluster_response": "status.json"},
    }
    (tmp_path / "status.json").write_text(json.dumps(status))
    (tmp_path / "autoscale.json").write_text(json.dumps(config))
    return tmp_path / "autoscale.json"


@row("package.module_cli")
def test_the_module_can_be_run(tmp_path):
    """`python -m hpc.autoscale.cli buckets` prints what the cluster offers."""
    config = _saved_cluster(tmp_path)
    command = [sys.executable, "-m", "hpc.autoscale.cli", "buckets", "-c", str(config)]
    done = subprocess.run(
        [*command, "-o", "nodearray,vm_size"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].split() == ["NODEARRAY", "VM_SIZE"]
    assert {tuple(line.split()) for line in done.stdout.splitlines()[1:]} == {
        ("htc", "Standard_F4")
    }


@row("package.module_cli")
def test_a_launchers_own_name_is_dropped(tmp_path, capsys):
    """A first argument that is a file is the launcher, not a command."""
    launcher = tmp_path / "azscale"
    launcher.write_text("#!/bin/sh\n")
    config = _saved_cluster(tmp_path)
    cli.main([str(launcher), "nodes", "-c", str(config), "-o", "name", "-F", "table_headerless"])
    assert capsys.readouterr().out.split() == ["htc-1"]


@row("package.azscale")
def test_the_launcher_passes_arguments_and_a_default_config(tmp_path, capsys):
    """`cli.main(argv, default_config)`: commands find the configuration that the launcher names."""
    config = _saved_cluster(tmp_path)
    argv = ["nodes", "-o", "hostname", "-F", "table_headerless"]
    cli.main(argv=argv, default_config=str(config))
    assert capsys.readouterr().out.split() == ["ip-0A010002"]


@row("package.azscale")
def test_azscale_is_installed_and_completes(tmp_path):
    """The console script is there, and answers the shell's completion."""
    script = next(
        e for e in importlib.metadata.entry_points(group="console_scripts") if e.name == "azscale"
    )
    completions = tmp_path / "completions"
    line = "azscale valid"
    done = python(
        "import os, sys\n"
        "sys.argv = ['azscale']\n"
        "os.dup2(os.open(os.environ['COMPLETIONS'], os.O_CREAT | os.O_WRONLY), 8)\n"
        "from hpc.autoscale.cli import console_main\n"
        "console_main()",
        COMPLETIONS=str(completions),
        _ARGCOMPLETE="1",
        _ARGCOMPLETE_IFS="\n",
        COMP_LINE=line,
        COMP_POINT=str(len(line)),
    )
    assert script.value == "hpc.autoscale.cli:console_main"
    assert "validate_constraint" in completions.read_text(), done.stderr


@row("package.environment")
def test_switches_that_are_read_at_import():
    """HPC_RUNTIME_CHECKS turns type checks on, AZURE_HPC_DEV the options for developers."""
    code = (
        "from hpc.autoscale import codeanalysis as c, util; print(c.RUNTIME_TYPE_CHECKING, "
        "util.AZURE_HPC_DEV)"
    )
    off = python(code, HPC_RUNTIME_CHECKS="", AZURE_HPC_DEV="0")
    on = python(code, HPC_RUNTIME_CHECKS="true", AZURE_HPC_DEV="1")
    assert (off.stdout.strip(), on.stdout.strip()) == ("False False", "True True")


@row("package.environment")
def test_the_developers_options_read_saved_replies(tmp_path, monkeypatch, capsys):
    """With AZURE_HPC_DEV=1 a command answers from files instead of a server."""
    _saved_cluster(tmp_path)
    (tmp_path / "plain.json").write_text('{"cluster_name": "clusty"}')
    monkeypatch.setenv("AZURE_HPC_DEV", "1")
    cli.main(
        [
            *("nodes", "-c", "plain.json", "--cluster-response", "status.json"),
            *("-o", "name", "-F", "table_headerless"),
        ]
    )
    assert capsys.readouterr().out.split() == ["htc-1"]


@row("package.environment")
def test_autoscale_home_is_where_an_integration_lives(tmp_path, monkeypatch):
    """AUTOSCALE_HOME, else /opt/azurehpc/<name>."""
    assert GenericDriver("pbspro").autoscale_home == str(tmp_path)
    monkeypatch.delenv("AUTOSCALE_HOME")
    assert GenericDriver("pbspro").autoscale_home == "/opt/azurehpc/pbspro"


@row("package.environment")
def test_autoscale_log_config_configures_logging(tmp_path):
    """AUTOSCALE_LOG_CONFIG names the file that is used when the configuration says nothing of
    logging."""
    log, conf = tmp_path / "env.log", tmp_path / "logging.conf"
    conf.write_text(LOGGING_CONF.format(path=str(log)))
    code = (
        "from hpc.autoscale import hpclogging\n"
        "hpclogging.initialize_logging()\nhpclogging.error('x')"
    )
    python(code, AUTOSCALE_LOG_CONFIG=str(conf))
    assert log.read_text().startswith("ERROR [init] ")


@row("package.environment")
def test_the_owner_of_log_files_comes_from_the_environment(tmp_path, monkeypatch):
    """As root, files of rotating handlers go to SCALELIB_LOG_USER and SCALELIB_LOG_GROUP."""
    chowned = []
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "getgid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: chowned.append((uid, gid)))
    monkeypatch.setattr(hpclogging, "_UID", None)
    monkeypatch.setattr(hpclogging, "_GID", None)
    monkeypatch.setenv("SCALELIB_LOG_USER", "daemon")
    monkeypatch.setenv("SCALELIB_LOG_GROUP", "daemon")
    handler = RotatingFileHandler(tmp_path / "a.log")
    hpclogging.HPCLogger("own").addHandler(handler)
    handler.close()
    assert chowned == [(1, 1)]


@row("package.environment")
@pytest.mark.parametrize("block", ["1", "2", "1000"])
def test_rows_of_the_history_are_written_in_blocks(monkeypatch, block):
    """Whatever SCALELIB_SQLITE_INSERT_BLOCK says, all nodes get into the history."""
    monkeypatch.setenv("SCALELIB_SQLITE_INSERT_BLOCK", block)
    with SQLiteNodeHistory("h.db") as history:
        history.update(
            [a_planned_node(node_id=DelayedNodeId(f"n{i}", f"id-{i}")) for i in range(5)]
        )
        assert len(history.find_unmatched(for_at_least=-1)) == 5


@row("package.environment")
def test_completion_speaks_in_the_file_named_for_it(tmp_path, monkeypatch):
    """Notes made while completing go to SCALELIB_AUTOCOMPLETE_LOG, and nowhere without it."""
    module = cli.ScaleLibCLI()
    monkeypatch.delenv("SCALELIB_AUTOCOMPLETE_LOG", raising=False)
    module._complete_output_columns("", Namespace(config="missing.json", cmd="nodes"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("SCALELIB_AUTOCOMPLETE_LOG", str(tmp_path / "notes"))
    module._complete_output_columns("", Namespace(config="missing.json", cmd="nodes"))
    assert "missing.json" in (tmp_path / "notes").read_text()


@row("package.environment")
def test_the_default_lock_is_below_cyclecloud_home(tmp_path, monkeypatch):
    """Without `lock_file` the lock is in $CYCLECLOUD_HOME/system/bootstrap, where there is such a
    home."""
    bootstrap = tmp_path / "jetpack" / "system" / "bootstrap"
    bootstrap.mkdir(parents=True)
    monkeypatch.setenv("CYCLECLOUD_HOME", str(tmp_path / "jetpack"))
    with pytest.warns(UserWarning):
        lock = new_singleton_lock({})
    lock.unlock()
    assert lock.lockpath == str(bootstrap / "scalelib.lock")


@row("package.distribution")
def test_the_tree_becomes_the_distribution_that_installers_look_for(tmp_path, monkeypatch):
    """Its project is cyclecloud-scalelib, 1.0.11 or above, of the same sources; the file is named
    as it is looked for.

    That it can be installed with the real pip is shown in tests/integration/test_distributions.py.
    """
    tools = PACKAGE.parents[2] / "tools"
    monkeypatch.syspath_prepend(str(tools))
    tool = runpy.run_path(str(tools / "build_scalelib.py"))
    assert tool["main"]([str(tmp_path)]) == 0
    version = hpc.autoscale.__version__
    top = f"cyclecloud_scalelib-{version}"
    with tarfile.open(tmp_path / f"cyclecloud-scalelib-{version}.tar.gz") as archive:
        project = tomllib.loads(archive.extractfile(f"{top}/pyproject.toml").read().decode())
        for name in ("logging.conf", "node/vm_sizes.json", "clilib.py"):
            copied = archive.extractfile(f"{top}/src/hpc/autoscale/{name}").read()
            assert copied == (PACKAGE / name).read_bytes()
    assert project["project"]["name"] == "cyclecloud-scalelib"
    assert tuple(map(int, version.split("."))) >= (1, 0, 11)
