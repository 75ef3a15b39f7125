"""Settings that every test shares, and a process that no test leaves changed behind."""

import gc
import importlib
import logging
import os
import pkgutil
import signal
import textwrap
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from hpc.autoscale.autoscaler import journaling
from hpc.autoscale.testing.process import a_process_of_its_own

# an old name, which warns; a process of its own
NOT_IMPORTED = {"hpc.autoscale.job.computenode", "hpc_queue.worker", "hpc_queue.guardian"}

# Directories of tests that are not measured: they draw what they try, or try once more what is
# published and what documents say.
UNMEASURED = {"conformance", "docs", "property", "simulation"}

# Long tests in which hardly a line is run that no other test runs. What they and the directories
# above would add is 500 branches of 80,000.
REPEATED = {
    "test_absent_clusters",
    "test_autoscaler_shrinking",
    "test_autoscaler_witness",
    "test_backoff_over_http",
    "test_benchmark_harness",
    "test_causes",
    "test_celery_conformance",
    "test_cli_errors",
    "test_collector",
    "test_distributions",
    "test_exactly_once",
    "test_examples",
    "test_field_incidents",
    "test_gangs_over_http",
    "test_growth_counts",
    "test_history_trouble",
    "test_hosts_never_reported",
    "test_hosts_without_work",
    "test_hpcq_conformance",
    "test_jetpack_dynamic",
    "test_leastcost_budget",
    "test_on_premises",
    "test_packing_ways",
    "test_process_state",
    "test_region_weights",
    "test_rest_client_contract",
    "test_restored_server",
    "test_server_secrets",
    "test_several_clusters",
    "test_three_files",
    "test_workers",
}

pytest.register_assert_rewrite("builders")

# thousands of passes need none; the tests of the journal ask for it, and programs have it
journaling.BY_DEFAULT = False

settings.register_profile(
    "default", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config):
    """What a shell runs in the background ignores Ctrl-C, and what nohup runs ignores that the
    terminal goes: so would every program that a test starts and interrupts.

    Python's collector runs seldom: nearly all that tests make goes without it, and it took a tenth
    of their time.

    pytest-cov measures from the start in a process of pytest-xdist, and then once more as one of
    several (7.1); where the second pauses, for tests without coverage, the first would go on.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    gc.set_threshold(50_000, 20, 20)
    controller = _coverage_of(config)
    if hasattr(config, "workerinput") and controller is not None:
        controller.pause()


def pytest_itemcollected(item):
    """Which lines are covered is no matter of chance, and counting them takes as long as the test:
    what is drawn at random, such as simulated days, runs without, and what others run as well."""
    is_drawn = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
    if is_drawn or UNMEASURED.intersection(item.path.parts) or item.path.stem in REPEATED:
        item.add_marker(pytest.mark.no_cover)


def _coverage_of(config):
    """What pytest-cov measures with, and can be paused; None where nothing is measured."""
    return getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)


def _import_all(name):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith("__main__") and module.name not in NOT_IMPORTED:
            importlib.import_module(module.name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collecting imports and rewrites all tests, which takes twice as long when it is measured.
    What the library does while it is imported is measured before.

    Ten thousand tests stay until the end, and Python's collector would look at them again and
    again.
    """
    gc.disable()
    try:
        return (yield from _collected_unmeasured(session))
    finally:
        gc.freeze()
        gc.enable()


def _collected_unmeasured(session):
    controller = _coverage_of(session.config)
    if controller is None or not controller.started:
        return (yield)
    # one process is enough, and what the process measures that has the workers does not count
    if getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"] == "gw0":
        _import_all("hpc.autoscale")
        with suppress(ImportError):  # Celery may not be installed
            _import_all("hpc_queue")
    controller.pause()
    try:
        return (yield)
    finally:
        controller.resume()


def pytest_terminal_summary(terminalreporter):
    """Tell how often what was made up for the tests, where a test has counted it."""
    for report in terminalreporter.stats.get("passed", []):
        for name, told in getattr(report, "user_properties", ()):
            if name == "occurrences":
                terminalreporter.section(report.nodeid.rpartition("::")[2], sep="-")
                terminalreporter.write_line(textwrap.fill(told, 120))


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Put back whatever a test has changed for the whole process, and what is logged in it."""
    level = logging.root.level
    with a_process_of_its_own():
        yield
    logging.root.setLevel(level)


@pytest.fixture(scope="module")
def redis_home():
    """The home of a queue whose embedded Redis runs for all tests of a module."""
    job_queue = pytest.importorskip("builders.job_queue")
    with job_queue.a_redis() as home:
        yield home
