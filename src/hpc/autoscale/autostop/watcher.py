"""What runs on a node: watches whether it is idle, and asks to stop when it was for long enough.

One look at a time, from cron or in a loop. Whether the node is at work, how it is drained and how
it stops is said by commands of the site. A node never stops without a yes, except where the
configuration says after how long without any answer it may.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpc.autoscale import clock, commands
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autostop.callback import Callback, Metadata, ScheduledEvent, Told
from hpc.autoscale.autostop.idleness import Idleness, read_state, write_state
from hpc.autoscale.autostop.settings import section_of
from hpc.autoscale.ccbindings.auth import jetpack_setting
from hpc.autoscale.errors import AutoscaleError, ConfigurationException

STATE_FILE = "autostop-state.json"
_OF_JETPACK = "/opt/cycle/jetpack/run/autoscale.json"
# Between two looks there may be so many intervals before the time counts as not watched.
_GAPS = 3


class NodeCommandError(AutoscaleError):
    """A command of the site did not do what it is for."""


@dataclass(frozen=True)
class WatchSettings:
    """How a node behaves; keys of the section `autostop`, which docs/configuration.md explains.

    Times are seconds, commands are lists of words.
    """

    state_file: str
    busy_command: Sequence[str]
    drain_command: Sequence[str] = ()
    undrain_command: Sequence[str] = ()
    notice_command: Sequence[str] = ()
    stop_command: Sequence[str] = ("shutdown", "-h", "now")
    idle_time_after_jobs: float = 1800.0
    idle_time_before_jobs: float = 3600.0
    interval: float = 60.0
    command_timeout: float = 60.0
    stop_unanswered_after: float | None = None


def settings_of(config: Mapping[str, Any], home: str) -> WatchSettings:
    """The settings of a configuration, whose state file is in `home` unless it names another or
    the directory of CycleCloud's is there. ConfigurationException when one is missing."""
    section = section_of(config)
    default = os.path.join(home, STATE_FILE)
    if os.path.isdir(os.path.dirname(_OF_JETPACK)):
        default = _OF_JETPACK
    given = {k: v for k, v in section.items() if k in WatchSettings.__dataclass_fields__}
    for key, value in given.items():
        if key.endswith(("time_after_jobs", "time_before_jobs", "interval", "timeout", "_after")):
            given[key] = float(value)
    settings = WatchSettings(**{"state_file": default, "busy_command": (), **given})
    if not settings.busy_command:
        raise ConfigurationException(
            "autostop.busy_command: expected a command that says whether the node is at work, as in"
            ' ["pgrep", "-x", "slurmstepd"], found none'
        )
    if settings.drain_command and not settings.undrain_command:
        raise ConfigurationException(
            "autostop.undrain_command: expected it beside drain_command, for a node that is told no"
        )
    return settings


class Watcher:
    """Watches one node. `metadata` is where events of Azure are read, None for nowhere."""

    def __init__(
        self, settings: WatchSettings, callback: Callback, metadata: Metadata | None = None
    ) -> None:
        self.settings = settings
        self._callback = callback
        self._metadata = metadata

    def look(self) -> tuple[str, bool]:
        """One look: what came of it, in a line, and whether the node stops now.

        StateError when the state cannot be kept, NodeCommandError when the node was told yes and
        its command to stop failed.
        """
        leaving = self.notice()
        is_busy = self._is_busy()
        state = self._remember(is_busy)
        now = clock.time()
        idle = state.idle_seconds(now)
        if leaving is not None:
            return f"Azure ends this machine: {leaving.kind} not before {leaving.not_before}", False
        if idle is None:
            return "at work" if is_busy else "whether the node is at work is unknown", False
        worked = state.first_active_time is not None
        key = "idle_time_after_jobs" if worked else "idle_time_before_jobs"
        limit: float = getattr(self.settings, key)
        said = f"idle for {idle:.0f} s ({key} is {limit:.0f})"
        if idle < limit:
            return said, False
        return self._try_to_stop(state, said)

    def notice(self) -> ScheduledEvent | None:
        """Hand on events of Azure that are new; one that ends this machine, if there is one."""
        events = self._metadata.events() if self._metadata else ()
        if not events:
            return None
        state, _ = read_state(self.settings.state_file)
        for event in events:
            if event.event_id not in state.notices:
                logging.warning("Azure: %s, not before %s", event.kind, event.not_before)
                self._hand_on(event)
                state = state.with_notice(event.event_id)
                write_state(self.settings.state_file, state)
        return next((event for event in events if event.ends_it), None)

    def _remember(self, is_busy: bool | None) -> Idleness:
        state, problem = read_state(self.settings.state_file)
        if problem:
            logging.warning("%s", problem)
        state = state.after_look(clock.time(), is_busy, _GAPS * self.settings.interval)
        write_state(self.settings.state_file, state)
        return state

    def _try_to_stop(self, state: Idleness, said: str) -> tuple[str, bool]:
        if not self._drain():
            return f"{said}; it could not be drained", False
        is_busy = self._is_busy()
        if is_busy is not False:  # work has begun before it was drained
            self._undrain()
            self._remember(is_busy)
            return f"{said}; then work began", False
        accepted = False
        try:
            told = self._callback.ask(said)
            accepted = self._may(state, told)
        finally:
            if not accepted:
                self._undrain()
        said = f"{said}; {told.text}"
        if not accepted:
            return said, False
        self._stop()
        return f"{said}; stopping", True

    def _may(self, state: Idleness, told: Told) -> bool:
        """Whether the node stops, given what came of asking: on a yes, or after as long without
        any answer as the configuration says."""
        now = clock.time()
        if told.accepted is not None:
            if state.away_since is not None:
                write_state(self.settings.state_file, replace(state, away_since=None))
            return told.accepted
        away_since = min(now, now if state.away_since is None else state.away_since)
        write_state(self.settings.state_file, replace(state, away_since=away_since))
        patience = self.settings.stop_unanswered_after
        return patience is not None and now - away_since >= patience

    # -- commands of the site

    def _is_busy(self) -> bool | None:
        """As the command says: exit code 0 is busy, 1 is idle, anything else is no answer."""
        code = self._run("busy_command")
        return {0: True, 1: False}.get(code) if code is not None else None

    def _drain(self) -> bool:
        if not self.settings.drain_command or self._run("drain_command") == 0:
            return True
        self._undrain()
        return False

    def _undrain(self) -> None:
        if self.settings.undrain_command:
            self._run("undrain_command")

    def _hand_on(self, event: ScheduledEvent) -> None:
        if self.settings.notice_command:
            self._run(
                "notice_command",
                AUTOSTOP_EVENT=event.kind,
                AUTOSTOP_EVENT_ID=event.event_id,
                AUTOSTOP_NOT_BEFORE=event.not_before,
            )

    def _stop(self) -> None:
        if self.settings.stop_command and self._run("stop_command") != 0:
            raise NodeCommandError(
                f"the node may stop, and autostop.stop_command failed:"
                f" {' '.join(self.settings.stop_command)}"
            )

    def _run(self, key: str, **environment: str) -> int | None:
        """The exit code of a command; None when it could not be run, or not in time."""
        command: Sequence[str] = getattr(self.settings, key)
        done = commands.run(command, self.settings.command_timeout, environment)
        if done.code is None:
            logging.warning("autostop.%s: %s", key, done.text)
        elif done.code not in (0, 1) or (done.code and key != "busy_command"):
            logging.warning("autostop.%s ended with code %s: %s", key, done.code, done.text)
        return done.code


def instance_of(config: Mapping[str, Any]) -> str:
    """The InstanceId of this node: `instance` of the section, else what jetpack says.

    ConfigurationException when neither does.
    """
    named = section_of(config).get("instance")
    if named:
        return str(named)
    try:
        return jetpack_setting("cyclecloud.instance.id").strip()
    except ConfigurationException as error:
        raise ConfigurationException(
            "autostop.instance: expected the InstanceId of this node, here or after --instance, or"
            f" from jetpack; {error}"
        ) from None
