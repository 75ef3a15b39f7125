"""Which driver azscale works with."""

import py_compile
import sys
from pathlib import Path

import pytest

from hpc.autoscale.autoscaler.faults import HookError
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.cli.drivers import load_driver
from hpc.autoscale.errors import ConfigurationException, one_line_and_where
from hpc.autoscale.job.schedulernode import SchedulerNode

MODULE = """
from hpc.autoscale.cli import GenericDriver

class Named(GenericDriver):
    pass

class Bare(GenericDriver):
    def __init__(self, size=3):
        super().__init__("bare")

class Configured(GenericDriver):
    def __init__(self, config):
        super().__init__(config["who"])

def make():
    return Bare()

class Forgetful(Bare):
    def __init__(self):
        pass

class Failing(Bare):
    def __init__(self):
        raise KeyError("queue")

broken = 3
"""


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A directory with a module of drivers; the list of places to import from is put back."""
    (tmp_path / "driver_test_module.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "driver_test_module", raising=False)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Named", "project"), ("Bare", "bare"), ("Configured", "me"), ("make", "bare")],
)
def test_drivers_of_all_kinds(directory, name, expected):
    """Called with the project's name, with nothing, or with the configuration, as they want it."""
    driver = load_driver(f"driver_test_module:{name}", "project", {"who": "me"}, directory)
    assert driver.name == expected


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("driver_test_module", "expected package.module:Class"),
        (":Named", "expected package.module:Class"),
        ("driver_test_module:Namd", "did you mean 'Named'"),
        ("driver_test_module:broken", "has no class broken"),
        ("driver_test_modul:Named", "cannot be imported"),
        ("driver_test_module:GenericDriver.x", "has no class"),
        ("driver_test_module:Forgetful", r"to call super\(\).__init__ with the name"),
    ],
)
def test_drivers_that_cannot_be_had(directory, spec, said):
    """What is wrong."""
    with pytest.raises(ConfigurationException, match=said) as error:
        load_driver(spec, "project", {}, directory)
    assert str(error.value).startswith("driver: ")


@pytest.mark.parametrize(("module", "where"), [("queue", r"/queue\.py"), ("sys", "of Python")])
def test_a_driver_whose_module_is_called_as_one_of_python(directory, module, where):
    """It says which one was found in its place."""
    Path(directory, f"{module}.py").write_text("class Mine: ...")
    with pytest.raises(ConfigurationException, match=rf"{module} \(.*{where}.*\) has no class"):
        load_driver(f"{module}:Mine", "project", {}, directory)


def test_a_driver_that_was_compiled_on_a_full_disk(directory):
    """Python leaves a part of what it compiled, and never looks at the module again."""
    compiled = Path(py_compile.compile(str(Path(directory, "driver_test_module.py"))))
    compiled.write_bytes(compiled.read_bytes()[:100])
    with pytest.raises(HookError, match="delete __pycache__ beside it"):
        load_driver("driver_test_module:Bare", "project", {}, directory)


def test_a_driver_that_cannot_be_made(directory):
    """What it raises says which driver it was."""
    with pytest.raises(KeyError) as raised:
        load_driver("driver_test_module:Failing", "project", {}, directory)
    said = one_line_and_where(raised.value)
    assert said == "driver: making driver_test_module:Failing: KeyError: 'queue'"


def test_something_that_is_no_driver(directory):
    """Is named for what it is."""
    with pytest.raises(ConfigurationException, match="to make a SchedulerDriver, found PosixPath"):
        load_driver("pathlib:Path", "project", {}, directory)


def test_the_driver_for_no_scheduler():
    """Has no jobs, and whatever it is asked for is done."""
    driver = GenericDriver("x")
    nodes = [SchedulerNode("a")]
    assert driver.read_jobs_and_nodes({}) == ([], [])
    assert driver.preprocess_config({"a": 1}) == {"a": 1}
    assert driver.initialize() is None
    for hook in (
        driver.handle_failed_nodes,
        driver.add_nodes_to_cluster,
        driver.handle_post_join_cluster,
        driver.handle_boot_timeout,
        driver.handle_draining,
        driver.handle_post_delete,
    ):
        assert hook(nodes) == nodes
    assert driver.add_nodes_to_cluster(nodes, include_permanent=True) == nodes
