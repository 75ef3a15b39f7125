"""How long a node may be idle, and how long it may take to boot, as the configuration says.

What happens to a node whose time is over does not belong here. Called by the node history, the
calculator and drivers.
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol

from hpc.autoscale.errors import ConfigurationException, check_kinds

DEFAULT_IDLE_TIMEOUT = 300
DEFAULT_BOOT_TIMEOUT = 1800


class InNodearray(Protocol):
    """What timeouts depend on: a node is in a nodearray."""

    @property
    def nodearray(self) -> str:
        """The name of the nodearray."""


def parse_idle_timeout(config: Mapping[str, Any], node: InNodearray | None = None) -> int:
    """Seconds that the node may be idle: key `idle_timeout`, 300 when not set."""
    return parse_timeout("idle_timeout", DEFAULT_IDLE_TIMEOUT, config, node)


def parse_boot_timeout(config: Mapping[str, Any], node: InNodearray | None = None) -> int:
    """Seconds that the node may take to boot: key `boot_timeout`, 1800 when not set."""
    return parse_timeout("boot_timeout", DEFAULT_BOOT_TIMEOUT, config, node)


def parse_timeout(
    timeout_key: str, default_value: int, config: Mapping[str, Any], node: InNodearray | None = None
) -> int:
    """Seconds under a key of the configuration.

    The value is a number, a number as text, or an object with such values by nodearray and for
    `default`, which counts where the nodearray is missing; an entry that is there and null, empty
    or 0 means `default_value`. Groups of a request set, which are in an array such as `hpc:64`,
    have the entry of `hpc` where they have none. Parts of a second are dropped.
    ConfigurationException for anything else and for a negative number; InvalidArgument for a
    configuration that is none.
    """
    try:
        value = config.get(timeout_key)
    except AttributeError:
        check_kinds(timeout_key, Mapping, config=config)
        raise
    if value is None:
        return default_value
    if not isinstance(value, Mapping):
        return _seconds(timeout_key, value)
    nodearray = node.nodearray if node is not None else "default"
    grouped, _, _ = nodearray.rpartition(":")
    name = next((each for each in (nodearray, grouped or nodearray) if each in value), "default")
    return _seconds(f"{timeout_key}.{name}", value[name]) if value.get(name) else default_value


def as_seconds(value: object) -> float | None:
    """A number, or the number that a text is; None for anything else, and what no float holds."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _seconds(where: str, value: object) -> int:
    seconds = as_seconds(value)
    if seconds is None or seconds < 0 or not math.isfinite(seconds):
        raise ConfigurationException(
            f"{where}: expected a number of seconds of 0 or more, found {value!r}"
        )
    return int(seconds)
