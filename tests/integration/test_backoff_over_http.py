"""The loop where machines cannot be had, or do not come up: what is asked for, when, and what is
said about it."""

import contextlib
import json

import pytest

from builders.failing_cloud import F2, F4, REGION, a_site
from hpc.autoscale import cli
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.job.job import Job

TWO_SIZES = {"htc": {"machine_types": [F2, F4]}}
SPOT_FIRST = {
    "spot": {"machine_types": [F4], "spot": True},
    "regular": {"machine_types": [F4]},
}


def test_a_size_without_capacity_makes_room_for_the_next_one_in_the_next_pass(tmp_path):
    """What was refused is asked of the next candidate at once, and the first rests."""
    with a_site(tmp_path, TWO_SIZES, {"capacity": {F2: 0}}) as site:
        site.want(3)
        site.run()
        assert site.made() == {f"htc/{F2}": 3}
        site.wait(25)
        summary = site.run()
        assert site.made() == {f"htc/{F4}": 3}
        assert summary.errors == ()


def test_a_server_in_trouble_makes_nothing_rest(tmp_path):
    """An answer of 500 says nothing of a bucket: each pass asks once, says so, and the first one
    that gets an answer has its nodes."""
    with a_site(tmp_path, TWO_SIZES) as site:
        site.simulator.faults.add("status", status=500, endpoint="create_nodes", times=3)
        site.want(3)
        for _ in range(3):
            summary = site.run()
            assert "HTTP 500" in str(summary.errors[0])
            assert site.made().total() == 0
            site.wait(60)
        assert site.run().errors == ()
        assert site.made() == {f"htc/{F2}": 3}


def test_what_rested_is_tried_with_a_single_node(tmp_path):
    """When the rest is over, one node is asked for, however many are wanted."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}, {"capacity": {F2: 0}}) as site:
        site.want(5)
        site.run()
        assert site.made() == {f"htc/{F2}": 5}
        made = []
        for _ in range(16):
            site.wait(30)
            site.run()
            made.append(site.made().total())
        assert max(made) == 1
        assert 1 <= sum(made) <= 2


def test_failures_count_though_passes_are_further_apart_than_the_rest(tmp_path):
    """What failed is gone when the next pass looks, and its rest is over: one node is tried."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}, {"capacity": {F2: 0}}) as site:
        site.want(5)
        made = []
        for _ in range(12):
            site.run()
            made.append(site.made().total())
            site.wait(400)
        assert made[0] == 5
        assert max(made[1:]) == 1
        assert sum(made[1:]) <= 6


def test_capacity_that_came_back_is_used_in_full_after_a_few_successes(tmp_path):
    """A single node, then two, then as many as are wanted."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}, {"capacity": {F2: 0}}) as site:
        site.want(12)
        site.run()
        site.wait(25)
        site.run()
        site.simulator.set_capacity(REGION, **{F2: 100})
        for _ in range(24):
            site.wait(30)
            site.run()
        assert len(site.nodes()) == 12
        assert all(node["Status"] in ("Ready", "Preparing") for node in site.nodes())


def test_spot_without_capacity_never_holds_back_regular_nodes(tmp_path):
    """The same size in the same region at the regular price is asked for in the next pass."""
    with a_site(tmp_path, SPOT_FIRST) as site:
        site.want(2)
        site.run()
        assert site.made() == {f"spot/{F4}": 2}
        site.wait(5)
        site.simulator.cluster("c").fail(
            *site.names("spot"), message="AllocationFailed: no spot capacity"
        )
        site.run()
        assert site.made() == {f"regular/{F4}": 2}


QUOTAS = {
    "family": "QuotaExceeded: approved standardFSv2Family Cores quota",
    "spot": "OperationNotAllowed: exceeding approved LowPriorityCores quota",
    "regional": "OperationNotAllowed: exceeding approved Total Regional Cores quota",
}


@pytest.mark.parametrize(
    ("said", "spot_rests", "f2_rests", "f4_rests"),
    [("family", False, True, True), ("spot", True, False, False), ("regional", False, True, True)],
)
def test_a_quota_holds_back_what_shares_it_and_nothing_else(
    tmp_path, said, spot_rests, f2_rests, f4_rests
):
    """A family's quota concerns its sizes, that of spot nodes spot nodes, that of a region all
    regular ones."""
    arrays = {
        "spot": {"machine_types": [F2], "spot": True},
        "regular": {"machine_types": [F2, F4]},
        "hb": {"machine_types": ["Standard_HB120rs_v3"]},
    }
    with a_site(tmp_path, arrays) as site:
        first = "spot" if said == "spot" else "regular"
        site.want(1, **{"node.nodearray": first, "node.vm_size": F2})
        site.run()
        site.wait(5)
        site.simulator.cluster("c").fail(*site.names(), message=QUOTAS[said])
        site.want(0)
        site.run()
        site.made()
        rests = {}
        for array, size in (("spot", F2), ("regular", F2), ("regular", F4)):
            site.want(1, **{"node.nodearray": array, "node.vm_size": size})
            rests[array, size] = bool(site.run(read_only=False).unsatisfied)
        assert rests == {
            ("spot", F2): spot_rests,
            ("regular", F2): f2_rests,
            ("regular", F4): f4_rests,
        }
        site.want(1, **{"node.nodearray": "hb"})
        assert bool(site.run().unsatisfied) is (said == "regional")


def test_a_bucket_whose_nodes_never_boot_is_not_asked_again_and_again(tmp_path):
    """Twenty passes make at most five machines for two slots, where they made forty."""
    arrays = {"htc": {"machine_types": [F2], "lifecycle": {"boot_failure_rate": 1.0}}}
    with a_site(tmp_path, arrays) as site:
        site.want(2)
        said = []
        for _ in range(20):
            summary = site.run()
            said += [job.reason for job in summary.unsatisfied]
            site.wait(60)
        assert 2 <= site.made().total() <= 5
        assert any("The node could not be configured" in text for text in said)
        assert any("back-off" in text for text in said)


def test_a_few_of_many_nodes_that_fail_to_boot_do_not_hold_back_their_bucket(tmp_path):
    """As many others come up meanwhile: others are made in their place at once."""
    for failing, is_held in ((2, False), (3, True)):
        home = tmp_path / str(failing)
        home.mkdir()
        with a_site(home, {"htc": {"machine_types": [F4]}}) as site:
            site.want(4)
            site.run()
            assert site.made().total() == 4
            site.wait(4)
            site.simulator.cluster("c").fail(*site.names()[:failing], message="no disk")
            site.wait(60)
            summary = site.run()
            assert site.made().total() == (0 if is_held else failing)
            assert bool(summary.unsatisfied) is is_held


def test_boots_that_failed_count_where_nobody_was_told_which_nodes_were_made(tmp_path):
    """The reply to the create came, the answer to the question for its nodes did not."""
    arrays = {"htc": {"machine_types": [F2], "lifecycle": {"boot_failure_rate": 1.0}}}
    with a_site(tmp_path, arrays) as site:
        site.want(2)
        site.simulator.faults.add("status", endpoint="get_nodes", status=500, calls=[2])
        assert site.run().errors
        assert site.made().total() == 2
        site.wait(60)
        job, _ = site.run().unsatisfied
        assert "is in back-off (boot, 2 nodes in a row)" in job.reason
        assert site.made().total() == 0


def test_a_bucket_that_boots_again_recovers(tmp_path):
    """The node that is tried comes up; then two may, and then all that are wanted."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}) as site:
        site.want(2)
        site.run()
        site.wait(25)
        site.run()
        site.simulator.cluster("c").fail(*site.names(), message="chef failed")
        site.run()
        site.want(6)
        for _ in range(24):
            site.wait(60)
            site.run()
        assert len(site.nodes()) == 6
        assert {node["Status"] for node in site.nodes()} == {"Ready"}


def test_nodes_that_exist_stay_usable_while_their_bucket_rests(tmp_path):
    """Work goes to nodes that are there; only new ones are held back."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}) as site:
        site.want(3)
        site.run()
        site.wait(35)
        site.want(5)
        site.run()
        site.simulator.cluster("c").fail(*site.names()[3:], message="AllocationFailed: none left")
        summary = site.run()
        placed = [n for n in summary.demand.compute_nodes if n.assignments and n.exists]
        assert len(placed) >= 3
        assert len(summary.unsatisfied) == 2


GROUPED = {"htc": {"machine_types": [F2, F4], "placement_groups": ["a", "b", "c"]}}


def _a_gang():
    return [Job("gang", {"ncpus": 1, "exclusive": True}, node_count=8, colocated=True)]


def test_a_gang_that_is_partly_made_is_planned_elsewhere_and_releases_what_it_had(tmp_path):
    """Four of eight come into being; the next pass asks for eight of the other size, and in the end
    there are those eight alone."""
    with a_site(tmp_path, GROUPED, {"capacity": {F2: 4}}) as site:
        site.new_jobs = _a_gang
        site.run()
        assert site.made() == {f"htc/{F2}": 8}
        site.wait(25)
        site.run()
        assert site.made() == {f"htc/{F4}": 8}
        for _ in range(12):
            site.wait(60)
            site.run()
        assert site.made().total() == 0
        assert [node["MachineType"] for node in site.nodes()] == [F4] * 8


def test_a_gang_that_is_nowhere_made_whole_does_not_make_machines_without_end(tmp_path):
    """An hour of passes over two sizes of which neither has eight machines."""
    with a_site(tmp_path, GROUPED, {"capacity": {F2: 4, F4: 5}}) as site:
        site.new_jobs = _a_gang
        for _ in range(60):
            site.run()
            site.wait(60)
        assert 16 <= site.made().total() <= 22


def test_a_gang_is_completed_when_there_is_capacity_again(tmp_path):
    """With the nodes that it lacks, or with all."""
    with a_site(tmp_path, GROUPED, {"capacity": {F2: 4, F4: 0}}) as site:
        site.new_jobs = _a_gang
        for _ in range(3):
            site.run()
            site.wait(60)
        site.simulator.set_capacity(REGION, **{F2: 8})
        for _ in range(30):
            site.wait(60)
            summary = site.run()
        assert summary.unsatisfied == ()
        assert {node["Status"] for node in site.nodes()} == {"Ready"}
        assert len(site.nodes()) == 8


def test_nodes_past_their_boot_timeout_count_as_boots_that_failed(tmp_path):
    """Machines that hang are not replaced for ever."""
    arrays = {"htc": {"machine_types": [F2], "lifecycle": {"preparing": 100_000}}}
    with a_site(tmp_path, arrays) as site:
        site.config["boot_timeout"] = 100
        site.want(2)
        for _ in range(20):
            site.run()
            site.wait(60)
        assert 2 <= site.made().total() <= 5


def test_a_bucket_whose_nodes_were_not_ready_in_time_gets_no_more_in_that_very_pass(tmp_path):
    """The next one does, though it comes behind; why is said of work that only fits there."""
    arrays = {
        "slow": {"machine_types": [F2], "lifecycle": {"preparing": 100_000}},
        "htc": {"machine_types": [F2]},
    }
    with a_site(tmp_path, arrays) as site:
        site.config["boot_timeout"] = 600
        site.want(3)
        site.run()
        assert site.made() == {f"slow/{F2}": 3}
        given, only_there = site.new_jobs, {"ncpus": 1, "node.nodearray": "slow"}
        site.new_jobs = lambda: [*given(), Job("picky", only_there)]
        site.wait(601)
        summary = site.run()
        assert site.made() == {f"htc/{F2}": 3}
        assert "is in back-off (boot, 3 nodes in a row)" in str(summary.unsatisfied[0].reason)


def test_a_node_that_was_started_and_hangs_is_given_up_and_rests(tmp_path):
    """Also one that was ready before it was deallocated. The job gets another node, and the one
    that hung is not the next to be started."""

    def arrays(seconds):
        policy = {"ShutdownPolicy": "Deallocate"}
        lifecycle = {"preparing": seconds}
        return {"htc": {"machine_types": [F2], "lifecycle": lifecycle, "attributes": policy}}

    with a_site(tmp_path, arrays(10)) as site:
        site.config["boot_timeout"] = 600
        site.want(1)
        for _ in range(3):
            site.run()
            site.wait(35)
        assert [node["Status"] for node in site.nodes()] == ["Ready"]
        new_cluster_bindings(site.config).deallocate_nodes(names=["htc-1"])
        site.wait(35)
        site.want(0)
        site.run()
        site.change(arrays(100_000))
        site.want(1)
        site.wait(60)
        assert site.run().started == ("htc-1",)
        summaries = []
        for _ in range(20):
            site.wait(60)
            summaries.append(site.run())
        at = next(i for i, each in enumerate(summaries) if "htc-1" in each.overdue)
        given_up, after = summaries[at], summaries[at + 1]
        assert (given_up.deleted, given_up.created) == (("htc-1",), ("htc-2",))
        assert (after.started, after.created, after.unsatisfied) == ((), (), ())


def test_what_failed_is_remembered_by_the_next_process(tmp_path):
    """Each pass is a process of its own here; without the file, the nodes are asked for again."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}, {"capacity": {F2: 0}}) as site:
        site.want(2)
        site.run()
        site.wait(25)
        site.run()
        assert (tmp_path / "backoff.db").exists()
        assert len(site.run().unsatisfied) == 2
        (tmp_path / "backoff.db").unlink()
        site.made()
        assert site.run(backoff={"enabled": False}).requested


def test_nothing_is_written_where_nothing_boots_and_nothing_failed(tmp_path):
    """A cluster at rest costs no file."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}) as site:
        site.run()
        assert not (tmp_path / "backoff.db").exists()


def test_a_dry_run_plans_by_what_is_known_and_writes_nothing(tmp_path):
    """What rests is left out of its plan, and the file stays as it is."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}, {"capacity": {F2: 0}}) as site:
        site.want(2)
        site.run()
        site.wait(25)
        site.run()
        before = (tmp_path / "backoff.db").read_bytes()
        assert len(site.run(read_only=True).unsatisfied) == 2
        assert (tmp_path / "backoff.db").read_bytes() == before


def test_a_file_that_is_damaged_costs_a_note_and_not_the_pass(tmp_path):
    """Nothing is remembered then, and somebody is told what to do."""
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}) as site:
        (tmp_path / "backoff.db").write_bytes(b"this is no database" * 100)
        site.want(2)
        summary = site.run()
        assert len(summary.created) == 2
        assert any("delete it" in note for note in summary.notes)


def test_a_deallocated_node_that_is_refused_for_good_is_not_started_in_every_pass(tmp_path):
    """The job gets a new node in the next pass, and the start is tried again later."""
    arrays = {"htc": {"machine_types": [F2], "attributes": {"ShutdownPolicy": "Deallocate"}}}
    with a_site(tmp_path, arrays) as site:
        site.want(1)
        site.run()
        site.wait(35)
        cluster = new_cluster_bindings(site.config)
        cluster.deallocate_nodes(node_ids=[site.nodes()[0]["NodeId"]])
        site.wait(35)
        assert [node["Status"] for node in site.nodes()] == ["Deallocated"]
        site.made()
        site.simulator.faults.add(
            "status", endpoint="start_nodes", status=409, message="The node cannot be started"
        )
        first = site.run()
        assert "cannot be started" in str(first.errors)
        assert site.made().total() == 0
        again = site.run()
        assert again.errors == ()
        assert site.made() == {f"htc/{F2}": 1}


def test_a_creation_that_is_refused_for_good_does_not_starve_the_job(tmp_path):
    """The whole request is refused because of one size; the next pass asks for another one."""
    with a_site(tmp_path, TWO_SIZES) as site:
        site.simulator.faults.add(
            "status",
            endpoint="create_nodes",
            status=409,
            calls=[1],
            message=f"SkuNotAvailable: {F2} is not available",
        )
        site.want(2)
        assert site.run().errors
        assert site.made().total() == 0
        assert site.run().errors == ()
        assert site.made() == {f"htc/{F4}": 2}


DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job


class Two(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        return [Job(name, {"ncpus": 1, "exclusive": True}) for name in ("j0", "j1")], []
"""


@pytest.mark.parametrize("objective", ["first-fit", "cost"])
def test_how_long_to_wait_is_said_in_the_pass_in_which_a_rest_begins(
    tmp_path, monkeypatch, capsys, objective
):
    """Also where only another pass can tell what would come of it."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    (tmp_path / "two_jobs.py").write_text(DRIVER)
    arrays = {"slow": {"machine_types": [F2], "lifecycle": {"preparing": 100_000}}}
    with a_site(tmp_path, arrays) as site:
        site.config.update(boot_timeout=600, packing={"objective": objective})
        site.want(2)
        site.run()
        site.wait(25)
        site.run()
        site.wait(601)
        path = tmp_path / "autoscale.json"
        path.write_text(json.dumps({**site.config, "driver": "two_jobs:Two"}))
        cli.main(["explain", "-c", str(path), "j0"])
    assert f"wait 8 min, until slow/{F2} is tried" in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def azscale(tmp_path, monkeypatch, capsys):
    """azscale where the only size has no capacity, which the loop knows; what it prints."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    (tmp_path / "two_jobs.py").write_text(DRIVER)
    with a_site(tmp_path, {"htc": {"machine_types": [F2]}}, {"capacity": {F2: 0}}) as site:
        site.want(2)
        site.run()
        site.wait(25)
        site.run()
        path = tmp_path / "autoscale.json"
        path.write_text(json.dumps({**site.config, "driver": "two_jobs:Two"}))

        def run(*words):
            with contextlib.suppress(SystemExit):
                cli.main([words[0], "-c", str(path), *words[1:]])
            return " ".join(capsys.readouterr().out.split())

        run.site = site
        yield run


def test_buckets_say_what_rests_why_and_for_how_long(azscale):
    """In a column that is there only while something rests, and in JSON."""
    said = azscale("buckets")
    assert "BACKOFF" in said
    assert "is in back-off (capacity, 2 nodes in a row), for 2" in said
    assert "AllocationFailed" in said
    named = azscale("buckets", "-o", "vm_size,backoff", "-F", "json")
    assert "AllocationFailed" in named
    azscale.site.wait(5000)
    assert "BACKOFF" not in azscale("buckets")


def test_analyze_says_what_rests_why_and_for_how_long(azscale):
    """Like any other limit that keeps a job waiting."""
    said = azscale("analyze", "-j", "j0")
    assert "is in back-off (capacity, 2 nodes in a row), for 2" in said
    assert "AllocationFailed" in said


def test_what_a_person_asks_for_is_not_held_back(azscale):
    """And commands that only look write nothing."""
    before = (azscale.site.home / "backoff.db").read_bytes()
    azscale.site.made()
    azscale("create_nodes", "-n", "2", "--nodearray", "htc")
    assert azscale.site.made().total() == 2
    azscale("buckets")
    assert (azscale.site.home / "backoff.db").read_bytes() == before


def test_without_it_the_same_passes_make_forty_machines(tmp_path):
    """What the circuit breaker is for: the test of twenty passes, without it."""
    arrays = {"htc": {"machine_types": [F2], "lifecycle": {"boot_failure_rate": 1.0}}}
    with a_site(tmp_path, arrays) as site:
        site.config["backoff"] = {"enabled": False}
        site.want(2)
        for _ in range(20):
            site.run()
            site.wait(60)
        assert site.made().total() == 40


def test_room_that_comes_in_the_same_pass_is_no_reason_to_wait_for_ever(tmp_path):
    """A node that has failed goes after nodes were planned: then nothing but other nodearrays would
    be in the way, and what they say is not why the job waits."""
    arrays = {"htc": {"machine_types": [F2], "max_count": 2}, "other": {"machine_types": [F2]}}
    with a_site(tmp_path, arrays, {}) as site:
        site.new_jobs = lambda: [
            Job(name, {"ncpus": 1, "exclusive": True, "node.nodearray": "htc"})
            for name in ("one", "two")
        ]
        site.run()
        site.simulator.cluster("c").fail("htc-1")
        summary = site.run()
        assert summary.deleted == ("htc-1",)
        (job,) = summary.unsatisfied
        assert job.verdict.line == (
            "Job two waits: the limit of nodearray htc (MaxCount) has 2 of 2 nodes in use"
        )
        site.wait(1200)
        assert site.run().unsatisfied == ()
