"""The published `NodeManager`: placing, names, buckets, machines on premises."""

import pytest

from builders.constraints import Tokens
from builders.hosts import no_name_service as no_name_service
from builders.nodes import a_manager, an_htc_cluster, names
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import UnmanagedNode
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.testing import a_config


def placed(result):
    """Names of the nodes used, and the slots."""
    return names(result.nodes), result.total_slots


# -- names


def test_the_lowest_free_index():
    """Gaps are filled; names of nodes that are in no bucket are taken too."""
    cluster = an_htc_cluster()
    for name, state in (("htc-2", "Ready"), ("htc-4", "Ready")):
        cluster.add_node(name, "htc", state=state)
    cluster.add_nodearray("other", {})
    cluster.add_bucket("other", "Standard_F4", 5, 5)
    cluster.add_node("htc-5", "other", state="Ready")
    manager = a_manager(cluster)
    wanted = {"node.exists": False, "exclusive": True, "node.nodearray": "htc"}
    assert names(manager.allocate(wanted, node_count=3).nodes) == ["htc-1", "htc-3", "htc-6"]
    assert names(manager.allocate(wanted, node_count=1).nodes) == ["htc-7"]


def test_a_refused_plan_takes_no_names():
    """The next one gets them (W3)."""
    manager = a_manager(an_htc_cluster(2))
    assert not manager.allocate({"exclusive": True}, node_count=3, all_or_nothing=True)
    assert names(manager.allocate({"exclusive": True}, node_count=1).nodes) == ["htc-1"]


def test_the_name_hook():
    """Asked with index 1 first for each node, and once when that name is free."""
    manager = a_manager()
    asked = []

    def fixed(bucket, index):
        asked.append((bucket.vm_size, index))
        if index != 1:
            raise RuntimeError("only one")
        return f"fixed-{len(asked)}"

    manager.set_node_name_hook(fixed)
    assert names(manager.allocate({"exclusive": True}, node_count=2).nodes) == [
        "fixed-1",
        "fixed-2",
    ]
    assert asked == [("Standard_F4", 1)] * 2


def test_a_hook_with_a_pattern():
    """It is asked on until its answer is free, but not again for names that it gave before."""
    manager = a_manager(an_htc_cluster(300))
    asked = []

    def numbered(bucket, index):
        asked.append(index)
        return f"n{index}"

    manager.set_node_name_hook(numbered)
    for _ in range(10):
        manager.allocate({"exclusive": True}, node_count=20)
    assert names(manager.get_nodes()) == [f"n{i}" for i in range(1, 201)]
    assert len(asked) < 1000


def test_a_hook_that_fails_changes_nothing():
    """Its error reaches the caller; afterwards everything is as it was."""
    manager = a_manager()

    def broken(bucket, index):
        raise LookupError("no name left")

    manager.set_node_name_hook(broken)
    with pytest.raises(LookupError):
        manager.allocate({"exclusive": True}, node_count=1)
    assert (manager.get_nodes(), manager.get_buckets()[0].available_count) == ([], 10)


@pytest.mark.parametrize("answer", [None, 5, ""])
def test_a_hook_that_names_nothing_changes_nothing(answer):
    """What is no text is refused, an empty text is no free name; the next names are as ever."""
    manager = a_manager()
    manager.set_node_name_hook(lambda bucket, index: answer)
    with pytest.raises(AutoscaleError, match=r"set_node_name_hook: expected name|no free name"):
        manager.allocate({"exclusive": True}, node_count=1)
    manager.set_node_name_hook(lambda bucket, index: f"n{index}")
    assert names(manager.allocate({"exclusive": True}, node_count=1).nodes) == ["n1"]
    manager.set_node_name_hook(lambda bucket, index: f"ok-{index}")
    assert names(manager.allocate({"exclusive": True}, node_count=2).nodes) == ["ok-1", "ok-2"]


# -- buckets


def test_buckets_by_id():
    """Placement groups share an id, which is an error here."""
    manager = a_manager()
    (bucket,) = manager.get_buckets()
    assert manager.get_buckets_by_id() == {bucket.bucket_id: bucket}
    manager.add_placement_group("pg0", bucket)
    with pytest.raises(RuntimeError, match="bucket id"):
        manager.get_buckets_by_id()


def test_adding_placement_groups(caplog):
    """At the end; known to a VM size once, for other sizes again (W15)."""
    cluster = an_htc_cluster()
    cluster.add_bucket("htc", "Standard_F8", 10, 10)
    manager = a_manager(cluster)
    small, large = manager.get_buckets()
    manager.add_placement_group("pg0", small)
    manager.add_placement_group("pg0", small)
    manager.add_placement_group("pg0", large)
    added = [(b.vm_size, b.placement_group) for b in manager.get_buckets()[2:]]
    assert added == [("Standard_F4", "pg0"), ("Standard_F8", "pg0")]
    assert "exists already" in caplog.text
    assert manager.get_placement_groups(small) == ["pg0", "pg0"]
    with pytest.raises(RuntimeError, match="placement group"):
        manager.add_placement_group("pg 1", small)


def test_a_placement_group_and_its_bucket_share_the_count():
    """What is placed in the group is gone outside of it, and the other way round."""
    manager = a_manager(an_htc_cluster(10, max_placement_group_size=4))
    (bucket,) = manager.get_buckets()
    manager.add_placement_group("pg0", bucket)
    group = manager.get_buckets()[1]
    wanted = {"in-a-placement-group": True, "exclusive": True}
    assert len(manager.allocate(wanted, node_count=9).nodes) == 4
    assert (bucket.available_count, group.available_count) == (6, 0)
    manager.allocate({"node.placement_group": None, "exclusive": True}, node_count=5)
    assert bucket.available_count == 1


def test_an_empty_manager():
    """Can be asked, and has nothing."""
    manager = NodeManager(MockClusterBinding(), [])
    assert (manager.get_nodes(), manager.get_buckets(), manager.new_nodes) == ([], [], [])
    assert manager.allocate({"ncpus": 1}, slot_count=1).status == "NoCandidatesFound"
    for name in ("cluster_max_core_count", "cluster_consumed_core_count"):
        with pytest.raises(AssertionError, match="at least one bucket"):
            getattr(manager, name)


def test_limits_of_cluster_and_regions():
    """Each region has its own numbers (W14), those of on-demand nodes where there are both."""
    cluster = MockClusterBinding()
    cluster.max_core_count = 500
    for i, (name, location, spot) in enumerate(
        (("a", "eastus", True), ("b", "eastus", False), ("c", "westus2", False)), 1
    ):
        cluster.add_nodearray(name, {}, location=location, spot=spot)
        cluster.add_bucket(
            name,
            "Standard_F4",
            5,
            5,
            regional_quota_core_count=100 * i,
            regional_consumed_core_count=i,
        )
    manager = a_manager(cluster)
    assert manager.get_locations() == ["eastus", "westus2"]
    assert manager.get_regional_max_core_count("eastus") == 200
    assert manager.get_regional_consumed_core_count("westus2") == 3
    assert (manager.cluster_max_core_count, manager.cluster_consumed_core_count) == (500, 0)
    with pytest.raises(RuntimeError, match="nowhere"):
        manager.get_regional_max_core_count("nowhere")


def test_the_bindings_and_the_texts():
    """What is given is what is found."""
    cluster = an_htc_cluster()
    manager = a_manager(cluster)
    assert manager.cluster_bindings is cluster
    assert "1 buckets" in str(manager)
    assert manager.to_dict()["buckets"][0]["vm_size"] == "Standard_F4"


def test_existing_nodes_are_accepted_and_not_used():
    """As upstream; machines are added by `add_unmanaged_nodes`."""
    manager = new_node_manager(a_config(an_htc_cluster()), existing_nodes=[SchedulerNode("tux")])
    assert manager.get_nodes() == []


# -- machines on premises


def test_machines_come_first():
    """In the order given; nothing can be added to them by asking."""
    manager = a_manager()
    manager.add_unmanaged_nodes([SchedulerNode(n, {"ncpus": 2}) for n in ("tux42", "tux7")])
    assert placed(manager.allocate({"ncpus": 1}, slot_count=5)) == (["tux42", "tux7", "htc-1"], 5)
    bucket = manager.get_buckets()[-1]
    assert (bucket.nodearray, bucket.available_count, bucket._artificial) == (
        "__unmanaged__",
        0,
        True,
    )
    assert (bucket.vm_size, bucket.location, bucket.subnet) == ("unknown", "unknown", "unknown")
    assert names(manager.new_nodes) == ["htc-1"]


def test_machines_are_added_once():
    """By host name; however often, and whatever they have then."""
    manager = a_manager()
    for cores in (2, 2, 3):
        manager.add_unmanaged_nodes([SchedulerNode("tux", {"ncpus": cores})])
    assert [(n.name, n.resources["ncpus"]) for n in manager.get_nodes()] == [("tux", 2)]


def test_equal_machines_share_a_bucket():
    """Thousands of them make one, where nobody says which bucket they are in."""
    manager = a_manager()
    for start in (0, 3000):
        machines = [SchedulerNode(f"tux{start + i}", {"ncpus": 2}) for i in range(3000)]
        manager.add_unmanaged_nodes(machines)
    assert len(manager.get_buckets()) == 2
    assert len(manager.get_nodes()) == 6000


def test_machines_that_were_given_a_bucket_share_it_with_no_others():
    """By its id and the placement group, however they differ; unmanaged nodes have one id."""
    manager = a_manager(an_htc_cluster(0))
    for name, cores, bucket_id in (("a", 2, "x"), ("b", 4, "x"), ("c", 2, "y"), ("d", 2, None)):
        manager.add_unmanaged_nodes([SchedulerNode(name, {"ncpus": cores}, bucket_id)])
    manager.add_unmanaged_nodes([UnmanagedNode("e", {"ncpus": 2}), UnmanagedNode("f", {})])
    machines = UnmanagedNode("g", {}, placement_group="pg"), UnmanagedNode("h", {})
    manager.add_unmanaged_nodes(machines)
    shared = [names(bucket.nodes) for bucket in manager.get_buckets()]
    assert shared == [[], ["a", "b"], ["c"], ["d"], ["e", "f", "h"], ["g"]]
    assert len(manager.get_buckets_by_id()) == len(manager.get_buckets())


def test_machines_of_a_bucket_may_lack_a_resource():
    """Work goes to those that have it, also behind others."""
    manager = a_manager(an_htc_cluster(0))
    for name, resources in (("a", {"fpga": 1}), ("b", {}), ("c", {"fpga": 1})):
        manager.add_unmanaged_nodes([SchedulerNode(name, {"ncpus": 2, **resources}, "x")])
    found = [manager.allocate({"ncpus": 1, "fpga": 1}, slot_count=1) for _ in range(3)]
    assert [names(each.nodes or ()) for each in found] == [["a"], ["c"], []]


def test_a_machine_that_refused_is_asked_again_when_less_is_free():
    """Where that is what a job wants, whatever else it asks for behind it."""
    manager = a_manager(an_htc_cluster(0))
    manager.add_unmanaged_nodes([SchedulerNode("tux", {"ncpus": 4, "gold": 4})])
    wanted = {"not": {"ncpus": 4}, "gold": 1}
    assert not manager.allocate(wanted, slot_count=1)
    assert manager.allocate({"ncpus": 1}, slot_count=1)
    assert manager.allocate(wanted, slot_count=1)


def test_copies_of_machines_share_a_bucket_as_they_did():
    """An id that was made up for one stays that of nobody else."""
    machines = [
        SchedulerNode(n, {"ncpus": 2}, i) for n, i in (("a", None), ("b", None), ("c", "x"))
    ]
    manager = a_manager(an_htc_cluster(0))
    manager.add_unmanaged_nodes([machine.clone() for machine in machines])
    assert [names(bucket.nodes) for bucket in manager.get_buckets()] == [[], ["a", "b"], ["c"]]


def test_machines_that_differ_in_name_and_amounts_share_a_bucket():
    """As PBS reports them; each is still found by what it is."""
    manager = a_manager(an_htc_cluster(0))
    manager.add_unmanaged_nodes(
        [
            SchedulerNode(
                f"Tux{i}.example",
                {"host": f"tux{i}", "vnode": f"Tux{i}.example", "ncpus": 4, "mem": Size(i, "g")},
            )
            for i in range(1, 501)
        ]
    )
    assert len(manager.get_buckets()) == 2
    for wanted, found in (
        ({"host": "tux321"}, "Tux321.example"),
        ({"vnode": "Tux7.example", "ncpus": 4}, "Tux7.example"),
        ({"mem": "size::499g"}, "Tux499.example"),
        ([Tokens(), {"host": "tux3"}], None),
    ):
        placed_on = names(manager.allocate(wanted, slot_count=1).nodes)
        assert placed_on == ([found] if found else [])


def test_preferences_among_machines():
    """Machines of different kinds are asked in the order that the demand prefers."""
    manager = a_manager()
    kinds = (("tux1", "a"), ("tux2", "b"), ("tux3", "a"))
    manager.add_unmanaged_nodes([SchedulerNode(n, {"owner": o, "ncpus": 1}) for n, o in kinds])
    wanted = {"owner": ["b", "a"], "ncpus": 1}
    assert names(manager.allocate(wanted, slot_count=3).nodes) == ["tux2", "tux1", "tux3"]


def test_different_machines_each_count_for_what_they_have():
    """None is judged by another one's resources."""
    manager = a_manager(an_htc_cluster(0))
    manager.add_unmanaged_nodes(
        [
            SchedulerNode("small", {"ncpus": 1, "owner": "a"}),
            SchedulerNode("large", {"ncpus": 64, "owner": "b"}),
            UnmanagedNode("gpu", {"ncpus": 8, "ngpus": 2}),
        ]
    )
    assert names(manager.allocate({"ncpus": 10}, slot_count=1).nodes) == ["large"]
    assert names(manager.allocate({"ngpus": 1}, slot_count=1).nodes) == ["gpu"]
    assert names(manager.allocate({"owner": "a"}, slot_count=1).nodes) == ["small"]
    assert len(manager.get_buckets_by_id()) == len(manager.get_buckets())


def test_a_machine_of_a_known_bucket_joins_it():
    """By the bucket's id and placement group."""
    manager = a_manager()
    (bucket,) = manager.get_buckets()
    others = [SchedulerNode("other", {"ncpus": 1})]
    mine = SchedulerNode("mine", {"ncpus": 1}, bucket_id=bucket.bucket_id)
    manager.add_unmanaged_nodes([*others, mine])
    assert (names(bucket.nodes), len(manager.get_buckets())) == (["mine"], 2)


def test_machines_get_the_defaults():
    """Where they say nothing themselves."""
    manager = a_manager(default_resources=[{"select": {}, "name": "gold", "value": 3}])
    manager.add_unmanaged_nodes([UnmanagedNode("tux", {"ncpus": 1}, vcpu_count=2)])
    (node,) = manager.get_nodes()
    assert (node.resources["ncpus"], node.resources["gold"], node.resources["pcpus"]) == (1, 3, 2)
