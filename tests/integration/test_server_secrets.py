"""The password of the server, and what it is sent as, are in nothing that is shown: whatever the
server does with them, wherever they come from, at every level of the log."""

import base64
import html
import json
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from builders.scripted_server import Answer, FakeTime, ScriptedServer, Seen, serving
from hpc.autoscale import cli, hpclogging
from hpc.autoscale.ccbindings import new_cluster_bindings, settings
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.simulator import Simulator, serve

PASSWORD = 'hunter2/ö"&+ x<\\y'
USER = "some one"
TOKEN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
FORMS = [
    PASSWORD,
    repr(PASSWORD)[1:-1],
    json.dumps(PASSWORD)[1:-1],
    json.dumps(json.dumps(PASSWORD))[3:-3],
    quote(PASSWORD),
    quote(PASSWORD, safe=""),
    quote_plus(PASSWORD),
    html.escape(PASSWORD),
    TOKEN,
    base64.b64encode(PASSWORD.encode()).decode().rstrip("="),
]
# what all of them begin with, or have in them
PARTS = ["hunter2", "aHVudGVyM", "h1bnRlcj", "odW50ZXIy"]
LEVELS = [logging.ERROR, logging.INFO, logging.DEBUG, hpclogging.FINE, hpclogging.REPRO]
DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        return [Job("1", {"ncpus": 1}, iterations=2)], []
"""
COMMANDS = [
    ["connect"],
    ["nodes"],
    ["buckets"],
    ["autoscale"],
    ["demand"],
    ["debug_cluster_status"],
    ["create_nodes", "-n", "1"],
    ["delete_nodes", "-N", "htc-1", "--force"],
    ["retry_failed_nodes"],
    ["config"],
    ["config", "--check"],
    ["requests"],
]


def _said(seen: Seen) -> str:
    """Everything that a server knows of the login, in all forms."""
    return f"Login {seen.headers.get('Authorization')}: {' | '.join(FORMS)}"


def _fault(kind: str, seen: Seen) -> Answer:
    said = _said(seen)
    location = {"Location": f"https://{quote(USER)}:{quote(PASSWORD, safe='')}@other/?t={TOKEN}"}
    return {
        "401": Answer(401, {"Message": said, "Detail": seen.headers}),
        "401 page": Answer(401, f"<html><title>{html.escape(said)}</title>".encode()),
        "403": Answer(403, [said]),
        "409": Answer(409, {"Message": said}),
        "429": Answer(429, {"Message": said}, {"Retry-After": "3000"}),
        "500": Answer(500, json.dumps(seen.headers).encode()),
        "500 text": Answer(500, said.encode()),
        "503": Answer(503, {"Message": said}, {"Retry-After": "0"}),
        "302": Answer(302, said.encode(), location),
        "garbage": Answer(200, said.encode()),
        "other JSON": Answer(200, {"nodearrays": said, "nodes": [said], "maxCount": said}),
        "silence": Answer(fault="silence"),
        "reset": Answer(fault="reset"),
        "cut": Answer(200, {"nodes": said}, fault="cut"),
    }[kind]


FAULTS = [
    "401", "401 page", "403", "409", "429", "500", "500 text", "503", "302", "garbage",
    "other JSON", "silence", "reset", "cut",
]  # fmt: skip


def found_in(text: str) -> list[str]:
    """The forms and the parts of the password that a text has."""
    return [form for form in FORMS + PARTS if form in text]


@pytest.fixture
def echo(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    """A server that repeats the login in each reply, in the manner of a fault."""
    with serving() as server:

        def answer(seen: Seen) -> Answer:
            server.requests.append(seen)
            return _fault(request.param, seen)

        server.answer = answer  # type: ignore[method-assign]
        yield server


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses take no time."""
    monkeypatch.setattr(settings, "pacing", lambda config: FakeTime().pacing(attempts=2))


class Place:
    """A directory with a configuration and a driver."""

    def __init__(self, home: Path, url: str, **more: Any) -> None:
        self.home = home
        self.config = {
            "cluster_name": "c",
            "url": url,
            "username": USER,
            "password": PASSWORD,
            "driver": "secretdriver:Driver",
            "timeout": 0.3,
            "retry": {"attempts": 2, "max_retry_after": 1},
            **more,
        }
        (home / "secretdriver.py").write_text(DRIVER)
        self.path = home / "autoscale.json"
        self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps(self.config))
        self.path.chmod(0o600)

    def files(self) -> str:
        """What has been written beside the configuration."""
        here = [p for p in self.home.rglob("*") if p.is_file() and p != self.path]
        return "\n".join(p.read_bytes().decode("latin-1") for p in here)


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("echo", FAULTS, indirect=True)
def test_a_pass_and_every_command_at_every_level(
    echo: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In this process: what is printed, logged, raised and written."""
    place = Place(tmp_path, echo.url)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    for level, commands in zip(LEVELS, [["autoscale"]] * 4 + [COMMANDS], strict=True):
        caplog.set_level(level)
        for argv in commands if level == hpclogging.REPRO else [["autoscale"]]:
            try:
                cli.main([argv[0], "-c", str(place.path), *argv[1:]])
            except SystemExit:
                pass
            except AutoscaleError as error:
                assert not found_in("".join(traceback.format_exception(error)))
            ended = capsys.readouterr()
            assert not found_in(ended.out + ended.err), argv
    assert not found_in(caplog.text) and not found_in(place.files())
    assert echo.requests and all(
        seen.headers["Authorization"] == f"Basic {TOKEN}" for seen in echo.requests
    )


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("echo", FAULTS, indirect=True)
def test_errors_and_what_they_have_on_them(echo: ScriptedServer, tmp_path: Path) -> None:
    """Text, repr, arguments, attributes and stack traces, causes included."""
    config = Place(tmp_path, echo.url).config
    binding = new_cluster_bindings(config)
    shown = [repr(binding), str(binding), repr(binding.session), repr(binding.client)]
    for call in (binding.get_cluster_status, binding.get_nodes, binding.retry_failed_nodes):
        try:
            call()
        except AutoscaleError as error:
            attributes = {k: v for k, v in vars(error).items() if not k.startswith("__")}
            shown += [repr(error), str(error), repr(error.args), repr(attributes)]
            shown += traceback.format_exception(error)
    assert len(shown) > 4 and not found_in("\n".join(shown))


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    description = {"clusters": {"c": {"region": "westus2", "nodearrays": {"htc": {
        "machine_types": ["Standard_F4s_v2"]}}}}}  # fmt: skip
    with serve(description, username=USER, password=PASSWORD) as running:
        yield running


SOURCES = ["config", "environment", "credentials_file", "jetpack"]


@pytest.mark.parametrize("source", SOURCES)
def test_a_process_with_everything_in_its_log(
    simulator: Simulator, tmp_path: Path, source: str
) -> None:
    """`azscale --debug` with a log of the lowest level, and a password from each place it may come
    from; a pass that works, then a wrong password."""
    log = {
        "version": 1,
        "handlers": {"file": {"class": "logging.FileHandler", "filename": f"{tmp_path}/log.txt"}},
        "root": {"level": 1, "handlers": ["file"]},
    }
    place = Place(tmp_path, simulator.url, logging={"config": log})
    environ = {**os.environ, "AUTOSCALE_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    if source != "config":
        del place.config["password"]
    if source == "environment":
        environ["CYCLECLOUD_PASSWORD"] = PASSWORD
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    if source == "credentials_file":
        secret = elsewhere / "secret.json"
        secret.write_text(json.dumps({"password": PASSWORD}))
        secret.chmod(0o600)
        place.config["credentials_file"] = str(secret)
    if source == "jetpack":
        del place.config["username"]
        (elsewhere / "said").write_text(PASSWORD)
        jetpack = elsewhere / "jetpack"
        jetpack.write_text(
            f"#!/bin/sh\ncase $2 in *password) cat {elsewhere}/said;; *) echo {USER};; esac\n"
        )
        jetpack.chmod(0o755)
        environ["PATH"] = f"{elsewhere}:{environ['PATH']}"
    place.write()
    runs = [["autoscale"], ["--debug", "autoscale"]]
    if source == "config":  # what a command says does not depend on where the password came from
        runs += [["--debug", "autoscale", "--dry-run"], ["config"], ["nodes"]]
    for argv in runs:
        ended = subprocess.run(
            [sys.executable, "-m", "hpc.autoscale.cli", *argv, "-c", str(place.path)],
            env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert not found_in(ended.stdout + ended.stderr), argv
    assert "HTTP 200" in (tmp_path / "log.txt").read_text()
    assert not found_in(place.files())


def test_the_search_finds_it() -> None:
    """In any of the forms that the server sends."""
    seen = Seen("GET", "/", {}, {"Authorization": f"Basic {TOKEN}"}, b"")
    assert found_in(_said(seen))[: len(FORMS)] == FORMS
    assert all(found_in(form) for form in FORMS)
