"""Jobs that are meant for one host find it, whatever its name becomes, without asking all
others."""

from fnmatch import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.node.state import pin_of
from hpc.autoscale.packing.compound import AllOf
from hpc.autoscale.packing.expr import MinResource, OneOf, PropertyIs, ResourceIs


def manager(running=4):
    """A manager of nodes htc-1 ... with host names ip-1 ..., of four cores each."""
    cluster = an_htc_cluster(20)
    for i in range(1, running + 1):
        cluster.add_node(f"htc-{i}", "htc", "Standard_F4", state="Ready", hostname=f"ip-{i}")
    return a_manager(cluster)


def placed(node_mgr, **constraints):
    """The names of the nodes that took a slot."""
    wanted = {name.replace("__", "."): value for name, value in constraints.items()}
    return [node.name for node in node_mgr.allocate({"ncpus": 1, **wanted}, slot_count=1).nodes]


@pytest.mark.parametrize(
    "wanted",
    [
        {"node__name": "htc-3"},
        {"node__name": ["htc-9", "htc-3"]},
        {"node__hostname": "ip-3"},
        {"node__fqdn": "ip-3"},
        {"node__hostname_or_uuid": "ip-3"},
        {"node__name": "htc-[3]"},
        {"node__hostname": "*-3"},
    ],
)
def test_a_pinned_job_finds_its_host(wanted):
    """By whatever tells it apart, wildcards included."""
    assert placed(manager(), **wanted) == ["htc-3"]


def test_a_job_finds_a_node_by_a_resource_that_names_it():
    """Such as the NodeId that every node has as `ccnodeid`, also after it was written."""
    node_mgr = manager()
    node = node_mgr.get_nodes()[2]
    assert placed(node_mgr, ccnodeid=node.available["ccnodeid"]) == [node.name]
    node.available["ccnodeid"] = "other"
    assert placed(node_mgr, ccnodeid="other") == [node.name]
    assert placed(node_mgr, ccnodeid=node.delayed_node_id.node_id) == []


def test_a_pinned_job_follows_its_host():
    """A new host name counts at once, and the old one no longer."""
    node_mgr = manager()
    assert placed(node_mgr, node__hostname="ip-2") == ["htc-2"]
    node_mgr.get_nodes()[1]._settle("moved", None)
    assert placed(node_mgr, node__hostname="ip-2") == []
    assert placed(node_mgr, node__hostname="moved") == ["htc-2"]


def test_a_pinned_job_finds_planned_nodes():
    """Also those that were planned after somebody else was looked for."""
    node_mgr = manager(running=1)
    assert placed(node_mgr, node__name="htc-2") == []
    node_mgr.allocate({"ncpus": 4}, slot_count=3)
    assert placed(node_mgr, node__name="htc-3") == []
    assert placed(node_mgr, node__name="htc-1") == []
    node_mgr.allocate({"ncpus": 3}, slot_count=1)
    assert placed(node_mgr, node__name="htc-4") == ["htc-4"]


def test_a_host_that_is_gone_takes_nothing():
    """Its name leads nowhere."""
    node_mgr = manager()
    assert placed(node_mgr, node__name="htc-2") == ["htc-2"]
    node_mgr.delete([node_mgr.get_nodes()[1]])
    assert placed(node_mgr, node__name="htc-2") == []


def test_an_unknown_host_is_said_once_for_each_bucket():
    """Not once for each of its nodes."""
    result = manager(running=9).allocate({"node.name": "typo", "ncpus": 1}, slot_count=1)
    said = [reason for reason in result.reasons if reason.startswith("NoSuchNode")]
    assert len(said) == 1
    assert "has no node whose node.name is 'typo'" in said[0]
    assert len(result.reasons) == 3


def test_a_full_host_says_that_it_is_full():
    """Rather than that there is no such node."""
    result = manager().allocate({"node.name": "htc-1", "ncpus": 9}, slot_count=1)
    assert not result
    assert not any("NoSuchNode" in reason for reason in result.reasons)


def test_a_pinned_gang_is_whole_or_not_at_all():
    """Two nodes named, one of them too few."""
    node_mgr = manager()
    gang = Job("gang", {"node.name": ["htc-1", "htc-4"]}, node_count=2, colocated=True)
    assert [node.name for node in gang.do_allocate(node_mgr).nodes] == ["htc-1", "htc-4"]
    alone = Job("alone", {"node.name": ["htc-2", "htc-9"]}, node_count=2, colocated=True)
    assert not alone.do_allocate(node_mgr)


def test_which_expressions_pin():
    """Texts, alone or beside other conditions, for what changes by writes to the node alone."""
    name = PropertyIs("name", ["a", "b"])
    assert pin_of(AllOf([MinResource("ncpus", 1), name])) is name
    assert name.one_of == OneOf("node.name", ("a", "b"), wild=False)
    ours = ResourceIs("ccnodeid", ["a*"])
    assert pin_of(ours) is ours
    assert ours.one_of == OneOf("ccnodeid", ("a*",), wild=True)
    for other in (
        PropertyIs("instance_id", [None]),
        PropertyIs("create_time", ["x"]),
        PropertyIs("vm_size", ["x"]),
        ResourceIs("ccnodeid", ["A"], fold_case=True),
        MinResource("ncpus", 1),
    ):
        assert pin_of(other) is None


HOSTS = st.sampled_from(["a", "ab", "ab1", "b", "ba", "z"])


@given(
    st.lists(st.tuples(st.integers(0, 5), HOSTS), max_size=12),
    st.lists(
        HOSTS | st.sampled_from(["a*", "*a", "ab*", "a?", "[bz]*", "*"]), min_size=1, max_size=3
    ),
    st.booleans(),
)
def test_finds_what_a_scan_finds(renames, wanted, asked_before):
    """After any changes of host names, whether spelt out or by patterns."""
    node_mgr = manager(running=6)
    (bucket,) = [bucket for bucket in node_mgr.get_buckets() if bucket.nodes]
    state, nodes = bucket._nodes, bucket.nodes
    pin = pin_of(PropertyIs("hostname", wanted)).one_of
    if asked_before:
        state.positions_of(pin)
    for position, hostname in renames:
        nodes[position]._settle(hostname, None)
    hostnames = [str(node.hostname) for node in nodes]
    expected = [i for i, host in enumerate(hostnames) if any(fnmatch(host, w) for w in wanted)]
    assert list(state.positions_of(pin)) == expected
