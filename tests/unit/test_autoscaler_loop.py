"""The repeated autoscaler: pauses, failures, stopping."""

import json
import math
import os
import threading

import pytest

from builders.fake_scheduler import FakeScheduler
from builders.nodes import an_htc_cluster
from hpc.autoscale.autoscaler import Autoscaler, Reporter
from hpc.autoscale.autoscaler.repeating import LONGEST_INTERVAL, MAX_PAUSE
from hpc.autoscale.ccbindings import MADE_BY
from hpc.autoscale.ccbindings.errors import Throttled
from hpc.autoscale.ccbindings.pacing import NOTICE_WITHIN
from hpc.autoscale.clock import MockClock
from hpc.autoscale.errors import ConfigurationException, InvalidArgument, MultipleInstancesError
from hpc.autoscale.journal import Journal
from hpc.autoscale.util import NullSingletonLock, SingletonFileLock, new_loop_lock


class Diary(Reporter):
    """When passes began and ended, and what came of them."""

    def __init__(self, clock):
        self.clock = clock
        self.began = []
        self.failures = []
        self.summaries = []

    def pass_started(self, dry_run):
        self.began.append(self.clock.time())

    def pass_finished(self, summary):
        self.summaries.append(summary)

    def pass_failed(self, error, failures, pause):
        self.failures.append((error.message, failures, pause))


@pytest.fixture
def scheduler(tmp_path, monkeypatch):
    """A scheduler with nothing to do."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    return FakeScheduler()


@pytest.fixture
def diary():
    """A reporter with a clock of its own."""
    return Diary(MockClock())


@pytest.fixture
def autoscaler(scheduler, diary):
    """An autoscaler on the diary's clock."""
    config = {"cluster_name": "clusty", "_mock_bindings": an_htc_cluster(vm_size="Standard_F4s")}
    return Autoscaler(config, scheduler, clock=diary.clock, reporter=diary)


def after(passes, diary):
    """Stop once so many passes have begun."""
    return lambda: len(diary.began) >= passes


def pauses(diary):
    """Seconds from the start of each pass to that of the next; passes take no time on this
    clock."""
    return [later - earlier for earlier, later in zip(diary.began, diary.began[1:], strict=False)]


def test_passes_come_at_an_interval(autoscaler, diary):
    """And their number is returned."""
    assert autoscaler.run_forever(15, should_stop=after(4, diary)) == 4
    assert pauses(diary) == [15, 15, 15]
    assert len(diary.summaries) == 4


@pytest.mark.parametrize("interval", ["15", None, -1, math.nan, math.inf, 1e300, 10**400])
def test_an_interval_that_is_none_is_refused(autoscaler, diary, interval):
    """Before the first pass, and of a look as well."""
    said = "expected interval to be a number of seconds from 0 to 1e9, found "
    with pytest.raises(InvalidArgument, match=f"^run_forever: {said}"):
        autoscaler.run_forever(interval)
    if interval is not None:
        with pytest.raises(InvalidArgument, match=f"^look: {said}"):
            autoscaler.look(interval)
    assert diary.began == []


def test_a_loop_within_a_loop_is_refused(autoscaler, diary, scheduler):
    """As one that a hook begins; the first goes on, and keeps its lock."""
    scheduler.validate_nodes = lambda *_: autoscaler.run_forever(1, should_stop=lambda: True)
    assert autoscaler.run_forever(15, should_stop=after(2, diary)) == 2
    assert "expected one loop at a time, found a second" in diary.failures[-1][0]


def test_the_longest_interval_can_be_read_in_the_journal(autoscaler, diary, scheduler):
    """Nothing that a loop accepts makes its own records unreadable."""
    autoscaler.config["journal"] = {}
    autoscaler.run_forever(LONGEST_INTERVAL, should_stop=lambda: len(diary.summaries) > 0)
    assert len(list(Journal(scheduler.autoscale_home + "/journal"))) == 1


def test_no_pass_when_told_to_stop_before(autoscaler, diary):
    """A loop that should not run does not."""
    stop = threading.Event()
    stop.set()
    assert autoscaler.run_forever(15, stop) == 0
    assert diary.began == []


def test_stopping_while_waiting(autoscaler, diary):
    """Is noticed soon, not at the end of the pause."""
    stop_at = diary.clock.time() + 5
    autoscaler.run_forever(1000, should_stop=lambda: diary.clock.time() >= stop_at)
    assert stop_at <= diary.clock.time() <= stop_at + NOTICE_WITHIN


def test_the_pass_in_hand_is_finished(autoscaler, diary, scheduler):
    """Being told to stop in the middle of a pass does not cut it short, and leaves no lock."""
    stop = threading.Event()
    scheduler.validate_nodes = lambda *_: stop.set()
    assert autoscaler.run_forever(15, stop) == 1
    assert len(diary.summaries) == 1
    SingletonFileLock(scheduler.autoscale_home + "/lock.file").unlock()


def test_failing_passes_back_off(autoscaler, diary, scheduler):
    """Twice as long for each failure in a row, up to a limit, and the next success forgets them."""
    missing = RuntimeError("qstat is missing")
    scheduler.failing["read"] = missing

    def stop():
        if len(diary.began) == 7:
            scheduler.failing.clear()
        if len(diary.began) == 9:
            scheduler.failing["read"] = missing
        return len(diary.began) >= 11

    autoscaler.run_forever(15, should_stop=stop)
    assert [pause for _, _, pause in diary.failures[:7]] == [30, 60, 120, 240] + 3 * [MAX_PAUSE]
    assert [count for _, count, _ in diary.failures] == [1, 2, 3, 4, 5, 6, 7, 1, 2]
    assert diary.failures[0][0] == "qstat is missing"
    assert pauses(diary)[-4:] == [MAX_PAUSE, 15, 15, 30]


def test_a_loop_that_fails_for_days_goes_on(autoscaler, diary, scheduler):
    """Whatever doubles with each failure has an end: a thousand of them took less than four days,
    and the next ended the loop."""
    scheduler.failing["read"] = RuntimeError("the server is away")
    autoscaler.run_forever(15.0, should_stop=after(1100, diary))
    assert diary.failures[-1] == ("the server is away", 1100, MAX_PAUSE)


@pytest.mark.parametrize("heard", ["pass_started", "pass_finished", "pass_failed"])
def test_a_reporter_that_fails_ends_no_loop(autoscaler, diary, scheduler, heard):
    """Whatever it was told."""
    told = []

    def fails(*_):
        told.append(heard)
        raise ValueError("no such table")

    setattr(diary, heard, fails)
    if heard == "pass_failed":
        scheduler.failing["read"] = RuntimeError("no")
    assert autoscaler.run_forever(15, should_stop=lambda: len(told) >= 3) == 3


def test_a_long_interval_is_never_shortened(autoscaler, diary, scheduler):
    """Failing does not make the loop any faster."""
    scheduler.failing["read"] = RuntimeError("no")
    autoscaler.run_forever(1000, should_stop=after(2, diary))
    assert pauses(diary)[0] >= 1000


def test_retry_after_of_a_failed_pass_is_honoured(autoscaler, diary, scheduler):
    """However long the server asks for."""
    scheduler.failing["read"] = Throttled("https://cc", 429, "slow down", 1000.0, "later")
    autoscaler.run_forever(15, should_stop=after(2, diary))
    assert pauses(diary) == [1000]


class NoText(Exception):
    """As of a library whose errors are made in a way that their `__str__` did not expect."""

    def __str__(self):
        raise AttributeError("no response")


class NoRetryAfter(Exception):
    """As of one that looks for a header in a reply that never came."""

    @property
    def retry_after(self):
        raise KeyError("Retry-After")


@pytest.mark.parametrize("kind", [NoText, NoRetryAfter])
@pytest.mark.parametrize("hook", ["read", "validate_nodes", "add_nodes_to_cluster"])
def test_an_error_that_cannot_say_anything_ends_no_loop(autoscaler, diary, scheduler, kind, hook):
    """It is named by its type, in the journal as well."""
    autoscaler.config["journal"] = {}
    scheduler.failing[hook] = kind()
    assert autoscaler.run_forever(15, should_stop=after(2, diary)) == 2
    failed = [message for message, _, _ in diary.failures]
    failed += [each.message for summary in diary.summaries for each in summary.errors]
    name = kind.__name__
    assert failed and all(name in message for message in failed)
    first, second = Journal(scheduler.autoscale_home + "/journal")
    assert name in json.dumps(first.did) and name in json.dumps(second.did)


@pytest.mark.parametrize("said", ["30", True, math.inf, 10**400, -30])
def test_a_retry_after_that_is_no_time_is_none(autoscaler, diary, scheduler, said):
    """Errors of a driver's own libraries have anything of that name; the loop goes on."""
    error = RuntimeError("slow down")
    error.retry_after = said
    scheduler.failing["read"] = error
    autoscaler.run_forever(15, should_stop=after(2, diary))
    assert pauses(diary) == [30]


def test_retry_after_of_a_part_of_a_pass_is_honoured(autoscaler, diary, scheduler):
    """The pass was done, but one of its steps was told to wait."""
    scheduler.failing["add_nodes_to_cluster"] = Throttled("u", 429, "slow down", 70.0, "later")
    autoscaler.run_forever(15, should_stop=after(2, diary))
    assert pauses(diary) == [70]
    assert diary.failures == []


def test_a_configuration_that_is_wrong_from_the_start_ends_the_loop(autoscaler, diary, scheduler):
    """Nobody wants to find that out from the log a day later."""
    scheduler.failing["preprocess_config"] = ConfigurationException("queues: expected a list")
    with pytest.raises(ConfigurationException, match="queues"):
        autoscaler.run_forever(15, should_stop=after(2, diary))


def test_a_configuration_that_goes_wrong_later_does_not(autoscaler, diary, scheduler):
    """A file that somebody is editing will be right again."""

    def stop():
        if diary.summaries:
            scheduler.failing["preprocess_config"] = ConfigurationException("queues: no list")
        return len(diary.began) >= 3

    assert autoscaler.run_forever(15, should_stop=stop) == 3
    assert len(diary.failures) == 2


def test_a_lock_that_is_held_fails_the_pass(autoscaler, diary, scheduler):
    """And the loop tries again."""
    lock = SingletonFileLock(scheduler.autoscale_home + "/lock.file")

    def stop():
        if diary.failures:
            lock.unlock()
        return bool(diary.summaries)

    assert autoscaler.run_forever(15, should_stop=stop) == 2
    assert "lock.file" in diary.failures[0][0]


def test_a_pass_that_finds_its_lock_taken_is_skipped(autoscaler, diary, scheduler):
    """The next one comes after the usual pause, and failures before and after it are one row."""
    path = scheduler.autoscale_home + "/lock.file"
    held = []

    def stop():
        number = len(diary.began)
        scheduler.failing.clear()
        if number in (0, 3):
            scheduler.failing["read"] = RuntimeError("qstat is missing")
        elif number == 1 and not held:
            held.append(SingletonFileLock(path))
        if number == 3:
            held[0].unlock()
        return number >= 5

    autoscaler.run_forever(15, should_stop=stop)
    assert pauses(diary) == [30, 15, 15, 60]
    assert [(count, pause) for _, count, pause in diary.failures] == [
        *((1, 30), (1, 15), (1, 15), (2, 60)),
    ]
    assert f"held by process {os.getpid()}" in diary.failures[1][0]


def test_a_lock_that_cannot_be_used_is_a_failure(autoscaler, diary, scheduler):
    """Nobody gives it back, so that waiting is longer each time."""
    os.mkdir(scheduler.autoscale_home + "/lock.file")
    autoscaler.run_forever(15, should_stop=after(3, diary))
    assert pauses(diary) == [30, 60]


@pytest.mark.parametrize(
    ("lock_file", "own", "failed"), [("lock", False, 1), (None, False, 0), ("lock", True, 0)]
)
def test_one_loop_of_a_machine_for_a_cluster(
    scheduler, diary, tmp_path, monkeypatch, lock_file, own, failed
):
    """Of another one all passes fail; not where no lock is wanted, or the driver has its own."""
    config = {
        "cluster_name": str(tmp_path),  # that no other test knows
        "url": f"https://test-{os.getpid()}.example",
        "lock_file": lock_file and str(tmp_path / lock_file),
        MADE_BY: lambda _: an_htc_cluster(vm_size="Standard_F4s"),
    }
    if own:
        new_lock = staticmethod(lambda config: NullSingletonLock())
        monkeypatch.setattr(type(scheduler), "new_singleton_lock", new_lock)
    other = new_loop_lock()
    other.take(config)
    try:
        loop = Autoscaler(config, scheduler, clock=diary.clock, reporter=diary)
        loop.run_forever(15, should_stop=after(1, diary))
    finally:
        other.unlock()
    assert (len(diary.failures), len(diary.summaries)) == (failed, 1 - failed)


def test_one_pass_with_the_lock_held(autoscaler, scheduler):
    """Is an error for the caller."""
    lock = SingletonFileLock(scheduler.autoscale_home + "/lock.file")
    with pytest.raises(MultipleInstancesError, match="process"):
        autoscaler.run_once()
    lock.unlock()


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(("moved", "duration"), [(5, 5), (-3600, 0)])
def test_how_long_a_pass_takes(autoscaler, diary, scheduler, moved, duration, dry_run):
    """From when it began. Where the clock went back it takes no time, rather than less than
    none."""
    began = diary.clock.now

    def move(*_):
        diary.clock.now += moved

    scheduler.validate_nodes = move
    autoscaler.dry_run = dry_run
    summary = autoscaler.run_once()
    assert (summary.started_at, summary.duration) == (began, duration)


def test_jobs_are_read_anew_in_every_pass(autoscaler, diary, scheduler):
    """What the driver remembers is of the pass before."""
    autoscaler.run_forever(15, should_stop=after(3, diary))
    assert scheduler.calls.count("read") == 3
