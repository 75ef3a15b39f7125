"""The errors that this library raises.

One small tree, so that a caller can catch `AutoscaleError` and know that it has everything the
library reports on purpose. Every error carries what it knows as attributes; its text says what was
expected, what was found and where. The published exception types of other modules
(ConfigurationException, MultipleInstancesError, …) belong to it too.
"""

import sys
from collections.abc import Iterable, Mapping
from reprlib import Repr
from types import UnionType
from typing import Any, TypeGuard

from hpc.autoscale.plaintext import on_one_line

# what was found may be large, or nested too deeply for repr
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_SHORT.maxlevel = 4
_DOING = "_azscale_was_doing"


class AutoscaleError(RuntimeError):
    """Base of every error that the library raises on purpose.

    Its text is one line, whatever a server or a scheduler has put into it; `args` has it as it
    came.
    """

    def __str__(self) -> str:
        return on_one_line(super().__str__())

    def in_words(self) -> str:
        """What people are told: the text, but for what is in it because programs look for it."""
        return str(self)


class CommandLineError(AutoscaleError):
    """A command line that makes no sense."""


class MistakenWord(CommandLineError):
    """A command line of a published command that makes no sense: it asks for what there is not, or
    has a value that cannot be. Command lines of integrations end with exit code 1 then, as ever."""


class ConfigurationException(AutoscaleError):
    """The configuration cannot be used: a file that cannot be read, a key that is unknown, a value
    of the wrong kind."""


class CircularIncludeError(ConfigurationException):
    """Configuration files include each other in a circle; the text shows the chain joined by ` --->
    `."""


class MultipleInstancesError(AutoscaleError):
    """Another process holds the lock."""


class LockUnusableError(MultipleInstancesError):
    """The lock file cannot be opened or locked, and no other process is to blame.

    It is a MultipleInstancesError because callers that catch that one must not go on without the
    lock.
    """


class ReadOnlyModeException(AutoscaleError):
    """A change was asked of something that was opened for reading only."""


class InvalidArgument(AutoscaleError, AssertionError):
    """An argument of a published function is of the wrong kind."""


class ConstraintError(AutoscaleError):
    """A constraint that cannot be understood.

    `path` is where it is in the expression, as in `or[1].ncpus`; `expected` and `found` say what is
    wrong there.
    """

    def __init__(self, expected: str, found: object, path: str = "", hint: str = "") -> None:
        self.path = path
        self.expected = expected
        self.found = found
        self.hint = hint
        where = f"{path}: " if path else ""
        super().__init__(f"{where}expected {expected}, found {_SHORT.repr(found)}{hint}")


class CycleCloudError(AutoscaleError):
    """Base of everything that can go wrong between this library and a CycleCloud server."""


def one_line(error: BaseException, is_published: bool = False) -> str:
    """An error as one line. Those made for people explain themselves; others are given with their
    type. `is_published`: with what is in the text because programs look for it."""
    said = text_of(error)
    if isinstance(error, AutoscaleError) and not is_published:
        said = error.in_words()
    text = on_one_line(" ".join(said.split()))
    if not text:
        return type(error).__name__
    return text if _explains_itself(error) else with_type(error)


def with_type(error: BaseException) -> str:
    """An error as one line behind its type, for where nothing else tells what it is about."""
    text = on_one_line(" ".join(text_of(error).split()))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """What an error says; nothing where it cannot, as its `__str__` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - it is the code of others
        return ""


def _explains_itself(error: BaseException) -> bool:
    return isinstance(error, AutoscaleError | OSError) or type(error) is RuntimeError


def while_doing(error: BaseException, what: str) -> None:
    """Note what was being done when code that is not ours raised an error that says nothing of
    that, such as KeyError, or FileNotFoundError of a command."""
    if isinstance(error, OSError) or not _explains_itself(error):
        # in a list, for a journal keeps the texts among the attributes of an error
        error.__dict__.setdefault(_DOING, [what])


def one_line_and_where(error: BaseException, known: str = "", is_published: bool = False) -> str:
    """An error as one line, behind what was being done, where that was noted. `known`: what is said
    of that anyway; `is_published`: as for `one_line`."""
    doing = "".join(vars(error).get(_DOING, ()))
    said = one_line(error, is_published)
    return f"{doing}: {said}" if doing and not known.startswith(doing) else said


def unreadable(error: OSError) -> str:
    """Why a file cannot be read, in words that follow the name of the file in a sentence."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"it cannot be read: {error.strerror or error}"


def check_kinds(where: str, kind: type | UnionType, **given: object) -> None:
    """InvalidArgument for the first of the arguments that is not of a kind: a type, or several as
    in `int | None`."""
    for what, value in given.items():
        if not isinstance(value, kind):
            said = kind.__name__ if isinstance(kind, type) else str(kind).replace(" | ", " or ")
            said = said.replace("collections.abc.", "")
            raise InvalidArgument(f"{where}: expected {what} to be {said}, found {value!r}")


def check_entries(where: str, kinds: Mapping[str, type | UnionType], d: Any) -> None:
    """InvalidArgument unless something is a mapping, and what it has under these keys is of their
    kinds."""
    check_kinds(where, Mapping, d=d)
    for key, kind in kinds.items():
        if key in d:
            check_kinds(where, kind, **{key: d[key]})


def check_has(where: str, name: str, **given: object) -> None:
    """InvalidArgument for the first of the arguments that has no attribute of a name."""
    for what, value in given.items():
        if not hasattr(value, name):
            raise InvalidArgument(
                f"{where}: expected {what} to have an attribute {name!r}, found {value!r}"
            )


def check_word(where: str, known: Iterable[str], **given: object) -> None:
    """InvalidArgument for the first of the arguments that is none of the words."""
    known = list(known)
    for what, value in given.items():
        if value not in known:
            hint = did_you_mean(value, known) if isinstance(value, str) else ""
            raise InvalidArgument(
                f"{where}: expected {what} to be one of {', '.join(known)}, found {value!r}{hint}"
            )


def check_numbers(where: str, **given: object) -> None:
    """InvalidArgument for the first of the arguments that is no number, as NaN is none."""
    for what, value in given.items():
        if not isinstance(value, int | float) or value != value:
            raise InvalidArgument(f"{where}: expected {what} to be a number, found {value!r}")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number that can be calculated with: one that floats can hold, unlike
    NaN, Infinity and very large integers; and no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max


def counted(count: int, noun: str) -> str:
    """A number with what it counts, as in `3 nodes`, `2 passes` and `1 node`."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}{'es' if noun.endswith(('s', 'sh')) else 's'}"


def did_you_mean(word: str, known: Iterable[object]) -> str:
    """The text `; did you mean 'x'?` for the closest known word, one with the same letters before
    others, whether they are capitals or not; where none is close, one that has this at its end
    after a slash, as names in several clusters have it; else empty. What is known and no text, as
    the name of a resource may be, is passed over."""
    from difflib import get_close_matches

    words: dict[str, str] = {}
    for each in known:
        if isinstance(each, str):
            words.setdefault(each.lower(), each)
    given = word.lower()
    close = get_close_matches(given, [w for w in words if sorted(w) == sorted(given)], n=1)
    close = close or get_close_matches(given, words, n=1)
    close = close or [w for w in words if given and w.endswith(f"/{given}")]
    return f"; did you mean {words[close[0]]!r}?" if close else ""
