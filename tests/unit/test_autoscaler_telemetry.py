"""OpenTelemetry spans of passes: which there are, what they say, and that they cost no pass."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders.fake_scheduler import (
    FakeScheduler,
    RunPass,
    cluster,
    idle_cluster,
    now,
    raising,
    run,
    scheduler,
)
from hpc.autoscale.autoscaler import telemetry
from hpc.autoscale.autoscaler.steps import STEPS
from hpc.autoscale.autoscaler.telemetry import Telemetry, is_wanted
from hpc.autoscale.ccbindings.errors import Throttled
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.clock import MockClock
from hpc.autoscale.testing import a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures

trace = pytest.importorskip("opentelemetry.trace", reason="needs the extra otel")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
export = pytest.importorskip("opentelemetry.sdk.trace.export")

PREFIX = "hpc_autoscale."
Spans = Callable[[], dict[str, Any]]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """The spans that were ended since the last call, by name without prefix; a program has set up
    OpenTelemetry."""
    kept = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    def ended() -> dict[str, Any]:
        found = {span.name.removeprefix(PREFIX): span for span in kept.get_finished_spans()}
        kept.clear()
        return found

    return ended


def said(span: Any) -> dict[str, Any]:
    """The attributes of a span, without prefix."""
    return {name.removeprefix(PREFIX): value for name, value in span.attributes.items()}


def test_a_pass_has_a_span_with_one_for_each_step(
    run: RunPass, cluster: MockClusterBinding, scheduler: FakeScheduler, spans: Spans
) -> None:
    """Below it, one after the other, each with what was counted."""
    scheduler.jobs = [a_job("7", tasks=8), a_job("8", tasks=4000)]
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    run(journal=False)
    found = spans()
    steps = [name for name in found if name != "pass"]
    assert steps[:5] == ["read", "failed", "limits", "check", "match"]
    assert set(steps) < set(STEPS)
    root = found["pass"]
    assert {span.parent.span_id for name, span in found.items() if name != "pass"} == {
        root.context.span_id
    }
    ordered = sorted((found[name] for name in steps), key=lambda span: span.start_time)
    assert all(a.end_time <= b.start_time for a, b in itertools.pairwise(ordered))
    assert said(found["read"]) == {"jobs": 2, "hosts": 0}
    assert said(found["limits"])["nodes"] == 1 and said(found["limits"])["buckets"] > 0
    created = said(found["create"])["created"]
    assert created > 0 and said(found["match"]) == {
        "unsatisfied": 1,
        "set_aside": 0,
        "wanted": created,
    }
    assert said(found["join"]) == {"undrained": 0, "joined": 1}
    about = said(root)
    assert (about["cluster"], about["jobs"], about["created"]) == ("clusty", 2, created)
    assert about["errors"] == 0 and not root.events and root.status.is_ok | root.status.is_unset


def test_nodes_that_go_have_their_steps(
    run: RunPass, cluster: MockClusterBinding, now: MockClock, spans: Spans
) -> None:
    """Idle, drained, looked at again, deleted."""
    idle_cluster(cluster, run, now)
    spans()
    run()
    found = spans()
    told = {name: said(found[name]) for name in ("idle", "drain", "read_again", "delete")}
    assert told["idle"]["idle"] == told["drain"]["drained"] == told["delete"]["deleted"] > 0
    assert told["read_again"] == {"spared": 0}


def test_errors_are_on_the_step_in_which_they_happened(
    run: RunPass, cluster: MockClusterBinding, scheduler: FakeScheduler, spans: Spans
) -> None:
    """And on the pass; without a secret, and without a stack."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.failing["add_nodes_to_cluster"] = ValueError("no hosts for geheim-77")
    run(password="geheim-77", cyclecloud={"config": {"password": "geheim-77"}})
    found = spans()
    (event,) = found["join"].events
    assert event.name == "exception"
    hook = "FakeScheduler(fake).add_nodes_to_cluster"
    said_there = f"joining nodes: {hook}: ValueError: no hosts for ***"
    assert event.attributes["exception.message"] == said_there
    assert "exception.stacktrace" not in event.attributes
    assert not found["join"].status.is_ok and not found["read"].events
    assert said(found["pass"])["errors"] == 1 and len(found["pass"].events) == 1
    every = [(span.attributes, span.status.description) for span in found.values()]
    assert "geheim-77" not in repr(every)


def test_a_pass_that_cannot_look_ends_with_its_error(
    run: RunPass,
    cluster: MockClusterBinding,
    spans: Spans,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """On the step that it ended in, and on the pass."""
    error = Throttled("http://x", 429, "slow down", 7.0, "wait")
    monkeypatch.setattr(cluster, "get_nodes", raising(error))
    with pytest.raises(Throttled):
        run(metrics={"health_file": str(tmp_path / "health.json")})
    found = spans()
    for name in ("limits", "pass"):
        (event,) = found[name].events
        assert event.attributes["exception.type"] == "Throttled"
        assert "slow down" in found[name].status.description
    assert "match" not in found and "state" in found


def test_a_dry_run_has_none(run: RunPass, spans: Spans) -> None:
    """It is no pass that did anything."""
    run(dry_run=True)
    assert spans() == {}


def test_spans_of_a_pass_lie_in_those_of_the_program(run: RunPass, spans: Spans) -> None:
    """The one that the caller is in."""
    with trace.get_tracer_provider().get_tracer("mine").start_as_current_span("mine") as mine:
        run()
    assert spans()["pass"].parent.span_id == mine.get_span_context().span_id


def test_what_fails_with_spans_fails_no_pass(
    run: RunPass, spans: Spans, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The pass notes it, and the log has it."""
    monkeypatch.setattr(sdk.Span, "set_attribute", raising(RuntimeError("no room")))
    found = run()
    assert (found.ok, found.notes) == (True, ("no traces of passes: no room",))
    assert "no traces of passes: no room" in caplog.text
    spans()
    broken = trace.get_tracer_provider()
    monkeypatch.setattr(broken, "get_tracer", raising(RuntimeError("no tracer")))
    assert run().notes == ("no traces of passes: no tracer",) and spans() == {}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_who_wants_spans(environ: dict[str, str], wanted: bool) -> None:
    """As OpenTelemetry's own variables say."""
    assert is_wanted(environ) == wanted


def made(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> Any:
    """The provider that an environment asks for; it is not set for the process."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found: list[Any] = []
    monkeypatch.setattr(trace, "set_tracer_provider", found.append)
    with Telemetry(environ).of_pass({"cluster_name": "c"}, "fake"):
        pass
    for each in found:
        each.shutdown()
    return found[0] if found else None


def test_the_environment_names_service_and_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like any program's; without a name it is hpc-autoscale."""
    provider = made(monkeypatch, {"OTEL_TRACES_EXPORTER": "console"})
    assert provider.resource.attributes["service.name"] == "hpc-autoscale"
    named = {"OTEL_TRACES_EXPORTER": "console", "OTEL_SERVICE_NAME": "mine"}
    assert made(monkeypatch, named).resource.attributes["service.name"] == "mine"


def test_an_exporter_that_is_not_there_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and no pass fails."""
    known = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "odd"}
    assert made(monkeypatch, known) is None
    assert "expected an exporter that is installed" in caplog.text and "odd" in caplog.text


def test_without_opentelemetry_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    one = Telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"})
    for _ in range(2):
        with one.of_pass({}, "fake") as found:
            assert found is None
    assert caplog.text.count("pip install 'hpc-autoscale[otel]'") == 1


def test_nothing_is_imported_where_nobody_wants_spans() -> None:
    """The package may be installed for others."""
    program = (
        "import os, sys\n"
        "os.environ = {k: v for k, v in os.environ.items() if not k.startswith('OTEL_')}\n"
        "from hpc.autoscale.autoscaler.telemetry import Telemetry\n"
        "with Telemetry().of_pass({}, 'fake') as found: pass\n"
        "import hpc.autoscale.autoscaler.loop\n"
        "assert found is None and not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_names_begin_alike() -> None:
    """As the documents say."""
    assert f"{telemetry.NAME}." == PREFIX
