"""What `azscale doctor` looks at: a row of CHECKS each, with what to do about it.

A check looks at a `Site` and gives findings; it changes nothing. Those of the server are in
`server_checks`, all others here. docs/doctor.md is generated from the rows. Called by `doctor`,
which prints what was found.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hpc.autoscale._version import __version__
from hpc.autoscale.autoscaler import hooks
from hpc.autoscale.autoscaler.learning import nothing_to_start
from hpc.autoscale.backoff.held import HeldBack
from hpc.autoscale.cli import server_checks
from hpc.autoscale.cli.checking import BY_ITS_CODE, check_alone, check_with_cluster
from hpc.autoscale.cli.drivers import GenericDriver
from hpc.autoscale.cli.site import CheckState, Observation, Site, failed, ok, warning
from hpc.autoscale.cli.standing import look_at_passes
from hpc.autoscale.cli.standing_text import error_in_words, passes_in_words
from hpc.autoscale.cli.state_checks import damaged_files
from hpc.autoscale.errors import ConfigurationException, counted, one_line, one_line_and_where
from hpc.autoscale.journal.files import Directory
from hpc.autoscale.lockstate import Lock, lock_state
from hpc.autoscale.node.nodemanager.policies import configured_policy
from hpc.autoscale.onpremises import ON_PREMISES
from hpc.autoscale.statefiles import REQUEST_SETS, path_of

Config = dict[str, Any]

DISK_IS_FULL = 16 * 2**20
"""Bytes below which nothing is written safely any more."""
DISK_IS_NEARLY_FULL = 256 * 2**20

_OF_AN_UNKNOWN_LOCK = (
    "look whether a loop runs where it would run, and as its user; `azscale autoscale` ends with"
    " exit code 3 while somebody holds the lock"
)
_OF_A_DRIVER = (
    "the driver was found: correct what it says of the configuration, as the driver's own"
    " documentation has it"
)
_OF_ITS_CODE = (
    "the driver was found: correct its code; the traceback of `azscale jobs --debug` has the line"
    " at which it fails"
)


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


def _configuration(site: Site) -> Iterator[Observation]:
    if site.path is None:
        remedy = "`azscale initconfig` makes a first one; -c names one that is elsewhere"
        yield failed(f"none found: looked for {site.looked}", remedy=remedy)
        return
    found = list(check_alone(site.path, site.commands))
    for finding in found:
        yield (failed if finding.is_error else warning)(finding.text, remedy=finding.remedy)
    if not any(finding.is_error for finding in found):
        with suppress(Exception):  # a driver may bring policies; a check of its own looks at it
            _ = site.prepared
        try:
            configured_policy(site.config)
        except ConfigurationException as error:
            yield failed(one_line(error))
            return
    if not found:
        yield ok(site.path)


def _versions(site: Site) -> Iterator[Observation]:
    wants = {"packing.objective": ("cost", "highspy", "optimize")}
    for key, (value, module, extra) in wants.items():
        section, _, name = key.partition(".")
        if (site.config.get(section) or {}).get(name) == value:
            try:
                importlib.import_module(module)
            except ImportError as error:
                yield failed(f"{key} is {value!r}, which needs the extra [{extra}]: {error}")
    yield ok(f"hpc-autoscale {__version__}, Python {platform.python_version()}")


def _driver(site: Site) -> Iterator[Observation]:
    named = site.config.get("driver")
    try:
        driver, _ = site.prepared
    except Exception as error:  # noqa: BLE001  drivers are not ours
        text = one_line_and_where(error)
        remedy: str | None = _OF_A_DRIVER
        if text.startswith(BY_ITS_CODE):
            remedy = _OF_ITS_CODE
        elif isinstance(error, ConfigurationException) and text.startswith("driver: "):
            remedy = None  # what keeps it from being found is said of this key
        yield failed(text, remedy=remedy)
        return
    if named or type(driver) is not GenericDriver:
        yield ok(str(named or driver.name))
    elif os.path.exists(path := path_of(REQUEST_SETS, site.config, site.home(site.config))):
        yield ok(f"none: the requests that were reported to {path} are served")
    else:
        yield warning(
            f"none, and nobody has reported a request to {path}: no jobs are known of",
            remedy="name that of your scheduler as package.module:Class in the key driver, or"
            " report requests (docs/plug-in-api.md)",
        )


def _scheduler(site: Site) -> Iterator[Observation]:
    driver, config = site.prepared
    if type(driver) is GenericDriver:
        yield ok("none is asked, as there is no driver")
        return
    jobs, hosts = hooks.read(driver, config)
    yield ok(f"{counted(len(jobs), 'job')}, {counted(len(hosts), 'host')}")


def _quotas(site: Site) -> Iterator[Observation]:
    manager = site.node_mgr
    nothing = nothing_to_start(manager)
    if nothing:
        yield failed(nothing)
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
        yield warning(f"{name} is 0, so nothing can be started of {_some(buckets)}")
    unusable = {f"{b.nodearray} {b.vm_size}" for b in manager.get_invalid_buckets()}
    if unusable:
        yield warning(f"CycleCloud says that these cannot be used: {_some(unusable)}")
    if not zero and not unusable:
        yield ok(f"none is 0, for {counted(len(grown), 'bucket')}")


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + more


def _names(site: Site) -> Iterator[Observation]:
    found = list(check_with_cluster(site.prepared[1], lambda _: site.node_mgr))
    for finding in found:
        yield (failed if finding.is_error else warning)(finding.text)
    if not found:
        yield ok("the cluster has all that the configuration names")


def _lock(site: Site) -> Iterator[Observation]:
    path = site.files.get("lock_file")
    if path is None:
        yield warning("lock_file is null: two autoscalers may get into each other's way")
        return
    of_driver = False
    with suppress(Exception):  # a driver that cannot be had is what another check is about
        of_driver = hooks.has_own_lock(site.prepared[0])
    found = lock_state(site.config, path, of_driver)
    if found.state is not Lock.UNKNOWN:
        yield ok(str(found))
        return
    is_a_place = os.path.isdir(os.path.dirname(path)) and not os.path.isdir(path)
    yield warning(str(found), remedy=_OF_AN_UNKNOWN_LOCK if is_a_place else None)


def _files(site: Site) -> Iterator[Observation]:
    wrong: list[Observation] = []
    for key, path in site.files.items():
        if problem := _no_place_in(_folder(path)):
            wrong.append(failed(f"{key}: {problem}"))
        elif os.path.isdir(path):
            text = f"{key}: {path} is a directory"
            wrong.append(failed(text, remedy=f"name a file with {key}, as in {path}/{key}"))
        elif _is_not_ours(path):
            remedy = f"give the file to the user that runs azscale, or name another with {key}"
            wrong.append(failed(f"{key}: this user cannot write {path}", remedy=remedy))
    for key, problem, to_do in _unwritten(site):
        text = f"{key}: {problem}; passes go on, and it is not written"
        wrong.append(warning(text, remedy=to_do))
    yield from wrong
    if not wrong:
        yield ok(", ".join(dict.fromkeys(map(os.path.dirname, site.files.values()))))


def _unwritten(site: Site) -> Iterator[tuple[str, str, str | None]]:
    """What a pass writes if it can, and cannot: the key that names it, why, and what to do where
    that is known better than in the check's remedy."""
    for key, path in site.figures.items():
        if problem := _no_place_in(_folder(path)):
            yield key, problem, None
        elif os.path.isdir(path):
            yield key, f"{path} is a directory", f"name a file with {key}"
    if site.journal is None:
        return
    key, place = site.journal
    # it is made when it is first written to
    if problem := _no_place_in(place if os.path.lexists(place) else os.path.dirname(place)):
        in_its_place = os.path.exists(place) and not os.path.isdir(place)
        to_do = f"move that away, or name a directory with {key}" if in_its_place else None
        yield key, problem, to_do
    elif os.path.exists(place) and not os.access(place, os.R_OK):
        yield key, f"this user cannot look into {place}", None
    elif (newest := Directory(place).newest()) and _is_not_ours(newest.path):
        yield key, f"this user cannot write {newest.path}", "give it to the user that runs azscale"


def _folder(path: str) -> str:
    """Where a file is, or would be made: that of a link, where it leads to."""
    return os.path.dirname(os.path.realpath(path) if os.path.islink(path) else path)


def _is_not_ours(path: str) -> bool:
    return os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK)


def _no_place_in(directory: str) -> str | None:
    """What keeps this user from writing in a directory; None where nothing does."""
    if not os.path.isdir(directory):
        is_there = os.path.exists(directory)
        return f"{directory} is no directory" if is_there else f"there is no directory {directory}"
    may_write = os.access(directory, os.W_OK | os.X_OK)
    return None if may_write else f"this user cannot write in {directory}"


def _disk(site: Site) -> Iterator[Observation]:
    directories = dict.fromkeys(map(os.path.dirname, site.files.values()))
    for directory in filter(os.path.isdir, directories):
        free = shutil.disk_usage(directory).free
        text = f"{free // 2**20} MB free in {directory}"
        if free < DISK_IS_FULL:
            yield failed(text)
        else:
            yield (warning if free < DISK_IS_NEARLY_FULL else ok)(text)


def _state(site: Site) -> Iterator[Observation]:
    found = list(damaged_files(site.state, site.config))
    for passes_end, text, says_what_to_do in found:
        yield (failed if passes_end else warning)(text, remedy="" if says_what_to_do else None)
    if not found:
        there = sum(map(os.path.exists, site.state.values()))
        yield ok(f"{counted(there, 'file')} can be read" if there else "nothing is remembered yet")


def _passes(site: Site) -> Iterator[Observation]:
    loop = look_at_passes(site.config, site.home(site.config))
    error, said = error_in_words(loop), passes_in_words(loop)
    if loop.last_pass is None:
        yield ok("none is known of")
    elif error:
        yield warning(f"{said}: {error}")
    elif loop.is_late or loop.loop_is_gone:
        yield warning(said, remedy="start the loop again (`azscale autoscale --interval`)")
    else:
        yield ok(said)


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
        "state",
        "the files in which passes remember things can be read: a failure for those of requests,"
        " request sets, hosts on premises, weights and stops, a warning for others; and written: a"
        " failure for that of hosts on premises",
        "let the user that runs azscale read and write the file; move away what is no file of this"
        " version, when no pass runs: what is in it is forgotten then",
        _state,
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
        server_checks.look_at_server,
        ("configuration",),
    ),
    Check(
        "certificate",
        "its certificate is trusted and lasts for 14 more days",
        "name the issuer's certificate with ca_file; have it renewed where it ends",
        server_checks.look_at_certificate,
        ("configuration",),
    ),
    Check(
        "credentials",
        "user and password are known and accepted",
        "set username and password, CYCLECLOUD_USERNAME and CYCLECLOUD_PASSWORD, or"
        " credentials_file; try them in CycleCloud's web page",
        server_checks.look_at_credentials,
        ("configuration", "server", "certificate"),
    ),
    Check(
        "permissions",
        "the user may read the cluster, and there is one of that name (not: whether it may create)",
        "check cluster_name; give the user the role Cluster Administrator, or make it the owner",
        server_checks.look_at_permissions,
        ("configuration", "server", "certificate", "credentials"),
    ),
    Check(
        "clock",
        "this machine's clock is that of the server (its Date header): a warning from 5 s on, a"
        " failure from 60 s on",
        "have the clock set: timedatectl set-ntp true, or chronyc makestep",
        server_checks.look_at_clock,
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
    Check(
        "passes",
        "the last pass went well, and its loop goes on, as far as the journal or the health file"
        " has it; a warning otherwise",
        "do what the error says; `azscale status` shows whether the next pass goes better",
        _passes,
        ("configuration",),
    ),
)


def examine(site: Site) -> Iterator[tuple[Check, Observation]]:
    """Every check in turn; one that needs what has failed is skipped. What an earlier one has found
    too is not answered with another remedy."""
    not_passed: set[str] = set()
    told: set[str] = set()
    for check in CHECKS:
        lacking = [name for name in check.needs if name in not_passed]
        if lacking:
            not_passed.add(check.name)
            yield check, Observation(CheckState.SKIPPED, f"needs {lacking[0]}")
            continue
        try:
            found = list(check.look(site))
        except Exception as error:  # noqa: BLE001  drivers are not ours; the others are looked at
            found = [failed(one_line_and_where(error))]
        if any(finding.verdict is CheckState.FAILED for finding in found):
            not_passed.add(check.name)
        for finding in found:
            is_told = any(text in finding.text for text in told)
            yield check, finding._replace(remedy="") if is_told else finding
        told.update(finding.text for finding in found if finding.verdict is not CheckState.OK)
