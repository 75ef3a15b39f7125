"""Section 1: `hpc.autoscale.util`."""

import io
import json
import re
import subprocess
import sys

import pytest

from builders.nodes import a_manager, a_planned_node
from builders.published import row
from hpc.autoscale import util
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.job.job import Job
from hpc.autoscale.util import (
    AliasDict,
    CircularIncludeError,
    ConfigurationException,
    IncrementingUUID,
    MultipleInstancesError,
    NullSingletonLock,
    SingletonFileLock,
    SingletonLock,
    is_standalone_dns,
    is_valid_hostname,
    json_dump,
    json_load,
    load_config,
    new_singleton_lock,
    parse_boot_timeout,
    parse_idle_timeout,
    partition,
    partition_single,
)


@row("util.partition")
def test_partition_groups_in_input_order():
    """Keys come in the order of first appearance, items in theirs; any iterable will do."""
    grouped = partition((n for n in (3, 1, 4, 1, 5, 9, 2, 6)), lambda n: n % 3)
    assert list(grouped.items()) == [(0, [3, 9, 6]), (1, [1, 4, 1]), (2, [5, 2])]


@row("util.partition")
def test_partition_takes_its_function_by_keyword():
    """HPC Pack calls `partition(nodes, func=…)`, others by position."""
    nodes = [a_planned_node(name="a-1", nodearray="a"), a_planned_node(name="b-1", nodearray="b")]
    by_position = partition(nodes, lambda n: n.nodearray)
    assert partition(nodes, func=lambda n: n.nodearray) == by_position
    assert partition(node_list=nodes, func=lambda n: n.nodearray) == by_position


@row("util.partition_single")
@pytest.mark.parametrize(
    "items",
    [
        [{"id": 1}, {"id": 2}],
        ({"id": n} for n in (1, 2)),
        {"a": {"id": 1}, "b": {"id": 2}}.values(),
    ],
    ids=["list", "generator", "dict view"],
)
def test_partition_single_maps_keys_to_items(items):
    """Lists of dicts, generators and dict views are all accepted, and so are the parameter
    names."""
    assert partition_single(node_list=items, func=lambda d: d["id"]) == {1: {"id": 1}, 2: {"id": 2}}


@row("util.partition_single")
def test_partition_single_refuses_repeated_keys():
    """RuntimeError that names the key; without `strict`, repeats that are equal are let through."""
    twice = [("a", 1), ("a", 1), ("b", 2)]
    with pytest.raises(RuntimeError, match="'a'"):
        partition_single(twice, lambda pair: pair[0])
    single = partition_single(twice, lambda pair: pair[0], strict=False)
    assert single == {"a": ("a", 1), "b": ("b", 2)}
    with pytest.raises(RuntimeError):
        partition_single([*twice, ("a", 3)], lambda pair: pair[0], strict=False)


@row("util.load_config")
def test_load_config_merges_left_to_right():
    """Objects are merged, lists joined without repeats, and later scalars win; the inputs stay as
    they are."""
    left = {"a": 1, "b": {"x": 1, "y": [1, 2]}, "c": [1]}
    right = {"a": 2, "b": {"y": [2, 3], "z": {}}, "c": "text"}
    merged = load_config(left, right)
    assert merged == {"a": 2, "b": {"x": 1, "y": [1, 2, 3], "z": {}}, "c": "text"}
    assert left == {"a": 1, "b": {"x": 1, "y": [1, 2]}, "c": [1]}
    assert merged["b"]["z"] is right["b"]["z"]
    assert load_config(left) == left
    assert load_config(left) is not left


@row("util.load_config")
def test_load_config_includes_relative_to_the_including_file(tmp_path):
    """What a file includes goes over it."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "autoscale.json").write_text(
        '{"include": ["conf.d/more.json"], "a": 1, "lock_file": null}'
    )
    (tmp_path / "conf.d" / "more.json").write_text('{"a": 2, "include": ["last.json"]}')
    (tmp_path / "conf.d" / "last.json").write_text('{"b": 3}')
    loaded = load_config(str(tmp_path / "autoscale.json"), {"c": 4})
    assert {k: loaded[k] for k in "abc"} == {"a": 2, "b": 3, "c": 4}


@row("util.load_config")
@row("util.exceptions")
def test_load_config_says_what_is_wrong(tmp_path):
    """A file that is missing or broken is a ConfigurationException, files in a circle a
    CircularIncludeError."""
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "a.json").write_text('{"include": ["b.json"]}')
    (tmp_path / "b.json").write_text('{"include": ["a.json"]}')
    for name in ("broken.json", "missing.json"):
        with pytest.raises(ConfigurationException, match=f"Could not parse config .*{name}"):
            load_config(str(tmp_path / name))
    with pytest.raises(CircularIncludeError, match=r"a\.json ---> .*b\.json ---> .*a\.json"):
        load_config(str(tmp_path / "a.json"))


@row("util.json_load")
def test_json_load_only_warns(tmp_path):
    """The old name still loads."""
    (tmp_path / "a.json").write_text('{"a": 1}')
    with pytest.warns(UserWarning, match="load_config"):
        assert json_load(str(tmp_path / "a.json")) == {"a": 1}


@row("util.json_dump")
def test_json_dump_asks_objects_what_they_are():
    """`to_json` and `to_dict` are honoured, and the indent is 2; anything else is an
    AssertionError."""
    stream = io.StringIO()
    json_dump({"mem": Memory(4, "g"), "jobs": [Job("1", {"ncpus": 2})]}, stream)
    written = json.loads(stream.getvalue())
    assert stream.getvalue().startswith('{\n  "mem"')
    assert written["mem"] == "memory::4.00g"
    assert written["jobs"][0]["constraints"] == [{"ncpus": 2}]
    with pytest.raises(AssertionError):
        json_dump({"x": object()}, io.StringIO())


@row("util.locks")
def test_a_lock_is_taken_when_it_is_made(tmp_path):
    """The second one gets MultipleInstancesError, until the first is unlocked."""
    path = str(tmp_path / "lock")
    first: SingletonLock = SingletonFileLock(path)
    with pytest.raises(MultipleInstancesError):
        SingletonFileLock(path)
    first.unlock()
    SingletonFileLock(path).unlock()


@row("util.locks")
def test_another_process_gets_nothing_either(tmp_path):
    """The lock is advisory and does not wait."""
    lock = SingletonFileLock(str(tmp_path / "lock"))
    code = "import sys; from hpc.autoscale.util import *; SingletonFileLock(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, lock.lockpath], capture_output=True, text=True, timeout=60
    )
    lock.unlock()
    assert done.returncode == 1
    assert "MultipleInstancesError" in done.stderr


@row("util.locks")
def test_the_null_lock_is_for_everybody():
    """It is a SingletonLock, and unlocking it twice does no harm."""
    locks = [NullSingletonLock(), NullSingletonLock()]
    for lock in [*locks, *locks]:
        lock.unlock()
    assert all(isinstance(lock, SingletonLock) for lock in locks)


@row("util.new_singleton_lock")
def test_new_singleton_lock_follows_lock_file(tmp_path, monkeypatch):
    """Null: no lock; a path: that; nothing: the default place. It warns, and works."""
    monkeypatch.setenv("CYCLECLOUD_HOME", str(tmp_path / "none"))
    with pytest.warns(UserWarning):
        assert isinstance(new_singleton_lock({"lock_file": None}), NullSingletonLock)
    with pytest.warns(UserWarning):
        own = new_singleton_lock({"lock_file": str(tmp_path / "own")})
    with pytest.warns(UserWarning):
        default = new_singleton_lock({})
    own.unlock()
    default.unlock()
    assert (tmp_path / "own").exists()
    assert (tmp_path / "scalelib.lock").exists()


@row("util.is_valid_hostname")
def test_no_host_name_is_valid_without_one():
    """None and the empty text are not valid, whatever the patterns."""
    for hostname in (None, ""):
        assert not is_valid_hostname({"valid_hostnames": [".*"]}, a_planned_node(hostname=hostname))


@row("util.is_valid_hostname")
@pytest.mark.parametrize(
    ("patterns", "valid"),
    [
        (["^ip-"], True),
        (["host", "ip"], True),
        (["p-0A"], False),
        ([".*com"], False),
        (".+", True),
        ("host", False),
    ],
    ids=str,
)
def test_patterns_match_from_the_start_of_the_short_name(patterns, valid):
    """As re.match does; a bare text, which PBS writes, is one pattern."""
    node = a_planned_node(hostname="ip-0A000004.example.com")
    assert is_valid_hostname({"valid_hostnames": patterns}, node) is valid


@row("util.is_valid_hostname")
def test_without_patterns_standalone_dns_decides():
    """With it only names made of the address are final; without it any name is."""
    dns = {"cyclecloud": {"hosts": {"standalone_dns": {"enabled": False}}}}
    assert is_valid_hostname({}, a_planned_node(hostname="ip-0A000004"))
    assert not is_valid_hostname({}, a_planned_node(hostname="localhost"))
    assert not is_valid_hostname({}, a_planned_node(hostname="ip-0A0000045"))
    assert is_valid_hostname({}, a_planned_node(hostname="localhost", software_configuration=dns))


@row("util.is_standalone_dns")
def test_standalone_dns_of_nodes_and_buckets():
    """On unless the configuration says otherwise; PBS asks of a bucket."""
    off = {"cyclecloud": {"hosts": {"standalone_dns": {"enabled": False}}}}
    assert is_standalone_dns(a_planned_node())
    assert not is_standalone_dns(a_planned_node(software_configuration=off))
    assert is_standalone_dns(a_manager().get_buckets()[0])


@row("util.timeouts")
@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (60, 60),
        ("60", 60),
        ({"htc": 60, "default": 90}, 60),
        ({"htc": "60"}, 60),
        ({"hpc": 60, "default": "90"}, 90),
        ({"hpc": 60}, None),
        ({}, None),
        (12.5, 12),
    ],
    ids=str,
)
def test_timeouts_by_nodearray(given, seconds):
    """A number, a number as text, or by nodearray with `default`; else 300 and 1800."""
    node = a_planned_node(nodearray="htc")
    assert parse_idle_timeout({"idle_timeout": given}, node) == (seconds or 300)
    assert parse_boot_timeout({"boot_timeout": given}, node) == (seconds or 1800)


@row("util.timeouts")
def test_timeouts_without_a_node():
    """Of a dict the entry `default` counts; without a setting 300 and 1800."""
    assert (parse_idle_timeout({}), parse_boot_timeout({})) == (300, 1800)
    assert parse_idle_timeout({"idle_timeout": {"default": 5}}) == 5


@row("util.AliasDict")
def test_aliases_reach_the_canonical_key():
    """Reading, writing and `in` by the alias are about its key, and the alias is never listed."""
    d = AliasDict({"ncpus": 4})
    d.add_alias("slots", "ncpus")
    d["slots"] += 4
    assert (d["ncpus"], d["slots"], "slots" in d, "cores" in d) == (8, 8, True, False)
    assert (list(d), len(d), dict(d)) == (["ncpus"], 1, {"ncpus": 8})
    assert (d._key("slots"), d._key("ncpus"), d._key("x")) == ("ncpus", "ncpus", "x")


@row("util.exceptions")
def test_the_configuration_errors_are_runtime_errors():
    """One handler catches both."""
    with pytest.raises(RuntimeError):
        load_config("missing.json")
    assert issubclass(CircularIncludeError, ConfigurationException)
    assert issubclass(MultipleInstancesError, RuntimeError)


@row("util.uuid")
def test_the_source_of_ids_can_be_replaced():
    """IncrementingUUID counts for each prefix by itself; the library takes its ids from the source
    set."""
    util.set_uuid_func(IncrementingUUID())
    assert [util.uuid("a"), util.uuid("a-"), util.uuid("b"), util.uuid("")] == [
        "a-0",
        "a-1",
        "b-0",
        "0",
    ]
    node = a_manager().allocate({"ncpus": 1}, node_count=1).nodes[0]
    assert re.fullmatch(r"hostname-\d+", node.hostname)


@row("util.uuid")
def test_ids_are_random_by_default():
    """The default source ignores the prefix."""
    made = {util.uuid("node") for _ in range(10)}
    assert len(made) == 10
    assert not any(each.startswith("node") for each in made)


@row("util.LEGACY")
def test_slurm_branches_on_legacy():
    """The constant by which Slurm chooses its default columns is True."""
    columns = ["name", "status"] if util.LEGACY else ["name"]
    assert util.LEGACY is True
    assert columns == ["name", "status"]
