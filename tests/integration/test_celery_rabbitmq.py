"""The Celery example with a RabbitMQ that takes nothing: one is started, where it is installed."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("celery")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "example-celery"))

from celery import Celery

import messages
from demo_kit.broker import RABBITMQ, start_broker
from demo_kit.processes import Processes
from workers import WorkerRegistry

pytestmark = pytest.mark.skipif(
    not Path(RABBITMQ).exists(), reason=f"RabbitMQ is not installed: there is no {RABBITMQ}"
)


def test_a_broker_that_takes_nothing_is_no_silence_of_workers(tmp_path, monkeypatch):
    """RabbitMQ takes no message while memory or disk run short: neither the census nor an answer
    to it arrives. That is an error of the pass; nodes with silent workers are given up."""
    limit = tmp_path / "rabbitmq.conf"
    limit.write_text("vm_memory_high_watermark.absolute = 1\n")
    monkeypatch.setenv("RABBITMQ_CONFIG_FILE", str(limit))
    monkeypatch.setitem(messages._TRANSPORT_OPTIONS, "amqp", {"read_timeout": 1})
    processes = Processes(tmp_path / "logs")
    try:
        broker = start_broker("amqp", tmp_path, processes)
        with Celery(broker=broker.url) as app:
            with messages.connected(app) as connection:
                assert messages.depths(connection, ["default"]) == {"default": 0}
            registry = WorkerRegistry(app, answer_time=0.1)
            with (
                pytest.raises(messages.BrokerError, match="no answer in time"),
                messages.connected(app) as connection,
            ):
                registry.call(connection)
                messages.depths(connection, ["default"])
    finally:
        processes.stop_all()
