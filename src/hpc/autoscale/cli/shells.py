"""The command shell: Python with the cluster at hand, with history and completion."""

from __future__ import annotations

import code
import os
import sys
from argparse import REMAINDER, ArgumentParser
from collections.abc import Mapping
from types import CodeType, ModuleType
from typing import Any

from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.errors import AutoscaleError, unreadable
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.node import Node

BANNER = "ScaleLib Shell"
HISTORY_FILE = os.path.join("~", ".azurehpchistory")


class ReraiseAssertionInterpreter(code.InteractiveConsole):
    """A console out of which AssertionError and SyntaxError are raised, where others are only
    shown.

    With `reraise` False it shows those as well, as somebody who types would want it.
    """

    def __init__(
        self,
        locals: dict[str, Any] | None = None,
        filename: str = "<console>",
        reraise: bool = True,
    ) -> None:
        super().__init__(locals=locals, filename=filename)
        self.reraise = reraise

    def showtraceback(self) -> None:
        """Show the error that was raised, or raise an AssertionError on."""
        self._raise_if_wanted()
        super().showtraceback()

    def showsyntaxerror(self, filename: str | None = None, **kwargs: Any) -> None:
        """Show the SyntaxError, or raise it on."""
        self._raise_if_wanted()
        super().showsyntaxerror(filename, **kwargs)

    def _raise_if_wanted(self) -> None:
        problem = sys.exc_info()[1]
        if self.reraise and isinstance(problem, AssertionError | SyntaxError):
            raise problem


class ShellCommands(CommandLine):
    """The command shell."""

    def shell_parser(self, parser: ArgumentParser) -> None:
        """Options of shell."""
        parser.set_defaults(read_only=False)
        parser.add_argument("--script", "-s", help="run this file instead, with the same names")
        parser.add_argument("shell_args", nargs=REMAINDER, help="for the script, as shell_args")

    def shell(
        self, config: Config, shell_args: list[str] | None = None, script: str | None = None
    ) -> None:
        """Starts a Python shell, or runs a script, with the cluster, its nodes and jobs at hand."""
        shell_locals = self._setup_shell_locals(config)
        names = (Job, Memory, Size, Node, SchedulerNode, NodeBucket)
        for each in names:
            shell_locals.setdefault(each.__name__, each)
        shell_locals.setdefault("shell_args", shell_args or [])
        shell(config, shell_locals, script)


def shell(config: Mapping[str, Any], shell_locals: dict[str, Any], script: str | None) -> None:
    """Run a script with these names as globals, or let the user type."""
    if script:
        try:
            with open(script, "rb") as file:  # read once: a pipe gives what is in it once
                source = file.read()
        except OSError as problem:
            raise AutoscaleError(f"script {script}: {unreadable(problem)}") from problem
        _run(compile(source, script, "exec", dont_inherit=True), script, shell_locals)
        return
    history = _start_readline(shell_locals)
    console = ReraiseAssertionInterpreter(locals=shell_locals, reraise=False)
    try:
        console.interact(banner=BANNER, exitmsg="")
    finally:
        _save_history(history)


def _run(program: CodeType, script: str, names: Mapping[str, Any]) -> None:
    """Run a script as the main module, as Python does: dataclasses and pickle look there."""
    main = ModuleType("__main__")
    main.__dict__.update(names, __file__=script)
    before = sys.modules["__main__"], sys.argv[0]
    sys.modules["__main__"], sys.argv[0] = main, script
    try:
        exec(program, main.__dict__)  # noqa: S102  it is the script of who asks
    finally:
        sys.modules["__main__"], sys.argv[0] = before


def _start_readline(shell_locals: dict[str, Any]) -> int | None:
    """Offer completion over the names, and the lines of earlier shells.

    The result is how many such lines there are; None where Python has no readline.
    """
    try:
        import readline
        import rlcompleter
    except ImportError:
        return None
    readline.set_completer(rlcompleter.Completer(shell_locals).complete)
    readline.parse_and_bind("tab: complete")
    try:
        with open(os.path.expanduser(HISTORY_FILE), encoding="utf-8") as lines:
            for line in lines:
                readline.add_history(line.rstrip("\n"))
    except (OSError, ValueError):
        pass
    return readline.get_current_history_length()


def _save_history(known: int | None) -> None:
    """Append the lines that were typed in this shell, in a file for its owner alone."""
    if known is None:
        return
    import readline

    typed = [
        readline.get_history_item(index)
        for index in range(known + 1, readline.get_current_history_length() + 1)
    ]
    path = os.path.expanduser(HISTORY_FILE)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in typed if line)
    except OSError as problem:
        print(f"the history could not be kept in {path}: {problem}", file=sys.stderr)
