"""What `azscale --help` and bare `azscale` print: all commands in groups, and what to do next.

A command that stands in none of the groups is in the last one, so none is ever missing.
"""

from __future__ import annotations

import textwrap
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Collection, Mapping

from hpc.autoscale.cli.painting import text_width
from hpc.autoscale.cli.places import FoundConfig

GROUPS: dict[str, tuple[str, ...]] = {
    "Main commands": ("initconfig", "doctor", "status", "explain", "plan", "apply", "autoscale"),
    "Look": (
        "nodes",
        "buckets",
        "jobs",
        "limits",
        "demand",
        "cost",
        "weights",
        "requests",
        "metrics",
        "analyze",
        "connect",
    ),
    "Foresee and look back": ("whatif", "simulate", "journal", "replay", "report", "serve"),
    "Act on nodes": (
        "create_nodes",
        "delete_nodes",
        "join_nodes",
        "remove_nodes",
        "restart_nodes",
        "reimage_nodes",
        "retry_failed_nodes",
        "request",
    ),
    "Services": ("serve_autostop", "autostop"),
    "More": (),
}
_NAME_WIDTH = 22
_LAST = "More"


def describe_commands(
    parser: ArgumentParser, summaries: Mapping[str, str], of_drivers: Collection[str]
) -> None:
    """Let the help of a parser list the commands in groups.

    `summaries`: what each command does. `of_drivers`: those that need a driver.
    """
    parser.usage = "%(prog)s COMMAND [-c autoscale.json] [OPTIONS]"
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description = _in_groups(summaries, of_drivers).replace("%", "%%")
    parser.epilog = (
        "%(prog)s COMMAND --help lists the options of a command. Without -c the\n"
        "configuration is $AUTOSCALE_CONFIG, ./autoscale.json, or the one in\n"
        "$AUTOSCALE_HOME or in the place where it was installed."
    )


def _in_groups(summaries: Mapping[str, str], of_drivers: Collection[str]) -> str:
    named = {name for names in GROUPS.values() for name in names}
    width = text_width()
    lines: list[str] = []
    for heading, names in GROUPS.items():
        shown = [name for name in names if name in summaries]
        if heading == _LAST:
            shown += [name for name in summaries if name not in named]
        lines += ["", f"{heading}:"] if shown else []
        for name in shown:
            said = summaries[name] + (" (needs a driver)" if name in of_drivers else "")
            wrapped = textwrap.wrap(said, width - _NAME_WIDTH - 3) or [""]
            head = f"  {name:{_NAME_WIDTH}} "
            if len(name) > _NAME_WIDTH:
                lines.append(f"  {name}")
                head = " " * (_NAME_WIDTH + 3)
            lines.append(head + wrapped[0])
            lines += [" " * (_NAME_WIDTH + 3) + more for more in wrapped[1:]]
    return "\n".join(lines[1:])


def next_steps(found: FoundConfig) -> str:
    """What to do next, with a configuration or without one."""
    if found.path is None:
        return "\n".join(
            [
                *textwrap.wrap(f"No configuration was found: looked for {found.looked}.", 80),
                "",
                "To begin:",
                "  azscale initconfig --cluster-name NAME --url https://cyclecloud.example \\",
                "      --username USER --driver package.module:Class > autoscale.json",
                "  azscale doctor                 what is wrong, and what to do about it",
                "",
                "azscale --help lists all commands.",
            ]
        )
    return "\n".join(
        [
            f"The configuration is {found.path}.",
            "",
            "Next:",
            "  azscale doctor                 what is wrong, and what to do about it",
            "  azscale status                 the cluster, its nodes and jobs on one screen",
            "  azscale plan                   what a pass would do; it changes nothing",
            "  azscale autoscale              one pass: create, join and delete nodes",
            "  azscale autoscale --interval   pass after pass, until it is stopped",
            "",
            "azscale --help lists all commands.",
        ]
    )
