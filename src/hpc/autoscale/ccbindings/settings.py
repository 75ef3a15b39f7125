"""How to connect: the settings of a client, read from a configuration.

Each is checked here too, because a client can be made without a whole autoscale.json. `client`
calls it.
"""

from collections.abc import Mapping
from typing import Any

from hpc.autoscale.ccbindings.pacing import Pacing
from hpc.autoscale.ccbindings.transport import LONGEST_CONNECT, Timeouts
from hpc.autoscale.ccbindings.waits import waits_for
from hpc.autoscale.errors import ConfigurationException

TOLD_TO_STOP = "_told_to_stop"
"""The entry of a configuration with the function that says whether this process is told to stop."""


def text(settings: Mapping[str, Any], key: str) -> str:
    """A text that is required. No error message shows its value, which may be the password."""
    value = settings.get(key)
    if value is None or value == "":
        raise ConfigurationException(f"{key} of the CycleCloud server is not set")
    if not isinstance(value, str):
        raise ConfigurationException(f"{key}: expected a text, found a {type(value).__name__}")
    return value


def flag(settings: Mapping[str, Any], key: str, default: bool) -> bool:
    """A setting that is true or false."""
    value = settings.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ConfigurationException(f"{key}: expected true or false, found {value!r}")
    return value


def timeouts(settings: Mapping[str, Any]) -> Timeouts:
    """The setting `timeout`: one number of seconds, or an object with `connect` and `read`.

    A single number is the limit for both, but connecting then never takes longer than
    `LONGEST_CONNECT`.
    """
    value = settings.get("timeout")
    if isinstance(value, Mapping):
        read = _seconds(value, "timeout.read", Timeouts().read)
        return Timeouts(_seconds(value, "timeout.connect", min(read, LONGEST_CONNECT)), read)
    both = _seconds(settings, "timeout", Timeouts().read)
    return Timeouts(min(both, LONGEST_CONNECT), both)


def pacing(settings: Mapping[str, Any]) -> Pacing:
    """The setting `retry`: `attempts`, and `max_retry_after` and `ceiling` in seconds.

    What servers ask to wait is kept in a file beside `requests_file`.
    """
    retry = settings.get("retry") or {}
    if not isinstance(retry, Mapping):
        raise ConfigurationException(f"retry: expected an object, found {retry!r}")
    default = Pacing()
    attempts = retry.get("attempts", default.attempts)
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        raise ConfigurationException(
            f"retry.attempts: expected a whole number above 0, found {attempts!r}"
        )
    longest = _seconds(retry, "retry.max_retry_after", default.longest_wait, least=0.0)
    ceiling = _seconds(retry, "retry.ceiling", default.ceiling, least=0.0)
    return Pacing(
        attempts,
        longest_wait=longest,
        ceiling=ceiling,
        not_before=waits_for(settings),
        told_to_stop=settings.get(TOLD_TO_STOP),
    )


def _seconds(settings: Mapping[str, Any], path: str, default: float, least: float = 1e-3) -> float:
    """The seconds at the end of `path` in the settings, a number or a text that stands for one."""
    value = settings.get(path.rpartition(".")[2])
    if value is None:
        return default
    try:
        seconds = float(value) if isinstance(value, int | float | str) else -1.0
    except (ValueError, OverflowError):
        seconds = -1.0
    if isinstance(value, bool) or not least <= seconds <= 86400:
        raise ConfigurationException(f"{path}: expected seconds up to 86400, found {value!r}")
    return seconds
