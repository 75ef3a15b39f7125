#!/usr/bin/env python3
"""Say what a queue needs, once. Meant for cron, every minute: see README.md.

The queue is a directory with a file for each job, waiting or running, whose first line says how
many cores it takes: `cores=4`, and a nodearray if it is not `execute`: `cores=4 nodearray=gpu`. In
your own script that would be a question to your queue.
"""

import sys
from collections import Counter
from pathlib import Path

import hpc.autoscale.jetpack as autoscale
from hpc.autoscale.errors import AutoscaleError


def main(directory: str, config: str | None = None) -> int:
    """Report what the jobs in a directory need; 0, or 1 when something is wrong."""
    try:
        arrays = needed(Path(directory))
    except (OSError, ValueError) as error:
        # nothing is reported then, so what was said last stands until it lapses
        print(f"{directory}: {error}", file=sys.stderr)
        return 1
    autoscale.configure(config)
    try:
        autoscale.update(arrays, request_set="cron")
    except AutoscaleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def needed(directory: Path) -> list[dict[str, object]]:
    """The complete wish: the cores of all jobs, by nodearray."""
    cores: Counter[str] = Counter()
    for path in sorted(directory.iterdir()):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue  # the job has just ended
        first = text.split("\n", 1)[0]
        words = dict(word.partition("=")[::2] for word in first.split())
        if not words.get("cores", "").isdecimal() or not all(words.values()):
            raise ValueError(f"{path.name}: expected a first line like cores=4, found {first!r}")
        cores[words.get("nodearray", "execute")] += int(words["cores"])
    return [{"Name": name, "TargetCoreCount": count} for name, count in sorted(cores.items())]


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
