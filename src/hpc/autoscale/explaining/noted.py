"""What the engine has noted of jobs that wait, in the sentences of verdicts.

For journals, which have nothing but what was noted: neither the job as it was compiled, nor the
buckets. Where there are both, `waiting` says more. Called by those who show journals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import counted, did_you_mean
from hpc.autoscale.explaining.codes import CODES, OF_BACKOFF
from hpc.autoscale.explaining.limit_words import (
    limit_in_words,
    name_of_limit,
    reason_in_words,
    tried_in_words,
)
from hpc.autoscale.explaining.refusals import SAID
from hpc.autoscale.explaining.words import (
    ASKED_BUCKET,
    a_property,
    away_in_words,
    listed,
    without_codes,
)
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.packing.limits import Limit
from hpc.autoscale.results.verdicts import Stand
from hpc.autoscale.shown import Shown, Unit

NOT_KNOWN = "not worked out"
"""What is said where nothing was noted."""

_NAMED = 5
_PART = re.compile(
    r"(?P<code>[A-Za-z][A-Za-z()]+): (?P<bucket>NodeBucket\([^)]*\)|Node\[[^]]*\]) (?P<said>.*?)"
    r"(?: \(and \d+ more alike\))?"
)
# names are whatever users call their resources, and may have quotes in them
_TOO_LITTLE = re.compile(r"has (\S+) of ['\"](.+)['\"], and (.+) is needed")
_LACKS = re.compile(r"has no resource ['\"](.+)['\"]")
_OTHER = re.compile(r"has (.+?) = (.+), and (.+) is needed")
_ROOM = re.compile(r"Bucket\(([^,]*), (.*)\) can take (\d+) new nodes?, and (\d+) \w+ planned")
_GATHERS = re.compile(r"(the gang has \d+ of \d+ nodes|gang .+ came short) in .*")
_AWAY = re.compile(away_in_words(r"\S+"))
_QUOTED = re.compile(r"'([^']*)'")
_IN_BUCKET = {name: re.compile(rf"[(, ]{name}=([^,)]*)") for name in ("nodearray", "vm_size")}
_GUESS = re.compile(r"; did you mean '[^']*'\?")
_NO_ROOM = "has no room for a new node: "
_TOGETHER = "that must go together"
_GANG = re.compile(
    rf"could take (\d+) of the (\d+ \w+) {_TOGETHER}(?:: NoCapacity: {_NO_ROOM}(.*))?"
)
# what kept a gang out of a bucket other than limits is said as of any other job
_GANG_NOWHERE = re.compile(
    r"GangTooLarge: (NodeBucket\([^)]*\)) could take"
    rf" (?:0 of the \d+ \w+ {_TOGETHER}: (?!NoCapacity)"
    rf"|\d+ of the \d+ \w+ {_TOGETHER}: (?=NodesFull))([A-Za-z]+): "
)
_NO_NODE = re.compile(r"has no node whose (?:node\.)?(.+)")
_USE = re.compile(
    r"(?P<name>.+) has (?P<nodes>(?P<used>\d+) of (?P<most>\d+) nodes?)?(?: and )?"
    r"(?P<cores>\d+ of \d+ cores?)? in use(?: or planned"
    r" \((?P<nodes_planned>\d+ nodes?)?(?: and )?(?P<cores_planned>\d+ cores?)? planned\))?"
)
_RESTS = re.compile(
    r"(?P<name>.+) is in back-off \((?P<kind>\w+)(?:, (?P<streak>\d+) nodes in a row)?\),"
    r" (?:for (?P<seconds>\d+) s more|tried (?:with (?P<few>\d+) at a time|by nodes that boot))"
    r"(?:, and \d+ planned)?: (?P<said>.*)"
)
_ASKED = "nothing can take "
_ALTERNATIVES = " satisfies none of "
_BEGINS = re.compile(rf"[A-Za-z][A-Za-z()]+: NodeBucket\(|{_ASKED}|… ")
_NOUNS = {"vm_size": "VM size"}


class NotedCause(NamedTuple):
    """A cause: its code, as verdicts have it, and its sentence. `tried`: of what is in back-off,
    what has failed, however often and whenever it is tried again."""

    code: str
    text: str
    tried: str = ""

    @property
    def is_never(self) -> bool | None:
        """Whether time alone does not help; None for gangs that a limit leaves too little room:
        what it would leave them when nothing else runs was not noted."""
        if self.text.endswith(_TOGETHER):
            return None
        return CODES[self.code].stand is Stand.NEVER


@dataclass
class JobsByCause:
    """Why jobs wait: the cause, how many jobs, and the first of them by name."""

    cause: NotedCause
    jobs: int
    names: list[str]


def causes_noted(
    jobs: Iterable[Mapping[str, Any]], set_aside: Iterable[Mapping[str, Any]] = ()
) -> list[JobsByCause]:
    """The causes of jobs as a journal has them, those of most jobs first. `set_aside`: those that
    could not be looked at."""
    found: dict[NotedCause, JobsByCause] = {}

    def add(cause: NotedCause, job: Mapping[str, Any]) -> None:
        each = found.setdefault(cause, JobsByCause(cause, 0, []))
        each.jobs += 1
        if len(each.names) < _NAMED:
            each.names.append(str(job.get("job")))

    known: dict[tuple[object, object], NotedCause] = {}
    for job in jobs:
        noted = (job.get("reason"), job.get("limit"))
        if noted not in known:
            known[noted] = nearest_noted(*noted)
        add(known[noted], job)
    for job in set_aside:
        add(aside_noted(job), job)
    return sorted(found.values(), key=lambda each: -each.jobs)


def aside_noted(job: Mapping[str, Any]) -> NotedCause:
    """The cause of a job that could not be looked at."""
    return NotedCause("SetAside", " ".join(str(job.get("reason") or NOT_KNOWN).split()))


def nearest_noted(reason: object, limit: object = None) -> NotedCause:
    """The cause that is nearest to be lifted, of a reason and the limits that were noted with
    it."""
    said = " ".join(str(limit or reason or "").split())
    if not said:
        return NotedCause("Unexplained", NOT_KNOWN)
    said = re.sub(ASKED_BUCKET, r"NodeBucket(nodearray=\1, vm_size=\2)", _GUESS.sub("", said))
    parts = _parts(_GANG_NOWHERE.sub(r"\2: \1 ", said))
    found = list(map(_limit, parts)) if limit else list(_causes(parts))
    # of those that are as near, the first
    return min(found, key=lambda each: (bool(each.is_never), CODES[each.code].nearness))


def _parts(said: str) -> list[str]:
    """What was noted of one bucket or limit each; what is said of alternatives is one part."""
    parts: list[str] = []
    for part in said.split("; "):
        if parts and _ALTERNATIVES in parts[-1] and not _BEGINS.match(part):
            parts[-1] += f"; {part}"
        else:
            parts.append(part)
    return parts


def _limit(part: str) -> NotedCause:
    if _AWAY.fullmatch(part):
        return NotedCause("ClusterAway", part)
    if _GATHERS.fullmatch(part):
        return NotedCause("GangGathers", part)
    if room := _ROOM.fullmatch(part):
        array, size, most, planned = room.groups()
        left = max(0, int(most) - int(planned))
        some = counted(left, "more node") if left else "no more nodes"
        return NotedCause("BucketLimit", f"CycleCloud has room for {some} of {array}/{size}")
    if rests := _RESTS.fullmatch(part):
        return _resting(rests)
    use = _USE.fullmatch(part)
    if use is None or limit_in_words(use["name"])[1] == use["name"]:
        return NotedCause("Unexplained", reason_in_words(part))
    # of both units only the one that it is out of, as in verdicts
    unit = "nodes" if use["nodes"] and (use["used"] == use["most"] or not use["cores"]) else "cores"
    code, called = name_of_limit(Limit(use["name"]), unit)
    planned = use[f"{unit}_planned"]
    more = f" or planned ({planned} planned)" if planned else ""
    return NotedCause(code, f"{called} has {use[unit]} in use{more}")


def _resting(rests: re.Match[str]) -> NotedCause:
    """What was tried and failed, and when it was to be tried again; the size and the place of it in
    small letters, as they were noted."""
    what = _what_rests(rests["name"])
    tried = tried_in_words(rests["kind"], what, int(rests["streak"] or 1))
    few = counted(int(rests["few"]), "node") if rests["few"] else "nodes that boot"
    again = f"tried again with {few} first"
    if rests["seconds"]:
        again = f"next try in {rests['seconds']} s"
    said = "" if rests["said"] == "no message" else f"; message: {rests['said']}"
    code = OF_BACKOFF.get(rests["kind"], "CapacityBackoff")
    once = tried_in_words(rests["kind"], what, 1)
    return NotedCause(code, f"{tried}: {again}{said}", once)


def _what_rests(name: str) -> str:
    if name.startswith("Bucket("):
        return name[len("Bucket(") : -1].replace(", ", "/", 1)
    kind, _, rest = name.partition(" ")
    market = "" if kind == "Regular" else f"{kind.lower()} "
    if not rest.startswith("quota of "):
        return market + rest
    is_regional = " in " not in rest
    return f"the {market or ('core ' if is_regional else '')}{rest}"


def _causes(parts: Sequence[str]) -> Iterator[NotedCause]:
    by_code: dict[str, list[re.Match[str]]] = {}
    others = []
    for part in parts:
        match = _PART.fullmatch(part)
        if match is None:
            others.append(part)
        else:
            by_code.setdefault(match["code"], []).append(match)
    if "NoSuchNode" in by_code and by_code.keys() - {"NoSuchNode", "InvalidOption"}:
        # a bucket that has the node says what that lacks
        yield NotedCause(*SAID["NodesFull"])
        return
    if by_code.keys() == {"InvalidOption", "InsufficientResource"} and all(
        part.startswith(_ASKED) for part in others
    ):
        both = _found_nowhere(by_code["InvalidOption"], by_code["InsufficientResource"])
        if both:
            yield both
            return
    for code, found in by_code.items():
        make = _MADE_OF.get(code)
        if code == "GangTooLarge":
            yield _of_gangs(found)
        else:
            made = [] if make is None else make([m["said"] for m in found], len(by_code) == 1)
            yield from list(made) or [_single(code, found[0])]
    # what was asked for is no cause, unless nothing else was noted
    rest = [part for part in others if not part.startswith((_ASKED, "… "))]
    for part in rest or (() if by_code else others):
        yield _limit(part)


def _single(code: str, match: re.Match[str]) -> NotedCause:
    own, template = SAID.get(code, ("", ""))
    if own and "{" not in template:
        return NotedCause(own, template)
    said = match["said"]
    if own == "NeverAllowed":
        return NotedCause(own, template.format("", said))
    if said.startswith(_NO_ROOM):
        return _limit(said.removeprefix(_NO_ROOM))
    text = without_codes(reason_in_words(f"{match['bucket']} {said}"))
    return NotedCause(own or _CODES.get(code, "Unexplained"), text)


def _of_gangs(found: Sequence[re.Match[str]]) -> NotedCause:
    """Which limit leaves them too little room, where they would have most of it. What is planned
    under it may be their own nodes, so no figures of it are said."""
    tried = [(match, gang) for match in found if (gang := _GANG.fullmatch(match["said"]))]
    limited = [gang for _, gang in tried if gang[3]]
    if not limited:
        return NotedCause("BucketLimit", reason_in_words(found[0][0].partition(" (and ")[0]))
    room, wanted, why = max(limited, key=lambda gang: int(gang[1])).groups()
    cause = _limit(why)
    called = limit_in_words(why.partition(" can take ")[0])[1]
    if not _ROOM.fullmatch(why):
        called, has, _ = cause.text.partition(" has ")
        if not has:
            return cause
    return NotedCause(cause.code, f"{called} leaves room for {room} of the {wanted} {_TOGETHER}")


def _found_nowhere(
    others: Sequence[re.Match[str]], small: Sequence[re.Match[str]]
) -> NotedCause | None:
    """Where the job wants a nodearray or a VM size, and the buckets that are too small, as far as
    they were named, are of another one: none has that and is as large. How large those of it are,
    if there are any, was not noted. None where some are of it."""
    for name, _has, wanted in _read(_OTHER, [match["said"] for match in others]):
        name = name.removeprefix("node.")
        values = _QUOTED.findall(wanted)
        if name not in _IN_BUCKET or not values:
            continue
        # of a machine that cannot be ordered only the name was noted
        buckets = [each for match in small if not (each := match["bucket"]).startswith("Node[")]
        is_of = [_IN_BUCKET[name].search(bucket) for bucket in buckets]
        if any(found is None or found[1] in values for found in is_of):
            continue
        for _has, resource, needed in _read(_TOO_LITTLE, [match["said"] for match in small]):
            text = (
                f"no node has the {_NOUNS.get(name, name)} {wanted} and {_shown(needed)} {resource}"
            )
            return NotedCause("UnknownValue", text)
    return None


def _too_large(texts: Sequence[str], _are_all: bool) -> Iterator[NotedCause]:
    most: dict[tuple[str, str], list[str]] = {}
    for has, name, needed in _read(_TOO_LITTLE, texts):
        most.setdefault((name, needed), []).append(has)
    for (name, needed), every in most.items():
        largest = _shown(max(every, key=_number))
        text = f"the job needs {_shown(needed)} {name} on one node, and the largest has {largest}"
        yield NotedCause("TooLarge", text)


def _lacking(texts: Sequence[str], are_all: bool) -> Iterator[NotedCause]:
    names = list(dict.fromkeys(name for (name,) in _read(_LACKS, texts)))
    for name in names:
        if are_all and len(names) == 1:
            yield NotedCause(
                "UnknownResource", f"no node has a resource {name!r}{a_property(name)}"
            )
        else:
            yield NotedCause("OtherValue", f"new nodes have no {name}")


def _no_such_node(texts: Sequence[str], _are_all: bool) -> Iterator[NotedCause]:
    for (name,) in dict.fromkeys(_read(_NO_NODE, texts)):
        yield NotedCause("NoSuchNode", f"there is no node whose {name}")


def _other_value(texts: Sequence[str], are_all: bool) -> Iterator[NotedCause]:
    found: dict[tuple[str, str], dict[str, None]] = {}
    for name, has, wanted in _read(_OTHER, texts):
        found.setdefault((name.removeprefix("node."), wanted), {})[has] = None
    for (name, wanted), values in found.items():
        bare = wanted.strip("'")
        if are_all and name == "vm_size" and bare in vm_sizes.all_possible_vm_sizes():
            yield NotedCause("UnknownValue", f"no nodearray has the VM size {bare}")
        elif are_all and len(found) == 1:
            guess = did_you_mean(bare, [value.strip("'") for value in values])
            has = guess or f"; nodes have {listed(values)}"
            yield NotedCause(
                "UnknownValue", f"no node has the {_NOUNS.get(name, name)} {wanted}{has}"
            )
        elif name == "nodearray":
            yield NotedCause("OtherNodearray", f"the job wants nodearray {wanted}")
        else:
            text = f"{name} is {listed(values)}, and the job wants {wanted}"
            yield NotedCause("OtherValue", text)


_MADE_OF: Mapping[str, Callable[[Sequence[str], bool], Iterator[NotedCause]]] = {
    "InsufficientResource": _too_large,
    "UndefinedResource": _lacking,
    "InvalidOption": _other_value,
    "NoSuchNode": _no_such_node,
}
_CODES = {
    "CapacityFailureBackoff": "CapacityBackoff",
    "CompoundFailure": "NoAlternative",
    "InsufficientCapacity": "BucketLimit",
    "SharedLimitReached": "PoolEmpty",
}


def _read(form: re.Pattern[str], texts: Iterable[str]) -> Iterator[tuple[str, ...]]:
    for text in texts:
        match = form.fullmatch(text)
        if match is not None:
            yield match.groups()


def _number(text: str) -> float:
    try:
        return float(ht.Size.value_of(text).bytes)
    except ValueError:
        return 0.0


def _shown(text: str) -> str:
    """An amount; journals of older versions have many bytes as 8.58993e+09b."""
    is_odd = "e+" in text and text.endswith("b")
    return str(Shown(_number(text), Unit(1, "b"))) if is_odd else text
