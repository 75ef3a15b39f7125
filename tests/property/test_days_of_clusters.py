"""Laws of days of two clusters, over HTTP: whatever goes wrong, no node is deleted that has work,
that is wanted, or whose cluster is away; no more nodes come than are needed; once all is well again
all jobs run and the rest goes; and the journal of the day replays.

More days with `CLUSTER_DAYS`, from another seed on with `CLUSTER_DAYS_FIRST`.
"""

import json
import os
from contextlib import ExitStack

import pytest

from builders.days_of_clusters import Day
from hpc.autoscale import cli, clock

FIRST = int(os.environ.get("CLUSTER_DAYS_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("CLUSTER_DAYS", "1")))
STEPS = 60


@pytest.mark.parametrize("seed", [*SEEDS, 334])
def test_a_day(seed, tmp_path, monkeypatch, capsys):
    """334: a spot node that was being evicted let others stop in its place."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    with ExitStack() as stack:
        before = clock.use_clock(clock.Clock())
        stack.callback(clock.use_clock, before)
        day = Day(seed, tmp_path, stack)
        try:
            for _ in range(STEPS):
                day.step()
            day.settle()
        except Exception as error:
            error.add_note("\n".join(day.story))
            raise
        path = tmp_path / "autoscale.json"
        path.write_text(json.dumps(day.config))
        path.chmod(0o600)
        cli.main(["replay", "-c", str(path)])
    assert " 0 different" in capsys.readouterr().out
