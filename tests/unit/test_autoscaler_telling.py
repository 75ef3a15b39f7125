"""Why a job waits is told to the scheduler when it is news, and never harms a pass."""

import json
from pathlib import Path

import pytest

from builders.fake_scheduler import FakeScheduler, cluster, now, run, scheduler
from hpc.autoscale.autoscaler import telling
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.testing import a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]

DOCS = Path(__file__).parents[2] / "docs"
TOO_MANY = 100  # ten nodes have forty cores


def codes(scheduler):
    """What was told of which job, so far."""
    return [(name, verdict.code) for name, verdict in scheduler.explained]


def test_it_is_told_once_and_again_when_it_is_another(run, scheduler, now):
    """Not in every pass, also not by another process; and when the job waits no more."""
    scheduler.jobs = [a_job("big", tasks=TOO_MANY)]
    run()
    assert [name for name, _ in codes(scheduler)] == ["big"]
    first = scheduler.explained[0][1]
    assert first.line.startswith("Job big waits: ")
    scheduler.jobs = [a_job("big", tasks=TOO_MANY)]
    run()
    assert len(scheduler.explained) == 1
    scheduler.jobs = [a_job("big", {"ncpus": 99})]
    run()
    assert codes(scheduler)[1:] == [("big", "TooLarge")]
    scheduler.jobs = [a_job("big", tasks=1)]
    run()
    assert codes(scheduler)[2:] == [("big", "Starts")]
    scheduler.jobs = [a_job("big", tasks=1)]
    run()
    assert len(scheduler.explained) == 3


@pytest.mark.parametrize("is_listed", [True, False])
def test_of_a_job_that_waits_no_more_since_it_runs_nothing_is_told(run, scheduler, is_listed):
    """Or has ended: the driver takes away what was said of it, as the docs say."""
    scheduler.jobs = [a_job("big", tasks=TOO_MANY)]
    run()
    job = a_job("big", tasks=TOO_MANY)
    job.metadata["job_state"] = "running"
    scheduler.jobs = [job] * is_listed
    run()
    assert [name for name, _ in codes(scheduler)] == ["big"]


def test_a_dry_run_tells_nobody(run, scheduler):
    """It changes nothing anywhere."""
    scheduler.jobs = [a_job("big", tasks=TOO_MANY)]
    run(dry_run=True)
    assert scheduler.explained == []


def test_jobs_that_are_set_aside_are_told_why(run, scheduler):
    """In the words of the driver."""
    scheduler.jobs = [a_job("one"), UnusableJob("bad", "expected a walltime, found 'soon'")]
    run()
    ((name, verdict),) = scheduler.explained
    assert (name, verdict.code) == ("bad", "SetAside")
    assert "expected a walltime" in verdict.line


def test_what_is_no_job_keeps_nobody_from_being_told(run, scheduler):
    """It is set aside, as the summary says, and has no place of its own."""
    scheduler.jobs = ["no job", a_job("big", tasks=TOO_MANY)]
    summary = run()
    assert [aside.name for aside in summary.set_aside] == ["'no job'"]
    assert ([name for name, _ in codes(scheduler)], summary.notes) == (["big"], ())


def test_of_a_job_that_runs_and_cannot_be_read_nothing_is_told(run, scheduler):
    """It waits for nothing."""
    scheduler.jobs = [a_job("one"), UnusableJob("bad", "no walltime", ["host-1"])]
    assert [job.runs for job in run().set_aside] == [True]
    assert scheduler.explained == []


def test_of_a_host_without_a_name_nothing_is_told(run, scheduler):
    """It is no job, and the scheduler would know none of its name."""
    scheduler.hosts = [a_host("")]
    assert [aside.is_host for aside in run().set_aside] == [True]
    assert scheduler.explained == []


def test_an_error_of_the_hook_is_a_note_and_tried_again(run, scheduler):
    """The pass is as good as without; after three it is given up until the next one."""
    scheduler.jobs = [a_job(f"big{number}", tasks=TOO_MANY) for number in range(8)]
    scheduler.failing["explain_job"] = RuntimeError("qalter: not yours")
    summary = run()
    assert summary.ok
    assert len([note for note in summary.notes if "qalter: not yours" in note]) == 3
    scheduler.failing.clear()
    scheduler.jobs = [a_job(f"big{number}", tasks=TOO_MANY) for number in range(8)]
    scheduler.explained.clear()
    run()
    assert len({name for name, _ in codes(scheduler)}) == 8


def test_jobs_that_ended_meanwhile_keep_no_others_from_being_told(run, scheduler, monkeypatch):
    """Only failures in a row end the telling, and few of the others are notes of their own."""
    names = [f"big{number}" for number in range(10)]
    scheduler.jobs = [a_job(name, tasks=TOO_MANY) for name in names]
    ended = set(names[::2])

    def explain_job(self, job, verdict):
        if job.name in ended:
            raise RuntimeError("Invalid job id specified")
        told.append(job.name)

    told: list[str] = []
    monkeypatch.setattr(type(scheduler), "explain_job", explain_job)
    notes = run().notes
    assert told == names[1::2]
    assert len(notes) == 4
    assert notes[-1] == "not told why they wait: 2 more jobs"


@pytest.mark.parametrize("has_place", [False, True])
def test_what_no_job_wants_is_told_to_drivers_that_have_a_place_for_it(run, scheduler, has_place):
    """What request sets and drivers want of nodearrays is no job of the scheduler's."""
    asks = {"has_place_for_requests": has_place}
    scheduler.__class__ = type("Asking", (FakeScheduler,), asks)
    scheduler.wanted_arrays = lambda config: [{"Name": "htc", "TargetCount": 11}]
    (wish,) = run().unsatisfied
    assert [told for told, _ in codes(scheduler)] == [wish.name] * has_place


@pytest.mark.parametrize("place", ["has_place_for_verdicts", "has_place_for_requests"])
def test_a_driver_that_cannot_say_whether_it_has_a_place_harms_no_pass(run, scheduler, place):
    """The pass has done all that it is for by then: its summary has a note."""

    def no_place(driver):
        raise OSError("no connection")

    scheduler.__class__ = type("Asking", (FakeScheduler,), {place: property(no_place)})
    scheduler.jobs = [a_job("big", tasks=TOO_MANY)]
    summary = run()
    assert (summary.ok, len(summary.created)) == (True, 10)
    assert [note for note in summary.notes if "telling why jobs wait: " in note]


@pytest.fixture
def told_after(run, scheduler):
    """How many jobs of so many were told of after each of some passes."""

    def passes(number, jobs):
        told = []
        for _ in range(number):
            scheduler.jobs = [a_job(f"big{each}", tasks=TOO_MANY) for each in range(jobs)]
            run()
            told.append(len(scheduler.explained))
        return told

    return passes


def test_so_many_are_told_in_one_pass_and_the_others_in_the_next(told_after, monkeypatch):
    """A command of the scheduler for each of ten thousand jobs would hold a pass for long."""
    monkeypatch.setattr(telling, "TOLD_PER_PASS", 3)
    assert told_after(3, jobs=8) == [3, 6, 8]


def test_what_was_said_of_jobs_that_must_wait_their_turn_is_remembered(run, scheduler, monkeypatch):
    """One that starts meanwhile is told so."""
    for most, wanted in ((2, {"ncpus": 99}), (1, {"ncpsu": 1}), (2, {"ncpus": 1})):
        monkeypatch.setattr(telling, "TOLD_PER_PASS", most)
        scheduler.jobs = [a_job(name, wanted) for name in ("a", "b")]
        run()
    names = "abaab"
    said = ["TooLarge"] * 2 + ["UnknownResource"] + ["Starts"] * 2
    assert codes(scheduler) == list(zip(names, said, strict=True))


def test_jobs_with_one_name_are_told_of_once(run, scheduler):
    """Whoever reads it cannot tell them apart."""
    for _ in range(2):
        scheduler.jobs = [a_job("big", {"ncpus": 99}), a_job("big", {"nodearray": "none"})]
        run()
    assert [name for name, _ in codes(scheduler)] == ["big"]


@pytest.mark.parametrize("step", [1, -1])
def test_of_a_part_that_can_never_run_its_job_is_told(run, scheduler, step):
    """In whatever order the parts are: it cannot run then, whatever the others wait for."""
    scheduler.jobs = [a_job("big", tasks=TOO_MANY), a_job("big", {"ncpus": 99})][::step]
    run()
    assert codes(scheduler) == [("big", "TooLarge")]


def test_jobs_that_are_alike_are_worked_out_together(run, scheduler, monkeypatch):
    """However few causes there may be in one pass."""
    monkeypatch.setattr(telling, "JUDGED_PER_PASS", 1)
    scheduler.jobs = [a_job(f"big{n}", {"ncpus": 99}) for n in range(3)]
    run()
    assert len(scheduler.explained) == 3


def test_a_slow_hook_holds_up_no_pass_for_long(told_after, monkeypatch):
    """When its time is over, the pass has told of one job at least, and the next one goes on."""
    monkeypatch.setattr(telling, "TOLD_SECONDS", 0.0)
    assert told_after(4, jobs=3) == [1, 2, 3, 3]


def test_the_docs_say_how_much_one_pass_tells():
    """In jobs, and in seconds."""
    said = " ".join((DOCS / "writing-an-integration.md").read_text("utf-8").split())
    assert f"At most {telling.TOLD_PER_PASS} jobs are told of in one pass" in said
    assert f"and after {telling.TOLD_SECONDS:.0f} s the others are left" in said


def test_few_causes_are_worked_out_in_one_pass_and_all_have_their_turn(
    run, scheduler, monkeypatch, now
):
    """Jobs of which no two are alike: what is said of the others stays."""
    monkeypatch.setattr(telling, "JUDGED_PER_PASS", 3)
    told = []
    for _ in range(4):
        scheduler.jobs = [a_job(f"big{n}", {"ncpus": 50 + n}) for n in range(8)]
        run()
        told.append(len(scheduler.explained))
        now.now += 60
    assert told == [3, 6, 8, 8]


@pytest.mark.parametrize("content", ["", "[]", '{"big": 3}', "{"])
def test_a_file_that_cannot_be_used_costs_a_repetition(run, scheduler, tmp_path, content):
    """And nothing else; it is written anew."""
    path = tmp_path / "verdicts.json"
    path.write_text(content)
    scheduler.jobs = [a_job("big", tasks=TOO_MANY)]
    assert run().ok
    assert len(scheduler.explained) == 1
    assert list(json.loads(path.read_text())) == ["big"]


def test_without_a_file_it_is_told_in_each_pass(run, scheduler):
    """That is no trouble of the pass."""
    for count in (1, 2):
        scheduler.jobs = [a_job("big", tasks=TOO_MANY)]
        assert run(verdicts_file=None).notes == ()
        assert codes(scheduler) == [codes(scheduler)[0]] * count


def test_drivers_without_the_hook_cost_nothing(run, scheduler, monkeypatch, tmp_path):
    """No verdict is worked out, and no file written."""
    monkeypatch.delattr(FakeScheduler, "explain_job")
    monkeypatch.setattr(telling.Telling, "tell", lambda *_: pytest.fail("nobody wants it"))
    scheduler.jobs = [a_job("big", tasks=TOO_MANY)]
    run()
    assert not (tmp_path / "verdicts.json").exists()
