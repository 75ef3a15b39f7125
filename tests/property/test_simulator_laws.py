"""Laws of the simulated CycleCloud, whatever is asked of it in whatever order.

No limit is ever exceeded, counts are those of the records, a request id acts once, the same calls
have the same effects, and no request, however strange, is answered with an error of the server's
own.
"""

import itertools
import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from werkzeug.test import Client

from hpc.autoscale.ccbindings import models
from hpc.autoscale.simulator.app import Application
from hpc.autoscale.simulator.clock import DrivenClock
from hpc.autoscale.simulator.cluster import Cloud
from hpc.autoscale.simulator.errors import Conflict, RequestRefused
from hpc.autoscale.simulator.loading import describe
from hpc.autoscale.simulator.runtime import Runtime
from hpc.autoscale.wsgi.basic import Login

F2, F4, E4 = "Standard_F2s_v2", "Standard_F4s_v2", "Standard_E4s_v5"
CORES = {F2: 2, F4: 4, E4: 4}
FAMILY = {F2: "F", F4: "F", E4: "E"}
GROUP_SIZE = 3
CAPACITY = {F2: 5}
QUOTA = {("west", "F"): 20, ("west", "E"): 1000, ("west", ""): 26, ("west", "spot"): 8}
MAX_NODES = {("c1", "htc"): 6, ("c1", "spot"): 100, ("c2", "htc"): 6, ("c2", "spot"): 100}
MAX_CLUSTER_NODES = 8
MAX_CLUSTER_CORES = 24


def description():
    """Two clusters that compete for the quotas of one region."""
    cluster = {
        "region": "westus2",
        "max_count": MAX_CLUSTER_NODES,
        "max_core_count": MAX_CLUSTER_CORES,
        "nodearrays": {
            "htc": {
                "machine_types": [F2, F4, E4],
                "max_count": 6,
                "max_core_count": 1000,
                "max_placement_group_size": GROUP_SIZE,
                "throttle_capacity": True,
                "throttle_capacity_time": 30,
            },
            "spot": {
                "machine_types": [F2],
                "spot": True,
                "max_count": 100,
                "max_placement_group_size": GROUP_SIZE,
                "lifecycle": {"time_to_eviction": 200},
            },
        },
    }
    return {
        "clusters": {"c1": cluster, "c2": cluster},
        "regions": {
            "westus2": {
                "quota": QUOTA["west", ""],
                "spot_quota": QUOTA["west", "spot"],
                "family_quotas": {"standardFSv2Family": QUOTA["west", "F"]},
                "capacity": CAPACITY,
            }
        },
        "lifecycle": {"jitter": 0.5, "boot_failure_rate": 0.1},
    }


def a_cloud(journal, seed=1):
    """A cloud of that description."""
    ids = (f"id-{number}" for number in itertools.count())
    return Cloud(describe(description()), 0.0, random.Random(seed), ids.__next__, journal.append)


CLUSTERS = st.sampled_from(["c1", "c2"])
ACTIONS = st.sampled_from(
    ["terminate", "remove", "deallocate", "shutdown", "start", "restart", "reimage"]
)
FILTERS = st.sampled_from(
    [
        'Template === "htc"',
        'Status === "Ready"',
        'Status === "Deallocated" || Status === "Off" || Status === "Terminated"',
        "KeepAlive =!= true",
        'MachineType === "Standard_F2s_v2"',
        "Name =!= undefined",
    ]
)
SETS = st.builds(
    lambda array, count, size, group, attributes: {
        "nodearray": array,
        "count": count,
        **({"definition": {"machineType": size}} if size and array == "htc" else {}),
        **({"placementGroupId": group} if group else {}),
        "nodeAttributes": attributes,
    },
    st.sampled_from(["htc", "spot"]),
    st.integers(1, 10),
    st.sampled_from([None, F2, F4, E4]),
    st.sampled_from([None, None, "pg0", "pg1"]),
    st.fixed_dictionaries(
        {},
        optional={
            "StartAutomatically": st.booleans(),
            "Fixed": st.booleans(),
            "KeepAlive": st.sampled_from([False, False, True]),
            "ShutdownPolicy": st.sampled_from(["terminate", "deallocate"]),
        },
    ),
)


class Anything(RuleBasedStateMachine):
    """Requests, accidents and the passing of time in any order."""

    def __init__(self):
        super().__init__()
        self.journal = []
        self.cloud = a_cloud(self.journal)
        self.used = []
        self.numbers = itertools.count()
        self.came_back = set()

    def request_id(self):
        """A new one."""
        return f"r{next(self.numbers)}"

    @rule(cluster=CLUSTERS, sets=st.lists(SETS, min_size=1, max_size=3))
    def create(self, cluster, sets):
        """Each set gets at most what it asked for, and says so when it is less."""
        request_id = self.request_id()
        request = {"sets": sets, "requestId": request_id}
        result = self.cloud.cluster(cluster).create(models.NodeCreationRequest.from_dict(request))
        self.used.append((cluster, request))
        for wanted, got in zip(sets, result.sets, strict=True):
            assert 0 <= got.added <= wanted["count"]
            assert (got.message is not None) == (got.added < wanted["count"])
        listed = self.cloud.cluster(cluster).node_list(None, request_id)
        assert len(listed.nodes) == sum(got.added for got in result.sets)

    @precondition(lambda self: self.used)
    @rule(data=st.data(), elsewhere=CLUSTERS)
    def create_again(self, data, elsewhere):
        """A request id acts once, whoever uses it."""
        _, request = data.draw(st.sampled_from(self.used))
        before = list(self.journal)
        with pytest.raises(Conflict):
            again = models.NodeCreationRequest.from_dict(request)
            self.cloud.cluster(elsewhere).create(again)
        assert self.journal == before

    @rule(cluster=CLUSTERS, action=ACTIONS, text=FILTERS)
    def manage(self, cluster, action, text):
        """Every node that is selected is answered for."""
        target = self.cloud.cluster(cluster)
        before = {node.node_id: node.phase.value for node in target.nodes()}
        request = models.NodeManagementRequest.from_dict({"filter": text})
        result = target.manage(action, request)
        assert {node.id for node in result.nodes} <= set(before)
        for node in result.nodes:
            assert (node.status == "OK") == (node.error is None)
            if action == "start" and node.status == "OK" and before[node.id] == "Deallocated":
                self.came_back.add(node.id)

    @rule(seconds=st.sampled_from([0, 1, 5, 20, 100]))
    def wait(self, seconds):
        """Time passes."""
        orchestrator = self.cloud.orchestrator
        orchestrator.advance(orchestrator.now + seconds)

    @rule(cluster=CLUSTERS)
    def retry(self, cluster):
        """Failed nodes try again."""
        self.cloud.cluster(cluster).retry_failed()

    @rule(cluster=CLUSTERS, total=st.integers(0, 12))
    def scale(self, cluster, total):
        """To a total of cores."""
        self.cloud.cluster(cluster).scale("htc", total, None)

    # ------------------------------------------------------------ what always holds

    def records(self):
        """All records of both clusters."""
        return [
            node
            for name in ("c1", "c2")
            for node in self.cloud.cluster(name).node_list(None, None).nodes
        ]

    @invariant()
    def quotas_hold(self):
        """Of every VM that is there or on its way up or down."""
        used = Counter()
        running = {n.node_id for n in self.cloud.orchestrator.nodes.values() if n.vm_running}
        for node in self.records():
            if node["TargetState"] == "Started" or node["NodeId"] in running:
                cores = CORES[node["MachineType"]]
                used["west", "spot" if node["Interruptible"] else ""] += cores
                if not node["Interruptible"]:
                    used["west", FAMILY[node["MachineType"]]] += cores
        assert all(cores <= QUOTA[scope] for scope, cores in used.items()), used

    @invariant()
    def limits_hold(self):
        """Of nodes that count; deallocated ones may come back beyond them."""
        arrays, clusters, cores, groups = Counter(), Counter(), Counter(), Counter()
        for node in self.records():
            if node["TargetState"] != "Started":
                continue
            where = (node["ClusterName"], node["Template"])
            if node.get("PlacementGroupId"):
                groups[(*where, node["MachineType"], node["PlacementGroupId"])] += 1
            if node["NodeId"] not in self.came_back:
                arrays[where] += 1
                clusters[where[0]] += 1
                cores[where[0]] += CORES[node["MachineType"]]
        assert all(count <= MAX_NODES[where] for where, count in arrays.items())
        assert all(count <= MAX_CLUSTER_NODES for count in clusters.values())
        assert all(count <= MAX_CLUSTER_CORES for count in cores.values())
        assert all(count <= GROUP_SIZE for count in groups.values())

    @invariant()
    def capacity_holds(self):
        """There are never more VMs than the region has."""
        running = [n for n in self.cloud.orchestrator.nodes.values() if n.vm_running]
        assert sum(node.machine_type.name == F2 for node in running) <= CAPACITY[F2]

    @invariant()
    def names_are_unique(self):
        """In a cluster, and node ids everywhere."""
        records = self.records()
        assert len({(n["ClusterName"], n["Name"].lower()) for n in records}) == len(records)
        assert len({n["NodeId"] for n in records}) == len(records)

    @invariant()
    def counts_are_those_of_the_records(self):
        """And what is available keeps within what is left of the bucket."""
        for name in ("c1", "c2"):
            status = self.cloud.cluster(name).status(True)
            for array in status.nodearrays:
                for bucket in array.buckets:
                    self.bucket_is_right(status, array, bucket)

    def bucket_is_right(self, status, array, bucket):
        """One bucket of one status."""
        size = bucket.definition.machine_type
        mine = [
            node
            for node in status.nodes
            if (node["Template"], node["MachineType"]) == (array.name, size)
            and node["TargetState"] == "Started"
        ]
        assert bucket.active_count == len(mine)
        assert bucket.active_core_count == len(mine) * CORES[size]
        assert bucket.active_nodes == [node["Name"] for node in mine]
        groups = Counter(n["PlacementGroupId"] for n in mine if n.get("PlacementGroupId"))
        shown = {group.name: group.active_count for group in bucket.placement_groups}
        assert {name: count for name, count in shown.items() if count} == dict(groups)
        assert 0 <= bucket.available_count <= max(0, bucket.max_count - bucket.active_count)
        assert bucket.available_core_count == bucket.available_count * CORES[size]
        left = bucket.quota_core_count - bucket.consumed_core_count
        assert bucket.available_core_count <= max(0, left)


TestAnything = Anything.TestCase

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), SETS),
        st.tuples(ACTIONS, FILTERS),
        st.tuples(st.just("wait"), st.integers(0, 100)),
    ),
    max_size=12,
)


def played(steps, seed, pieces=1):
    """The journal of these steps; each wait is cut into so many pieces."""
    journal = []
    cloud = a_cloud(journal, seed)
    cluster, orchestrator = cloud.cluster("c1"), cloud.orchestrator
    for what, detail in steps:
        if what == "create":
            cluster.create(models.NodeCreationRequest.from_dict({"sets": [detail]}))
        elif what == "wait":
            start = orchestrator.now
            for piece in range(1, pieces + 1):
                orchestrator.advance(start + detail * piece / pieces)
        else:
            cluster.manage(what, models.NodeManagementRequest.from_dict({"filter": detail}))
    return journal


@given(STEPS, st.integers(0, 100), st.integers(1, 5))
def test_the_same_seed_and_calls_give_the_same_journal(steps, seed, pieces):
    """However often somebody looked in between."""
    assert played(steps, seed) == played(steps, seed, pieces)


@given(STEPS, st.integers(0, 100))
def test_a_node_is_created_before_all_else_and_removed_last(steps, seed):
    """Nothing happens to a node without a record."""
    lives = {}
    for entry in played(steps, seed):
        if "node_id" in entry:
            lives.setdefault(entry["node_id"], []).append(entry["event"])
    for events in lives.values():
        assert events[0] == "created" and events.count("created") == 1
        assert "removed" not in events[:-1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KNOWN = [
    *[
        "nodearray",
        "count",
        "definition",
        "nameFormat",
        "nameOffset",
        "nodeAttributes",
        "placementGroupId",
    ],
    *["sets", "requestId", "names", "ids", "hostnames", "ip_addresses", "filter", "machineType"],
    *["StartAutomatically", "Fixed", "KeepAlive", "ShutdownPolicy", "Configuration"],
]
ALMOST = st.recursive(
    JSON | st.sampled_from(["htc", F2, "%d", 1, 2, -1, 10**40, [], {}, 'Name === "x"']),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(KNOWN), inner, max_size=4),
    max_leaves=10,
)
BODIES = st.dictionaries(st.sampled_from(KNOWN), ALMOST, max_size=4) | ALMOST


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """The application, without a socket."""
    runtime = Runtime(
        describe(description()), DrivenClock(), seed=1, work_dir=tmp_path_factory.mktemp("work")
    )
    yield Client(Application(runtime, Login("u", "p")))
    runtime.stop()


PATHS = [
    "/clusters/c1/nodes/create",
    "/clusters/c1/nodes/terminate",
    "/clusters/c1/nodes/start",
    "/simulator/clock",
    "/simulator/faults",
    "/simulator/clusters/c1/evict",
    "/simulator/clusters/c1/fail",
    "/simulator/clusters/c1/edit",
    "/simulator/regions/westus2/capacity",
]


@given(st.sampled_from(PATHS), BODIES)
def test_no_body_is_answered_with_a_server_error(web, path, body):
    """Accepted or refused with a Message, and always JSON; the cluster can be read afterwards."""
    response = web.post(path, data=json.dumps(body), auth=("u", "p"))
    assert response.status_code < 500, response.text
    assert response.status_code < 400 or response.json["Message"]
    web.delete("/simulator/faults", auth=("u", "p"))
    for read in ("/clusters/c1/status?nodes=true", "/clusters/c1/nodes", "/simulator/journal"):
        assert web.get(read, auth=("u", "p")).status_code == 200


@given(st.text(max_size=30))
def test_no_text_is_a_filter_that_breaks_anything(text):
    """It is refused, or it selects."""
    cloud = a_cloud([])
    request = models.NodeManagementRequest.from_dict({"filter": text})
    try:
        cloud.cluster("c1").manage("start", request)
    except RequestRefused as error:
        assert "\n" not in str(error)
