"""Making a failing day short: entries of its script are left out, one after the other, for as long
as the same invariant still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from simulation.day import Report, run_day
from simulation.script import Script, Trouble, Work

Run = Callable[[Script], Report]


def shrink(script: Script, invariant: str, run: Run = run_day, most_runs: int = 400) -> Script:
    """The shortest script found that fails in the same way, in at most so many days."""
    left = most_runs

    def fails(candidate: Script) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and run(candidate).invariant == invariant

    before: Script | None = None
    while before != script and left > 0:
        before = script
        script = _with_fewer(script, "troubles", fails)
        script = _with_fewer(script, "works", fails)
    return script


def _with_fewer(script: Script, name: str, fails: Callable[[Script], bool]) -> Script:
    """Leave out half of the entries, then quarters, at last single ones, while it still fails."""
    size = max(1, len(getattr(script, name)) // 2)
    while size:
        start = 0
        while start < len(entries := getattr(script, name)):
            changes: dict[str, Any] = {name: entries[:start] + entries[start + size :]}
            fewer = replace(script, **changes)
            if fails(fewer):
                script = fewer
            else:
                start += size
        size //= 2
    return script


def written(script: Script) -> str:
    """A script as Python, to be run again or to become a test."""
    lines = ["Script(", f"    seed={script.seed},", f"    shape={script.shape!r},"]
    for name, entries in (("works", script.works), ("troubles", script.troubles)):
        lines.append(f"    {name}=(")
        lines += [f"        {_entry(entry)}," for entry in entries]
        lines.append("    ),")
    return "\n".join([*lines, ")"])


def _entry(entry: Work | Trouble) -> str:
    """An entry without what is as usual."""
    said = []
    for each in fields(entry):
        value: Any = getattr(entry, each.name)
        if value != each.default:
            shown = f"{value:.4f}".rstrip("0") if isinstance(value, float) else repr(value)
            said.append(f"{each.name}={shown}")
    return f"{type(entry).__name__}({', '.join(said)})"
