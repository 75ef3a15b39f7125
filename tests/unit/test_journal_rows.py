"""What a pass reads is held against what was read before, and every change of it is seen."""

import pytest

from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.autoscaler.summary import Explanation, UnsatisfiedJob
from hpc.autoscale.hpctypes import NodeId, NodeStatus
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.journal.changes import change
from hpc.autoscale.journal.snapshots import host_rows
from hpc.autoscale.journal.waiting import CAUSES, unsatisfied_rows
from hpc.autoscale.testing import a_host


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


class TestWaiting:
    """Jobs that wait: name, what is missing, and why."""

    @staticmethod
    def read(count=3, missing=1, reason="full", unit="slots"):
        causes = [Explanation(lambda: (reason, "quota")), Explanation(lambda: ("none fits", None))]
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

        def cause(number):
            def explain():
                asked.append(number)
                return (f"cause {number}", None)

            return Explanation(explain)

        count = CAUSES + 5
        jobs = [UnsatisfiedJob(str(n), 1, cause(n)) for n in range(count)]
        rows = unsatisfied_rows(jobs)
        rows = unsatisfied_rows(jobs, rows)
        assert asked == list(range(CAUSES))
        assert [why for *_, why in rows.values][-6:] == [("cause 49", None), *[(None, None)] * 5]
