"""Addresses in a journal that `azscale journal scrub` writes anew."""

import ipaddress
import json
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from builders.journals import a_node_record, a_pass_record
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.journal import Journal, JournalWriter
from hpc.autoscale.journal.scrubbing import Aliases


@pytest.fixture
def scrubbed(tmp_path, capsys):
    """The one pass of a journal of these, written anew."""

    def call(record):
        JournalWriter(tmp_path / "j").write(record)
        main(["journal", "scrub", str(tmp_path / "j"), "--to", str(tmp_path / "to")])
        capsys.readouterr()
        (found,) = Journal(tmp_path / "to")
        return found

    return call


@pytest.mark.parametrize("server", ["127.0.0.1", "[fe80::7]"])
def test_the_address_of_a_server_is_replaced_as_a_whole(scrubbed, server):
    """By one other address, which is the same in the url and in what went wrong."""
    url = f"http://{server}:8082"
    record = a_pass_record(1, errors=[f"{url} did not answer ({server})"])
    found = scrubbed(replace(record, config={"cluster_name": "first", "url": url}))
    place = urlsplit(found.config["url"])
    assert place.port == 8082
    assert ipaddress.ip_address(place.hostname).version == (6 if "[" in server else 4)
    assert place.hostname not in server
    other = server.replace(server.strip("[]"), place.hostname)
    assert found.did["errors"] == [f"{found.config['url']} did not answer ({other})"]


def test_the_name_of_a_server_that_is_not_in_the_configuration(scrubbed):
    """As where its address is in a file with the password: it is replaced where it stands."""
    url = "https://cc.corp.example:8443/clusters/c/status"
    found = scrubbed(a_pass_record(1, errors=[f"{url}: no answer", "cc.corp.example: refused"]))
    first, second = found.did["errors"]
    place = urlsplit(first.split(": ")[0])
    assert (place.port, place.path) == (8443, "/clusters/c/status")
    assert second == f"{place.hostname}: refused" and "corp" not in f"{first} {second}"


def test_hosts_that_are_known_by_their_addresses(scrubbed):
    """The same one again wherever it stands, and in the same order."""
    names = ["10.9.8.10", "10.9.8.11", "10.9.8.2"]
    nodes = [
        a_node_record(f"htc-{n}", Hostname=name, PrivateIp=name) for n, name in enumerate(names)
    ]
    found = scrubbed(a_pass_record(1, nodes)).nodes
    aliases = [node["Hostname"] for node in found]
    assert aliases == [node["PrivateIp"] for node in found]
    assert aliases == sorted(set(aliases)) and not {*names} & {*aliases}
    assert all(map(ipaddress.ip_address, aliases))


METADATA = {
    "user": "alice",
    "owner": "bob",
    "limits": {"bob": 3},
    "cmd": "cd /home/carol/run && ./x; ~/bin/y",
    "env": {"SUBMIT_HOST": "login01.corp.example.com", "V6": "at [2001:db8:7::1]:22"},
}
SECTION = {
    "server": "pbs01.corp.example.com",
    "broker": "redis://redis07.corp.example.com:6379/0",
    "ip": "10.9.8.7",
}
NOTE = (
    "not told: Permission denied: /home/henry/.ssh/id_rsa via 10.9.8.7 on pbs01.corp.example.com."
)


def test_what_drivers_and_users_say_has_no_names_either(scrubbed):
    """Users that are keys somewhere, machines in a driver's own section, addresses that are no
    node's, paths and addresses within texts; what is said twice is said alike."""
    job = {"name": "7", "constraints": [], "metadata": METADATA}
    record = replace(a_pass_record(1), jobs=[job])
    config = {"cluster_name": "first", "mysched": SECTION, "nodearrays": {"htc": {"x": 1}}}
    found = scrubbed(replace(record, config=config, did={"notes": [NOTE], "errors": []}))
    text = json.dumps([found.config, found.jobs, found.did])
    names = ("alice", "bob", "carol", "login01", "example.com", "2001:db8:7::1", "pbs01", "redis07")
    for name in (*names, "10.9.8.7", "henry", "id_rsa", "/home", "bin/y"):
        assert name not in text, name
    section, told = found.config["mysched"], found.jobs[0]["metadata"]
    assert list(section) == list(SECTION) and told.keys() == METADATA.keys()
    assert told["limits"] == {told["owner"]: 3}
    (note,) = found.did["notes"]
    assert note.endswith(f" via {section['ip']} on {section['server']}.")
    assert ipaddress.ip_address(section["ip"]) and urlsplit(section["broker"]).port == 6379
    assert found.config["nodearrays"] == {"htc": {"x": 1}}


def test_whose_account_it_is(scrubbed):
    """Ids of subscriptions and tenants, in the configuration and in what the server says of them;
    what else is said of a subscription stays."""
    one, other = "6f9619ff-8b86-d011-b42d-00c04fc964ff", "0f8fad5b-d9cb-469f-a165-70867728950e"
    config = {
        "cluster_name": "first",
        "weights": {"provider": "spot-score", "subscription": one},
        "backoff": {"subscription": 600},
        "mysched": {"tenant_id": other},
    }
    record = a_pass_record(1, errors=[f"spot-score: subscription {one} of {other} not found"])
    found = scrubbed(replace(record, config=config))
    text = json.dumps([found.config, found.did])
    assert one not in text and other not in text
    assert found.config["backoff"] == {"subscription": 600}
    assert found.config["weights"]["subscription"] in found.did["errors"][0]


def test_times_and_versions_are_no_addresses(scrubbed):
    """Nor are this machine's own address, names of buckets, and rates."""
    said = ["at 2026-01-01T12:30:45Z, 12:30:45", "htc/Standard_F4s 4/5", "127.0.0.1 1.2.3"]
    assert scrubbed(a_pass_record(1, errors=said)).did["errors"] == said


def test_hosts_that_are_called_as_their_nodes_in_several_clusters(scrubbed):
    """Names of nodes stay, whether the cluster's name stands before them or not."""
    own = {"Template": "west/htc", "Hostname": "htc-1"}
    record = a_pass_record(1, [a_node_record("west/htc-1", **own)])
    asked = [{"action": "create", "nodes": ["west/htc-1", "west/htc-2"]}]
    hosts = [{"hostname": "htc-1"}, {"hostname": "htc-2"}]
    found = scrubbed(replace(record, hosts=hosts, decided=asked))
    assert (found.hosts, found.decided) == (hosts, asked)


def test_some_hosts_that_are_called_as_their_nodes(scrubbed):
    """As in one of two clusters: the others keep their places among them, and are replaced."""
    names = ["a-7", "hpc07", "htc-1", "htz8", "ip-0A000004", "ip-0A000005"]
    nodes = [
        a_node_record(name if name == "htc-1" else f"west/htc-{n}", Template="htc", Hostname=name)
        for n, name in enumerate(names)
    ]
    found = [node["Hostname"] for node in scrubbed(a_pass_record(1, nodes)).nodes]
    assert found == sorted(found) and {*names} & {*found} == {"htc-1"}


def test_a_host_that_is_called_as_a_nodearray_begins(scrubbed):
    """It stays before the nodes of that, as far as its name can tell."""
    nodes = [a_node_record("gpu-large-1", Template="gpu-large", Hostname="ip-1")]
    found = scrubbed(replace(a_pass_record(1, nodes), hosts=[{"hostname": "gpu"}]))
    (host,) = found.hosts
    assert "gpu" < host["hostname"] < "gpu-large-1"


def test_what_is_said_of_many_jobs_is_looked_at_once(scrubbed, monkeypatch):
    """Names are looked for in each text once, however many jobs have it."""
    words, own = [], Aliases._word
    monkeypatch.setattr(Aliases, "_word", lambda self, at: words.append(at[0]) or own(self, at))
    said = {"cmd": "nightly-run of alice", "user": "alice"}
    jobs = [{"name": f"job{n}", "constraints": [], "metadata": dict(said)} for n in range(9)]
    found = scrubbed(replace(a_pass_record(1), jobs=jobs)).jobs
    assert {job["metadata"]["cmd"] for job in found} == {"nightly-run of user-aaaa"}
    assert (words.count("nightly-run"), words.count("cmd")) == (1, 1)
