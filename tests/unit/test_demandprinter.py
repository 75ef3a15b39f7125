"""Printing demand: columns, order of rows, formats."""

import io
import json
import logging

import pytest

from builders.nodes import a_bucket
from hpc.autoscale.columns import column_named, parse_column
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.demandprinter import (
    DemandPrinter,
    ExcludeDemandPrinterFilter,
    calculate_column_widths,
    logging_stream,
    print_columns,
    print_demand,
    print_rows,
)
from hpc.autoscale.job.schedulernode import TempNode
from hpc.autoscale.node.limits import null_bucket_limits


def a_node(name="htc-1", **overrides):
    """A node that exists, with four cores of which three are left."""
    resources = overrides.pop("resources", {"ncpus": 4, "memgb": Memory(8, "g")})
    hostname = overrides.pop("hostname", name)
    node = TempNode(hostname, resources, name=name, nodearray="htc", **overrides)
    node.available["ncpus"] = 3
    return node


def a_full_bucket(bucket_id="b1", placement_group=None):
    """A bucket that has room for no node."""
    return a_bucket(
        limits=null_bucket_limits(3, 4),
        bucket_id=bucket_id,
        vm_size="Standard_F4s",
        placement_group=placement_group,
        resources={},
        priority=7,
    )


def printed(columns, *nodes, output_format="table", long=False, buckets=()):
    """What is printed for nodes that have work."""
    stream = io.StringIO()
    demand = DemandResult([], list(nodes), [], [], list(buckets))
    print_demand(columns, demand, stream, output_format, long=long)
    return stream.getvalue()


def cell(column, node, **kwargs):
    """The one value of a table with one row and one column."""
    return printed([column], node, output_format="table_headerless", **kwargs).strip()


# -- columns


@pytest.mark.parametrize(
    ("column", "header"),
    [
        ("name", "NAME"),
        ("Name", "NAME"),
        ("ctr@create_time_remaining", "CTR"),
        ("*ncpus", "*NCPUS"),
        ("/ncpus", "NCPUS"),
        ("instance_id[:11]", "INSTANCE_ID"),
        ("state:none", "STATE"),
        ("s@state[:3]:none", "S"),
        ("assigned_job_ids", "JOB_IDS"),
        ("jobs@assigned_job_ids", "JOBS"),
    ],
)
def test_headers(column, header):
    """Upper case; without the mark of a ratio, the slice and the default."""
    assert parse_column(column).header == header


def test_resources_and_what_is_left_of_them():
    """A plain name is the total, * what is left, / both."""
    node = a_node()
    assert cell("ncpus", node) == "4"
    assert cell("*ncpus", node) == "3"
    assert cell("/ncpus", node) == "3/4"
    assert (cell("/nothing", node), cell("/nothing:-", node)) == ("None/None", "-")


def test_sizes_in_a_table():
    """With their unit."""
    assert cell("memgb", a_node()) == "8.00g"


def test_a_slice_cuts_and_long_does_not():
    """Positive and negative bounds, steps, one position."""
    node = a_node(resources={"word": "abcdefgh"})
    assert cell("word[:3]", node) == "abc"
    assert cell("word[-3:]", node) == "fgh"
    assert cell("word[1:6:2]", node) == "bdf"
    assert cell("word[0]", node) == "a"
    assert cell("word[99]", node) == ""
    assert cell("word[:3]", node, long=True) == "abcdefgh"


def test_numbers_are_cut_as_text():
    """A slice of a number is a slice of its digits."""
    assert cell("big[:2]", a_node(resources={"big": 1234})) == "12"


def test_defaults():
    """Stand in for what is not there, also under another heading and with a slice."""
    node = a_node()
    assert cell("nothing:none", node) == "none"
    assert cell("short@nothing:none", node) == "none"
    assert cell("nothing[:2]:none", node) == "none"
    assert cell("ncpus:none", node) == "4"
    assert cell("nothing", node) == ""


@pytest.mark.parametrize(
    "column",
    ["", "a[b]", "a[1", "a[1:2:0]", "a[__import__('os')]", "a[:1].x", "@a", "a@b@c", "a[1,2]"],
)
def test_columns_that_make_no_sense(column):
    """Are refused with what was expected; nothing is ever evaluated."""
    with pytest.raises(ConfigurationException, match="column"):
        parse_column(column)


def test_metadata_is_looked_at_last():
    """Property, then resource, then metadata."""
    node = a_node()
    node.metadata.update({"queue": "short", "ncpus": 99, 1: "no name"})
    assert cell("queue", node) == "short"
    assert cell("Queue", node) == "short"
    assert cell("ncpus", node) == "4"


def test_resources_in_any_case():
    """Columns are in lower case, resources need not be."""
    assert cell("Qname", a_node(resources={"QName": "all.q"})) == "all.q"


def test_the_host_name():
    """Only of a node that exists; else the address; else that it is not known yet."""
    assert cell("hostname", a_node(hostname="host-1.example")) == "host-1"
    assert cell("hostname", a_node(exists=False, private_ip="10.1.0.2")) == "10.1.0.2"
    assert cell("hostname", a_node(exists=False, private_ip=None)) == "tbd"


@pytest.mark.parametrize("column", ["job_ids", "assigned_job_ids"])
def test_jobs(column):
    """Sorted, whatever the order in which they came."""
    node = a_node()
    for job in ("b", "a", "c"):
        node.assign(job)
    assert cell(column, node) == "a,b,c"


def test_methods_and_private_names_are_no_values():
    """They are taken for names that are not there."""
    node = a_node()
    assert cell("clone:none", node) == "none"
    assert cell("_resources:none", node) == "none"


def test_what_the_bucket_knows():
    """Of the bucket with the node's id and placement group."""
    buckets = [a_full_bucket(), a_full_bucket(placement_group="pg0")]
    buckets[1].priority = 8
    node = a_node(bucket_id="b1", placement_group="pg0")
    assert cell("priority", node, buckets=buckets) == "8"
    assert cell("priority", a_node(bucket_id="b1"), buckets=buckets) == "7"
    assert cell("priority:none", a_node(bucket_id="other"), buckets=buckets) == "none"


def test_all_columns():
    """Every property and every resource, the name first, mappings only in JSON."""
    header = printed([], a_node()).splitlines()[0].lower().split()
    assert header[0] == "name"
    assert header[1:] == sorted(header[1:])
    assert {"ncpus", "memgb", "state", "target_state", "vm_size"} <= set(header)
    assert not {"available", "hostname_required"} & set(header)
    (row,) = json.loads(printed([], a_node(), output_format="json"))
    assert row["available"] == {"ncpus": 3, "memgb": "memory::8.00g"}


@pytest.mark.parametrize(
    "name", ["gpu:a100", "matlab@flex", "gres[a]", "[:1]", "*a", "/a", 'a"b', '"a:b"', " a ", ""]
)
def test_a_name_with_signs_of_columns_in_it(name):
    """Is written in double quotes, and is among all columns."""
    node = a_node(resources={name: "abc", "gpu": 2})
    column = column_named(name)
    assert column == f'"{name}"' or name == 'a"b' == column
    assert (cell(column, node), cell(f"n@{column}[:2]:none", node)) == ("abc", "ab")
    assert parse_column(f"*{column}:none").header == f"*{name}".strip().upper()
    (row,) = json.loads(printed([], node, output_format="json"))
    assert row[name.strip()] == "abc"


def test_a_name_that_is_no_text():
    """Is no column."""
    (row,) = json.loads(printed([], a_node(resources={5: 1, None: 2}), output_format="json"))
    assert row["name"] and "5" not in row


def test_the_columns_given_stay_as_they_are():
    """The caller's list is not written to."""
    columns = ["ctr@name", "available"]
    printed(columns, a_node())
    assert columns == ["ctr@name", "available"]


# -- rows


def test_the_order_of_rows():
    """Named nodes, then by address as a number, then by nodearray and number."""
    nodes = [
        a_node("htc-10", private_ip=None),
        a_node("htc-9", private_ip=None),
        a_node("a", private_ip="10.0.0.10"),
        a_node("b", private_ip="10.0.0.9"),
        a_node("scheduler", private_ip=None),
        a_node("strange", private_ip="no address"),
    ]
    rows = printed(["name"], *nodes, output_format="table_headerless").split()
    assert rows == ["scheduler", "strange", "b", "a", "htc-9", "htc-10"]


def test_new_nodes_are_printed_once():
    """They are among those that are matched."""
    node = a_node()
    stream = io.StringIO()
    print_demand(["name"], DemandResult([node], [node], [], []), stream, "table_headerless")
    assert stream.getvalue().split() == ["htc-1"]


# -- formats


def test_a_table():
    """Columns are aligned to the left."""
    text = printed(["name", "ncpus"], a_node("htc-1"), a_node("htc-100", resources={}))
    assert text == "NAME    NCPUS\nhtc-1   4    \nhtc-100      \n"


def test_a_table_without_nodes():
    """Has a header."""
    assert printed(["name", "ncpus"]) == "NAME NCPUS\n"
    assert printed(["name"], output_format="table_headerless") == ""


def test_cells():
    """Floats have one decimal, lists and sets commas, nothing is empty, the rest is text."""
    stream = io.StringIO()
    row = [1.25, ["b", "a"], {"d", "c"}, None, True, Size(20, "g"), [2, "x", 1]]
    print_rows([str(i) for i in range(7)], [row], stream, "table_headerless")
    assert stream.getvalue().split(" ") == [
        "1.2", "a,b", "c,d", "", "", "True", "20.00g", "1,2,x\n",
    ]  # fmt: skip


def test_json():
    """One object per node, under the names of the columns, with values of every kind."""
    node = a_node(resources={"ncpus": 4, "mem": Memory(8, "g"), "words": ["x"]})
    node.metadata["contexts"] = {"[b]", "[a]"}
    node.metadata["deep"] = {"size": Size(1, "g"), "inf": float("inf")}
    columns = ["name", "c@ncpus", "*ncpus", "mem", "words", "contexts", "deep", "create_time"]
    (row,) = json.loads(printed(columns, node, output_format="json"))
    assert row.pop("create_time")
    assert row == {
        "name": "htc-1",
        "c": 4,
        "*ncpus": 3,
        "mem": "memory::8.00g",
        "words": ["x"],
        "contexts": ["[a]", "[b]"],
        "deep": {"size": "size::1.00g", "inf": None},
    }


def test_json_without_nodes():
    """Is an empty list."""
    assert json.loads(printed(["name"], output_format="json")) == []


def test_rows_of_anything():
    """Columns may have another heading; values need not be text."""
    stream = io.StringIO()
    print_rows(columns=["q@queue", "n"], rows=[["all.q", 1]], stream=stream)
    assert stream.getvalue().splitlines() == ["Q     N", "all.q 1"]
    stream = io.StringIO()
    print_rows(columns=["q@queue", "n"], rows=[["all.q", 1]], stream=stream, output_format="json")
    assert json.loads(stream.getvalue()) == [{"q": "all.q", "n": 1}]


def test_widths():
    """Of the longest text in each column."""
    assert calculate_column_widths(["a", "long"], [["xyz", 1], [None, 22.5]]) == [3, 4]


def test_names_of_columns():
    """Can be printed without any nodes."""
    stream = io.StringIO()
    DemandPrinter(["name", "c@ncpus"], stream).print_columns()
    assert stream.getvalue() == "NAME C\n"
    stream = io.StringIO()
    print_columns(DemandResult([], [a_node()], [], []), stream)
    assert {"NAME", "NCPUS"} <= set(stream.getvalue().split())


# -- the log


def test_demand_in_the_log(caplog):
    """Each line is a record of the demand printer, given to the logger demand."""
    caplog.set_level(logging.INFO, logger="demand")
    stream = io.StringIO()
    print_demand(["name"], DemandResult([], [a_node()], [], []), stream, log=True)
    assert [(r.name, r.getMessage().strip()) for r in caplog.records] == [
        ("demandprinter", "NAME"),
        ("demandprinter", "htc-1"),
    ]
    assert stream.getvalue().split() == ["NAME", "htc-1"]


@pytest.mark.parametrize("level", [logging.WARNING, logging.CRITICAL])
def test_the_log_has_its_copy_whatever_the_level_of_the_logger(level, monkeypatch):
    """Its handlers, and those above it, say what they want to have; a logger that is switched off
    has none."""
    logger = logging.Logger("mine", level)
    logger.parent = logging.Logger("above", level)
    kept = {}
    for where, least in ((logger, logging.NOTSET), (logger.parent, logging.INFO)):
        handler = logging.Handler(least)
        handler.emit = kept.setdefault(where.name, []).append
        where.addHandler(handler)
    too_high = logging.Handler(logging.WARNING)
    too_high.emit = kept.setdefault("too high", []).append
    logger.addHandler(too_high)
    monkeypatch.setitem(logging.Logger.manager.loggerDict, "demand", logger)
    print_demand(["name"], DemandResult([], [a_node()], [], []), io.StringIO(), log=True)
    logger.disabled = True
    print_demand(["name"], DemandResult([], [a_node()], [], []), io.StringIO(), log=True)
    assert {where: len(records) for where, records in kept.items()} == {
        "mine": 2,
        "above": 2,
        "too high": 0,
    }


def test_the_filter_keeps_those_records_out():
    """And no others."""
    exclude = ExcludeDemandPrinterFilter("any name")
    record = logging.makeLogRecord({"name": "demandprinter"})
    assert not exclude.filter(record)
    assert exclude.filter(logging.makeLogRecord({"name": "demand"}))


def test_a_line_that_is_not_finished(caplog):
    """Is logged when the stream is closed, which leaves the other one open."""
    caplog.set_level(logging.INFO, logger="mine")
    wrapped = io.StringIO()
    stream = logging_stream(wrapped, "mine")
    stream.write("a\nb")
    stream.close()
    assert [record.getMessage() for record in caplog.records] == ["a", "b"]
    assert wrapped.getvalue() == "a\nb"
