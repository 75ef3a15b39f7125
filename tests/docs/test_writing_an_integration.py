"""docs/writing-an-integration.md and its example: the page shows what the example is, and the
example keeps its promises."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from builders.memory_scheduler import MemoryDriver, MemoryWorld
from hpc.autoscale.config import check_config
from hpc.autoscale.job.job import Job
from hpc.autoscale.simulator import serve
from hpc.autoscale.testing import SchedulerWorld, SelfStartingWorld, on_stage
from hpc.autoscale.testing.conformance import DriverConformance
from hpc.autoscale.testing.stage import BOOT_TIMEOUT

pytest.importorskip("werkzeug")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "integration"
PAGE = (ROOT / "docs" / "writing-an-integration.md").read_text(encoding="utf-8")
CONFORMANCE = "tests/test_filequeue_conformance.py"


def blocks(marker):
    """The code blocks below an invisible marker, in order."""
    return re.findall(rf"<!-- {re.escape(marker)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)


def shown_files():
    """The files that the page shows, in whole or piece by piece."""
    return sorted(set(re.findall(r"<!-- file: (\S+) -->", PAGE)))


@pytest.fixture
def example(tmp_path):
    """A copy of the example, to be changed."""
    copy = tmp_path / "integration"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    return copy


def run(command, directory, **environment):
    """What a command in this directory prints, and its exit code."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout, done.returncode


def run_pytest(directory, *arguments):
    """The output and the exit code of pytest, as an author would run it."""
    return run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments], directory)


@pytest.mark.parametrize("name", shown_files())
def test_a_file_of_the_page_is_that_of_the_example(name):
    """Every line of it, in order; only empty lines between the pieces do not count."""
    shown = "".join(blocks(f"file: {name}")).splitlines()
    there = (EXAMPLE / name).read_text(encoding="utf-8").splitlines()
    assert list(filter(None, shown)) == list(filter(None, there))


def test_every_code_block_is_tested():
    """None is without a marker."""
    assert len(re.findall(r"^<!-- [\w: /.]+ -->\n```\w+$", PAGE, re.MULTILINE)) == len(
        re.findall(r"^```\w+$", PAGE, re.MULTILINE)
    )


def test_the_example_keeps_its_promises(example):
    """All its tests pass, and the page says how many of the checks there are."""
    output, code = run_pytest(example, "-v", "-rs")
    assert code == 0, output
    assert "this world cannot silence a host" in output
    ended = Counter(re.findall(rf"^{CONFORMANCE}::\S+ (PASSED|SKIPPED)", output, re.MULTILINE))
    (said,) = re.findall(r"^ {4}(\d+ passed, \d+ skipped)$", PAGE, re.MULTILINE)
    assert said == f"{ended['PASSED']} passed, {ended['SKIPPED']} skipped"


def test_a_check_that_fails_says_what_the_page_says(example):
    """The driver that the page breaks is caught by the check that the page names, in the words of
    the page."""
    (method,) = re.findall(r"<!-- broken: (\w+) -->", PAGE)
    (broken,) = blocks(f"broken: {method}")
    (check,) = re.findall(r"<!-- fails: (\w+) -->", PAGE)
    (said,) = blocks(f"fails: {check}")
    driver = example / "filequeue" / "driver.py"
    text = driver.read_text(encoding="utf-8")
    whole = re.compile(rf"    def {method}\(.*?(?=\n    def )", re.DOTALL)
    driver.write_text(whole.sub(lambda found: broken, text, count=1), encoding="utf-8")
    output, code = run_pytest(example, "-q", "-k", check, CONFORMANCE)
    assert code == 1
    assert f"::{check}" in output
    assert said.strip() in output


def test_the_configuration_of_the_example():
    """It is valid, and the driver it names is there."""
    config = json.loads((EXAMPLE / "autoscale.json").read_text(encoding="utf-8"))
    check_config(config)
    module, _, name = config["driver"].partition(":")
    assert f"class {name}(" in (EXAMPLE / f"{module.replace('.', '/')}.py").read_text()


def test_the_example_on_a_simulated_cluster(example):
    """As the page has it: two nodes are wanted and made, and let in by a later pass."""
    (commands,) = blocks("try")
    config = json.loads((example / "autoscale.json").read_text(encoding="utf-8"))
    with serve(
        ROOT / "docs" / "first-cluster.json", username="autoscaler", password="secret"
    ) as cloud:
        config.update(cluster_name="first", url=cloud.url, filequeue={"path": "queue.json"})
        (example / "autoscale.json").write_text(json.dumps(config), encoding="utf-8")
        output, code = run(["sh", "-e", "-c", commands], example)
        assert code == 0, output
        cloud.clock.settle()
        again = [
            line for line in commands.splitlines() if "export" in line or "autoscale -c" in line
        ]
        output, code = run(["sh", "-e", "-c", "\n".join(again)], example)
        assert code == 0, output
        nodes = {node["Hostname"]: node["NodeId"] for node in cloud.cluster("first").nodes()}
    hosts = json.loads((example / "queue.json").read_text(encoding="utf-8"))["hosts"]
    assert {name: host["node_id"] for name, host in hosts.items()} == nodes
    assert len(nodes) == 2


def test_every_part_of_a_world_is_on_the_page():
    """Methods and attributes, in the table."""
    table = PAGE.split("\n## Test it\n")[1].split("\n## ")[0]
    worlds = (SchedulerWorld, SelfStartingWorld)
    parts = {name for world in worlds for name in vars(world) if not name.startswith("_")}
    assert {name for name in parts if f"`{name}`" in table or f"`{name}(" in table} == parts


def test_what_a_world_around_a_real_scheduler_must_know_is_on_the_page(tmp_path):
    """Each check begins with the same host name, which such a scheduler may remember."""
    with on_stage(MemoryWorld(), tmp_path) as stage:
        (first,) = stage.grow(1)
    said = PAGE.split("\nA real scheduler takes its time")[1].split("\n## ")[0]
    assert f"begins with the host name `{first}`" in said


def test_a_line_for_grid_engine_has_no_comma(tmp_path):
    """`qalter -ac` takes one for the end of the value, and lines have some."""

    class TooLarge(MemoryDriver):
        def new_job(self, tasks):
            return Job("queue", {"ncpus": 5}, iterations=tasks)

    world = MemoryWorld(TooLarge)
    with on_stage(world, tmp_path) as stage:
        stage.submit(1)
        stage.run()
    assert "," in world.scheduler.comments["queue"]
    (row,) = re.findall(r"^\| Grid Engine \|.*", PAGE, re.MULTILINE)
    assert "a comma ends the value there" in row


class NotHeardYet(MemoryDriver):
    """No host is heard yet: its driver says that they are down."""

    def reported(self, hostname, entry):
        node = super().reported(hostname, entry)
        node.available["ncpus"] = 0
        return node


class LeavesOut(MemoryDriver):
    """The same, as the page has it."""

    def _read_jobs_and_nodes(self, config):
        jobs, _ = super()._read_jobs_and_nodes(config)
        return jobs, []

    def add_nodes_to_cluster(self, nodes, include_permanent=False):
        super().add_nodes_to_cluster(nodes)
        return []


@pytest.mark.parametrize(("driver_class", "second"), [(NotHeardYet, 1), (LeavesOut, 0)])
def test_a_host_that_is_not_heard_yet_is_left_out(driver_class, second, tmp_path):
    """As one that is down it makes a second node after two minutes; left out it does not, and after
    the boot timeout it is told of."""
    with on_stage(MemoryWorld(driver_class), tmp_path) as stage:
        stage.submit(4)
        stage.come_up(*stage.run().created)
        assert not (stage.run().created or stage.run().created)
        made = 0
        for _ in range(4):
            stage.wait(121)
            made += len(stage.run().created)
        assert made == second
        stage.wait(BOOT_TIMEOUT + 1)
        told = [str(note) for note in stage.run().notes]
    assert len(told) == 1 - second
    assert "**A host that was let in and is not heard yet**" in PAGE


def test_every_promise_has_a_docstring():
    """The page shows it, and pytest does when the check fails."""
    checks = [name for name in dir(DriverConformance) if name.startswith("test_")]
    assert all(len(getattr(DriverConformance, name).__doc__) > 20 for name in checks)
