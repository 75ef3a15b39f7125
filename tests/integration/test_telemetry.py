"""Spans of `azscale autoscale`, as a collector receives them over OTLP/HTTP."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hpc.autoscale.simulator import serve

SIZE = "Standard_F4s_v2"
DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        return [Job("7", {"ncpus": 4}), Job("8", {"ncpus": 4})], []
"""

received = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="needs the extra otel"
)


class Collector(ThreadingHTTPServer):
    """Receives spans; `requests` has the path and the message of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.requests: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> dict[str, Any]:
        """All spans that came, by name."""
        return {
            span.name: span
            for _, message in self.requests
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }


class Receiver(BaseHTTPRequestHandler):
    """Reads a request as the protocol has it."""

    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.headers["Content-Type"] == "application/x-protobuf"
        message = received.ExportTraceServiceRequest.FromString(body)
        self.server.requests.append((self.path, message))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(received.ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """The configuration of a site whose jobs want two nodes."""
    arrays = {"htc": {"machine_types": [SIZE]}}
    with serve({"clusters": {"demo": {"region": "westus2", "nodearrays": arrays}}}) as simulator:
        path = tmp_path / "autoscale.json"
        (tmp_path / "twojobs.py").write_text(DRIVER)
        own = {"driver": "twojobs:Driver"}
        path.write_text(json.dumps({**simulator.connection("demo"), **own}))
        path.chmod(0o600)
        yield path


def azscale(config: Path, command: str, *args: str, **environ: str) -> str:
    """Run a command in a process of its own; what it printed."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-m", "hpc.autoscale.cli", command, "-c", str(config), *args],
        env={
            **own,
            "AUTOSCALE_HOME": str(config.parent),
            "PYTHONPATH": str(config.parent),
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
        cwd=config.parent,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def values(span: Any) -> dict[str, Any]:
    """The attributes of a span, without prefix."""
    kinds = ("int_value", "string_value")
    return {
        each.key.removeprefix("hpc_autoscale."): getattr(each.value, each.value.WhichOneof("value"))
        for each in span.attributes
        if each.value.WhichOneof("value") in kinds
    }


def test_a_collector_receives_the_spans_of_a_pass(config: Path, collector: Collector) -> None:
    """At the path and with the names that the environment says; nothing in them is a secret."""
    azscale(
        config,
        "autoscale",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_SERVICE_NAME="autoscaler-of-demo",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test",
    )
    assert {path for path, _ in collector.requests} == {"/v1/traces"}
    found = collector.spans()
    root = found.pop("hpc_autoscale.pass")
    assert values(root)["cluster"] == "demo" and values(root)["created"] == 2
    assert {span.parent_span_id for span in found.values()} == {root.span_id}
    assert {span.trace_id for span in found.values()} == {root.trace_id}
    steps = {name.removeprefix("hpc_autoscale.") for name in found}
    assert {"read", "limits", "match", "join", "create", "history", "state"} <= steps
    assert values(found["hpc_autoscale.create"])["created"] == 2
    resource = collector.requests[0][1].resource_spans[0].resource
    about = {each.key: each.value.string_value for each in resource.attributes}
    assert about["service.name"] == "autoscaler-of-demo"
    assert about["deployment.environment"] == "test"
    password = json.loads(config.read_text())["password"]
    assert password not in str([message for _, message in collector.requests])


def test_a_collector_that_is_away_fails_no_pass(config: Path) -> None:
    """Nor does it hold one up for longer than its timeout."""
    said = azscale(
        config,
        "autoscale",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )
    assert "2 created" in said
