"""The credentials for the server: from the configuration, or from the node that this runs on; and
what else `jetpack` knows of such a node.

On a node of a CycleCloud cluster, `jetpack` knows a user that may scale it. It is asked only where
the configuration, the environment and the credentials file have no user name or password. Called by
`new_cluster_bindings`, and by the watcher of a node.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from hpc.autoscale.config import Credentials, resolve_secrets
from hpc.autoscale.errors import ConfigurationException

_TIMEOUT = 60.0


class JetpackNotFoundError(ConfigurationException):
    """There is no `jetpack`: this machine is not a node of a CycleCloud cluster."""


def resolve_credentials(config: Mapping[str, Any]) -> Credentials:
    """The credentials that the configuration leads to, with jetpack's user name and password when
    it has none.

    Raises ConfigurationException when something is missing or unusable.
    """
    try:
        return resolve_secrets(config)
    except ConfigurationException as missing:
        if config.get("credentials_file") or (config.get("username") and config.get("password")):
            raise
        try:
            username, password = get_cyclecloud_access_credentials()
        except JetpackNotFoundError:
            raise missing from None
        except ConfigurationException as error:
            raise ConfigurationException(f"{missing}; {error}") from None
    return resolve_secrets({**config, "username": username, "password": password})


def get_cyclecloud_access_credentials() -> tuple[str, str]:
    """The user name and the password that jetpack has for this node.

    Raises JetpackNotFoundError where there is no jetpack, ConfigurationException when it does not
    know them.
    """
    return (
        jetpack_setting("cyclecloud.config.username"),
        jetpack_setting("cyclecloud.config.password"),
    )


def _find_jetpack() -> str:
    """The path of the jetpack command: from PATH, else below `$CYCLECLOUD_HOME`."""
    home = os.environ.get("CYCLECLOUD_HOME") or "/opt/cycle/jetpack"
    for path in (None, os.path.join(home, "bin")):
        for command in ("jetpack", "jetpack.cmd"):
            found = shutil.which(command, path=path)
            if found:
                return found
    raise JetpackNotFoundError(f"expected jetpack on PATH or in {home}/bin, found none")


def jetpack_setting(key: str) -> str:
    """One of jetpack's settings. No message shows what jetpack prints, since that may be a secret.

    Raises JetpackNotFoundError where there is no jetpack, ConfigurationException when it does not
    say it.
    """
    jetpack = _find_jetpack()
    try:
        run = subprocess.run(
            [jetpack, "config", key], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise ConfigurationException(
            f"{jetpack} config {key}: expected a value, found {type(error).__name__}"
        ) from None
    value = run.stdout.rstrip("\r\n")
    if run.returncode != 0 or not value:
        raise ConfigurationException(
            f"{jetpack} config {key}: expected a value, found none (exit code {run.returncode})"
        )
    return value
