"""How options that several commands share are added to a parser. Called by `base`."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hpc.autoscale.cli.argtypes import parse_format, str_list
from hpc.autoscale.cli.completion import completed_by
from hpc.autoscale.job.demandprinter import OutputFormat


class NoteFormat(Action):
    """Hands an output format to `note`, and to no command."""

    def __init__(
        self, option_strings: Sequence[str], note: Callable[[OutputFormat], None], **known: Any
    ) -> None:
        # without a dest there is no name that the help could show in the place of the value
        shown = {"dest": SUPPRESS, "metavar": "OUTPUT_FORMAT"}
        super().__init__(option_strings, **{**known, **shown})
        self._note = note

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, *_: Any) -> None:
        self._note(values)


def add_format(
    parser: ArgumentParser, formats: Sequence[OutputFormat], by_default: str, **how: Any
) -> None:
    """Add -F/--output-format with these formats. `by_default`: what the help calls so; `how`: more
    about the argument."""
    which = f"{', '.join(formats[:-1])} or {formats[-1]}" if formats[1:] else formats[0]
    completed_by(
        lambda *_, **__: list(formats),
        parser.add_argument(
            "--output-format",
            "-F",
            type=partial(parse_format, formats=formats),
            help=f"{which} (default {by_default})",
            **how,
        ),
    )


def add_names(
    parser: ArgumentParser, name: str, short: str, help_text: str, completer: Callable[..., Any]
) -> None:
    """Add an option that takes names, separated by commas."""
    option = parser.add_argument(name, short, type=str_list, default=[], help=help_text)
    completed_by(completer, option)
