"""The section `backoff` of a configuration, and the file that goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpc.autoscale.backoff.holds import Holds
from hpc.autoscale.backoff.law import FIRST, Policy
from hpc.autoscale.config.reported_hosts import reports_idle_hosts
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.gangs.file import offers_short_of

LEARNS = "_backoff_learns"
"""The entry of a configuration by which the loop says that what it sees is to be remembered;
whoever only looks, or commands by hand, changes nothing."""


def new_holds(config: Mapping[str, Any]) -> Holds | None:
    """What is held back by a configuration with `backoffdb`; None with `backoff.enabled` false.

    ConfigurationException for a section that cannot be understood.
    """
    section = config.get("backoff") or {}
    if not isinstance(section, Mapping):
        raise ConfigurationException(f"backoff: expected an object, found {section!r}")
    if section.get("enabled") is False:
        return None
    may_write = bool(config.get(LEARNS)) and not config.get("read_only")
    policy, path = policy_of(section), str(config["backoffdb"])
    return Holds(
        path,
        policy,
        read_only=not may_write,
        short_of=offers_short_of(config),
        hears_hosts=reports_idle_hosts(config),
    )


def policy_of(section: Mapping[str, Any]) -> Policy:
    """How long what failed rests. ConfigurationException for numbers that make no sense."""
    usual = Policy()
    failures = section.get("boot_failures", usual.boot_failures)
    if isinstance(failures, bool) or not isinstance(failures, int) or failures < 1:
        raise ConfigurationException(
            f"backoff.boot_failures: expected a whole number, 1 or more, found {failures!r}"
        )
    return Policy(
        {cause: _number(section, cause.value, first) for cause, first in FIRST.items()},
        _number(section, "ceiling", usual.ceiling),
        _number(section, "jitter", usual.jitter, least=0.0, most=0.9),
        failures,
    )


def _number(
    section: Mapping[str, Any],
    key: str,
    otherwise: float,
    least: float = 1.0,
    most: float = 86400.0,
) -> float:
    value = section.get(key)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigurationException(
            f"backoff.{key}: expected a number from {least:g} to {most:g}, found {value!r}"
        )
    return float(value)
