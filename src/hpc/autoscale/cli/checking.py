"""Everything that is wrong with a configuration at once, for `azscale config --check`.

Commands end with the first mistake, before they do anything; here all of them are found, as far as
one can look beyond each. What needs the cluster is looked at when it can be reached.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hpc.autoscale.cli.unknown import (
    unknown_columns,
    unknown_resources,
    unknown_resources_named,
    unknown_vm_sizes,
)
from hpc.autoscale.config import exposed_passwords, short_secrets, unknown_commands
from hpc.autoscale.config.check import find_problems
from hpc.autoscale.config.load import load_with_duplicates
from hpc.autoscale.errors import ConfigurationException, one_line, one_line_and_where
from hpc.autoscale.hpclogging.conffiles import problem_of
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import get_constraints
from hpc.autoscale.node.default_resources import DefaultResourceError
from hpc.autoscale.node.default_resources.definition import FromResource
from hpc.autoscale.node.default_resources.reading import value_from
from hpc.autoscale.node.nodehistory.dbfile import MEMORY
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.node.nodemanager.policies import configured_policy
from hpc.autoscale.statefiles import STATE_FILES

Config = dict[str, Any]

BY_ITS_CODE = ("driver: importing ", "driver: making ")
"""How the texts of errors begin that the code of a driver raises before there is a driver."""

_OF_A_LOG_FILE = "correct the file, name another with logging.config_file, or take the key out"

_FILES_OF_SECTIONS = ("journal.directory", "metrics.file", "metrics.health_file")


class Finding(NamedTuple):
    """A line about a configuration. An error keeps commands from working; anything else may be
    meant. `remedy`: what to do, where that is another thing than to correct what is named; empty
    where the text says it."""

    is_error: bool
    text: str
    remedy: str | None = None

    @property
    def verdict(self) -> str:
        """Which of both, in a word."""
        return "error" if self.is_error else "warning"

    def to_dict(self) -> dict[str, str]:
        """The JSON form."""
        return {"verdict": self.verdict, "found": self.text}

    def __str__(self) -> str:
        return f"{self.verdict}: {self.text}"


def check_file(
    path: str, commands: Iterable[str], node_mgr: Callable[[Config], NodeManager]
) -> Iterator[Finding]:
    """All that is wrong with the configuration at `path`, and what is likely to be a mistake.

    `commands`: those that there are. `node_mgr` reads the cluster; it is called when nothing is
    wrong so far.
    """
    found = list(check_alone(path, commands))
    yield from found
    if not any(finding.is_error for finding in found):
        yield from check_with_cluster(load_with_duplicates(path)[0], node_mgr)


def check_alone(path: str, commands: Iterable[str]) -> Iterator[Finding]:
    """What is wrong with the configuration at `path` as far as one can tell without the cluster."""
    try:
        config, duplicates = load_with_duplicates(path)
    except ConfigurationException as error:
        yield Finding(True, error.in_words(), _remedy_of_file(error))
        return
    errors = [Finding(True, text) for text in (*duplicates, *find_problems(config))]
    if not errors:
        errors = [Finding(True, text) for text in _in_weights(config)]
        errors += _in_logging(config)
    yield from errors
    if not duplicates:
        yield from (Finding(False, text, "") for text in exposed_passwords(path))
    if not any(finding.is_error for finding in errors):
        yield from (Finding(False, text) for text in unknown_commands(config, commands))
        yield from (Finding(False, text, "") for text in short_secrets(config))
        yield from (Finding(False, text, "") for text in _relative_paths(config))


def _remedy_of_file(error: ConfigurationException) -> str | None:
    """What to do about a configuration that cannot be read."""
    if isinstance(error.__cause__, FileNotFoundError | IsADirectoryError):
        return "name the file that is meant with -c; `azscale initconfig` makes a first one"
    if isinstance(error.__cause__, OSError):
        return "let the user that runs azscale read the file, or name another one with -c"
    return None


def _relative_paths(config: Config) -> Iterator[str]:
    """Files of passes that are others for whoever is in another directory."""
    state = [file.key for file in STATE_FILES if file.is_named]
    relative = []
    for key in ("lock_file", "lock_path", *state, *_FILES_OF_SECTIONS):
        section, _, name = key.rpartition(".")
        values = (config.get(section) or {}) if section else config
        path = values.get(name) if isinstance(values, dict) else None
        if path and isinstance(path, str) and path != MEMORY and not os.path.isabs(path):
            relative.append(f"{key} {path!r}")
    if relative:
        yield (
            f"{', '.join(relative)}: as seen from the working directory, which is another one for"
            " cron, for a service and for who types a command: expected the whole path"
        )


def _in_weights(config: Config) -> Iterator[str]:
    """What is wrong with weights of regions that are worked out."""
    if not config.get("weights"):
        return
    # takes long to import
    from hpc.autoscale.weights.current import check_section

    try:
        check_section(config)
    except ConfigurationException as error:
        yield str(error)


def _in_logging(config: Config) -> Iterator[Finding]:
    """What is wrong with the file that says where the log goes. Nothing is logged by it."""
    section = config.get("logging") or {}
    path = section.get("config_file")
    if path and section.get("config"):
        said = "logging: expected config_file or config, found both: config is not used"
        yield Finding(False, said, "take one of the two out")
    found = problem_of(str(path)) if path else None
    if found is None:
        return
    ends_commands, text = found
    said = f"logging.config_file {path!r} cannot be used: {text}"
    if ends_commands:
        yield Finding(True, said, _OF_A_LOG_FILE)
    else:
        yield Finding(False, f"{said}; nothing is logged", _OF_A_LOG_FILE)


def _read_by(given: Any, buckets: list[NodeBucket]) -> list[str]:
    """The resource from which the value of a default resource comes, if any."""
    value = value_from(given)
    if not isinstance(value, FromResource):
        return []
    is_whole = any(value.name in bucket.resources for bucket in buckets)
    return [value.name if is_whole else value.whole]


def _in_policy(config: Config) -> Iterator[str]:
    """What is wrong with the order policy, as far as one can tell without the driver."""
    try:
        configured_policy(config)
    except ConfigurationException as error:
        yield one_line(error)


def check_with_cluster(
    config: Config, node_mgr: Callable[[Config], NodeManager]
) -> Iterator[Finding]:
    """What of a valid configuration the cluster knows nothing of; `node_mgr` reads it."""
    try:
        manager = node_mgr(config)
    except Exception as error:  # noqa: BLE001  drivers are not ours, and the cluster may be away
        text = one_line_and_where(error)
        is_ours = isinstance(error, ConfigurationException | DefaultResourceError)
        if not (is_ours or text.startswith(BY_ITS_CODE)):
            yield Finding(False, f"not held against the cluster: {text}")
            return
        yield Finding(True, text)
        for said in _in_policy(config):
            if said != text:  # the driver, which cannot be had, may register it
                yield Finding(False, said)
        return
    buckets = manager.get_buckets()
    for text in (*manager.problems, *manager.doubts):
        yield Finding(False, text)
    yield from (Finding(False, text) for text in _names(config, buckets))


def _names(config: Config, buckets: list[NodeBucket]) -> Iterator[str]:
    """Resources, sizes and columns that nothing in the cluster has."""
    for index, resource in enumerate(config.get("default_resources") or ()):
        where = f"default_resources[{index}].select"
        select = resource["select"]
        given = select if isinstance(select, list) else [select]
        constraints = get_constraints([each for each in given if each])
        for text in unknown_resources(constraints, (), buckets):
            yield f"{where}: {text}"
        yield from unknown_vm_sizes(select, where, buckets)
        for text in unknown_resources_named(_read_by(resource["value"], buckets), (), buckets):
            yield f"default_resources[{index}].value: {text}"
    columns = config.get("output-columns") or config.get("output_columns") or {}
    for command, names in (columns if isinstance(columns, dict) else {"": columns}).items():
        where = f"output-columns.{command}".rstrip(".")
        yield from (f"{where}: {text}" for text in unknown_columns(names, (), buckets))
