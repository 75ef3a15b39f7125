"""Prints all that is said of drawn sites, one thing a line: to be run in a process of its own, see
`test_told_the_same`.

`python -m builders.told_sites HOW FIRST LAST PASSES` runs in the directory where the files of the
sites are to be. HOW is one of `MEMORY`. Ids that are made up are counted, and times of the real
clock are left out.
"""

from __future__ import annotations

import gc
import gzip
import io
import itertools
import json
import logging
import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from builders.plan_queue import PlanCLI
from builders.plan_worlds import PlanWorld, WideWorld, truth
from hpc.autoscale.cli.autoscaling import PassIncomplete
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.cli.status import StatusCommands
from hpc.autoscale.journal import Journal
from hpc.autoscale.replaying import Replay

HOME = Path("told/site")
COLUMNS = ["name", "nodearray", "vm_size", "placement_group", "exists", "managed", "job_ids"]
QUESTIONS = (
    "idle_timeout=30",
    "packing.policy=cheapest",
    "autoscale.max_new_nodes_per_pass=1",
    "backoff.enabled=false",
    "nodearrays.default.max_placement_groups=1",
    "cluster.max_count=3",
)
_KEPT: list[object] = []


def _elsewhere() -> None:
    """Let objects have other addresses."""
    _KEPT.extend([bytes(size % 500) for size in range(60_001)])
    del _KEPT[::3]


MEMORY: Mapping[str, Callable[[], object]] = {
    "usual": lambda: None,
    "often": lambda: gc.set_threshold(50, 1, 1),
    "never": gc.disable,
    "elsewhere": _elsewhere,
}
"""What is done about the memory of the process."""


class ToldCLI(PlanCLI, StatusCommands):
    """The commands that are asked."""


class ToldSite(PlanWorld):
    """A site whose journal is written, and that locks nobody out."""

    @property
    def config(self) -> dict[str, Any]:
        return {**super().config, "lock_file": None, "journal": {}}


class WideToldSite(ToldSite, WideWorld):
    """The same with more than one cluster, most often; some of them are placed at least cost, some
    have hosts on premises."""

    def __init__(self, seed: int, home: Path) -> None:
        super().__init__(seed, home)
        draw = random.Random(f"all at once {seed}")
        if draw.random() < 0.4:
            cost = {"objective": "cost", "optimize_rounds": 3, "optimize_seconds": 60}
            self.settings.pop("weights", None)
            self.settings["packing"] = cost
        if draw.random() < 0.4:
            self.settings["on_premises"] = [
                {"name": name, "resources": {"ncpus": 4}, "start": ["true"], "stop": ["true"]}
                for name in ("rack-1", "rack-2")
            ]


def said(site: ToldSite, command: str, *args: Any, **more: Any) -> str:
    """What a command prints that changes nothing, and how it ends."""
    cli, out = ToldCLI(site.driver), io.StringIO()
    with site.time(), redirect_stdout(out), redirect_stderr(io.StringIO()):
        try:
            getattr(cli, command)({**site.config, "read_only": True}, *args, **more)
        except (SystemExit, PassIncomplete) as ended:
            print(repr(ended))
        finally:
            cli._unlock()
    return out.getvalue()


def views(site: ToldSite, draw: random.Random) -> Iterator[str]:
    """What is said of a moment."""
    yield said(site, "plan", output_format="json")
    yield said(site, "whatif", [draw.choice(QUESTIONS)], output_format="json")
    yield said(site, "status", output_format="json")
    yield said(site, "demand", COLUMNS, "json")
    jobs, nodes = list(site.queue.jobs), list(truth(site)["nodes"])
    some = [f"job:{name}" for name in draw.sample(jobs, min(1, len(jobs)))]
    some += [f"node:{name}" for name in draw.sample(nodes, min(1, len(nodes)))]
    for name in some:
        yield said(site, "explain", name, output_format="json")


def written() -> Iterator[str]:
    """What is in the files of a site, without times of the real clock and the process, and without
    what a writer keeps of where it is in them."""
    for path in sorted(each for each in HOME.parent.rglob("*") if each.is_file()):
        if path.name == "last-record":
            continue
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin1")
        text = re.sub(r'"steps":{[^}]*}|/pid:\[\d+\]/\d+', "", text)
        # the number of the process may be a part of another one, of cores for instance
        text = re.sub(rf"(?<!\d){os.getpid()}(?!\d)", "PID", text).replace(os.getcwd(), "HERE")
        yield f"{path}: {text}"


def told(site: ToldSite, seed: int, passes: int) -> Iterator[str]:
    """All that is said of a site, and of its journal."""
    draw = random.Random(f"told {seed}")
    for _ in range(passes):
        site.step()
        yield from views(site, draw)
        summary = site.run()
        yield repr([(job.name, job.missing, job.reason) for job in summary.unsatisfied])
        yield repr(truth(site))
    yield from written()
    journal = str(HOME / "journal")
    with redirect_stdout(out := io.StringIO()):
        main(["journal", "scrub", journal, "--to", str(HOME / "scrubbed")])
        main(["report", journal, "--out", "-"])
    yield out.getvalue()
    yield from written()
    with Replay() as replay:
        yield repr([each.differences for each in replay.passes(Journal(journal))])


def run(how: str, first: int, last: int, passes: int) -> None:
    """Print all of some sites: every other one is wide."""
    logging.disable(logging.CRITICAL)
    numbers = itertools.count(1)
    setattr(os, "urandom", lambda n: next(numbers).to_bytes(16, "big")[-n:])  # noqa: B010
    MEMORY[how]()
    for seed in range(first, last):
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        site = ToldSite(seed, HOME) if seed % 2 else WideToldSite(seed, HOME)
        for text in told(site, seed, passes):
            print(json.dumps([seed, text]))


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:5]))
