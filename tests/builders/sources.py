"""The source of the library, parsed once for all tests that read it."""

import ast
import gc
from functools import cache
from pathlib import Path

import hpc.autoscale

ROOT = Path(hpc.autoscale.__file__).parent


@cache
def trees() -> dict[Path, ast.Module]:
    """Every file of the library, parsed. Nobody may change what this returns.

    These are a million objects, and Python's collector would look at them again and again until the
    last test.
    """
    gc.collect()
    parsed = {path: ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    gc.freeze()
    return parsed
