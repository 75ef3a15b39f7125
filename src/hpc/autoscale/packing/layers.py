"""Switches for what the engine has for speed alone, so that each can be measured by leaving it out.

A plan is the same with and without. `make bench BENCH_ARGS="--without LAYER"` sets them; nothing
else does. They are read when a planner is made, a constraint is compiled, or hosts are joined.
"""

from __future__ import annotations

LAYERS = {
    "one-slot": "a request for one slot is planned by its cursor, in few steps",
    "groups": "the placement group of a gang is found in an index of their rooms",
    "quick": "constraints of one resource each are compiled without constraint objects",
    "hosts": "what hosts say of nodes that are alike is worked out once",
}
"""The layers, with what each does."""

OFF: set[str] = set()
"""The layers that are left out; `leave_out` alone changes it."""


def leave_out(*layers: str) -> None:
    """Leave some layers out from now on, and use all others. KeyError for what is none."""
    unknown = [layer for layer in layers if layer not in LAYERS]
    if unknown:
        raise KeyError(f"expected some of {', '.join(LAYERS)}, found {', '.join(unknown)}")
    OFF.clear()
    OFF.update(layers)
