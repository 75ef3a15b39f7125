"""The parser of command lines: what is wrong with one is said in one line, with a guess.

argparse prints its usage before each error, which for a parser with many commands fills the screen.
Called by `parsing.create_arg_parser`, `hpcq` and the simulator.
"""

from __future__ import annotations

import math
import sys
from argparse import (
    Action,
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    HelpFormatter,
    Namespace,
)
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from hpc.autoscale.cli.painting import text_width
from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.plaintext import on_one_line

# what argparse says where something is missing, before the names of what is
_MISSING = "the following arguments are required: "
_NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}


class CommandParser(ArgumentParser):
    """A parser with a sub-command for each name in `commands`, or of one of these commands.

    `missing_config` is what to say when a command needs a configuration and has none.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._names: list[str] = []
        self._given: list[str] = []
        kwargs.setdefault("formatter_class", _readable_help)
        super().__init__(*args, **kwargs)
        self.commands: dict[str, CommandParser] = {}
        self.missing_config = "these options are required: --config/-c"

    def add_argument(self, *args: Any, **kwargs: Any) -> Action:
        """Add an option or an argument, and remember its names for guesses."""
        action = super().add_argument(*args, **kwargs)
        self._names += action.option_strings
        return action

    def print_help(self, file: Any = None) -> None:
        """Print the help. OSError where it cannot be written, which argparse passes over."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and exit with code 2."""
        if message.startswith(_MISSING):
            message = self._said_of_missing(message.removeprefix(_MISSING).split(", "))
        self.exit(2, on_one_line(f"{self.prog}: error: {message}") + "\n")

    # argparse declares this twice over, for namespaces of other types
    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """The options of a command line; ends the process with one line when it is wrong."""
        found, extra = self.parse_known_args(args, namespace)
        of_command = self.commands.get(getattr(found, "cmd", ""), self)
        extra = of_command._take_late(found, extra)
        if extra:
            name = extra[0].partition("=")[0]
            if of_command is not self and name in self._names:
                of_command.error(f"option {name!r} goes before the command")
            of_command._refuse(extra[0])
        if getattr(found, "needs_config", False) and found.config is None:
            of_command.error(self.missing_config)
        return found

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Namespace, list[str]]:
        """The options that are known, and the rest; an unknown command ends the process."""
        self._given = given = list(sys.argv[1:] if args is None else args)
        if self.commands:
            self._check_command(given)
        known: tuple[Namespace, list[str]] = super().parse_known_args(given, namespace)
        return known

    def _said_of_missing(self, names: Sequence[str]) -> str:
        """What to say when arguments and options, named as argparse names them, are missing."""
        by_name = {a.metavar or a.dest: a for a in self._actions if not a.option_strings}
        options = [name for name in names if name not in by_name]
        said = [f"these options are required: {', '.join(options)}"] if options else []
        for name in names:
            if (action := by_name.get(name)) is None:
                continue
            about = f" ({action.help})" if action.help else ""
            said.append(f"expected {_one_of(action) or f'{name}{about}'}, found none")
        return "; ".join(said)

    def _take_late(self, found: Namespace, words: list[str]) -> list[str]:
        """Give words behind options to the arguments that may be left out, as in `journal show
        --last 3 directory`: argparse gives them nothing when the first word has come. The result
        is what is left of the words."""
        free = [
            action
            for action in self._actions
            if not action.option_strings
            and action.nargs == "?"
            and getattr(found, action.dest, None) is action.default
        ]
        left = list(words)
        while free and left and not left[0].startswith("-"):
            action = free.pop(0)
            try:
                setattr(found, action.dest, self._get_values(action, [left.pop(0)]))
            except ArgumentError as problem:
                self.error(str(problem))
        return left

    def _check_command(self, given: Sequence[str]) -> None:
        """Refuse a command line whose command is unknown, or has a stranger before it."""
        words = iter(given)
        for word in words:
            if not word.startswith("-"):
                if word not in self.commands:
                    guess = did_you_mean(word, self.commands)
                    self.error(
                        f"there is no command {word!r}{guess} ({self.prog} --help lists them)"
                    )
                return
            name, has_value, _ = word.partition("=")
            if word in self._names:
                if self._option_string_actions[word].nargs is None:  # the next word is its value
                    next(words, None)
            elif word[:2] not in self._names and not (has_value and name in self._names):
                some = next(iter(self.commands.values()))
                if name in some._names:
                    self.error(f"option {word!r} goes behind the command")
                self._refuse(word)

    def _refuse(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            self.error(f"there is no place for {word!r} ({self.prog} --help says what there is)")
        name = word.partition("=")[0]
        if name in self._names:
            self.error(f"there is no place for {word!r} behind --, where nothing is an option")
        # dashes alone make no two names alike
        is_close = did_you_mean(name.lstrip("-"), [each.lstrip("-") for each in self._names])
        guess = did_you_mean(name, self._names) if is_close else ""
        self.error(f"there is no option {name!r}{guess}")

    def _get_value(self, action: Action, arg_string: str) -> Any:
        parse: Any = action.type
        if parse not in _NUMBERS:
            return super()._get_value(action, arg_string)
        try:
            return parse(arg_string)
        except ValueError:
            raise ArgumentError(
                action, f"expected {_NUMBERS[parse]}, found {arg_string!r}"
            ) from None

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            for word in () if action.option_strings else self._given:
                # what an unknown option was given is none of the choices
                if word.startswith("--") and word.partition("=")[0] not in [*self._names, "--"]:
                    self._refuse(word)
            guess = did_you_mean(str(value), map(str, action.choices))
            raise ArgumentError(action, f"expected {_one_of(action)}, found {value!r}{guess}")


def _one_of(action: Action) -> str:
    """What an argument may be, in words; empty where it may be anything."""
    *most, last = list(map(str, action.choices)) if action.choices else [""]
    return f"{', '.join(most)} or {last}" if most else last


def number_type(expected: str, may_be: Callable[[float], bool]) -> Callable[[str], float]:
    """A type for options that are numbers. It raises ArgumentTypeError for what is no number, and
    where `may_be` is false, as it has to be for NaN. `expected`: what the message calls these
    numbers."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not may_be(number):
            raise ArgumentTypeError(f"expected {expected}, found {text!r}")
        return number

    return parse


def count_type(text: str) -> int:
    """The type of options that are a count or the number of something, from 1 on."""
    return _whole(text, 1, "a whole number above 0")


def amount_type(text: str) -> int:
    """The type of options that are a count of something of which there may be none."""
    return _whole(text, 0, "a whole number of 0 or more")


def _whole(text: str, least: int, expected: str) -> int:
    # Python refuses to read numbers of some thousands of digits
    if not (text.isascii() and text.isdigit() and len(text) < 100 and int(text) >= least):
        raise ArgumentTypeError(f"expected {expected}, found {text!r}")
    return int(text)


seconds_type = number_type("a number of seconds, 0 or more", lambda seconds: seconds >= 0)
"""The type of options that are seconds."""


def _readable_help(prog: str) -> HelpFormatter:
    """Writes help in lines that are not too long to read."""
    return HelpFormatter(prog, width=text_width() - 2)
