"""Completion of command lines: what the shell may offer, from a small cache file and never from the
network.

The cache, `.example_node_cache.json` in the home of the integration's driver, has one example node
per bucket and the names of the nodes, those that only the scheduler knows included.
`refresh_autocomplete` and every autoscale write it anew.
"""

from __future__ import annotations

import fnmatch
import json
import os
import tempfile
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.faults import Faults, call_with_up_to
from hpc.autoscale.cli.hooks import Config, Hooks
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.job.demandprinter.columns import all_column_names
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.redaction import redact
from hpc.autoscale.util import json_dump, load_config

Completer = Callable[..., list[str]]
A = TypeVar("A", bound=Action)

CACHE_FILE = ".example_node_cache.json"


def completed_by(completer: Completer, action: A) -> A:
    """Let completion ask `completer` for the values of an option."""
    action.completer = completer  # type: ignore[attr-defined]
    return action


def default_completer(*args: Any, **kwargs: Any) -> list[str]:
    """What to offer for an option without a completer: nothing, rather than the files that happen
    to be around."""
    return []


def fnmatch_validator(keyword: str, current: str) -> bool:
    """Whether `keyword` completes `current`, which may have wildcards."""
    return fnmatch.fnmatch(keyword, current + "*")


class Completion(Hooks):
    """Example nodes and what is completed from them."""

    # -- what an integration may write

    def _make_example_nodes(self, config: Config, node_mgr: NodeManager) -> list[Node]:
        """One node for each kind that completion should know about."""
        return [bucket.example_node for bucket in node_mgr.get_buckets()]

    def _add_completion_data(self, completion_json: dict[str, Any]) -> None:
        """Add to what is kept for completion, under keys of one's own."""

    def _read_completion_data(self, completion_json: dict[str, Any]) -> None:
        """Take back what was added."""

    def _invoke_autocomplete(self, parser: ArgumentParser) -> None:
        """Answer the shell, when it is the shell that asks."""
        if "_ARGCOMPLETE" not in os.environ:
            return
        import argcomplete

        complete: Callable[..., None] = argcomplete.autocomplete
        complete(parser, default_completer=default_completer, validator=fnmatch_validator)

    # -- the cache

    def refresh_autocomplete(self, config: Config) -> None:
        """Writes anew what completion knows about nodes."""
        self._get_example_nodes(config, force=True)

    def _refresh_in_passing(self, config: Config) -> None:
        """The same where there is a place for it; what goes wrong is only logged."""
        if os.path.isdir(self._state_home(config)):
            Faults().guard("refreshing completion", self.refresh_autocomplete, config)

    def _get_example_nodes(self, config: Config, force: bool = False) -> list[Node]:
        """The example nodes, from the cache where there is one; `force` reads them from
        CycleCloud."""
        path = os.path.join(self._state_home(config), CACHE_FILE)
        if not force and (self.example_nodes or self._read_cache(path)):
            return self.example_nodes
        driver, config = self._prepared(config)
        node_mgr = self._node_mgr(config, driver)
        self.example_nodes = self._make_example_nodes(config, node_mgr)
        read = Faults().guard("reading the scheduler's hosts", driver.read_jobs_and_nodes, config)
        nodes = node_mgr.get_nodes()
        hosts = {str(node.hostname).lower() for node in nodes if node.hostname}
        own = [n for n in (read[1] if read else ()) if str(n.hostname).lower() not in hosts]
        self.node_names = [str(node.name) for node in (*nodes, *own)]
        self.hostnames = [str(node.hostname) for node in (*nodes, *own) if node.hostname]
        self._write_cache(path)
        return self.example_nodes

    def _write_cache(self, path: str) -> None:
        """Replace the cache in one step, for the owner's eyes only."""
        content: dict[str, Any] = {
            "example-nodes": [_without_secrets(node) for node in self.example_nodes],
            "node-names": self.node_names,
            "hostnames": self.hostnames,
        }
        self._add_completion_data(content)
        try:
            _replace(path, content)
        except OSError as problem:
            raise AutoscaleError(
                f"what completion knows cannot be written to {path}: {problem.strerror}"
            ) from problem

    def _read_cache(self, path: str) -> bool:
        """Whether there was a cache that could be read. A broken one is as good as none."""
        try:
            with open(path, encoding="utf-8") as stream:
                content = json.load(stream)
            self.example_nodes = [Node.from_dict(node) for node in content["example-nodes"]]
            self.node_names = list(content["node-names"])
            self.hostnames = list(content["hostnames"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            logging.debug("no completion data in %s: %s", path, problem)
            return False
        self._read_completion_data(content)
        return True

    # -- completers

    def _cached_nodes(self, parsed_args: Namespace | None = None) -> list[Node]:
        if not self.example_nodes:
            config = self._config_at_hand(getattr(parsed_args, "config", None))
            home = Faults().guard("completing", self._state_home, config) if config else None
            self._read_cache(os.path.join(home or self.autoscale_home, CACHE_FILE))
        return self.example_nodes

    def _config_at_hand(self, path: str | None) -> Config | None:
        """The configuration that the line names, as far as it can be used."""
        if not path:
            return None
        try:
            return load_config(path)
        except RuntimeError as problem:
            _note("%s: %s", path, problem)
            return None

    def _complete_node_names(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        self._cached_nodes(parsed_args)
        return _next_of_list(prefix, self.node_names)

    def _complete_hostnames(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        self._cached_nodes(parsed_args)
        return _next_of_list(prefix, self.hostnames)

    def _complete_nodearrays(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        return _distinct(node.nodearray for node in self._cached_nodes(parsed_args))

    def _complete_vm_sizes(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        nodearray = getattr(parsed_args, "nodearray", None)
        nodes = [n for n in self._cached_nodes(parsed_args) if nodearray in (None, n.nodearray)]
        return _distinct(n.vm_size for n in nodes) or vm_sizes.all_possible_vm_sizes()

    def _complete_output_columns(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        nodes = self._cached_nodes(parsed_args)
        names = {*all_column_names(nodes), *QUERYABLE_PROPERTIES, "job_ids"}
        for node in nodes:
            names.update(node.resources, node.metadata)
        command = getattr(parsed_args, "cmd", None)
        names.update(self._columns_by_default(getattr(parsed_args, "config", None), command))
        return _next_of_list(prefix, sorted(names))

    def _columns_by_default(self, config_path: str | None, command: str | None) -> list[str]:
        config = self._config_at_hand(config_path)
        if config is None:
            return []
        return call_with_up_to(self._default_output_columns, config, command)

    def _complete_constraints(
        self, prefix: str, parsed_args: Namespace | None = None, **kwargs: Any
    ) -> list[str]:
        nodes = self._cached_nodes(parsed_args)
        name, equals, _ = prefix.partition("=")
        if equals:
            return [f"{name}={value}" for value in _values_of(name, nodes)]
        resources = {name for node in nodes for name in node.resources}
        names = [*(f"node.{prop}" for prop in QUERYABLE_PROPERTIES), *sorted(resources)]
        return [f"{name}=" for name in names]


def _replace(path: str, content: Any) -> None:
    """Write JSON beside the file, for the owner's eyes only, and rename it over the file."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=CACHE_FILE)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json_dump(content, stream)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _without_secrets(node: Node) -> dict[str, Any]:
    """The JSON form of a node, without the secrets of its configuration."""
    known = node.to_dict()
    return {**known, "software-configuration": redact(known["software-configuration"])}


def _values_of(name: str, nodes: Iterable[Node]) -> list[str]:
    """Values that a constraint could ask for: those that the example nodes have, or all that there
    are."""
    if name.startswith("node."):
        prop = name.removeprefix("node.")
        values = [getattr(node, prop, None) for node in nodes if prop in QUERYABLE_PROPERTIES]
    else:
        values = [node.resources.get(name) for node in nodes]
    everywhere: dict[str, Callable[[], Iterable[str]]] = {
        "node.vm_size": vm_sizes.all_possible_vm_sizes,
        "node.vm_family": vm_sizes.all_possible_vm_families,
        "node.location": vm_sizes.all_possible_locations,
    }
    found = _distinct(_as_typed(value) for value in values if value is not None)
    return found or list(everywhere.get(name, list)())


def _as_typed(value: Any) -> str:
    """A value as the user would type it in a constraint."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Size):
        return value.convert_to("g").to_json()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _next_of_list(prefix: str, words: Iterable[str]) -> list[str]:
    """The next words of a list separated by commas, each ready for another one."""
    done, comma, _ = prefix.rpartition(",")
    chosen = set(done.split(","))
    return [f"{done}{comma}{word}," for word in words if word not in chosen]


def _distinct(words: Iterable[str]) -> list[str]:
    return sorted(set(words))


def _note(text: str, *args: object) -> None:
    """Say something while completing, where nothing may be printed: in the file that the user named
    for it, if any."""
    path = os.getenv("SCALELIB_AUTOCOMPLETE_LOG")
    if path:
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(text % args + "\n")
