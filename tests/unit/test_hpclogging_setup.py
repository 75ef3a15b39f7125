"""Configuring the logging of the process; each case in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

import hpc.autoscale

CONF = """
[loggers]
keys=root
[handlers]
keys=h
[formatters]
keys=f
[logger_root]
level=REPRO
handlers=h
[handler_h]
class=StreamHandler
formatter=f
args=(sys.stderr,)
[formatter_f]
format=from file: %(context)s %(levelname)s %(message)s
"""

SAY = """
import json, logging, os, sys
sys.path.insert(0, os.getcwd())
early = logging.getLogger("early")
from hpc.autoscale import hpclogging
hpclogging.initialize_logging(json.loads(sys.argv[1]))
hpclogging.initialize_logging({"logging": {"config_file": "/ignored"}})
hpclogging.fine("hello")
early.warning("early")
"""


@pytest.fixture
def run(tmp_path):
    """Initialise logging with a configuration in a new process, say something, return what stderr
    shows."""
    (tmp_path / "cwd").mkdir()

    def run(config=None, program=SAY, **env):
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(config)],
            cwd=tmp_path / "cwd",
            env={**os.environ, "AUTOSCALE_LOG_CONFIG": "", **env},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stderr

    return run


EXPECTED = "from file: [init] FINE hello\nfrom file: [init] WARNING early\n"


def test_file_from_the_configuration(run, tmp_path):
    """The first that counts; other loggers are not disabled; the second call does nothing."""
    (tmp_path / "my.conf").write_text(CONF)
    assert run({"logging": {"config_file": str(tmp_path / "my.conf")}}) == EXPECTED


def test_file_that_is_missing(run):
    """It is reported, and nothing is configured."""
    stderr = run({"logging": {"config_file": "/missing.conf"}})
    first, *rest = stderr.splitlines()
    assert first.startswith("logging.config_file '/missing.conf' cannot be used")
    assert rest == ["WARNING:early:early"]


@pytest.mark.parametrize(
    "content",
    ["", "garbage", CONF.replace("keys=f", "keys=g"), CONF.replace("StreamHandler", "NoHandler")],
)
def test_file_that_is_wrong(run, tmp_path, content):
    """It is an error of the configuration that names the file."""
    (tmp_path / "my.conf").write_text(content)
    stderr = run({"logging": {"config_file": str(tmp_path / "my.conf")}})
    assert "ConfigurationException: logging.config_file" in stderr and "my.conf" in stderr


def test_settings_from_the_configuration(run):
    """dictConfig is for those who have no file."""
    settings = {
        "version": 1,
        "formatters": {"f": {"format": "from file: %(context)s %(levelname)s %(message)s"}},
        "handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}},
        "root": {"level": "FINE", "handlers": ["h"]},
    }
    assert run({"logging": {"config": settings}}) == EXPECTED


@pytest.mark.parametrize("section", ["everything", {"config": {"version": 7}}, {"config": "x"}])
def test_settings_that_are_wrong(run, section):
    """They are an error of the configuration."""
    assert "ConfigurationException: logging" in run({"logging": section})


def test_file_from_the_environment(run, tmp_path):
    """AUTOSCALE_LOG_CONFIG names a file for everybody."""
    (tmp_path / "env.conf").write_text(CONF)
    assert run({}, AUTOSCALE_LOG_CONFIG=str(tmp_path / "env.conf")) == EXPECTED


def test_file_beside_the_working_directory(run, tmp_path):
    """../conf/logging.conf is read when nothing else is said, and when no stranger can have written
    it."""
    (tmp_path / "conf").mkdir()
    path = tmp_path / "conf" / "logging.conf"
    path.write_text(CONF)
    assert run() == EXPECTED
    path.chmod(0o666)
    assert "from file" not in run()


def test_without_anything(run):
    """Everything down to DEBUG goes to stderr."""
    stderr = run()
    assert stderr.endswith("WARNING: early\n") and "hello" not in stderr
    assert "hello" not in run({}, AUTOSCALE_LOG_CONFIG="/missing.conf")


def test_stock_configuration(run, tmp_path):
    """The file in the package works as it is: everything in AUTOSCALE_HOME, and nothing on stderr,
    where commands and the loop say themselves what matters."""
    conf = os.path.join(os.path.dirname(hpc.autoscale.__file__), "logging.conf")
    stderr = run({"logging": {"config_file": conf}}, AUTOSCALE_HOME=str(tmp_path))
    assert stderr == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["autoscale.log", "cwd"]
    assert "WARNING: [init] early [early:" in (tmp_path / "autoscale.log").read_text()


OTHERS = """
import sys
from hpc.autoscale import hpclogging
hpclogging._own_ids = lambda: (1000, 1000)
hpclogging.FileOwnerHandler.__call__ = lambda self, path: (1001, 1001)
hpclogging.initialize_logging({"logging": {"config_file": sys.argv[1]}})
hpclogging.info("hello")
"""


def test_configured_files_of_others_are_not_rotated(tmp_path):
    """The rule for owners holds for the root logger, too, though that is not of our class."""
    handler = f"class=handlers.RotatingFileHandler\nargs=({str(tmp_path / 'a.log')!r}, 'a', 10, 3)"
    (tmp_path / "my.conf").write_text(
        CONF.replace("class=StreamHandler", handler).replace("args=(sys.stderr,)", "")
    )
    subprocess.run([sys.executable, "-c", OTHERS, str(tmp_path / "my.conf")], check=True)
    first, second = (tmp_path / "a.log").read_text().splitlines()
    assert "will not be rotated" in first and second.endswith("INFO hello")


USE = """
import json, logging, sys
from hpc.autoscale import hpclogging
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.node.nodemanager import new_node_manager
config = {"cluster_name": "c", "_mock_bindings": MockClusterBinding("c")}
config.update(json.loads(sys.argv[1]) or {})
new_demand_calculator(config, node_mgr=new_node_manager(config))
hpclogging.debug("detail")
hpclogging.warning("news")
"""


def test_using_the_library_configures_nothing_by_itself(run, tmp_path):
    """A program that says nothing of logging sees warnings; one that does gets what it says."""
    assert run(program=USE) == "WARNING:root:news\n"
    (tmp_path / "log.conf").write_text(CONF)
    asked = {"logging": {"config_file": str(tmp_path / "log.conf")}}
    for said in (run(asked, USE), run({}, USE, AUTOSCALE_LOG_CONFIG=str(tmp_path / "log.conf"))):
        assert "from file: [init] DEBUG detail\n" in said
        assert "from file: [init] WARNING news\n" in said
    assert "WARNING: early" in run(
        {}
    )  # whoever asks for it, and does not say where, gets all of it


FAIL = """
import json, sys
from hpc.autoscale import hpclogging
hpclogging.initialize_logging(json.loads(sys.argv[1]))
hpclogging.set_context("[Job 1]")
try:
    1 / 0
except ZeroDivisionError:
    hpclogging.exception("it failed: %s", "two\\nlines")
"""


def test_json_lines(run, tmp_path):
    """By the class of a formatter in a logging.conf: an object a record, its stack trace in it."""
    conf = tmp_path / "logging.conf"
    head = CONF[: CONF.index("[formatter_f]")]
    conf.write_text(head + "[formatter_f]\nclass=hpc.autoscale.hpclogging.JsonFormatter\n")
    (line,) = run({"logging": {"config_file": str(conf)}}, FAIL).splitlines()
    said = json.loads(line)
    known = ("level", "logger", "context", "message")
    assert [said[key] for key in known] == ["ERROR", "root", "[Job 1]", "it failed: two\nlines"]
    assert said["at"].endswith("Z")
    assert "ZeroDivisionError" in said["error"]
