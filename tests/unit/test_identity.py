"""Which node a host of the scheduler is: one rule for joining, marks, and the look before a
deletion."""

import pytest

from builders.nodes import a_running_node
from hpc.autoscale.cli.finding import NodeWork
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.delayednodeid import DelayedNodeId
from hpc.autoscale.node.identity import Identities, claimed_ids
from hpc.autoscale.testing import a_host, a_node


def a_known_node(name, hostname, node_id, exists=True):
    """A node of the cluster; one that does not exist is deallocated."""
    node = a_node(name, hostname=hostname, state="Ready" if exists else "Deallocated")
    node.delayed_node_id.node_id = node_id
    node.exists = exists
    return node


def nodes():
    """Two that exist, and one that rests and has the host name of the first."""
    running = a_known_node("htc-1", "ip-1", "id-1")
    other = a_known_node("htc-2", "ip-2", "id-2")
    return running, other, a_known_node("htc-3", "ip-1", "id-3", exists=False)


def by_every_way(node_id):
    """A host that says who it is in each of the ways that there are."""
    own, metadata = a_host("elsewhere"), a_host("elsewhere")
    own.delayed_node_id = DelayedNodeId("elsewhere", node_id)
    resource = a_host("elsewhere", ccnodeid=node_id)
    metadata.metadata["ccnodeid"] = node_id
    return [own, resource, metadata]


@pytest.mark.parametrize("way", range(3))
def test_a_host_may_say_which_node_it_is(way):
    """By an id of its own, as a resource, or in its metadata; its name does not count then."""
    _, other, _ = all_nodes = nodes()
    host = by_every_way("id-2")[way]
    assert claimed_ids(host) == ("id-2",)
    assert Identities(all_nodes).find(host) is other
    assert Identities(all_nodes).might_be(host) == [other]


@pytest.mark.parametrize("way", range(3))
def test_a_host_that_names_another_node_is_never_found_by_name(way):
    """A name is used again, an id is not."""
    known = Identities(nodes())
    host = by_every_way("gone")[way]
    host._hostname = "ip-2"
    assert known.find(host) is None


def test_who_must_not_be_wrong_hears_of_all_that_it_may_be():
    """A host that names a known node is that one; where it says something that is no NodeId, its
    name is all there is."""
    running, other, resting = all_nodes = nodes()
    known = Identities(all_nodes)
    assert known.might_be(a_host("ip-2", ccnodeid="id-1")) == [running]
    assert known.might_be(a_host("ip-2", ccnodeid="gone")) == [other]
    assert known.might_be(a_host("ip-1")) == [running, resting]


def test_a_host_with_the_id_of_a_node_that_nobody_knows_is_none_of_these():
    """Nor does it keep the one that has its name now: only what is no id does."""
    _, other, _ = all_nodes = nodes()
    known = Identities(all_nodes)
    assert known.might_be(a_host("ip-2", ccnodeid="id-9")) == []
    for no_id in ("unknown", "id-", "ip-2", "id_2", "id-22"):
        assert known.might_be(a_host("ip-2", ccnodeid=no_id)) == [other]


def test_of_two_nodes_with_a_name_the_one_that_exists_is_meant():
    """Several that exist are an error; several that rest are none of them."""
    running, other, resting = nodes()
    assert Identities([resting, running]).find(a_host("IP-1.example")) is running
    assert Identities([resting]).find(a_host("ip-1")) is resting
    also_resting = a_known_node("htc-4", "ip-1", "id-4", exists=False)
    assert Identities([resting, also_resting]).find(a_host("ip-1")) is None
    twin = a_known_node("htc-5", "ip-2", "id-5")
    with pytest.raises(RuntimeError, match="htc-2, htc-5"):
        Identities([other, twin]).find(a_host("ip-2"))


@pytest.mark.parametrize("garbage", [["id"], {}, 7, "", None])
def test_what_is_no_text_names_no_node(garbage):
    """The host is known by its name then."""
    _, other, _ = all_nodes = nodes()
    host = a_host("ip-2", ccnodeid=garbage)
    host.metadata["ccnodeid"] = garbage
    assert Identities(all_nodes).find(host) is other


@pytest.mark.parametrize("called", ["htc-3", "HTC-3.example", "east/htc-3"])
def test_a_job_may_name_a_node_of_one_of_several_clusters_without_the_cluster(called):
    """A scheduler knows of none. Of another name the node has no work."""
    node = a_running_node(name="east/htc-3", id="id-3", hostname="ip-3")
    for where, said in ((called, "has jobs: 17"), ("htc-4", "")):
        job = Job("17", {"ncpus": 1}, executing_hostnames=[where])
        job.metadata["job_state"] = "running"
        assert NodeWork([job], nodes=[node]).on(node) == said
