"""Which scheduler driver `azscale` works with: none, or the one that the configuration names.

`hpc.autoscale.jetpack` makes its passes with the same one.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import Any

from hpc.autoscale.autoscaler.faults import HookError, without_exit
from hpc.autoscale.config.reported_hosts import reporting_no_hosts
from hpc.autoscale.errors import (
    AutoscaleError,
    ConfigurationException,
    did_you_mean,
    while_doing,
    with_type,
)
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.requestsets.dynamic import marked
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.statefiles import REQUEST_SETS, path_of
from hpc.autoscale.util import lock_file_of

Config = dict[str, Any]
PROJECT_NAME = "scalelib"


class GenericDriver(SchedulerDriver):
    """A driver for no scheduler: it has no jobs, and every hook succeeds for all nodes."""

    def __init__(self, project_name: str) -> None:
        super().__init__(project_name)

    def initialize(self) -> None:
        """Nothing has to be prepared."""

    def preprocess_config(self, config: Config) -> Config:
        """The configuration as it is."""
        return config

    def _read_jobs_and_nodes(self, config: Config) -> tuple[list[Job], list[SchedulerNode]]:
        return [], []

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """All nodes given."""
        return nodes

    def add_nodes_to_cluster(
        self, nodes: list[Node], include_permanent: bool = False
    ) -> list[Node]:
        """All nodes given."""
        return nodes

    def handle_post_join_cluster(self, nodes: list[Node]) -> list[Node]:
        """All nodes given."""
        return nodes

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """All nodes given."""
        return nodes

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """All nodes given."""
        return nodes

    def handle_post_delete(self, nodes: list[Node]) -> list[Node]:
        """All nodes given."""
        return nodes

    def foresee(self, hook: str, nodes: list[Node]) -> list[Node]:
        """All nodes given, but for methods of which a driver has its own."""
        is_ours = getattr(type(self), hook) is getattr(GenericDriver, hook)
        return nodes if is_ours else super().foresee(hook, nodes)


class RequestSetDriver(GenericDriver):
    """A driver for passes that serve request sets and no scheduler.

    Nodes may be deleted only in dynamic arrays, and in nodearrays that a request set has ever
    named: nobody knows what the others are for.
    """

    def __init__(self, project_name: str) -> None:
        super().__init__(project_name)
        self._store: RequestStore | None = None

    def preprocess_config(self, config: Config) -> Config:
        """The configuration, which says where the request sets are; there are no hosts."""
        self._store = RequestStore(path_of(REQUEST_SETS, config, self.autoscale_home))
        return reporting_no_hosts(config)

    def preprocess_node_mgr(self, config: Config, node_mgr: NodeManager) -> None:
        """No spare placement groups are made: each group of a request set has its own."""

    def handle_failed_nodes(self, nodes: list[Node]) -> list[Node]:
        """The nodes in nodearrays of request sets."""
        return self._ours(nodes)

    def handle_boot_timeout(self, nodes: list[Node]) -> list[Node]:
        """The nodes in nodearrays of request sets."""
        return self._ours(nodes)

    def handle_draining(self, nodes: list[Node]) -> list[Node]:
        """The nodes in nodearrays of request sets."""
        return self._ours(nodes)

    def foresee(self, hook: str, nodes: list[Node]) -> list[Node]:
        """What the method itself returns: none of them changes anything."""
        found: list[Node] = getattr(self, hook)(nodes)
        return found

    def _ours(self, nodes: list[Node]) -> list[Node]:
        if not nodes or self._store is None:
            return []
        named = self._store.nodearrays()
        return [
            node
            for node in nodes
            # what is of a dynamic array was started for a request set, also when the file is gone
            if node.nodearray in named or marked(node.software_configuration) == node.nodearray
        ]


def driver_for(config: Config, directory: str = "") -> SchedulerDriver:
    """A new driver for a pass: the one that the configuration names, or one for request sets alone.

    ConfigurationException when there is something wrong with the one that it names.
    """
    spec = config.get("driver")
    if not spec:
        return RequestSetDriver(PROJECT_NAME)
    return load_driver(str(spec), PROJECT_NAME, config, directory)


def keep_files_beside(config: Config, home: str, directory: str) -> str:
    """Where files are kept: `home`, or the directory of the configuration while there is no home.

    In the latter case the configuration is given a lock file and a node history there, unless it
    names others.
    """
    if not directory or os.path.isdir(home):
        return home
    config.setdefault("lock_file", lock_file_of(config, os.path.join(directory, "lock.file")))
    config.setdefault("nodehistorydb", os.path.join(directory, "nodehistory.db"))
    return directory


def load_driver(
    spec: str, project_name: str, config: Config, directory: str = ""
) -> SchedulerDriver:
    """The driver that `package.module:Class` names.

    The module is looked for where Python looks, and then in `directory`. The class, or function, is
    called with the configuration if its first required parameter is called `config`, with the
    project name if that has another name, and without arguments if nothing is required.
    ConfigurationException, which says what is wrong with `driver`, when this fails; HookError where
    the module raises something, and whatever the class raises.
    """
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise ConfigurationException(f"driver: expected package.module:Class, found {spec!r}")
    factory = getattr(_module(spec, module_name, directory), name, None)
    if not callable(factory):
        module = sys.modules[module_name]
        known = [each for each in dir(module) if callable(getattr(module, each, None))]
        # another one of that name may have been found first
        found = f"module {module_name} ({getattr(module, '__file__', None) or 'of Python itself'})"
        raise ConfigurationException(
            f"driver: {found} has no class {name}{did_you_mean(name, known)}"
        )
    if missing := getattr(factory, "__abstractmethods__", None):
        raise ConfigurationException(
            f"driver: expected a whole driver, {spec} lacks {', '.join(sorted(missing))}"
        )
    try:
        with without_exit(f"driver: making {spec}"):
            driver = factory(*_arguments(factory, project_name, config))
    except Exception as error:
        while_doing(error, f"driver: making {spec}")
        raise
    if not isinstance(driver, SchedulerDriver):
        raise ConfigurationException(
            f"driver: expected {spec} to make a SchedulerDriver, found {type(driver).__name__}"
        )
    if not hasattr(driver, "name"):
        raise ConfigurationException(
            f"driver: expected {spec} to call super().__init__ with the name of the integration"
        )
    return driver


def _module(spec: str, module_name: str, directory: str) -> Any:
    place = os.path.abspath(directory) if directory else ""
    if place and place not in sys.path:
        sys.path.append(place)
    try:
        with without_exit(f"driver: importing {module_name}"):
            return importlib.import_module(module_name)
    except ImportError as problem:
        raise ConfigurationException(
            f"driver: {spec!r} cannot be imported: {problem} (looked in {place or 'sys.path'} and"
            " on sys.path)"
        ) from problem
    except AutoscaleError:
        raise
    except Exception as error:
        said = with_type(error)
        if "marshal data" in said:
            said += ": delete __pycache__ beside it, which was cut off, as on a full disk"
        raise HookError(f"driver: importing {module_name}: {said}") from error


def _arguments(factory: Any, project_name: str, config: Config) -> tuple[Any, ...]:
    required = [
        parameter
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if not required:
        return ()
    return (config,) if required[0].name == "config" else (project_name,)
