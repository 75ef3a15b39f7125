"""Creating nodes, and what is learned from the server's answer, or from its silence."""

import pytest

from builders.nodes import a_manager, an_htc_cluster, names
from builders.replies import a_record
from hpc.autoscale import clock
from hpc.autoscale.ccbindings.errors import (
    BadRequest,
    CycleCloudUnreachable,
    InconsistentStatus,
    OperationNotFound,
)
from hpc.autoscale.ccbindings.models import (
    NodeCreationResult,
    NodeCreationResultSet,
    NodeList,
    OperationStatus,
)
from hpc.autoscale.node import operations
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.testing import a_config


class Server:
    """Stands between a manager and a mock cluster: a server that names nodes as it likes, makes
    more or fewer of them than it is asked for, and may lose replies or forget to list nodes.
    `asked` has the calls that changed something. While it is behind, its listing is that of before
    any create; while it forgets, so is what it knows of creates.
    """

    def __init__(self, cluster, makes=None, name="srv-{}", lists=None, **lost):
        self.cluster = cluster
        self.makes = makes
        self.name = name
        self.lists = lists
        self.lost = dict(lost)
        self.asked = []
        self.operations = {}
        self.made = 0
        self.is_behind = False
        self.forgets = False

    def __getattr__(self, name):
        return getattr(self.cluster, name)

    def _fail(self, what):
        if self.lost.get(what, 0) > 0:
            self.lost[what] -= 1
            raise CycleCloudUnreachable("http://server", "no reply", sent=True)

    def create_nodes(self, nodes, request_id=None):
        self.asked.append(("create", names(nodes), request_id))
        self._fail("create_before")
        if request_id not in self.operations:
            count = len(nodes) if self.makes is None else self.makes
            template = list(nodes) + [nodes[-1]] * count
            self.operations[request_id] = [self._record(node) for node in template[:count]]
        self._fail("create")
        added = len(self.operations[request_id])
        message = None if added == len(nodes) else "quota"
        result_set = NodeCreationResultSet(added=added, message=message)
        return NodeCreationResult(operation_id=request_id, sets=[result_set])

    def _record(self, node):
        self.made += 1
        name = self.name.format(self.made)
        record = a_record(name, Template=node.nodearray, MachineType=node.vm_size, Status="Off")
        return {
            **record,
            "PlacementGroupId": node.placement_group,
            "Hostname": None,
            "PrivateIp": None,
        }

    def get_nodes(self, operation_id=None, request_id=None):
        if operation_id is None and request_id is None:
            made = [record for nodes in self.operations.values() for record in nodes]
            made = [] if self.is_behind else made
            return NodeList(nodes=[*self.cluster.get_nodes().nodes, *made])
        self._fail("list")
        found = self.operations.get(operation_id or request_id)
        if found is None or self.forgets:
            raise OperationNotFound("http://server", 404, "No operation found for request id x")
        return NodeList(nodes=found[: self.lists], operation=OperationStatus(action="create"))


def planned(count=3, server=None, slots=None, **lost):
    """A manager with planned nodes, and its server."""
    server = server or Server(an_htc_cluster(20), **lost)
    manager = new_node_manager(a_config(server))
    manager.allocate({"ncpus": 4}, slot_count=slots or count, assignment_id="job")
    return manager, server


def left(manager):
    """How many nodes its bucket has room for."""
    return manager.get_buckets()[0].available_count


# -- bootup


def test_nothing_to_boot():
    """A success without nodes; the server is not asked."""
    manager, server = planned(0)
    for nodes in (None, []):
        result = manager.bootup(nodes)
        assert (bool(result), result.operation_id, result.nodes) == (True, "", None)
        assert result.reasons == ["No new nodes required or created."]
    assert server.asked == []


def test_planned_nodes_become_what_the_server_made():
    """Its names win; ids, states and places in the request are noted; they are new no more."""
    manager, server = planned(3, name="htc-{}0")
    before = manager.get_new_nodes()
    result = manager.bootup()
    assert (bool(result), names(result.nodes)) == (True, ["htc-10", "htc-20", "htc-30"])
    assert result.nodes == before
    assert [n.delayed_node_id.node_id for n in before] == ["id-htc-10", "id-htc-20", "id-htc-30"]
    assert [n.delayed_node_id.operation_offset for n in before] == [0, 1, 2]
    assert {n.delayed_node_id.operation_id for n in before} == {result.operation_id}
    assert [(n.state, n.target_state, n.exists) for n in before] == [("Off", "Started", True)] * 3
    assert (manager.new_nodes, left(manager)) == ([], 17)
    assert result.request_ids == [server.asked[0][2]]


def test_a_reply_without_an_operation_id_is_known_by_its_request_id(monkeypatch):
    """Nothing is asked about an operation without a name, and what was made is taken over."""
    manager, server = planned(3)
    make, asked, listed = server.create_nodes, [], server.get_nodes

    def create_nodes(*args, **kwargs):
        return NodeCreationResult(operation_id="", sets=make(*args, **kwargs).sets)

    def get_nodes(operation_id=None, request_id=None):
        asked.append((operation_id, request_id))
        return listed(operation_id, request_id)

    monkeypatch.setattr(server, "create_nodes", create_nodes)
    monkeypatch.setattr(server, "get_nodes", get_nodes)
    result = manager.bootup()
    assert bool(result) and len(result.nodes) == 3
    assert asked == [(None, server.asked[0][2])] and result.operation_id == server.asked[0][2]


def test_a_node_without_a_name_is_no_answer(monkeypatch):
    """The create stays in doubt, and is asked about again."""
    manager, server = planned(3)
    listed = server.get_nodes

    def get_nodes(operation_id=None, request_id=None):
        found = listed(operation_id, request_id)
        found.nodes = [{k: v for k, v in each.items() if k != "Name"} for each in found.nodes]
        return found

    monkeypatch.setattr(server, "get_nodes", get_nodes)
    with pytest.raises(InconsistentStatus, match="lists a node without a Name"):
        manager.bootup()
    monkeypatch.undo()
    assert len(manager.bootup().nodes) == 3 and len(server.asked) == 1


def test_a_second_bootup_creates_nothing():
    """W16: neither without nodes nor with the same ones."""
    manager, server = planned(3)
    nodes = manager.get_new_nodes()
    manager.bootup()
    for again in (None, nodes, []):
        assert manager.bootup(again).nodes is None
    assert len(server.asked) == 1


def test_the_same_on_the_mock_cluster():
    """Which refuses to create a node twice, and names nodes as they were planned."""
    cluster = an_htc_cluster()
    manager = a_manager(cluster)
    manager.allocate({"ncpus": 4}, slot_count=2)
    assert names(manager.bootup().nodes) == ["htc-1", "htc-2"]
    assert manager.bootup().nodes is None
    assert names(a_manager(cluster).get_nodes()) == ["htc-1", "htc-2"]


def test_only_the_nodes_given():
    """The others stay planned."""
    manager, _ = planned(3)
    manager.bootup(manager.get_new_nodes()[1:2])
    assert names(manager.new_nodes) == ["htc-1", "htc-3"]


def test_what_names_a_node_follows_its_identity():
    """Its id, and a default made of its name or host name, are those of the node that came to
    be."""
    manager, _ = planned(2, name="htc-{}0")
    manager.add_default_resource({}, "who", "node.name")
    manager.add_default_resource({}, "host", lambda node: node.hostname)
    manager.add_default_resource({}, "cores", lambda node: node.vcpu_count)
    nodes = manager.bootup().nodes
    assert [n.resources["ccnodeid"] for n in nodes] == ["id-htc-10", "id-htc-20"]
    assert [n.available["who"] for n in nodes] == ["htc-10", "htc-20"]
    assert [(n.hostname, n.resources["host"], n.resources["cores"]) for n in nodes] == [
        (None, None, 4)
    ] * 2


def test_what_was_used_of_a_default_stays_used():
    """Working it out anew gives nothing back."""
    manager, _ = planned(0)
    manager.add_default_resource({}, "tokens", lambda node: 3)
    manager.allocate({"tokens": 2}, slot_count=1)
    (node,) = manager.bootup().nodes
    assert (node.resources["tokens"], node.available["tokens"]) == (3, 1)


def test_no_two_nodes_have_one_name():
    """Where the server gives names of nodes that it does not make to others, these have the names
    that the others give up."""
    manager, server = planned(5, makes=3, name="htc-{}")
    server.made = 2
    nodes = manager.get_new_nodes()
    assert names(manager.bootup().nodes) == ["htc-4", "htc-5", "htc-3"]
    assert names(nodes) == ["htc-4", "htc-5", "htc-3", "htc-1", "htc-2"]


def test_fewer_than_asked():
    """The nodes that were planned first come to be; the rest is given up with the server's message,
    and their places and jobs' nodes with them."""
    manager, server = planned(5, makes=2)
    nodes = manager.get_new_nodes()
    result = manager.bootup()
    assert (bool(result), names(result.nodes)) == (True, ["srv-1", "srv-2"])
    assert result.nodes == nodes[:2]
    assert "3 of the nodes asked for were not created" in result.reasons[0]
    assert "quota" in result.reasons[0]
    assert (manager.new_nodes, manager.get_nodes()) == ([], nodes[:2])
    assert left(manager) == 18
    assert [node.exists for node in nodes] == [True, True, False, False, False]
    assert names(manager.allocate({"ncpus": 1}, slot_count=1).nodes) == ["htc-6"]
    assert len(server.asked) == 1


def test_none_of_them():
    """Is a failure with a reason."""
    manager, _ = planned(2, makes=0)
    result = manager.bootup()
    assert (result.status, result.nodes) == ("Failed", [])
    assert "quota" in result.message or "quota" in str(result.reasons)
    assert (manager.get_nodes(), left(manager)) == ([], 20)


def test_more_than_asked():
    """They exist, so they count."""
    manager, _ = planned(2, makes=4)
    result = manager.bootup()
    assert names(result.nodes) == ["srv-1", "srv-2", "srv-3", "srv-4"]
    assert names(manager.get_nodes()) == ["srv-1", "srv-2", "srv-3", "srv-4"]
    extra = manager.get_nodes()[3]
    assert (extra.exists, extra.required, extra.resources["ncpus"]) == (True, False, 4)
    assert extra.resources["ccnodeid"] == "id-srv-4"
    assert left(manager) == 16


def test_nodes_that_are_made_and_not_listed_yet():
    """They are no reason to give up, nor to create them again."""
    manager, server = planned(3, lists=1)
    result = manager.bootup()
    assert (bool(result), names(result.nodes)) == (True, ["srv-1"])
    assert any(r.endswith(": 2 nodes accepted and not listed yet") for r in result.reasons)
    assert (manager.new_nodes, len(manager.get_nodes()), left(manager)) == ([], 3, 17)
    manager.bootup()
    assert len(server.asked) == 1


def test_no_node_is_planned_under_a_name_that_the_server_gave():
    """Else two nodes would have it."""
    manager, _ = planned(3, Server(an_htc_cluster(20), name="htc-1{}"))
    assert names(manager.bootup().nodes) == ["htc-11", "htc-12", "htc-13"]
    manager.allocate({"ncpus": 4}, slot_count=14)
    assert len(set(names(manager.get_nodes()))) == 17


def test_request_ids_are_those_given():
    """One for starting and one for creating."""
    cluster = an_htc_cluster()
    cluster.add_node("htc-1", "htc", state="Deallocated", hostname="ip-1")
    manager = a_manager(cluster)
    manager.allocate({"ncpus": 4}, slot_count=2)
    result = manager.bootup(request_id_start="start-1", request_id_create="create-1")
    assert (names(result.nodes), result.request_ids) == (
        ["htc-1", "htc-2"],
        ["start-1", "create-1"],
    )
    assert result.operation_id.count(",") == 1
    assert [(n.state, n.exists) for n in result.nodes] == [("Acquiring", True), ("Off", True)]
    assert names(manager.get_nodes_by_request_id("start-1")) == ["htc-1"]
    assert names(manager.get_nodes_by_request_id("create-1")) == ["htc-2"]
    with pytest.raises(OperationNotFound, match="No operation found for request id"):
        manager.get_nodes_by_request_id("never")


# -- replies that are lost


def test_a_lost_reply_is_asked_about_before_anything_is_created_again():
    """The second bootup adopts what the first one made."""
    manager, server = planned(3, create=1)
    with pytest.raises(CycleCloudUnreachable):
        manager.bootup()
    assert len(manager.new_nodes) == 3
    result = manager.bootup()
    assert (bool(result), names(result.nodes)) == (True, ["srv-1", "srv-2", "srv-3"])
    assert (len(server.asked), manager.new_nodes, left(manager)) == (1, [], 17)


def test_a_request_that_never_arrived_is_sent_again_under_its_id():
    """And creates once."""
    manager, server = planned(3, create_before=1)
    with pytest.raises(CycleCloudUnreachable):
        manager.bootup()
    assert len(manager.bootup().nodes) == 3
    assert server.asked[0] == server.asked[1]
    assert (len(server.operations), server.made) == (1, 3)


def test_nodes_that_cannot_be_read_after_the_create():
    """They are adopted by the next bootup; none is made twice."""
    manager, server = planned(3, list=1)
    with pytest.raises(CycleCloudUnreachable):
        manager.bootup()
    assert len(manager.bootup().nodes) == 3
    assert server.made == 3


def test_while_the_server_does_not_answer_nothing_is_created():
    """Asking fails, and so does the bootup."""
    manager, server = planned(3, create=1, list=2)
    for _ in range(3):
        with pytest.raises(CycleCloudUnreachable):
            manager.bootup()
    assert (len(server.asked), len(manager.bootup().nodes)) == (1, 3)


def test_the_id_survives_the_process(tmp_path):
    """A later manager asks the server first; what never happened is used again, what happened is
    settled."""
    config = {"requests_file": str(tmp_path / "requests.json")}
    server = Server(an_htc_cluster(20), create_before=1)
    manager = new_node_manager(a_config(server, **config))
    manager.allocate({"ncpus": 4}, slot_count=2)
    with pytest.raises(CycleCloudUnreachable):
        manager.bootup()
    lost = server.asked[0][2]
    assert RequestLog(config["requests_file"]).unsettled == [lost]
    later = new_node_manager(a_config(server, **config))
    later.allocate({"ncpus": 4}, slot_count=5)
    later.bootup()
    assert server.asked[1][2] == lost
    assert RequestLog(config["requests_file"]).unsettled == []


def test_an_id_that_was_carried_out_is_settled_at_the_start(tmp_path):
    """The next create has an id of its own."""
    config = {"requests_file": str(tmp_path / "requests.json")}
    server = Server(an_htc_cluster(20), create=1)
    manager = new_node_manager(a_config(server, **config))
    manager.allocate({"ncpus": 4}, slot_count=2)
    with pytest.raises(CycleCloudUnreachable):
        manager.bootup()
    assert operations.settle_lost_creates(server, RequestLog(config["requests_file"])) == [
        server.asked[0][2]
    ]
    later = new_node_manager(a_config(server, **config))
    later.allocate({"ncpus": 4}, slot_count=4)
    later.bootup()
    assert server.asked[0][2] != server.asked[1][2]
    assert server.made == 4


def test_a_manager_that_is_read_only_leaves_lost_creates_to_others(tmp_path):
    """It knows nothing of them, and they stay in doubt."""
    path = str(tmp_path / "requests.json")
    RequestLog(path).begin("lost")
    manager = new_node_manager(a_config(an_htc_cluster(), requests_file=path, read_only=True))
    assert manager.requests.unsettled == []
    assert RequestLog(path).unsettled == ["lost"]


def test_a_bootup_that_is_refused_says_what_the_server_said():
    """As it is, where no failures are learnt of."""
    manager, server = planned(2)

    def refuse(*_, **__):
        raise BadRequest("server", 400, "no such image")

    server.create_nodes = refuse
    with pytest.raises(BadRequest, match="no such image"):
        manager.bootup()


def test_only_an_old_id_that_never_arrived_is_warned_of(caplog):
    """It is no error that one of just now did not, and both are used again."""
    clock.use_mock_clock()
    server, requests = Server(an_htc_cluster()), RequestLog()
    requests.begin("lost")
    assert operations.settle_lost_creates(server, requests) == []
    assert "never reached the server" not in caplog.text
    requests.begin("lost")
    clock.use_clock(clock.MockClock(clock.time() + 3601))
    assert operations.settle_lost_creates(server, requests) == []
    assert "1 old request id" in caplog.text
    assert requests.begin() == "lost"


def test_an_explicit_id_is_sent_again_as_it_is():
    """Never replaced, and carried out once."""
    manager, server = planned(2, create_before=1)
    with pytest.raises(CycleCloudUnreachable):
        manager.bootup(request_id_create="mine")
    manager.bootup(request_id_create="mine")
    assert [call[2] for call in server.asked] == ["mine", "mine"]


@pytest.mark.parametrize("listed", [[], ["htc-1", "htc-2"]])
def test_an_answer_about_something_else_settles_nothing(listed):
    """The id stays unsettled, and the pass ends in an error that says what came."""
    server = an_htc_cluster(20)
    server.get_nodes = lambda **query: NodeList(nodes=[a_record(name) for name in listed])
    requests = RequestLog()
    requests.begin("lost")
    with pytest.raises(InconsistentStatus, match=f"request id lost lists {len(listed)} nodes"):
        operations.settle_lost_creates(server, requests)
    assert requests.unsettled == ["lost"]


# -- what was made is held against later listings


@pytest.fixture
def made(tmp_path):
    """A server that has made three nodes and may be behind, and the configuration."""
    server = Server(an_htc_cluster(20))
    config = a_config(server, requests_file=str(tmp_path / "requests.db"))
    manager = new_node_manager(config)
    manager.allocate({"ncpus": 4}, slot_count=3)
    assert manager.bootup()
    server.is_behind = True
    return server, config


@pytest.mark.parametrize("forgets", [False, True])
def test_a_listing_without_what_was_made_just_now_is_no_evidence(made, forgets):
    """Also when the server is so far behind that it does not know of the create."""
    server, config = made
    server.forgets = forgets
    with pytest.raises(InconsistentStatus, match="the nodes reply lacks 3 nodes of request id"):
        new_node_manager(config)
    server.is_behind = server.forgets = False
    assert len(new_node_manager(config).get_nodes()) == 3
    assert server.made == 3


def test_nothing_is_asked_about_a_create_of_which_all_is_listed(made):
    """Else each pass of an hour would cost a request for each create."""
    server, config = made
    for request_id, records in server.operations.items():
        server.operations[request_id] = [{**each, "RequestId": request_id} for each in records]
    server.is_behind, server.lost = False, {"list": 1}
    assert len(new_node_manager(config).get_nodes()) == 3
    assert server.lost == {"list": 1}


def test_nodes_that_the_server_says_are_gone_are_not_waited_for(made):
    """It is asked once; what is left of them is waited for."""
    server, config = made
    (request_id,) = server.operations
    server.operations[request_id] = [
        {**record, "TargetState": "Terminated"} for record in server.operations[request_id]
    ]
    assert new_node_manager(config).get_nodes() == []
    assert RequestLog(config["requests_file"]).made == []


def test_part_of_what_was_made_is_gone(made):
    """The others are missed on."""
    server, config = made
    (request_id,) = server.operations
    server.operations[request_id] = server.operations[request_id][:2]
    server.is_behind = False
    assert len(new_node_manager(config).get_nodes()) == 2
    server.is_behind = True
    with pytest.raises(InconsistentStatus, match="lacks 2 nodes"):
        new_node_manager(config)


def test_a_node_that_was_promised_and_not_listed_is_looked_for(tmp_path):
    """Until the server lists it, or lists the create without it."""
    server = Server(an_htc_cluster(20), lists=1)
    config = a_config(server, requests_file=str(tmp_path / "requests.db"))
    manager = new_node_manager(config)
    manager.allocate({"ncpus": 4}, slot_count=3)
    assert manager.bootup()
    server.lists = None
    server.is_behind = True
    with pytest.raises(InconsistentStatus, match="lacks 3 nodes"):
        new_node_manager(config)


@pytest.mark.parametrize(("forgets", "after"), [(True, 1801), (False, 3601)])
def test_after_a_time_the_listing_counts(made, forgets, after):
    """Nobody waits for ever for what a server has lost: for the boot timeout where it does not know
    of the create, for an hour where it does."""
    server, config = made
    server.forgets = forgets
    clock.use_clock(clock.MockClock(clock.time() + after - 2))
    with pytest.raises(InconsistentStatus, match="lacks 3 nodes"):
        new_node_manager(config)
    clock.use_clock(clock.MockClock(clock.time() + 2))
    assert new_node_manager(config).get_nodes() == []


def test_what_was_made_elsewhere_is_not_missed(made):
    """Two clusters may have one file."""
    _, config = made
    log = RequestLog(config["requests_file"])
    for each in log.made:
        log.note_made(each._replace(where="cluster other at http://elsewhere"))
    assert new_node_manager(config).get_nodes() == []


def test_what_another_mock_of_the_name_made_is_not_missed(tmp_path):
    """Tests of an integration begin each with a mock of its own, and may share the files."""
    for _ in range(2):
        config = a_config(an_htc_cluster(20), requests_file=str(tmp_path / "requests.db"))
        manager = new_node_manager(config)
        assert manager.get_nodes() == []
        manager.allocate({"ncpus": 4}, slot_count=3)
        assert manager.bootup()
        assert len(new_node_manager(config).get_nodes()) == 3
