"""What a job is: its description, its elements, and their states.

A job has one element or, as an array, many. An element is what runs; it is named by the job's id,
and in an array also by its index, as in `17.3`. Inside, elements are counted from 0 by position.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import NoneType
from typing import Any

from hpc.autoscale.errors import did_you_mean
from hpc_queue.errors import QueueError

MOST_RETRIES = 30
MOST_ELEMENTS = 10_000_000
MOST_TEXT = 1 << 20
"""Bytes of a script."""
LONGEST_NAME = 200
_MOST_OF_ANYTHING = 1e9
PRIORITIES = range(10)
DEFAULT_PRIORITY = 4
KINDS = ("script", "argv", "call")
_KINDS_OF_FIELDS: tuple[tuple[str, tuple[type, ...], tuple[str, ...]], ...] = (
    ("a text", (str,), ("name", "queue", "definition")),
    ("a whole number", (int,), ("retries", "priority", "count", "first", "step")),
    ("a number", (int, float), ("seconds",)),
    ("a number or None", (int, float, NoneType), ("cpus", "memory")),
    ("a whole number or None", (int, NoneType), ("gpus",)),
    ("a list of ids of jobs", (list, tuple), ("after",)),
    ("texts by texts", (Mapping,), ("command", "replacements")),
)


class State(IntEnum):
    """What has become of an element. The numbers are those of the scripts."""

    Waiting = 0
    Running = 1
    Successful = 2
    Failed = 3
    Error = 4
    Cancelled = 5

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self > State.Running

    @staticmethod
    def named(text: str) -> State:
        """The state of this name, in any case of letters. QueueError for another text."""
        names = {state.name.lower(): state for state in State}
        if text.lower() not in names:
            known = [state.name for state in State]
            raise QueueError(
                f"expected a state ({', '.join(known)}), found {text!r}{did_you_mean(text, known)}"
            )
        return names[text.lower()]


@dataclass(frozen=True)
class JobSpec:
    """What somebody submits.

    `command` has one of three keys: `script`, the text of a script; `argv`, a program with its
    arguments, which no shell sees; `call`, a Python callable as `module:function`, which may have
    `args` beside it. `queue` is a label. An array has `count` elements whose indices are `first`,
    `first + step`, and so on. `after` are ids of jobs: elements wait until these have succeeded, or
    merely ended with `after_any`. `seconds` is how long an element may run, 0 for no limit.
    `replacements` are texts that are replaced in a script, or in each word of a program.
    """

    name: str
    command: Mapping[str, Any]
    queue: str = "default"
    definition: str = "default"
    retries: int = 3
    retry_failed: bool = False
    priority: int = DEFAULT_PRIORITY
    count: int = 1
    first: int = 1
    step: int = 1
    is_array: bool = False
    after: Sequence[str] = ()
    after_any: bool = False
    seconds: float = 0.0
    cpus: float | None = None
    memory: float | None = None
    gpus: int | None = None
    reuse_workdir: bool = False
    replacements: Mapping[str, str] = field(default_factory=dict)

    def checked(self) -> JobSpec:
        """This specification; QueueError when it makes no sense."""
        for problem in self._problems():
            raise QueueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        yield from self._misfits()
        yield from self._command_problems()
        if not 0 < self.count <= MOST_ELEMENTS:
            yield f"expected 1 to {MOST_ELEMENTS} elements in a job, found {self.count}"
        if not 0 <= self.retries <= MOST_RETRIES:
            yield f"expected 0 to {MOST_RETRIES} retries, found {self.retries}"
        if self.priority not in PRIORITIES:
            yield f"expected a priority of 0 to 9 (9 goes first), found {self.priority}"
        if self.step == 0:
            yield "expected a step other than 0 in an array"
        for other in self.after:
            if not (isinstance(other, str) and other.isascii() and other.isdigit()):
                yield f"expected ids of whole jobs in after, as '17', found {other!r}"
        yield from self._figures()

    def _misfits(self) -> Iterator[str]:
        for expected, kinds, names in _KINDS_OF_FIELDS:
            for name in names:
                found = getattr(self, name)
                if not isinstance(found, kinds) or isinstance(found, bool):
                    yield f"expected {expected} as {name} of a job, found {found!r}"
        yield from replacement_problems(self.replacements)

    def _command_problems(self) -> Iterator[str]:
        kinds = [kind for kind in KINDS if kind in self.command]
        if len(kinds) != 1:
            yield f"expected one of {', '.join(KINDS)} in a command, found {kinds or 'none'}"
            return
        for kind in ("script", "call"):
            if not isinstance(found := self.command.get(kind, ""), str):
                yield f"expected a text as {kind} of a command, found {found!r}"
        text = self._command_text()
        # an escaped backslash may stand before a u as well
        if "\\u0000" in text.replace("\\\\", "") or "\0" in self.name + self.queue:
            yield "expected text without NUL characters in a job, found one"
        size = len(str(self.command.get("script", text)).encode("utf-8", "surrogatepass"))
        if size > MOST_TEXT:
            yield f"expected a script of at most {MOST_TEXT} bytes, found {size}"

    def _command_text(self) -> str:
        try:
            return json.dumps(dict(self.command))
        except (TypeError, ValueError, RecursionError) as error:
            raise QueueError(f"expected a command that JSON can hold: {error}") from error

    def _figures(self) -> Iterator[str]:
        program = self.command.get("argv", ["-"])
        if not (isinstance(program, list | tuple) and program and program[0]):
            yield f"expected a program with its arguments, as after --, found {program!r}"
        for what in ("name", "queue", "definition"):
            if not 0 < (length := len(getattr(self, what))) <= LONGEST_NAME:
                yield f"expected a {what} of 1 to {LONGEST_NAME} characters, found {length}"
        for what, without in (
            ("seconds", ""),
            ("gpus", ""),
            ("cpus", "without --cpus an element takes one slot"),
            ("memory", "without --mem an element's is not counted"),
        ):
            amount = getattr(self, what)
            least = "above 0" if without else "of 0"
            if amount == 0 and without:
                yield f"expected {what} above 0, found 0: {without}"
            elif amount is not None and not 0 <= amount < _MOST_OF_ANYTHING:
                yield f"expected {what} {least} to less than {_MOST_OF_ANYTHING:g}, found {amount}"

    def demand_class(self) -> str:
        """The definition with what an element takes, as in `short|4||`: elements of one class are
        counted together."""
        taken = ("" if v is None else f"{v:g}" for v in (self.cpus, self.memory, self.gpus))
        return "|".join((self.definition, *taken))

    def to_json(self) -> str:
        """All of it as text."""
        return json.dumps(vars(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str | bytes) -> JobSpec:
        """What `to_json` has made a text of."""
        return JobSpec(**json.loads(text))

    def index_of(self, position: int) -> int:
        """The index of the element at a position."""
        return self.first + position * self.step

    def position_of(self, index: int) -> int:
        """The position of an index. QueueError when the array does not have it."""
        position, rest = divmod(index - self.first, self.step)
        if rest or not 0 <= position < self.count:
            last = self.index_of(self.count - 1)
            raise QueueError(f"expected an index of {self.first} to {last}, found {index}")
        return position


def replacement_problems(found: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with texts that are to be replaced by texts."""
    for old, new in found.items():
        if not (old and isinstance(old, str) and isinstance(new, str)) or "\0" in old + new:
            yield f"expected texts to replace by texts, found {old!r}: {new!r}"


@dataclass(frozen=True)
class ElementId:
    """Which job, and which index of its array; None for all of it."""

    job: str
    index: int | None = None

    @staticmethod
    def parse(text: str) -> ElementId:
        """An id as `17`, `17.3`, or as Cyclone prints it, `17--3`. QueueError for another text."""
        job, dot, index = text.strip().replace("--", ".").partition(".")
        if not job.isascii() or not job.isdigit() or len(job) > 18 or (dot and not _is_int(index)):
            raise QueueError(f"expected the id of a job, as 17 or 17.3, found {text!r}")
        return ElementId(str(int(job)), int(index) if dot else None)

    def __str__(self) -> str:
        return self.job if self.index is None else f"{self.job}.{self.index}"


def _is_int(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


Range = tuple[str, int, int]
"""Positions of one job: its id, the first, and the one after the last."""
