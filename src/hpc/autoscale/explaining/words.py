"""Words for verdicts: times, amounts of money, places, and what buckets are called when they are
many."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase

from hpc.autoscale import clock
from hpc.autoscale.errors import counted
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES
from hpc.autoscale.packing.amounts import is_amount
from hpc.autoscale.packing.expr import text_pattern

_MOST_NAMED = 3
_SIZE = re.compile(r"(?:(?:size|memory)::)?(\d+[kmgtpKMGTP])")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?")
_FEW_BYTES = 1_000_000  # no node has so little: more was meant
_SAY_WHEN = ("next try", "tried again in ", " left for the rest")
ASKED_BUCKET = r"\bBucket\[array=(\S+) vm_size=([^ \]]+)[^\]]*\]"
"""A bucket as constraints name it that are asked by their methods: its nodearray and VM size."""
ASKED_NODE = r"Node\[name=(.+?)(?: attr=[^\]]+)?\]"
"""A node as they name it, such as a host on premises: its name."""

_CODE = re.compile(r"\b(?:[A-Z][a-z]+){2,}: ")


def in_time(seconds: float) -> str:
    """A time span for people: `40 s`, `4 min`, `2.5 h`, `3 days`. It is never said to be shorter
    than it is by more than a half of its unit."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172800:
        return f"{round(seconds / 3600, 1):g} h"
    return f"{seconds / 86400:.0f} days"


_CLOCKS_DIFFER = 5.0


def lies_ahead(age: float) -> bool:
    """Whether what is so many seconds old lies ahead, as after a clock was put back; by a few
    seconds clocks differ anyway."""
    return age < -_CLOCKS_DIFFER


def ago(seconds: float) -> str:
    """How long ago something was: `4 min ago`."""
    if lies_ahead(seconds):
        return f"{in_time(-seconds)} ahead of the clock, which was put back"
    return f"{in_time(seconds)} ago"


def at_time(when: float) -> str:
    """A unix time that lies ahead: `in 4 min (14:03:20 UTC)`."""
    return f"in {in_time(when - clock.time())} ({_on_the_clock(when)})"


def with_next_try(said: str, until: float | None) -> str:
    """A sentence with when it is tried again, where that is known and not in it yet."""
    if until is None or any(word in said for word in _SAY_WHEN) or _on_the_clock(until) in said:
        return said
    return f"{said}; next try {at_time(until)}"


def _on_the_clock(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%H:%M:%S UTC")


def per_hour(price: float | None) -> str:
    """US dollars for an hour; `price not known` for None."""
    return "price not known" if price is None else f"${price:.2f}/h"


def listed(names: Iterable[object]) -> str:
    """Names in one line, the first few of many."""
    every = list(dict.fromkeys(map(str, names)))
    more = len(every) - _MOST_NAMED
    return ", ".join(every) if more <= 0 else f"{', '.join(every[:_MOST_NAMED])} and {more} more"


def away_in_words(cluster: str) -> str:
    """What is said of one of several clusters that is set aside."""
    return f"cluster {cluster} does not answer"


def a_property(name: str) -> str:
    """A guess, in the form of `did_you_mean`, where a resource that no node has is called like a
    property of nodes; otherwise empty."""
    return f"; did you mean 'node.{name}'?" if name in QUERYABLE_PROPERTIES else ""


def an_amount(name: str, wanted: Iterable[object], values: Iterable[object]) -> str:
    """What to ask for, in the form of `did_you_mean`, where the nodes have amounts, which values of
    another kind never equal: texts, and numbers where they have sizes, which are bytes for a
    property. `name`: as in the constraint. Empty where amounts are not in question."""
    has, is_property = list(values), name.startswith("node.")
    sized = any(isinstance(value, Size) for value in has)
    numbers = any(map(is_amount, has)) or (sized and not is_property)
    for each in wanted:
        if numbers and isinstance(each, str) and _NUMBER.fullmatch(each):
            number = json.dumps({name: json.loads(each)})
            return f"; no text equals a number: without quotes it is {number}"
        if sized and isinstance(each, str) and (found := _SIZE.fullmatch(each)):
            least = {"memgb" if is_property else name: f"memory::{found[1]}"}
            return f"; no text equals a size: for at least {found[1]} it is {json.dumps(least)}"
        if sized and is_property and is_amount(each) and 0 < each < _FEW_BYTES:
            least_gb = json.dumps({"memgb": each})
            return f"; {name} is in bytes: for at least {each:g} GiB it is {least_gb}"
    return ""


def how_jobs_wait(count: int, names: Sequence[str], is_never: bool | None, cause: str) -> str:
    """The one line on jobs that wait for the same: `2 jobs (7, 8) wait: …`. `names`: those of the
    first of them. `is_never`: they cannot run whatever happens; None where that is not known."""
    more = ", …" if count > len(names) else ""
    waits = "waits" if count == 1 else "wait"
    how = {True: "can never run", False: waits, None: f"{waits} or can never run"}[is_never]
    return f"{counted(count, 'job')} ({', '.join(names)}{more}) {how}: {cause}"


def meant(word: str, known: Iterable[str]) -> list[str]:
    """Known words that a word that is none of them was probably meant for, the closest first: those
    that are the same in another letter case, or after a `Standard_`, then those with the same
    letters, and names in several clusters (`east/htc`) last. Of a shell pattern: those that it
    matches in another letter case, or after a `Standard_`."""
    words, folded = list(known), word.lower()
    same = (folded, f"standard_{folded}")
    if text_pattern(word) is not None:
        return [each for each in words if any(fnmatchcase(each.lower(), p) for p in same)]
    by_case: dict[str, list[str]] = {}
    for each in words:
        by_case.setdefault(each.lower(), []).append(each)
    near = [
        *same,
        *(each for each in by_case if sorted(each) == sorted(folded)),
        *get_close_matches(folded, by_case, n=3),
        *(each for each in by_case if folded and each.endswith(f"/{folded}")),
    ]
    return [each for name in dict.fromkeys(near) for each in by_case.get(name, ())]


def without_codes(text: str) -> str:
    """A text of the engine without the codes of refusals (`InsufficientResource: `) in it."""
    return _CODE.sub("", text)


def name_of(bucket: NodeBucket) -> str:
    """A bucket without its placement group: `htc/Standard_F4s_v2`."""
    return f"{bucket.nodearray}/{bucket.vm_size}"


def has_no_nodearray(bucket: NodeBucket) -> bool:
    """Whether it is of hosts that CycleCloud does not manage, and that are in no nodearray: the
    name that it has for one is ours."""
    return bucket.nodearray.startswith("__")


def names_of(buckets: Sequence[NodeBucket]) -> str:
    """Buckets in one phrase; placement groups of one nodearray and VM size are only counted."""
    named = [bucket for bucket in buckets if not has_no_nodearray(bucket)]
    if len(named) < len(buckets):
        own = "hosts that are not of CycleCloud"
        return f"{names_of(named)}, {own}" if named else own
    places = dict.fromkeys((str(b.nodearray), str(b.vm_size)) for b in buckets)
    groups = dict.fromkeys(b.placement_group for b in buckets if b.placement_group)
    arrays = list(dict.fromkeys(array for array, _ in places))
    sizes = counted(len({size for _, size in places}), "VM size")
    if len(places) == 1:
        said = "/".join(next(iter(places)))
    else:
        said = f"{listed(arrays)}, {sizes}"
    if len(groups) == 1 and len(buckets) == 1:
        return f"{said} in {next(iter(groups))}"
    return f"{said} ({counted(len(groups), 'placement group')})" if groups else said
