"""The small things that integrations use."""

import errno
import io
import json
import os
import pickle
import stat
import subprocess
import sys
import uuid as stdlib_uuid
from types import MappingProxyType, SimpleNamespace

import pytest

from hpc.autoscale import errors, util
from hpc.autoscale.config import load, timeouts
from hpc.autoscale.errors import LockUnusableError
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.util import AliasDict, ShellDict, SingletonFileLock


def test_published_names_are_the_same_objects_everywhere():
    """util offers what other modules define."""
    assert util.load_config is load.load_config
    assert util.parse_timeout is timeouts.parse_timeout
    assert util.ConfigurationException is errors.ConfigurationException
    assert util.CircularIncludeError is errors.CircularIncludeError
    assert util.MultipleInstancesError is errors.MultipleInstancesError
    assert util.LEGACY is True and util.AZURE_HPC_DEV in (True, False)


# Ids


@pytest.fixture
def own_ids(monkeypatch):
    """The source of ids is put back after the test."""
    monkeypatch.setattr(util, "_uuid_func", util._uuid_func)


def test_ids_are_uuids():
    """Unless the source is replaced, whatever the prefix."""
    a, b = util.uuid("node"), util.uuid()
    assert a != b and str(stdlib_uuid.UUID(a)) == a


def test_incrementing_ids(own_ids):
    """Each prefix counts by itself, with or without its dash; no prefix gives numbers."""
    util.set_uuid_func(util.IncrementingUUID())
    ids = [util.uuid(p) for p in ("node", "node-", "other", "", "")]
    assert ids == ["node-0", "node-1", "other-0", "0", "1"]


# Grouping


def test_partition_keeps_the_order():
    """Keys in the order of first appearance, items in the given one; any iterable will do."""
    found = util.partition((w for w in ["bb", "a", "cc", "d"]), func=len)
    assert list(found.items()) == [(2, ["bb", "cc"]), (1, ["a", "d"])]


def test_partition_single():
    """One item for each key, unhashable ones too."""
    items = [{"name": "a"}, {"name": "b"}]
    assert util.partition_single(items, func=lambda d: d["name"]) == {"a": items[0], "b": items[1]}


def test_partition_single_refuses_a_second_one():
    """The error names the key and the values, in the words that callers look for."""
    with pytest.raises(RuntimeError) as e:
        util.partition_single(["a", "b"], len)
    said = "Could not partition list into single values - key=1 values=['a', 'b']"
    assert str(e.value) == said


def test_partition_single_accepts_equal_ones_if_not_strict():
    """The first of several equal items is taken, and all of them must be equal."""
    a, b, c = {"x": 1}, {"x": 1}, {"x": 2}
    assert util.partition_single([a, b], len, strict=False)[1] is a
    for items in ([a, b, c], [c, a, b], [True, 1, 2]):
        with pytest.raises(RuntimeError):
            util.partition_single(items, lambda _: "key", strict=False)


# Locks


def test_lock_holds_the_process_id_while_locked(tmp_path):
    """The file tells who has the lock, and is empty when nobody has."""
    path = tmp_path / "lock"
    lock = SingletonFileLock(str(path))
    assert (lock.lockpath, path.read_text()) == (str(path), str(os.getpid()))
    lock.unlock()
    lock.unlock()
    assert path.read_text() == ""


def test_lock_is_for_one(tmp_path):
    """A second one is told who has it, and leaves the file of the owner alone."""
    path = tmp_path / "lock"
    lock = SingletonFileLock(str(path))
    with pytest.raises(util.MultipleInstancesError, match=f"held by process {os.getpid()}"):
        SingletonFileLock(str(path))
    assert path.read_text() == str(os.getpid())
    lock.unlock()
    SingletonFileLock(str(path)).unlock()


def run_python(code, *args):
    """The exit code of a Python process that runs this code."""
    return subprocess.run([sys.executable, "-c", code, *args], check=False).returncode


def test_lock_of_a_dead_process_locks_nobody_out(tmp_path):
    """What a killed owner leaves behind is overwritten."""
    path = tmp_path / "lock"
    code = (
        "import os, sys; from hpc.autoscale import util; l = util.SingletonFileLock(sys.argv[1]); "
        "os._exit(9)"
    )
    assert run_python(code, str(path)) == 9
    assert path.read_text() not in ("", str(os.getpid()))
    lock = SingletonFileLock(str(path))
    assert path.read_text() == str(os.getpid())
    lock.unlock()


def test_lock_file_is_for_its_owner_only(tmp_path):
    """Nobody else can open it, and thereby lock it."""
    SingletonFileLock(str(tmp_path / "lock")).unlock()
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


def test_lock_that_cannot_be_opened(tmp_path):
    """The error says what is wrong with the file; who catches the published error catches it,
    too."""
    path = str(tmp_path / "missing" / "lock")
    with pytest.raises(util.MultipleInstancesError) as refused:
        SingletonFileLock(path)
    assert isinstance(refused.value, LockUnusableError)
    assert str(refused.value) == f"lock file {path!r} cannot be opened: No such file or directory"


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with a name")
def test_lock_that_is_a_pipe(tmp_path):
    """The error says that it is no file."""
    os.mkfifo(path := str(tmp_path / "pipe"))
    with pytest.raises(LockUnusableError, match="cannot be opened: File or stream is not seekable"):
        SingletonFileLock(path)


@pytest.mark.skipif(sys.platform == "win32", reason="locks there are not flock's")
def test_lock_that_the_file_system_does_not_know(tmp_path, monkeypatch):
    """Is not said to be held by somebody."""

    def flock(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(util.fcntl, "flock", flock)
    with pytest.raises(LockUnusableError, match=r"lock' cannot be locked: No locks available"):
        SingletonFileLock(str(tmp_path / "lock"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_lock_on_a_full_disk(caplog):
    """Is held all the same; the log names the file in which the process id is missing."""
    lock = SingletonFileLock("/dev/full")
    with pytest.raises(util.MultipleInstancesError, match="held by"):
        SingletonFileLock("/dev/full")
    assert "lock file '/dev/full' cannot be written" in caplog.text
    lock.unlock()
    SingletonFileLock("/dev/full").unlock()


@pytest.mark.parametrize("key", ["lock_file", "lock_path"])
def test_new_lock_from_the_configuration(key, tmp_path):
    """The configured file is locked, with the warning that integrations filter by its text."""
    path = str(tmp_path / "lock")
    with pytest.warns(UserWarning, match=r"^Please use driver\.new_singleton_lock$"):
        lock = util.new_singleton_lock({key: path})
    assert lock.lockpath == path
    lock.unlock()


@pytest.mark.parametrize("value", [None, ""])
def test_no_lock(value):
    """A lock file of null means that there is no lock."""
    with pytest.warns(UserWarning):
        lock = util.new_singleton_lock({"lock_file": value})
    assert isinstance(lock, util.NullSingletonLock)
    lock.unlock()


def test_default_lock_file(tmp_path, monkeypatch):
    """Below CYCLECLOUD_HOME where that exists, else in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CYCLECLOUD_HOME", str(tmp_path / "jetpack"))
    assert util._default_lock_file() == os.path.join(".", "scalelib.lock")
    (tmp_path / "jetpack").mkdir()
    expected = tmp_path / "jetpack" / "system" / "bootstrap" / "scalelib.lock"
    assert util._default_lock_file() == str(expected)


# Dicts


def test_alias_reaches_its_key():
    """Reading, writing, asking and deleting by an alias go to the key, which alone is listed."""
    d = AliasDict(ncpus=4)
    d.add_alias("slots", "ncpus")
    assert (d["slots"], d.get("slots"), "slots" in d, d._key("slots")) == (4, 4, True, "ncpus")
    d["slots"] = 8
    assert (d, d.setdefault("slots", 1), list(d)) == ({"ncpus": 8}, 8, ["ncpus"])
    assert d.pop("slots") == 8 and "slots" not in d and d.get("slots", 3) == d.pop("slots", 3) == 3
    d["ncpus"] = 1
    del d["slots"]
    assert d == {} and 3 not in d


def test_alias_in_bulk():
    """Updates go to the key too, and a copy by pickle knows the alias."""
    d = AliasDict(ncpus=4)
    d.add_alias("slots", "ncpus")
    d.update(slots=5, mem=1)
    assert d == {"ncpus": 5, "mem": 1}
    d |= {"slots": 6}
    assert (d["slots"], list(d)) == (6, ["ncpus", "mem"])
    again = pickle.loads(pickle.dumps(d))
    assert (again["slots"], again) == (6, d)


def test_shell_dict_has_items_as_attributes():
    """Names are made fit for typing, and methods stay methods."""
    d = ShellDict({"ip-0A": 1, "12": 2, "_x": 3, "items": 4, "": 5}, prefix="")
    assert (d.ip_0A, d.k_12, d.k__x, d.k_) == (1, 2, 3, 5)
    assert d["items"] == 4 and dict(d.items()) == d


def test_shell_dict_prefix():
    """A prefix comes before each name."""
    assert ShellDict({"12": 2}, prefix="j").j12 == 2


# JSON


def test_json_dump_asks_objects():
    """to_json before to_dict, indented by two."""
    node = SimpleNamespace(to_dict=lambda: {"name": "n"})
    out = io.StringIO()
    util.json_dump({"mem": Memory(4, "g"), "node": node}, out)
    assert out.getvalue() == '{\n  "mem": "memory::4.00g",\n  "node": {\n    "name": "n"\n  }\n}'


def test_json_dump_writes_to_stdout(capsys):
    """Without a writer, to what stdout is now."""
    util.json_dump([1])
    assert json.loads(capsys.readouterr().out) == [1]


def test_json_dump_of_sets_and_views():
    """As lists, in order, and as objects: what handlers and nodes keep."""
    out = io.StringIO()
    util.json_dump({"contexts": {"[Job 2]", "[Job 1]"}, "r": MappingProxyType({"a": 1})}, out)
    assert json.loads(out.getvalue()) == {"contexts": ["[Job 1]", "[Job 2]"], "r": {"a": 1}}


def test_json_dump_refuses_other_objects():
    """The error says what it was."""
    with pytest.raises(AssertionError, match="object"):
        util.json_dump(object(), io.StringIO())


def test_json_load_is_old(tmp_path):
    """It warns and works."""
    (tmp_path / "a.json").write_text('{"a": 1}')
    with pytest.warns(UserWarning, match="load_config"):
        assert util.json_load(str(tmp_path / "a.json")) == {"a": 1}


# Hostnames


def named(hostname, standalone=None):
    """A node, with or without the setting for standalone DNS."""
    hosts = {} if standalone is None else {"standalone_dns": {"enabled": standalone}}
    config = {"cyclecloud": {"hosts": hosts}}
    return SimpleNamespace(hostname=hostname, software_configuration=config)


@pytest.mark.parametrize(
    "configuration, expected",
    [
        ({}, True),
        ({"cyclecloud": None}, True),
        ({"cyclecloud": {"hosts": {"standalone_dns": {}}}}, True),
        ({"cyclecloud": {"hosts": {"standalone_dns": {"enabled": True}}}}, True),
        ({"cyclecloud": {"hosts": {"standalone_dns": {"enabled": False}}}}, False),
        ({"cyclecloud": {"hosts": "garbage"}}, True),
        (None, True),
    ],
)
def test_standalone_dns(configuration, expected):
    """On unless the node or bucket says otherwise."""
    bucket = SimpleNamespace(software_configuration=configuration)
    assert util.is_standalone_dns(bucket) is expected


@pytest.mark.parametrize(
    "hostname, patterns, standalone, expected",
    [
        (None, None, True, False),
        ("", ".+", True, False),
        ("ip-0A000004", None, True, True),
        ("ip-0A000004.example.com", None, None, True),
        ("ip-0A00004", None, True, False),
        ("ip-0A0000041", None, True, False),
        ("node1", None, True, False),
        ("node1", None, False, True),
        ("node1", [], False, True),
        ("node1", ".+", True, True),
        ("node1", ["x", "node"], True, True),
        ("node1.example", ["node1$"], True, True),
        ("1node", ["node"], True, False),
    ],
)
def test_valid_hostnames(hostname, patterns, standalone, expected):
    """Patterns begin the short name; without any, standalone names look like addresses."""
    assert (
        util.is_valid_hostname({"valid_hostnames": patterns}, named(hostname, standalone))
        is expected
    )


def test_invalid_hostnames_are_logged(caplog):
    """The warning names the hostname and what was expected."""
    util.is_valid_hostname({}, named("node1"))
    assert "node1" in caplog.text and "ip-" in caplog.text


@pytest.mark.parametrize("patterns", ["(", ["("], [5], [None], 5, {"a": "b"}])
def test_patterns_that_are_none(patterns):
    """What is no regular expression, or no list of them, is an error of the configuration."""
    with pytest.raises(util.ConfigurationException, match=r"valid_hostnames: expected .*found"):
        util.is_valid_hostname({"valid_hostnames": patterns}, named("node1"))


HEAVY = [
    "requests",
    "jsonpickle",
    "uuid",
    "hpc.autoscale.node",
    "hpc.autoscale.job",
]


@pytest.mark.parametrize("module", ["util", "results", "config", "hpclogging", "hpctypes"])
def test_imports_first_and_light(module):
    """Each basic module can be the first import and brings no node, client or checker with it."""
    code = f"import sys, hpc.autoscale.{module}; sys.exit(any(m in sys.modules for m in {HEAVY}))"
    assert run_python(code) == 0


def test_the_demand_calculator_does_without_what_takes_long_to_import():
    """`dataclasses` brings the three behind it along; from Python 3.14 on `logging` and `typing`
    do, too."""
    slow = ["dataclasses", "inspect", "ast", "dis"] if sys.version_info < (3, 14) else []
    found = f"[m for m in {[*slow, 'requests', 'numpy']} if m in sys.modules]"
    code = f"import sys, hpc.autoscale.job.demandcalculator; sys.exit({found} or 0)"
    assert run_python(code) == 0
