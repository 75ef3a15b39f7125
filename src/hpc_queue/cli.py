"""The command line of the queue: `hpcq`.

    hpcq sub FILE | -- CMD      submit a script, or a command that no shell sees
    hpcq stat, log, wait        look
    hpcq del, retry             change
    hpcq init, worker, drain    the broker and the workers
    hpcq top, metrics, panic    for who keeps it running

Each command is a function that is given the options: those for users stand here, those for whoever
keeps the queue running in `operating`. Codes: 0 for done, 1 for done with something that failed, 2
for wrong options.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.cli.argparser import CommandParser
from hpc.autoscale.cli.painting import table_width
from hpc.autoscale.errors import AutoscaleError, did_you_mean, one_line
from hpc.autoscale.output import CLOSED, given_up, is_lost, prepare_streams
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.tables import print_rows
from hpc_queue import operating, submission, views
from hpc_queue.errors import QueueError, UnknownJob, UnmetDependency
from hpc_queue.model import State
from hpc_queue.operating import Options, open_queue, seconds_type
from hpc_queue.queue import Queue
from hpc_queue.settings import CONFIG_VARIABLE
from hpc_queue.stored import Job, tries_of

_TIMED_OUT = 124
_POLL = 0.3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command: list[str] = []
    if "--" in words and _command_of(words) == "sub":
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]

    def run() -> int:
        options = new_parser().parse_args(words)
        options.words = command
        return int(options.run(options))

    return code_of(run)


def code_of(run: Callable[[], int]) -> int:
    """The exit code of a command; what goes wrong is said in one line."""
    prepare_streams()
    try:
        try:
            with _warnings_on_stderr():
                code = run()
        except SystemExit as end:  # help ends the process by itself
            print(end="", flush=True)
            if end.code or not is_lost(sys.stdout):
                raise
            code = 0
        print(end="", flush=True)
        if code < 2 and is_lost(sys.stdout):
            raise QueueError(CLOSED)
        return code
    except AutoscaleError as error:
        print(f"hpcq: {one_line(error)}", file=sys.stderr)
        return 2
    except OSError as error:
        if said := _trouble_of(error):
            print(f"hpcq: {said}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Show what is logged meanwhile as errors are, unless somebody has said where that goes."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("hpcq: %(message)s"))
    if not logging.root.handlers:
        logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)


def _trouble_of(error: OSError) -> str:
    """What to say of an error of the system; nothing where whoever reads has seen enough."""
    if isinstance(error, BrokenPipeError):
        return given_up(sys.stdout, error)
    try:
        print(end="", flush=True)
    except OSError:  # what was not written is tried again
        return given_up(sys.stdout, error)
    return one_line(error)


def _command_of(words: Sequence[str]) -> str:
    """The command among these words: the first that is neither -C nor its value."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "--config") else 1
    return words[at] if at < len(words) else ""


def new_parser() -> CommandParser:
    """All commands with their options."""
    parser = CommandParser("hpcq", description="A queue of very many short jobs.")
    parser.add_argument(
        "-C", "--config", help=f"autoscale.json with the section hpcq (default: ${CONFIG_VARIABLE})"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[Options], int], text: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=text, description=text)
        found.set_defaults(run=run, cmd=name)
        parser.commands[name] = found
        return found

    one = add("sub", sub, "submit a script, or a command after --; prints the id")
    one.add_argument("file", nargs="?", help="script")
    one.add_argument("-c", "--commands", help="text of a script, in the place of a file")
    submission.add_options(one)
    one = add("stat", stat, "show jobs")
    _add_filters(one)
    one.add_argument("--json", action="store_true")
    one.add_argument("--ids", action="store_true", help="ids only")
    one.add_argument("--count", action="store_true", help="numbers only")
    one.add_argument("-e", "--elements", action="store_true", help="a line for each element")
    one.add_argument(
        "-o", "--output-columns", help="columns of a table, separated by commas; wide for all"
    )
    one = add("del", delete, "cancel what waits, and end what runs")
    _add_filters(one)
    one = add("retry", retry, "let ended elements wait again: those that failed, or of a state")
    _add_filters(one)
    one = add("log", log, "show the end of an output")
    one.add_argument("id")
    one.add_argument("-f", "--follow", action="store_true", help="until the job has ended")
    one.add_argument("--raw", action="store_true", help="bytes as they are")
    one = add("wait", wait, "wait until jobs have ended; code 0 when all have succeeded")
    one.add_argument("id", nargs="+")
    one.add_argument(
        "--timeout", type=seconds_type, help=f"seconds; code {_TIMED_OUT} when they are over"
    )
    operating.add_commands(add)
    return parser


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="*", help="of a job, as 17, or of an element, as 17.3")
    parser.add_argument("-n", "--name")
    parser.add_argument("-q", "--queue")
    parser.add_argument("-d", "--definition")
    parser.add_argument("-f", "--state", help="Waiting, Running, Successful, Failed, …")


def sub(options: Options) -> int:
    """Submit a job and print its id."""
    given = {**vars(options)}
    file, commands = given.pop("file"), given.pop("commands")
    for key in ("run", "cmd", "config", "words"):
        given.pop(key)
    wanted = submission.read_submission(Options(**given), file, options.words, commands)
    queue = open_queue(options)
    print(queue.submit(wanted.spec, wanted.each))
    return 0


def _selected(
    queue: Queue, options: Options, is_change: bool = False
) -> list[tuple[Job, int, int]]:
    """The jobs that the options mean, each with a range of positions. Where a name, a queue or a
    definition is that of none of them, this is said on stderr; of the state, where it is a change
    of jobs that were named, and would be of none."""
    whose = "none of these jobs has" if options.id else "no job has"
    if options.id:
        found = [queue.find(text) for text in options.id]
    else:
        ids = queue.store.job_ids()
        found = [(job, 0, job.spec.count) for job in queue.store.jobs(ids)]
    for name in ("name", "queue", "definition"):
        wanted = getattr(options, name)
        if wanted is not None:
            known = {getattr(job.spec, name) for job, _, _ in found}
            found = [each for each in found if getattr(each[0].spec, name) == wanted]
            if not found:
                guess = did_you_mean(wanted, sorted(known))
                print(f"hpcq: {whose} the {name} {wanted!r}{guess}", file=sys.stderr)
                return []
            whose = "none of these jobs has"
    if options.state is not None:
        state, among = State.named(options.state), found
        found = [each for each in among if views.counts_of(queue.store, *each)[state]]
        if is_change and options.id and among and not found:
            print(f"hpcq: {whose} an element that is {state.name}", file=sys.stderr)
    return found


def stat(options: Options) -> int:
    """Show jobs: a line for each, or all that is known of those that are named."""
    _refuse_columns_of_no_table(options)
    queue = open_queue(options)
    found = _selected(queue, options)
    if options.count:
        _print_totals(queue, found, options.json)
    elif options.elements:
        state = State.named(options.state) if options.state else None
        rows = (row for each in found for row in views.element_rows(queue.store, *each, state))
        if options.ids:
            for row in rows:
                print(row[0])
        else:
            _print_table(options, views.ELEMENT_COLUMNS, views.ELEMENT_COLUMNS, rows)
    elif options.ids:
        for job, low, high in found:
            print(job.id if high - low == job.spec.count else views.element_id(job, low))
    elif options.id:
        _print_all(queue, found, options.json)
    else:
        jobs = [job for job, _, _ in found]
        _print_table(options, views.COLUMNS, views.SHORT_COLUMNS, map(views.row, jobs))
        if not options.json:
            _print_totals(queue, found, False)
            for line in views.waiting_lines(jobs, queue.store.reasons()):
                print(line)
    return 0


def _refuse_columns_of_no_table(options: Options) -> None:
    is_table = options.elements or not options.id
    if options.output_columns is not None and (options.count or options.ids or not is_table):
        raise QueueError(
            "-o: expected a table, as without ids or with -e, and neither --ids nor --count"
        )


def _print_table(
    options: Options, every: Sequence[str], short: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Print rows that have a value for each of `every`: the columns asked for, or in a table the
    `short` ones, cut to the width of a terminal."""
    if options.output_columns is not None:
        names, width = views.chosen_columns(options.output_columns, every), None
    else:
        names, width = list(every if options.json else short), table_width()
    at = [every.index(name) for name in names]
    chosen = [[row[index] for index in at] for row in rows]
    print_rows(names, chosen, output_format="json" if options.json else "table", width=width)


def _each_once(found: Iterable[tuple[Job, int, int]]) -> list[tuple[Job, int, int]]:
    """The same elements without those that are meant twice, as by `1 1` and by `1 1.3`."""
    once: list[tuple[Job, int, int]] = []
    for job, low, high in sorted(found, key=lambda each: (each[0].id, each[1])):
        before = once[-1] if once else None
        if before is not None and before[0].id == job.id and low <= before[2]:
            once[-1] = (job, before[1], max(high, before[2]))
        else:
            once.append((job, low, high))
    return once


def _print_totals(queue: Queue, found: Iterable[tuple[Job, int, int]], as_json: bool) -> None:
    numbers = views.totals(views.counts_of(queue.store, *each) for each in _each_once(found))
    if as_json:
        print(json.dumps(numbers))
    else:
        words = [f"{name}: {number}" for name, number in numbers.items()]
        print(views.in_lines(words, table_width()))


def _print_all(queue: Queue, found: list[tuple[Job, int, int]], as_json: bool) -> None:
    known = []
    for job, low, high in found:
        one = low if job.spec.is_array and high - low == 1 else None
        known.append(views.all_of(queue.store, job, one))
    if as_json:
        print(json.dumps(known, indent=2))
        return
    for each in known:
        for key, value in each.items():
            lines = value if key == "history" else [value]
            for line in lines:
                print(f"{key} : {on_one_line('' if line is None else str(line))}")


def delete(options: Options) -> int:
    """Cancel jobs and elements, and say of each what it came to."""
    _want_some(options)
    queue = open_queue(options)
    wanted = State.named(options.state) if options.state else None
    selected = _selected(queue, options, is_change=True)
    chosen = [
        (job.id, first, last)
        for job, low, high in selected
        if job.open
        for first, last in _ranges(queue, job, low, high, wanted)
    ]
    came = {job.id: (0, 0) for job, _, _ in selected if job.open}
    for (job_id, _, _), (waited, run) in zip(chosen, queue.cancel_ranges(chosen), strict=True):
        before = came[job_id]
        came[job_id] = before[0] + waited, before[1] + run
    for job, _, _ in selected:
        if job.id in came:
            waited, run = came.pop(job.id)
            print(f"{job.id}: {waited} cancelled, {run} running ended")
        elif options.id and not job.open:
            print(f"{job.id}: has ended already")
    return 0


def _ranges(
    queue: Queue, job: Job, low: int, high: int, wanted: State | None
) -> list[tuple[int, int]]:
    """The positions of a range whose elements are in a state, or all of them, as ranges."""
    if wanted is None:
        return [(low, high)]
    found: list[tuple[int, int]] = []
    for position, byte in enumerate(queue.store.states(job.id)[low:high], low):
        if byte & 7 == wanted:
            first = found.pop()[0] if found and found[-1][1] == position else position
            found.append((first, position + 1))
    return found


def _want_some(options: Options) -> None:
    if not (options.id or options.name or options.queue or options.definition or options.state):
        raise QueueError("expected an id, or one of --name, --queue, --definition, --state")


def retry(options: Options) -> int:
    """Let ended elements wait again."""
    _want_some(options)
    queue = open_queue(options)
    states = [State.named(options.state)] if options.state else [State.Failed, State.Error]
    if not all(state.ended for state in states):
        raise QueueError(f"expected a state of ended jobs, found {options.state}")
    code = 0
    # jobs before those that are after them
    selected = _selected(queue, options, is_change=True)
    for job, low, high in sorted(selected, key=lambda each: int(each[0].id)):
        text = job.id if (low, high) == (0, job.spec.count) else views.element_id(job, low)
        try:
            print(f"{job.id}: {queue.retry(text, states)} wait again")
        except UnmetDependency as error:
            print(f"hpcq: {one_line(error)}", file=sys.stderr)
            code = 1
    return code


def log(options: Options) -> int:
    """Show the end of the output of an element."""
    queue = open_queue(options)
    job, low, high = queue.find(options.id)
    if high - low != 1:
        first = views.element_id(job, 0)
        raise QueueError(f"expected one element of an array, as {first}, found {options.id}")
    known, run, shown = 0, 0, views.ShownOutput(sys.stdout, options.raw)
    while True:
        (byte,) = _states(queue, job, low, high)
        ended = State(byte & 7).ended
        length, kept = queue.store.output(job.id, low)
        if length < known or run not in (0, tries_of(byte)):  # it runs again
            known = 0
            shown.end()
        run = tries_of(byte)
        new = kept[max(0, len(kept) - (length - known)) :]
        if length - known > len(kept):
            shown.end()
            print(f"… {length - known - len(kept)} bytes are not kept …", file=sys.stderr)
        shown.add(new)
        known = length
        if ended or not options.follow:
            shown.end()
            return 0
        time.sleep(_POLL)


def _states(queue: Queue, job: Job, low: int, high: int) -> bytes:
    """The bytes of a range. UnknownJob where nothing is kept of the job any more."""
    found = queue.store.states(job.id)[low:high]
    if not found:
        raise UnknownJob(f"job {job.id} has ended, and is not kept any more: nobody knows how")
    return found


def wait(options: Options) -> int:
    """Wait until jobs have ended; 0 when all of their elements have succeeded."""
    queue = open_queue(options)
    until = None if options.timeout is None else time.monotonic() + options.timeout
    found = [queue.find(text) for text in options.id]
    pause = 0.02
    good = True
    for job, low, high in found:
        while True:
            # a byte has the tries beside the state
            states = {byte & 7 for byte in set(_states(queue, job, low, high))}
            if all(State(state).ended for state in states):
                good = good and states == {State.Successful}
                break
            if until is not None and time.monotonic() >= until:
                return _TIMED_OUT
            time.sleep(pause)
            pause = min(_POLL, pause * 1.5)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
