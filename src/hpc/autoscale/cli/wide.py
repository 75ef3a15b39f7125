"""The words that -o/--output-columns takes beside names of columns, and the columns of `wide`."""

from __future__ import annotations

from collections.abc import Sequence

from hpc.autoscale.columns import parse_column

ALL = "all"
WIDE = "wide"
KEYWORDS = (ALL, WIDE)
WIDE_COLUMNS = (
    "name",
    "hostname",
    "state",
    "nodearray",
    "vm_size",
    "placement_group",
    "location",
    "spot",
    "price",
    "instance_id",
    "ccnodeid",
    "required",
    "job_ids",
    "ctr@create_time_remaining",
    "itr@idle_time_remaining",
)
"""What `wide` stands for beside the columns of the command."""
WIDE_BUCKET_COLUMNS = ("vm_family", "location", "spot", "price")
"""What `wide` stands for in commands that print buckets."""


def widened(columns: Sequence[str], by_default: Sequence[str], cmd: str) -> list[str]:
    """The columns, one of which is `wide`, with all usual ones in its place: those that the command
    `cmd` prints by default, and more. ValueError where none is `wide`."""
    more = WIDE_BUCKET_COLUMNS if cmd in ("buckets", "limits") else WIDE_COLUMNS
    usual = dict.fromkeys([*by_default, *more])
    shown = {parse_column(text).name for text in columns if text != WIDE}
    fresh: dict[str, str] = {}
    for text in usual:
        if (name := parse_column(text).name) not in shown:
            fresh.setdefault(name, text)
    at = list(columns).index(WIDE)
    rest = [text for text in columns[at + 1 :] if text != WIDE]
    return [*columns[:at], *fresh.values(), *rest]
