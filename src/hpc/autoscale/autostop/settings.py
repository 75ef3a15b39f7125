"""The section `autostop` of autoscale.json: who may ask, and how a node behaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpc.autoscale.config import Credentials, resolve_secrets
from hpc.autoscale.config.secrets import of_its_own

_KEYS = ("username", "password", "credentials_file")


def section_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The section `autostop`; empty where there is none. Keys without a value are left out."""
    return {k: v for k, v in (config.get("autostop") or {}).items() if v is not None}


def access_of(config: Mapping[str, Any]) -> Credentials:
    """Address, user and password of the callback.

    They are those of the section `autostop`, which has the same keys for them as the whole
    configuration has for CycleCloud; where the section names neither user nor password nor
    `credentials_file`, those of CycleCloud. What the section says goes before the environment,
    which has the password of CycleCloud. ConfigurationException when one is found nowhere.
    """
    section = section_of(config)
    source = section if any(section.get(key) for key in _KEYS) else config
    given = {key: source.get(key) for key in _KEYS}
    given["url"] = section.get("url") or config.get("url")
    return resolve_secrets(of_its_own(given) if source is section else given)
