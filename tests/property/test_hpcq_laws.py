"""Laws of sharing the workers of a definition out over the kinds of its jobs."""

from fractions import Fraction
from math import ceil
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("celery")

from hpc_queue.driver import QueueDriver, shared
from hpc_queue.settings import Settings

WAITING = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 40), max_size=8)


@given(st.integers(-5, 400), WAITING)
def test_all_workers_are_shared_out_and_no_kind_has_more_than_waits(workers, waiting):
    """What is too many for all of them is beyond."""
    found = shared(workers, waiting, beyond="beyond")
    assert sum(found.values()) == max(0, workers)
    assert found.pop("beyond", 0) == max(0, workers - sum(waiting.values()))
    assert all(1 <= number <= waiting[kind] for kind, number in found.items())


@given(st.integers(0, 400), WAITING)
def test_kinds_have_one_in_order_and_then_their_share(workers, waiting):
    """Within one of the exact share of what else waits."""
    found = shared(workers, waiting, beyond="beyond")
    first = list(waiting)[:workers]
    assert [kind for kind in found if kind != "beyond"] == first
    more = sum(waiting.values()) - len(waiting)
    left = max(0, min(workers - len(waiting), more))
    for kind in first:
        share = Fraction(left * (waiting[kind] - 1), more) if more else 0
        assert abs(found[kind] - 1 - share) < 1


@given(WAITING)
def test_a_worker_for_each_job_is_one_for_each_job_of_each_kind(waiting):
    """As many as wait, where nothing is rounded."""
    assert shared(sum(waiting.values()), waiting, beyond="beyond") == waiting


KINDS = st.sampled_from(["", "1", "2", "3.5"]).map(lambda cpus: f"default|{cpus}||")
BACKLOG = st.dictionaries(st.tuples(KINDS, st.sampled_from("01h")), st.integers(0, 60))


@given(BACKLOG, st.integers(0, 20), st.none() | st.integers(0, 40), st.integers(1, 12))
def test_a_definition_wants_workers_as_if_all_its_jobs_were_alike(counts, least, more, ratio):
    """Never more than its maximum, whatever its jobs take; what runs is counted, too."""
    most = None if more is None else least + more
    definition = {"minimum": least, "maximum": most, "jobs_per_worker": ratio}
    definition = {key: value for key, value in definition.items() if value is not None}
    store = SimpleNamespace(
        workers_and_counts=lambda: ([], counts),
        is_halted=lambda: False,
        ran=dict,
        classes_of=lambda jobs: {},
    )
    settings = Settings.read({"hpcq": {"definitions": {"default": definition}}})
    queue = SimpleNamespace(settings=settings, store=store)
    jobs, _ = QueueDriver(queue).read_jobs_and_nodes({"read_only": True})
    number = {state: sum(n for (_, s), n in counts.items() if s == state) for state in "01"}
    expected = ceil((number["0"] + number["1"]) / ratio)
    expected = max(least, expected if most is None else min(expected, most))
    assert sum(job.iterations for job in jobs) == max(0, expected - number["1"])


def test_what_is_beyond_may_be_of_a_kind_that_waits():
    """Then it has both."""
    assert shared(5, {"a": 2, "b": 1}, beyond="b") == {"a": 2, "b": 3}
