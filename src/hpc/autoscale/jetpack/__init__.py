"""CycleCloud's auto-scale plug-in API, for any cluster that this library reaches.

    import hpc.autoscale.jetpack as autoscale

    autoscale.set("execute", corecount=128)

takes the place of `import jetpack.autoscale` in scripts of cluster nodes. A reporter says again and
again what it needs now; what it does not repeat lapses. Each call records the wish and makes one
pass, unless another process is making passes already. How a wish becomes nodes is the business of
`hpc.autoscale.requestsets` and of the loop.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.autoscaler.serving import report
from hpc.autoscale.cli.drivers import driver_for, keep_files_beside
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.jetpack.jobs import arrays_of_jobs, listed
from hpc.autoscale.requestsets.definitions import DEFAULT_NODEARRAY, RequestError
from hpc.autoscale.requestsets.recording import LEAST_SECONDS, STANDARD, NotServedError
from hpc.autoscale.requestsets.store import RequestStoreError
from hpc.autoscale.util import load_config

__all__ = [
    "NotServedError",
    "RequestError",
    "RequestStoreError",
    "config_path",
    "configure",
    "scale_by_jobs",
    "set",
    "update",
]

_HOME = "/opt/azurehpc/scalelib"

_configured: str | os.PathLike[str] | Mapping[str, Any] | None = None


def configure(config: str | os.PathLike[str] | Mapping[str, Any] | None) -> None:
    """Say which cluster is meant: the path of an autoscale.json, or its content.

    None: as without a call, `$AUTOSCALE_CONFIG`, else `$AUTOSCALE_HOME/autoscale.json`.
    """
    global _configured
    _configured = config


def set(
    name: str = DEFAULT_NODEARRAY, corecount: int | None = None, instancecount: int | None = None
) -> None:
    """Want so many cores, or so many instances, of one nodearray, and nothing else.

    It is an `update` of the request set `standard`, with one definition.
    """
    definition: dict[str, Any] = {"Name": name}
    if corecount is None and instancecount is None:
        raise RequestError("set: expected corecount or instancecount, found neither")
    if corecount is not None:
        definition["TargetCoreCount"] = corecount
    if instancecount is not None:
        definition["TargetCount"] = instancecount
    update([definition])


def update(
    arrays: Iterable[Mapping[str, Any]],
    request_set: str = STANDARD,
    expiration_interval: float = LEAST_SECONDS,
) -> None:
    """Say all that a reporter needs now, as a list of nodearray definitions.

    They replace what the request set wanted before, and stand for `expiration_interval` seconds,
    but at least 300. An empty list wants nothing. RequestError when a definition cannot be used,
    RequestStoreError when the wish cannot be recorded: then what stood before stays in force.
    NotServedError when it is recorded and could not be served now.
    """
    config, directory = _found()
    driver = driver_for(config, directory)
    home = keep_files_beside(config, driver.autoscale_home, directory)
    summary = report(
        config,
        home,
        lambda: Autoscaler(config, lambda: driver_for(config, directory)),
        listed(arrays),
        request_set,
        expiration_interval,
    )
    if summary is not None and not summary.ok:
        raise NotServedError(request_set, "; ".join(map(str, summary.errors)))


def scale_by_jobs(
    jobs: Iterable[Mapping[str, Any]],
    array_definitions: Iterable[Mapping[str, Any]] | None = None,
) -> None:
    """Want the cores of these jobs: the sum of `request_cpus` for each `nodearray`.

    A job without a nodearray is for `execute`. `array_definitions` are merged by Name onto the
    definitions that are made of the jobs. It is an `update` of the request set `standard`.
    """
    update(arrays_of_jobs(jobs, array_definitions or ()))


def config_path() -> str:
    """The autoscale.json that is used where `configure` said nothing."""
    named = os.getenv("AUTOSCALE_CONFIG")
    return named or os.path.join(os.getenv("AUTOSCALE_HOME") or _HOME, "autoscale.json")


def _found() -> tuple[dict[str, Any], str]:
    """The configuration, and the directory that it is in; the latter empty for one that is none of
    a file."""
    source = config_path() if _configured is None else _configured
    if not isinstance(source, str | os.PathLike):
        return load_config(source), ""
    if not os.path.exists(source):
        raise ConfigurationException(
            f"expected autoscale.json at {source}: call configure(), or set AUTOSCALE_CONFIG"
        )
    return load_config(source), os.path.dirname(os.path.abspath(source))
