"""The naive packer and the checker of plans know nothing of the library: what proves the engine
must not be made of it.

Imports are followed in the source through every file beside them, those inside of functions
included.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
LIBRARY = "hpc"
LOADERS = {"importlib", "runpy", "pkgutil", "__import__", "exec", "eval"}
PROOFS = [
    *sorted((TESTS / "builders").glob("oracle*.py")),
    *sorted((ROOT / "benchmarks").glob("check*.py")),
]


def imports_of(path):
    """Names of the modules that a file imports, wherever in it; a way around imports counts as
    one."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or "." * node.level
            if (TESTS / module / "__init__.py").exists():
                yield from (f"{module}.{alias.name}" for alias in node.names)
            else:
                yield module
        elif isinstance(node, ast.Name) and node.id in LOADERS:
            yield node.id


def files_of(name, beside):
    """Files that may be what a module is imported from: one in this directory, or one of a package
    of the tests."""
    parts = name.split(".")
    packages = [TESTS.joinpath(*parts[:end], "__init__.py") for end in range(1, len(parts))]
    files = [beside / f"{parts[0]}.py", *packages, TESTS.joinpath(*parts).with_suffix(".py")]
    return [file for file in files if file.exists()] if name.strip(".") else []


def ways_to_the_library(path):
    """Chains of files and modules from a file to the library."""
    seen, chains, found = set(), [(path,)], []
    while chains:
        chain = chains.pop()
        if chain[-1] in seen:
            continue
        seen.add(chain[-1])
        for name in imports_of(chain[-1]):
            top = name.partition(".")[0]
            if not top or top == LIBRARY or top in LOADERS:
                found.append(" > ".join([*(file.name for file in chain), name]))
            else:
                chains += [(*chain, file) for file in files_of(name, path.parent)]
    return found


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.name)
def test_proof_knows_nothing_of_the_library(path):
    """Neither `packing` nor anything else of it, by whatever way."""
    assert ways_to_the_library(path) == []


def test_there_is_something_to_prove_with():
    """Both the packer and the checker are looked at."""
    assert {"oracle.py", "oracle_reading.py", "oracle_world.py", "check_plan.py"} <= {
        path.name for path in PROOFS
    }


@pytest.mark.parametrize(
    ("planted", "way"),
    [
        ("import hpc.autoscale.packing.expr", "oracle.py > hpc.autoscale.packing.expr"),
        ("from hpc.autoscale.packing import packer", "oracle.py > hpc.autoscale.packing"),
        ("def late():\n    from hpc.autoscale import packing", "oracle.py > hpc.autoscale"),
        ("import helper", "oracle.py > helper.py > hpc.autoscale.node"),
        ("import importlib", "oracle.py > importlib"),
        ("x = __import__('hp' + 'c')", "oracle.py > __import__"),
        ("from . import packer", "oracle.py > ."),
    ],
)
def test_planted_import_is_found(tmp_path, planted, way):
    """At the top, inside of a function, through a file beside it, and by a way around imports."""
    (tmp_path / "helper.py").write_text("import helper\nimport hpc.autoscale.node\n")
    path = tmp_path / "oracle.py"
    path.write_text(f"import fractions\n{planted}\n")
    assert ways_to_the_library(path) == [way]


@pytest.mark.parametrize(
    "planted",
    ["from builders import nodes", "import builders.nodes", "from builders.nodes import a_node"],
)
def test_builder_that_knows_the_library_is_found(tmp_path, planted):
    """Whichever way a module of the same package is imported."""
    path = tmp_path / "oracle.py"
    path.write_text(planted + "\n")
    assert "oracle.py > nodes.py > hpc.autoscale.hpctypes" in ways_to_the_library(path)


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.name)
def test_proof_runs_without_the_library(path):
    """Imported by an interpreter of its own, it brings nothing of the library with it."""
    root = TESTS if path.is_relative_to(TESTS) else path.parent
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    code = f"import sys, {name}; sys.exit(any(m.split('.')[0] == 'hpc' for m in sys.modules))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
