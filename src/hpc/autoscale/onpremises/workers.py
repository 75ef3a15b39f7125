"""Workers on hosts on premises: which were started, which rest after a failure, and the commands.

What was asked for is in a file before a command runs, and what came of it after. A process that is
killed between the two leaves a host of which nobody knows: its command is then run again, which
has to be harmless, as it is for `systemctl start`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from hpc.autoscale import clock
from hpc.autoscale.backoff.causes import FailureKind
from hpc.autoscale.backoff.law import Backoff, Policy, aged, failed, succeeded
from hpc.autoscale.commands import Ran, run_each
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.onpremises.hosts import OnPremisesHost
from hpc.autoscale.sqlitefile import SqliteFile

STATES_FILE = "_on_premises_states"
"""The entry of a configuration with the path of the file of states."""

RUN_EACH = "_runs_workers"
"""The entry of a configuration with what runs the commands of hosts, in place of this machine."""

BEGIN_WITHIN = 60.0
"""Seconds within which the commands of a pass begin; those of further hosts are left for the next.
So many hosts that hang hold a pass for that long and one `command_timeout` more."""

State = Literal["down", "starting", "up", "stopping"]

RunEach = Callable[[State, Mapping[str, Sequence[str]], Mapping[str, float]], dict[str, Ran]]
"""Runs commands by the name of their host, each for its own seconds at most; what came of each that
was begun. It is told what the commands do."""


class HostStatesError(AutoscaleError):
    """The file of hosts on premises cannot be read or written."""


@dataclass(frozen=True)
class HostState:
    """What is known of the worker of a host, since when (unix seconds), and its failures."""

    state: State = "down"
    since: float = 0.0
    backoff: Backoff | None = None

    @property
    def is_up(self) -> bool:
        """Whether its worker was started, as its command said."""
        return self.state == "up"

    @property
    def is_silent(self) -> bool:
        """Whether its scheduler missed it when it was up, and nothing else was wrong since."""
        return self.backoff is not None and self.backoff.cause is FailureKind.HOST

    @property
    def may_run(self) -> bool:
        """Whether its worker runs, or may run."""
        return self.state != "down"

    def rests_until(self, now: float) -> float | None:
        """Until when its commands are not run again; None when they may be."""
        known = None if self.backoff is None else aged(self.backoff, now, _POLICY)
        return known.until if known is not None and known.until > now else None


_POLICY = Policy()
_SILENT = "the scheduler does not report it"
_NEVER = HostState()


class HostStates(SqliteFile):
    """The states of hosts by name, in a file that outlives the process."""

    NAME = "hosts on premises"
    VERSION = 1
    TABLES = (
        "CREATE TABLE hosts (name TEXT PRIMARY KEY, state TEXT NOT NULL, since REAL NOT NULL,"
        " backoff TEXT)",
    )
    ERROR = HostStatesError
    REMEDY = "move it away; workers that are wanted are started again then"

    def read(self) -> dict[str, HostState]:
        """What is known, by name; nothing where there is no file."""
        rows = self.rows("SELECT name, state, since, backoff FROM hosts")
        try:
            return {name: _saved(*saved) for name, *saved in rows}
        except (AttributeError, TypeError, ValueError, KeyError, RecursionError) as error:
            raise self.damaged(error) from error

    def write(self, states: Mapping[str, HostState]) -> None:
        """Note these states; the others stay."""
        rows = [
            (name, one.state, one.since, None if one.backoff is None else _text(one.backoff))
            for name, one in states.items()
        ]
        if rows:
            with self.writing() as db:
                db.executemany("INSERT OR REPLACE INTO hosts VALUES (?, ?, ?, ?)", rows)


def _text(backoff: Backoff) -> str:
    return json.dumps({**asdict(backoff), "cause": backoff.cause.value})


def _saved(state: Any, since: Any, backoff: str | None) -> HostState:
    """What a row says of a host. ValueError for what cannot be."""
    if state not in get_args(State) or not isinstance(since, float):
        raise ValueError(f"expected a state and a time, found {state!r} and {since!r}")
    return HostState(state, since, _backoff(backoff))


def _backoff(text: str | None) -> Backoff | None:
    if text is None:
        return None
    fields: dict[str, Any] = json.loads(text)
    for key, value in fields.items():
        if key not in ("cause", "message") and not isinstance(value, int | float):
            raise ValueError(f"expected a number as {key}, found {value!r}")
    return Backoff(**{**fields, "cause": FailureKind(fields["cause"])})


def known_states(config: Mapping[str, Any]) -> dict[str, HostState]:
    """What is known of the hosts of a configuration; nothing where it names no file."""
    path = config.get(STATES_FILE)
    return HostStates(str(path)).read() if path else {}


def _drawn(about: str) -> float:
    return random.Random(about).random()


def run_here(
    doing: State, commands: Mapping[str, Sequence[str]], timeouts: Mapping[str, float]
) -> dict[str, Ran]:
    """Run the commands of hosts on this machine."""
    return run_each(commands, timeouts, BEGIN_WITHIN)


class Workers:
    """Starts and stops workers, for a pass that holds the lock."""

    def __init__(
        self,
        path: str,
        draw: Callable[[str], float] | None = None,
        run: RunEach | None = None,
    ) -> None:
        """`draw`: a number from 0 to 1 about a text that names a failure; without it one that is
        random, and the same for the same failure."""
        self._file = HostStates(path)
        self._draw = draw or _drawn
        self._run = run or run_here

    def bring_back(self) -> None:
        """Rests that begin later than now, as after a clock that was set back, begin now: they
        would go on until the clock has caught up."""
        known = self._file.read()
        rests = {name: state.backoff for name, state in known.items() if state.backoff is not None}
        now = clock.time() if rests else 0.0
        ahead = {name: each for name, each in rests.items() if each.failed_at > now}
        self._file.write(
            {n: replace(known[n], backoff=aged(each, now, _POLICY)) for n, each in ahead.items()}
        )

    def to_start(
        self,
        hosts: Iterable[OnPremisesHost],
        is_missing: Callable[[OnPremisesHost, HostState], bool],
    ) -> list[OnPremisesHost]:
        """Those of the hosts whose worker is to be started now: it was not, or its scheduler misses
        it (`is_missing`), and it does not rest."""
        known, now = self._file.read(), clock.time()
        found = []
        for host in hosts:
            state = known.get(host.name, _NEVER)
            is_due = not state.is_up or is_missing(host, state)
            if host.is_commanded and is_due and state.rests_until(now) is None:
                found.append(host)
        return found

    def note_heard(self, hosts: Iterable[OnPremisesHost]) -> None:
        """The scheduler reports these hosts: to start their workers was not in vain, and those that
        rest meanwhile are up."""
        known = self._file.read()
        states = {host.name: known.get(host.name, _NEVER) for host in hosts}
        silent = {n: s for n, s in states.items() if s.is_silent and s.state in ("up", "starting")}
        heard = {n: replace(s, state="up", backoff=None) for n, s in silent.items()}
        self._file.write(heard)

    def note_silent(self, due: Sequence[OnPremisesHost]) -> list[OnPremisesHost]:
        """Of hosts whose workers are due to be started those that rest instead: they count as up
        and the scheduler misses them, as it did the time before."""
        known, now = self._file.read(), clock.time()
        noted = {}
        for place, host in enumerate(due):
            state = known.get(host.name, _NEVER)
            if state.is_up:
                before = state.backoff if state.is_silent else None
                draw = partial(self._draw, f"{place} {now}")
                backoff = failed(before, FailureKind.HOST, _SILENT, now, now, _POLICY, draw)
                then: State = "starting" if backoff.until > now else "up"
                noted[host.name] = replace(state, state=then, backoff=backoff)
        self._file.write(noted)
        return [host for host in due if host.name in noted and not noted[host.name].is_up]

    def to_stop(self, hosts: Iterable[OnPremisesHost]) -> list[OnPremisesHost]:
        """Those of the hosts whose worker runs, or may run, can be stopped, and does not rest."""
        known, now = self._file.read(), clock.time()
        return [
            host
            for host in hosts
            if host.is_commanded
            and (state := known.get(host.name, _NEVER)).may_run
            and state.rests_until(now) is None
        ]

    def start(self, hosts: Iterable[OnPremisesHost]) -> dict[str, Ran]:
        """Start workers; what came of each command that was begun, by the name of the host."""
        return self._command(hosts, "starting", "up")

    def stop(self, hosts: Iterable[OnPremisesHost]) -> dict[str, Ran]:
        """Stop workers; what came of each command that was begun, by the name of the host."""
        return self._command(hosts, "stopping", "down")

    def _command(
        self, hosts: Iterable[OnPremisesHost], meanwhile: State, then: State
    ) -> dict[str, Ran]:
        wanted = {host.name: host for host in hosts}
        known, now = self._file.read(), clock.time()
        before = {name: known.get(name, _NEVER) for name in wanted}
        begun = {n: replace(s, state=meanwhile, since=now) for n, s in before.items()}
        self._file.write(begun)
        ran = self._run(
            meanwhile,
            {name: host.start if then == "up" else host.stop for name, host in wanted.items()},
            {name: host.command_timeout for name, host in wanted.items()},
        )
        # by its place and the time, since a scrubbed journal has other names
        places = {name: f"{place} {now}" for place, name in enumerate(wanted)}
        after = {name: self._after(places[name], begun[name], r, then) for name, r in ran.items()}
        self._file.write({**before, **after})
        return ran

    def _after(self, about: str, begun: HostState, ran: Ran, then: State) -> HostState:
        """The state of a host once a command has ended, which `about` tells from others. One that
        failed leaves it open whether it did something."""
        now, known = clock.time(), begun.backoff
        if ran.is_done and begun.is_silent and then == "up":
            return HostState(then, now, known)  # whether it was in vain is seen later
        if ran.is_done:
            return HostState(then, now, None if known is None else succeeded(known))
        known = None if known is None else aged(known, now, _POLICY)
        cause = FailureKind.REFUSED
        draw = partial(self._draw, about)
        rest = failed(known, cause, ran.problem, now, now, _POLICY, draw)
        return replace(begun, since=now, backoff=rest)
