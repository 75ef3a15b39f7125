"""Commands about the configuration: config, initconfig, default_output_columns."""

from __future__ import annotations

import json
import os
import sys
from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from hpc.autoscale.autoscaler import learning
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.ccbindings.connecting import check_members
from hpc.autoscale.cli.argparser import amount_type
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import table_width
from hpc.autoscale.config import config_schema
from hpc.autoscale.errors import MistakenWord, did_you_mean
from hpc.autoscale.node.nodemanager import NodeManager, new_node_manager
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.redaction import redact
from hpc.autoscale.requestsets.extending import DRIVERS_WISH
from hpc.autoscale.tables import print_rows
from hpc.autoscale.util import json_dump


class _PrintSchema(Action):
    """Prints the schema of the configuration and ends; no configuration is needed for that."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        print(json.dumps(config_schema(), indent=2))
        parser.exit()


class ConfigurationCommands(CommandLine):
    """Commands about the configuration."""

    def config_parser(self, parser: ArgumentParser) -> None:
        """Options of config."""
        parser.set_defaults(read_only=False)  # a read-only mode of our own would be printed, too
        parser.add_argument(
            "--check",
            action="store_const",
            const=self._check_config,
            dest="instead",
            help="say all that is wrong with it, and what is likely to be, instead; exit code 1"
            " when something is wrong",
        )
        parser.add_argument(
            "--schema", action=_PrintSchema, help="print its JSON Schema (draft 2020-12) instead"
        )
        self._add_noted_format(parser, "json, and with --check table")

    def _check_config(self, path: str) -> None:
        """Print what is wrong with the configuration at a path, a line each."""
        from hpc.autoscale.cli.checking import check_file

        def node_mgr(config: Config) -> NodeManager:
            driver, config = self._prepared({**config, "read_only": True, "lock_file": None})
            check_members(config, new_cluster_bindings)
            return learning.prepared_manager(new_node_manager(config), config, driver)

        names = [name for name in dir(self) if self._is_command(name)]
        found = []
        for finding in check_file(path, names, node_mgr):
            found.append(finding)
            if self._noted_format != "json":
                print(on_one_line(str(finding)))
        if self._noted_format == "json":
            print(json.dumps([finding.to_dict() for finding in found], indent=2))
        if any(finding.is_error for finding in found):
            raise SystemExit(1)

    def config(self, config: Config, writer: TextIO | None = None) -> None:
        """Prints the configuration as it is used, without its secrets."""
        _, config = self._prepared(config)
        for key in (DRIVERS_WISH, learning.WEIGHTS_PROBLEM):  # which nobody wrote there
            config.pop(key, None)
        writer = writer or sys.stdout
        printable = {key: _printable(value) for key, value in redact(config).items()}
        form = self._noted_format or "json"
        if form != "json":
            print_rows(["key", "value"], _flat(printable), writer, form, table_width())
            return
        json_dump(printable, writer)
        writer.write("\n")

    def default_output_columns_parser(self, parser: ArgumentParser) -> None:
        """Options of default_output_columns."""
        parser.add_argument("--command", "-d", help="of this command")
        self._add_noted_format(parser)

    def default_output_columns(self, config: Config, command: str | None = None) -> None:
        """Prints the columns used by default, as an option and as a piece of configuration."""
        if command is not None:
            known = [name for name in dir(self) if self._is_command(name)]
            if command not in known:
                raise MistakenWord(f"there is no command {command!r}{did_you_mean(command, known)}")
        columns = self._table_columns(config, command)
        columns = columns or self._columns_by_default_of(config, command)
        if self._noted_format != "json":
            print(f"--output-columns {','.join(columns)}")
        print(json.dumps({"output-columns": {command or "default": columns}}, indent=2))

    def _is_command(self, name: str) -> bool:
        """Whether there is such a command, with or without a driver."""
        public = not name.startswith("_") and not name.endswith("_parser")
        return public and callable(getattr(self, name))

    def initconfig_parser(self, parser: ArgumentParser) -> None:
        """Options of initconfig."""
        parser.set_defaults(read_only=False)
        add = parser.add_argument
        add("--cluster-name", required=True, help="the cluster's name in CycleCloud")
        add("--username", required=True, help="the user to log in to CycleCloud with")
        add("--password", help="the password; better kept in the environment or in a file")
        add("--url", required=True, help="where CycleCloud is, as in https://cyclecloud.example")
        add(
            "--log-config",
            dest="logging__config_file",
            default=os.path.join(self.autoscale_home, "logging.conf"),
            help="file that configures logging",
        )
        add(
            "--lock-file",
            default=os.path.join(self.autoscale_home, "scalelib.lock"),
            help="file by which two autoscalers keep out of each other's way",
        )
        add(
            "--default-resource",
            dest="default_resources",
            type=_resource,
            action="append",
            default=[],
            help="a default resource as JSON; may be given more than once",
        )
        add("--idle-timeout", type=amount_type, default=300, help="seconds a node may be idle")
        add(
            "--boot-timeout",
            type=amount_type,
            default=1800,
            help="seconds a node may take to come up",
        )
        add(
            "--disable-default-resources",
            action="store_true",
            help="define no resources but those of the configuration",
        )
        self._initconfig_parser(parser)

    def initconfig(self, writer: TextIO | None = None, **config: Any) -> None:
        """Prints a configuration to start with, including the password."""
        nested: dict[str, Any] = {}
        for name, value in config.items():
            *sections, key = name.split("__")
            target = nested
            for section in sections:
                target = target.setdefault(section, {})
            target[key] = value
        if nested.get("password") is None:
            nested.pop("password", None)
        self._initconfig(nested)
        writer = writer or sys.stdout
        json_dump(nested, writer)
        writer.write("\n")


def _resource(text: str) -> Any:
    """A default resource, given as JSON. ArgumentTypeError for anything else."""
    why = ""
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    except ValueError as problem:
        why = f": {problem}"
    example = '{"select": {}, "name": "ncpus", "value": "node.vcpu_count"}'
    raise ArgumentTypeError(
        f"expected a resource as JSON, as in {example}, found {text!r}{why}"
    ) from None


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a configuration, by keys with dots: `packing.policy`."""
    for key, each in value.items():
        if isinstance(each, dict) and each:
            yield from _flat(each, f"{above}{key}.")
        else:
            yield f"{above}{key}", each if isinstance(each, str) else json.dumps(each, default=str)


def _printable(value: Any) -> Any:
    """A value as JSON can hold it; live objects, which tests put into a configuration, as text."""
    return value if isinstance(value, str | int | float | list | dict | None) else str(value)
