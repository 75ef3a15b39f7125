"""The configuration of the library, autoscale.json: reading, checking, timeouts and secrets.

What the settings do belongs to those who use them. `load_config`, `check_config`, `resolve_secrets`
and `redact` are what the rest of the library and integrations call.
"""

from typing import TYPE_CHECKING

from hpc.autoscale.config.load import load_config, loaded, merge
from hpc.autoscale.config.timeouts import parse_boot_timeout, parse_idle_timeout, parse_timeout
from hpc.autoscale.lazily import offered
from hpc.autoscale.redaction import redact

if TYPE_CHECKING:
    from hpc.autoscale.config.check import check_config, config_schema, unknown_commands
    from hpc.autoscale.config.secrets import (
        Credentials,
        exposed_passwords,
        resolve_secrets,
        short_secrets,
    )
else:
    __getattr__ = offered(
        __name__,
        {
            "Credentials": "secrets",
            "check_config": "check",
            "config_schema": "check",
            "exposed_passwords": "secrets",
            "resolve_secrets": "secrets",
            "short_secrets": "secrets",
            "unknown_commands": "check",
        },
    )

__all__ = [
    "Credentials",
    "check_config",
    "config_schema",
    "exposed_passwords",
    "load_config",
    "loaded",
    "merge",
    "parse_boot_timeout",
    "parse_idle_timeout",
    "parse_timeout",
    "redact",
    "resolve_secrets",
    "short_secrets",
    "unknown_commands",
]
