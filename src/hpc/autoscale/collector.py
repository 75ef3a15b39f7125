"""How often Python's cyclic garbage collector runs during a pass.

A pass makes tens of thousands of objects, and the collector looks at all objects of the process
again whenever their number has grown by a quarter. What a pass makes is kept, so nothing is found;
in a large pass this took a third of the time. Called around whole passes only.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_OBJECTS_BETWEEN = 100_000
"""How many containers may be new before the collector runs; what custom constraints leave behind
stays below that."""

_lock = Lock()
_inside = 0
_between = _OBJECTS_BETWEEN
_found: tuple[int, int, int] = gc.get_threshold()


@contextmanager
def collecting_seldom(objects: int = _OBJECTS_BETWEEN) -> Iterator[None]:
    """Let the collector run less often, in the whole process, until the end of the block: when so
    many containers are new. Of blocks inside each other the outermost says how many.

    May be entered by several threads at once; the last one to leave puts back what the first one
    found. Where the host has turned the collector off, made it run less often still, or sets it
    meanwhile, its own setting stays.
    """
    _enter(objects)
    try:
        yield
    finally:
        _leave()


def _enter(objects: int) -> None:
    global _inside, _found, _between
    with _lock:
        if not _inside:
            _found, _between = gc.get_threshold(), objects
            if 0 < _found[0] < _between:
                gc.set_threshold(_between, *_found[1:])
        _inside += 1


def _leave() -> None:
    global _inside
    is_ours = _inside == 1 and gc.get_threshold()[0] == _between
    if is_ours and gc.isenabled() and gc.get_count()[0] > _found[0]:
        # with the old threshold the next object would set off whatever is due, older generations
        # among it
        gc.collect(0)
    with _lock:
        _inside -= 1
        if not _inside and gc.get_threshold() == (_between, *_found[1:]):
            gc.set_threshold(*_found)
