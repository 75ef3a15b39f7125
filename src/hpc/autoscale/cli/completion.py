"""What the shell may offer while a command line is typed; from a cache file, never the network.

The file, `.example_node_cache.json` in the home of the integration's driver, has one example node
per bucket and the names of nodes and hosts, those that only the scheduler knows included. The
commands `refresh_autocomplete` and `autoscale` write it. `base.CommandLine` owns a
`CompletionCache`, finds its file and fills it; what is offered for a prefix is worked out here.
"""

from __future__ import annotations

import fnmatch
import io
import json
import os
from argparse import Action
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.columns import all_column_names, column_named
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.redaction import redact
from hpc.autoscale.util import json_dump
from hpc.autoscale.wholefiles import unwritable, write_whole

Completer = Callable[..., list[str]]
A = TypeVar("A", bound=Action)

CACHE_FILE = ".example_node_cache.json"


def is_completing() -> bool:
    """Whether a shell asks for what could be written next."""
    return "_ARGCOMPLETE" in os.environ


def completed_by(completer: Completer, action: A) -> A:
    """Let completion ask `completer` for the values of an option; the result is the option."""
    action.completer = completer  # type: ignore[attr-defined]
    return action


def default_completer(*args: Any, **kwargs: Any) -> list[str]:
    """Offer nothing for an option that has no completer; argcomplete itself would offer files."""
    return []


def fnmatch_validator(keyword: str, current: str) -> bool:
    """Whether `keyword` completes `current`, which may have wildcards."""
    return fnmatch.fnmatch(keyword, current + "*")


class CompletionCache:
    """Example nodes and names, kept in a file, and the words to offer that follow from them.

    Methods that take a `prefix` complete the last word of a list that is separated by commas.
    """

    def __init__(self) -> None:
        self.example_nodes: list[Node] = []
        self.node_names: list[str] = []
        self.hostnames: list[str] = []

    def fill(self, example_nodes: Iterable[Node], nodes: Iterable[Node]) -> None:
        """Replace what is known: nodes to show values of, and nodes whose names may be typed."""
        known = list(nodes)
        self.example_nodes = list(example_nodes)
        self.node_names = [str(node.name) for node in known]
        self.hostnames = [str(node.hostname) for node in known if node.hostname]

    # -- the file

    def to_dict(self) -> dict[str, Any]:
        """The content of the file, without the secrets in the configuration of nodes."""
        return {
            "example-nodes": [_without_secrets(node) for node in self.example_nodes],
            "node-names": self.node_names,
            "hostnames": self.hostnames,
        }

    def read(self, path: str) -> dict[str, Any] | None:
        """Take over what the file has; its content, or None when it is missing or broken."""
        try:
            with open(path, encoding="utf-8") as stream:
                content: dict[str, Any] = json.load(stream)
            self.example_nodes = [Node.from_dict(node) for node in content["example-nodes"]]
            self.node_names = list(content["node-names"])
            self.hostnames = list(content["hostnames"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            logging.debug("no completion data in %s: %s", path, problem)
            return None
        return content

    # -- words to offer

    def complete_node_names(self, prefix: str) -> list[str]:
        """Offer names of nodes."""
        return next_of_list(prefix, self.node_names)

    def complete_hostnames(self, prefix: str) -> list[str]:
        """Offer host names."""
        return next_of_list(prefix, self.hostnames)

    def things(self) -> list[str]:
        """Nodes, hosts, nodearrays and buckets: what `explain` can be asked about, but for jobs."""
        buckets = [f"{node.nodearray}/{node.vm_size}" for node in self._startable()]
        return _distinct([*self.node_names, *self.hostnames, *self.nodearrays(), *buckets])

    def nodearrays(self) -> list[str]:
        """Nodearrays that nodes can be started in."""
        return _distinct(node.nodearray for node in self._startable())

    def vm_sizes(self, nodearray: str | None) -> list[str]:
        """VM sizes of a nodearray, or of all; those of the catalogue where none is known."""
        nodes = [node for node in self._startable() if nodearray in (None, node.nodearray)]
        return _distinct(node.vm_size for node in nodes) or vm_sizes.all_possible_vm_sizes()

    def _startable(self) -> list[Node]:
        """Example nodes of buckets of the cluster: a host that only the scheduler knows stands in
        one that is not in any place."""
        return [node for node in self.example_nodes if node.location != "unknown"]

    def complete_columns(self, prefix: str, by_default: Iterable[str]) -> list[str]:
        """Columns that some node has a value for, and those that a command prints by default."""
        names = {*all_column_names(self.example_nodes), *QUERYABLE_PROPERTIES, "job_ids"}
        for node in self.example_nodes:
            names.update(node.resources, node.metadata)
        return next_of_list(prefix, sorted({*map(column_named, names), *by_default}))

    def constraints(self, prefix: str) -> list[str]:
        """Constraints as `name=value` where the prefix has a name, and names with `=` otherwise."""
        name, equals, _ = prefix.partition("=")
        if equals:
            return [f"{name}={value}" for value in self._values_of(name)]
        resources = {name for node in self.example_nodes for name in node.resources}
        names = [*(f"node.{prop}" for prop in QUERYABLE_PROPERTIES), *sorted(resources)]
        return [f"{name}=" for name in names]

    def _values_of(self, name: str) -> list[str]:
        """The values that example nodes have under a name; all that exist where they have none."""
        nodes = self.example_nodes
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


def next_of_list(prefix: str, words: Iterable[str]) -> list[str]:
    """The words that may come next in a list separated by commas, each followed by a comma.

    Words that the list has already are left out. `prefix` is the list as typed so far.
    """
    done, comma, _ = prefix.rpartition(",")
    chosen = set(done.split(","))
    return [f"{done}{comma}{word}," for word in words if word not in chosen]


def write_cache(path: str, content: Mapping[str, Any]) -> None:
    """Replace the file in one step, readable for its owner alone.

    AutoscaleError when it cannot be written.
    """
    text = io.StringIO()
    json_dump(content, text)
    try:
        write_whole(path, text.getvalue(), 0o600)
    except OSError as problem:
        raise AutoscaleError(f"completion data {path}: {unwritable(problem)}") from problem


def note(text: str, *args: object) -> None:
    """Append to the file that SCALELIB_AUTOCOMPLETE_LOG names; without it do nothing.

    While the shell completes nothing may be printed.
    """
    path = os.getenv("SCALELIB_AUTOCOMPLETE_LOG")
    if path:
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(on_one_line(text % args) + "\n")


def _without_secrets(node: Node) -> dict[str, Any]:
    known = node.to_dict()
    return {**known, "software-configuration": redact(known["software-configuration"])}


def _as_typed(value: Any) -> str:
    """A value as the user would type it in a constraint."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Size):
        return value.convert_to("g").to_json()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _distinct(words: Iterable[str]) -> list[str]:
    return sorted(set(words))
