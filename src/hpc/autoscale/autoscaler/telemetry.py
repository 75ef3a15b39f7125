"""OpenTelemetry traces: a span for each real pass, with one for each of its steps.

It is configured as OpenTelemetry is, by the variables of the environment that its SDK reads, or by
the program that embeds this library. Where neither is so, nothing is imported. What goes wrong
here fails no pass: it is for the notes of the pass, and the log has it once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale._version import __version__
from hpc.autoscale.autoscaler.steps import Ended
from hpc.autoscale.autoscaler.summary import PassError, PassSummary
from hpc.autoscale.config.clusters import names_of
from hpc.autoscale.config.secrets import known_secrets
from hpc.autoscale.errors import one_line
from hpc.autoscale.redaction import Hiding

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

NAME = "hpc_autoscale"
"""What names of spans and of attributes begin with."""

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER = "OTEL_TRACES_EXPORTER"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
OFF: Mapping[str, str] = MappingProxyType({"OTEL_SDK_DISABLED": "true"})
"""An environment in which nobody wants spans."""

SAID_OF_A_PASS = (
    *("jobs", "unsatisfied", "set_aside", "requested", "created", "started", "joined"),
    *("booting", "overdue", "missing", "idle", "drained", "failed", "spared", "deleted"),
    *("refused", "errors"),
)
"""What is counted of a whole pass, as in `PassSummary`."""


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether somebody wants spans: by the environment, or because a program has set up
    OpenTelemetry."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environ.get(EXPORTER, "").strip()
    if exporter:
        return exporter != "none"
    if any(environ.get(name, "").strip() for name in ENDPOINTS):
        return True
    trace = sys.modules.get("opentelemetry.trace")
    return trace is not None and not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )


class Telemetry:
    """The spans of the passes of one loop. `problem`: why there are none of the last pass, or not
    all; empty where nothing is wrong."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self.problem = ""

    @contextmanager
    def of_pass(self, config: Mapping[str, Any], scheduler: str) -> Iterator[PassSpans | None]:
        """While a pass is made: what makes its spans; None where nobody wants any."""
        spans = self._begun(config, scheduler) if is_wanted(self._environ) else None
        if spans is None:
            yield None
            return
        try:
            yield spans
        except BaseException as error:
            self._say(spans.end(None, error))
            raise
        self._say(spans.end(spans.summary, None))

    def _begun(self, config: Mapping[str, Any], scheduler: str) -> PassSpans | None:
        try:
            from opentelemetry import trace

            provider = trace.get_tracer_provider()
            if isinstance(provider, trace.ProxyTracerProvider):
                provider = _provider(self._environ)
                # others of this process find it there, instead of making another one
                trace.set_tracer_provider(provider)
            tracer = provider.get_tracer("hpc.autoscale", __version__)
            return PassSpans(tracer, config, scheduler)
        except ModuleNotFoundError as error:
            self._say(
                f"the environment asks for OpenTelemetry, and {error.name} is not installed:"
                " pip install 'hpc-autoscale[otel]'"
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the pass goes on
            self._say(one_line(error))
        return None

    def _say(self, problem: str) -> None:
        said = problem and f"no traces of passes: {problem}"
        if said and said != self.problem:
            logging.warning("%s", said)
        self.problem = said


class PassSpans:
    """The spans of one pass. `begun` is for `PassSteps`. `summary`: what came of the pass, once
    that is known."""

    def __init__(self, tracer: Tracer, config: Mapping[str, Any], scheduler: str) -> None:
        self._tracer = tracer
        self._hiding = Hiding(*known_secrets(config))
        self._problem = ""
        self.summary: PassSummary | None = None
        about = {"cluster": names_of(config), "scheduler": scheduler}
        self._around = tracer.start_as_current_span(
            f"{NAME}.pass", attributes={f"{NAME}.{k}": self._hiding(v) for k, v in about.items()}
        )
        self._span: Span = self._around.__enter__()

    def begun(self, name: str) -> Ended:
        """Begin the span of a step; what ends it."""
        try:
            around = self._tracer.start_as_current_span(f"{NAME}.{name}")
            span = around.__enter__()
        except Exception as error:  # noqa: BLE001 - whatever it is, the pass goes on
            self._problem = self._problem or one_line(error)
            return lambda counts, errors, raised: None

        def ended(
            counts: Mapping[str, int], errors: Sequence[PassError], raised: BaseException | None
        ) -> None:
            self._apart(lambda: self._tell(span, counts, errors, raised))
            self._apart(lambda: around.__exit__(None, None, None))

        return ended

    def end(self, summary: PassSummary | None, raised: BaseException | None) -> str:
        """End the span of the pass; why there are not all spans of it, or nothing."""
        if summary is None:
            self._apart(lambda: self._tell(self._span, {}, (), raised))
        else:
            counts = {
                name: value if isinstance(value, int) else len(value)
                for name in SAID_OF_A_PASS
                for value in (getattr(summary, name),)
            }
            self._apart(lambda: self._tell(self._span, counts, summary.errors, None))
        self._apart(lambda: self._around.__exit__(None, None, None))
        return self._problem

    def _apart(self, tell: Callable[[], object]) -> None:
        """Let what fails here be no matter of the pass."""
        try:
            tell()
        except Exception as error:  # noqa: BLE001 - see above
            self._problem = self._problem or one_line(error)

    def _tell(
        self,
        span: Span,
        counts: Mapping[str, int],
        errors: Sequence[PassError],
        raised: BaseException | None,
    ) -> None:
        from opentelemetry.trace import Status, StatusCode

        for name, count in counts.items():
            span.set_attribute(f"{NAME}.{name}", count)
        said = [("PassError", str(error)) for error in errors]
        if raised is not None:
            said.append((type(raised).__qualname__, one_line(raised)))
        for kind, text in said:
            # not by record_exception, which adds the stack and whatever is in it
            about = {"exception.type": kind, "exception.message": self._hiding(text)}
            span.add_event("exception", about)
        if said:
            span.set_status(Status(StatusCode.ERROR, self._hiding(said[-1][1])))


def _provider(environ: Mapping[str, str]) -> TracerProvider:
    """What makes spans and sends them, as the environment says."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    found = Resource.create({"service.version": __version__})
    if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        found = found.merge(Resource({SERVICE_NAME: "hpc-autoscale"}))
    provider = SdkProvider(resource=found)
    for name in environ.get(EXPORTER, "").split(",") or ["otlp"]:
        exporter = _exporter(name.strip() or "otlp", environ)
        if exporter is not None:
            provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporter(name: str, environ: Mapping[str, str]) -> Any:
    """The exporter of a name, as OpenTelemetry's packages announce them; None for `none`.
    ValueError for one that is not installed."""
    from importlib.metadata import entry_points

    if name == "none":
        return None
    if name == "otlp":
        protocol = next(filter(None, map(environ.get, PROTOCOLS)), "http/protobuf")
        name = f"otlp_proto_{protocol.partition('/')[0]}"
    known = {each.name: each for each in entry_points(group="opentelemetry_traces_exporter")}
    with suppress(KeyError):
        return known[name].load()()
    raise ValueError(
        f"{EXPORTER}: expected an exporter that is installed ({', '.join(sorted(known))}),"
        f" found {name}"
    )
