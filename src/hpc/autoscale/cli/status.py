"""The command status: how the cluster stands, on one screen, once or live.

Only `azscale` has it. What is shown is found out by `standing` and made into lines by
`standing_text`; here it is asked for and printed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.autoscaler.learning import NewCalculator
from hpc.autoscale.ccbindings.pacing import wait_unless
from hpc.autoscale.cli.argparser import number_type
from hpc.autoscale.cli.autoscaling import stop_on_signals
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import can_draw, print_painted, screen_width
from hpc.autoscale.cli.parsing import CONFIGURED_LOCK, draws
from hpc.autoscale.cli.standing import Standing, look, look_at_loop
from hpc.autoscale.cli.standing_text import Line, head, screen, summary_line
from hpc.autoscale.errors import AutoscaleError, one_line_and_where
from hpc.autoscale.lockstate import LockState, lock_state
from hpc.autoscale.rehearsal import Rehearsal
from hpc.autoscale.tables import OutputFormat
from hpc.autoscale.util import json_dump

EVERY = 10.0
"""Seconds from look to look, unless somebody says otherwise."""

_PAINTED = {"title": "title", "bad": "go", "warn": "change", "faint": "faint", "plain": "plain"}
_STYLES = {"title": "bold", "bad": "red", "warn": "yellow", "faint": "dim", "plain": ""}


class Show(Protocol):
    """Shows the last look that worked, and what is wrong now, or nothing."""

    def __call__(self, standing: Standing | None, problem: str, /) -> None:
        """Show them."""

    def fit(self) -> None:
        """Show the same again where the place for it has another size by now."""


class StatusCommands(CommandLine):
    """The command status."""

    def status_parser(self, parser: ArgumentParser) -> None:
        """Options of status."""
        parser.add_argument(
            "--watch",
            "-w",
            type=number_type("1 to 86400 seconds", lambda given: 1 <= given <= 86400),
            nargs="?",
            const=EVERY,
            metavar="SECONDS",
            help=f"look again and again, with this pause (default {EVERY:g}), until Ctrl-C",
        )
        self._add_output_format(parser)

    @draws
    def status(
        self,
        config: Config,
        watch: float | None = None,
        output_format: OutputFormat | None = None,
    ) -> None:
        """Shows how the cluster stands on one screen: nodes, limits, jobs and why they wait,
        failures, cost, the last pass; --watch keeps looking."""
        if watch is None:
            try:
                standing = self._standing(config)
            except Exception:
                if output_format != "json":
                    self._print_head(config)
                raise
            self._print_status(standing, output_format)
            return
        # Ctrl-C may interrupt a look, which changes nothing, also while a server does not answer
        terminated = stop_on_signals((signal.SIGTERM,))
        with suppress(KeyboardInterrupt), terminated as stop, _shown(watch, output_format) as show:
            keep_looking(lambda: self._standing(config), show, watch, stop.is_set)

    def _standing(self, config: Config) -> Standing:
        def rehearsed(calculator: NewCalculator) -> Rehearsal:
            return self._rehearsed(
                config, new_calculator=calculator, result_handler=None, demand_only=True
            )

        home = self._state_home(config)

        def lock_now() -> LockState:
            return self._lock_now(config)

        return look(config, home, self._fresh_demand_calc, rehearsed, lock_now)

    def _lock_now(self, config: Config) -> LockState:
        """How the lock stands that a pass would take, which no command that only looks does."""
        default = os.path.join(self._state_home(dict(config)), "lock.file")
        path = config.get(CONFIGURED_LOCK, default)
        return lock_state(config, path, hooks.has_own_lock(self._driver(config)))

    def _print_status(self, standing: Standing, output_format: OutputFormat | None) -> None:
        if output_format == "json":
            json_dump(standing.to_dict(), sys.stdout)
            print()
            return
        _print_lines(screen(standing, screen_width()))

    def _print_head(self, config: Config) -> None:
        """Say what is known where the cluster or the scheduler does not answer: who holds the lock,
        and how the last pass ended. What keeps it from that is not worth saying, too."""
        with suppress(Exception):
            loop = look_at_loop(config, self._state_home(config), self._lock_now(config))
            _print_lines(head(loop, screen_width()))


def _print_lines(lines: Iterable[Line]) -> None:
    for line in lines:
        print_painted(line.whole, "plain" if line.beside else _PAINTED[line.style])


def keep_looking(
    look_again: Callable[[], Standing], show: Show, every: float, stop: Callable[[], bool]
) -> None:
    """Look and show until somebody stops it; a look that fails is shown and the next one made."""

    def is_stopped() -> bool:  # asked twice a second while nothing is looked at
        show.fit()
        return stop()

    last: Standing | None = None
    while not stop():
        problem = ""
        try:
            last = look_again()
        except Exception as error:  # noqa: BLE001  drivers are not ours; it may pass
            problem = one_line_and_where(error)
        show(last, problem)
        wait_unless(is_stopped, every, clock.sleep)


def _shown(every: float, output_format: OutputFormat | None) -> AbstractContextManager[Show]:
    """How looks are shown: live on a terminal, elsewhere as a plain line each; as a JSON object
    each for those who ask.

    AutoscaleError when what draws on terminals is not installed.
    """
    if output_format == "json":
        return _Lines(lambda standing: json.dumps(standing.to_dict(), default=str))
    if not can_draw(sys.stdout):
        return _Lines(summary_line)
    try:
        from hpc.autoscale.cli.live import LiveScreen
    except ImportError as error:
        raise AutoscaleError(
            "status --watch draws with rich, which is not installed: pip install"
            " 'hpc-autoscale[watch]', or without it: status --watch | cat"
        ) from error
    return LiveScreen(every, _STYLES)


class _Lines(AbstractContextManager[Show]):
    """A line for each look, as `line_of` has it."""

    def __init__(self, line_of: Callable[[Standing], str]) -> None:
        self._line_of = line_of

    def __enter__(self) -> Show:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is to be undone."""

    def fit(self) -> None:
        """Lines that are written stay as they are."""

    def __call__(self, standing: Standing | None, problem: str, /) -> None:
        """Print a line."""
        if problem:
            print(f"{clock.in_utc(clock.time())} {problem}", file=sys.stderr, flush=True)
        elif standing is not None:
            print(self._line_of(standing), flush=True)
