"""From an object's methods to a command line, and from a command line to a call.

Every public callable of the object is a sub-command; a method `x_parser(parser)` next to it adds
the options of `x`. What a command does is not known here. Called by `azscale` and by the commands
of integrations.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from inspect import Parameter, signature
from math import inf
from typing import Any, TextIO, TypeVar, cast

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.cli.argparser import CommandParser, seconds_type
from hpc.autoscale.cli.argtypes import CommandLineError, warn
from hpc.autoscale.cli.completion import is_completing
from hpc.autoscale.cli.places import FoundConfig
from hpc.autoscale.config import check_config, exposed_passwords, unknown_commands
from hpc.autoscale.errors import (
    AutoscaleError,
    LockUnusableError,
    MistakenWord,
    MultipleInstancesError,
    ReadOnlyModeException,
    one_line_and_where,
)
from hpc.autoscale.hpclogging.records import stack_trace
from hpc.autoscale.installation import refuse_both
from hpc.autoscale.output import given_up
from hpc.autoscale.plaintext import on_its_lines, on_one_line
from hpc.autoscale.util import load_config, lock_file_of

F = TypeVar("F", bound=Callable[..., Any])

CONFIGURED_LOCK = "_lock_file"
"""The key with the `lock_file` of the configuration, where a command that only looks has none."""

# Options that are about the command line itself, and are not handed to the command.
_NOT_FOR_COMMANDS = frozenset(
    {
        "cluster_response",
        "cmd",
        "func",
        "instead",
        "lock_wait",
        "needs_config",
        "nodes_response",
        "read_only",
    }
)
# Commands that change something and have no use for waiting: the loop, which comes again, what is
# recorded for whoever holds the lock, and what takes none.
_NEVER_WAIT = frozenset(
    {"autoscale", "autostop", "config", "initconfig", "request", "serve_autostop"}
)
# What is refused where the configuration is read-only, before the driver is asked for anything.
_CHANGE_NODES = frozenset(
    {
        "apply",
        "create_nodes",
        "delete_nodes",
        "join_nodes",
        "reimage_nodes",
        "remove_nodes",
        "restart_nodes",
        "retry_failed_nodes",
    }
)
_SILENT = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(message)s"}},
    "handlers": {
        "nowhere": {"class": "logging.NullHandler"},
        "waits": {"class": "logging.StreamHandler", "formatter": "plain"},
    },
    # whoever waits is told what for
    "loggers": {"cyclecloud.waits": {"level": "WARNING", "handlers": ["waits"]}},
    "root": {"level": "INFO", "handlers": ["nowhere"]},
}
_LOUD = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"format": "%(asctime)s %(levelname)s: %(context)s %(message)s"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"level": "DEBUG", "handlers": ["stderr"]},
}


def disablecommand(f: F) -> F:
    """Keep a public method from being a sub-command."""
    f.disabled = True  # type: ignore[attr-defined]
    return f


def takes_path(f: F) -> F:
    """Hand a command the path of the configuration, or None, which is not loaded for it."""
    f.config_as = "path"  # type: ignore[attr-defined]
    return f


def draws(f: F) -> F:
    """Let a command write to the terminal as it likes. It has to make foreign text harmless itself;
    what other commands print is made so."""
    f.draws = True  # type: ignore[attr-defined]
    return f


def needs_no_config(f: F) -> F:
    """Let a command be without a configuration, and without -c."""
    f.config_as = "nothing"  # type: ignore[attr-defined]
    return f


def _config_as(name: str, function: Callable[..., Any]) -> str:
    """What a command is given for its configuration: `content`, `path` or `nothing`."""
    default = "nothing" if name == "initconfig" else "content"
    return str(getattr(function, "config_as", default))


def commands_of(module: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The sub-commands of an object or a module, by name."""
    for name in dir(module):
        if name.startswith("_") or name.endswith("_parser"):
            continue
        function = getattr(module, name, None)
        if callable(function) and not getattr(function, "disabled", False):
            yield name, function


def default_home(project_name: str) -> str:
    """Where the files of an integration are when nothing says otherwise."""
    return os.path.join("/opt", "azurehpc", project_name)


def default_config_path(
    project_name: str, module: Any, default_config: str | None = None
) -> str | None:
    """The path of autoscale.json where the user names none; None when there is no such file.

    An object that has looked for it itself says in `_found` what it found (`places.FoundConfig`).
    """
    found = getattr(module, "_found", None)
    if isinstance(found, FoundConfig):
        return found.path
    home = (
        getattr(module, "autoscale_dir", None)
        or getattr(module, "autoscale_home", None)
        or default_home(project_name)
    )
    path = default_config or os.path.join(home, "autoscale.json")
    return path if os.path.exists(path) else None


def create_arg_parser(
    project_name: str, module: Any, default_config: str | None = None
) -> ArgumentParser:
    """A parser with a sub-command for every command of `module`.

    All but `initconfig` take -c/--config, which has to be given when there is no file in the
    default place. What is wrong with a command line is said in one line, with a guess. An object
    may say otherwise how the commands are listed, in `_describe_commands(parser, summaries)`; then
    options have to be written out, while those of integrations may be cut short as ever.
    """
    return _parser_of(project_name, module, default_config)


def _parser_of(
    project_name: str, module: Any, default_config: str | None, asked: str | None = None
) -> CommandParser:
    """A parser as `create_arg_parser` makes it. `asked`: the command that is going to be run, where
    that is known; then no other one has a parser, as to make those of all takes longer than many a
    command."""
    config_path = default_config_path(project_name, module, default_config)
    describe = getattr(module, "_describe_commands", None)
    may_be_cut = describe is None
    program = getattr(module, "_command_name", None)
    parser = CommandParser(prog=program, allow_abbrev=may_be_cut)
    said = SUPPRESS if describe else None
    sub_parsers = parser.add_subparsers(metavar="command", help=said)
    commands = dict(commands_of(module))
    summaries = {name: " ".join((f.__doc__ or "").split()) for name, f in commands.items()}
    for name in [asked] if asked is not None and asked in commands else commands:
        said_of_it = summaries[name].replace("%", "%%")
        # shells say it of each command; the overview has it once
        more: dict[str, Any] = {"help": said_of_it} if is_completing() else {}
        more["allow_abbrev"] = may_be_cut
        sub_parser = sub_parsers.add_parser(name, description=said_of_it, **more)
        parser.commands[name] = sub_parser
        _configure(sub_parser, module, name, commands[name], config_path)
    lines = [f"\n    {name:20} - {summary}" for name, summary in summaries.items()]
    parser.usage = "".join(lines).replace("%", "%%")
    if describe:
        describe(parser, summaries)
    return parser


def _asked_for(argv: Iterable[str]) -> str | None:
    """The command of a command line: no option before it takes a value."""
    return None if is_completing() else next((w for w in argv if not w.startswith("-")), None)


def _configure(
    parser: CommandParser,
    module: Any,
    name: str,
    function: Callable[..., Any],
    config_path: str | None,
) -> None:
    """Add what a command takes to its parser."""
    config_as = _config_as(name, function)
    parser.set_defaults(
        func=function, cmd=name, read_only=True, needs_config=config_as == "content"
    )
    if config_as != "nothing":
        _add_config_options(parser, config_path)
    configure = getattr(module, name + "_parser", None)
    if configure:
        configure(parser)
    if not parser.get_default("read_only") and name not in _NEVER_WAIT:
        _add_wait_option(parser)


def _add_wait_option(parser: ArgumentParser) -> None:
    """Add --wait to a command that changes something, unless it has one of its own."""
    with suppress(ArgumentError):
        parser.add_argument(
            "--wait",
            dest="lock_wait",
            type=seconds_type,
            nargs="?",
            const=inf,
            default=0.0,
            metavar="SECONDS",
            help="while another process holds the lock, wait: for so long, or until it is free",
        )


def _add_config_options(parser: ArgumentParser, config_path: str | None) -> None:
    parser.add_argument(
        "--config",
        "-c",
        default=config_path,
        help="path of autoscale.json" + (f" (default {config_path})" if config_path else ""),
    )
    if os.getenv("AZURE_HPC_DEV", "0") not in ("", "0"):
        parser.add_argument("--cluster-response", help="answer from this saved cluster status")
        parser.add_argument("--nodes-response", help="answer from this saved list of nodes")


def main(
    argv: Iterable[str], project_name: str, module: Any, default_config: str | None = None
) -> None:
    """Run one command.

    When it fails, the process ends with one line on stderr and exit code 1, 3 when another
    process holds the lock, 4 when there can be no lock. AssertionError is raised, for the sake of
    callers that test with it.
    """
    try:
        run_command(list(argv), project_name, module, default_config)
    except AssertionError:
        raise
    except Exception as problem:  # noqa: BLE001 - the edge of the program
        fail(problem, "Error '{}': See the rest in the log file", is_published=True)


def fail(problem: Exception, form: str, debug: bool = False, is_published: bool = False) -> None:
    """Say on one line of stderr what went wrong, and exit; with a stack trace when it was asked
    for. `form`: the line, with `{}` in the place of what is said. `is_published`: as published for
    command lines of integrations, with what is in texts of errors because programs look for it.
    """
    text = one_line_and_where(problem, is_published=is_published)
    more = getattr(problem, "message", None)
    if isinstance(more, str) and more.strip() not in text:
        text = on_one_line(f"{text}: {' '.join(more.split())}")
    logging.debug("stack trace of the error: %s", text, exc_info=problem)
    if debug or debugging():
        print(stack_trace(problem), file=sys.stderr)
    print(form.replace("{}", text), file=sys.stderr)
    raise SystemExit(_exit_code(problem, is_published))


def _exit_code(problem: Exception, is_published: bool) -> int:
    """2 for a command line that makes no sense, 3 when another process holds the lock, 4 when there
    can be no lock, otherwise 1. `is_published`: of a command line of an integration."""
    if isinstance(problem, CommandLineError):
        return 1 if is_published and isinstance(problem, MistakenWord) else 2
    if isinstance(problem, LockUnusableError):
        return 4
    return 3 if isinstance(problem, MultipleInstancesError) else 1


def debugging() -> bool:
    """Whether the environment asks for stack traces and all log entries on stderr."""
    return os.getenv("SCALELIB_DEBUG", "0") not in ("", "0")


def run_command(
    argv: list[str],
    project_name: str,
    module: Any,
    default_config: str | None = None,
    debug: bool = False,
) -> None:
    """Parse the arguments, load the configuration and call the command.

    Without a command it prints the help, or what `_welcome` of the object prints, and exits with
    code 1. Where the library is installed under
    both of its names no command is run.
    """
    parser = _parser_of(project_name, module, default_config, _asked_for(argv))
    for hook in ("_top_level_options", "_invoke_autocomplete"):
        if hasattr(module, hook):
            getattr(module, hook)(parser)
    with _output_with_a_name(True):  # help is printed there
        args = parser.parse_args(argv)
    if not hasattr(args, "func"):
        getattr(module, "_welcome", parser.print_help)()
        raise SystemExit(1)
    refuse_both()
    if getattr(args, "instead", None):  # what an option does in the place of the command
        start_logging({}, debug or debugging())
        with _output_with_a_name(True):
            args.instead(args.config)
        return
    kwargs = _for_command(args, parser.commands[args.cmd])
    if args.needs_config:
        kwargs["config"] = config = _load(args, debug or debugging())
        _warn_of_doubts(args.config, config, module)
        initialize = getattr(module, "_initialize", None)
        if initialize:
            initialize(args.cmd, config)
    try:
        is_data = args.cmd != "shell" and not getattr(args.func, "draws", False)
        # in the shell the user prints
        with _output_with_a_name(is_data, puts_off=args.cmd in _CHANGE_NODES):
            args.func(**kwargs)
    except KeyboardInterrupt:
        if args.cmd in _CHANGE_NODES | {"autoscale", "request"}:
            warn("interrupted: `azscale requests` has what may be carried out all the same")
        raise
    finally:
        unlock = getattr(module, "_unlock", None)
        if unlock:
            unlock()


def _for_command(args: Namespace, parser: ArgumentParser) -> dict[str, Any]:
    """What a command is handed, of what was said in its command line.

    A command of an integration may have the name of one of ours, and its options, which it does not
    know: as long as nobody uses them, it is not handed them.
    """
    given = {name: value for name, value in vars(args).items() if name not in _NOT_FOR_COMMANDS}
    try:
        known = signature(args.func).parameters
    except (TypeError, ValueError):
        return given
    if any(each.kind is Parameter.VAR_KEYWORD for each in known.values()):
        return given
    return {name: v for name, v in given.items() if name in known or v != parser.get_default(name)}


def _warn_of_doubts(path: str, config: dict[str, Any], module: Any) -> None:
    """Say on stderr what is valid in the configuration and yet likely to be a mistake."""
    names = [name for name, _ in commands_of(module)]
    for doubt in (*exposed_passwords(path), *unknown_commands(config, names)):
        warn("%s", doubt)


class OutputError(AutoscaleError):
    """What is to be printed cannot be written, as on a full disk."""


class _Output:
    """A stand-in for stdout whose errors say that it is stdout which cannot be written.

    With `is_data` nothing that is written acts on a terminal: what commands print is data. With
    `puts_off` errors are not raised, and the last one is kept as `problem`.
    """

    problem: Exception | None = None

    def __init__(self, stream: TextIO, is_data: bool, puts_off: bool) -> None:
        self._stream = stream
        self._is_data = is_data
        self._puts_off = puts_off

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        shown = on_its_lines(text) if self._is_data else text
        self._try(lambda: self._stream.write(shown))
        return len(text)

    def write_painted(self, text: str, before: str, after: str) -> None:
        """Write a text between two sequences that act on the terminal, as data does not."""
        self._try(lambda: self._stream.write(f"{before}{on_its_lines(text)}{after}"))

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as found:
            problem: Exception = found
            if not isinstance(found, BrokenPipeError):  # whose reader is told nothing
                problem = OutputError(given_up(self._stream, found))
            if not self._puts_off:
                raise problem from (None if problem is found else found)
            self.problem = problem


@contextmanager
def _output_with_a_name(is_data: bool, puts_off: bool = False) -> Iterator[None]:
    """A context in which errors of stdout say so; on leaving, everything is written out.
    `puts_off`: they are raised on leaving, so that what is being done is done to its end."""
    stream, output = sys.stdout, _Output(sys.stdout, is_data, puts_off)
    sys.stdout = cast(TextIO, output)
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout = stream
    if output.problem is not None:
        raise output.problem


def _load(args: Namespace, debug: bool) -> dict[str, Any]:
    config: dict[str, Any] = load_config(args.config)
    check_config(config)
    logging.set_context(f"[{args.cmd}]")
    start_logging(config, debug)
    is_dry = getattr(args, "dry_run", False)
    if config.get("read_only") and args.cmd in _CHANGE_NODES and not is_dry:
        raise ReadOnlyModeException("nodes cannot be changed: the configuration is read-only")
    if args.read_only:
        config["read_only"] = True
        if "lock_file" in config or "lock_path" in config:
            config[CONFIGURED_LOCK] = lock_file_of(config)
        config["lock_file"] = None
    if getattr(args, "lock_wait", None):
        config["_lock_wait"] = args.lock_wait
    saved = {
        key: path
        for key in ("cluster_response", "nodes_response")
        if (path := getattr(args, key, None))
    }
    if saved:
        if "cluster_response" not in saved:
            raise MistakenWord("expected --cluster-response beside --nodes-response, found none")
        config["_mock_bindings"] = {"name": "reproduce", **saved}
    return config


def start_logging(config: dict[str, Any], debug: bool) -> None:
    """Log as the configuration says; where it says nothing, nowhere: stderr is the user's."""
    if debug:
        logging.initialize_logging({"logging": {"config": _LOUD}})
    elif logging.is_configured(config):
        logging.initialize_logging(config)
    else:
        logging.initialize_logging({"logging": {"config": _SILENT}})
