"""A simulated cluster whose nodes may stop by themselves, and the service that they ask."""

import json
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import requests

from hpc.autoscale import cli, clock
from hpc.autoscale.autostop.app import make_app
from hpc.autoscale.requestsets.recording import LEAST_SECONDS, record
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.simulator import serve
from hpc.autoscale.simulator.handles import Simulator
from hpc.autoscale.wsgi.server import WsgiServer

F4, F8 = "Standard_F4s_v2", "Standard_F8s_v2"
CLOUD: dict[str, Any] = {
    "clusters": {
        "demo": {
            "region": "westus2",
            "nodes": {"scheduler": {"machine_type": F4}},
            "nodearrays": {
                "execute": {"machine_types": [F4]},
                "gpu": {"machine_types": [F8]},
                "spot": {"machine_types": [F4], "spot": True},
                "mixed": {"machine_types": [F4, F8]},
            },
        }
    }
}
ACCESS = {"username": "nodes", "password": "s3cret-for-nodes"}


class Reply(NamedTuple):
    """What a node was told over HTTP."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """The word for the answer."""
        return str(self.body["code"])


class Callback:
    """The address that nodes ask."""

    def __init__(self, url: str, access: dict[str, str], cluster: str = "demo") -> None:
        self.url = url
        self.stop_url = f"{url}/cloud/actions/autoscale/{quote(cluster, safe='')}/stop"
        secret = b64encode(f"{access['username']}:{access['password']}".encode()).decode()
        self._headers = {"Authorization": f"Basic {secret}"}

    def ask(self, instance: str, verb: str = "POST", **more: str) -> Reply:
        """Ask whether a node may stop."""
        reply = requests.request(
            verb,
            self.stop_url,
            params={"instance": instance, **more},
            headers=self._headers,
            timeout=60,
        )
        return Reply(reply.status_code, reply.json(), dict(reply.headers))

    def ask_all(self, instances: list[str], at_once: int = 10) -> list[Reply]:
        """Ask for many nodes from several threads."""
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(self.ask, instances))


class AutostopSite:
    """A site on a clock that the test moves; `callback` is its service."""

    def __init__(self, simulator: Simulator, home: Path, **section: Any) -> None:
        self.simulator = simulator
        self.cluster = simulator.cluster("demo")
        self.home = home
        self.path = home / "autoscale.json"
        self.clock = clock.use_mock_clock()
        self.configure(**section)
        self.later()

    def configure(self, **section: Any) -> None:
        """Write the configuration; `section` is more of the section `autostop`."""
        config = {
            **self.simulator.connection("demo"),
            "retry": {"attempts": 1},
            "autostop": {**ACCESS, **section},
        }
        self.write(config)

    def write(self, config: dict[str, Any]) -> None:
        """Write a configuration."""
        self.config = config
        self.path.write_text(json.dumps(config))
        self.path.chmod(0o600)

    @contextmanager
    def serving(self) -> Iterator[Callback]:
        """The service, listening in this process."""
        server = WsgiServer(make_app(str(self.path)))
        server.start()
        try:
            yield Callback(server.url, ACCESS)
        finally:
            server.stop()

    def want(self, *arrays: dict[str, Any], request_set: str = "standard") -> None:
        """Record a wish, and make no pass."""
        store = RequestStore(str(self.home / "requestsets.db"))
        record(self.config, store, list(arrays), request_set, LEAST_SECONDS)

    def autoscale(self) -> None:
        """Make a pass of the loop."""
        cli.main(["autoscale", "-c", str(self.path)])

    def start(self, nodearray: str, count: int, **more: Any) -> list[str]:
        """Start nodes; the InstanceIds of all nodes of that nodearray."""
        one = {"nodearray": nodearray, "count": count, **more}
        reply = requests.post(
            f"{self.simulator.url}/clusters/demo/nodes/create",
            json={"sets": [one]},
            auth=(self.simulator.username, self.simulator.password),
            timeout=60,
        )
        reply.raise_for_status()
        self.later()
        return self.instances(nodearray)

    def later(self, seconds: float = 0) -> None:
        """Let time pass, here and in the cluster."""
        self.clock.now += seconds
        self.simulator.clock.advance(seconds)
        self.simulator.clock.settle()

    def running(self, nodearray: str | None = None) -> list[dict[str, Any]]:
        """The records of the nodes that run or will run."""
        return [
            dict(node)
            for node in self.cluster.nodes()
            if node["TargetState"] == "Started" and nodearray in (None, node["Template"])
        ]

    def instances(self, nodearray: str) -> list[str]:
        """The InstanceIds of the nodes that run."""
        return [str(node["InstanceId"]) for node in self.running(nodearray)]


@contextmanager
def an_autostop_site(home: Path, **section: Any) -> Iterator[AutostopSite]:
    """A site in a directory; its files go beside its configuration."""
    with serve(CLOUD) as simulator:
        yield AutostopSite(simulator, home, **section)
