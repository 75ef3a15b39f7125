"""Several clusters as one binding: names, whom commands are for, and what is remembered of a
cluster that does not answer."""

import os
import sqlite3
import threading
from contextlib import closing

import pytest

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import learning
from hpc.autoscale.backoff.subjects import Reach, facts_of, read_subject, subject
from hpc.autoscale.ccbindings import models, new_cluster_bindings
from hpc.autoscale.ccbindings.errors import (
    ClusterAway,
    CycleCloudError,
    InvalidSelection,
    OperationNotFound,
)
from hpc.autoscale.ccbindings.lastseen import LastSeen, Look
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.ccbindings.several import Member, SeveralClusters
from hpc.autoscale.config.clusters import find_conflicts, members_of
from hpc.autoscale.config.secrets import exposed_passwords, of_its_own
from hpc.autoscale.errors import ConfigurationException, MultipleInstancesError
from hpc.autoscale.locks import clusters_of
from hpc.autoscale.node import operations
from hpc.autoscale.node.identity import Identities
from hpc.autoscale.node.requests import Made, RequestLog
from hpc.autoscale.sidebyside import side_by_side
from hpc.autoscale.testing import a_host, a_node
from hpc.autoscale.util import take_lock

SIZE = "Standard_F4s_v2"


class Recorder(MockClusterBinding):
    """A cluster in memory that notes its commands, and may not answer."""

    def __init__(self, name):
        super().__init__(name)
        self.add_nodearray("htc", {}, location="eastus")
        self.add_bucket("htc", SIZE, max_count=10, available_count=10)
        self.sent = []
        self.error = None

    def get_cluster_status(self, nodes=False):
        """The status, or the error."""
        if self.error:
            raise self.error
        return super().get_cluster_status(nodes)

    def shutdown_nodes(self, **selected):
        """Note it."""
        self.sent.append({key: value for key, value in selected.items() if value})
        return models.NodeManagementResult(
            operation_id="op", nodes=[models.NodeManagementResultNode(id="i", name="htc-1")]
        )


@pytest.fixture
def pair():
    """Two clusters of one node each: names and addresses are equal, host names differ."""
    found = {}
    for name in ("east", "west"):
        found[name] = Recorder(name)
        node = found[name].add_node("htc-1", "htc", hostname=f"host-{name}")
        node.delayed_node_id.node_id = "same-id"
        found[name].assign_ip(["htc-1"])
    return found


def several(pair, seen=None):
    """The binding of both, for one pass."""
    return SeveralClusters([Member(name, binding) for name, binding in pair.items()], seen)


def look(binding):
    """The clusters as a manager reads them, with nothing against what they list."""
    binding.get_cluster_status()
    return binding.as_read()


def test_nothing_of_two_clusters_has_one_name(pair):
    """Nodes, their ids, nodearrays and buckets."""
    binding = several(pair)
    status = binding.get_cluster_status()
    records = binding.get_nodes().nodes
    assert [array.name for array in status.nodearrays] == ["east/htc", "west/htc"]
    assert [r["Name"] for r in records] == ["east/htc-1", "west/htc-1"]
    assert [r["NodeId"] for r in records] == ["east/same-id", "west/same-id"]
    ids = [bucket.bucket_id for array in status.nodearrays for bucket in array.buckets]
    assert [each.split("/")[0] for each in ids] == ["east", "west"]
    assert status.max_count == 2 * pair["east"].max_count
    assert [array.name for array in pair["east"].get_cluster_status().nodearrays] == ["htc"]


SELECTIONS = [
    ({"names": ["west/htc-1"]}, {"names": ["htc-1"]}),
    ({"node_ids": ["west/same-id"]}, {"node_ids": ["same-id"]}),
    ({"hostnames": ["host-west"]}, {"hostnames": ["host-west"]}),
]


@pytest.mark.parametrize(("given", "sent"), SELECTIONS)
def test_commands_go_to_whom_they_belong(pair, given, sent):
    """By the names that it has itself."""
    result = several(pair).shutdown_nodes(**given)
    assert (pair["east"].sent, pair["west"].sent) == ([], [sent])
    assert (result.operation_id, result.nodes[0].name) == ("west/op", "west/htc-1")


def test_a_filter_is_for_all(pair):
    """Each cluster has its own nodes that it means."""
    several(pair).shutdown_nodes(custom_filter="true", request_id="r")
    assert pair["east"].sent == pair["west"].sent == [{"custom_filter": "true", "request_id": "r"}]


UNCLEAR = [
    ({"names": ["htc-1"]}, r"the cluster before the name, as in east/htc-1, found 'htc-1'"),
    ({"names": ["wst/htc-1"]}, r"found 'wst/htc-1'; did you mean 'west'"),
    ({"node_ids": ["same-id"]}, r"NodeId 'same-id', found east and west"),
    ({"ip_addresses": ["10.1.0.2"]}, r"PrivateIp '10.1.0.2', found east and west"),
    ({"hostnames": ["nobody"]}, r"Hostname 'nobody', found none of them"),
]


@pytest.mark.parametrize(("given", "said"), UNCLEAR)
def test_what_may_be_of_either_is_sent_to_none(pair, given, said):
    """And the message says of which it may be."""
    with pytest.raises(InvalidSelection, match=said):
        several(pair).shutdown_nodes(**given)
    assert pair["east"].sent == pair["west"].sent == []


def test_a_cluster_that_does_not_answer_is_shown_as_it_was(pair):
    """Its nodes in a state of their own, its buckets unusable; it is sent nothing."""
    seen = LastSeen()
    look(several(pair, seen))
    pair["west"].error = CycleCloudError("no answer")
    binding = several(pair, seen)
    status = binding.get_cluster_status()
    states = {r["Name"]: r["Status"] for r in binding.get_nodes().nodes}
    assert states == {"east/htc-1": "Started", "west/htc-1": "Unreachable"}
    assert [array.buckets[0].valid for array in status.nodearrays] == [True, False]
    assert status.problems == list(binding.away.values())
    assert (list(binding.away), binding.never_read) == (["west"], ())
    with pytest.raises(ClusterAway, match="cluster west is set aside"):
        binding.shutdown_nodes(names=["west/htc-1"])
    with pytest.raises(ClusterAway):
        binding.get_nodes(request_id="west/some-id")
    assert pair["west"].sent == []


def test_nobody_waits_for_a_cluster_for_longer_than_it_may_take(pair, monkeypatch):
    """However patient its own client is; the others are read."""
    never = threading.Event()
    monkeypatch.setattr(pair["west"], "get_cluster_status", lambda nodes: never.wait())
    binding = SeveralClusters(
        [Member("east", pair["east"]), Member("west", pair["west"], patience=0.01)]
    )
    assert len(binding.get_cluster_status().nodearrays) == 1
    assert "no answer within 0.01 seconds" in binding.away["west"]
    never.set()


def test_a_cluster_that_is_to_be_terminated_takes_no_work(pair):
    """The other does. Its buckets say why."""
    pair["west"].target_state = "Terminated"
    status = several(pair).get_cluster_status()
    usable, closed = (array.buckets[0] for array in status.nodearrays)
    assert (usable.valid, closed.valid) == (True, False)
    assert closed.invalid_reason == "the target state of cluster west is Terminated"
    assert (status.target_state, status.problems) == (
        "Started",
        ["cluster west: its target state is Terminated"],
    )


def test_a_driver_compares_no_hosts_with_nodes_that_nobody_knows(pair):
    """It would take the hosts of a cluster that was never read for lost."""

    class Driver:
        def validate_nodes(self, hosts, nodes):
            raise AssertionError("it was asked")

    class Manager:
        cluster_bindings = several(pair)

    pair["west"].error = CycleCloudError("no answer")
    Manager.cluster_bindings.get_cluster_status()
    assert Manager.cluster_bindings.never_read == ("west",)
    learning.validate(Driver(), [a_host("h")], Manager)


def test_what_a_cluster_had_outlives_the_process(tmp_path, pair):
    """In a file, without the configurations of nodes; for the same place only, and never as a
    guess."""
    path = str(tmp_path / "clusters.db")
    status = pair["west"].get_cluster_status()
    record = {"Name": "htc-1", "NodeId": "i", "Configuration": {"big": "x"}}
    LastSeen(path, read_only=True).keep("west", "c at a", Look(status, [record]))
    assert LastSeen(path).of("west", "c at a") is None
    LastSeen(path).keep("west", "c at a", Look(status, [record]))
    found = LastSeen(path).of("west", "c at a")
    assert found.records == [{"Name": "htc-1", "NodeId": "i"}]
    assert found.status.nodearrays[0].name == "htc"
    assert LastSeen(path).of("west", "c at b") is None
    (tmp_path / "clusters.db").write_text("no database")
    assert LastSeen(path).of("west", "c at a") is None


def test_what_was_made_since_is_remembered_beside_the_last_look(tmp_path, pair):
    """In rows of its own, so that many commands do not write down all nodes as often."""
    path = str(tmp_path / "clusters.db")
    status = pair["west"].get_cluster_status()
    old, new = ({"NodeId": each, "Name": f"htc-{each}"} for each in "12")
    seen = LastSeen(path)
    seen.keep("west", "c at a", Look(status, [old]))
    with closing(sqlite3.connect(path)) as db:
        before = db.execute("SELECT look FROM looks").fetchall()
        seen.note("west", "c at a", [new, {**old, "Name": "other"}])
        assert db.execute("SELECT look FROM looks").fetchall() == before
        for known in (seen, LastSeen(path)):
            names = [record["Name"] for record in known.of("west", "c at a").records]
            assert names == ["other", "htc-2"]
        seen.keep("west", "c at a", Look(status, [old]))
        assert db.execute("SELECT count(*) FROM later").fetchone() == (0,)
    LastSeen(path).note("east", "c at b", [new])  # of a cluster that nobody has seen
    assert LastSeen(path).of("east", "c at b") is None


def test_what_is_remembered_of_a_cluster_has_no_password(tmp_path, pair):
    """Of what its nodearrays are configured with; the rest is kept."""
    path = tmp_path / "clusters.db"
    status = pair["west"].get_cluster_status()
    configuration = {"site": {"password": "hunter2", "port": 22}}
    status.nodearrays[0].nodearray = {"Region": "eastus", "Configuration": configuration}
    LastSeen(str(path)).keep("west", "c at a", Look(status, []))
    assert b"hunter2" not in path.read_bytes()
    found = LastSeen(str(path)).of("west", "c at a").status.nodearrays[0].nodearray
    assert found["Configuration"] == {"site": {"password": "***", "port": 22}}
    assert configuration["site"]["password"] == "hunter2"


def test_all_are_asked_side_by_side():
    """Each call waits for all others here; an error is an answer like others."""
    everybody = threading.Barrier(8, timeout=60)

    def fail():
        everybody.wait()
        raise ValueError("no")

    calls = dict.fromkeys(range(7), everybody.wait)
    found = side_by_side({**calls, 7: fail})
    assert len({found[number] for number in range(7)}) == 7
    assert isinstance(found[7], ValueError)


def test_nobody_waits_for_one_that_hangs():
    """Longer than its deadline; the others' answers are there."""
    never = threading.Event()
    found = side_by_side({"west": never.wait, "east": lambda: 1}, {"west": 0.01, "east": 60.0})
    assert found["east"] == 1 and isinstance(found["west"], TimeoutError)
    never.set()


@pytest.mark.parametrize("knows_the_create", [True, False])
def test_a_listing_that_is_too_old_sets_one_cluster_aside(pair, monkeypatch, knows_the_create):
    """It lacks all nodes, also one that the server has made. What was there before is shown on, by
    later passes too, and the others' listings are believed."""
    seen, place = LastSeen(), ""
    look(several(pair, seen))
    made = {"Name": "htc-9", "NodeId": "new", "RequestId": "r", "TargetState": "Started"}
    seen.note("west", place, [made])

    def get_nodes(operation_id=None, request_id=None):
        if request_id and not knows_the_create:
            raise OperationNotFound("url", 404, "unknown")
        return models.NodeList(nodes=[made] if request_id else [])

    monkeypatch.setattr(pair["west"], "get_nodes", get_nodes)
    for _ in range(2):
        binding, log = several(pair, seen), RequestLog()
        before = [Made("west/r", binding.where, 1, frozenset(["west/new"]), clock.time())]
        binding.get_cluster_status()
        operations.check_made(binding, log, before, binding.get_nodes().nodes, within=60)
        assert (list(binding.away), binding.never_read) == (["west"], ())
        assert "cluster west: its node listing is no evidence" in binding.away["west"]
        status, listing = binding.as_read()
        states = {record["Name"]: record.get("Status") for record in listing.nodes}
        assert states["east/htc-1"] == "Started"
        assert states["west/htc-1"] == states["west/htc-9"] == "Unreachable"
        assert [array.buckets[0].valid for array in status.nodearrays] == [True, False]


def test_a_listing_that_is_too_old_is_no_knowledge(pair, monkeypatch):
    """Where it is the first that was read, nobody knows what the cluster has."""
    monkeypatch.setattr(pair["west"], "get_nodes", lambda **_: models.NodeList(nodes=[]))
    binding = several(pair)
    binding.get_cluster_status()
    binding.set_aside("west", CycleCloudError("it lacks a node"))
    assert binding.never_read == ("west",)
    assert [record["Name"] for record in binding.as_read()[1].nodes] == ["east/htc-1"]


def test_a_removal_that_fails_in_one_cluster_is_told_of_its_nodes(pair):
    """And is kept for the next pass; the others go."""
    binding, log = several(pair), RequestLog()
    nodes = []
    for name in pair:
        node = a_node(f"{name}/htc-1", nodearray=f"{name}/htc")
        node.delayed_node_id.node_id = f"{name}/i"
        nodes.append(node)

    def refuse(**selected):
        raise CycleCloudError("cut off")

    pair["west"].shutdown_nodes = refuse
    done = operations.manage(binding, "shutdown_nodes", nodes, requests=log)
    assert [node.name for node, _ in done.accepted] == ["east/htc-1"]
    assert done.reasons == ["1 node: cut off"]
    assert [removal.node_id for removal in log.removals] == ["west/i"]


def test_ids_of_requests_are_of_a_cluster():
    """One that never happened is used again there, and nowhere else."""
    numbers = iter("abcdef")
    log = RequestLog(new_id=lambda: next(numbers))
    assert log.begin(cluster="east") == "east/a"
    log.never_happened("east/a")
    assert log.begin(cluster="west") == "west/b"
    assert log.begin() == "c"
    assert log.begin(cluster="east") == "east/a"
    assert log.begin("mine", cluster="east") == "east/mine"


def a_known_node(name, hostname):
    """A node of a cluster, with an id that the other has, too."""
    node = a_node(name, hostname=hostname)
    node.delayed_node_id.node_id = f"{name.split('/')[0]}/id-1"
    return node


def test_a_machine_does_not_know_what_its_cluster_is_called():
    """The id that it has there is enough, unless two nodes have it and its name is of no help."""
    east, west = a_known_node("east/htc-1", "ip-1"), a_known_node("west/htc-1", "ip-2")
    alone = Identities([east])
    assert alone.find(a_host("other", ccnodeid="id-1")) is east
    assert alone.find(a_host("other", ccnodeid="east/id-1")) is east
    assert alone.might_be(a_host("ip-1", ccnodeid="id-2")) == []
    of_another_kind = a_host("ip-1", ccnodeid="another kind of id")
    assert alone.might_be(of_another_kind) == [east]
    assert Identities([east], ["west/another kind of id"]).might_be(of_another_kind) == []
    both = Identities([east, west])
    assert both.find(a_host("ip-2", ccnodeid="id-1")) is west
    assert both.find(a_host("ip-3", ccnodeid="id-1")) is None
    assert both.might_be(a_host("ip-3", ccnodeid="id-1")) == [east, west]
    same = Identities([east, a_known_node("west/htc-1", "ip-1")])
    assert same.find(a_host("ip-1")) is None


def test_what_failed_rests_in_its_own_cluster():
    """Capacity, quotas and subscriptions are each cluster's own say; keys are understood."""
    facts = facts_of(a_node("east/htc-1", nodearray="east/htc"))
    for reach in (Reach.OFFER, Reach.REGION, Reach.SUBSCRIPTION):
        about = subject(reach, facts)
        assert about != subject(reach, facts._replace(cluster="west"))
        assert read_subject(about.key) == about
        assert "east" in str(about)


ENTRY = {"name": "east", "cluster_name": "c", "url": "https://a/"}
CONFLICTS = [
    ({"clusters": []}, "one or more, found an empty one"),
    ({"clusters": [ENTRY], "cluster_name": "c"}, "no clusters, found both"),
    ({"clusters": [ENTRY, {**ENTRY, "url": "b", "name": "EAST"}]}, "'east' 2 times"),
    ({"clusters": [ENTRY, {**ENTRY, "url": "https://A", "name": "b"}]}, "c twice: east, b"),
    ({"clusters": [ENTRY, {**ENTRY, "url": "https://a:443", "name": "b"}]}, "c twice: east, b"),
]


@pytest.mark.parametrize(("config", "said"), CONFLICTS)
def test_clusters_that_contradict_each_other(config, said):
    """Nothing is connected to."""
    assert said in " ".join(find_conflicts(config))
    if config["clusters"]:
        with pytest.raises(ConfigurationException):
            new_cluster_bindings(config)


def test_an_entry_goes_before_what_is_said_for_all(tmp_path, monkeypatch):
    """And its own file goes before the user and the environment of all."""
    file = tmp_path / "west.json"
    file.write_text('{"username": "w", "password": "p"}')
    file.chmod(0o600)
    monkeypatch.setenv("CYCLECLOUD_PASSWORD", "of all")
    config = {
        "username": "u",
        "password": "q",
        "timeout": 7,
        "clusters": [ENTRY, {**ENTRY, "name": "west", "credentials_file": str(file), "timeout": 3}],
    }
    (_, east), (_, west) = members_of(config)
    assert (east["username"], east["timeout"], "clusters" in east) == ("u", 7, False)
    own = of_its_own(west)
    assert (own["username"], own["password"], own["timeout"]) == ("w", "p", 3)


def test_a_password_in_a_list_is_one(tmp_path):
    """A file that everybody can read is told of."""
    path = tmp_path / "autoscale.json"
    path.write_text('{"clusters": [{"name": "a", "cluster_name": "c", "password": "p"}]}')
    path.chmod(0o644)
    assert len(exposed_passwords(path)) == 1


def test_one_lock_for_each_cluster_of_each_server(tmp_path):
    """Who has one of them in common waits, and takes none."""
    url = f"https://test-{os.getpid()}.example"
    entries = [{"name": n, "cluster_name": f"{tmp_path}{n}", "url": url} for n in "abc"]
    assert len(clusters_of({"clusters": entries})) == 3
    first = take_lock(str(tmp_path / "1"), {"clusters": entries[:2]})
    with pytest.raises(MultipleInstancesError, match=f"cluster {tmp_path}b"):
        take_lock(str(tmp_path / "2"), {"clusters": entries[1:]})
    alone = take_lock(str(tmp_path / "3"), entries[2])
    first.unlock()
    alone.unlock()
    take_lock(str(tmp_path / "2"), {"clusters": entries}).unlock()
