"""Nodes of several clusters that ask over HTTP whether they may stop, also while one is away."""

import json
from contextlib import contextmanager

import pytest

from builders.autostop_site import ACCESS, Callback
from builders.several_clusters import several_clusters
from hpc.autoscale.autostop.app import make_app
from hpc.autoscale.autostop.service import NO_SECONDS
from hpc.autoscale.requestsets.recording import LEAST_SECONDS, record
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.wsgi.server import WsgiServer


class Site:
    """Two clusters, and request sets for both."""

    def __init__(self, clusters):
        self.clusters = clusters

    def want(self, count):
        """Record a wish for nodes of west, by hand: `azscale request` makes a pass, too."""
        store = RequestStore(str(self.clusters.home / "requestsets.db"))
        wish = {"Name": "west/htc", "TargetCount": count}
        record(self.clusters.config, store, [wish], "standard", LEAST_SECONDS)

    def start(self, count):
        """The InstanceIds of new nodes of west."""
        self.want(count)
        self.clusters.run(0)
        self.clusters.after(600)
        self.clusters.run(0)
        self.want(count)
        return self.instances()

    def instances(self):
        """The InstanceIds of the nodes of west that run."""
        nodes = self.clusters["west"].cluster("c").nodes()
        return [node["InstanceId"] for node in nodes if node["TargetState"] == "Started"]

    @contextmanager
    def serving(self, **section):
        """The service."""
        self.clusters.settings["autostop"] = {**ACCESS, **section}
        path = self.clusters.home / "autoscale.json"
        path.write_text(json.dumps(self.clusters.config))
        path.chmod(0o600)
        server = WsgiServer(make_app(str(path)))
        server.start()
        try:
            yield Callback(server.url, ACCESS, "c")
        finally:
            server.stop()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Clusters east and west."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    with several_clusters(tmp_path, {"east": None, "west": None}) as clusters:
        yield Site(clusters)


def codes(callback, instances):
    """What each is told."""
    return [callback.ask(each).code for each in instances]


@pytest.mark.parametrize("terminate", [True, False])
def test_nodes_of_a_cluster_that_does_not_answer(site, terminate):
    """Are told that nobody knows, and have no yes left over when it is back: they are wanted."""
    instances = site.start(4)
    with site.serving(terminate=terminate) as callback:
        assert codes(callback, instances) == ["wanted"] * 4
        site.clusters["west"].faults.add("status", status=500)
        site.clusters.after(NO_SECONDS)
        site.want(4)
        reply = callback.ask(instances[0])
        assert (reply.status, reply.code) == (503, "demand_unknown")
        assert "its cluster does not answer" in reply.body["message"]
        assert codes(callback, instances) == ["demand_unknown"] * 4
        site.clusters["west"].faults.clear()
        site.clusters.after(NO_SECONDS)
        site.want(4)
        assert codes(callback, instances) == ["wanted"] * 4
        site.want(3)
        assert codes(callback, instances) == ["may_stop", *["wanted"] * 3]
    assert len(site.instances()) == (3 if terminate else 4)


def test_asking_again_by_node_id(site):
    """A node that is on its way out is told the same again, by the id that it has in its own
    cluster, too."""
    site.start(1)
    site.want(0)
    (node,) = site.clusters["west"].cluster("c").nodes()
    with site.serving() as callback:
        assert codes(callback, [node["NodeId"]] * 2) == ["may_stop"] * 2
        assert codes(callback, [node["InstanceId"], "nobody"]) == ["may_stop", "unknown_instance"]
    assert site.instances() == []
