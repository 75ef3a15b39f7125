"""The simulated CycleCloud as the one that nodes ask whether they may stop."""

from collections import Counter

import pytest
import requests

from builders.autostop_site import Callback, an_autostop_site


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A simulated cluster."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    with an_autostop_site(tmp_path) as made:
        yield made


@pytest.fixture
def callback(site):
    """The simulator, to be asked."""
    return Callback(site.simulator.url, site.simulator.connection("demo"))


@pytest.fixture
def report(site):
    """Reports demand to the simulator, and lets its nodes boot; the reply."""

    def post(*arrays, status=200, **query):
        access = (site.simulator.username, site.simulator.password)
        url = f"{site.simulator.url}/cloud/actions/autoscale/demo"
        reply = requests.post(url, json=list(arrays), params=query, auth=access, timeout=60)
        assert reply.status_code == status, reply.text
        site.later()
        return reply.json()

    return post


def statuses(replies):
    """How often each status was answered."""
    return Counter(reply.status for reply in replies)


def test_twenty_of_fifty(site, callback, report):
    """50 nodes ask at once while 30 are wanted: 20 may, and those are gone."""
    assert report({"Name": "execute", "TargetCoreCount": 200}) == {"added": {"execute": 50}}
    assert report({"Name": "execute", "TargetCoreCount": 120}) == {"added": {"execute": 0}}
    replies = callback.ask_all(site.instances("execute"), at_once=25)
    assert statuses(replies) == {200: 20, 409: 30}
    assert len(site.instances("execute")) == 30


def test_sets_add_up_and_lapse(site, callback, report):
    """Each after its own interval, which is five minutes at least."""
    report({"Name": "execute", "TargetCount": 1}, request_set="a", expiration_interval=600)
    report({"Name": "execute", "TargetCoreCount": 5}, request_set="b", expiration_interval=1)
    instances = site.instances("execute")
    assert len(instances) == 3
    site.later(250)  # booting took some seconds already
    assert statuses(callback.ask_all(instances)) == {409: 3}
    site.later(50)
    assert statuses(callback.ask_all(instances)) == {200: 2, 409: 1}


def test_sizes_are_mixed(site, callback, report):
    """As many may stop as leave the cores that are wanted, whichever ask first."""
    site.start("mixed", 4)
    instances = site.start("mixed", 2, definition={"machineType": "Standard_F8s_v2"})
    report({"Name": "mixed", "TargetCoreCount": 16})
    callback.ask_all(instances)
    while any(callback.ask(each).status == 200 for each in site.instances("mixed")):
        pass
    cores = {"Standard_F4s_v2": 4, "Standard_F8s_v2": 8}
    left = sorted(cores[node["MachineType"]] for node in site.running("mixed"))
    assert 16 <= sum(left) < 16 + left[-1]


def test_a_node_that_is_being_evicted(site, callback, report):
    """Serves nobody, so that the others stay."""
    report({"Name": "spot", "TargetCount": 3})
    instances = site.instances("spot")
    report({"Name": "spot", "TargetCount": 2})
    site.cluster.evict("spot-1")
    assert [callback.ask(each).code for each in instances[1:]] == ["wanted"] * 2


def test_asking_again(site, callback, report):
    """While the node is on its way out, by either verb."""
    report({"Name": "execute", "TargetCount": 1})
    report({"Name": "execute", "TargetCount": 0})
    (instance,) = site.instances("execute")
    assert callback.ask(instance, verb="GET").code == "may_stop"
    assert callback.ask(instance).body["message"] == "execute-1 is stopping"
    site.later()
    assert callback.ask(instance).status == 404


def test_no(site, callback, report):
    """KeepAlive, an unknown id, and a nodearray of which nobody has reported what is wanted."""
    (kept,) = site.start("execute", 1, nodeAttributes={"KeepAlive": True})
    (other,) = site.start("gpu", 1)
    report({"Name": "execute", "TargetCount": 0})
    assert callback.ask(kept).code == "keep_alive"
    assert callback.ask("nobody").code == "unknown_instance"
    assert (callback.ask(other).status, callback.ask(other).code) == (503, "demand_unknown")
    assert site.instances("execute") + site.instances("gpu") == [kept, other]


def test_who_may_ask(site, callback, report):
    """Nobody without the password, about no other cluster, and not without an id."""
    access = site.simulator.connection("demo")
    assert requests.post(callback.stop_url, timeout=60).status_code == 401
    assert requests.get(callback.stop_url, timeout=60).status_code == 401
    login = (access["username"], access["password"])
    for query, status in (("", 400), ("?instance=", 400)):
        reply = requests.get(callback.stop_url + query, auth=login, timeout=60)
        assert reply.status_code == status
    other = f"{site.simulator.url}/cloud/actions/autoscale/other/stop?instance=x"
    assert requests.post(other, auth=login, timeout=60).status_code == 404


def test_reports_that_cannot_be_used(site, callback, report):
    """Are refused, and what was wanted before stays."""
    report({"Name": "execute", "TargetCount": 1})
    for bad, status in (
        ({"Name": "exceute", "TargetCount": 0}, 409),
        ({"Name": "execute", "TargetCount": -1}, 400),
        ({"Name": "execute", "TargetGroupCount": 1, "GroupCoreCount": 4}, 400),
        ("execute", 400),
    ):
        assert report(bad, status=status)["Message"]
    report({"Name": "execute", "TargetCount": 0}, status=400, expiration_interval="soon")
    assert callback.ask(site.instances("execute")[0]).code == "wanted"


def test_a_fault(site, callback, report):
    """Can be ordered for it as for every endpoint; a lost reply is a stop all the same."""
    report({"Name": "execute", "TargetCount": 1})
    report({"Name": "execute", "TargetCount": 0})
    (instance,) = site.instances("execute")
    site.simulator.faults.add("lost_reply", endpoint="ask_to_stop", calls=[1])
    with pytest.raises(requests.ConnectionError):
        callback.ask(instance)
    assert callback.ask(instance).status == 200
