"""What a pass reads is held against what was read before, and every change of it is seen."""

import gc
import json
from dataclasses import replace

import pytest

from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.autoscaler.summary import Explanation, UnsatisfiedJob
from hpc.autoscale.hpctypes import NodeId, NodeStatus
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.journal import Journal, JournalWriter
from hpc.autoscale.journal.changes import NO_ROWS, change
from hpc.autoscale.journal.reader import PassRecord
from hpc.autoscale.journal.recording import node_rows
from hpc.autoscale.journal.records import as_written
from hpc.autoscale.journal.snapshots import host_rows, job_rows, jobs_from
from hpc.autoscale.journal.waiting import CAUSES, unsatisfied_rows
from hpc.autoscale.node.constraints import (
    And,
    SharedConsumableConstraint,
    SharedConsumableResource,
)
from hpc.autoscale.testing import a_host, a_job
from hpc.autoscale.workers import WorkerDemand, WorkerJob


def marked(host):
    host.marked_for_deletion = True


def closed(host):
    host.closed = True


def required(host):
    host.required = True


def named_by_the_server(host):
    host.delayed_node_id.node_id = NodeId("id-1")


def with_less_left(host):
    host.available["ncpus"] = 1


def with_another_total(host):
    host._resources["ncpus"] = 8


def with_a_job(host):
    host.assign("2")


def described(host):
    host.metadata["rack"] = "r1"


def off(host):
    host.state = NodeStatus("Off")


def kept(host):
    host._Node__keep_alive = True  # as callers write it to nodes that exist


def not_there(host):
    host.exists = False


CHANGES = {
    marked: {"marked-for-deletion": True},
    closed: {"closed": True},
    required: {"required": True},
    named_by_the_server: {"node-id": "id-1"},
    with_less_left: {"available": {"ncpus": 1}},
    with_another_total: {"resources": {"ncpus": 8}, "available": {"ncpus": 4}},
    with_a_job: {"job-ids": ["1", "2"]},
    described: {"metadata": {"rack": "r1"}},
    off: {"state": "Off"},
    kept: {"keep-alive": True},
    not_there: {"kind": ["unknown", "unknown", "unknown", False, False]},
}


@pytest.mark.parametrize("is_before", [False, True])
@pytest.mark.parametrize("write", CHANGES, ids=lambda write: write.__name__)
def test_whatever_changes_of_a_host_is_seen(write, is_before):
    """And nothing else of it is said, whether it is as it usually is now or was so before."""
    usual, other = a_host("host-1", "1", ncpus=4), a_host("host-1", "1", ncpus=4)
    write(other)
    pair = (other, usual) if is_before else (usual, other)
    before = host_rows(pair[:1])
    assert host_rows(pair[:1], before) is before
    ((key, now),) = change(before, host_rows(pair[1:], before))["set"]
    plain = {"hostname": "host-1", "resources": {"ncpus": 4}, "job-ids": ["1"]}
    assert (key, now) == ("host-1", plain if is_before else {**plain, **CHANGES[write]})


def test_a_bucket_id_is_said_where_it_was_given():
    """One that was made up is another one in each reading."""

    def read(bucket_id):
        return [SchedulerNode("host-1", {"ncpus": 4}, bucket_id)]

    before = host_rows(read(None))
    assert host_rows(read(None), before) is before
    given = host_rows(read("b-1"), before)
    assert change(before, given)["set"][0][1]["bucket-id"] == "b-1"
    assert host_rows(read("b-1"), given) is given
    assert change(given, host_rows(read("b-2"), given))["set"][0][1]["bucket-id"] == "b-2"
    assert "bucket-id" not in change(given, host_rows(read(None), given))["set"][0][1]


def test_nodes_of_a_cluster_may_be_hosts():
    """Much of them is made when somebody first looks at it, as in each pass here."""
    cluster = an_htc_cluster()
    made = cluster.add_node("htc-1", "htc", hostname="host-1")
    before = host_rows(a_manager(cluster).get_nodes())
    assert before.keys == ["host-1"]
    assert before.plain(before.values[0])["node-id"] == made.delayed_node_id.node_id
    assert change(before, host_rows(a_manager(cluster).get_nodes(), before)) is None


OTHER_JOBS = {
    "needs": (lambda: Job("1", {"ncpus": 2}), {"constraints": [{"ncpus": 2}]}),
    "slots": (lambda: Job("1", {"ncpus": 1}, iterations=3), {"iterations": 3}),
    "nodes": (
        lambda: Job("1", {"ncpus": 1}, node_count=2),
        {"node-count": 2, "packing-strategy": "scatter"},
    ),
    "together": (lambda: Job("1", {"ncpus": 1}, colocated=True), {"colocated": True}),
    "spread": (
        lambda: Job("1", {"ncpus": 1}, packing_strategy="scatter"),
        {"packing-strategy": "scatter"},
    ),
    "hosts": (
        lambda: Job("1", {"ncpus": 1}, executing_hostnames=["b", "a"]),
        {"executing-hostnames": ["b", "a"]},
    ),
}


def again_of(rows):
    """The jobs of rows, as a journal has them."""
    return jobs_from(json.loads(json.dumps([rows.plain(value) for value in rows.values])))


def pools_of(job):
    """The pools that a job draws on, as they stand in its constraints."""
    return [p for each in walked(job._constraints) for p in getattr(each, "shared_resources", ())]


def walked(constraints):
    """Constraints, and those that they are made of."""
    for each in constraints:
        yield each
        yield from walked(each.get_children())


class TestJobs:
    """Jobs of a reading."""

    @staticmethod
    def said_of(before, jobs):
        """The only row that is another one."""
        ((_, found),) = change(before, job_rows(jobs, before))["set"]
        return found

    @pytest.mark.parametrize("of", OTHER_JOBS)
    def test_whatever_changes_of_a_job_is_seen(self, of):
        """And nothing else of it is said."""
        usual, (make, differs) = Job("1", {"ncpus": 1}), OTHER_JOBS[of]
        before = job_rows([usual])
        found = self.said_of(before, [make()])
        assert found == {**before.plain(before.values[0]), **differs}
        after = job_rows([make()])
        assert job_rows([make()], after) is after
        assert self.said_of(after, [usual]) == before.plain(before.values[0])

    def test_what_a_pass_writes_to_a_job_is_seen_in_the_next(self):
        """Slots that were placed, metadata and further hosts, of an object that is handed over
        again."""
        job = a_job("1", tasks=4)
        before = job_rows([job])
        job.iterations_remaining = 1
        assert self.said_of(before, [job])["iterations-remaining"] == 1
        before = job_rows([job])
        job.metadata["queue"] = {"name": "short"}
        assert self.said_of(before, [job])["metadata"] == {"queue": {"name": "short"}}
        before = job_rows([job])
        job.metadata["queue"]["name"] = "long"
        assert self.said_of(before, [job])["metadata"] == {"queue": {"name": "long"}}
        before = job_rows([job])
        job.executing_hostnames.append("a")
        assert self.said_of(before, [job])["executing-hostnames"] == ["a"]
        before = job_rows([job])
        job.add_constraint({"ngpus": 1})
        assert self.said_of(before, [job])["constraints"][-1] == {"ngpus": 1}

    def test_jobs_of_other_kinds_are_what_they_were(self):
        """One that cannot be used, one of a class of its own, and what is no job at all."""

        class SiteJob(Job):
            pass

        def read():
            unusable = UnusableJob("2", "no such queue", None)
            own = SiteJob("3", {"ncpus": 1}, iterations=2)
            own.add_constraint({"ngpus": 1})
            unusable.metadata["queue"] = "x"
            return [a_job("1"), unusable, own, object()]

        rows = job_rows(read())
        assert change(rows, job_rows(read(), rows)) is None
        plain = [rows.plain(value) for value in rows.values]
        _, unusable, own, none = jobs_from(plain)
        assert (unusable.reason, unusable.metadata) == ("no such queue", {"queue": "x"})
        assert unusable.runs_who_knows_where
        assert own.iterations == 2 and len(own._constraints) == 2
        assert not isinstance(none, Job)
        usable = job_rows([read()[0], a_job("2"), *read()[2:]], rows)
        assert "reason" not in change(rows, usable)["set"][0][1]

    def test_jobs_that_draw_on_one_pool_do_so_again(self):
        """Each pool is the one that it was, at any depth; what had a pool of its own has that."""
        shared, alike = (SharedConsumableResource("licences", "server", 4, 3) for _ in range(2))
        other = SharedConsumableResource("tokens", "server", 9, 9)
        own = {"resource-name": "licences", "source": "server", "initial-value": 3, "requested": 1}
        jobs = [
            Job("1", SharedConsumableConstraint(shared, 1)),
            Job("2", And(SharedConsumableConstraint([other, shared], 1))),
            Job("3", SharedConsumableConstraint(alike, 2)),
            Job("4", {"shared-consumable-constraint": own}),
            Job("5", SharedConsumableConstraint(other, 2)),
        ]
        again = again_of(job_rows(jobs))
        pools = [each for job in again for each in pools_of(job)]
        assert [p.resource_name for p in pools] == [
            p.resource_name for job in jobs for p in pools_of(job)
        ]
        first, tokens, second, third, fourth, fifth = pools
        assert first is second and tokens is fifth
        assert len({id(first), id(third), id(fourth)}) == 3
        assert (first.initial_value, first.current_value) == (4, 3)

    def test_a_job_that_draws_on_another_pool_is_another_one(self):
        """Also where that looks the same."""
        one, alike = (SharedConsumableResource("licences", "server", 4, 4) for _ in range(2))

        def read(*pools):
            return [Job(str(n), SharedConsumableConstraint(p, 1)) for n, p in enumerate(pools)]

        rows = job_rows(read(one, one))
        assert change(rows, job_rows(read(alike, alike), rows)) is None
        assert change(rows, job_rows(read(one, alike), rows))["set"][0][0] == "1"

    def test_workers_are_workers_again(self):
        """With their demand, the name and the constraints that they had."""
        wanted = WorkerDemand(
            waiting=9,
            slots_per_node=2,
            name="batch",
            nodearrays=("htc", "spot"),
            constraints=[{"node.vm_size": "F4"}],
            attributes={"Configuration": {"a": 1}},
            run_time=3.5,
            finish_within=7.0,
        )
        (job,) = wanted.jobs()
        job.add_constraint({"ngpus": 1})
        job.iterations_remaining = 1
        (found,) = again_of(job_rows([job]))
        assert isinstance(found, WorkerJob)
        assert replace(found.demand, nodearrays=(), constraints=()) == replace(
            wanted, nodearrays=(), constraints=()
        )
        assert tuple(found.demand.nodearrays) == wanted.nodearrays
        assert (found.iterations, found.iterations_remaining) == (3, 1)
        assert found.to_dict() == job.to_dict()
        assert found.node_attributes == job.node_attributes


def test_pythons_collector_need_not_look_at_what_is_known_of_hosts_and_jobs():
    """There are thousands of them, and it would look at each in every pass."""
    hosts = [a_host(f"host-{n}", f"{n}", ncpus=4) for n in range(50)]
    jobs = [Job(f"{n}", {"ncpus": 4}, executing_hostnames=[f"host-{n}"]) for n in range(50)]
    for job in jobs:
        job.metadata["job_state"] = "running"
    for rows in (host_rows(hosts), job_rows(jobs)):
        gc.collect()
        gc.collect()  # a tuple in a tuple is seen to be plain first
        assert not any(map(gc.is_tracked, rows.values.own))
        assert len(set(map(id, rows.values.shared))) == 1


class TestWaiting:
    """Jobs that wait: name, what is missing, and why."""

    @staticmethod
    def read(count=3, missing=1, reason="full", unit="slots"):
        said = (reason, "quota"), ("none fits", None)
        causes = [Explanation(lambda of: of, of=each) for each in said]
        return [UnsatisfiedJob(str(n), missing, causes[n % 2], unit=unit) for n in range(count)]

    def test_the_same_jobs_are_the_same_rows(self):
        """Also where their causes are other objects, as in each pass."""
        before = unsatisfied_rows(self.read())
        assert unsatisfied_rows(self.read(), before) is before

    @pytest.mark.parametrize(
        ("other", "numbers"),
        [({"missing": 2}, "012"), ({"unit": "nodes"}, "012"), ({"reason": "over"}, "02")],
    )
    def test_what_is_another_is_said(self, other, numbers):
        """Of those jobs alone."""
        before = unsatisfied_rows(self.read())
        said = change(before, unsatisfied_rows(self.read(**other), before))["set"]
        assert [key for key, _ in said] == list(numbers)
        whole = {"job": "0", "missing": 1, "unit": "slots", "reason": "full", "limit": "quota"}
        assert said[0][1] == {**whole, **other}

    def test_a_job_that_was_placed_is_gone(self):
        """And the others stay the objects that they were."""
        before = unsatisfied_rows(self.read())
        after = unsatisfied_rows(self.read()[1:], before)
        assert change(before, after) == {"gone": ["0"]}
        assert [new is old for new, old in zip(after.values, before.values[1:], strict=True)]

    def test_of_many_causes_the_first_are_worked_out(self):
        """Each once."""
        asked = []

        def explain(number):
            asked.append(number)
            return (f"cause {number}", None)

        count = CAUSES + 5
        jobs = [UnsatisfiedJob(str(n), 1, Explanation(explain, of=n)) for n in range(count)]
        rows = unsatisfied_rows(jobs)
        rows = unsatisfied_rows(jobs, rows)
        assert asked == list(range(CAUSES))
        assert [why for *_, why in rows.values][-6:] == [("cause 49", None), *[(None, None)] * 5]


def listed(*states):
    """A reply that lists nodes in these states, and its records."""
    body = json.dumps([{"NodeId": f"id-{n}", "State": each} for n, each in enumerate(states)])
    return body.encode(), json.loads(body)


@pytest.mark.parametrize("somebody_else_writes", [False, True])
def test_a_reply_that_lists_the_same_is_not_looked_at_by_another_process(
    tmp_path, somebody_else_writes
):
    """What its nodes were is known from the digest of the reply. Where the record then has to stand
    by itself, they are in it all the same."""
    replies = [listed("Ready", "Ready"), listed("Ready", "Ready"), listed("Ready", "Off")]
    are_known = []
    for body, records in replies:
        writer = JournalWriter(tmp_path)
        writer.take_up()
        rows = node_rows(records, writer.lists.get("nodes", NO_ROWS), body)
        are_known.append(rows.digested is not None)
        if somebody_else_writes and are_known == [False, True]:
            other = JournalWriter(tmp_path)
            other.take_up()
            other.append(as_written(PassRecord(nodes=records)), {})
        record = as_written(PassRecord())
        record.lists["nodes"] = rows
        writer.append(record, {})
    assert are_known == [False, True, False]
    found = [each.nodes for each in Journal(tmp_path)]
    expected = [records for _, records in replies]
    assert found == (expected[:1] if somebody_else_writes else []) + expected
