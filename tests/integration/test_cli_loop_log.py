"""What a loop writes on stderr, as a process of its own: with and without the `logging.conf` of the
package."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import resources

import pytest

from builders.scripted_server import Answer, serving

SHIPPED = {"config_file": str(resources.files("hpc.autoscale") / "logging.conf")}
TIMED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ")


@pytest.fixture
def failing_loop(tmp_path):
    """Run a loop on a server that never answers until it has said that a pass failed; what it wrote
    on stderr by then."""

    def run(*words, **config):
        with serving() as silent:
            for path in ("status", "nodes"):
                silent.on("GET", f"/clusters/demo/{path}", Answer(fault="silence"))
            path = tmp_path / "autoscale.json"
            retry = {"timeout": 1.1, "retry": {"attempts": 2}}
            user = {"url": silent.url, "username": "me", "password": "secret"}
            path.write_text(json.dumps({"cluster_name": "demo", **user, **retry, **config}))
            path.chmod(0o600)
            line = ["autoscale", "-c", str(path), "--interval", "60", *words]
            process = subprocess.Popen(
                [sys.executable, "-m", "hpc.autoscale.cli", *line],
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env={**os.environ, "AUTOSCALE_HOME": str(tmp_path)},
            )
            written = []
            for each in process.stderr:
                written.append(each.rstrip("\n"))
                if "next pass in" in each or '"failed"' in each:
                    break
            process.send_signal(signal.SIGTERM)
            return [*written, *process.communicate(timeout=60)[1].splitlines()]

    return run


@pytest.mark.parametrize("logging", [None, SHIPPED])
def test_a_pass_that_fails_is_told_once(failing_loop, logging):
    """With the time; before that for whom the loop waits, where that takes long."""
    written = failing_loop(**({"logging": logging} if logging else {}))
    assert all(map(TIMED.match, written)), written
    assert sum("next pass in" in line for line in written) == 1
    waits = [line for line in written if "(waited " in line]
    assert [line.rpartition("; ")[2] for line in waits] == ["try 1 of 2)", "try 2 of 2)"]
    notes = [line for line in written if line not in waits and "next pass in" not in line]
    assert all("no driver is configured" in line for line in notes)


def test_json_is_all_that_is_written(failing_loop):
    """Also while the loop waits for a server."""
    events = [json.loads(line)["event"] for line in failing_loop("--log-format", "json")]
    assert events[-1] == "failed"
    assert set(events[:-1]) == {"note"}
    assert len(events) >= 3


@pytest.mark.parametrize("words", [["--interval", "60"], []], ids=["loop", "one pass"])
def test_who_is_told_to_stop_does_not_wait_for_a_server(tmp_path, words):
    """That asks for a pause of most of a minute: the pass ends and says why, whatever the pause."""
    with serving() as busy:
        for path in ("status", "nodes"):
            pause = Answer(503, {"Message": "upgrading"}, {"Retry-After": "55"})
            busy.on("GET", f"/clusters/demo/{path}", pause)
        path = tmp_path / "autoscale.json"
        user = {"url": busy.url, "username": "me", "password": "secret"}
        path.write_text(json.dumps({"cluster_name": "demo", **user}))
        path.chmod(0o600)
        process = subprocess.Popen(
            [sys.executable, "-m", "hpc.autoscale.cli", "autoscale", "-c", str(path), *words],
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "AUTOSCALE_HOME": str(tmp_path)},
        )
        until = time.monotonic() + 60
        while not busy.requests and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=40)[1]
    assert len(busy.requests) == 1
    assert "the server asks to wait 55 s; told to stop, this pass ends" in told
    assert process.returncode == (0 if words else 1)
