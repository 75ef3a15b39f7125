"""A server that comes back at its address without the nodes that it has just made, as one that was
restored from a backup: commands that only look promise nothing that the next pass refuses."""

from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from builders.site_commands import site_command as site_command
from hpc.autoscale.job.job import Job
from hpc.autoscale.simulator import serve

CLOUD = {
    "clusters": {
        "c": {
            "region": "southcentralus",
            "nodearrays": {"htc": {"machine_types": ["Standard_F4s_v2"]}},
        }
    }
}
USER = {"username": "user", "password": "password"}


class Site:
    """One or more clusters, each of a server that can be restored, and a job of two nodes."""

    new_hosts = list

    def __init__(self, names, home, command):
        self._command = command
        self._servers = {name: ExitStack() for name in names}
        entries = {name: self._serve(name, 0).connection("c") for name in names}
        own = [{"name": name, **entry} for name, entry in entries.items()]
        self.config = {
            **({"clusters": own} if len(own) > 1 else entries[names[0]]),
            "lock_file": None,
            "nodehistorydb": str(home / "nodehistory.db"),
            "retry": {"attempts": 1},
        }
        self._ports = {name: urlsplit(entry["url"]).port for name, entry in entries.items()}

    def new_jobs(self):
        return [Job("a", {"ncpus": 4, "node.nodearray": "*htc"}, iterations=2)]

    def _serve(self, name, port):
        return self._servers[name].enter_context(serve(CLOUD, port=port, **USER))

    def restore(self, name):
        """Another server at the same address, where nothing was made."""
        self.close(name)
        self._serve(name, self._ports[name])

    def close(self, *names):
        for name in names or self._servers:
            self._servers[name].close()

    def azscale(self, *words):
        """What a command prints, on stdout and stderr."""
        self._command.serve(self)
        return self._command(*words) + self._command.errors


@pytest.fixture
def a_site(tmp_path, site_command):
    """Makes a site with clusters of these names."""
    made = []

    def make(*names):
        made.append(Site(names, tmp_path, site_command))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_nothing_is_promised_while_the_listing_is_no_evidence(a_site):
    """In explain and status as in plan and the pass."""
    site = a_site("c")
    assert "2 created" in site.azscale("autoscale")
    site.restore("c")
    for words in (
        ("explain", "a"),
        ("status",),
        ("plan",),
        ("demand",),
        ("autoscale", "--dry-run"),
        ("autoscale",),
    ):
        said = site.azscale(*words)
        assert "lacks 2 nodes of request id" in said, said
        assert "next pass" not in said


def test_one_of_several_that_is_restored_is_set_aside(a_site):
    """The others are promised, and asked; its nodes are shown as they were last."""
    site = a_site("west", "east")
    assert "2 created (west/htc-1, west/htc-2)" in site.azscale("autoscale")
    site.restore("west")
    assert "2 x east/htc" in site.azscale("explain", "a")
    said = site.azscale("status")
    rows = [line.split() for line in said.splitlines() if "/htc/" in line]
    assert [(row[0][:4], row[1:3]) for row in rows] == [("east", [".", "2"]), ("west", ["2", "."])]
    assert "2 of east/htc" in site.azscale("plan")
    assert "2 created (east/htc-1, east/htc-2)" in site.azscale("autoscale")
