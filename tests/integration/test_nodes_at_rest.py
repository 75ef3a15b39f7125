"""Nodes that are deallocated and not deleted, in a nodearray where others boot."""

from builders.failing_cloud import F2, a_site
from hpc.autoscale.ccbindings import new_cluster_bindings

ARRAYS = {"htc": {"machine_types": [F2], "attributes": {"ShutdownPolicy": "Deallocate"}}}


def test_nodes_that_come_to_rest_are_not_started_for_work_that_others_boot_for(tmp_path):
    """They have lower numbers than those that were made while they could not be had; what comes
    later starts them."""
    with a_site(tmp_path, ARRAYS, deallocating=120, preparing=300) as site:
        site.new_hosts = lambda: site.hosts_with(2, 2)
        site.want(2)
        assert site.run().created == ("htc-1", "htc-2")
        site.wait(400)
        site.run()
        new_cluster_bindings(site.config).deallocate_nodes(names=["htc-1", "htc-2"])
        site.wait(10)
        assert site.run().created == ("htc-3", "htc-4")
        found = []
        for _ in range(8):
            site.wait(60)
            found.append(site.run())
        assert {node["Name"]: node["Status"] for node in site.nodes()} == {
            **dict.fromkeys(("htc-1", "htc-2"), "Deallocated"),
            **dict.fromkeys(("htc-3", "htc-4"), "Ready"),
        }
        assert [each.requested for each in found] == [()] * 8
        site.want(3)
        assert site.run().started == ("htc-1",)
