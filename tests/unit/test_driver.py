"""What every scheduler driver inherits: lock, history, caching, placement groups."""

import pytest

from builders.fake_scheduler import FakeScheduler
from builders.nodes import an_htc_cluster
from hpc.autoscale.errors import ConfigurationException, MultipleInstancesError
from hpc.autoscale.job import driver as drivers
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.node.nodehistory.dbfile import NodeHistoryError
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.util import NullSingletonLock


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A driver whose home is a directory of the test."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    return FakeScheduler()


def test_the_home(monkeypatch):
    """Is where the environment says, or named after the integration."""
    monkeypatch.delenv("AUTOSCALE_HOME", raising=False)
    assert FakeScheduler().autoscale_home == "/opt/azurehpc/fake"
    monkeypatch.setenv("AUTOSCALE_HOME", "/somewhere")
    assert FakeScheduler().autoscale_home == "/somewhere"


def test_a_driver_must_be_complete():
    """Every method that the autoscaler needs is abstract."""
    assert SchedulerDriver.__abstractmethods__ == {
        "initialize",
        "preprocess_config",
        "_read_jobs_and_nodes",
        "handle_failed_nodes",
        "add_nodes_to_cluster",
        "handle_post_join_cluster",
        "handle_boot_timeout",
        "handle_draining",
        "handle_post_delete",
    }


def test_the_lock(driver, tmp_path):
    """Is in the home, and held by one."""
    lock = driver.new_singleton_lock({})
    assert lock.lockpath == str(tmp_path / "lock.file")
    with pytest.raises(MultipleInstancesError):
        driver.new_singleton_lock({})
    lock.unlock()


@pytest.mark.parametrize("config", [{"lock_file": None}, {"lock_file": ""}, {"read_only": True}])
def test_no_lock(driver, config, tmp_path):
    """When it is switched off, or nothing can be changed anyway."""
    assert isinstance(driver.new_singleton_lock(config), NullSingletonLock)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["lock_file", "lock_path"])
def test_a_lock_somewhere_else(driver, tmp_path, key):
    """As configured, by either name of the key."""
    path = str(tmp_path / "other")
    lock = driver.new_singleton_lock({key: path})
    assert lock.lockpath == path
    lock.unlock()
    assert isinstance(driver.new_singleton_lock({key: None}), NullSingletonLock)


def test_a_home_that_does_not_exist(driver, monkeypatch):
    """Is said to be missing, instead of a lock that is held or a database that cannot be opened."""
    monkeypatch.setenv("AUTOSCALE_HOME", "/no/such/home")
    with pytest.raises(ConfigurationException, match=r"lock_file: .*create /no/such/home"):
        driver.new_singleton_lock({})
    with pytest.raises(ConfigurationException, match=r"nodehistorydb: .*create /no/such/home"):
        driver.new_node_history({})
    assert driver.new_node_history({"read_only": True}).read_only


def test_the_history(driver, tmp_path):
    """Is opened once for reading and once for writing, where the configuration says."""
    history = driver.new_node_history({})
    assert history.path == str(tmp_path / "nodehistory.db")
    assert driver.new_node_history({}) is history
    assert driver.new_node_history({"read_only": True}).read_only
    other = str(tmp_path / "other.db")
    assert driver.new_node_history({"nodehistorydb": other}).path == other


def test_a_history_that_was_closed_is_opened_anew(driver):
    """When a driver that made room for another one is asked again."""
    closed = driver.new_node_history({})
    driver.close_histories()
    with pytest.raises(NodeHistoryError):
        closed.find_ignored()
    assert driver.new_node_history({}).find_ignored() == []


def test_jobs_are_read_once(driver):
    """Until somebody wants them anew."""
    driver.read_jobs_and_nodes({})
    driver.read_jobs_and_nodes({})
    assert driver.calls == ["read"]
    driver.read_jobs_and_nodes({}, force=True)
    assert driver.calls == ["read", "read"]


def test_subclasses_may_have_a_cache_of_the_same_name(tmp_path):
    """State of the base class is out of their way."""

    class Caching(FakeScheduler):
        def __init__(self):
            super().__init__()
            self.__jobs_and_nodes = "mine"
            self._jobs_cache = self.__jobs_cache = "mine"

    driver = Caching()
    assert driver.read_jobs_and_nodes({}) == ([], [])


def test_the_queue(driver):
    """Is the usual one."""
    assert isinstance(driver.new_node_queue({}), NodeQueue)


# -- node manager


def groups(cluster, **config):
    """Placement groups by nodearray and VM size, after the driver's defaults."""
    node_mgr = new_node_manager({"_mock_bindings": cluster, **config})
    SchedulerDriver.preprocess_node_mgr(FakeScheduler(), config, node_mgr)
    found = {}
    for bucket in node_mgr.get_buckets():
        found.setdefault((bucket.nodearray, bucket.vm_size), []).append(bucket.placement_group)
    return found


def test_two_spare_placement_groups():
    """At the end of the buckets, named after the VM size."""
    assert groups(an_htc_cluster(vm_size="Standard_F4s")) == {
        ("htc", "Standard_F4s"): [None, "Standard_F4s_pg0", "Standard_F4s_pg1"]
    }


def test_every_size_has_its_own():
    """Also when a nodearray has several."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    assert groups(cluster)["htc", "Standard_F8s"] == [None, "Standard_F8s_pg0", "Standard_F8s_pg1"]


def test_taken_names_are_passed_over():
    """The first free ones are used."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    cluster.add_bucket("htc", "Standard_F8s", 10, 10, placement_groups=["Standard_F8s_pg1"])
    assert groups(cluster)["htc", "Standard_F8s"] == [
        "Standard_F8s_pg1",
        None,
        "Standard_F8s_pg0",
        "Standard_F8s_pg2",
    ]


@pytest.mark.parametrize("used", ["Standard_F4s_pg0", "Standard_F4s_pg10"])
def test_spare_groups_that_are_in_use_are_asked_as_before(used):
    """After all buckets outside of groups, and by number, whatever the cluster lists by now."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    cluster.add_node("htc-1", "htc", placement_group=used)
    cluster.add_node("htc-2", "htc", placement_group="Standard_F4s_pg9")
    node_mgr = new_node_manager({"_mock_bindings": cluster})
    FakeScheduler().preprocess_node_mgr({}, node_mgr)
    (new,) = node_mgr.allocate({"ncpus": 1}, slot_count=1, allow_existing=False).nodes
    in_a_group = {"ncpus": 1, "in-a-placement-group": True}
    (there,) = node_mgr.allocate(in_a_group, slot_count=1).nodes
    first = min(used, "Standard_F4s_pg9", key=lambda group: int(group.rpartition("pg")[2]))
    assert (new.placement_group, there.placement_group) == (None, first)


def test_named_groups_end_generation_for_their_nodearray_only():
    """Others still get theirs."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    cluster.add_nodearray("hpc", {})
    cluster.add_bucket("hpc", "Standard_F8s", 10, 10)
    found = groups(cluster, nodearrays={"hpc": {"placement_groups": ["mine"]}})
    assert found["hpc", "Standard_F8s"] == ["mine", None]
    assert len(found["htc", "Standard_F4s"]) == 3


def test_groups_named_for_all_end_generation_for_all():
    """The section default counts for every nodearray."""
    found = groups(
        an_htc_cluster(vm_size="Standard_F4s"), nodearrays={"default": {"placement_groups": ["x"]}}
    )
    assert found == {("htc", "Standard_F4s"): ["x", None]}


@pytest.mark.parametrize("section", ["htc", "default"])
def test_how_many_spare_groups(section):
    """As configured for the nodearray or for all; None are possible."""
    nodearrays = {section: {"generated_placement_group_buffer": 1}}
    assert (
        len(
            groups(an_htc_cluster(vm_size="Standard_F4s"), nodearrays=nodearrays)[
                "htc", "Standard_F4s"
            ]
        )
        == 2
    )
    nodearrays = {section: {"generated_placement_group_buffer": 0}}
    assert groups(an_htc_cluster(vm_size="Standard_F4s"), nodearrays=nodearrays)[
        "htc", "Standard_F4s"
    ] == [None]


def test_the_most_there_may_be():
    """Counts all groups of the nodearray."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    cluster.add_bucket("htc", "Standard_F8s", 10, 10, placement_groups=["a"])
    found = groups(cluster, nodearrays={"htc": {"max_placement_groups": 2}})
    assert sum(len(each) for each in found.values()) == 2 + 2  # two without a group, two groups


def test_sizes_that_cannot_be_colocated_have_none():
    """A nodearray says so."""
    cluster = an_htc_cluster(
        software_configuration={"autoscale": {"is_hpc": False}}, vm_size="Standard_F4s"
    )
    assert groups(cluster) == {("htc", "Standard_F4s"): [None]}


def test_a_buffer_that_is_no_number(driver):
    """Names the setting."""
    node_mgr = new_node_manager({"_mock_bindings": an_htc_cluster(vm_size="Standard_F4s")})
    nodearrays = {"htc": {"generated_placement_group_buffer": "many"}}
    with pytest.raises(ConfigurationException, match=r"htc\.generated_placement_group_buffer"):
        drivers.add_default_placement_groups({"nodearrays": nodearrays}, node_mgr)


def test_the_cyclecloud_id_is_a_resource():
    """Of nodes that exist."""
    cluster = an_htc_cluster(vm_size="Standard_F4s")
    node = cluster.add_node("htc-1", "htc")
    node_mgr = new_node_manager({"_mock_bindings": cluster, "disable_default_resources": True})
    drivers.add_ccnodeid_default_resource(node_mgr)
    (found,) = node_mgr.get_nodes()
    assert found.resources["ccnodeid"] == node.delayed_node_id.node_id
