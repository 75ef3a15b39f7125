"""Names and messages with line breaks and escape sequences in them reach neither a terminal nor the
log as such."""

import io
import logging
import re
from collections.abc import Iterator

import pytest

from builders.command_lines import run_command
from builders.grid_cli import Grid, GridCLI
from builders.grid_cli import grid as grid
from hpc.autoscale import hpclogging
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.ccbindings import errors
from hpc.autoscale.job.schedulernode import SchedulerNode

FORGED = "FORGED 2026-11-22 ERROR all nodes deleted"
HOSTILE = f"x\n{FORGED}\r{FORGED}\x85{FORGED}\u2028\x1b]0;owned\x07\x1b[2J\x9b1m\u202e"
COMMANDS = [
    ["nodes", "-o", "all"],
    ["nodes", "-o", "all", "-F", "json"],
    ["buckets"],
    ["limits"],
    ["demand", "-o", "all"],
    ["demand", "-o", "all", "-F", "json"],
    ["jobs"],
    ["analyze", "-j", HOSTILE],
    ["analyze", "-j", HOSTILE, "-l"],
    ["analyze", "-j", "wide", "-l"],
    ["debug_cluster_status", "--nodes"],
    ["config"],
    ["validate_constraint", "-C", f"ncpus={HOSTILE}"],
    ["autoscale", "-o", "all"],
    ["join_nodes", "-N", "*"],
    ["restart_nodes", "-N", "*", "--force"],
    ["delete_nodes", "-N", "*", "--force"],
    ["refresh_autocomplete"],
]
# what these show is not of jobs and nodes
WITHOUT_NAMES = ("buckets", "limits", "config", "refresh_autocomplete")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log of everything, as a file would have it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(context)s %(message)s"))
    level = logging.root.level
    logging.root.addHandler(handler)
    logging.root.setLevel(hpclogging.REPRO)
    yield stream
    logging.root.removeHandler(handler)
    logging.root.setLevel(level)


@pytest.fixture
def hostile(grid: Grid) -> Grid:
    """Everything that has a name or a message is hostile."""
    grid.cluster.add_node("htc-1", "htc", state=HOSTILE, hostname=HOSTILE)
    grid.cluster.add_node(HOSTILE, "htc", state="Failed", hostname="host-2")
    grid.scheduler.queue(HOSTILE)
    grid.scheduler.queue("wide", licence=HOSTILE)
    grid.scheduler.queue("wider", **{"node.hostname": HOSTILE})
    grid.scheduler.hosts = [
        SchedulerNode(HOSTILE, {"ncpus": 4, "note": HOSTILE}),
        SchedulerNode("host-2", {"ncpus": 4}),
    ]
    return grid


def is_harmless(text: str) -> bool:
    """No line begins with what was forged, and nothing acts."""
    lines = re.split(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)
    acting = re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)
    return not acting and not any(line.strip().startswith("FORGED") for line in lines)


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: " ".join(argv)[:30])
def test_what_commands_print_and_log(hostile: Grid, log: io.StringIO, argv: list[str]) -> None:
    """Tables, JSON, reasons, errors, summaries."""
    cli = GridCLI(hostile.scheduler, hostile.cluster)
    ended = run_command(cli, tuple(argv), hostile.home, hostile.config, hostile.capsys)
    shown = ended.out + ended.err + log.getvalue()
    assert "FORGED" in shown or argv[0] in WITHOUT_NAMES
    for said in (ended.out, ended.err, log.getvalue()):
        assert is_harmless(said), said


def test_the_check_finds_what_is_forged() -> None:
    """It is no check that cannot fail."""
    assert is_harmless("fine\n  indented\tFORGED")
    for text in (HOSTILE, "a\nFORGED", "a\x1b[0m", "a\u2028b"):
        assert not is_harmless(text)


def test_errors_and_their_stack_traces(log: io.StringIO) -> None:
    """What a server said, in the errors of the client; traces of other errors, in the log."""
    for error in (
        errors.ServerError("https://cc", 500, HOSTILE),
        errors.CycleCloudUnreachable("https://cc", HOSTILE),
        errors.BadReply("https://cc", 200, "JSON", HOSTILE),
        errors.InvalidModel("NodeList", [HOSTILE]),
        errors.InconsistentStatus(HOSTILE, [HOSTILE]),
        errors.Redirected("https://cc", 302, HOSTILE),
        errors.MutationUnconfirmed("https://cc", HOSTILE, HOSTILE),
    ):
        assert is_harmless(str(error)) and "FORGED" in str(error)
    faults = Faults()

    def failing() -> None:
        raise ValueError(HOSTILE)

    assert faults.guard("reading", failing) is None
    assert is_harmless(log.getvalue()) and "Traceback" in log.getvalue()
    assert is_harmless(str(faults.found[0]))
