"""Whether a driver reports the hosts of its scheduler, `autoscale.scheduler_reports_hosts`."""

from collections.abc import Mapping
from typing import Any

_SECTION, _KEY = "autoscale", "scheduler_reports_hosts"


def reports_idle_hosts(config: Mapping[str, Any]) -> bool:
    """Whether the driver reports the hosts of nodes without work, too."""
    return bool((config.get(_SECTION) or {}).get(_KEY, True))


def reporting_no_hosts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration for a driver that reports no hosts, unless it says itself that it does."""
    return {**config, _SECTION: {_KEY: False, **(config.get(_SECTION) or {})}}
