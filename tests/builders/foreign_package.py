"""A package `cyclecloud` like the one that CycleCloud offers for download, written into a directory
for a test.

It speaks REST by itself, with the standard library alone, and shares no code with ours: a client, a
session, functions and models of the published names and shapes. `cyclecloud.client.MADE` has the
settings of every client that was made, `cyclecloud.session.SENT` every request. Not a test module
itself.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLIENT = """
from cyclecloud.session import Session

MADE = []


class Cluster:
    def __init__(self, client, name):
        self._client, self.name = client, name


class Clusters:
    def __init__(self, client):
        self._client = client

    def get(self, name):
        return Cluster(self._client, name)


class Client:
    def __init__(self, config):
        MADE.append(dict(config))
        self.session = Session(config)
        self.clusters = Clusters(self)
"""

SESSION = """
import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request

SENT = []


class ResponseStatus:
    def __init__(self, status_code):
        self.status_code = status_code


class Session:
    def __init__(self, config):
        self._config = config

    def request(self, context, method, query=None, headers=None, body=None, expected_responses=()):
        SENT.append((method, context.path))
        config = self._config
        url = config["url"].rstrip("/") + context.path
        query = {name: value for name, value in (query or {}).items() if value is not None}
        if query:
            url += "?" + urllib.parse.urlencode(query)
        request = urllib.request.Request(url, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        login = "%s:%s" % (config["username"], config["password"])
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        trust = ssl.create_default_context()
        if not config.get("verify_certificates", True):
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        try:
            patience = config.get("timeout", 60)
            with urllib.request.urlopen(request, timeout=patience, context=trust) as reply:
                code, text = reply.status, reply.read().decode()
        except urllib.error.HTTPError as refused:
            code, text = refused.code, refused.read().decode()
        for expected, _, converter in expected_responses:
            if code == expected:
                return ResponseStatus(code), converter(json.loads(text) if text else None)
        raise Exception(text)
"""

CLUSTERS = """
import urllib.parse

from cyclecloud import model


class _RequestContext:
    path = None


def _call(session, method, parts, code, kind, query=None, request=None):
    context = _RequestContext()
    context.path = "/clusters/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)
    if request is not None:
        request.validate()
    body = None if request is None else request.to_dict()
    expected = [(code, kind.__name__, kind.from_dict)]
    return session.request(context, method, query, {}, body, expected)


def get_cluster_status(session, cluster_name, nodes=False):
    query = {"nodes": str(bool(nodes)).lower()}
    return _call(session, "GET", [cluster_name, "status"], 200, model.ClusterStatus, query)


def get_nodes(session, cluster_name, operation=None, request_id=None):
    query = {"operation": operation, "request_id": request_id}
    return _call(session, "GET", [cluster_name, "nodes"], 200, model.NodeList, query)


def create_nodes(session, cluster_name, request):
    parts = [cluster_name, "nodes", "create"]
    return _call(session, "POST", parts, 202, model.NodeCreationResult, None, request)


def scale(session, cluster_name, nodearray, total_core_count=None, total_node_count=None):
    query = {"totalCoreCount": total_core_count, "totalNodeCount": total_node_count}
    parts = [cluster_name, "scale", nodearray]
    return _call(session, "POST", parts, 202, model.NodeCreationResult, query)


def _manage(verb):
    def manage(session, cluster_name, request):
        parts = [cluster_name, "nodes", verb]
        return _call(session, "POST", parts, 202, model.NodeManagementResult, None, request)

    return manage


start_nodes, deallocate_nodes = _manage("start"), _manage("deallocate")
remove_nodes = _manage("remove")
shutdown_nodes, terminate_nodes = _manage("shutdown"), _manage("terminate")
reimage_nodes, restart_nodes = _manage("reimage"), _manage("restart")
"""

MODEL = '''
class _Model:
    """Attributes by their names, nested objects as they come: a bag like any of theirs."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def to_dict(self):
        return dict(self._wire)

    @classmethod
    def from_dict(cls, data):
        made = cls(**data)
        made._wire = data
        return made


class ClusterStatus(_Model):
    pass


class NodeList(_Model):
    pass


class NodeCreationResult(_Model):
    pass


class NodeManagementResult(_Model):
    pass
'''

FILES = {
    "__init__.py": "",
    "client.py": CLIENT,
    "session.py": SESSION,
    "api/__init__.py": "",
    "api/clusters.py": CLUSTERS,
    "model.py": MODEL,
}


def write_package(directory: Path, **changed: str | None) -> None:
    """Write the package below the directory; `changed` has other texts for some modules (`client`),
    None for no such file."""
    replaced = {f"{module.replace('__', '/')}.py": text for module, text in changed.items()}
    for name, text in {**FILES, **replaced}.items():
        if text is not None:
            path = directory / "cyclecloud" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


@contextmanager
def importable(directory: Path) -> Iterator[None]:
    """The package can be imported from the directory, as one that is installed; afterwards it is
    forgotten."""
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        for name in [n for n in sys.modules if n.partition(".")[0] == "cyclecloud"]:
            del sys.modules[name]
