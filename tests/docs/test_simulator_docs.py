"""docs/simulator.md and docs/lifecycle.md: the examples run, and everything that there is is in the
tables."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.simulator import handles, load_description, loading, serve
from hpc.autoscale.simulator.__main__ import parser
from hpc.autoscale.simulator.control import ENDPOINTS as CONTROLS
from hpc.autoscale.simulator.faults import KINDS
from hpc.autoscale.simulator.lifecycle import render_table
from hpc.autoscale.simulator.templating import PLACEHOLDERS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "simulator.md").read_text(encoding="utf-8")
EXAMPLES = {
    name: (code, printed)
    for name, code, printed in re.findall(
        r"<!-- example: (\w+) -->\n```\w+\n(.*?)```(?:\n\nprints\n\n```text\n(.*?)```)?",
        PAGE,
        re.DOTALL,
    )
}


def test_the_life_cycle_is_documented_as_it_is():
    """docs/lifecycle.md has the table that the simulator follows; `make docs` renders it."""
    assert render_table() in (DOCS / "lifecycle.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [DOCS / "examples" / "cluster.json", DOCS / "first-cluster.json"])
def test_the_example_descriptions_can_be_used(path):
    """Without a change."""
    assert load_description(path).clusters


@pytest.mark.parametrize("name", ["program", "faults"])
def test_the_programs_print_what_the_page_says(name, tmp_path):
    """As they stand."""
    program, printed = EXAMPLES[name]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_every_method_that_steers_is_on_the_page():
    """Of the simulator, its clock, its clusters and its faults."""
    kinds = (handles.Simulator, handles.ClockHandle, handles.ClusterHandle, handles.FaultsHandle)
    methods = {name for kind in kinds for name in vars(kind) if not name.startswith("_")}
    table = PAGE.split("| what steers it |")[1].split("\n\n")[0]
    missing = {name for name in methods if f".{name}(" not in PAGE.split("```text")[0] + table}
    assert missing == set()


def test_every_key_of_a_description_is_in_the_example():
    """And the example can be used, with the machine of the other one."""
    whole, machine = (json.loads(EXAMPLES[name][0]) for name in ("description", "machines"))
    cluster = whole["clusters"]["demo"]
    array = cluster["nodearrays"]["htc"]
    array["machine"] = machine["clusters"]["demo"]["nodearrays"]["htc"]["machine"]
    sizes = [size for size in array["machine_types"] if isinstance(size, dict)]
    assert set(whole) == set(loading._TOP_KEYS)
    assert set(cluster) == set(loading._CLUSTER_KEYS)
    assert set(array) == set(loading._NODEARRAY_KEYS)
    assert {key for size in sizes for key in size} == set(loading._MACHINE_TYPE_KEYS)
    assert set(array["machine"]) == set(loading._MACHINE_KEYS)
    assert set(whole["regions"]["westus2"]) == set(loading._REGION_KEYS)
    assert set(whole["lifecycle"]) == set(loading._LIFECYCLE_KEYS)
    assert load_description(whole).clusters["demo"].max_count == 100


@pytest.mark.parametrize("word", [*KINDS, *(f"{{{name}}}" for name in PLACEHOLDERS)])
def test_every_kind_of_fault_and_placeholder_is_explained(word):
    """In code, by name."""
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize(("verb", "path"), CONTROLS.values())
def test_every_control_endpoint_has_its_row(verb, path):
    """With its verb."""
    assert f"| `{verb} {path}` |" in PAGE


def test_machines_of_the_page_come_up():
    """The node is Ready when its process is."""
    with serve(json.loads(EXAMPLES["machines"][0]), clock="real") as simulator:
        manager = new_node_manager(simulator.connection("demo"))
        manager.allocate({"ncpus": 1}, node_count=1)
        manager.bootup()
        until = time.monotonic() + 30
        while [n["Status"] for n in simulator.cluster("demo").nodes()] != ["Ready"]:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert len(simulator.machines()) == 1


def test_the_options_of_the_page_are_there():
    """Every --option that the page names."""
    known = {word for action in parser()._actions for word in action.option_strings}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")
def test_the_calls_by_hand(tmp_path):
    """Every curl of the page is answered with JSON, by a server on another port."""
    with serve(DOCS / "examples" / "cluster.json", username="me", password="secret") as simulator:
        for line in (
            EXAMPLES["server"][0].replace("http://127.0.0.1:8080", simulator.url).splitlines()
        ):
            done = subprocess.run(
                ["bash", "-c", line.replace("-s ", "-sf ", 1)],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, line
            assert json.loads(done.stdout), line
