"""Nodes that ask over HTTP whether they may stop, and the service that decides."""

import json
import logging
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from builders.autostop_site import ACCESS, Callback, an_autostop_site
from hpc.autoscale import cli
from hpc.autoscale.node.requests import RequestLog

EXECUTE_30 = {"Name": "execute", "TargetCount": 30}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A simulated cluster, and the configuration of the service."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    with an_autostop_site(tmp_path) as made:
        yield made


@pytest.fixture
def callback(site):
    """The service of the site."""
    with site.serving() as served:
        yield served


def statuses(replies):
    """How often each status was answered."""
    return Counter(reply.status for reply in replies)


# -- not all at once


def test_twenty_of_fifty(site, callback):
    """50 idle nodes ask at once while 30 are wanted: 20 may, and only those are gone."""
    instances = site.start("execute", 50)
    site.want(EXECUTE_30)
    replies = callback.ask_all(instances, at_once=50)
    assert statuses(replies) == {200: 20, 409: 30}
    left = set(site.instances("execute"))
    told_no = {i for i, reply in zip(instances, replies, strict=True) if reply.status == 409}
    assert left == told_no
    assert statuses(callback.ask_all(sorted(left))) == {409: 30}


def test_any_node_may_be_the_one(site, callback):
    """Nodes take each other's place: whoever asks first may stop, also one that demand is on."""
    instances = site.start("execute", 50)
    site.want(EXECUTE_30)
    for few in (instances[:10], instances[-10:]):
        assert statuses(callback.ask_all(few)) == {200: 10}
    assert statuses(callback.ask_all(instances[10:40])) == {409: 30}


@pytest.fixture
def processes(site):
    """Two service processes with one file."""
    command = [sys.executable, "-m", "hpc.autoscale.cli", "serve-autostop", "--port", "0"]
    started = [
        subprocess.Popen([*command, "-c", str(site.path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    yield [Callback(one.stdout.readline().strip(), ACCESS) for one in started]
    for one in started:
        one.send_signal(signal.SIGTERM)
    assert [one.wait(30) for one in started] == [0, 0]
    for one in started:
        one.stdout.close()


def test_two_processes(site, request):
    """That share the file never give away the same surplus, in whatever order they are asked."""
    site.configure(terminate=False)
    instances = site.start("execute", 50)
    site.clock.now = time.time()
    site.want(EXECUTE_30)
    one, other = request.getfixturevalue("processes")
    with ThreadPoolExecutor(16) as pool:
        halves = zip(instances, [one, other] * 25, strict=True)
        replies = list(pool.map(lambda each: each[1].ask(each[0]), halves))
    assert statuses(replies) == {200: 20, 409: 30}
    for callback in (one, other):
        assert [reply.status for reply in callback.ask_all(instances)] == [
            r.status for r in replies
        ]
    assert len(site.instances("execute")) == 50


def test_the_loop_and_the_service(site, callback):
    """Count together: what the service has given away, a pass does not delete once more."""
    site.write({**site.config, "idle_timeout": 0})
    instances = site.start("execute", 50)
    site.want({"Name": "execute", "TargetCount": 50})
    site.autoscale()
    site.configure(terminate=False)
    with site.serving() as leaves_it_to_nodes:
        site.want(EXECUTE_30)
        assert statuses(leaves_it_to_nodes.ask_all(instances[:15])) == {200: 15}
    site.write({**site.config, "idle_timeout": 0})
    for _ in range(2):  # a node that is idle in one pass only stays
        site.later(1)
        site.autoscale()
    left = set(site.instances("execute")) - {*instances[:15]}
    assert len(left) == 30
    assert statuses(callback.ask_all(sorted(left))) == {409: 30}


# -- a yes


def test_asking_again(site, callback):
    """Gives the same answer, also when the node is on its way out and when demand has grown."""
    instances = site.start("execute", 3)
    site.want({"Name": "execute", "TargetCount": 2})
    first = callback.ask(instances[1])
    site.want(EXECUTE_30)
    again = callback.ask(instances[1], verb="GET")
    assert (first.status, again.status, again.code) == (200, 200, "may_stop")
    assert callback.ask(instances[0]).status == 409


def test_a_yes_stands_for_ten_minutes(site):
    """A node that was told yes and does not go counts as going until then, and not after."""
    site.configure(terminate=False)
    one, other = site.start("execute", 2)
    with site.serving() as callback:
        for seconds, answers in ((0, (200, 409)), (599, (200, 409)), (1, (409, 200))):
            site.later(seconds)
            site.want({"Name": "execute", "TargetCount": 1})
            asking = (one, other) if answers[0] == 200 else (other, one)
            found = {each: callback.ask(each).status for each in asking}
            assert (found[one], found[other]) == answers


def test_a_yes_outlives_the_service(site):
    """It is on disk: a service that was ended and started again gives nothing away twice."""
    site.configure(terminate=False)
    instances = site.start("execute", 5)
    site.want({"Name": "execute", "TargetCount": 3})
    with site.serving() as callback:
        assert statuses(callback.ask_all(instances[:2])) == {200: 2}
    with site.serving() as callback:
        assert statuses(callback.ask_all(instances[2:])) == {409: 3}
        assert statuses(callback.ask_all(instances[:2])) == {200: 2}


def test_a_lapsed_wish_keeps_nobody(site, callback):
    """After five minutes of silence all may stop, and not before."""
    instances = site.start("execute", 2)
    site.want({"Name": "execute", "TargetCount": 2})
    site.later(299)
    assert callback.ask(instances[0]).code == "wanted"
    site.later(1)
    assert statuses(callback.ask_all(instances)) == {200: 2}


def test_a_stop_that_fails(site, callback):
    """Is told as such; asking again tries again, and gives nothing else away."""
    instances = site.start("execute", 2)
    site.want({"Name": "execute", "TargetCount": 1})
    site.simulator.faults.add("status", endpoint="shutdown_nodes", status=500, times=1)
    assert callback.ask(instances[0]).code == "stop_failed"
    assert callback.ask(instances[1]).code == "wanted"
    assert callback.ask(instances[0]).code == "may_stop"
    assert site.instances("execute") == [instances[1]]


def test_a_node_that_is_being_evicted(site, callback):
    """Takes no demand, so it lets nobody stop in its place."""
    instances = site.start("spot", 3)
    site.want({"Name": "spot", "TargetCount": 2})
    site.cluster.evict("spot-1")
    assert [callback.ask(each).code for each in instances[1:]] == ["wanted"] * 2
    site.want({"Name": "spot", "TargetCount": 1})
    assert [callback.ask(each).code for each in instances[1:]] == ["may_stop", "wanted"]


def test_a_stop_that_failed_until_demand_grew(site, callback):
    """Is taken back: nobody was told yes, so demand keeps the node."""
    instances = site.start("execute", 4)
    site.want({"Name": "execute", "TargetCount": 0})
    site.simulator.faults.add("status", endpoint="shutdown_nodes", status=403)
    assert {reply.code for reply in callback.ask_all(instances)} == {"stop_failed"}
    site.simulator.faults.clear()
    site.want({"Name": "execute", "TargetCount": 3})
    assert [callback.ask(each).code for each in instances] == [*["wanted"] * 3, "may_stop"]
    assert site.instances("execute") == instances[:3]


@pytest.mark.parametrize("kept", [{}, {"requests_file": "elsewhere.db"}])
def test_a_stop_of_which_nobody_knows_whether_it_happens(site, kept):
    """Is written down where the loop finds it: while the request may still arrive the node gets no
    work and another one is made for it, and the node is told yes again when it asks again."""
    kept = {key: str(site.home / name) for key, name in kept.items()}
    site.write({**site.config, **kept})
    (instance,) = site.start("execute", 1)
    site.want({"Name": "execute", "TargetCount": 0})
    with site.serving() as callback:
        site.simulator.faults.add("no_reply", endpoint="shutdown_nodes", times=1)
        assert callback.ask(instance).code == "stop_failed"
        log = RequestLog(kept.get("requests_file", site.home / "requests.db"))
        assert [removal.name for removal in log.removals] == ["execute-1"]
        site.want({"Name": "execute", "TargetCount": 1})
        site.autoscale()
        assert [node["Name"] for node in site.running("execute")] == ["execute-1", "execute-2"]
        assert callback.ask(instance).code == "may_stop"
    assert [node["Name"] for node in site.running("execute")] == ["execute-2"]
    assert log.removals == []


def test_limits_on_how_many_go_at_once(site):
    """Hold as for the loop; the others are told to ask again, and then go."""
    site.write({**site.config, "autoscale": {"max_deletes_per_pass": 1}})
    instances = site.start("execute", 6)
    site.want({"Name": "execute", "TargetCount": 2})
    seen = Counter()
    with site.serving() as callback:
        for _ in range(4):
            seen += Counter(reply.code for reply in callback.ask_all(instances[:4]))
    assert site.instances("execute") == instances[4:]
    assert set(seen) <= {"may_stop", "later"}
    assert seen["may_stop"] >= 4


KEEPING = """
from hpc.autoscale.cli import GenericDriver

class Driver(GenericDriver):
    '''Lets the test do something while it drains.'''

    meanwhile = []

    def handle_draining(self, nodes):
        for act in self.meanwhile:
            act()
        return nodes
"""


def test_a_node_that_is_to_be_kept_after_all(site):
    """Is told so, and somebody else may stop in its place."""
    (site.home / "as_keeping.py").write_text(KEEPING)
    site.write({**site.config, "driver": "as_keeping:Driver"})
    one, other = site.start("execute", 2)
    site.want({"Name": "execute", "TargetCount": 1})
    with site.serving() as callback:
        meanwhile = sys.modules["as_keeping"].Driver.meanwhile
        meanwhile.append(lambda: site.cluster.edit("execute-1", KeepAlive=True))
        assert callback.ask(one).code == "keep_alive"
        assert callback.ask(other).code == "may_stop"
    assert site.instances("execute") == [one]


# -- no


def test_keep_alive(site, callback):
    """Is a no, whatever demand says, and the node stays."""
    (instance,) = site.start("execute", 1, nodeAttributes={"KeepAlive": True})
    site.want()
    site.want({"Name": "execute", "TargetCount": 0})
    reply = callback.ask(instance)
    assert (reply.status, reply.code) == (409, "keep_alive")
    assert site.instances("execute") == [instance]


def test_an_unknown_instance(site, callback):
    """Is 404, with its id in the text."""
    site.want({"Name": "execute", "TargetCount": 0})
    reply = callback.ask("nobody")
    assert (reply.status, reply.code) == (404, "unknown_instance")
    assert "nobody" in reply.body["message"]


def test_a_node_outside_of_nodearrays(site, callback):
    """Such as the scheduler's is none that could be asked for, and never stops."""
    site.want({"Name": "execute", "TargetCount": 0})
    (head,) = [node["InstanceId"] for node in site.running() if node["Name"] == "scheduler"]
    assert callback.ask(head).code == "unknown_instance"
    assert [node["Name"] for node in site.running()] == ["scheduler"]


def test_the_node_id_will_do(site, callback):
    """Where a node knows no InstanceId."""
    site.start("execute", 1)
    site.want({"Name": "execute", "TargetCount": 0})
    assert callback.ask(site.running("execute")[0]["NodeId"]).status == 200


def test_unknown_is_never_zero(site, callback):
    """Nodearrays that nobody has ever reported on, a server that is away, and a damaged file."""
    (instance,) = site.start("execute", 1)
    site.want({"Name": "gpu", "TargetCount": 0})
    unreported = callback.ask(instance)
    assert (unreported.status, unreported.code) == (503, "demand_unknown")
    assert "no request set has ever named nodearray execute" in unreported.body["message"]
    site.want({"Name": "execute", "TargetCount": 0})
    site.simulator.faults.add("empty_nodes", endpoint="get_nodes")
    assert callback.ask(instance).code == "demand_unknown"
    site.simulator.faults.clear()
    sets = site.home / "requestsets.db"
    good = sets.read_bytes()
    sets.write_bytes(b"no database" * 100)
    assert callback.ask(instance).code == "demand_unknown"
    sets.write_bytes(good)
    assert callback.ask(instance).headers.get("Retry-After") is None
    assert site.instances("execute") == []


def test_a_damaged_ledger(site, callback):
    """Says yes to nobody."""
    (instance,) = site.start("execute", 1)
    site.want({"Name": "execute", "TargetCount": 0})
    (site.home / "autostop.db").write_bytes(b"no database" * 100)
    reply = callback.ask(instance)
    assert (reply.status, "it is damaged" in reply.body["message"]) == (503, True)
    assert site.instances("execute") == [instance]


DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode

class Driver(GenericDriver):
    '''execute-1 is busy, a job waits for a node, and execute-4 takes its time to drain.'''

    def _read_jobs_and_nodes(self, config):
        busy = SchedulerNode("execute-1", {"ncpus": 4})
        busy.assign("17")
        waiting = Job("18", [{"node.nodearray": "execute"}, {"exclusive": True}])
        return [waiting], [busy]

    def handle_draining(self, nodes):
        return [node for node in nodes if node.name != "execute-4"]
"""


def test_a_scheduler(site):
    """Nodes with its work, and with work that it is about to start there, are told no."""
    (site.home / "as_driver.py").write_text(DRIVER)
    site.write({**site.config, "driver": "as_driver:Driver"})
    site.start("execute", 4)
    names = {node["Name"]: node["InstanceId"] for node in site.running("execute")}
    with site.serving() as callback:
        codes = {name: callback.ask(instance).code for name, instance in names.items()}
    assert codes == {
        "execute-1": "has_work",
        "execute-2": "has_work",
        "execute-3": "may_stop",
        "execute-4": "draining",
    }


# -- dynamic arrays and groups


def test_a_dynamic_array(site, callback):
    """Is a pool of its own, and is gone when its last node has stopped."""
    mine = {"Name": "mine", "Dynamic": True, "Extends": "execute"}
    site.want({**mine, "TargetCount": 3}, {"Name": "execute", "TargetCount": 2})
    site.autoscale()
    site.later()
    by_array = {}
    for node in site.running("execute"):
        section = (node.get("Configuration") or {}).get("autoscale") or {}
        by_array.setdefault(section.get("dynamic_array"), []).append(node["InstanceId"])
    assert {name: len(ids) for name, ids in by_array.items()} == {"mine": 3, None: 2}
    site.want({**mine, "TargetCount": 1}, {"Name": "execute", "TargetCount": 2})
    assert statuses(callback.ask_all(by_array["mine"])) == {200: 2, 409: 1}
    assert statuses(callback.ask_all(by_array[None])) == {409: 2}
    site.want({"Name": "execute", "TargetCount": 2})
    site.later()
    assert statuses(callback.ask_all(by_array["mine"])) == {200: 3}
    assert sorted(site.instances("execute")) == sorted(by_array[None])


def test_a_group_stops_as_a_whole(site, callback):
    """When all of its nodes have asked: until then each is told to wait."""
    site.want({"Name": "execute", "TargetGroupCount": 2, "GroupInstanceCount": 3})
    site.autoscale()
    site.later()
    groups = {}
    for node in site.running("execute"):
        groups.setdefault(node["PlacementGroupId"], []).append(node["InstanceId"])
    first, last = sorted(groups)
    site.want({"Name": "execute", "TargetGroupCount": 1, "GroupInstanceCount": 3})
    assert [reply.code for reply in callback.ask_all(groups[first])] == ["group_wanted"] * 3
    waiting = [callback.ask(each) for each in groups[last][:2]]
    assert [reply.code for reply in waiting] == ["group_waits"] * 2
    assert "2 of the 3 nodes of group" in waiting[1].body["message"]
    assert statuses([callback.ask(each) for each in reversed(groups[last])]) == {200: 3}
    assert sorted(site.instances("execute")) == sorted(groups[first])


def test_who_has_asked_long_ago(site, callback):
    """Counts no more: a node of a group may have work again."""
    site.want({"Name": "execute", "TargetGroupCount": 1, "GroupInstanceCount": 2})
    site.autoscale()
    site.later()
    site.want({"Name": "execute", "TargetCount": 0})
    one, other = site.instances("execute")
    assert callback.ask(one).code == "group_waits"
    site.later(300)
    assert callback.ask(other).code == "group_waits"
    assert callback.ask(one).code == "may_stop"


# -- what it costs


def looks(site):
    """How often the cluster was listed."""
    return site.simulator.faults.report()[0]["seen"]


def test_a_no_is_repeated(site, callback):
    """For ten seconds without a look at the cluster, unless a request set changes."""
    site.simulator.faults.add("latency", endpoint="get_nodes", seconds=0)
    instances = site.start("execute", 20)
    site.want({"Name": "execute", "TargetCount": 20})
    assert statuses(callback.ask_all(instances)) == {409: 20}
    assert looks(site) == 1
    site.later(10)
    assert callback.ask(instances[0]).status == 409
    assert looks(site) == 2
    site.want({"Name": "execute", "TargetCount": 19})
    assert statuses(callback.ask_all(instances)) == {200: 1, 409: 19}


# -- who may ask, and how


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_both_verbs_need_authentication(site, callback, verb):
    """A wrong password, a wrong user, an empty one and none are 401, and nothing is looked up."""
    (instance,) = site.start("execute", 1)
    site.want({"Name": "execute", "TargetCount": 0})
    for wrong in ({"password": "wrong"}, {"username": "wrong"}, {"password": ""}):
        reply = Callback(callback.url, {**ACCESS, **wrong}).ask(instance, verb)
        assert (reply.status, reply.code) == (401, "unauthorized")
    bare = requests.request(verb, f"{callback.stop_url}?instance={instance}", timeout=60)
    assert (bare.status_code, bare.headers["WWW-Authenticate"][:5]) == (401, "Basic")
    broken = {"Authorization": "Basic ###"}
    assert requests.request(verb, callback.stop_url, headers=broken, timeout=60).status_code == 401
    assert callback.ask(instance, verb).status == 200


def test_no_password_in_the_log(site, callback, caplog):
    """Nor in any answer."""
    caplog.set_level(logging.DEBUG)
    replies = [callback.ask("x", reason="idle"), Callback(callback.url, ACCESS, "other").ask("x")]
    said = caplog.text + json.dumps([reply.body for reply in replies])
    assert "x asks to stop (idle)" in caplog.text
    assert ACCESS["password"] not in said


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "bad_request"),
        ("instance=", 400, "bad_request"),
        ("instance=a&instance=b", 400, "bad_request"),
        ("instance=%00", 400, "bad_request"),
        ("instance=" + "x" * 300, 400, "bad_request"),
        ("instance=%FF", 400, "bad_request"),
        ("instance=a&reason=" + "y" * 5000, 404, "unknown_instance"),
    ],
)
def test_bad_requests(callback, query, status, code):
    """Are 400, with what was expected."""
    access = (ACCESS["username"], ACCESS["password"])
    reply = requests.get(f"{callback.stop_url}?{query}", auth=access, timeout=60)
    assert (reply.status_code, reply.json()["code"]) == (status, code)


def test_other_places(callback):
    """Another cluster, another path and another verb are refused."""
    assert Callback(callback.url, ACCESS, "de/mo ü").ask("x").code == "unknown_cluster"
    access = (ACCESS["username"], ACCESS["password"])
    assert requests.get(f"{callback.url}/x", auth=access, timeout=60).status_code == 404
    assert requests.put(callback.stop_url, auth=access, timeout=60).status_code == 405


def test_the_credentials_of_cyclecloud(site):
    """Will do where the section names none."""
    config = {key: value for key, value in site.config.items() if key != "autostop"}
    site.write(config)
    with site.serving() as callback:
        asking = Callback(callback.url, config)
        assert asking.ask("x").status == 404
        assert callback.ask("x").status == 401


def test_read_only(site, capsys):
    """Nobody can be stopped, so the service does not start."""
    site.write({**site.config, "read_only": True})
    with pytest.raises(SystemExit):
        cli.main(["serve_autostop", "-c", str(site.path)])
    assert "the configuration is read-only" in capsys.readouterr().err


def test_the_environment_has_the_password_of_cyclecloud(site, monkeypatch):
    """Which lets no node in where the section has one of its own, also in a file."""
    monkeypatch.setenv("CYCLECLOUD_USERNAME", "admin")
    monkeypatch.setenv("CYCLECLOUD_PASSWORD", "of-cyclecloud")
    file = site.home / "nodes.json"
    file.write_text(json.dumps(ACCESS))
    file.chmod(0o600)
    site.write({**site.config, "autostop": {"credentials_file": str(file)}})
    with site.serving() as callback:
        assert callback.ask("x").status == 404
        for name in (ACCESS["username"], "admin"):
            access = {"username": name, "password": "of-cyclecloud"}
            assert Callback(callback.url, access).ask("x").status == 401
