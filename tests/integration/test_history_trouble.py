"""A node history that is locked, full, broken, gone, or of another time, over HTTP: nodes are made
for jobs, and none is deleted without knowing for how long it was idle."""

import sqlite3
from contextlib import closing

import pytest

from builders.waiting_queue import WaitingQueue
from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.node.nodehistory import dbfile
from hpc.autoscale.simulator import serve

SIZE = "Standard_F4s_v2"
CLOUD = {"clusters": {"c": {"region": "westus2", "nodearrays": {"htc": {"machine_types": [SIZE]}}}}}
INTERVAL = 60


class Site:
    """A cluster with two idle nodes that are due to be deleted in the next pass."""

    def __init__(self, simulator, directory):
        self.simulator = simulator
        self.path = directory / "nodehistory.db"
        self.config = {
            **simulator.connection("c"),
            "lock_file": None,
            "nodehistorydb": str(self.path),
            "retry": {"attempts": 1},
            "idle_timeout": 300,
            "autoscale": {"interval": INTERVAL, "scheduler_reports_hosts": False},
        }
        self.clock = clock.MockClock(1_700_000_000)
        self.drivers = []

    def run(self, jobs, again=False):
        """A pass a minute later, with so many jobs; `again`: in the process of the last one."""
        self.clock.sleep(INTERVAL)
        self.simulator.clock.advance(INTERVAL)
        if not again:
            for driver in self.drivers:
                driver.close_histories()
            self.drivers = [WaitingQueue(jobs)]
        self.drivers[0].wanted = jobs
        driver = self.drivers[0]
        driver.read_jobs_and_nodes({}, force=True)
        return Autoscaler(self.config, driver).run_once()

    def due(self):
        """Let both nodes be idle for long enough, but for one pass."""
        for jobs in (2, 2, 2, 2, 2, 0, 0, 0, 0, 0):
            assert self.run(jobs).deleted == ()

    def nodes(self):
        """How many nodes are there and to stay."""
        nodes = self.simulator.cluster("c").nodes()
        return len([node for node in nodes if node["TargetState"] == "Started"])


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The cluster on the eve of the deletion."""
    monkeypatch.setattr(dbfile, "BUSY_SECONDS", 0.05)
    with serve(CLOUD) as simulator:
        site = Site(simulator, tmp_path)
        before = clock.use_clock(site.clock)
        try:
            site.due()
            yield site
        finally:
            clock.use_clock(before)
            for driver in site.drivers:
                driver.close_histories()


def deleted_soon(site, passes=20):
    """After how many passes without work the nodes are gone."""
    for number in range(1, passes):
        site.run(0)
        if not site.nodes():
            return number
    return None


def test_the_next_pass_deletes_them(site):
    """Where nothing is wrong: so what follows says something."""
    assert deleted_soon(site) in (1, 2)


@pytest.mark.parametrize("again", [True, False], ids=["same process", "new process"])
@pytest.mark.parametrize("mode", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_locked_history_stops_deletion_and_not_growth(site, again, mode):
    """Whether it was open before or not; when it is free again, all is as usual."""
    with closing(sqlite3.connect(site.path)) as other:
        other.execute(f"BEGIN {mode}")
        summary = site.run(3, again)
        assert len(summary.created) == 1
        assert any("locked" in str(error) for error in summary.errors)
        for _ in range(10):
            assert site.run(0, again).deleted == ()
        other.rollback()
    assert site.nodes() == 3
    assert deleted_soon(site) > 1


@pytest.mark.parametrize("spoil", ["remove", "garbage", "empty", "half"])
def test_a_history_that_is_lost_begins_anew(site, spoil):
    """Nodes are made for jobs in that very pass, and idle times count from then on."""
    for driver in site.drivers:
        driver.close_histories()
    content = site.path.read_bytes()
    site.path.unlink()
    if spoil != "remove":
        new = {"garbage": b"garbage" * 1000, "empty": b"", "half": content[: len(content) // 2]}
        site.path.write_bytes(new[spoil])
    summary = site.run(3)
    assert len(summary.created) == 1 and summary.deleted == ()
    assert deleted_soon(site) >= 5


def test_a_history_that_is_not_ours(site):
    """Nodes are made, none is deleted, and the error names the file."""
    for driver in site.drivers:
        driver.close_histories()
    site.path.unlink()
    site.path.mkdir()
    summary = site.run(3)
    assert len(summary.created) == 1
    assert any(str(site.path) in str(error) for error in summary.errors)
    assert all(site.run(0).deleted == () for _ in range(10))


@pytest.mark.parametrize("jump", [-86400, -3600, 3600, 86400, 30 * 86400])
def test_a_clock_that_jumps_makes_nothing_due(site, jump):
    """An hour of summer time, or a machine that woke up: nobody watched meanwhile."""
    site.run(1)
    site.clock = clock.MockClock(site.clock.time() + jump)
    clock.use_clock(site.clock)
    assert site.run(1).deleted == ()
    assert deleted_soon(site) >= 3


def test_a_dry_run_writes_nothing(site, tmp_path):
    """Neither into the files nor beside them."""
    for driver in site.drivers:
        driver.close_histories()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        path.chmod(0o400)
    Autoscaler(site.config, WaitingQueue(3), dry_run=True).run_once()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_system_without_wal(site):
    """The files use the journal that works everywhere."""
    for path in (site.path, site.path.with_name("requests.db")):
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_file_of_a_later_version_of_ours(site):
    """What it has beside the published tables is left alone, and it is used."""
    with closing(sqlite3.connect(site.path)) as db:
        known = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {known + 5}")
        db.execute("CREATE TABLE from_the_future (x)")
        db.execute("INSERT INTO from_the_future VALUES (1)")
        db.commit()
    assert deleted_soon(site) in (1, 2)
    with closing(sqlite3.connect(site.path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == known + 5
        assert db.execute("SELECT * FROM from_the_future").fetchall() == [(1,)]
        assert db.execute("SELECT version FROM metadata").fetchall() == [("0.0.6",)]


def test_a_history_that_two_clusters_share_is_said_to_be_shared(tmp_path):
    """By each pass after another cluster's, as no node of either becomes idle; not by the passes of
    a cluster that has another name now."""
    array = CLOUD["clusters"]["c"]
    with serve({"clusters": {"c": array, "other": array}}) as simulator:
        site = Site(simulator, tmp_path)
        own, others = site.config, {**site.config, "cluster_name": "other"}

        def notes(config, jobs):
            site.config = config
            return site.run(jobs).notes

        assert notes(own, 1) == ()
        assert notes(own, 1) == ()
        assert notes(others, 0) == ()
        assert notes(others, 0) == ()
        assert notes(own, 1) == (
            "the node history is also used for another cluster, so that no node of either becomes"
            " idle: name another nodehistorydb for each",
        )
        assert "also used for another cluster" in notes(others, 0)[0]
        assert notes(others, 0) == ()
