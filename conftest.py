"""Settings that every test shares, and a process that no test leaves changed behind."""

import os
import textwrap

import pytest
from hypothesis import HealthCheck, settings

from hpc.autoscale.testing.process import a_process_of_its_own

pytest.register_assert_rewrite("builders")

settings.register_profile(
    "default", deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_terminal_summary(terminalreporter):
    """Tell how often what was made up for the tests, where a test has counted it."""
    for report in terminalreporter.stats.get("passed", []):
        for name, told in getattr(report, "user_properties", ()):
            if name == "occurrences":
                terminalreporter.section(report.nodeid.rpartition("::")[2], sep="-")
                terminalreporter.write_line(textwrap.fill(told, 120))


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Put back whatever a test has changed for the whole process."""
    with a_process_of_its_own():
        yield


@pytest.fixture(scope="module")
def redis_home():
    """The home of a queue whose embedded Redis runs for all tests of a module."""
    job_queue = pytest.importorskip("builders.job_queue")
    with job_queue.a_redis() as home:
        yield home
