"""Addresses in a journal that `azscale journal scrub` writes anew."""

import ipaddress
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from builders.journals import a_node_record, a_pass_record
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.journal import Journal, JournalWriter


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
