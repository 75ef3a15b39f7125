"""Plain HTTP calls to a simulator, for the tests of its endpoints."""

import json
from typing import Any

import requests

from hpc.autoscale.simulator import Simulator

F2 = "Standard_F2s_v2"
DESCRIPTION = {
    "clusters": {
        name: {
            "region": "westus2",
            "nodearrays": {
                "htc": {"machine_types": [F2], "max_count": 10},
                "spot": {"machine_types": [F2], "spot": True},
            },
        }
        for name in ("c1", "my_other.cluster")
    }
}


class Client:
    """Plain HTTP calls to a simulator."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.auth = (simulator.username, simulator.password)

    def __call__(
        self, verb: str, path: str, body: object = None, **options: Any
    ) -> requests.Response:
        options.setdefault("auth", self.auth)
        data = None if body is None else json.dumps(body)
        return requests.request(verb, self.simulator.url + path, data=data, timeout=10, **options)

    def create(self, count: int = 1, nodearray: str = "htc", **more: Any) -> requests.Response:
        """Ask for nodes of c1."""
        one = {"nodearray": nodearray, "count": count}
        return self("POST", "/clusters/c1/nodes/create", {"sets": [one], **more})


def message(response: requests.Response, status: int) -> str:
    """The Message of an error, which has this status and is JSON."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    body = response.json()
    assert body["StatusCode"] == status
    return str(body["Message"])
