"""The screen of `azscale status`, as lines: it fits, it says what matters, and acts on no
terminal."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from hpc.autoscale import clock
from hpc.autoscale.cli.live import LiveScreen
from hpc.autoscale.cli.standing import (
    STATES,
    BucketStanding,
    FailedNode,
    LimitStanding,
    Standing,
    StuckJobs,
)
from hpc.autoscale.cli.standing_text import screen, summary_line
from hpc.autoscale.cli.status import _STYLES, keep_looking
from hpc.autoscale.lockstate import Lock, LockState
from hpc.autoscale.metrics.health import PassEnd
from hpc.autoscale.rehearsal import Cost

AT = 1_700_000_000.0
QUIET = Standing(
    at=AT,
    clusters={"demo": "https://cyclecloud.example"},
    away={},
    lock=LockState(Lock.FREE),
    last_pass=AT - 12,
    next_pass=AT + 48,
    last_end=None,
    loop_is_gone=False,
    cost=Cost(),
    paid=0,
    cost_planned=Cost(),
    buckets=(),
    limits=(),
    jobs={"run": 0, "will_start": 0, "stuck": 0, "served": 0, "workers": 0},
    stuck=(),
    failed=(),
    backoffs=(),
    problems=(),
)
NASTY = "\033[31mAllocationFailed:\nno capacity" * 9
BUSY = replace(
    QUIET,
    lock=LockState(Lock.HELD, ["process 4711 of user 0"]),
    cost=Cost(1234.5, 1),
    paid=4022,
    cost_planned=Cost(3.6),
    buckets=[
        BucketStanding("hpc/Standard_HB120rs_v3", {"busy": 4000, "booting": 12, "failed": 3}, 99.5),
        BucketStanding("htc/Standard_F4s_v2", {"idle": 7, "leaving": 2, "planned": 5}, None),
    ],
    limits=[
        LimitStanding("VM Family(standardHBrsv3Family, eastus)", "cores", 480_000, 0, 480_000),
        LimitStanding("NodeArray(htc)", "nodes", 9, 5, 100),
        LimitStanding("Cluster", "cores", 5, 0, 10_000_000),
    ],
    jobs={"run": 3900, "will_start": 40, "stuck": 9_001, "served": 2, "workers": 0},
    stuck=[
        StuckJobs(9_000, ["1", "2", "3"], "QuotaFamily", "the quota is full " * 20, until=AT + 240),
        StuckJobs(1, ["never"], "Unknown", "no node has a resource 'gpsu'", never=True),
    ],
    failed=[FailedNode(f"htc-{n}", "htc/F4", NASTY) for n in range(8)],
    backoffs=["Regular standard_f2s_v2 is in back-off (capacity), for 294 s"],
    problems=["reading the clusters: west does not answer"],
)


FAILING = replace(BUSY, last_end=PassEnd(AT - 80, 68.0, f"reading: {NASTY}", True, AT - 700))


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        (None, ["last pass 12 s ago, next in 48 s"]),
        (PassEnd(AT - 14, 2.04, "", False, AT - 14), ["last pass 12 s ago: ok in 2.0 s, next in"]),
        (
            PassEnd(AT - 72, 60.0, "driver: no answer", True, AT - 600),
            [
                "last pass 12 s ago: failed after 60 s, next in 48 s",
                "  driver: no answer (the last good one began 10 min ago)",
            ],
        ),
        (
            PassEnd(AT - 13, 1.0, "starting nodes: no capacity", False, None),
            ["last pass 12 s ago: with errors in 1.0 s,", "  starting nodes: no capacity"],
        ),
        (PassEnd(AT - 12, None, "x", True, None), ["last pass 12 s ago: failed, next in 48 s"]),
    ],
)
@pytest.mark.parametrize("width", [80, 200])
def test_how_the_last_pass_ended(end, lines, width):
    """And when the next one is due; the lock is said beside it or below it."""
    found = shown(replace(QUIET, last_end=end), width)
    start = found.index(next(each for each in found if each.startswith("last pass")))
    told = [each for each in found[start:] if "lock free" not in each or "last pass" in each]
    for line, wanted in zip(told, lines, strict=False):
        assert line.startswith(wanted)
    assert any("lock free" in line for line in found)
    said = summary_line(replace(QUIET, last_end=end))
    assert (f"last pass: {end.error}" in said) if end and end.error else "last pass" not in said


def shown(standing, width):
    """The lines of a screen."""
    return [line.whole for line in screen(standing, width)]


@pytest.mark.parametrize("width", [40, 44, 60, 80, 120, 200])
@pytest.mark.parametrize("standing", [QUIET, BUSY, FAILING], ids=["quiet", "busy", "failing"])
def test_it_fits(standing, width):
    """No line is wider than the terminal, nor acts on it."""
    lines = shown(standing, width)
    assert max(map(len, lines)) <= width
    assert not any("\033" in line or "\n" in line for line in lines)


@pytest.mark.parametrize("width", [80, 200])
def test_it_says_what_matters(width):
    """At any width."""
    text = "\n".join(shown(BUSY, width))
    for said in (
        "demo at https://cyclecloud.example",
        "2023-11-14 22:13:20 UTC",
        "last pass 12 s ago, next in 48 s",
        "lock held by process 4711 of user 0",
        "$1,234.50/h for 4021 nodes, and 1 node of unknown price",
        "wants 5 nodes more for $3.60/h",
        "480,000 of 480,000 cores ############",
        "9 of 100 nodes #........... +5",
        "1 limit less full",
        "3900 running, 40 waiting for nodes or a place, 9001 stuck",
        "9000 jobs (1, 2, 3, …) wait: the quota is full",
        "1 job (never) can never run: no node has a resource 'gpsu'",
        "failed: 8",
        "htc-0 (htc/F4): ",
        "and 3 more",
        "back-off: 1",
        "west does not answer",
    ):
        assert said in text


def test_a_wide_screen_has_jobs_beside_nodes():
    """So that it is half as long."""
    assert len(shown(BUSY, 200)) < len(shown(BUSY, 80))
    (head,) = [line for line in shown(BUSY, 200) if line.startswith("nodes ")]
    assert "jobs: 3900 running" in head


def test_a_low_screen_keeps_what_matters_most():
    """Of each part something: the largest buckets, the fullest limits, most of the jobs."""
    buckets = [BucketStanding(f"a{n}/F4", {"idle": n + 1}, 1.0) for n in range(40)]
    limits = [LimitStanding(f"limit {n}", "cores", 90 - n, 0, 100) for n in range(20)]
    stuck = [StuckJobs(20 - n, [f"j{n}"], f"C{n}", f"cause {n}") for n in range(20)]
    many = replace(BUSY, buckets=buckets, limits=limits, stuck=stuck)
    for height, wanted in (
        (24, ("a39/F4", "limit 0", "20 jobs (j0, …) wait: cause 0")),
        (32, ("failed: 8", "back-off: 1")),
    ):
        text = "\n".join(line.whole for line in screen(many, 80, height)[:height])
        assert all(said in text for said in wanted)
    assert len(screen(many, 80, 32)) <= 32 < 40 < len(shown(many, 80))


def test_columns_of_states_that_no_node_is_in_are_left_out():
    """And zeros are dots."""
    lines = shown(BUSY, 80)
    head = next(line for line in lines if line.startswith("nodes "))
    states = ["BUSY", "IDLE", "BOOTING", "LEAVING", "FAILED", "PLANNED"]
    assert head.split() == ["nodes", *states, "$/H"]
    row = next(line for line in lines if "Standard_HB120rs_v3" in line)
    assert row.split()[1:] == ["4000", ".", "12", ".", "3", ".", "99.50"]


@pytest.mark.parametrize("width", [40, 48, 60])
def test_nodes_in_all_states_on_a_narrow_screen(width):
    """Names of states are cut, with a sign, before those of buckets are gone."""
    states = dict.fromkeys(STATES, 12345)
    limits = [LimitStanding("NodeArray(htc)", "cores", 10, 5, 100)]
    crowded = replace(BUSY, buckets=[BucketStanding("htc/F4", states, 1.0)], limits=limits)
    lines = shown(crowded, width)
    assert max(map(len, lines)) <= width
    row = next(line for line in lines if "htc/F4" in line)
    assert "12345" in row and row.endswith(("1.00", "…"))
    assert any(line.startswith("  limit of n") and "10 of 100 cores" in line for line in lines)
    assert "stuck" in " ".join(lines)


def test_a_pass_that_is_late():
    """Is said to be, and one that never was."""
    late = replace(QUIET, last_pass=AT - 700, next_pass=AT - 640)
    assert "last pass 12 min ago, 11 min late" in shown(late, 80)[1]
    assert screen(late, 80)[1].style == "warn"
    gone = replace(late, next_pass=None, loop_is_gone=True)
    assert "last pass 12 min ago; its loop has ended" in shown(gone, 80)[1]
    assert "no pass so far" in shown(replace(QUIET, last_pass=None, next_pass=None), 80)[1]


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize(
    ("lock", "said"),
    [
        (LockState(Lock.FREE), "lock free: no loop is in a pass"),
        (LockState(Lock.FREE, (), "but this user may not"), "lock free, but this user may not"),
        (LockState(Lock.UNKNOWN, (), "/a/lock is on nfs4"), "lock not known: /a/lock is on nfs4"),
        (LockState(Lock.NONE), "no lock: lock_file is null"),
        (LockState(Lock.HELD, ["process 7"]), "lock held by process 7"),
    ],
)
def test_how_the_lock_stands(lock, said, width):
    """What is not known is not said to be free."""
    text = " ".join(shown(replace(QUIET, lock=lock), width))
    assert said in text
    assert ("free" in text) == (lock.state is Lock.FREE)
    assert replace(QUIET, lock=lock).to_dict()["lock"]["state"] == lock.state


def test_one_line():
    """For where there is no terminal."""
    assert summary_line(BUSY) == (
        "2023-11-14T22:13:20Z 4000 busy, 7 idle, 12 booting, 2 leaving, 3 failed, 5 planned;"
        " jobs: 3900 running, 40 waiting, 9001 stuck; $1,234.50/h and 1 node of unknown price"
    )


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_the_live_screen(size):
    """What is drawn is what is printed, as far as there is room, with the pause at the bottom; the
    terminal is given back."""
    out = io.StringIO()
    width, height = size
    console = Console(file=out, force_terminal=True, width=width, height=height, color_system=None)
    with LiveScreen(5.0, _STYLES, console) as show:
        show(BUSY, "")
        drawn = out.getvalue()
        show(BUSY, "the server\ndoes not answer")
    lines = [line.whole for line in screen(BUSY, width, height - 1)]
    assert all(line in drawn for line in lines[: height - 2])
    assert "every 5 s; Ctrl-C ends" in drawn
    assert "does not answer" in out.getvalue()[len(drawn) :]
    assert out.getvalue().count("\033[?1049h") == out.getvalue().count("\033[?1049l") == 1


def test_a_look_that_fails_is_shown_and_the_next_one_made():
    """With what was seen last."""
    clock.use_mock_clock()
    answers = [QUIET, RuntimeError("no"), QUIET]
    seen = []

    def look():
        answer = answers[len(seen)]
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Show:
        def __call__(self, standing, problem):
            seen.append((standing, problem))

        def fit(self):
            """There is nothing to fit."""

    keep_looking(look, Show(), 10, lambda: len(seen) == 3)
    assert seen == [(QUIET, ""), (QUIET, "no"), (QUIET, "")]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_problem_of_a_look_is_not_cut_without_a_sign(width):
    """The foot has several lines for it, and the screen above them fewer."""
    problem = "http://cycle.example:8080/clusters/first/status: no answer from CycleCloud: refused"
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, height=12, color_system=None)
    with LiveScreen(5.0, _STYLES, console) as show:
        show(BUSY, "")
        before = len(out.getvalue())
        show(BUSY, problem)
        drawn = out.getvalue()[before:].split("\n")
        show(BUSY, "word " * 200)
    assert "".join(problem.split()) in "".join("".join(drawn).split())
    assert len(drawn) == 12
    assert " …" in out.getvalue().rsplit("more lines", 1)[1]


def test_the_live_screen_fits_a_terminal_whose_size_has_changed():
    """Without another look."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=200, height=40, color_system=None)
    with LiveScreen(3600.0, _STYLES, console) as show:
        show(BUSY, "")
        before = len(out.getvalue())
        show.fit()
        assert len(out.getvalue()) == before
        console.size = (80, 24)
        show.fit()
        drawn = out.getvalue()[before:]
    assert all(line.whole in drawn for line in screen(BUSY, 80, 23)[:22])


def test_a_limit_that_has_come_to_nothing_since():
    """As the share of a region whose weight is 0 now: it was `5 of 0 nodes`."""
    limits = [
        LimitStanding("Region westus2", "nodes", 5, 0, 0),
        LimitStanding("z", "nodes", 0, 0, 0),
    ]
    text = "\n".join(line.whole for line in screen(replace(BUSY, limits=limits), 100))
    assert "5 nodes, no more" in text and "5 of 0" not in text
    assert "0 of 0 nodes" in text
