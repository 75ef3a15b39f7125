"""The credentials for the CycleCloud server, and where they come from.

How they are used does not belong here. Called by the binding when it connects, and by everything
that prints a configuration (`redact`).
"""

import json
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hpc.autoscale.config.clusters import members_of
from hpc.autoscale.config.load import files_of
from hpc.autoscale.errors import ConfigurationException, unreadable
from hpc.autoscale.redaction import SHORTEST, is_secret, passwords_of_urls, redact

__all__ = ["Credentials", "is_secret", "redact", "resolve_secrets"]

_FIELDS = ("url", "username", "password")


@dataclass(frozen=True)
class Credentials:
    """The address of the server, and user name and password; its text form has no password."""

    url: str
    username: str
    password: str = field(repr=False)


def resolve_secrets(config: Mapping[str, Any]) -> Credentials:
    """The credentials that the configuration leads to.

    Each of url, username and password comes from the first that has it: the key of that name, the
    environment variable CYCLECLOUD_URL, CYCLECLOUD_USERNAME or CYCLECLOUD_PASSWORD, the JSON object
    in the file named by `credentials_file`, which nobody but its owner may be able to read.
    ConfigurationException when one is found nowhere, is not a text, or when the file cannot be
    used.
    """
    found = _found(config, _FIELDS)
    for name, value in found.items():
        _check(name, value)
    return Credentials(**found)


def _found(config: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """What stands under these names in the first place that has it; None where none does."""
    found: dict[str, Any] = {
        name: config.get(name) or os.environ.get(_variable(name)) for name in names
    }
    path = config.get("credentials_file")
    if path and not all(found.values()):
        from_file = _read_credentials(path)
        found = {name: value or from_file.get(name) for name, value in found.items()}
    return found


def known_secrets(config: Mapping[str, Any]) -> list[str]:
    """The texts that nobody may see: what stands under secret keys, at any depth, and what
    `resolve_secrets` finds for the server and for each of `clusters`."""
    found = dict.fromkeys(text for _, text in _secret_texts(config))
    entries = config.get("clusters")
    for each in [config, *(entries if isinstance(entries, list) else ())]:
        if isinstance(each, Mapping):
            with suppress(ConfigurationException):
                found[resolve_secrets({"url": "-", "username": "-", **each}).password] = None
    return [text for text in found if text]


def short_secrets(config: Mapping[str, Any]) -> list[str]:
    """A sentence on each secret that is too short to be taken out wherever it stands."""
    found = {path: text for path, text in _secret_texts(config) if text}
    with suppress(ConfigurationException):
        password = resolve_secrets({"url": "-", "username": "-", **config}).password
        found.setdefault("password", password)
    return [
        f"{path}: it has fewer than {SHORTEST} letters: such a secret is not taken out of the log"
        " and the journal where it stands within other words; choose a longer one"
        for path, text in found.items()
        if len(text) < SHORTEST
    ]


def _secret_texts(
    value: object, is_below: bool = False, path: str = ""
) -> Iterator[tuple[str, str]]:
    """Each secret in a configuration, and where it is."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            if not str(key).startswith("_"):
                where = f"{path}.{key}" if path else str(key)
                yield from _secret_texts(below, is_below or is_secret(key), where)
    elif isinstance(value, list | tuple):
        for index, below in enumerate(value):
            yield from _secret_texts(below, is_below, f"{path}[{index}]")
    elif isinstance(value, str):
        if is_below:
            yield path, value
        yield from ((path, password) for password in passwords_of_urls(value))


def of_its_own(member: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of one of several clusters, with what its own `credentials_file` says.

    That goes before the environment, which is for all clusters. ConfigurationException when the
    file cannot be used.
    """
    path = member.get("credentials_file")
    from_file = _read_credentials(path) if path else {}
    said = {name: from_file[name] for name in _FIELDS if from_file.get(name)}
    return {**member, **{name: value for name, value in said.items() if not member.get(name)}}


def addressed(config: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The name of each cluster of a configuration, empty where there is one only, and what it is
    connected with: the `url` too where that stands in the environment or in a `credentials_file`.
    A cluster whose address is nowhere, or in a file that cannot be used, has none."""
    entries = members_of(config)
    return [(name, _addressed(own, of_its_own)) for name, own in entries] or [
        ("", _addressed(config, dict))
    ]


def _addressed(
    config: Mapping[str, Any], known: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    with suppress(ConfigurationException):
        own = known(config)
        return {**own, **_found(own, ["url"])}
    return dict(config)


def exposed_passwords(path: str | os.PathLike[str]) -> list[str]:
    """A sentence on each configuration file that has a password and can be read by everybody.

    Looked at are the file of this path and those that it includes.
    """
    if sys.platform == "win32":
        return []
    return [
        f"{file} has a password in it and can be read by everybody (mode {mode:04o}): run chmod"
        f" 600 {shlex.quote(str(file))}, or keep"
        " the password in CYCLECLOUD_PASSWORD or in the file that credentials_file names"
        for file, config in files_of(path)
        if _has_password(config) and (mode := stat.S_IMODE(os.stat(file).st_mode)) & stat.S_IROTH
    ]


def _has_password(config: Mapping[str, Any]) -> bool:
    clusters = config.get("clusters")
    sections = [config, config.get("autostop"), *(clusters if isinstance(clusters, list) else ())]
    return any(isinstance(each, Mapping) and each.get("password") for each in sections)


def _variable(name: str) -> str:
    return f"CYCLECLOUD_{name.upper()}"


def _check(name: str, value: object) -> None:
    if not value:
        raise ConfigurationException(
            f"{name} of the CycleCloud server is not set: expected it in the configuration, in the"
            " environment"
            f" ({_variable(name)}) or in the file that credentials_file names"
        )
    if not isinstance(value, str):
        shown = type(value).__name__ if is_secret(name) else repr(value)
        raise ConfigurationException(f"{name}: expected a text, found {shown}")


def _read_credentials(path: object) -> dict[str, Any]:
    if not isinstance(path, str):
        raise ConfigurationException(f"credentials_file: expected a path, found {path!r}")
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            _refuse_readable_by_others(path, os.fstat(file.fileno()).st_mode)
            credentials = json.load(file)
    except (
        json.JSONDecodeError
    ) as e:  # its text shows a position, the error itself holds the content
        raise ConfigurationException(f"credentials_file {path!r} is not JSON: {e}") from None
    except OSError as e:
        raise ConfigurationException(f"credentials_file {path!r}: {unreadable(e)}") from None
    except RecursionError:
        raise ConfigurationException(
            f"credentials_file {path!r} is not JSON of this kind: it is nested too deeply"
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationException(f"credentials_file {path!r} is not UTF-8 text") from None
    if not isinstance(credentials, dict):
        raise ConfigurationException(
            f"credentials_file {path!r}: expected a JSON object with {', '.join(_FIELDS)},"
            f" found {type(credentials).__name__}"
        )
    return credentials


def _refuse_readable_by_others(path: str, mode: int) -> None:
    if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationException(
            f"credentials_file {path!r} can be used by others (mode {stat.S_IMODE(mode):04o}):"
            f" expected 0600 or less, as after `chmod 600 {shlex.quote(os.path.expanduser(path))}`"
        )
