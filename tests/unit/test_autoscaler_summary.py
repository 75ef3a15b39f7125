"""What a pass is summed up as."""

import json

import pytest

from hpc.autoscale.autoscaler import PassError, PassSummary, SetAsideJob, UnsatisfiedJob
from hpc.autoscale.autoscaler.summary import Explanation, jobs_aside, stuck_jobs
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict


def names(count, stem="htc"):
    """htc-1, htc-2, …"""
    return tuple(f"{stem}-{number}" for number in range(1, count + 1))


def test_nothing_happened():
    """Is said in few words."""
    assert str(PassSummary(duration=0.3)) == "0 jobs, in 0.3 s"
    assert PassSummary().ok


def test_one_line_says_what_was_done():
    """Nodes by name while they are few, and the first and the last of many."""
    summary = PassSummary(
        jobs=1, requested=names(30), created=names(30), deleted=("htc-40",), duration=2.0
    )
    assert str(summary) == "1 job, 30 created (htc-1 … htc-30), 1 deleted (htc-40), in 2.0 s"


def test_nodes_that_were_not_confirmed_are_shown_as_requested():
    """When all were, that would say the same twice."""
    summary = PassSummary(requested=names(2), created=names(1))
    assert "2 requested (htc-1, htc-2), 1 created (htc-1)" in str(summary)
    summary = PassSummary(requested=names(2), created=names(1), started=("htc-2",))
    assert str(summary) == "0 jobs, 1 created (htc-1), 1 started (htc-2), in 0.0 s"


def test_what_went_wrong_has_lines_of_its_own():
    """Jobs with the limit that stopped them, bad jobs, notes and errors; the limit alone where
    there is one."""
    summary = PassSummary(
        jobs=3,
        unsatisfied=(
            UnsatisfiedJob("a", 35, "a long story", "NodeArray(htc) is full"),
            UnsatisfiedJob("b", 1, "no GPU anywhere", unit="nodes"),
        ),
        set_aside=(SetAsideJob("c", "TypeError: no"),),
        notes=("nodearray x has no buckets",),
        errors=(PassError("draining nodes", "qmod failed"),),
    )
    assert str(summary).splitlines() == [
        "3 jobs, 2 not satisfied, 1 set aside, 1 error, in 0.0 s",
        "  1 job (a) waits: NodeArray(htc) is full",
        "  1 job (b) waits: no GPU anywhere",
        "  job c set aside: TypeError: no",
        "  nodearray x has no buckets",
        "  draining nodes: qmod failed",
    ]


def test_who_could_not_be_looked_at_and_wants_nothing_does_not_wait():
    """Jobs that run, and hosts without a name: that is a note."""
    aside = (
        SetAsideJob("c", "no walltime"),
        SetAsideJob("d", "no walltime", runs=True),
        SetAsideJob("host 3", "no name", is_host=True),
    )
    assert list(PassSummary(set_aside=aside).details()) == [
        ("waits", "job c set aside: no walltime"),
        ("note", "job d set aside: no walltime"),
        ("note", "host 3 set aside: no name"),
    ]


def test_jobs_that_are_set_aside_are_told_by_the_reason():
    """Most jobs first; of all but eight reasons how many there are."""
    aside = [SetAsideJob(f"{n}", f"reason {n % 10}") for n in range(19)]
    *told, others = jobs_aside(aside)
    assert [(group.count, group.cause) for group in told] == [(2, f"reason {n}") for n in range(8)]
    assert str(others) == (
        "3 jobs (8, 9, …) can never run: 2 other reasons: azscale explain JOB says which"
    )


def test_many_of_a_kind_are_counted():
    """Five are shown; of jobs the first three of each cause."""
    notes = tuple(f"note {n}" for n in range(8))
    shared = Explanation(lambda _: ("no", None))
    unsatisfied = tuple(UnsatisfiedJob(str(i), 1, shared) for i in range(5000))
    lines = str(PassSummary(jobs=5000, unsatisfied=unsatisfied, notes=notes)).splitlines()
    assert lines[1] == "  5000 jobs (0, 1, 2, …) wait: no"
    assert len(lines) == 8
    assert lines[-1] == "  … and 3 more like this"


def test_jobs_whose_reasons_are_not_known_to_be_one():
    """Are told together where the same is said of them; the first eight groups are looked at."""
    unsatisfied = tuple(UnsatisfiedJob(str(i), 1, "no") for i in range(5000))
    lines = str(PassSummary(jobs=5000, unsatisfied=unsatisfied)).splitlines()
    assert (
        lines[1:]
        == [
            "  4992 jobs (8, 9, 10, …) wait or can never run: 4992 other reasons:"
            " azscale explain JOB says which",
            "  8 jobs (0, 1, 2, …) wait: no",
        ][::-1]
    )


def judged_jobs(groups, each):
    """So many groups of jobs, all of which wait for one thing, and which of the groups are asked
    why."""
    asked = []

    def judge(group):
        asked.append(group)
        cause = Cause("FamilyQuota", "the quota is used up")
        return Verdict("job", Stand.WAITS, cause.code, cause.text, (cause,))

    def explanation(group):
        return Explanation(lambda _: ("no", None), judge, group)

    causes = [explanation(group) for group in range(groups)]
    return [UnsatisfiedJob(f"{i}", 1, causes[i % groups]) for i in range(groups * each)], asked


def test_of_more_jobs_more_groups_are_asked_why():
    """One for a thousand jobs, and never fewer than are told."""
    unsatisfied, asked = judged_jobs(30, 400)
    told, others = stuck_jobs(unsatisfied)
    assert (told.count, others.count, len(asked)) == (12 * 400, 18 * 400, 12)
    unsatisfied, asked = judged_jobs(30, 10)
    assert [group.count for group in stuck_jobs(unsatisfied)] == [80, 220]
    assert len(asked) == 8
    unsatisfied, asked = judged_jobs(30, 10)
    assert [group.count for group in stuck_jobs(unsatisfied, judge=20)] == [200, 100]
    assert len(asked) == 20


def test_jobs_of_one_kind_are_asked_once():
    """They are one group, whatever else differs; without a kind each is its own."""
    asked = []

    def explanation(kind):
        return Explanation(lambda of: (asked.append(of) or "no", None), None, kind, lambda of: of)

    kinds = ["quota"] * 20 + [None] * 2 + ["pool"] * 10
    unsatisfied = [UnsatisfiedJob(f"{i}", 1, explanation(kind)) for i, kind in enumerate(kinds)]
    assert [group.count for group in stuck_jobs(unsatisfied)] == [32]
    assert asked == ["quota", "pool", None, None]


def test_fields_are_json():
    """Counts for metrics, names for logs."""
    summary = PassSummary(
        jobs=2,
        unsatisfied=(UnsatisfiedJob("a", 1, "why", "limit"),),
        created=names(2),
        errors=(PassError("phase", "message"),),
    )
    fields = json.loads(json.dumps(summary.fields()))
    assert fields["jobs_unsatisfied"] == 1
    assert fields["nodes_created"] == 2
    assert fields["created"] == ["htc-1", "htc-2"]
    assert fields["errors"] == ["phase: message"]
    assert fields["unsatisfied"][0]["limit"] == "limit"


def test_the_longest_wait_counts():
    """Of those that the other side asked for."""
    errors = (PassError("a", "x", 5.0), PassError("b", "y"), PassError("c", "z", 60.0))
    assert PassSummary(errors=errors).retry_after == 60
    assert PassSummary(errors=errors[1:2]).retry_after is None


def test_a_summary_does_not_change():
    """It is a value."""
    with pytest.raises(AttributeError):
        PassSummary().jobs = 3
