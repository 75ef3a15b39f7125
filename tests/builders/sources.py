"""The source of the library, parsed once for all tests that read it."""

import ast
from functools import cache
from pathlib import Path

import hpc.autoscale

ROOT = Path(hpc.autoscale.__file__).parent


@cache
def trees() -> dict[Path, ast.Module]:
    """Every file of the library, parsed. Nobody may change what this returns."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}
