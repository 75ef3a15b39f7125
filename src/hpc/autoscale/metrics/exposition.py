"""The text that Prometheus reads, version 0.0.4: families of samples with their labels.

Called by `families`, and by the queue. What is measured is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Metric:
    """A metric: its name, what it says, and its samples, each with its labels."""

    name: str
    meaning: str
    kind: Literal["gauge", "counter"] = "gauge"
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """One more sample."""
        self.samples.append((labels, value))


def text_of(families: Iterable[Metric]) -> str:
    """The text of families; those without samples say only what they are."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_meaning(family.meaning)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for labels, value in family.samples:
            lines.append(f"{family.name}{labels_of(labels)} {_number(value)}")
    return "\n".join(lines) + "\n"


def labels_of(labels: Mapping[str, str]) -> str:
    """Labels in braces; nothing where there are none."""
    pairs = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _meaning(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped(text: str) -> str:
    return _meaning(text).replace('"', '\\"')


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)
