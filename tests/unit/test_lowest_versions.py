"""The versions of other packages that the library says it runs with, and those of `make lowest`."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "lowest_versions.py"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = [text for each in PROJECT["optional-dependencies"].values() for text in each]
NEEDED = [Requirement(text) for text in [*PROJECT["dependencies"], *EXTRAS]]


def test_lower_bounds_alone() -> None:
    """Nothing is pinned, and what has none is said to go with any version."""
    bounds = {each.name: {b.operator for b in each.specifier} for each in NEEDED}
    unbounded = {name for name, operators in bounds.items() if not operators}
    assert unbounded == {"typing-extensions", "hpc-autoscale"}
    assert all(operators <= {">="} for operators in bounds.values())


def test_each_package_is_tried_with_its_lowest_version() -> None:
    """As pip reads it, one line for each."""
    done = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=True)
    pins = [Requirement(line) for line in done.stdout.splitlines()]
    wanted = {each.name: str(each.specifier) for each in NEEDED if each.specifier}
    assert {each.name: str(each.specifier).replace("==", ">=") for each in pins} == wanted
    assert len(pins) == len(wanted)


def test_two_bounds_of_one_package_are_an_error() -> None:
    """Nobody knows which of them is meant."""
    lowest = runpy.run_path(str(TOOL))["lowest"]
    project = {"dependencies": ["a>=1"], "optional-dependencies": {"more": ["a>=2"]}}
    with pytest.raises(SystemExit, match="a: two lower bounds, 1 and 2"):
        list(lowest(project))


def test_scripts_that_install_packages_on_clusters_have_the_same_bounds() -> None:
    """Of those that they name with one."""
    wanted = {str(each) for each in NEEDED}
    found = {
        text
        for directory in ("examples", "example-celery")
        for path in (ROOT / directory).rglob("cluster-init/scripts/*.sh")
        for text in re.findall(r'"([\w\[\]-]+>=[\d.]+)"', path.read_text(encoding="utf-8"))
    }
    assert found == {"celery[redis]>=5.6", "kombu>=5.7"} and found <= wanted
