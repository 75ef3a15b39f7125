"""How often Python's cyclic garbage collector runs during a pass, and in the process of `azscale`.

A pass makes tens of thousands of objects, and the collector looks at all objects of the process
again whenever their number has grown by a quarter. What a pass makes is kept, so nothing is found;
in a large pass this took a third of the time. Called around whole passes and large parts of them;
and by `azscale` around its imports and at its end, as the process is its own.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_OBJECTS_BETWEEN = 100_000
"""How many containers may be new before the collector runs; what custom constraints leave behind
stays below that."""

_IN_PASSES = (20_000, 2)
"""Around whole passes: how many containers may be new before the collector runs, and how many
collections of one generation come before one of the next older. A pass over 5,000 nodes makes
95,000 containers. With two and not ten, a process that makes one pass after another does not keep
what ten of them have left."""

_lock = Lock()
_inside = 0
_found: tuple[int, int, int] = gc.get_threshold()
_set: tuple[int, int, int] = _found


@contextmanager
def collecting_seldom(objects: int = _OBJECTS_BETWEEN, older: int | None = None) -> Iterator[None]:
    """Let the collector run less often, in the whole process, until the end of the block: when so
    many containers are new. `older`: how many collections of one generation come before one of the
    next older; None for as many as before. Of blocks inside each other the outermost says so.

    May be entered by several threads at once; the last one to leave puts back what the first one
    found. Where the host has turned the collector off, made it run less often still, or sets it
    meanwhile, its own setting stays.
    """
    _enter(objects, older)
    try:
        yield
    finally:
        _leave()


@contextmanager
def passing() -> Iterator[None]:
    """`collecting_seldom` around whole passes."""
    with collecting_seldom(*_IN_PASSES):
        yield


def _enter(objects: int, older: int | None) -> None:
    global _inside, _found, _set
    with _lock:
        if not _inside:
            _found = gc.get_threshold()
            _set = (objects, *(_found[1:] if older is None else (older, older)))
            if 0 < _found[0] < objects:
                gc.set_threshold(*_set)
        _inside += 1


def _leave() -> None:
    global _inside
    is_ours = _inside == 1 and gc.get_threshold() == _set
    since = gc.get_count()
    if is_ours and gc.isenabled() and since[0] > _found[0]:
        # with the old threshold the next object would set off whatever is due, older generations
        # among it; and small passes set off nothing inside, so what is due of older ones is done
        # here, or it would never be
        gc.collect(max(age for age in range(3) if not age or since[age] > _set[age]))
    with _lock:
        _inside -= 1
        if not _inside and gc.get_threshold() == _set:
            gc.set_threshold(*_found)


@contextmanager
def importing() -> Iterator[None]:
    """Around what a program imports at its start: nothing is collected meanwhile, and what there is
    then, which stays to the end, is never looked at."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


def end_of_process() -> None:
    """Before a process ends: what there is goes with it, and Python need not look through it for
    cycles first."""
    gc.freeze()
