"""Gangs of which only a part of the nodes comes: what is asked for, what is released, and what is
said about it."""

import contextlib
import json
import sqlite3

import pytest

from builders.failing_cloud import F2, F4, REGION, a_site
from builders.several_clusters import SIZE, several_clusters
from hpc.autoscale import cli
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.gangs.file import GangFile, GangFileError, Gathering, KnownGangs, Place
from hpc.autoscale.job.job import Job
from hpc.autoscale.journal.reader import Journal
from hpc.autoscale.results.verdicts import Stand

ONE = {"htc": {"machine_types": [F2], "placement_groups": ["a", "b"]}}
TWO = {"htc": {"machine_types": [F2, F4], "placement_groups": ["a", "b"]}}
EXCLUSIVE = {"ncpus": 1, "exclusive": True}


def a_gang(name="mpi", nodes=8):
    return Job(name, dict(EXCLUSIVE), node_count=nodes, colocated=True)


def passes(site, count, seconds=60):
    """So many passes; what each of them made, and the last summary."""
    made = []
    for _ in range(count):
        summary = site.run()
        made.append(site.made().total())
        site.wait(seconds)
    return made, summary


@contextlib.contextmanager
def short_site(home, arrays=ONE, deadline=600, **capacity):
    """A site with room for 5 machines of F2, unless told otherwise, where a gang of 8 waits."""
    with a_site(home, arrays, {"capacity": capacity or {F2: 5}}) as site:
        site.config["autoscale"] = {"gang_deadline": deadline}
        site.new_jobs = lambda: [a_gang()]
        yield site


def test_a_gang_that_nobody_has_room_for_makes_sixteen_machines_in_five_hours(tmp_path):
    """All eight, one at the end of each rest until the deadline, and after two hours six: one more
    than there were."""
    with short_site(tmp_path, deadline=1800) as site:
        site.config["autoscale"]["interval"] = 300
        made, _ = passes(site, 60, seconds=300)
    assert made[0] == 8
    assert max(made[1:]) == 6
    assert sum(made) <= 16


@pytest.mark.parametrize("deadline", [600, 300, 60])
def test_a_gang_has_as_long_again_for_nodes_that_a_pass_leaves_for_the_next_one(tmp_path, deadline):
    """Where no more are asked for at once it takes longer than its deadline until all were; so it
    is with a deadline that is over when the next pass begins."""
    with a_site(tmp_path, ONE) as site:
        site.new_jobs = lambda: [a_gang()]
        site.config["autoscale"] = {"gang_deadline": deadline, "max_new_nodes_per_pass": 2}
        made, summary = passes(site, 6, seconds=300)
        assert (made, summary.notes) == ([2, 2, 2, 2, 0, 0], ())


def test_a_gang_that_lacks_nodes_has_no_longer_where_none_are_asked_for_at_all(tmp_path):
    """They do not wait for somebody who has stopped the cluster from growing."""
    with a_site(tmp_path, ONE) as site:
        site.new_jobs = lambda: [a_gang()]
        site.config["autoscale"] = {"gang_deadline": 600, "max_new_nodes_per_pass": 2}
        passes(site, 1)
        site.config["autoscale"]["max_new_nodes_per_pass"] = 0
        passes(site, 12)
        assert site.nodes() == []


def test_ten_gangs_that_nobody_has_room_for_are_asked_for_once_each(tmp_path):
    """Those that wait while one tries again make no machines."""
    with short_site(tmp_path) as site:
        site.new_jobs = lambda: [a_gang(f"mpi{i}") for i in range(10)]
        made, _ = passes(site, 12, seconds=300)
    assert made[0] == 80
    assert sum(made[1:]) <= 16


def test_gangs_of_which_the_same_is_known_are_told_of_in_a_line(tmp_path):
    """With the names of the first, also where they are more than there are lines for."""
    with short_site(tmp_path) as site:
        site.new_jobs = lambda: [a_gang(f"mpi{i}") for i in range(30)]
        _, summary = passes(site, 3)
        told = (
            "5 jobs (mpi5, mpi6, mpi7, …) wait: the gang has 0 of 8 nodes in htc/Standard_F2s_v2/b,"
        )
        assert told in str(summary)
        assert "other reason" not in str(summary)


def test_a_gang_that_is_one_part_of_a_job_is_a_gang(tmp_path):
    """The nodes of other parts, which have its name, are none of its own; nor is it told of these
    parts."""
    head = {"head": {"machine_types": [F4], "max_count": 1}}
    with short_site(tmp_path, arrays={**head, **ONE}) as site:
        of_head = {"ncpus": 4, "nodearray": "head"}
        site.new_jobs = lambda: [
            Job("mpi", of_head),
            Job("mpi", {**EXCLUSIVE, "nodearray": "htc"}, node_count=8, colocated=True),
            Job("mpi", of_head),
        ]
        _, summary = passes(site, 8)
        gang, other = sorted(summary.unsatisfied, key=lambda job: -job.missing)
        assert gang.verdict.line == (
            "Job mpi waits: the gang has 5 of 8 nodes in htc/Standard_F2s_v2/a, and 180 s left for"
            " the rest"
        )
        assert "limit of nodearray head" in other.verdict.line
        assert len(site.nodes()) >= 6


def test_the_rest_of_a_gang_is_asked_for_in_its_group_one_at_a_time(tmp_path):
    """While the size rests in full, and until the deadline; what there is stays."""
    with short_site(tmp_path, deadline=1800) as site:
        made, summary = passes(site, 8)
        (job,) = summary.unsatisfied
        assert job.name == "mpi"
        assert "the gang has 5 of 8 nodes in htc/Standard_F2s_v2/a" in job.reason
        assert set(made[1:]) == {0, 1}
        site.simulator.set_capacity(REGION, **{F2: 8})
        made, summary = passes(site, 12)
        assert set(made) <= {0, 1, 2}
        assert summary.unsatisfied == ()
        assert {node["PlacementGroupId"] for node in site.nodes()} == {"a"}
        assert len(site.nodes()) == 8


def test_at_its_deadline_a_gang_is_released_and_says_so(tmp_path):
    """By the name of its job, in the summary and in the reason; all nodes go in that pass."""
    with short_site(tmp_path) as site:
        passes(site, 10)
        assert len(site.nodes()) == 5
        summary = site.run()
        assert len(summary.deleted) == 5
        assert summary.errors == ()
        said = [note for note in summary.notes if "gang mpi" in note]
        assert said == [
            "gang mpi: 5 of 8 nodes in htc/Standard_F2s_v2/a, 600 s after they were asked for:"
            " to be planned elsewhere; 5 nodes to be released"
        ]
        assert said[0] in str(summary)
        (job,) = summary.unsatisfied
        assert "gang mpi came short in htc/Standard_F2s_v2/a (5 of 8 nodes, 1 time)" in str(job)
        made, _ = passes(site, 5)
        assert sum(made) == 0
        assert site.nodes() == []


def test_many_gangs_that_are_given_up_are_said_once(tmp_path):
    """With their number, the first and the last, and what they have together; also in the
    journal."""
    with short_site(tmp_path) as site:
        site.config["journal"] = {"directory": str(tmp_path / "journal")}
        site.new_jobs = lambda: [a_gang(f"mpi{i}", 2) for i in range(9)]
        passes(site, 10)
        summary = site.run()
        said = [note for note in summary.notes if "gang" in note]
        assert said == [
            "7 gangs (mpi2 … mpi8): 1 of 14 nodes in htc/Standard_F2s_v2/a, up to 600 s after they"
            " were asked for: to be planned elsewhere; 1 node to be released"
        ]
    (record,) = list(Journal(tmp_path / "journal"))[-1:]
    assert [note for note in record.did["notes"] if "gang" in note] == said


@pytest.mark.parametrize("arrays", [ONE, TWO])
def test_at_its_deadline_a_gang_is_given_up_also_where_the_rest_could_be_asked_for(
    tmp_path, arrays
):
    """Rests were over in every pass, so one node was asked for again and again, and counted."""
    with short_site(tmp_path, arrays, **{F2: 7}) as site:
        site.config["backoff"] = {"capacity": 1, "ceiling": 1}
        made, _ = passes(site, 9)
        assert made[1:] == [1] * 8
        assert len(site.nodes()) == 7
        made, summary = passes(site, 2)
        (said,) = [note for note in summary.notes if "gang mpi" in note]
        assert "7 of 8 nodes in htc/Standard_F2s_v2/a, 600 s after they were asked for" in said
        sizes = {node["MachineType"] for node in site.nodes() if node["Status"] != "Terminating"}
        assert sizes == ({F4} if arrays is TWO else set())


def test_a_gang_that_came_short_in_one_cluster_comes_in_another_of_the_region(tmp_path):
    """Each has its own say about capacity."""
    names = ("east", "south")
    with several_clusters(tmp_path, dict.fromkeys(names), placement_groups=["a"]) as clusters:
        clusters["east"].set_capacity("eastus", **{SIZE: 2})
        clusters.settings["autoscale"] = {"gang_deadline": 300}
        driver = Gang(4)
        for _ in range(12):
            summary = Autoscaler(clusters.config, driver).run_once()
            driver.close_histories()
            clusters.after(60)
        assert summary.unsatisfied == ()
        assert clusters.counts() == {"east": 0, "south": 4}


@contextlib.contextmanager
def two_regions(home):
    """Two clusters whose regions have the same weight, and what makes passes over them in which a
    gang of four waits."""
    with several_clusters(
        home, dict.fromkeys(("east", "west")), placement_groups=["a"]
    ) as clusters:
        clusters.settings["packing"] = {"policy": {"regions": {"eastus": 1, "westus2": 1}}}
        driver = Gang(4)

        def run(times):
            for _ in range(times):
                Autoscaler(clusters.config, driver).run_once()
                driver.close_histories()
                clusters.after(60)
            return clusters.counts()

        yield clusters, run


def test_weights_of_regions_do_not_let_a_gang_begin_in_each_of_them(tmp_path):
    """Where a pass asks for less than a gang, the next one goes on where it has nodes."""
    with two_regions(tmp_path) as (clusters, run):
        clusters.settings["autoscale"] = {"gang_deadline": 120, "max_new_nodes_per_pass": 1}
        assert [run(1) for _ in range(4)] == [{"east": n, "west": 0} for n in (1, 2, 3, 4)]
        assert run(6) == {"east": 4, "west": 0}


def test_a_node_that_fails_is_replaced_where_its_gang_is_whatever_regions_weigh(tmp_path):
    """As without weights: one node is asked for, and not four in the other region."""
    with two_regions(tmp_path) as (clusters, run):
        assert run(1) == {"east": 4, "west": 0}
        clusters["east"].cluster("c").fail("htc-2", message="boot went wrong")
        run(8)
        assert clusters.changes("east").count("created") == 5
        assert clusters.counts()["west"] == 0


def test_a_gang_goes_to_another_region_where_its_own_can_give_no_more(tmp_path):
    """Weights or not: where there is room for all of it, in the pass in which that is known."""
    with two_regions(tmp_path) as (clusters, run):
        clusters["east"].set_capacity("eastus", **{SIZE: 2})
        run(8)
        assert clusters.counts() == {"east": 0, "west": 4}


class Gang(cli.GenericDriver):
    """A scheduler with one gang."""

    def __init__(self, nodes):
        super().__init__("gang")
        self._nodes = nodes

    def _read_jobs_and_nodes(self, config):
        return [a_gang(nodes=self._nodes)], []


def test_a_node_of_two_gangs_that_are_given_up_is_released_once(tmp_path):
    """The scheduler is asked to drain it once in a pass."""
    arrays = {"htc": {"machine_types": [F2], "placement_groups": ["a"]}}
    with short_site(tmp_path, arrays, **{F2: 1}) as site:
        site.new_jobs = lambda: [a_gang("one"), a_gang("two")]
        passes(site, 10)
        summary = site.run()
    assert summary.idle == summary.deleted == summary.drained
    assert len(summary.idle) == 1


def test_a_gang_is_planned_on_the_next_size_in_the_pass_after_its_release(tmp_path):
    """Where nothing was to be had before that begins with a single node; then it is all of them."""
    with short_site(tmp_path, TWO, **{F2: 5, F4: 0}) as site:
        passes(site, 11)
        site.simulator.set_capacity(REGION, **{F4: 8})
        site.run()
        assert site.made() == {f"htc/{F4}": 1}
        site.wait(60)
        passes(site, 4)
        assert {node["MachineType"] for node in site.nodes()} == {F4}
        assert len(site.nodes()) == 8


def test_a_gang_that_may_not_be_there_has_nothing_to_do_with_what_came_short(tmp_path):
    """It waits for what it waits for, and tries nothing there in the place of those that may."""
    arrays = {**ONE, "big": {"machine_types": [F4], "max_count": 3}}
    with short_site(tmp_path, arrays) as site:
        site.new_jobs = lambda: [
            Job(name, dict(EXCLUSIVE, nodearray=array), node_count=8, colocated=True)
            for name, array in (("other", "big"), ("mpi", "htc"))
        ]
        passes(site, 12)
        first, second = site.run().unsatisfied
        assert "gang mpi came short" in second.reason and "gang mpi" not in first.reason
        assert first.verdict.line == (
            "Job other can never run: the limit of nodearray big allows 3 nodes in all, and 8 are"
            " needed"
        )
        made, _ = passes(site, 50)
        assert sum(made) >= 6


def test_a_gang_that_no_try_can_help_is_not_said_to_wait_for_one(tmp_path):
    """It may be where another came short; that it is too large for a limit is what it is told."""
    with short_site(tmp_path, {"htc": {**ONE["htc"], "max_count": 20}}) as site:
        site.new_jobs = lambda: [a_gang(), a_gang("huge", nodes=40)]
        _, summary = passes(site, 13)
        waits, never = (job.verdict for job in summary.unsatisfied)
        assert waits.line.startswith("Job mpi waits: gang mpi came short in htc/")
        assert (never.stand, never.code) == (Stand.NEVER, "NodearrayLimit")
        assert never.causes[-1].code == "GangGathers"
        said = "can never run: the limit of nodearray htc allows 20 nodes in all, and 40 are needed"
        assert never.line == f"Job huge {said}"
        assert f"1 job (huge) {said}" in str(summary)


@pytest.mark.parametrize("shape", [{"node_count": 40}, {"iterations": 40}])
def test_a_gang_that_can_never_be_in_a_place_tries_nothing_there(tmp_path, shape):
    """Where another came short, and has gone: no node is made for it, and none kept."""
    needs = {"ncpus": 2, "exclusive": True}
    with short_site(tmp_path, {"htc": {**ONE["htc"], "max_count": 20}}) as site:
        site.new_jobs = lambda: [Job("mpi", needs, colocated=True, **dict.fromkeys(shape, 8))]
        passes(site, 12)
        site.new_jobs = lambda: [Job("huge", needs, colocated=True, **shape)]
        made, summary = passes(site, 50)
        assert sum(made) == 0
        (job,) = summary.unsatisfied
        assert job.verdict.stand == Stand.NEVER
        site.new_jobs = lambda: [Job("large", needs, colocated=True, **dict.fromkeys(shape, 16))]
        made, summary = passes(site, 2)
        assert sum(made) == 6
        assert "(5 of 16 nodes, 2 times)" in summary.unsatisfied[0].reason


def test_when_a_gang_has_to_have_the_rest_is_in_its_verdict(tmp_path):
    """As a unix time, beside the words; at its deadline it is when it may try again."""
    with short_site(tmp_path) as site:
        began = site.simulator.clock.now()
        _, summary = passes(site, 4)
        (job,) = summary.unsatisfied
        assert (job.verdict.code, job.verdict.until) == ("GangGathers", began + 600)
        assert job.verdict.line.endswith("420 s left for the rest")
        assert str(summary).count("next try") == 0
        passes(site, 7)
        (job,) = site.run().unsatisfied
        assert job.verdict.until == began + 600 + 2400
        assert job.verdict.line.endswith("tried again in 2340 s with 6 nodes")


def test_of_a_gang_that_has_nodes_in_two_places_the_fuller_one_stays(tmp_path):
    """Four of one size and five of the other; the four go as soon as that is known."""
    with short_site(tmp_path, TWO, **{F2: 4, F4: 5}) as site:
        _, summary = passes(site, 3)
        assert len(summary.deleted) == 4
        site.wait(60)
        assert {node["MachineType"] for node in site.nodes()} == {F4}
        assert len(site.nodes()) == 5


def test_nodes_of_a_gang_that_others_work_on_are_not_released(tmp_path):
    """A job that took one of them keeps it; the others go."""
    with short_site(tmp_path) as site:
        passes(site, 9)
        site.new_jobs = lambda: [a_gang(), Job("other", dict(EXCLUSIVE))]
        passes(site, 1)
        summary = site.run()
        assert len(summary.deleted) == 4
        site.wait(60)
        assert len(site.nodes()) == 1


def test_nothing_is_released_without_fresh_evidence(tmp_path):
    """The scheduler is silent when it is asked again; the next pass releases them."""
    with short_site(tmp_path) as site:
        passes(site, 10)
        reads = iter([True, False])
        site.new_jobs = lambda: [a_gang()] if next(reads) else 1 / 0
        summary = site.run()
        assert summary.deleted == ()
        assert {refusal.code for refusal in summary.refused} == {"SchedulerUnknown"}
        site.new_jobs = lambda: [a_gang()]
        site.wait(60)
        assert len(site.run().deleted) == 5


def test_time_that_nobody_watched_does_not_end_a_gang(tmp_path):
    """A loop that was away for an hour goes on where it was."""
    with short_site(tmp_path) as site:
        passes(site, 3)
        site.wait(3600)
        summary = site.run()
        assert summary.deleted == ()
        site.wait(60)
        assert "the gang has 5 of 8 nodes" in site.run().unsatisfied[0].reason


def test_a_lost_reply_changes_nothing_for_a_gang(tmp_path):
    """What was asked for was written down before; the nodes are found, and released in time."""
    with short_site(tmp_path) as site:
        site.simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
        site.simulator.faults.add("lost_reply", endpoint="get_nodes", calls=[2])
        assert site.run().errors
        site.wait(60)
        _, summary = passes(site, 9)
        assert summary.deleted == ()
        assert len(site.run().deleted) == 5


def test_what_is_remembered_of_gangs_may_be_lost_or_garbled(tmp_path):
    """Gangs are then as all jobs, a summary says so, and the file is left as it is."""
    with short_site(tmp_path) as site:
        passes(site, 3)
        path = tmp_path / "gangs.db"
        path.write_bytes(b"this is no database" * 100)
        summary = site.run()
        assert "it is damaged" in str(summary.notes)
        assert path.read_bytes().startswith(b"this is no")


def test_a_file_of_gangs_that_could_not_be_read_once_is_not_emptied(tmp_path, monkeypatch):
    """As where somebody had locked it for half a minute; the summary tells it once."""

    def locked(file):
        raise GangFileError("database is locked")

    with short_site(tmp_path) as site:
        passes(site, 3)
        file = GangFile(str(tmp_path / "gangs.db"))
        before = file.read()
        with monkeypatch.context() as patch:
            patch.setattr(GangFile, "read", locked)
            notes = site.run().notes
        assert len([note for note in notes if "locked" in note]) == 1
        assert before.gatherings and file.read() == before


@pytest.mark.parametrize("column", ["job", "nodearray", "size", "deadline", "number", "own"])
def test_rows_that_make_no_sense_are_left_out(tmp_path, column):
    with short_site(tmp_path) as site:
        site.run()
        with contextlib.closing(sqlite3.connect(tmp_path / "gangs.db")) as db:
            db.execute(f"UPDATE gatherings SET {column} = x'00ff'")
            db.commit()
        site.wait(60)
        assert site.run().errors == ()


DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.journal.reader import Journal
from hpc.autoscale.results.verdicts import Stand


class One(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        needs = {"ncpus": 1, "exclusive": True}
        return [Job("mpi", needs, node_count=8, colocated=True)], []
"""


def test_analyze_says_what_became_of_a_gang(tmp_path, monkeypatch, capsys):
    """What it has so far, then where it came short; and commands that look write nothing."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    (tmp_path / "one_gang.py").write_text(DRIVER)
    with short_site(tmp_path) as site:
        path = tmp_path / "autoscale.json"
        path.write_text(json.dumps({**site.config, "driver": "one_gang:One"}))

        def analyze():
            with contextlib.suppress(SystemExit):
                cli.main(["analyze", "-c", str(path), "-j", "mpi"])
            return " ".join(capsys.readouterr().out.split())

        passes(site, 3)
        before = (tmp_path / "gangs.db").read_bytes()
        assert "the gang has 5 of 8 nodes in htc/Standard_F2s_v2/a" in analyze()
        assert (tmp_path / "gangs.db").read_bytes() == before
        passes(site, 8)
        assert "gang mpi came short in htc/Standard_F2s_v2/a (5 of 8 nodes" in analyze()


def test_a_group_of_a_request_set_is_released_in_time(tmp_path):
    """As a gang of a scheduler is."""
    group = {"Name": "htc", "TargetGroupCount": 1, "GroupInstanceCount": 8}
    with short_site(tmp_path) as site:
        site.new_jobs = list
        site.wanted = [group]
        made, _ = passes(site, 10)
        assert made[0] == 8
        summary = site.run()
        assert len(summary.deleted) == 5
        assert "gang request:" in str(summary.notes)


def test_a_group_that_gathers_keeps_its_nodes_when_work_begins_on_the_next_one(tmp_path):
    """Groups at work are counted first; which group is which stays the same."""
    arrays = {"htc": {"machine_types": [F2]}}

    def at_work():
        job = Job("17", {"ncpus": 1}, executing_hostnames=[last["Hostname"]])
        job.metadata["job_state"] = "running"
        return [job]

    with short_site(tmp_path, arrays, **{F2: 8}) as site:
        site.new_jobs = list
        site.wanted = [{"Name": "htc", "TargetGroupCount": 2, "GroupInstanceCount": 4}]
        passes(site, 3)
        first, *_, last = site.nodes()
        site.change(arrays, {"capacity": {F2: 7}})
        site.simulator.cluster("c").fail(first["Name"])
        passes(site, 3)
        before = site.names()
        site.new_jobs = at_work
        passes(site, 3)
        assert site.names() == before
        assert len(before) == 7


GATHERING = Gathering("j", Place("mpi", "F4", "eastus", True), 8, 8, 1.0, 9.0, 2.0, 3, ("id-1",))
SHORTFALLS_1 = (
    "CREATE TABLE shortfalls (job TEXT, nodearray TEXT, vm_size TEXT, location TEXT, spot BOOL,"
    " placement_group TEXT, kind TEXT, units INTEGER, size INTEGER, had INTEGER, times INTEGER,"
    " until REAL{more})"
)
GATHERINGS_1 = (
    "CREATE TABLE gatherings (job TEXT, nodearray TEXT, vm_size TEXT, location TEXT, spot BOOL,"
    " placement_group TEXT, size INTEGER, goal INTEGER, asked REAL, deadline REAL, seen REAL,"
    " others TEXT{more})"
)


@pytest.mark.parametrize(("version", "more"), [(1, ""), (2, ", cluster TEXT")])
def test_a_file_of_gangs_of_an_earlier_version(tmp_path, version, more):
    """Is read, and written as one of today. Of which cluster a place is its nodearray tells; for
    which gangs nodes were asked for is forgotten."""
    path = tmp_path / "gangs.db"
    place = ("east/mpi", "F4", "eastus", 1, "pg0")
    shortfall = ("j", *place, "kind", 8, 2, 1, 1, 99.0, *[""] * (version - 1))
    gathering = ("j", *place, 8, 8, 1.0, 9.0, 2.0, '["a"]', *[""] * (version - 1))
    with contextlib.closing(sqlite3.connect(path)) as db:
        for table, row in ((SHORTFALLS_1, shortfall), (GATHERINGS_1, gathering)):
            db.execute(table.format(more=more))
            name = table.split()[2]
            db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
    file = GangFile(str(path))
    gatherings, (short,), *_ = file.read()
    assert gatherings == [] and short.place.facts().cluster == "east"
    moved = short._replace(place=short.place._replace(nodearray="render", cluster="east"))
    known = KnownGangs([GATHERING], [moved], {"id-1": 1, "id-2": 2}, ["id-2"])
    file.write(known)
    assert file.read() == known
    assert moved.place.offer == short.place.offer
