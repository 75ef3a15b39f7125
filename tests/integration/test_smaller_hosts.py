"""Hosts that have less than the catalogue says of their nodes, as cores where it counts threads."""

import pytest

from builders.failing_cloud import F2, a_site
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job.job import Job

ARRAYS = {"htc": {"machine_types": [F2]}, "other": {"machine_types": [F2]}}
FOUR, THREE = Memory(4, "g"), Memory(3, "g")


@pytest.mark.parametrize(
    ("wanted", "has", "said"),
    [
        ({"ncpus": 2}, {"ncpus": 1}, "ncpus 1 of 2"),
        ({"memgb": FOUR}, {"memgb": THREE}, "memgb 3.00g of 4.00g"),
        ({"memgb": THREE}, {"memgb": THREE}, None),
        ({"ncpus": 1}, {"ncpus": 1}, None),
    ],
)
def test_a_pass_says_why_it_makes_nodes_beside_idle_ones(tmp_path, wanted, has, said):
    """Work for which hosts are too small waits, and others that are no larger are made for it."""
    with a_site(tmp_path, ARRAYS) as site:

        def hosts():
            found = site.hosts_with(2, 2)
            for host in found:
                for name, amount in has.items():
                    host._resources[name] = host.available[name] = amount
            return found

        site.new_hosts = hosts
        site.want(1, **{"node.nodearray": "htc", **wanted})
        assert site.run().notes == ()
        site.wait(60)
        summary = site.run()
        if said is None:
            assert (summary.notes, summary.created) == ((), ())
            return
        assert summary.created == ("htc-2",)
        assert summary.notes == (
            "nodes are made in htc for work that does not fit on htc-1, of whose hosts the"
            f" scheduler reports less than new nodes are said to have: {said}. They will be no"
            " larger: let default_resources say what it reports",
        )
        site.want(2, **{"node.nodearray": "other"})
        assert site.run().notes == ()


def test_hosts_that_are_too_small_go_though_others_are_made_in_each_pass(tmp_path):
    """Or there would be more and more of them."""
    with a_site(tmp_path, ARRAYS) as site:

        def hosts():
            found = site.hosts_with(2, 2)
            for host in found:
                host._resources["ncpus"] = host.available["ncpus"] = 1
            return found

        site.new_hosts = hosts
        site.config["idle_timeout"] = 60
        site.want(1, **{"node.nodearray": "htc", "ncpus": 2})
        made = []
        for _ in range(10):
            made += site.run().created
            site.wait(60)
        assert len(made) >= 8
        assert len(site.nodes()) <= 4


def test_what_is_said_of_several_nodearrays_has_the_order_of_the_plan(tmp_path):
    """In each process: it is compared when a pass is played again."""
    names = [f"htc{number}" for number in range(6)]
    with a_site(tmp_path, {name: {"machine_types": [F2]} for name in names}) as site:
        site.new_hosts = lambda: site.hosts_with(1, 1)
        site.new_jobs = lambda: [Job(name, {"node.nodearray": name, "ncpus": 2}) for name in names]
        site.run()
        site.wait(60)
        assert [note.split()[4] for note in site.run().notes] == names
