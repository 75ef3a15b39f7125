"""Figures of the passes of a loop, for those who watch it: a file for node_exporter, and a health
file. Both are written anew after each real pass, each whether the other can be or not. What goes
wrong with that fails no pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpc.autoscale.config.clusters import names_of
from hpc.autoscale.errors import one_line
from hpc.autoscale.wholefiles import unwritable, write_whole

if TYPE_CHECKING:
    from hpc.autoscale.journal.recording import PassRecorder

SECTION = "metrics"


def is_wanted(config: Mapping[str, Any]) -> bool:
    """Whether the configuration names a file."""
    section = config.get(SECTION)
    return isinstance(section, Mapping) and any(map(section.get, ("file", "health_file")))


def write_figures(
    config: Mapping[str, Any], recorder: PassRecorder, did: Mapping[str, Any]
) -> list[str]:
    """Write the files after a pass that did this. Which of them cannot be written, and why."""
    from hpc.autoscale.journal.records import status_of
    from hpc.autoscale.metrics import exposition, families
    from hpc.autoscale.metrics.health import Health, HealthError, read_health

    problems: list[str] = []
    section = config[SECTION]
    health: Health | None = None
    if section.get("health_file"):
        try:
            before = read_health(section["health_file"])
        except HealthError:
            before = Health()  # there is none yet, or it begins anew
        health = before.after(recorder.at, did)
        try:
            health.write(section["health_file"])
        except HealthError as error:
            problems.append(one_line(error))
    if section.get("file"):
        lists = recorder.lists
        status = status_of(dict(zip(lists["status"].keys, lists["status"].values, strict=True)))
        known = {**did, "unsatisfied": lists["unsatisfied"].keys}
        jobs = len(lists["jobs"].keys)
        found = families.of_pass(recorder.at, lists["nodes"].values, jobs, known, status)
        if health is not None:
            found += families.of_health(health)
        found = families.of_clusters(names_of(config), found)
        try:
            write_whole(section["file"], exposition.text_of(found), 0o644)
        except OSError as error:
            problems.append(f"metrics {section['file']}: {unwritable(error)}")
    return problems
