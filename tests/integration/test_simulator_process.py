"""The simulator as a program: its one line, its files, its end, and one line for whatever keeps it
from starting."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
import requests

DESCRIPTION = {
    "clusters": {
        "c1": {
            "region": "westus2",
            "nodearrays": {
                "htc": {
                    "machine_types": ["Standard_F2s_v2"],
                    "machine": {"command": ["sleep", "600"], "grace": 5},
                }
            },
        }
    },
    "lifecycle": {"allocation": 0, "acquiring": 0, "preparing": 0, "terminating": 0},
}
PROGRAM = [sys.executable, "-m", "hpc.autoscale.simulator"]


@pytest.fixture
def clusters(tmp_path):
    """A description on disk."""
    path = tmp_path / "clusters.json"
    path.write_text(json.dumps(DESCRIPTION))
    return path


@pytest.fixture
def start(clusters, tmp_path):
    """Start simulators; they are ended with the test."""
    started = []

    def run(*options):
        process = subprocess.Popen(
            [*PROGRAM, str(clusters), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield run
    for process in started:
        process.terminate()
        process.communicate()


def boot_one(url, auth):
    """A node with its machine; the pid of that."""
    body = {"sets": [{"nodearray": "htc", "count": 1}]}
    requests.post(f"{url}/clusters/c1/nodes/create", json=body, auth=auth, timeout=10)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        reply = requests.get(f"{url}/simulator/machines", auth=auth, timeout=10).json()
        if reply["machines"] and reply["machines"][0]["ready"]:
            return reply["machines"][0]["pid"]
        time.sleep(0.02)
    raise AssertionError("no machine came up")


def wait_until_gone(pid):
    """Until a process has ended, if it has not ended yet."""
    deadline = time.monotonic() + 30
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_cleanly_when_told_to(start, tmp_path, number):
    """URL on standard output and in the ready file; code 0, no machine left, the journal
    complete."""
    ready, journal = tmp_path / "ready.json", tmp_path / "journal.jsonl"
    credentials = tmp_path / "credentials.json"
    credentials.write_text('{"username": "u", "password": "p"}')
    options = ["--credentials", credentials, "--journal", journal, "--ready-file", ready]
    process, url = start(*map(str, options), "--work-dir", str(tmp_path / "machines"))
    assert json.loads(ready.read_text()) == {"url": url, "pid": process.pid}
    pid = boot_one(url, ("u", "p"))
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")
    assert not psutil.pid_exists(pid)
    assert not ready.exists()
    events = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
    assert (events[0], events[-1]) == ("server_started", "server_stopped")
    assert {"created", "ready", "machine_gone"} <= set(events)


def test_machines_end_with_it_when_it_is_killed(start, tmp_path):
    """SIGKILL gives it no chance to do anything."""
    machines = str(tmp_path / "machines")
    process, url = start("--username", "u", "--password", "p", "--work-dir", machines)
    pid = boot_one(url, ("u", "p"))
    process.kill()
    process.wait()
    wait_until_gone(pid)


def test_without_a_password_it_makes_one(start):
    """Printed to standard error, never the same."""
    passwords = []
    for _ in range(2):
        process, url = start()
        words = process.stderr.readline().split()
        assert words[:3] == ["user", "simulator,", "password"]
        auth = ("simulator", words[3])
        assert requests.get(f"{url}/simulator/clock", auth=auth, timeout=10).status_code == 200
        passwords.append(words[3])
    assert passwords[0] != passwords[1]
    # so that one can follow `--password` on a command line, whatever it begins with
    assert all(password.isalnum() for password in passwords)


def test_clock_speed_and_seed_are_options(start):
    """The same seed, the same ids."""
    ids = []
    for _ in range(2):
        options = ["--username", "u", "--password", "p", "--clock", "driven", "--seed", "7"]
        _, url = start(*options)
        body = {"sets": [{"nodearray": "htc", "count": 1}]}
        create = f"{url}/clusters/c1/nodes/create"
        ids.append(requests.post(create, json=body, auth=("u", "p"), timeout=10).json())
        clock = requests.get(f"{url}/simulator/clock", auth=("u", "p"), timeout=10).json()
        assert clock["driven"] is True
    assert ids[0] == ids[1]


def failure(*arguments, cwd=None):
    """The one line that a start fails with."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60, cwd=cwd
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()


def test_what_is_wrong_is_one_line_and_exit_code_2(clusters, tmp_path):
    """The description, the address, files and options."""
    (tmp_path / "typo.json").write_text('{"cluster": {}}')
    (tmp_path / "user.json").write_text('{"user": "u"}')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cases = [
            ([tmp_path / "none.json"], "none.json: No such file or directory"),
            ([tmp_path / "typo.json"], "did you mean 'clusters'?"),
            (
                [clusters, "--port", port],
                f"cannot listen on 127.0.0.1 port {port}: Address already in use",
            ),
            ([clusters, "--port", 99999], "cannot listen on 127.0.0.1 port 99999"),
            ([clusters, "--host", "203.0.113.1"], "cannot listen on 203.0.113.1"),
            ([clusters, "--credentials", tmp_path / "user.json"], "credentials.user: unknown key"),
            ([clusters, "--tls-cert", clusters], "--tls-cert and --tls-key together"),
            ([clusters, "--tls-cert", clusters, "--tls-key", clusters], "TLS certificate"),
            ([clusters, "--journal", tmp_path], "Is a directory"),
            ([clusters, "--work-dir", clusters], "work directory"),
            ([clusters, "--ready-file", tmp_path / "no" / "x"], "ready file"),
        ]
        for arguments, said in cases:
            lines = failure(*arguments)
            assert len(lines) == 1, lines
            assert lines[0].startswith("error: ") and said in lines[0], lines
            assert "while attempting" not in lines[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected CLUSTERS.json (what to simulate), found none"),
        (
            ["x.json", "--speed", "0"],
            "--speed: expected a number above 0, at most 1000000, found '0'",
        ),
        (["x.json", "--speed", "fast"], "at most 1000000, found 'fast'"),
        (["x.json", "--port", "http"], "--port: expected a whole number, found 'http'"),
        (["x.json", "--sped", "2"], "there is no option '--sped'; did you mean '--speed'?"),
    ],
)
def test_wrong_options_are_one_line_as_those_of_azscale(arguments, said):
    """What was expected, what was found, and the likely typo."""
    (line,) = failure(*arguments)
    assert line.startswith("python -m hpc.autoscale.simulator: error: ")
    assert line.endswith(said)


def test_importing_the_package_needs_no_http_library():
    """The server is imported when one starts."""
    program = "import sys, hpc.autoscale.simulator; sys.exit('werkzeug' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_the_extra_it_says_what_to_install(clusters, tmp_path):
    """One line that can be typed."""
    (tmp_path / "werkzeug.py").write_text("raise ModuleNotFoundError(name='werkzeug')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [*PROGRAM, str(clusters)], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 2
    assert "pip install 'hpc-autoscale[simulator]'" in done.stderr
