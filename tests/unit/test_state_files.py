"""The files in which passes remember things are known wherever one must know them all."""

import os

import pytest

from hpc.autoscale.cli.state_checks import damaged_files
from hpc.autoscale.config import check_config, config_schema
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.journal.state import paths_of, settings
from hpc.autoscale.onpremises.workers import STATES_FILE
from hpc.autoscale.rehearsal.state import StateCopy, files_of_state
from hpc.autoscale.statefiles import HISTORY, HOSTS, STATE_FILES, path_of

NAMED = [file.key for file in STATE_FILES if file.is_named]
ALL_SECTIONS = {
    "clusters": [{"cluster_name": "a"}],
    "on_premises": {"hosts": ["n1"]},
    "weights": {"provider": "p"},
    "autostop": {"database": None},
}


def named(key, path):
    """The settings that name a file."""
    section, _, name = key.rpartition(".")
    return {section: {name: path}} if section else {key: path}


@pytest.mark.parametrize("key", NAMED)
def test_a_key_that_names_one_is_in_the_schema(key):
    properties = config_schema()["properties"]
    for part in key.split("."):
        found = properties[part]
        properties = found.get("properties", {})
    assert "file" in found["description"].lower()


@pytest.mark.parametrize("key", NAMED)
def test_two_keys_may_not_name_one_file(key):
    other = "lock_file"
    with pytest.raises(ConfigurationException, match="expected a file of its own"):
        check_config({**named(key, "/x/one.db"), other: "/x/one.db"})


@pytest.mark.parametrize("file", STATE_FILES, ids=lambda file: file.key)
def test_a_file_is_where_it_is_named_or_beside_the_history(file):
    assert path_of(file, {}, "/home") == f"/home/{file.name}"
    beside = f"/other/{file.name}" if file is not HISTORY else "/other/h.db"
    assert path_of(file, {"nodehistorydb": "/other/h.db"}, "/home") == beside
    if file.is_named:
        assert path_of(file, named(file.key, "/x/own.db"), "/home") == "/x/own.db"


def test_a_rehearsal_copies_all_of_them(tmp_path):
    for file in STATE_FILES:
        (tmp_path / file.name).write_bytes(b"")
    with StateCopy(ALL_SECTIONS, str(tmp_path)) as copy:
        for path in files_of_state(ALL_SECTIONS, str(tmp_path)).values():
            assert os.path.dirname(copy.of(path)) == os.path.dirname(copy.settings["gangsdb"])
            assert copy.of(path) != path
        assert {key for key in NAMED if "." not in key} <= copy.settings.keys()


def test_doctor_looks_at_all_of_them(tmp_path):
    for file in STATE_FILES:
        (tmp_path / file.name).write_bytes(b"this is no database, but it is longer than a hundred")
    state = files_of_state(ALL_SECTIONS, str(tmp_path))
    told = " ".join(each.text for each in damaged_files(state, ALL_SECTIONS))
    assert [file.name for file in STATE_FILES if file.name not in told] == []


def test_a_journal_has_all_of_them_that_no_setting_replaces():
    of_pass = {STATES_FILE if f is HOSTS else f.key: f"/x/{f.name}" for f in STATE_FILES}
    names = {file.in_journal for file in STATE_FILES if file.in_journal}
    assert paths_of(of_pass, "/x").keys() == names
    assert len(names) == len(STATE_FILES) - 1, "weights are in the configuration of a pass"
    again = settings({**of_pass, **ALL_SECTIONS}, "/y")
    paths = {again["autostop"].pop("database"), *(v for v in again.values() if v)}
    assert {f"/y/{name}" for name in names} <= paths
