"""The commands of AWS-Cyclone-Solution, `qsub`, `qstat`, `qdel` and `qlog`, as scripts that call
this queue: their options and the form of their output.

They shadow commands of other schedulers, so `hpcq install-aliases` writes them only where somebody
asks for it, and over nothing that is not ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from hpc.autoscale.cli.argparser import CommandParser
from hpc.autoscale.errors import AutoscaleError, one_line
from hpc.autoscale.plaintext import on_one_line
from hpc_queue import cli, submission, views
from hpc_queue.errors import QueueError
from hpc_queue.model import State
from hpc_queue.queue import Queue
from hpc_queue.settings import Settings
from hpc_queue.stored import Job


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; its exit code."""
    command, *words = arguments
    run = {"qsub": qsub, "qstat": qstat, "qdel": qdel, "qlog": qlog}[command]
    return cli.code_of(lambda: _as_cyclone(run, words))


def _as_cyclone(run: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
    """The exit code of a command that says what goes wrong as Cyclone's do."""
    try:
        return run(words)
    except AutoscaleError as error:
        print(f"FAILED - {one_line(error)}")
        return 1


def qsub(words: Sequence[str]) -> int:
    """Submit a script; prints the id, and for an array the id of its last element."""
    parser = CommandParser("qsub")
    parser.add_argument("-j", "--job-name", dest="name")
    parser.add_argument("-q", "--queue")
    parser.add_argument("-r", "--retries", type=int)
    parser.add_argument("-d", "--definition")
    parser.add_argument("-c", "--commands")
    parser.add_argument("-p", "--params")
    parser.add_argument("-a", "--array", dest="array_file")
    parser.add_argument("file", nargs="?")
    given = vars(parser.parse_args(words))
    file, commands = given.pop("file"), given.pop("commands")
    wanted = submission.read_submission(argparse.Namespace(**given), file, (), commands)
    job = Queue.open(Settings.load()).submit(wanted.spec, wanted.each)
    print(f"{job}--{wanted.spec.count - 1}" if wanted.spec.is_array else job)
    return 0


def _found(queue: Queue, options: argparse.Namespace) -> list[Job]:
    names = [options.job_id] if options.job_id else queue.store.job_ids()
    found = [queue.find(name)[0] for name in names] if options.job_id else queue.store.jobs(names)
    return [
        job
        for job in found
        if job.spec.queue == options.queue
        and (options.job_name is None or job.spec.name == options.job_name)
    ]


def _parser(name: str) -> CommandParser:
    parser = CommandParser(name)
    parser.add_argument("-q", "--queue", required=True)
    parser.add_argument("-i", "--job-id")
    return parser


def qstat(words: Sequence[str]) -> int:
    """Show the jobs of a queue, a line for each element, and their number by state."""
    parser = _parser("qstat")
    parser.add_argument("-j", "--job-name")
    parser.add_argument("-f", "--filter-status")
    parser.add_argument("-o", "--only-job-id-out", default="False")
    options = parser.parse_args(words)
    queue = Queue.open(Settings.load())
    jobs = _found(queue, options)
    if options.job_id:
        return cli.main(["stat", options.job_id])
    state = State.named(options.filter_status) if options.filter_status else None
    for job in jobs:
        for row in views.element_rows(queue.store, job, 0, job.spec.count, state):
            name, title, word, _, left = row
            if options.only_job_id_out.lower() == "true":
                print(name)
            else:
                print(f"{name} - {on_one_line(title)} - {word} - Retries left: {left}")
    if options.only_job_id_out.lower() != "true":
        for key, number in views.totals(job.counts for job in jobs).items():
            print(f"{key}: {number}")
    return 0


def qdel(words: Sequence[str]) -> int:
    """Cancel jobs by their id or their name."""
    parser = _parser("qdel")
    parser.add_argument("-j", "--job-name")
    options = parser.parse_args(words)
    if not (options.job_id or options.job_name):
        raise QueueError("expected -i ID or -j NAME, found neither")
    queue = Queue.open(Settings.load())
    for job in _found(queue, options):
        queue.cancel(options.job_id or job.id)
        if options.job_id:
            print(f"Successfully Deleted Job ID: {options.job_id}")
    if options.job_name:
        print(f"Successfully Deleted Job Name: {on_one_line(options.job_name)}")
    return 0


def qlog(words: Sequence[str]) -> int:
    """Show the end of an output."""
    parser = _parser("qlog")
    parser.add_argument("-t", "--log-type", default="STDOUT")
    options = parser.parse_args(words)
    if options.log_type.upper() != "STDOUT":
        raise QueueError(f"expected -t STDOUT, which alone is kept here, found {options.log_type}")
    return cli.main(["log", options.job_id or ""])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
