"""What to submit: a script or a command, with options of the command line and lines in the script.

Lines that begin with `#HPCQ` or `#HYPER`, up to the first that is neither a comment nor empty, have
options as the command line does, which win over them. Nothing of a file is run here.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from hpc.autoscale.cli.argparser import CommandParser
from hpc.autoscale.errors import unreadable
from hpc_queue.errors import QueueError
from hpc_queue.model import (
    DEFAULT_PRIORITY,
    LONGEST_NAME,
    MOST_TEXT,
    ElementId,
    JobSpec,
    replacement_problems,
)

_MARKS = ("#HPCQ", "#HYPER")
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)([smhd]?)|(\d+):(\d\d)(?::(\d\d))?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_ARRAY = re.compile(r"(-?\d{1,15})-(-?\d{1,15})(?::(\d{1,9}))?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([mgt]?)(?:i?b)?", re.IGNORECASE)
_GIGABYTES = {"m": 1 / 1024, "": 1, "g": 1, "t": 1024}


@dataclass(frozen=True)
class Submission:
    """A job, with what differs between the elements of its array."""

    spec: JobSpec
    each: Sequence[Mapping[str, str]] = ()


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `hpcq sub`, which lines of a script may have as well. None of them has a
    default here, so that it can be told which were given."""
    parser.add_argument("-n", "--name", help="name of the job; by default that of the file")
    parser.add_argument("-q", "--queue", help="label of the job, to look for it by")
    parser.add_argument("-d", "--definition", help="definition that it runs by")
    parser.add_argument("-r", "--retries", type=int, help="how often it runs again (3)")
    parser.add_argument(
        "--retry-failed", action="store_true", default=None, help="also when it exits with an error"
    )
    parser.add_argument("-p", "--params", help="JSON object of texts to replace in what runs")
    parser.add_argument(
        "-a", "--array-file", metavar="FILE", help="a JSON object of such texts for each element"
    )
    parser.add_argument("--array", metavar="FIRST-LAST[:STEP]", help="indices of the elements")
    parser.add_argument(
        "--after", metavar="ID", action="append", help="wait until this job has succeeded"
    )
    parser.add_argument(
        "--after-any",
        action="store_true",
        default=None,
        help="with --after: or ended in any other way",
    )
    parser.add_argument("--priority", type=int, help="0 to 9; 9 goes first (4)")
    parser.add_argument("--time", metavar="TIME", help="how long it may run: 90, 10m, 1:30:00")
    parser.add_argument("--cpus", type=float, help="cores that an element takes")
    parser.add_argument("--mem", metavar="AMOUNT", help="memory that it takes: 500m, 4g")
    parser.add_argument("--gpus", type=int, help="GPUs that it takes")
    parser.add_argument(
        "--reuse-workdir",
        action="store_true",
        default=None,
        help="run in the directory of the slot, not in one of its own",
    )


class _LineParser(CommandParser):
    """Reads the options in a line of a script."""

    where = ""

    def error(self, message: str) -> NoReturn:
        raise QueueError(f"{self.where}: {message}")


def read_submission(
    given: argparse.Namespace, file: str | None, words: Sequence[str], commands: str | None = None
) -> Submission:
    """What the options, a file or words or a text of commands ask for. QueueError says what is
    wrong."""
    given_ways = sum((commands is not None, file is not None, bool(words)))
    if given_ways != 1:
        raise QueueError(
            "expected a file with a script, or a command after --, or -c with a text: one of"
            f" these, found {given_ways or 'none'}"
        )
    text = _text_of(file) if file is not None else commands
    options = _options_of(file or "the script", text) if text is not None else {}
    options.update({key: value for key, value in vars(given).items() if value is not None})
    name = Path(file).name if file else Path(words[0]).name or words[0] if words else "commands"
    command = {"argv": list(words)} if text is None else {"script": text}
    return submission_of(command, {"name": name[:LONGEST_NAME], **options})


def submission_of(command: Mapping[str, Any], options: Mapping[str, Any]) -> Submission:
    """A submission by the names and texts of the options. QueueError says what is wrong."""
    each: Sequence[Mapping[str, str]] = ()
    first, step, count = 1, 1, 1
    is_array = False
    options = {key: value for key, value in options.items() if value is not None}
    if options.get("after_any") and not options.get("after"):
        raise QueueError("--after-any: expected the jobs in question, each as --after ID")
    if "array" in options and "array_file" in options:
        raise QueueError("expected either --array or --array-file, found both")
    if "array" in options:
        first, step, count = parse_array(str(options["array"]))
        is_array = True
    if "array_file" in options:
        each = read_array_file(str(options["array_file"]))
        first, count, is_array = 0, len(each), True
    spec = JobSpec(
        name=str(options["name"]),
        command=command,
        queue=options.get("queue", "default"),
        definition=options.get("definition", "default"),
        retries=options.get("retries", 3),
        retry_failed=bool(options.get("retry_failed")),
        priority=options.get("priority", DEFAULT_PRIORITY),
        count=count,
        first=first,
        step=step,
        is_array=is_array,
        after=[str(_whole_job(text)) for text in options.get("after") or ()],
        after_any=bool(options.get("after_any")),
        seconds=parse_time(str(options["time"])) if "time" in options else 0.0,
        cpus=options.get("cpus"),
        memory=parse_memory(str(options["mem"])) if "mem" in options else None,
        gpus=options.get("gpus"),
        reuse_workdir=bool(options.get("reuse_workdir")),
        replacements=_replacements(options["params"], "--params") if "params" in options else {},
    )
    return Submission(spec.checked(), each)


def _whole_job(text: str) -> ElementId:
    found = ElementId.parse(text)
    if found.index is not None:
        raise QueueError(f"--after: expected a whole job, as {found.job}, found {text!r}")
    return found


def _text_of(file: str) -> str:
    try:
        with open(file, "rb") as stream:
            found = stream.read(MOST_TEXT + 1)
    except OSError as error:
        raise QueueError(f"{file}: {unreadable(error)}") from error
    if len(found) > MOST_TEXT:
        raise QueueError(f"{file}: expected a script of at most {MOST_TEXT} bytes")
    return found.decode("utf-8", "surrogateescape")


def _options_of(file: str, text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    parser = _LineParser(prog="hpcq sub", add_help=False)
    add_options(parser)
    for number, line in enumerate(text.splitlines()[:1000], 1):
        if line.strip() and not line.startswith("#"):
            break
        mark = next((m for m in _MARKS if line.startswith((m + " ", m + "\t"))), None)
        if mark is None:
            continue
        parser.where = f"{file}, line {number}"
        try:
            words = shlex.split(line[len(mark) :])
        except ValueError as error:
            raise QueueError(
                f"{parser.where}: expected options, found {line!r}: {error}"
            ) from error
        read = vars(parser.parse_args(words))
        found.update({key: value for key, value in read.items() if value is not None})
    return found


def parse_array(text: str) -> tuple[int, int, int]:
    """First index, step and number of elements of `1-100` or `0-9:3`. QueueError otherwise."""
    match = _ARRAY.fullmatch(text.strip())
    if not match or int(match[2]) < int(match[1]) or match[3] == "0":
        raise QueueError(f"--array: expected FIRST-LAST or FIRST-LAST:STEP, found {text!r}")
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    return first, step, (last - first) // step + 1


def parse_time(text: str) -> float:
    """Seconds of `90`, `10m`, `1.5h` or `1:30:00`. QueueError otherwise, and for no time."""
    match = _TIME.fullmatch(text.strip().lower())
    if not match:
        raise QueueError(f"--time: expected a time as 90, 10m, 2h or 1:30:00, found {text!r}")
    if match[1]:
        seconds = float(match[1]) * _SECONDS[match[2]]
    elif match[5]:
        seconds = float(match[3]) * 3600 + int(match[4]) * 60 + int(match[5])
    else:
        seconds = float(match[3]) * 60 + int(match[4])
    if not seconds:
        raise QueueError(f"--time: expected more than 0, found {text!r}: without it, no limit")
    return seconds


def parse_memory(text: str) -> float:
    """Gigabytes of `4`, `4g`, `500m`. QueueError otherwise."""
    match = _MEMORY.fullmatch(text.strip())
    if not match:
        raise QueueError(f"--mem: expected an amount as 500m or 4g, found {text!r}")
    return float(match[1]) * _GIGABYTES[match[2].lower()]


def read_array_file(file: str) -> list[dict[str, str]]:
    """The objects of a file with one in each line. QueueError names the line that is wrong."""
    try:
        with open(file, encoding="utf-8") as stream:
            found = [
                _replacements(line, f"{file}, line {number}")
                for number, line in enumerate(stream, 1)
                if line.strip()
            ]
    except OSError as error:
        raise QueueError(f"{file}: {unreadable(error)}") from error
    except UnicodeDecodeError as error:
        raise QueueError(f"{file}: expected text in UTF-8: {error}") from error
    if not found:
        raise QueueError(f"{file}: expected a JSON object in each line, found nothing")
    return found


def _replacements(text: str, where: str) -> dict[str, str]:
    try:
        # numbers are taken as they are written; what has parts is no text
        found = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise QueueError(f"{where}: expected a JSON object of texts: {error}") from error
    if not isinstance(found, dict):
        raise QueueError(f"{where}: expected a JSON object of texts, found {text[:80]!r}")
    texts: dict[str, Any] = {
        old: new if isinstance(new, str | dict | list) else json.dumps(new)
        for old, new in found.items()
    }
    for problem in replacement_problems(texts):
        raise QueueError(f"{where}: {problem}")
    return texts
