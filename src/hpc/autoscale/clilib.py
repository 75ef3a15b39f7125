"""What integrations build their command lines from, under the names that they import.

The code is in `hpc.autoscale.cli`. Deriving from CommonCLI and calling `main` is all that it takes.
"""

from hpc.autoscale.cli.argtypes import (
    constraint_type,
    error,
    json_type,
    parse_format,
    str_list,
    warn,
)
from hpc.autoscale.cli.common import CommonCLI
from hpc.autoscale.cli.completion import default_completer, fnmatch_validator
from hpc.autoscale.cli.parsing import create_arg_parser, disablecommand, main
from hpc.autoscale.cli.shells import ReraiseAssertionInterpreter, shell
from hpc.autoscale.util import ShellDict

__all__ = [
    "CommonCLI",
    "ReraiseAssertionInterpreter",
    "ShellDict",
    "constraint_type",
    "create_arg_parser",
    "default_completer",
    "disablecommand",
    "error",
    "fnmatch_validator",
    "json_type",
    "main",
    "parse_format",
    "shell",
    "str_list",
    "warn",
]
