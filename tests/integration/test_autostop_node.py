"""`azscale autostop` on a node: asking over HTTP, events of Azure, once and in a loop."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from unittest.mock import patch

import pytest
import requests
from trustme import CA

from builders.autostop_site import ACCESS, an_autostop_site
from builders.scripted_server import Answer
from hpc.autoscale import cli, clock
from hpc.autoscale.autostop.callback import Callback, Metadata
from hpc.autoscale.autostop.idleness import StateError
from hpc.autoscale.autostop.watcher import Watcher
from hpc.autoscale.errors import ConfigurationException

EVENTS, NAME = "/metadata/scheduledevents", "/metadata/instance/compute/name"
STOP = "/cloud/actions/autoscale/demo/stop"


class Machine:
    """The machine of a node: its configuration, and what its commands have written down."""

    def __init__(self, home, url, instance, capsys):
        self.home = home
        self.path = home / "node.json"
        self.capsys = capsys
        self.section = {
            **ACCESS,
            "url": url,
            "instance": instance,
            "state_file": str(home / "state.json"),
            "busy_command": ["false"],
            "stop_command": ["sh", "-c", f"echo stopped >> {home}/log"],
            "idle_time_before_jobs": 120,
            "scheduled_events": False,
        }

    def configure(self, **more):
        """Write the configuration: nothing of CycleCloud is in it but the cluster's name."""
        self.section.update(more)
        self.path.write_text(json.dumps({"cluster_name": "demo", "autostop": self.section}))
        self.path.chmod(0o600)

    def __call__(self, *args, **more):
        """Run the command in this process; what it said."""
        self.configure(**more)
        cli.main(["autostop", "-c", str(self.path), *args])
        return self.capsys.readouterr().out.strip()

    def start(self, *args):
        """Run it in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "hpc.autoscale.cli", "autostop", "-c", str(self.path), *args],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    @property
    def has_stopped(self):
        """Whether its command to stop ran."""
        return (self.home / "log").exists()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A directory for everything."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def machine(home, server, capsys):
    """A machine whose service is scripted."""
    made = Machine(home, server.url, "vm-1", capsys)
    made.configure()
    return made


def test_an_idle_node_stops(home, capsys):
    """When it was idle for long enough, and the service lets it; then the node is gone."""
    with an_autostop_site(home) as site, site.serving() as callback:
        instances = site.start("execute", 2)
        site.want({"Name": "execute", "TargetCount": 1})
        machine = Machine(home, callback.url, instances[0], capsys)
        assert machine().startswith("idle for 0 s")
        for _ in range(2):
            site.clock.now += 60
            site.want({"Name": "execute", "TargetCount": 1})
            said = machine()
        assert said.endswith("execute-1 may stop: demand does without it; stopping")
        assert machine.has_stopped
        assert site.instances("execute") == instances[1:]
        other = Machine(home, callback.url, "x", capsys)
        said = other("--instance", instances[1], state_file=str(home / "other"))
        for _ in range(2):
            site.clock.now += 60
            said = other("--instance", instances[1])
        assert "status 409: execute-2 is wanted" in said
        assert site.instances("execute") == instances[1:]


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        (Answer(200, {"message": "go"}), True),
        (Answer(200, b"<html>"), True),
        (Answer(201, {}), False),
        (Answer(302, {}, {"Location": "/elsewhere"}), False),
        (Answer(401, {"message": "who are you"}), False),
        (Answer(409, {"message": "stay"}), False),
        (Answer(503, {"message": "who knows"}), False),
        (Answer(502, b"<html>"), None),
        (Answer(503, b"<html><body><h1>503 Service Unavailable</h1>"), None),
        (Answer(500, {}), None),
        (Answer(fault="reset"), None),
    ],
)
def test_what_counts_as_an_answer(server, answer, accepted):
    """Only 200 is a yes; a service that has failed, or a proxy in its place, has not answered."""
    server.on("POST", STOP, answer)
    server.on("POST", "/elsewhere", Answer(200, {}))
    config = {"cluster_name": "demo", "autostop": {**ACCESS, "url": server.url}}
    told = Callback(config, "vm-1").ask("idle")
    assert told.accepted is accepted
    assert ACCESS["password"] not in told.text
    (seen,) = server.requests
    assert seen.query == {"instance": ["vm-1"], "reason": ["idle"]}
    assert seen.headers["Authorization"].startswith("Basic ")


def test_nobody_listens():
    """Is no answer, which is said in words, and not by classes of the HTTP library."""
    config = {"cluster_name": "d", "autostop": {**ACCESS, "url": "http://127.0.0.1:9"}}
    told = Callback(config, "x").ask("")
    assert told.accepted is None
    assert told.text.endswith("/stop does not answer: [Errno 111] Connection refused")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"url": "ftp://x"}, "autostop.url: expected an address"),
        ({"url": "http://u:p@x"}, "expected user and password in keys of their own"),
        ({"url": "http://x"}, "cluster_name: expected"),
        ({}, "url of the CycleCloud server is not set"),
    ],
)
def test_addresses_that_will_not_do(section, said, monkeypatch):
    """Are refused before anything is asked."""
    monkeypatch.delenv("CYCLECLOUD_URL", raising=False)
    with pytest.raises(ConfigurationException, match=said):
        Callback({"autostop": {**ACCESS, **section}}, "x")


def test_addresses():
    """One that ends in /stop is complete; the name of the cluster is quoted; else CycleCloud's."""
    complete = {"autostop": {**ACCESS, "url": "http://x/cloud/actions/autoscale/c/stop"}}
    assert Callback(complete, "i").url == "http://x/cloud/actions/autoscale/c/stop"
    of_cyclecloud = {"url": "https://cc/", "cluster_name": "a/b c", "autostop": ACCESS}
    assert Callback(of_cyclecloud, "i").url == "https://cc/cloud/actions/autoscale/a%2Fb%20c/stop"


def test_a_service_with_tls(home):
    """Is believed by the authority that the configuration names, and by no other."""
    authority = CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(str(home / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(home / "cert.pem"))
    authority.cert_pem.write_to_path(str(home / "ca.pem"))
    with an_autostop_site(home) as site:
        command = [sys.executable, "-m", "hpc.autoscale.cli", "serve-autostop", "--port", "0"]
        tls = ["--tls-cert", str(home / "cert.pem"), "--tls-key", str(home / "key.pem")]
        service = subprocess.Popen(
            [*command, "-c", str(site.path), *tls], stdout=subprocess.PIPE, text=True
        )
        try:
            url = service.stdout.readline().strip()
            assert url.startswith("https://")
            config = {"cluster_name": "demo", "autostop": {**ACCESS, "url": url}}
            assert (
                Callback({**config, "ca_file": str(home / "ca.pem")}, "x").ask("").accepted is False
            )
            assert Callback(config, "x").ask("").accepted is None
        finally:
            service.send_signal(signal.SIGTERM)
            assert service.wait(30) == 0
            service.stdout.close()


# -- events of Azure


def an_event(kind="Preempt", resources=("vm-name",), event_id="e1"):
    """One event, as Azure's metadata service lists it."""
    return {
        "EventId": event_id,
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": list(resources),
        "EventStatus": "Scheduled",
        "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
    }


def test_events(server):
    """Those of this machine, asked for with the header that Azure wants, and never acknowledged."""
    listing = {"DocumentIncarnation": 1, "Events": [an_event(), an_event("Reboot", ["other"])]}
    server.on("GET", EVENTS, Answer(200, listing))
    server.on("GET", NAME, Answer(200, b"vm-name"))
    (event,) = Metadata(server.url).events()
    assert (event.kind, event.ends_it, event.event_id) == ("Preempt", True, "e1")
    asked = server.seen("GET", EVENTS)[0]
    assert asked.headers["Metadata"] == "true"
    assert asked.query == {"api-version": ["2020-07-01"]}
    assert {seen.method for seen in server.requests} == {"GET"}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, {}),
        Answer(200, b"<html>"),
        Answer(200, []),
        Answer(200, {"Events": [{}]}),
        Answer(200, {"Events": None}),
        Answer(fault="reset"),
    ],
)
def test_a_metadata_service_in_trouble(server, answer):
    """Has no events."""
    server.on("GET", EVENTS, answer)
    assert Metadata(server.url).events() == []
    assert Metadata("http://127.0.0.1:9").events() == []


# -- in a loop


def test_watching(machine, server):
    """Goes on until the node stops; then it ends with exit code 0."""
    server.on("POST", STOP, Answer(409, {"message": "stay"}), Answer(200, {"message": "go"}))
    machine.configure(idle_time_before_jobs=0, interval=0.2)
    watching = machine.start("--watch")
    said = watching.communicate(timeout=60)[0].splitlines()
    assert watching.returncode == 0
    assert [line.rpartition("; ")[2] for line in said] == ["status 409: stay", "stopping"]
    assert machine.has_stopped


def test_watching_is_ended(machine, server):
    """By SIGTERM, between two looks; events are looked for in between."""
    server.on("GET", EVENTS, Answer(200, {"Events": [an_event("Terminate")]}))
    server.on("GET", NAME, Answer(200, b"vm-name"))
    note = ["sh", "-c", f"echo $AUTOSTOP_EVENT $AUTOSTOP_EVENT_ID >> {machine.home}/notices"]
    machine.configure(scheduled_events=True, metadata_url=server.url, notice_command=note)
    watching = machine.start("--watch")
    line = watching.stdout.readline()
    assert "Azure ends this machine: Terminate not before Mon" in line
    watching.send_signal(signal.SIGTERM)
    assert watching.wait(60) == 0
    watching.stdout.close()
    assert (machine.home / "notices").read_text() == "Terminate e1\n"
    assert not machine.has_stopped


def test_watching_until_the_node_stops(machine, server):
    """Look after look at the interval; a look that fails is said and does not end it."""
    clock.use_mock_clock()
    state = machine.home / "state.json"
    state.mkdir()  # in its place nothing can be written
    waits = []
    sleep = clock.sleep

    def wait(seconds):
        sleep(seconds)
        waits.append(seconds)
        if len(waits) == 100 and state.is_dir():
            state.rmdir()

    server.on("POST", STOP, Answer(409, {"message": "stay"}), Answer(200, {"message": "go"}))
    with patch.object(clock, "sleep", wait):
        machine.configure(interval=60)
        cli.main(["autostop", "-c", str(machine.path), "--watch"])
    said = machine.capsys.readouterr()
    assert said.err.count("it cannot be written: Is a directory") == 1
    assert machine.has_stopped
    first, *_, last = said.out.splitlines()
    assert first.startswith("idle for 0 s")
    assert last.endswith("go; stopping")
    assert "stay" in said.out
    assert sum(waits) >= 60 * len(said.out.splitlines())


def test_events_of_azure_are_looked_for_between_looks(machine, server, monkeypatch):
    """Every five seconds; a state that cannot be written then does not end it."""
    clock.use_mock_clock()
    seen = []

    def notice(watcher):
        seen.append(clock.time())
        raise StateError("state file: it cannot be written")

    monkeypatch.setattr(Watcher, "notice", notice)
    monkeypatch.setattr(Watcher, "look", lambda _: ("idle", len(seen) > 9))
    machine("--watch", interval=60)
    gaps = {after - before for before, after in itertools.pairwise(seen[:10])}
    assert gaps == {5.0}


def test_the_service_until_a_signal(home, capsys):
    """It answers at the address that it prints, in this process, and then no more."""
    config = {"cluster_name": "demo", "url": "http://127.0.0.1:9", "username": "u", "password": "p"}
    path = home / "autoscale.json"
    path.write_text(json.dumps({**config, "autostop": ACCESS}))
    path.chmod(0o600)
    answered, asking = [], []

    def ask(url):
        try:
            answered.append((url, requests.post(url, timeout=30).status_code))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    class Screen(io.StringIO):
        def flush(self):
            if self.getvalue() and not asking:
                asking.append(threading.Thread(target=ask, args=[self.getvalue().strip()]))
                asking[0].start()

    with patch.object(sys, "stdout", Screen()):
        cli.main(["serve_autostop", "-c", str(path), "--port", "0"])
    asking[0].join()
    ((url, code),) = answered
    assert (url.startswith("http://127.0.0.1:"), code) == (True, 401)
    with pytest.raises(requests.ConnectionError):
        requests.post(url, timeout=30)
    with pytest.raises(SystemExit, match="2"):
        cli.main(["serve_autostop", "-c", str(path), "--tls-key", str(path)])
    assert "expected --tls-cert and --tls-key together" in capsys.readouterr().err


def test_one_at_a_time(machine):
    """A second watcher of the same node ends at once, with the exit code for that."""
    machine.configure(interval=60)
    first = machine.start("--watch")
    try:
        first.stdout.readline()
        second = machine.start()
        assert second.wait(60) == 3
        second.stdout.close()
    finally:
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0
        first.stdout.close()


def test_who_the_node_is(machine, server, home, monkeypatch):
    """Is said by jetpack where nobody says it, also where it is not on PATH, as for cron; without
    either it is an error."""
    machine.section.pop("instance")
    server.on("POST", STOP, Answer(409, {"message": "stay"}))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CYCLECLOUD_HOME", str(home))
    with pytest.raises(SystemExit):
        machine()
    said = machine.capsys.readouterr().err
    assert "autostop.instance: expected the InstanceId" in said and f"{home}/bin" in said
    jetpack = home / "bin" / "jetpack"
    jetpack.parent.mkdir()
    jetpack.write_text('#!/bin/sh\n[ "$*" = "config cyclecloud.instance.id" ] && echo vm-7\n')
    jetpack.chmod(0o755)
    assert "stay" in machine(idle_time_before_jobs=0)
    assert server.requests[-1].query["instance"] == ["vm-7"]
