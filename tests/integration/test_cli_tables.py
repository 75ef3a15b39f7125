"""What tables of `azscale` show when nobody asks for columns, and columns that nothing has, over
HTTP."""

import json
import sqlite3
import sys

import pytest

from builders.command_lines import at_home
from builders.one_nodearray import SIZE, simulator
from hpc.autoscale import cli, clock
from hpc.autoscale.cli.wide import WIDE_COLUMNS
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.plaintext import columns_of
from hpc.autoscale.simulator import serve

__all__ = ["simulator"]  # a fixture

PUBLISHED = "name hostname instance_id ccnodeid required job_ids state ctr itr"
DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        names = [f"a-job-with-a-long-name-{number}" for number in range(8)]
        return [Job(name, {"ncpus": 1}) for name in names], []
"""

LONG_NAMES = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        names = ["長い名前" * 12, "gpu-" + "一二三" * 12, "a-long-name-" * 8]
        return [Job(name, {"ncpus": 4 ** n}) for n, name in enumerate(names)], []

Idle = GenericDriver
"""

TELLTALE = """
from tabledriver import Driver as Silent

class Driver(Silent):
    def add_nodes_to_cluster(self, nodes, include_permanent=False):
        raise OSError("the scheduler was changed")

    handle_draining = handle_post_join_cluster = handle_post_delete = add_nodes_to_cluster
"""


@pytest.fixture
def azscale(simulator, tmp_path, monkeypatch, capsys):
    """Run a command in a directory with a configuration; what it prints on stdout."""
    at_home(monkeypatch, tmp_path, tabledriver=DRIVER, telltale=TELLTALE, longnames=LONG_NAMES)
    path = tmp_path / "autoscale.json"

    def run(*argv, code=0, **config):
        config = {**simulator.connection("demo"), "driver": "tabledriver:Driver", **config}
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        ended = 0
        try:
            cli.main([*argv, "-c", str(path)])
        except SystemExit as end:
            ended = end.code
        said = capsys.readouterr()
        run.err = said.err
        assert ended == code, said
        return said.out

    return run


def test_tables_fit_the_screen(azscale, monkeypatch):
    """The name whole, and of many jobs the first and the number of the others; -l cuts nothing."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = azscale("demand").splitlines()
    assert lines[0].split() == ["NAME", "STATE", "SIZE", "JOBS", "$/H"]
    assert max(map(len, lines)) <= 80
    name, state, size, jobs, price = lines[1].split()
    assert (name, state, size) == ("htc-1", "Off", SIZE)
    assert jobs == "a-job-with-a-long-name-0,+3"
    assert float(price) > 0
    assert "name-0,a-job-with-a-long-name-1," in azscale("demand", "-l")
    for command in ("nodes", "buckets"):
        assert max(map(len, azscale(command).splitlines())) <= 80


def test_the_table_of_limits_fits_the_screen(azscale, monkeypatch):
    """It says for how many more nodes each limit has room; the rest is there for those who ask."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = azscale("limits", "-F", "table").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[3:6] == ["AVAILABLE", "REGION", "FAMILY"]
    wide = azscale("limits", "-F", "table", "-o", "wide").splitlines()[0].split()
    names = list(json.loads(azscale("limits"))[0])
    assert {name.upper() for name in names} < set(wide)
    assert json.loads(azscale("limits", "-F", "json", "-o", "nodearray"))[0] == {"nodearray": "htc"}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_names_of_any_length_and_width(azscale, monkeypatch, tmp_path, width):
    """Let no line be wider than a terminal, where a character may take two columns."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    config = {"driver": "longnames:Driver", "journal": {"directory": str(tmp_path / "journal")}}
    wide = "長い名前" * 12
    azscale("autoscale", **{**config, "driver": "longnames:Idle"})
    for command in (
        *("plan", "demand", "status", "nodes", "buckets", "limits -F table", "jobs -F table"),
        *("journal show", f"explain {wide}", f"explain {'a-long-name-' * 8}"),
        *(f"whatif --set price.{SIZE}=1", "requests"),
    ):
        lines = azscale(*command.split(), code=3 if command == "plan" else 0, **config).splitlines()
        assert max(map(columns_of, lines), default=0) <= width, command


@pytest.mark.parametrize("command", ["limits", "buckets"])
def test_a_limit_that_there_is_not(azscale, command):
    """Is an empty cell of a table; in JSON, and in tables for scripts, it is the published -1."""
    of_group = ["-o", "nodearray,placement_group_max_count,max_count"]
    head, *rows = azscale(command, "-F", "table", *of_group).splitlines()
    at = head.index("PLACEMENT")
    assert {row[at:].split()[0] for row in rows if row[at] == " "}
    found = json.loads(azscale(command, "-F", "json", *of_group))
    empty = sum(each["placement_group_max_count"] == -1 for each in found)
    assert empty == sum(row[at] == " " for row in rows) > 0
    assert "-1" not in "".join(rows)
    headerless = azscale(command, "-F", "table_headerless", *of_group)
    assert headerless.split()[:2] == ["htc", "-1"]
    if command == "buckets":  # constraints are held against the number
        of_some = azscale("buckets", "-F", "json", *of_group, "-C", "placement_group_max_count=1")
        assert len(json.loads(of_some)) == len(found) - empty > 0


def test_what_came_of_a_pass_is_folded_on_a_terminal(azscale, monkeypatch):
    """What is told on stderr has lines of the width of the terminal; elsewhere they are whole."""
    monkeypatch.setenv("COLUMNS", "40")
    azscale("autoscale", "--dry-run", "-F", "json")
    whole = azscale.err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    azscale("autoscale", "--dry-run", "-F", "json")
    told = azscale.err
    assert max(map(len, whole.splitlines())) > 40 >= max(map(len, told.splitlines()))


def test_sizes_are_told_apart_by_their_ends(tmp_path, monkeypatch, capsys):
    """Where there is no room for all of a size: they all begin alike."""
    sizes = ["Standard_F4s_v2", "Standard_F8s_v2", "Standard_NC4as_T4_v3"]
    nodearrays = {"a-nodearray-with-a-long-name": {"machine_types": sizes}}
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "76")
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with serve({"clusters": {"demo": {"region": "westus2", "nodearrays": nodearrays}}}) as running:
        path = tmp_path / "autoscale.json"
        path.write_text(json.dumps(running.connection("demo")))
        path.chmod(0o600)
        cli.main(["buckets", "-c", str(path)])
    _, *rows = capsys.readouterr().out.splitlines()
    assert max(map(len, rows)) <= 76
    plain = [row.split()[1] for row in rows if len(row.split()) == 6]
    assert [len(word) for word in plain] == [8, 8, 8]
    assert sorted(plain) == sorted(f"\u2026{size[-7:]}" for size in sizes)


def test_what_a_program_reads_is_whole(azscale):
    """Where stdout is no terminal, nothing is cut."""
    names = [f"a-job-with-a-long-name-{number}" for number in range(4)]
    assert azscale("demand").splitlines()[1].split()[3] == ",".join(names)
    assert azscale("buckets").split()[:2] == ["NODEARRAY", "SIZE"]


def test_json_and_tables_without_headers_are_what_scripts_read(azscale):
    """They have the published columns, and so has a table that is asked for them."""
    first, _ = json.loads(azscale("demand", "-F", "json"))
    assert list(first) == PUBLISHED.split()
    assert len(first["job_ids"]) == 4
    whole = ",".join(first["job_ids"])
    assert whole in azscale("demand", "-F", "table_headerless")
    assert whole in azscale("demand", "-o", "name,job_ids")
    assert azscale("demand", **{"output-columns": {"default": ["name"]}}).split()[0] == "NAME"


def test_wide(azscale):
    """Stands for the usual columns, among others as well; a column comes once."""
    wide = azscale("demand", "-o", "wide").splitlines()[0].split()
    shown = {column.split("@")[0].upper() for column in WIDE_COLUMNS}
    assert shown == set(wide)
    assert len(set(wide)) == len(wide)
    some = azscale("demand", "-o", "*ncpus,wide,state").splitlines()[0].split()
    assert (some[:2], some[-1], some.count("STATE")) == (["NAME", "*NCPUS"], "STATE", 1)
    assert {"NCPUS", "VM_FAMILY", "PRICE"} <= set(azscale("buckets", "-o", "wide").split())


@pytest.mark.parametrize("command", ["demand", "nodes", "buckets", "create_nodes"])
def test_unknown_columns_are_refused(azscale, simulator, command):
    """With a guess, before anything is printed or created."""
    assert azscale(command, "-o", "name,stat", code=2) == ""
    assert "column 'stat': no node has anything called 'stat'; did you mean" in azscale.err
    assert simulator.cluster("demo").nodes() == []


@pytest.mark.parametrize("command", ["demand", "nodes", "buckets"])
def test_a_column_with_a_default_is_not_refused(azscale, command):
    """Whoever gives one expects that there may be no value."""
    assert azscale(command, "-o", "name,stat:none").split()[:2] == ["NAME", "STAT"]
    assert "column" not in azscale.err


def test_limits_in_constraints_of_buckets_are_known(azscale):
    """They are no unknown resources, however many nodes are asked for."""
    assert len(azscale("buckets", "-C", "available_count=41").splitlines()) == 2
    assert azscale.err == ""
    assert len(azscale("buckets", "-C", "available_count=1000000").splitlines()) == 1
    assert azscale.err == "nothing matches: no bucket has 1000000 of available_count\n"


@pytest.mark.parametrize("command", ["nodes", "buckets", "create_nodes"])
@pytest.mark.parametrize(("given", "meant"), [("ncpsu=1", "ncpus"), ("nodearray=hct", "htc")])
def test_unknown_names_in_constraints_are_refused(azscale, simulator, command, given, meant):
    """With a guess, before anything is printed or created."""
    assert azscale(command, "-C", given, code=2) == ""
    assert f"did you mean {meant!r}?" in azscale.err
    assert simulator.cluster("demo").nodes() == []


def test_a_column_that_a_node_may_have_one_day(azscale):
    """Is a doubt while there is no node, unless it looks like a typo."""
    assert azscale("nodes", "-o", "name,rack").split() == ["NAME", "RACK"]
    assert "column 'rack': no node has anything called 'rack'\n" in azscale.err


def test_a_pass_is_not_lost_for_a_typo(site):
    """It is made, and the column named on stderr."""
    out = site("autoscale", "-o", "name,stat")
    assert out.split()[:2] == ["NAME", "STAT"]
    assert "column 'stat'" in site.errors


def test_the_list_of_request_sets_fits(azscale, monkeypatch):
    """Into 80 characters on a screen; what programs read is whole, and -l has it all."""
    name = "a-request-set-of-somebody-with-a-long-name"
    asked = ["--corecount", "8", "--name", "htc"]
    azscale("request", *asked, "--request-set", name, "--expiration", "3600")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    head, row = azscale("request", "list").splitlines()
    assert head.split() == ["REQUEST_SET", "NODEARRAY", "WANTS", "STATE", "LAPSES"]
    assert row.split() == [name, "htc", "8", "cores", "standing", "in", "60", "min"]
    assert max(len(head), len(row)) <= 80
    whole = azscale("request", "list", "-l").splitlines()[0].split()
    (listed,) = json.loads(azscale("request", "list", "-F", "json"))
    assert [column.upper() for column in listed] == whole
    assert listed["lapses_at"].endswith("Z")


CREATE = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A file with a create of 90 seconds ago that another process still waits for, and a removal of
    two nodes of two hours ago, one of which was called off."""
    log = RequestLog(tmp_path / "requests.db")
    now = clock.time()
    mock = clock.use_mock_clock()
    mock.now = now - 7200
    log.begin_removal("r-1", "deallocate_nodes", [("id-1", "htc-1"), ("id-2", "htc-2")])
    log.call_off(log.removals[:1])
    mock.now = now - 90
    with sqlite3.connect(log.path) as db:
        log.begin(CREATE)
        db.execute("UPDATE creates SET host = 'elsewhere'")
    db.close()
    mock.now = now
    return log


def test_the_list_of_requests_fits(azscale, kept, monkeypatch):
    """Into 80 characters on a screen; -l has what JSON has."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = azscale("requests", "--ask").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["REQUEST_ID", "COMMAND", "NODE", "AGE", "STATE", "SERVER"]
    lines = azscale("requests").splitlines()
    assert [" ".join(line.split()) for line in lines[1:]] == [
        f"{CREATE} create_nodes 90 s under way",
        "r-1 deallocate_nodes htc-1 2 h old",
        "r-1 deallocate_nodes htc-2 2 h old",
    ]
    whole = azscale("requests", "-l").splitlines()[0].split()
    create, *_ = json.loads(azscale("requests", "--ask", "-F", "json"))
    assert [column.upper() for column in create] == whole
    assert (create["server"], create["sender"][:7]) == ("does not know it", "process")


def test_what_another_process_waits_for_is_not_dropped(azscale, kept):
    """Nor anything beside it, unless somebody insists; old entries are dropped, and named ids."""
    azscale("requests", "drop", "--ids", f"{CREATE},r-1", code=1)
    assert f"request {CREATE} may be under way" in azscale.err
    assert (len(kept.creates), len(kept.removals)) == (1, 2)
    azscale("requests", "drop", "--old")
    assert azscale.err.endswith("dropped: 2 requests\n")
    assert (len(kept.creates), len(kept.removals)) == (1, 0)
    azscale("requests", "drop", "--ids", CREATE, "--force")
    assert kept.creates == []


def test_requests_that_cannot_be_meant(azscale, kept):
    """Are one line each, and nothing is dropped."""
    azscale("requests", "drop", code=2)
    assert "expected --ids or --old, found neither" in azscale.err
    azscale("requests", "--ids", "r-2", code=1)
    assert "expected an id that is kept, found 'r-2'; did you mean 'r-1'?" in azscale.err
    assert len(kept.removals) == 2


def test_a_server_that_cannot_be_asked_about_requests(azscale, kept):
    """Is said in the row; the list is there."""
    out = azscale("requests", "--ask", "-F", "json", password="wrong")
    assert [row["server"] and row["server"][:16] for row in json.loads(out)] == [
        "cannot be asked:",
        None,
        None,
    ]


def test_the_column_of_nodes_on_their_way_out_is_known_while_there_are_none(azscale):
    """It is in docs/guards.md, and empty then."""
    assert azscale("nodes", "-o", "name,drain").splitlines()[0].split() == ["NAME", "DRAIN"]
    assert azscale.err == ""


def test_a_read_only_configuration_changes_nothing(azscale, simulator):
    """A pass is a dry run, and commands are refused before the scheduler is told."""
    before = simulator.cluster("demo").nodes()
    azscale("autoscale", read_only=True, driver="telltale:Driver")
    assert azscale.err.startswith("dry run: 8 jobs")
    for command in ("create_nodes -n 1", "delete_nodes -N htc-1", "join_nodes -N htc-1"):
        azscale(*command.split(), code=1, read_only=True, driver="telltale:Driver")
        assert "the configuration is read-only" in azscale.err
    assert "htc-" in azscale("create_nodes", "-n", "1", "--dry-run", read_only=True)
    assert simulator.cluster("demo").nodes() == before


def test_what_default_resources_leave_out_is_found_as_in_a_pass(azscale):
    """With disable_default_resources: resources of the system, and what is defined by them."""
    config = {
        "disable_default_resources": True,
        "default_resources": [
            {"select": {}, "name": "ncpus", "value": "node.pcpu_count"},
            {"select": {"memgb": 1}, "name": "scratch", "value": 7},
        ],
    }
    found = azscale("buckets", "-C", "scratch=7", "-o", "nodearray,ngpus,scratch", **config)
    assert found.splitlines()[1].split() == ["htc", "0", "7"]
    assert len(azscale("create_nodes", "-n", "1", "-C", "memgb=1", "-d", **config).split()) > 5
    assert azscale("config", "--check", **config) == ""
    assert "ok       names" in azscale("doctor", **config)
