"""The Celery example's driver: which nodes may go, who works on them, and what is wrong with a
configuration."""

import json
import traceback
from dataclasses import replace

import pytest

import messages
import tasks
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
from driver import CeleryDriver
from hpc.autoscale.errors import ConfigurationException
from workers import WorkerRegistry, merged, read_census

__all__ = ["app", "driver", "now", "redis", "workers"]


def test_an_idle_worker_leaves_its_queues_before_its_node_may_go(driver, workers):
    """Drained means: fetches no more, and has nothing left."""
    workers.answers = [a_worker()]
    look(driver)
    node = node_of_worker()
    assert driver.handle_draining([node]) == [node]
    assert workers.told == [("cancel_consumer", "default", "htc-1")]


def test_what_is_foreseen_is_what_is_known_of_workers(driver, workers):
    """Nobody is asked, and nobody is told anything."""
    workers.answers = [a_worker("htc-1", held=("t",)), a_worker("htc-2")]
    look(driver)
    busy, idle, unknown = (node_of_worker(f"htc-{n}") for n in (1, 2, 3))
    nodes = [busy, idle, unknown]
    assert driver.foresee("add_nodes_to_cluster", nodes) == [busy, idle]
    assert driver.foresee("handle_draining", nodes) == [idle]
    assert driver.foresee("handle_failed_nodes", nodes) == [idle, unknown]
    assert driver.foresee("handle_post_delete", nodes) == nodes
    assert workers.told == []


def test_a_worker_that_fetched_a_task_meanwhile_keeps_its_node(driver, workers):
    """It drains, and its node goes when a later pass finds it empty."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = [a_worker(held=("late",))]
    node = node_of_worker()
    assert driver.handle_draining([node]) == []
    workers.answers = [a_worker(queues=())]
    look(driver)
    assert driver.handle_draining([node]) == [node]


def test_a_worker_that_is_silent_when_told_to_drain_keeps_its_node(driver, workers):
    """Unknown is not idle."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = []
    assert driver.handle_draining([node_of_worker()]) == []


def test_a_drained_worker_is_called_back_when_its_node_gets_work(driver, workers):
    """The cheapest capacity is the one that is still there; without new work it stays drained."""
    workers.answers = [a_worker(held=("running",), queues=())]
    look(driver)
    node = node_of_worker()
    node.assign("running")
    assert driver.add_nodes_to_cluster([node]) == [node]
    assert workers.told == []
    node.assign("default")
    driver.add_nodes_to_cluster([node])
    assert workers.told == [("add_consumer", "default", "htc-1")]


def test_nodes_without_a_worker_have_not_joined(driver):
    """A worker joins by itself, when it is up."""
    assert driver.add_nodes_to_cluster([node_of_worker()]) == []


def test_a_failed_node_may_go_unless_its_worker_works(driver, workers):
    """The worker's word is worth more than the node's state."""
    workers.answers = [a_worker("htc-1", held=("t",)), a_worker("htc-2")]
    look(driver)
    busy, idle, unknown = (node_of_worker(f"htc-{n}", state="Failed") for n in (1, 2, 3))
    assert driver.handle_failed_nodes([busy, idle, unknown]) == [idle, unknown]


def test_a_silent_worker_on_a_failed_node_is_gone(driver, workers, app):
    """Two signs are enough: from the next look on it speaks for nothing, and its tasks come
    back."""
    submit(app, 1)
    workers.answers = [a_worker(held=fetch(app, 1))]
    look(driver)
    workers.answers = []
    look(driver)
    failed = node_of_worker(state="Failed")
    assert driver.handle_failed_nodes([failed]) == [failed]
    assert look(driver) == ({}, {})
    assert look(driver) == ({"default": 1}, {})


def test_a_node_that_boots_too_long_may_go_unless_its_worker_works(driver, workers):
    """A worker can be at work before CycleCloud calls its node ready."""
    workers.answers = [a_worker("htc-1", held=("t",))]
    look(driver)
    working, hanging = node_of_worker("htc-1", state="Preparing"), node_of_worker(
        "htc-2", state="Preparing"
    )
    assert driver.handle_boot_timeout([working, hanging]) == [hanging]


def test_the_worker_of_a_deleted_node_is_not_listened_to(driver, workers):
    """It still answers while it shuts down; a new node of the same name is somebody else."""
    workers.answers = [a_worker()]
    look(driver)
    driver.handle_post_delete([node_of_worker()])
    assert look(driver)[1] == {}
    workers.answers = [a_worker(node_id="another")]
    assert "htc-1" in look(driver)[1]


def test_a_node_that_is_kept_and_never_answers_holds_up_nothing_for_ever(driver, app, now):
    """What nobody holds goes back once it has been silent for worker_timeout."""
    submit(app, 1)
    fetch(app, 1)
    kept = node_of_worker(keep_alive=True)
    for _ in range(3):
        driver.validate_nodes([], [kept])
        assert look(driver)[0] == {}
        now.now += 20
    driver.validate_nodes([], [kept])
    assert look_for(driver, 60, now)[0] == {"default": 1}


def test_after_an_outage_a_ready_node_is_waited_for_as_before(driver, app, monkeypatch):
    """Its worker may hold what nobody else does."""
    submit(app, 1)
    fetch(app, 1)
    driver.validate_nodes([], [node_of_worker()])
    with monkeypatch.context() as patch, pytest.raises(messages.BrokerError):
        patch.setattr(messages, "depths", without_broker)
        look(driver)
    for _ in range(3):
        assert look(driver)[0] == {}


def without_broker(*words):
    raise messages.BrokerError("broker: no answer in time")


def test_deleted_nodes_are_forgotten_when_their_workers_are_gone(app, workers, now):
    """A loop that runs for years remembers them no longer than they answer, and worker_timeout."""
    registry = WorkerRegistry(app, patience=60)
    workers.answers = [a_worker()]
    registry.call(None)
    registry.dismiss([node_of_worker()])
    now.now += 50
    assert registry.call(None) == []
    now.now += 50
    assert registry.call(None) == []
    assert registry._dismissed
    workers.answers = []
    now.now += 61
    registry.call(None)
    assert not registry._dismissed


def test_workers_are_found_by_node_id_before_hostname(app, workers):
    """Host names are used again; ids are not."""
    registry = WorkerRegistry(app)
    workers.answers = [a_worker("htc-1", node_id="new"), a_worker("onprem", node_id="")]
    registry.call(None)
    same, other = node_of_worker("htc-9", node_id="new"), node_of_worker("htc-1", node_id="old")
    here = node_of_worker("onprem", node_id="any")
    found = {node: worker.hostname for node, worker in registry.of([same, other, here])}
    assert found == {same: "htc-1", here: "onprem"}


def test_a_census_names_the_host_and_survives_garbage():
    """Short and in lower case; an answer that is no census is nothing."""
    said = {"node_id": "n", "slots": 2, "held": {"t": "q"}, "queues": ["q"], "home_queues": ["q"]}
    assert read_census("celery@HTC-1.example.org", said).hostname == "htc-1"
    assert read_census("celery@htc-1", {"error": "unknown command"}) is None
    assert read_census("celery@htc-1", {**said, "slots": "many"}) is None


def test_two_answers_from_one_host_are_one_node():
    """A worker that takes over from another of its name adds no slots; a second worker does."""
    old, new = a_worker(held=("a",), queues=()), a_worker(held=("b",))
    (both,) = merged([old, new])
    assert (both.slots, both.held, both.queues) == (2, {"a", "b"}, ("default",))
    (both,) = merged([old, replace(new, names=("gpu@htc-1",))])
    assert (both.slots, both.names) == (4, ("celery@htc-1", "gpu@htc-1"))


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        (None, 'celery: expected {"queues"'),
        ({"queues": {}, "worker_timeot": 1}, "did you mean 'worker_timeout'"),
        ({"queues": {}, "answer_time": 0}, "celery.answer_time: expected seconds"),
        ({"queues": {"gpu": {"or": [{"ngpus": {}}]}}}, "celery.queues.gpu: "),
        ({"queues": {"line\nbreak": {}}}, "celery.queues: expected printable names"),
    ],
)
def test_mistakes_in_the_section_are_named(app, section, complaint):
    """Where, what was expected, what was found."""
    with pytest.raises(ConfigurationException, match=complaint.replace("{", "\\{")):
        CeleryDriver(app).preprocess_config({"celery": section})


def test_a_node_has_a_slot_per_core_where_nothing_else_is_said(app):
    """After the definitions of the configuration, of which the first wins."""
    config = CeleryDriver(app).preprocess_config({**CONFIG, "default_resources": [{"name": "x"}]})
    assert [resource["name"] for resource in config["default_resources"]] == ["x", "slots"]


def test_a_broker_that_is_away_is_an_error_and_not_an_empty_queue(monkeypatch, workers):
    """Else everything would look idle; the password stays out of it."""
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://:secret@127.0.0.1:1/0")
    app = type(tasks.app)("test")
    with pytest.raises(messages.BrokerError, match=r"broker redis://.*127\.0\.0\.1:1/0") as caught:
        CeleryDriver(app).read_jobs_and_nodes(CONFIG)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis://:S3cret/x@127.0.0.1:1/0", "expected one as redis://:PASSWORD@host"),
        ("amqp://guest:S3cret#x@127.0.0.1:1//", "expected one as redis://:PASSWORD@host"),
        ("amqp://guest:S3cret?x@127.0.0.1:1//", "expected one as redis://:PASSWORD@host"),
        ("reddis://:S3cret@127.0.0.1:1/0", "No such transport: reddis"),
        ("redis://:S3cret@127.0.0.1:1/abc", "Database is int"),
        ("redis://127.0.0.1:1/0?password=S3cret", "multiple values for keyword argument"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_without_its_password(
    monkeypatch, workers, url, complaint
):
    """Also one whose password is not quoted: what Python says of that shows it."""
    monkeypatch.setenv("CELERY_BROKER_URL", url)
    with pytest.raises(messages.BrokerError, match=f"CELERY_BROKER_URL.*{complaint}") as caught:
        CeleryDriver(type(tasks.app)("test")).read_jobs_and_nodes(CONFIG)
    assert "S3cret" not in "".join(traceback.format_exception(caught.value))


def test_the_examples_configuration_is_what_the_driver_expects(app):
    """autoscale.json passes the driver's own check."""
    config = json.loads((EXAMPLE / "autoscale.json").read_text())
    assert CeleryDriver(app).preprocess_config(config)["cluster_name"] == "celery"
