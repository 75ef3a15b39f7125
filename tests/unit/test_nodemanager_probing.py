"""Demands that the engine cannot judge by shapes alone: constraints that name nodes, and those of
somebody else."""

from collections import Counter, OrderedDict, defaultdict
from functools import partial

import pytest

from builders.constraints import Tokens
from builders.nodes import a_manager, an_htc_cluster, names
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    And,
    BaseNodeConstraint,
    Or,
    SharedConsumableConstraint,
    SharedConsumableResource,
    get_constraint,
)
from hpc.autoscale.results import SatisfiedResult


def running(count=4, resources=None, available=10):
    """A manager over a cluster with running nodes htc-1, htc-2, … called ip-1.example,
    ip-2.example, …"""
    cluster = an_htc_cluster(available, resources=resources)
    for i in range(1, count + 1):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", hostname=f"ip-{i}")
    cluster.assign_ip([f"htc-{i}" for i in range(1, count + 1)])
    manager = a_manager(cluster)
    for node in manager.get_nodes():
        node._settle(f"{node.hostname}.example", node.private_ip)
    return manager


def by_job(manager, constraints, slots=1):
    """Names of the nodes that a job was placed on; the same as for a plain request."""
    job = Job("job", constraints, iterations=slots)
    return names(job.do_allocate(manager).nodes)


def by_request(manager, constraints, slots=1):
    """Names of the nodes that a request was placed on."""
    return names(manager.allocate(constraints, slot_count=slots).nodes)


@pytest.mark.parametrize("place", [by_job, by_request])
@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"node.name": "htc-3"}, ["htc-3"]),
        ({"node.hostname": "ip-2"}, ["ip-2"]),
        ({"node.hostname": ["ip-4", "ip-3"]}, ["ip-3"]),
        ({"node.fqdn": "ip-2.example"}, ["ip-2"]),
        ({"node.hostname_or_uuid": "ip-3"}, ["ip-3"]),
        ({"node.private_ip": "10.1.0.4"}, ["ip-3"]),
        ({"node.name": "htc-3", "ncpus": 2}, ["htc-3"]),
        ({"or": [{"node.name": "htc-9"}, {"node.name": "htc-2"}]}, ["htc-2"]),
        ({"xor": [{"node.name": "htc-*"}, {"not": {"node.name": "htc-4"}}]}, ["htc-4"]),
        ({"not": {"node.name": "htc-1"}}, ["htc-2"]),
        ({"node.create_time_unix": 7.0}, ["htc-3"]),
        ({"who": "ip-4"}, ["ip-4"]),
        ({"who": "ip-4", "ncpus": 1, "exclusive": True}, ["ip-4"]),
    ],
)
def test_constraints_that_name_a_node(place, constraint, expected):
    """Each node answers for itself: properties that differ from node to node, and defaults made of
    them."""
    manager = running()
    manager.add_default_resource({}, "who", "node.hostname")
    manager.get_nodes()[2].create_time_unix = 7.0
    assert [n.replace("ip-", "htc-") for n in expected] == place(manager, constraint)


def test_what_names_a_node_takes_what_it_takes():
    """Amounts go down on that node, and only as much as fits goes there."""
    manager = running()
    result = manager.allocate({"node.name": "htc-3", "ncpus": 1}, slot_count=9)
    assert (names(result.nodes), result.total_slots) == (["htc-3"], 4)
    assert [n.available["ncpus"] for n in manager.get_nodes()] == [4, 4, 0, 4]
    assert not manager.allocate({"node.name": "htc-3", "ncpus": 1}, slot_count=1)


def test_new_nodes_have_no_names_yet():
    """A demand that names a node opens none; one that shuns a name does."""
    manager = running(1)
    assert not manager.allocate({"node.name": "htc-7"}, slot_count=1)
    assert not manager.allocate({"node.hostname": "ip-7"}, slot_count=1)
    shy = {"not": {"node.name": ["htc-1", "htc-2"]}, "exclusive": True}
    assert names(manager.allocate(shy, node_count=3).nodes) == ["htc-2", "htc-3", "htc-4"]


def test_all_nodes_that_match_a_pattern():
    """As many as the demand needs."""
    manager = running(12)
    wanted = {"node.name": "htc-1*", "exclusive": True}
    assert names(manager.allocate(wanted, node_count=9).nodes) == [
        "htc-1",
        "htc-10",
        "htc-11",
        "htc-12",
    ]


def test_the_node_id():
    """It is known of existing nodes, whoever defined the resource."""
    manager = running(3)
    ids = [node.delayed_node_id.node_id for node in manager.get_nodes()]
    assert by_request(manager, {"ccnodeid": ids[1]}) == ["htc-2"]
    assert len(manager._placer.planner.table) < 8


def test_exclusive_tasks_know_whose_they_are():
    """Also when another job said the same before."""
    manager = running(2)
    wanted = {"node.name": "htc-*", "exclusive": True}
    for name in ("a", "b"):
        Job(name, wanted).do_allocate(manager)
    assert [node.assignments for node in manager.get_nodes()] == [{"a"}, {"b"}]


# -- constraints of somebody else


def token_manager(count=2, tokens=3, available=10):
    """Running nodes with tokens, which new nodes have as well."""
    return running(count, {"tokens": tokens}, available)


def test_an_opaque_constraint_is_obeyed():
    """Through its own methods, on existing nodes and then on new ones."""
    manager = token_manager()
    result = manager.allocate([Tokens()], slot_count=7)
    assert (names(result.nodes), result.total_slots) == (["htc-1", "htc-2", "htc-3"], 7)
    assert [n.available["tokens"] for n in manager.get_nodes()] == [0, 0, 2]
    assert result.nodes[2].exists is False


def test_it_counts_together_with_those_that_the_engine_knows():
    """The least of both."""
    manager = token_manager()
    result = manager.allocate([Tokens(), {"ncpus": 3}], slot_count=3)
    assert [(n.name, n.available["ncpus"]) for n in result.nodes] == [
        ("htc-1", 1),
        ("htc-2", 1),
        ("htc-3", 1),
    ]


def test_what_it_writes_reaches_the_node():
    """Resources, metadata, placement group, overrides; and the engine hears of it."""

    def write(node):
        node.available["mark"] = "m"
        node._resources["mark"] = "m"
        node.metadata["seen"] = node.metadata.get("seen", 0) + 1
        node.placement_group = "pg0"
        node.node_attribute_overrides["Configuration"] = {"x": 1}
        node.name_format = "f"

    manager = token_manager(0)
    (node,) = manager.allocate([Tokens(write)], slot_count=2, assignment_id="job").nodes
    assert (node.name, node.available["mark"], node.resources["mark"]) == ("htc-1", "m", "m")
    assert (node.metadata["seen"], node.placement_group, node.name_format) == (2, "pg0", "f")
    assert node.node_attribute_overrides == {"Configuration": {"x": 1}}
    assert node.assignments == {"job"}
    manager.get_buckets()[0].resources["mark"] = "none"
    assert names(manager.allocate({"mark": ["m", "none"], "ncpus": 4}, slot_count=1).nodes) == [
        "htc-1"
    ]


@pytest.mark.parametrize("running_nodes", [0, 2])
def test_attributes_that_it_sets_reach_the_node(running_nodes):
    """Those of the node's own, and those that only the integration knows; a refusal sets none."""

    def write(node):
        node.queue = "all.q" if not hasattr(node, "queue") else "more.q"
        node.marked_for_deletion = True

    manager = token_manager(running_nodes)
    (node,) = manager.allocate([Tokens(write)], slot_count=1).nodes
    assert (node.name, node.queue, node.marked_for_deletion) == ("htc-1", "all.q", True)
    (again,) = manager.allocate([Tokens(write)], slot_count=1).nodes
    assert (again is node, node.queue) == (True, "more.q")
    fresh = token_manager(running_nodes)
    assert not fresh.allocate([Tokens(write)], slot_count=999, all_or_nothing=True)
    assert not any(hasattr(each, "queue") for each in fresh.get_nodes())


def test_a_node_that_is_opened_for_it_is_its_own():
    """What names the node is worked out for the node, not for the copy that it was tried on."""
    manager = token_manager(0)
    manager.add_default_resource({}, "who", "node.name")
    manager.add_default_resource({}, "host", lambda node: node.hostname)
    nodes = manager.allocate([Tokens()], slot_count=5).nodes
    assert [n.resources["who"] for n in nodes] == ["htc-1", "htc-2"]
    assert [n.available["host"] for n in nodes] == [n.hostname for n in nodes]


@pytest.mark.parametrize(
    "id_of", [lambda node: node.hostname_or_uuid, lambda node: node.delayed_node_id.transient_id]
)
def test_it_may_count_by_the_ids_of_a_node(id_of):
    """A node that is opened keeps the ids of the copy that it was tried on: two jobs a host are
    two."""
    taken = Counter()

    class TwoOnEach(Tokens):
        def satisfied_by_node(self, node):
            status = "success" if taken[id_of(node)] < 2 else "HostQuota"
            return SatisfiedResult(status, self, node, ["two jobs run there"])

    manager = token_manager(0)
    quota = TwoOnEach(lambda node: taken.update([id_of(node)]))
    placed = [by_job(manager, [{"ncpus": 1}, quota]) for _ in range(5)]
    assert placed == [["htc-1"], ["htc-1"], ["htc-2"], ["htc-2"], ["htc-3"]]


def test_new_nodes_of_a_request_can_be_told_apart_by_name():
    """They have no names yet, and all the same a constraint that counts by name gets three nodes
    for five."""
    taken = Counter()

    class TwoOnEach(Tokens):
        def minimum_space(self, node):
            return 2 - taken[node.name]

    manager = token_manager(0)
    quota = TwoOnEach(lambda node: taken.update([node.name]))
    result = manager.allocate([{"ncpus": 1}, quota], slot_count=5)
    assert (names(result.nodes), result.total_slots) == (["htc-1", "htc-2", "htc-3"], 5)


def test_what_it_says_of_many_buckets_is_said_once():
    """As other reasons are: with how many it stands for."""

    class Refuses(Tokens):
        def satisfied_by_node(self, node):
            return SatisfiedResult("Closed", self, node, ["the queue is closed"])

    groups = [f"pg{i}" for i in range(50)]
    manager = a_manager(an_htc_cluster(10, placement_groups=groups))
    result = manager.allocate([Refuses()], slot_count=1)
    assert result.reasons == ["Closed: the queue is closed (and 50 more alike)"]


class Quota:
    """So many slots for all jobs of somebody: what the constraints of an integration share."""

    def __init__(self, slots, **more):
        self.used = {"slots": 0}
        self.slots = slots
        vars(self).update(more)


class WithinQuota(Tokens):
    """Counts in a quota of the integration's own, and how often it was asked to."""

    def __init__(self, quota):
        super().__init__()
        self.quota = quota
        self.taken = 0

    def satisfied_by_node(self, node):
        left = self.minimum_space(node)
        return SatisfiedResult("success" if left else "Quota", self, node, ["the quota is used up"])

    def minimum_space(self, node):
        return self.quota.slots - self.quota.used["slots"]

    def do_decrement(self, node):
        self.taken += 1
        self.quota.used["slots"] += 1
        return True


@pytest.mark.parametrize("running_nodes", [0, 2])
def test_what_constraints_count_themselves_is_what_was_placed(running_nodes):
    """However many placement groups a gang was tried in, and also where it got none."""
    cluster = an_htc_cluster(10, placement_groups=["pg0", "pg1", "pg2"])
    for i in range(1, running_nodes + 1):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", placement_group="pg1")
    manager, quota = a_manager(cluster), Quota(20, me=None)
    quota.me = [quota]
    own = [WithinQuota(quota) for _ in range(4)]
    for number, constraint in enumerate(own[:3], start=1):
        job = Job(str(number), [{"ncpus": 1}, constraint], iterations=6, colocated=True)
        assert job.do_allocate(manager)
        assert (quota.used["slots"], constraint.taken) == (6 * number, 6)
    refused = Job("4", [{"ncpus": 1}, own[3]], iterations=6, colocated=True)
    assert not refused.do_allocate(manager)
    assert (quota.used["slots"], own[3].taken) == (18, 0)


@pytest.mark.parametrize("kind", [dict, Counter, OrderedDict, partial(defaultdict, int)])
def test_what_was_counted_by_key_is_put_back(kind):
    """In a mapping of any kind, of which a Counter adds what others take over."""
    manager, constraint = token_manager(0), WithinQuota(Quota(20))
    used = constraint.quota.used = kind()
    used["slots"] = 3
    assert not manager.allocate([constraint], slot_count=999, all_or_nothing=True)
    assert used == {"slots": 3}
    assert manager.allocate([constraint], slot_count=2)
    assert used == {"slots": 5}


class Slotted:
    """A quota that counts in a slot of its own."""

    __slots__ = ("__left", "me", "used")

    def __init__(self):
        self.used, self.me = 0, [self]

    def count(self):
        """One more."""
        self.used += 1
        self.__left = 20 - self.used

    def counted(self):
        """How many there are, and how many are left where that is known."""
        return self.used, getattr(self, "_Slotted__left", None)


class Usage(Counter):
    """A quota that is a mapping itself."""

    def count(self):
        """One more."""
        self["slots"] += 1

    def counted(self):
        """How many there are."""
        return dict(self)


@pytest.mark.parametrize("kind", [Slotted, Usage])
def test_what_was_counted_in_a_quota_of_any_make_is_put_back(kind):
    """In slots, as those of a dataclass, and in a container of a class of its own."""
    manager, quota = token_manager(0), kind()
    before = quota.counted()

    class Counting(Tokens):
        def do_decrement(self, node):
            self.quota.count()
            return True

    counting = Counting()
    counting.quota = quota
    assert not manager.allocate([counting], slot_count=999, all_or_nothing=True)
    assert quota.counted() == before
    assert manager.allocate([counting], slot_count=1)
    assert quota.counted() != before


def test_objects_of_other_packages_are_left_alone():
    """As a connection to the scheduler, which was used in trials all the same."""
    connection = type("Connection", (), {"__module__": "other.connections"})()
    connection.answers = 0
    manager, constraint = token_manager(0), WithinQuota(Quota(20))
    constraint.connection = connection

    def write(node):
        connection.answers += 1
        return WithinQuota.do_decrement(constraint, node)

    constraint.do_decrement = write
    assert not manager.allocate([constraint], slot_count=999, all_or_nothing=True)
    assert (constraint.taken, constraint.quota.used["slots"]) == (0, 0)
    assert connection.answers > 0


def test_what_is_too_much_to_count_with_is_left_alone():
    """As the scheduler's whole state, which a constraint may hold; pools are put back all the
    same."""
    manager, constraint = token_manager(0), WithinQuota(Quota(20))
    constraint.jobs = [{"job": i} for i in range(1000)]
    before = list(constraint.jobs)
    constraint.pool = SharedConsumableResource("lic", "q", 50, 50)
    constraint.write = lambda node: constraint.pool.use(1)
    constraint.do_decrement = lambda node: Tokens.do_decrement(constraint, node)
    assert not manager.allocate([constraint], slot_count=999, all_or_nothing=True)
    assert (constraint.jobs, constraint.pool.current_value) == (before, 50)


def test_a_refusal_leaves_no_trace():
    """Neither on nodes nor in shared pools nor in names (W2, W4)."""
    manager = token_manager(1, available=2)
    pool = SharedConsumableResource("licence", "q", 10, 10)
    wanted = [Tokens(), SharedConsumableConstraint([pool], 1)]
    before = manager.to_dict()
    refused = manager.allocate(wanted, slot_count=7, all_or_nothing=True)
    assert (bool(refused), bool(refused.reasons), pool.current_value) == (False, True, 10)
    assert manager.to_dict() == before
    assert manager.allocate(wanted, slot_count=6, all_or_nothing=True).total_slots == 6
    assert pool.current_value == 4


def test_a_pool_stops_it():
    """At what is left in it."""
    manager = token_manager()
    pool = SharedConsumableResource("licence", "q", 4, 4)
    result = manager.allocate([Tokens(), SharedConsumableConstraint([pool], 1)], slot_count=7)
    assert (result.total_slots, pool.current_value) == (4, 0)


def test_an_error_in_it_leaves_no_trace():
    """It reaches the caller; pools and nodes are as before."""

    def fail(node):
        if node.name != "htc-1":
            raise ZeroDivisionError

    manager = token_manager()
    pool = SharedConsumableResource("licence", "q", 9, 9)
    before = manager.to_dict()
    with pytest.raises(ZeroDivisionError):
        manager.allocate([SharedConsumableConstraint([pool], 1), Tokens(fail)], slot_count=6)
    assert (pool.current_value, manager.to_dict()) == (9, before)
    assert manager.allocate({"ncpus": 1}, slot_count=1).total_slots == 1


def test_it_may_stand_inside_others():
    """In an And and in an Or."""
    manager = token_manager(1, tokens=1)
    both = And(Tokens(), {"ncpus": 1})
    assert names(manager.allocate([both], slot_count=1).nodes) == ["htc-1"]
    either = Or({"ncpus": 99}, Tokens())
    assert names(manager.allocate([either], slot_count=1).nodes) == ["htc-2"]


def test_it_may_look_at_anything():
    """What it is given answers as the node would: host names, times, assignments, flags, also of
    its own class."""
    seen = []

    class Curious(Tokens):
        def satisfied_by_node(self, node):
            seen.append((node.fqdn, node.hostname_or_uuid, node.create_time_unix, node.mine))
            return super().satisfied_by_node(node)

    manager = token_manager(1)
    for bucket in manager.get_buckets():
        bucket.example_node.mine = "example"
    (node,) = manager.get_nodes()
    node.create_time_unix, node.mine = 5.0, "x"
    manager.allocate([Curious()], slot_count=1)
    assert ("ip-1.example", "ip-1", 5.0, "x") in seen


@pytest.mark.parametrize("counted", ["slot_count", "node_count"])
def test_not_allocated_looks_at_the_node(counted):
    """The deprecated constraint on the allocated flag: each node takes one, and none after that."""
    manager = running(2)
    manager.get_nodes()[0].required = True
    constraint = get_constraint({"not-allocated": True})
    assert constraint.minimum_space(manager.get_nodes()[1]) == 1
    nodes = manager.allocate([constraint], **{counted: 3}).nodes
    assert names(nodes) == ["htc-2", "htc-3", "htc-4"]
    assert names(manager.allocate([constraint], **{counted: 1}).nodes) == ["htc-5"]


def test_a_node_and_somebody_elses_constraint():
    """Both kinds in one demand."""
    manager = token_manager(3)
    wanted = [Tokens(), {"node.name": "htc-2"}]
    result = manager.allocate(wanted, slot_count=9)
    assert (names(result.nodes), result.total_slots) == (["htc-2"], 3)
    shy = [Tokens(), {"not": {"node.name": ["htc-1", "htc-2", "htc-3", "htc-4"]}}]
    assert names(manager.allocate(shy, slot_count=4).nodes) == ["htc-4", "htc-5"]


class Club(BaseNodeConstraint):
    """A constraint that counts how often it is asked."""

    asked = 0

    def satisfied_by_node(self, node):
        type(self).asked += 1
        member = node.available.get("club") == "yes"
        return SatisfiedResult("success" if member else "NoMember", self, node, ["no member"])

    def to_dict(self):
        return {"club": "yes"}

    def __str__(self):
        return "a member"


@pytest.mark.parametrize(
    ("reads", "is_kept"),
    [
        (None, False),
        (frozenset({"resources.club"}), True),
        (frozenset({"resources.club", "node.hostname"}), False),
        (frozenset({"resources.host"}), False),
    ],
)
def test_a_constraint_that_says_what_it_reads_is_asked_once_for_nodes_alike(reads, is_kept):
    """Not when it reads what names the node; the answer is the same either way."""
    manager = running(10, {"club": "no", "tokens": 1})
    manager.add_default_resource({}, "host", "node.hostname")
    manager.get_buckets()[0].resources["club"] = "yes"
    manager.get_nodes()[9].available["club"] = "yes"
    asking = type("Asking", (Club,), {"reads": reads, "asked": 0})
    assert names(manager.allocate([asking()], slot_count=1).nodes) == ["htc-10"]
    assert (asking.asked <= 3) == is_kept
