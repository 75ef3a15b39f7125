"""Twenty days, each drawn from a seed, hold every invariant; `make simulate` runs more."""

import pytest

from simulation.__main__ import main
from simulation.day import Report, run_day
from simulation.script import draw

SEEDS = 20
AT_ONCE = 5


def _day(seed: int) -> Report:
    return run_day(draw(seed))


@pytest.mark.no_cover
@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_days_hold_every_invariant(first: int) -> None:
    reports = [_day(seed) for seed in range(first, first + AT_ONCE)]
    assert [report.violation for report in reports] == [None] * AT_ONCE
    for report in reports:
        assert report.passes >= 60
        assert report.gangs >= 1
        assert 10 <= report.most_nodes <= 200
        assert report.faults >= 20
        assert len(report.fired) >= 6


@pytest.mark.no_cover
def test_days_hold_every_invariant_where_daemons_do_not_start_on_nodes() -> None:
    """The scheduler never reports the hosts of some nodes: other nodes do their work."""
    kinds = ("silent_hosts", "rush", "killed", "half_hosts", "history_locked", "lost_reply")
    reports = [run_day(draw(seed, kinds)) for seed in range(1, 4)]
    assert [report.violation for report in reports] == [None] * 3
    assert all(report.fired["silent_hosts"] >= 3 for report in reports)


@pytest.mark.no_cover
def test_a_seed_gives_the_same_day_again() -> None:
    first, second = _day(7), _day(7)
    assert first.trace == second.trace


@pytest.mark.no_cover
def test_a_run_prints_its_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--processes", "1"]) == 0
    told = capsys.readouterr().out
    for what in ("2 days", "passes:", "gangs:", "nodes at most:", "kinds of faults:", "kills:"):
        assert what in told
