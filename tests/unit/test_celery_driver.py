"""The Celery example's driver: what it makes of queues and workers."""

import json

import pytest

import messages
from builders.celery_workers import (
    CONFIG,
    EXAMPLE,
    a_worker,
    app,
    driver,
    fetch,
    look,
    look_for,
    node_of_worker,
    now,
    redis,
    submit,
    workers,
)
from driver import UNKNOWN_WORK, lasting_driver
from hpc.autoscale.cli.drivers import load_driver
from hpc.autoscale.job.job import Job
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict

__all__ = ["app", "driver", "now", "redis", "workers"]


def test_waiting_tasks_are_iterations_of_a_job_per_queue(driver, app):
    """A queue is a job with as many iterations as tasks wait in it; an empty queue is no job."""
    submit(app, 3)
    submit(app, 2, queue="gpu")
    assert look(driver)[0] == {"default": 3, "gpu": 2}
    submit(app, 1)
    assert look(driver)[0] == {"default": 4, "gpu": 2}


def test_every_task_takes_a_slot(driver, app):
    """The slot is added to what the queue needs, whether that is one constraint or a list."""
    submit(app, 1)
    submit(app, 1, queue="gpu")
    jobs, _ = driver.read_jobs_and_nodes(CONFIG)
    assert [[c.to_dict() for c in job._constraints] for job in jobs] == [
        [{"slots": 1}, {"node.nodearray": ["htc"]}],
        [{"slots": 1}, {"ngpus": 1}],
    ]


def test_why_tasks_of_a_queue_wait_is_an_event(driver, app):
    """For whoever listens to events, when it is news; nobody need listen."""
    job, text = Job("gpu", {"ngpus": 1}), "the quota of F has 8 of 8 cores in use"
    waits = Verdict("job gpu", Stand.WAITS, "FamilyQuota", text, (Cause("FamilyQuota", text),))
    comes = Verdict("job gpu", Stand.COMES, "Starts", "it comes", (Cause("Starts", "it comes"),))
    driver.explain_job(job, waits)
    heard = []
    with app.connection() as connection:
        handlers = {"queue-waits": heard.append, "queue-served": heard.append}
        receiver = app.events.Receiver(connection, handlers=handlers)
        listening = receiver.itercapture(limit=2, timeout=5, wakeup=False)
        next(listening)  # listens from here on
        driver.explain_job(job, waits)
        driver.explain_job(job, comes)
        list(listening)
    assert [(each["type"], each["queue"], each["why"]) for each in heard] == [
        ("queue-waits", "gpu", text),
        ("queue-served", "gpu", "it comes"),
    ]


def test_fetched_tasks_are_taken_slots_and_no_job(driver, app, workers):
    """What a worker has fetched counts once: on its node."""
    submit(app, 3)
    workers.answers = [a_worker(held=fetch(app, 2))]
    jobs, nodes = look(driver)
    assert jobs == {"default": 1}
    assert nodes["htc-1"].available["slots"] == 0
    assert nodes["htc-1"].resources["slots"] == 2
    assert len(nodes["htc-1"].assignments) == 2


def test_a_worker_with_more_tasks_than_slots_has_no_slot_left(driver, workers):
    """Tasks that are put off are held besides those that run."""
    workers.answers = [a_worker(held=("a", "b", "c"))]
    assert look(driver)[1]["htc-1"].available["slots"] == 0


def test_a_silent_worker_is_not_idle(driver, workers):
    """No answer means unknown work: no free slots, and assigned."""
    workers.answers = [a_worker()]
    assert not look(driver)[1]["htc-1"].assignments
    workers.answers = []
    node = look(driver)[1]["htc-1"]
    assert node.assignments == {UNKNOWN_WORK}
    assert node.available["slots"] == 0
    assert driver.handle_draining([node_of_worker()]) == []


def test_a_worker_that_stays_silent_is_given_up(driver, workers, now):
    """After worker_timeout it is no node any more, unless it answers again."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = []
    look(driver)
    assert look_for(driver, 61, now)[1] == {}
    workers.answers = [a_worker()]
    assert "htc-1" in look(driver)[1]


def test_silence_counts_also_where_passes_are_rare(driver, workers, now):
    """A pass for each worker_timeout, some of which ask twice."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = []
    for _ in range(3):
        look(driver)
        now.now += 61
    assert look(driver)[1] == {}


@pytest.mark.parametrize("jump", [3600, 86400, -3600])
def test_a_clock_that_is_set_gives_up_no_worker(driver, workers, now, jump):
    """Nor a node that has no worker yet; and nothing stays for longer than worker_timeout."""
    workers.answers = [a_worker("htc-1", held=["task"])]
    look(driver)
    workers.answers = []
    new = node_of_worker("htc-2")
    for seconds in (10, 10, 10 + jump, 10):
        now.now += seconds
        assert look(driver)[1]["htc-1"].assignments == {"task", UNKNOWN_WORK}
        driver.validate_nodes([], [new])
        assert new.state == "Ready"
    for _ in range(4):
        now.now += 15
        found = look(driver)[1]
        driver.validate_nodes([], [new])
    assert found == {} and new.state == "Failed"


def test_while_the_broker_is_away_nobody_is_silent(driver, workers, now, app, monkeypatch):
    """A worker that had not come back from one outage at the begin of a longer one keeps its node,
    and its task is not run a second time. Afterwards it has worker_timeout as anybody."""
    held = (submit(app, 1), fetch(app, 1))[1]
    workers.answers = [a_worker(held=held)]
    look(driver)
    workers.answers = []
    look(driver)
    driver.validate_nodes([], [node_of_worker()])
    with monkeypatch.context() as patch:
        patch.setattr(app.conf, "broker_url", "redis://127.0.0.1:1/0")
        patch.setattr(app.conf, "broker_read_url", "redis://127.0.0.1:1/0")
        now.now += 100
        with pytest.raises(messages.BrokerError):
            look(driver)
    for _ in range(3):
        now.now += 15
        jobs, nodes = look(driver)
        assert not jobs and nodes["htc-1"].assignments == {*held, UNKNOWN_WORK}
        node = node_of_worker()
        driver.validate_nodes([], [node])
        assert node.state == "Ready"
    assert look_for(driver, 61, now)[1] == {}
    driver.validate_nodes([], [node])
    assert node.state == "Failed"


@pytest.mark.parametrize("fails", ["connected", "depths"])
def test_a_broker_that_comes_and_goes_makes_nobody_silent(driver, workers, now, monkeypatch, fails):
    """When it goes before workers are back, or takes no messages, which shows only when queues are
    read: however long that goes on, no task runs twice and no node fails."""
    workers.answers = [a_worker(held=["task"])]
    look(driver)
    workers.answers = []
    for _ in range(5):
        for _ in range(3):
            now.now += 30
            with monkeypatch.context() as patch:
                patch.setattr(messages, fails, without_broker)
                with pytest.raises(messages.BrokerError):
                    look(driver)
        now.now += 30
        assert look(driver)[1]["htc-1"].assignments == {"task", UNKNOWN_WORK}
        node = node_of_worker()
        driver.validate_nodes([], [node])
        assert node.state == "Ready"


def without_broker(*words):
    raise messages.BrokerError("broker: no answer in time")


def test_a_silent_worker_whose_node_is_listed_no_more_is_gone(driver, workers, app):
    """As after an eviction: two signs are enough, and its tasks come back."""
    submit(app, 1)
    workers.answers = [a_worker(held=fetch(app, 1))]
    look(driver)
    driver.validate_nodes([], [node_of_worker()])
    workers.answers = []
    look(driver)
    driver.validate_nodes([], [node_of_worker("htc-2", state="Preparing")])
    look(driver)
    assert look(driver) == ({"default": 1}, {})


def test_a_silent_worker_whose_node_was_never_listed_is_only_silent(driver, workers):
    """Some nodes are none of the autoscaler's business; their workers are."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = []
    for _ in range(3):
        driver.validate_nodes([], [node_of_worker("htc-2", state="Preparing")])
        assert look(driver)[1]["htc-1"].assignments == {UNKNOWN_WORK}


def test_a_ready_node_without_a_worker_fails_in_the_end(driver, workers, now):
    """It would be given work for ever; nodes that must be kept are left alone, and so are those
    that answer."""
    workers.answers = [a_worker("htc-2")]
    look(driver)
    dead, alive, kept = (
        node_of_worker("htc-1"),
        node_of_worker("htc-2"),
        node_of_worker("htc-3", keep_alive=True),
    )
    for _ in range(3):
        driver.validate_nodes([], [dead, alive, kept])
        assert dead.state == "Ready"
        now.now += 20
    driver.validate_nodes([], [dead, alive, kept])
    assert [node.state for node in (dead, alive, kept)] == ["Failed", "Ready", "Ready"]


def test_workers_that_are_on_no_known_node_keep_silent_nodes(driver, workers, now, caplog):
    """They may be those of the node, under a name that CycleCloud does not know. One that says that
    it is elsewhere is not."""
    workers.answers = [a_worker("10.0.0.7", node_id=""), a_worker("htc-2")]
    for _ in range(4):
        look(driver)
        nodes = [node_of_worker("htc-1"), node_of_worker("htc-2")]
        driver.validate_nodes([], nodes)
        now.now += 20
    assert [node.state for node in nodes] == ["Ready", "Ready"]
    (said,) = [text for text in caplog.messages if "is kept" in text]
    assert said.endswith("say no NodeId and whose host is no node: 10.0.0.7")
    workers.answers[0] = a_worker("10.0.0.7", node_id="elsewhere")
    look(driver)
    driver.validate_nodes([], nodes)
    assert [node.state for node in nodes] == ["Failed", "Ready"]


def test_a_booting_node_is_not_expected_to_answer(driver, now):
    """Only ready nodes are."""
    node = node_of_worker(state="Preparing")
    for _ in range(3):
        driver.validate_nodes([], [node])
        now.now += 100
    assert node.state == "Preparing"


def test_tasks_of_a_worker_that_is_gone_are_put_back(driver, app):
    """What nobody answers for twice in a row goes back into its queue, and is counted there."""
    submit(app, 3)
    fetch(app, 2)
    assert look(driver)[0] == {"default": 1}
    assert look(driver)[0] == {"default": 3}
    assert look(driver)[0] == {"default": 3}


def test_a_key_prefix_makes_no_difference(driver, app):
    """Several apps may share a Redis."""
    app.conf.broker_transport_options = {"global_keyprefix": "ours:"}
    submit(app, 2)
    fetch(app, 2)
    look(driver)
    assert look(driver)[0] == {"default": 2}


def test_a_message_that_is_no_task_is_left_alone(driver, app):
    """Whatever else uses the broker."""
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        channel.client.zadd(channel.unacked_index_key, {"tag": 1.0, "gone": 2.0})
        channel.client.hset(channel.unacked_key, "tag", json.dumps([{"body": "x"}, "", "q"]))
    assert look(driver)[0] == look(driver)[0] == {}


def test_a_task_that_was_put_back_says_that_it_was_delivered_before(driver, app):
    """The next worker can tell."""
    submit(app, 1)
    fetch(app, 1)
    look(driver)
    look(driver)
    with app.connection_for_read() as connection:
        message = connection.default_channel.basic_get("default", no_ack=True)
    assert message.delivery_info["redelivered"]


def test_tasks_that_a_worker_answers_for_stay_where_they_are(driver, app, workers):
    """However often one looks."""
    submit(app, 2)
    workers.answers = [a_worker(held=fetch(app, 2))]
    for _ in range(3):
        assert look(driver)[0] == {}


def test_nothing_is_put_back_while_a_worker_is_silent(driver, app, workers):
    """What it does is unknown; it may be running them."""
    submit(app, 2)
    workers.answers = [a_worker()]
    look(driver)
    fetch(app, 2)
    workers.answers = []
    for _ in range(3):
        assert look(driver)[0] == {}


def test_nothing_is_put_back_while_a_ready_node_has_not_answered(driver, app):
    """Its worker may have fetched them without ever having answered."""
    submit(app, 2)
    fetch(app, 2)
    for _ in range(3):
        driver.validate_nodes([], [node_of_worker()])
        assert look(driver)[0] == {}


def test_a_dry_run_puts_nothing_back(driver, app):
    """Looking must not change anything."""
    submit(app, 2)
    fetch(app, 2)
    for _ in range(3):
        jobs, _ = driver.read_jobs_and_nodes({**CONFIG, "read_only": True}, force=True)
        assert jobs == []


def test_every_pass_of_azscale_has_the_same_driver():
    """What is known of silent workers must outlive a pass, and azscale asks for a driver for
    each."""
    spec = json.loads((EXAMPLE / "autoscale.json").read_text(encoding="utf-8"))["driver"]
    try:
        assert load_driver(spec, "celery", {}) is load_driver(spec, "celery", {})
    finally:
        lasting_driver.cache_clear()
