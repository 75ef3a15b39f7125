"""What `azscale doctor` looks at: a row of CHECKS each, with what to do about it.

A check looks at a `Site` and gives findings; it changes nothing. docs/doctor.md is generated from
the rows. Called by `doctor`, which prints what was found.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hpc.autoscale import clock
from hpc.autoscale._version import __version__
from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.autoscaler.learning import nothing_to_start
from hpc.autoscale.backoff.held import HeldBack
from hpc.autoscale.ccbindings import errors
from hpc.autoscale.cli.checking import check_alone, check_with_cluster
from hpc.autoscale.cli.drivers import GenericDriver
from hpc.autoscale.cli.servers import Server
from hpc.autoscale.config.clusters import members_of
from hpc.autoscale.config.load import load_with_duplicates
from hpc.autoscale.errors import ConfigurationException, counted, one_line
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.lockstate import Lock, lock_state
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.nodemanager.policies import configured_policy
from hpc.autoscale.onpremises import ON_PREMISES
from hpc.autoscale.requestsets.store import store_path
from hpc.autoscale.util import history_file_of, lock_file_of
from hpc.autoscale.wsgi.loopback import is_loopback

Config = dict[str, Any]

CLOCK_MAY_DIFFER = 5.0
"""Seconds by which the server's clock may differ: a Date header has whole ones, and takes a
while."""
CLOCK_MUST_NOT_DIFFER = 60.0
CERTIFICATE_ENDS_SOON = 14 * 86400.0
DISK_IS_FULL = 16 * 2**20
"""Bytes below which nothing is written safely any more."""
DISK_IS_NEARLY_FULL = 256 * 2**20

_ABOUT_ERRORS = {
    errors.CertificateError: "certificate",
    errors.AuthenticationFailed: "credentials",
    errors.AccessDenied: "permissions",
    errors.NotFound: "permissions",
}
# by the word with which a ConfigurationException begins
_ABOUT_KEYS = {"url": "server", "ca_file": "certificate", "expected": "permissions"}
_OF_AN_ADDRESS = "write url as https://host or https://host:port"
_OF_CREDENTIALS_FILE = (
    "name a JSON file with credentials_file that has username and password, and that only the user"
    " that runs azscale can read (chmod 600)"
)
_OF_AN_UNKNOWN_LOCK = (
    "look whether a loop runs where it would run, and as its user; `azscale autoscale` ends with"
    " exit code 3 while somebody holds the lock"
)
_OF_A_DRIVER = (
    "the driver was found: correct what it says of the configuration, as the driver's own"
    " documentation has it"
)


class CheckState(StrEnum):
    """What came of a look."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Observation(NamedTuple):
    """One thing that was found; `of` is the cluster that it is about, where there are several.

    `remedy`: what to do about it, where that is known better than in the check's remedy; empty
    where the text says it.
    """

    verdict: CheckState
    text: str
    of: str = ""
    remedy: str | None = None


@dataclass(frozen=True)
class Check:
    """One row. `remedy`: what to do about a finding that knows no better. `needs`: checks without
    which it makes no sense."""

    name: str
    what: str
    remedy: str
    look: Callable[[Site], Iterable[Observation]]
    needs: Sequence[str] = ()

    def remedy_for(self, found: Observation) -> str:
        """What to do about a finding of this check; empty where there is nothing to add."""
        if found.verdict not in (CheckState.WARNING, CheckState.FAILED):
            return ""
        return self.remedy if found.remedy is None else found.remedy


@dataclass
class Site:
    """What checks look at. `path`: of the configuration, or None; `looked`: where it was looked
    for.

    `prepare` gives the driver, and the configuration with what the driver adds to it; `connect`
    reads the cluster with these. `commands`: those that there are.
    """

    path: str | None
    looked: str
    commands: Sequence[str]
    prepare: Callable[[Config], tuple[SchedulerDriver, Config]]
    connect: Callable[[Config], NodeManager]
    home: Callable[[Config], str]

    @cached_property
    def config(self) -> Config:
        """The configuration; nothing is written with it."""
        loaded: Config = load_with_duplicates(self.path or "")[0]
        return {**loaded, "read_only": True, "lock_file": None}

    @cached_property
    def prepared(self) -> tuple[SchedulerDriver, Config]:
        """The driver, and the configuration with what it adds."""
        return self.prepare(dict(self.config))

    @cached_property
    def servers(self) -> list[Server]:
        """The server of each cluster."""
        several = [Server(name, own) for name, own in members_of(self.config)]
        return several or [Server("", self.config)]

    @cached_property
    def node_mgr(self) -> NodeManager:
        """The cluster, as a pass reads it."""
        return self.connect(self.prepared[1])

    @cached_property
    def files(self) -> dict[str, str]:
        """The files that a pass writes, by the key that names them."""
        config = load_with_duplicates(self.path or "")[0]
        home = self.home(config)
        files = {
            "lock_file": lock_file_of(config, os.path.join(home, "lock.file")),
            "nodehistorydb": history_file_of(config, home),
            "requests_file": config.get("requests_file"),
        }
        return {key: os.path.abspath(str(path)) for key, path in files.items() if path}

    @property
    def other_places(self) -> dict[str, str]:
        """The directories of what a pass writes if it was told to, and can do without, by key."""
        metrics, journal = self.config.get("metrics") or {}, self.config.get("journal")
        files = {f"metrics.{key}": metrics.get(key) for key in ("file", "health_file")}
        places = {key: os.path.dirname(os.path.abspath(p)) for key, p in files.items() if p}
        if isinstance(journal, dict) and journal.get("directory"):
            place = os.path.abspath(journal["directory"])
            # it is made when it is first written to
            places["journal.directory"] = place if os.path.exists(place) else os.path.dirname(place)
        return places


def _ok(text: str, of: str = "") -> Observation:
    return Observation(CheckState.OK, text, of)


def _warning(text: str, of: str = "", remedy: str | None = None) -> Observation:
    return Observation(CheckState.WARNING, text, of, remedy)


def _failed(text: str, of: str = "", remedy: str | None = None) -> Observation:
    return Observation(CheckState.FAILED, text, of, remedy)


def _configuration(site: Site) -> Iterator[Observation]:
    if site.path is None:
        remedy = "`azscale initconfig` makes a first one; -c names one that is elsewhere"
        yield _failed(f"none found: looked for {site.looked}", remedy=remedy)
        return
    found = list(check_alone(site.path, site.commands))
    for finding in found:
        yield (_failed if finding.is_error else _warning)(finding.text, remedy=finding.remedy)
    if not any(finding.is_error for finding in found):
        with suppress(Exception):  # a driver may bring policies; a check of its own looks at it
            _ = site.prepared
        try:
            configured_policy(site.config)
        except ConfigurationException as error:
            yield _failed(one_line(error))
            return
    if not found:
        yield _ok(site.path)


def _versions(site: Site) -> Iterator[Observation]:
    wants = {"packing.objective": ("cost", "highspy", "optimize")}
    for key, (value, module, extra) in wants.items():
        section, _, name = key.partition(".")
        if (site.config.get(section) or {}).get(name) == value:
            try:
                importlib.import_module(module)
            except ImportError as error:
                yield _failed(f"{key} is {value!r}, which needs the extra [{extra}]: {error}")
    yield _ok(f"hpc-autoscale {__version__}, Python {platform.python_version()}")


def _driver(site: Site) -> Iterator[Observation]:
    named = site.config.get("driver")
    try:
        driver, _ = site.prepared
    except Exception as error:  # noqa: BLE001  drivers are not ours
        text = one_line(error)
        # what keeps it from being loaded is said of this key; all else the driver says itself
        is_loaded = not (isinstance(error, ConfigurationException) and text.startswith("driver: "))
        yield _failed(text, remedy=_OF_A_DRIVER if is_loaded else None)
        return
    if named or type(driver) is not GenericDriver:
        yield _ok(str(named or driver.name))
    elif os.path.exists(path := store_path(site.config, site.home(site.config))):
        yield _ok(f"none: the requests that were reported to {path} are served")
    else:
        yield _warning(
            f"none, and nobody has reported a request to {path}: no jobs are known of",
            remedy="name that of your scheduler as package.module:Class in the key driver, or"
            " report requests (docs/plug-in-api.md)",
        )


def _scheduler(site: Site) -> Iterator[Observation]:
    driver, config = site.prepared
    if type(driver) is GenericDriver:
        yield _ok("none is asked, as there is no driver")
        return
    jobs, hosts = hooks.read(driver, config)
    yield _ok(f"{counted(len(jobs), 'job')}, {counted(len(hosts), 'host')}")


def _check_about(problem: Exception) -> str:
    """Which check is about what went wrong when a server was asked."""
    if isinstance(problem, ConfigurationException):
        key = re.split(r"\W", str(problem), maxsplit=1)[0]
        return _ABOUT_KEYS.get(key, "credentials")
    return next(
        (name for kind, name in _ABOUT_ERRORS.items() if isinstance(problem, kind)), "server"
    )


def _server(site: Site) -> Iterator[Observation]:
    for server in site.servers:
        problem = server.ask()
        if problem is None:
            yield _ok(f"{server.config.get('url')} answers", server.name)
        elif _check_about(problem) == "server":
            remedy = _OF_AN_ADDRESS if isinstance(problem, ConfigurationException) else None
            yield _failed(one_line(problem), server.name, remedy)


def _certificate(site: Site) -> Iterator[Observation]:
    for server in site.servers:
        problem = server.ask()
        parts = urlsplit(str(server.config.get("url") or ""))
        if problem is not None and _check_about(problem) == "certificate":
            yield _failed(one_line(problem), server.name, _remedy_of_tls(str(problem)))
        elif parts.scheme == "http":
            if is_loopback(parts.hostname or ""):
                yield _ok("none needed: the server is on this machine", server.name)
            else:
                yield _warning(
                    "none: the password goes to the server in the clear",
                    server.name,
                    "write https:// in url, once the server has a certificate",
                )
        elif server.config.get("verify_certificates") is False:
            yield _warning(
                "not verified: verify_certificates is false",
                server.name,
                "take verify_certificates out, and name the issuer's certificate with ca_file",
            )
        elif server.reply is not None:
            yield _expiry(parts.hostname or "", parts.port or 443, server)


def _remedy_of_tls(text: str) -> str | None:
    """What to do where no certificate was accepted."""
    if re.search("WRONG_VERSION|record layer", text, re.IGNORECASE):
        return (
            "the server speaks plain HTTP at this port: write http:// in url, or give the port at"
            " which it speaks HTTPS"
        )
    if re.search("hostname|IP address mismatch|doesn't match", text, re.IGNORECASE):
        return "write the name in url that the certificate is for, or have it made for this one"
    if text.startswith("ca_file"):
        return "name a file with ca_file that is there, or take it out"
    return None


def _expiry(host: str, port: int, server: Server) -> Observation:
    """When the server's certificate ends, read over a connection of its own."""
    ca_file = server.config.get("ca_file") or os.getenv("REQUESTS_CA_BUNDLE")
    if not ca_file:
        from requests.utils import DEFAULT_CA_BUNDLE_PATH

        ca_file = DEFAULT_CA_BUNDLE_PATH
    context = ssl.create_default_context(cafile=os.path.expanduser(ca_file))
    try:
        with (
            socket.create_connection((host, port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            ends = ssl.cert_time_to_seconds(str((secure.getpeercert() or {})["notAfter"]))
    except (OSError, KeyError, ValueError) as error:
        return _ok(f"verified; when it ends is not known: {one_line(error)}", server.name)
    left = ends - clock.time()
    if left < CERTIFICATE_ENDS_SOON:
        text = f"verified; it ends in {left / 86400:.0f} days"
        return _warning(text, server.name, "have it renewed")
    return _ok(f"verified; it ends in {left / 86400:.0f} days", server.name)


def _credentials(site: Site) -> Iterator[Observation]:
    for server in site.servers:
        problem = server.ask()
        if problem is not None and _check_about(problem) == "credentials":
            is_of_file = str(problem).startswith("credentials_file")
            remedy = _OF_CREDENTIALS_FILE if is_of_file else None
            yield _failed(one_line(problem), server.name, remedy)
        elif server.reply is not None:
            yield _ok(f"user {server.config.get('username')}", server.name)


def _permissions(site: Site) -> Iterator[Observation]:
    for server in site.servers:
        problem = server.ask()
        if problem is not None and _check_about(problem) == "permissions":
            yield _failed(one_line(problem), server.name)
        elif problem is None:
            name = server.config.get("cluster_name")
            yield _ok(
                f"cluster {name} can be read; whether {server.config.get('username')} may create"
                " nodes in it, only a create tells: `azscale create_nodes -n 1`",
                server.name,
            )


def _clock(site: Site) -> Iterator[Observation]:
    for server in site.servers:
        server.ask()
        if server.reply is None:
            continue
        if server.ahead is None:
            yield Observation(
                CheckState.SKIPPED, "the server does not say what time it is", server.name
            )
            continue
        by = abs(server.ahead)
        text = f"the server's is {by:.0f} s {'ahead of' if server.ahead > 0 else 'behind'} ours"
        if by >= CLOCK_MUST_NOT_DIFFER:
            yield _failed(text, server.name)
        elif by >= CLOCK_MAY_DIFFER:
            yield _warning(text, server.name)
        else:
            yield _ok("as the server's", server.name)


def _quotas(site: Site) -> Iterator[Observation]:
    manager = site.node_mgr
    nothing = nothing_to_start(manager)
    if nothing:
        yield _failed(nothing)
        return
    zero: dict[str, set[str]] = {}
    grown = [b for b in manager.get_buckets() if b.location != ON_PREMISES]
    for bucket in grown:
        for limit in bucket.limits.parts:
            # what a bucket has left, and what rests, is 0 at times without being a quota
            if limit is bucket.limits.own or isinstance(limit, HeldBack):
                continue
            if 0 in (limit.max_cores, limit.max_nodes):
                zero.setdefault(limit.name, set()).add(f"{bucket.nodearray} {bucket.vm_size}")
    for name, buckets in zero.items():
        yield _warning(f"{name} is 0, so nothing can be started of {_some(buckets)}")
    unusable = {f"{b.nodearray} {b.vm_size}" for b in manager.get_invalid_buckets()}
    if unusable:
        yield _warning(f"CycleCloud says that these cannot be used: {_some(unusable)}")
    if not zero and not unusable:
        yield _ok(f"none is 0, for {counted(len(grown), 'bucket')}")


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + more


def _names(site: Site) -> Iterator[Observation]:
    found = list(check_with_cluster(site.prepared[1], lambda _: site.node_mgr))
    for finding in found:
        yield (_failed if finding.is_error else _warning)(finding.text)
    if not found:
        yield _ok("the cluster has all that the configuration names")


def _lock(site: Site) -> Iterator[Observation]:
    path = site.files.get("lock_file")
    if path is None:
        yield _warning("lock_file is null: two autoscalers may get into each other's way")
        return
    of_driver = False
    with suppress(Exception):  # a driver that cannot be had is what another check is about
        of_driver = hooks.has_own_lock(site.prepared[0])
    found = lock_state(site.config, path, of_driver)
    if found.state is not Lock.UNKNOWN:
        yield _ok(str(found))
        return
    is_a_place = os.path.isdir(os.path.dirname(path)) and not os.path.isdir(path)
    yield _warning(str(found), remedy=_OF_AN_UNKNOWN_LOCK if is_a_place else None)


def _files(site: Site) -> Iterator[Observation]:
    wrong: list[Observation] = []
    for key, path in site.files.items():
        if problem := _no_place_in(os.path.dirname(path)):
            wrong.append(_failed(f"{key}: {problem}"))
        elif os.path.isdir(path):
            text = f"{key}: {path} is a directory"
            wrong.append(_failed(text, remedy=f"name a file with {key}, as in {path}/{key}"))
        elif os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
            remedy = f"give the file to the user that runs azscale, or name another with {key}"
            wrong.append(_failed(f"{key}: this user cannot write {path}", remedy=remedy))
    for key, directory in site.other_places.items():
        if problem := _no_place_in(directory):
            wrong.append(_warning(f"{key}: {problem}; passes go on, and it is not written"))
    yield from wrong
    if not wrong:
        yield _ok(", ".join(dict.fromkeys(map(os.path.dirname, site.files.values()))))


def _no_place_in(directory: str) -> str | None:
    """What keeps this user from writing in a directory; None where nothing does."""
    if not os.path.isdir(directory):
        return f"there is no directory {directory}"
    may_write = os.access(directory, os.W_OK | os.X_OK)
    return None if may_write else f"this user cannot write in {directory}"


def _disk(site: Site) -> Iterator[Observation]:
    directories = dict.fromkeys(map(os.path.dirname, site.files.values()))
    for directory in filter(os.path.isdir, directories):
        free = shutil.disk_usage(directory).free
        text = f"{free // 2**20} MB free in {directory}"
        if free < DISK_IS_FULL:
            yield _failed(text)
        else:
            yield (_warning if free < DISK_IS_NEARLY_FULL else _ok)(text)


CHECKS = (
    Check(
        "configuration",
        "autoscale.json is found and valid, and no file with a password can be read by everybody",
        "correct the keys that are named (`azscale config --schema` says what each may be);"
        " `azscale initconfig` makes a first one",
        _configuration,
    ),
    Check(
        "versions",
        "what the configuration asks for is installed",
        "install the extra: pip install 'hpc-autoscale[optimize]'",
        _versions,
        ("configuration",),
    ),
    Check(
        "files",
        "the directories of lock_file, nodehistorydb and requests_file are there and can be"
        " written; a warning for those of metrics and the journal",
        "create the directory, give it to the user that runs azscale, or name another one",
        _files,
        ("configuration",),
    ),
    Check(
        "disk",
        "there is room where these files are: a warning below 256 MB, a failure below 16 MB",
        "make room: without it no create or delete is recorded, so none is sent",
        _disk,
        ("configuration", "files"),
    ),
    Check(
        "lock",
        "there is a lock, and who holds it; a warning where that is not known",
        "name a file with lock_file, the same for everything that scales this cluster",
        _lock,
        ("configuration",),
    ),
    Check(
        "server",
        "the server at url answers as CycleCloud does",
        "check url, name resolution, firewall and proxy: curl -k URL/clusters should answer",
        _server,
        ("configuration",),
    ),
    Check(
        "certificate",
        "its certificate is trusted and lasts for 14 more days",
        "name the issuer's certificate with ca_file; have it renewed where it ends",
        _certificate,
        ("configuration",),
    ),
    Check(
        "credentials",
        "user and password are known and accepted",
        "set username and password, CYCLECLOUD_USERNAME and CYCLECLOUD_PASSWORD, or"
        " credentials_file; try them in CycleCloud's web page",
        _credentials,
        ("configuration", "server", "certificate"),
    ),
    Check(
        "permissions",
        "the user may read the cluster, and there is one of that name (not: whether it may create)",
        "check cluster_name; give the user the role Cluster Administrator, or make it the owner",
        _permissions,
        ("configuration", "server", "certificate", "credentials"),
    ),
    Check(
        "clock",
        "this machine's clock is that of the server (its Date header): a warning from 5 s on, a"
        " failure from 60 s on",
        "have the clock set: timedatectl set-ntp true, or chronyc makestep",
        _clock,
        ("configuration", "server", "certificate"),
    ),
    Check(
        "driver",
        "the scheduler driver that the configuration names can be loaded, and accepts the"
        " configuration",
        "name it as package.module:Class in the key driver; it is looked for where Python looks,"
        " and beside autoscale.json",
        _driver,
        ("configuration",),
    ),
    Check(
        "scheduler",
        "the driver can read jobs and hosts",
        "run `azscale jobs --debug`; check that the scheduler's commands work for this user",
        _scheduler,
        ("configuration", "driver"),
    ),
    Check(
        "names",
        "nodearrays, VM sizes, resources and columns in the configuration exist in the cluster",
        "correct the names, or remove what is not there any more",
        _names,
        ("configuration", "server", "certificate", "credentials", "permissions", "driver"),
    ),
    Check(
        "quotas",
        "something can be started, and no limit or quota is 0",
        "raise the quota in Azure, or the limit in the cluster template, and take sizes out of it"
        " that the region does not have; `azscale limits` prints all limits",
        _quotas,
        ("configuration", "server", "certificate", "credentials", "permissions", "driver", "names"),
    ),
)


def examine(site: Site) -> Iterator[tuple[Check, Observation]]:
    """Every check in turn; one that needs what has failed is skipped."""
    failed: set[str] = set()
    for check in CHECKS:
        lacking = [name for name in check.needs if name in failed]
        if lacking:
            failed.add(check.name)
            yield check, Observation(CheckState.SKIPPED, f"needs {lacking[0]}")
            continue
        try:
            found = list(check.look(site))
        except Exception as error:  # noqa: BLE001  drivers are not ours; the others are looked at
            found = [_failed(one_line(error))]
        if any(finding.verdict is CheckState.FAILED for finding in found):
            failed.add(check.name)
        for finding in found:
            yield check, finding
