"""What takes long to build is built once, for all processes that run tests at the same time."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """A directory that `build` has filled, in whichever process asked first; the others wait.

    Nobody may change what is in it. A build that fails is tried again by the next one that asks.
    """
    base = factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (common / f"{name}.built").open("a+", encoding="utf-8") as built:
        fcntl.flock(built, fcntl.LOCK_EX)
        built.seek(0)
        place = built.read()
        if not place:
            directory = factory.mktemp(name)
            build(directory)
            place = str(directory)
            built.write(place)
    return Path(place)
