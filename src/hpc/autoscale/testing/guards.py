"""Taking a guard out of the gate, to see that a test notices. For tests and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hpc.autoscale.errors import AutoscaleError, did_you_mean
from hpc.autoscale.node.guards import GUARDS


@contextmanager
def without_guard(name: str) -> Iterator[None]:
    """A context in which one guard of `hpc.autoscale.node.guards` is not asked, in the whole
    process. AutoscaleError for a name that no guard has."""
    if name not in GUARDS:
        raise AutoscaleError(f"there is no guard {name!r}{did_you_mean(name, GUARDS)}")
    before = dict(GUARDS)
    del GUARDS[name]
    try:
        yield
    finally:
        GUARDS.clear()
        GUARDS.update(before)
