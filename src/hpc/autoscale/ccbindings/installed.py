"""CycleCloud's own Python client, the package `cyclecloud`, where somebody has installed it.

Finding it, deciding whether it is to be used, and connecting it with what our configuration says;
what its objects are like is not known here (`foreign`, `legacy`). It is imported inside these
functions and nowhere else, so that the library neither needs it nor runs its code before there is a
server to talk to. Called by `new_cluster_bindings`.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.ccbindings import settings
from hpc.autoscale.ccbindings.errors import shorten
from hpc.autoscale.ccbindings.transport import warn_unverified
from hpc.autoscale.config import Credentials
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.redaction import Hiding

CHOICES = ("auto", "installed", "own")


@dataclass(frozen=True)
class Connection:
    """An installed client that is ready to be used: what `legacy.ClusterBinding` takes."""

    session: Any
    client: Any
    clusters_module: Any


class _NoClient(Exception):
    """Why the installed client cannot be used, in words; None when no client is installed."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


def connect(config: Mapping[str, Any], credentials: Credentials) -> Connection | None:
    """The installed client, connected; None when ours is to be used.

    `cyclecloud_client` of the configuration decides. `own`, the default, does not look for the
    installed client; `installed` insists on it; `auto` takes it if it can do what the configuration
    asks for. A broken client causes a warning, or with `installed` a ConfigurationException.
    """
    choice = config.get("cyclecloud_client") or "own"
    if choice not in CHOICES:
        raise ConfigurationException(
            f"cyclecloud_client: expected {', '.join(CHOICES)}, found {choice!r}"
        )
    if choice == "own":
        return None
    try:
        return _connected(config, credentials)
    except _NoClient as unusable:
        if choice == "installed":
            reason = unusable.reason or "there is no package `cyclecloud`"
            raise ConfigurationException(f"cyclecloud_client: installed: {reason}") from None
        if unusable.reason:
            logging.warning("%s; using the client of this library", unusable.reason)
        return None


def _connected(config: Mapping[str, Any], credentials: Credentials) -> Connection:
    client_module, clusters_module = _modules()
    if config.get("ca_file"):
        raise _NoClient("ca_file: the installed `cyclecloud` client has no such setting")
    given = _settings_for(config, credentials)
    try:
        client = client_module.Client(given)
        session = _session_of(client, str(config["cluster_name"]))
    except Exception as error:  # noqa: BLE001  the client's exception classes are not public
        said = _said(error, credentials.password)
        raise _NoClient(f"the installed `cyclecloud` client cannot be set up: {said}") from None
    if not given["verify_certificates"]:
        warn_unverified(credentials.url)
    logging.debug("%s: using the client of the package `cyclecloud`", credentials.url)
    return Connection(session, client, clusters_module)


def _modules() -> tuple[Any, Any]:
    """The modules `cyclecloud.client` and `cyclecloud.api.clusters`.

    CycleCloud's command line has a package `cyclecloud` without these modules; it counts as not
    installed.
    """
    try:
        client = importlib.import_module("cyclecloud.client")
        return client, importlib.import_module("cyclecloud.api.clusters")
    except ModuleNotFoundError as error:
        if error.name in ("cyclecloud", "cyclecloud.client"):
            raise _NoClient(None) from None
        raise _broken(error) from None
    except Exception as error:  # noqa: BLE001  somebody else's code, which may do anything
        raise _broken(error) from None


def _broken(error: Exception) -> _NoClient:
    return _NoClient(f"the installed package `cyclecloud` cannot be imported: {_said(error)}")


def _said(error: Exception, password: str = "") -> str:
    """The text of an exception on one line, cut when it is long, without the password."""
    text = Hiding(password)(str(error))
    return shorten(f"{type(error).__name__}: {' '.join(text.split())}")


def _settings_for(config: Mapping[str, Any], credentials: Credentials) -> dict[str, Any]:
    """The configuration in that client's terms: as a copy, certificates verified unless it says
    otherwise, one timeout."""
    timeout = settings.timeouts(config).read
    return {
        **config,
        **vars(credentials),
        "verify_certificates": settings.flag(config, "verify_certificates", default=True),
        "timeout": int(timeout) if timeout.is_integer() else timeout,
    }


def _session_of(client: Any, cluster_name: str) -> Any:
    """The session of a client, which versions without `client.session` keep behind their
    clusters."""
    session = getattr(client, "session", None)
    return client.clusters.get(cluster_name)._client.session if session is None else session
