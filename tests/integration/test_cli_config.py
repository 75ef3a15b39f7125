"""`azscale config --check` and `--schema`, by the command and against a simulator."""

import json
import os
import subprocess
import sys

import jsonschema
import pytest

import hpc.autoscale.cli
from hpc.autoscale import cli
from hpc.autoscale.simulator import serve

EXAMPLE = os.path.join(os.path.dirname(hpc.autoscale.cli.__file__), "..", "logging.conf")
CLOUD = {
    "clusters": {
        "demo": {
            "region": "westus2",
            "nodearrays": {"execute": {"machine_types": ["Standard_F4s_v2"]}},
        }
    }
}


@pytest.fixture(scope="module")
def simulator():
    with serve(CLOUD) as running:
        yield running


@pytest.fixture
def check(tmp_path, monkeypatch, capsys, simulator):
    """Write autoscale.json, given as keys or as text, and check it: the lines and the exit code."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))

    def run(text=None, mode=0o600, **more):
        config = {**simulator.connection("demo"), "retry": {"attempts": 1}, **more}
        path = tmp_path / "autoscale.json"
        path.write_text(text or json.dumps(config))
        path.chmod(mode)
        code = 0
        try:
            cli.main(["config", "--check", "-c", str(path)])
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        assert captured.err == ""
        return [line.replace(f"{path}: ", "") for line in captured.out.splitlines()], code

    return run


def test_nothing_wrong(check, tmp_path):
    """Nothing is printed, and no file is made."""
    assert check() == ([], 0)
    assert os.listdir(tmp_path) == ["autoscale.json"]


def test_every_problem_is_told(check):
    """With its place and the likely typo, not only the first one."""
    lines, code = check(
        idle_timeout=-1,
        autoscal={},
        autoscale={"intervall": 3, "max_deletes_per_pass": "many"},
        default_resources=[
            {"select": {}},
            {"select": {}, "name": "a", "value": 1, "add": 1, "subtract": 2},
            {"select": {}, "nam": "b", "value": 1},
        ],
    )
    assert code == 1
    places = [line.removeprefix("error: ").split(":")[0] for line in lines]
    assert sorted(places) == [
        "autoscal",
        "autoscale.intervall",
        "autoscale.max_deletes_per_pass",
        "default_resources[0]",
        "default_resources[1]",
        "default_resources[2].nam",
        "idle_timeout",
    ]
    assert "error: autoscale.intervall: unknown key; did you mean 'interval'?" in lines


def test_keys_that_stand_twice(check):
    """Each with its place, and what else is wrong beside them."""
    lines, code = check(
        '{"url": "a", "url": "b", "autoscale": {"a": [{"x": 1, "x": 2}]}, "retry": 5}'
    )
    assert code == 1
    assert lines[:2] == [
        "error: url: expected each key once, found it twice",
        "error: autoscale.a[0].x: expected each key once, found it twice",
    ]
    assert lines[2].startswith("error: retry: expected an object")


def test_a_file_that_is_no_json(check):
    """Says where, as every command does."""
    (line,), code = check('{"url": ')
    assert code == 1 and "line 1 column 9" in line


LOG = """
[loggers]
keys=root, own
[handlers]
keys=file
[formatters]
keys=plain
[logger_root]
level=DEBUG
handlers=file
[logger_own]
qualname=own
handlers=
[handler_file]
class=handlers.RotatingFileHandler
formatter=plain
args=('{home}/a.log',)
[formatter_plain]
class=hpc.autoscale.hpclogging.JsonFormatter
"""


def test_files_as_seen_from_the_working_directory(check, tmp_path):
    """Are a warning: a loop and a command in another directory would each have their own."""
    whole = {"nodehistorydb": str(tmp_path / "x.db"), "lock_file": None, "journal": False}
    assert check(**whole) == ([], 0)
    named = {"requests_file": "requests.db", "metrics": {"file": "m.prom"}, "lock_file": "a/lock"}
    (line,), code = check(**{**whole, **named})
    said = (
        "warning: lock_file 'a/lock', requests_file 'requests.db', metrics.file 'm.prom': as seen"
    )
    assert code == 0 and line.startswith(said)
    assert check(**{**whole, "nodehistorydb": ":memory:"}) == ([], 0)


def log_file(tmp_path, text=LOG):
    """A configuration whose log is configured by a file with this text."""
    path = tmp_path / "log.conf"
    path.write_text(text.replace("{home}", str(tmp_path)))
    return {"logging": {"config_file": str(path)}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bad", "log.conf' cannot be used: ValueError: expected [section] or key=value in line 1"),
        ("", "KeyError: 'formatters'"),
        (LOG.replace("keys=root, own", "keys=own"), "expected root among the keys of loggers"),
        (LOG.replace("level=DEBUG", "level=LOUD"), "unknown level: 'LOUD'"),
        (LOG.replace("handlers=file", "handlers=fiel"), "KeyError: 'fiel'"),
        (LOG.replace("qualname=own", ""), "KeyError: 'qualname'"),
        (LOG.replace("RotatingFileHandler", "NoHandler"), "handlers"),
        (LOG.replace("JsonFormatter", "NoFormatter"), "NoFormatter"),
        (LOG.replace("formatter=plain", "formatter=fancy"), "KeyError: 'fancy'"),
        (LOG.replace(",)", ",").replace("args=", "args=("), "SyntaxError"),
        (LOG.replace("[handler_file]", "[handler_files]"), "KeyError: 'handler_file'"),
    ],
)
def test_a_log_file_with_which_every_command_ends(check, tmp_path, text, said):
    """Is an error, in words, and no log file is made."""
    (line,), code = check(**log_file(tmp_path, text))
    assert code == 1 and line.startswith("error: logging.config_file ")
    assert said in line and "<_io." not in line
    assert not (tmp_path / "a.log").exists()


@pytest.mark.parametrize("text", ["bad", "", LOG.replace("handlers=file", "handlers=fiel")])
def test_commands_end_with_what_the_check_finds(check, tmp_path, text):
    """In the same words, without any object of Python."""
    (line,), _ = check(**log_file(tmp_path, text))
    command = [sys.executable, "-m", "hpc.autoscale.cli", "nodes"]
    command += ["-c", str(tmp_path / "autoscale.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert line.removeprefix("error: ") in done.stderr and "<_io." not in done.stderr


@pytest.mark.parametrize("before", ["", "[loggers]\n"])
def test_no_line_of_a_log_file_is_shown(check, tmp_path, before):
    """As it may be another file, with a password in it."""
    (line,), code = check(**log_file(tmp_path, f"{before}password hunter2-password"))
    assert code == 1 and "hunter2" not in line
    assert line.endswith(f"in line {2 if before else 1}")


def test_a_log_file_that_can_be_used(check, tmp_path):
    """Is not used by a look; one that is missing is a warning, since commands go on without."""
    assert check(**log_file(tmp_path)) == ([], 0)
    assert check(logging={"config_file": EXAMPLE}) == ([], 0)
    assert not (tmp_path / "a.log").exists()
    (line,), code = check(logging={"config_file": "/no/such.conf"})
    assert code == 0
    assert line.startswith("warning: logging.config_file '/no/such.conf' cannot be used: there is")


def test_names_that_nothing_in_the_cluster_has(check):
    """Are warnings: resources, nodearrays, sizes and columns, each with a guess."""
    lines, code = check(
        nodearrays={"exceute": {}},
        default_resources=[
            {"select": {"node.nodearray": "exekute"}, "name": "a", "value": 1},
            {"select": {"node.vm_size": "Standard_F4s_v3"}, "name": "b", "value": 1},
            {"select": {}, "name": "bees", "value": 1},
            {"select": {"bee": 1}, "name": "c", "value": 1},
        ],
        **{"output-columns": {"nodes": ["name", "hostnam"], "nods": ["name"]}},
    )
    assert code == 0 and all(line.startswith("warning: ") for line in lines)
    text = "\n".join(lines)
    for named, meant in (
        ("exceute", "execute"),
        ("exekute", "execute"),
        ("Standard_F4s_v3", "Standard_F4s_v2"),
        ("hostnam", "hostname"),
        ("nods", "nodes"),
        ("'bee'", "bees"),
    ):
        (line,) = [line for line in lines if named in line]
        assert f"did you mean {meant!r}?" in line, text


def test_a_password_that_everybody_can_read(check):
    """Is a warning that names the mode."""
    (line,), code = check(mode=0o644)
    assert code == 0 and "can be read by everybody (mode 0644)" in line


def test_a_secret_that_is_too_short(check):
    """Is a warning that names the key, and not the secret."""
    (line,), code = check(site=[{"queue_token": "xyz"}])
    assert code == 0 and "site[0].queue_token: it has fewer than 4 letters" in line
    assert "xyz" not in line


def test_a_cluster_that_is_away(check):
    """Is a warning: the rest was checked."""
    (line,), code = check(url="https://127.0.0.1:9")
    assert code == 0 and line.startswith("warning: not held against the cluster: ")


def test_a_default_resource_of_what_nodes_do_not_have(check):
    """Is an error, as every command ends with it."""
    resource = {"select": {}, "name": "slots", "value": "node.vcpu_cnt"}
    (line,), code = check(default_resources=[resource])
    assert code == 1 and line.startswith("error: default_resources[0]: ")
    assert "did you mean 'vcpu_count'" in line


@pytest.mark.parametrize("value", ["node.resources.nodearay", "node.resources.nodearay.value"])
def test_a_default_resource_of_another_that_there_is_not(check, value):
    """Is a warning with a guess; those that there are, and what only looks like one, are none."""
    known = [
        {"select": {}, "name": "a", "value": "node.resources.memgb.value"},
        {"select": {}, "name": "b", "value": "node.resources.a"},
        {"select": {}, "name": "c", "value": "resources.none"},
    ]
    assert check(default_resources=known) == ([], 0)
    (line,), code = check(default_resources=[*known, {"select": {}, "name": "d", "value": value}])
    assert code == 0
    assert line == (
        "warning: default_resources[3].value: no node has a resource 'nodearay';"
        " did you mean 'nodearray'?"
    )


def test_a_driver_and_a_policy_that_are_none(check):
    """Both are named; the driver may be what registers the policy."""
    lines, code = check(driver="no.such.module:Driver", packing={"policy": "cheep"})
    assert code == 1 and len(lines) == 2
    assert lines[0].startswith("error: driver: 'no.such.module:Driver'")
    assert lines[1].startswith("warning: packing.policy: expected an order policy")
    (line,), code = check(packing={"policy": "cheep"})
    assert code == 1 and line.startswith("error: packing.policy: expected")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def odd(:", "driver: importing brokendriver: SyntaxError: "),
        ("raise SystemExit(3)", "driver: importing brokendriver: it called sys.exit(3)"),
        ("def Driver(config): return config['conf']", "driver: making brokendriver:Driver: KeyErr"),
    ],
)
def test_a_driver_whose_code_does_not_run(check, tmp_path, code, said, monkeypatch):
    """Is an error: it was a warning, with exit code 0, that the cluster had not been looked at."""
    monkeypatch.delitem(sys.modules, "brokendriver", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "brokendriver.py").write_text(code)
    (line,), code = check(driver="brokendriver:Driver")
    assert code == 1 and line.startswith(f"error: {said}")


def test_two_ways_to_say_where_the_log_goes(check, tmp_path):
    """Are a warning that names both, and which of them is not used."""
    section = {**log_file(tmp_path)["logging"], "config": {"version": 1}}
    assert check(logging=section) == (
        ["warning: logging: expected config_file or config, found both: config is not used"],
        0,
    )
    assert check(logging={**section, "config": None}) == ([], 0)


def test_static_weights_of_nothing(check):
    """Are an error: all regions would weigh the same."""
    for section in ({}, {"provider": "price", "regions": ["a", "b"]}):
        (line,), code = check(weights={**section, "static": {"a": 0, "b": 0}})
        assert code == 1
        assert line == (
            "error: weights.static: expected a weight above 0 of one region or more,"
            " found 0 for a, b"
        )


def test_a_driver_that_is_none(check):
    """Is an error."""
    (line,), code = check(driver="no.such.module:Driver")
    assert code == 1 and line.startswith("error: driver: 'no.such.module:Driver'")


def test_a_driver_that_lacks_methods(check):
    """Is an error that names them."""
    (line,), code = check(driver="hpc.autoscale.job.driver:SchedulerDriver")
    assert code == 1 and line.startswith(
        "error: driver: expected a whole driver, hpc.autoscale.job.driver:SchedulerDriver lacks"
        " _read_jobs_and_nodes, add_nodes_to_cluster, handle_"
    )


def test_the_schema(capsys):
    """Is printed without any configuration."""
    with pytest.raises(SystemExit) as end:
        cli.main(["config", "--schema"])
    assert end.value.code == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "idle_timeout" in schema["properties"]
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert [e.json_path for e in validator.iter_errors({"idle_timeout": -1})] == ["$.idle_timeout"]
