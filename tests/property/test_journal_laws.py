"""Laws of the changes in a journal."""

import gzip
import json
import marshal
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.journal import Journal, JournalWriter, PassRecord
from hpc.autoscale.journal.changes import (
    NO_ROWS,
    Rows,
    change,
    changed,
    distinct,
    leading,
    settled,
    whole,
)
from hpc.autoscale.journal.changes import (
    given as as_given,
)
from hpc.autoscale.journal.pairs import Pairs
from hpc.autoscale.journal.portable import portable, restored
from hpc.autoscale.journal.records import as_written
from hpc.autoscale.journal.snapshots import host_json, host_rows, job_json, job_rows
from hpc.autoscale.redaction import Hiding

KEYS = st.lists(st.sampled_from("abcdefgh"), max_size=12)
LISTS = KEYS.flatmap(
    lambda keys: st.lists(st.integers(0, 2), min_size=len(keys), max_size=len(keys)).map(
        lambda values: Rows(distinct(keys), values)
    )
)


def as_dict(rows):
    """Rows by key, in order."""
    return dict(zip(rows.keys, rows.values, strict=True))


@given(st.lists(LISTS, min_size=1, max_size=5))
def test_what_was_written_is_read(lists):
    """Any list after any other, also in another order and with rows of one key, through JSON."""
    before, found = NO_ROWS, {}
    for number, rows in enumerate(lists):
        what = whole(rows) if number == 0 else change(before, rows)
        found = changed(found, json.loads(json.dumps(what)))
        assert list(found.items()) == list(as_dict(rows).items())
        before = rows


@given(
    st.lists(st.tuples(KEYS, st.integers(0, 2)), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([list, Pairs]),
)
def test_what_is_held_against_the_last_record_is_what_was_read(readings, is_hard_to_compare, kind):
    """Items of a reading, in any order and with names that are there twice, become the rows that
    they are by themselves, and a change of those before makes them. The same are the same
    object."""

    def alike(items, values):
        return (
            0 if is_hard_to_compare else leading([[*item] for item in items], [*map(list, values)])
        )

    before, found = NO_ROWS, {}
    for names, value in readings:
        items = [(name, value if name < "e" else 0) for name in names]
        rows = settled(items, before, alike, lambda item: item[0], tuple, kind)
        assert list(rows.values) == items
        assert [as_given(key) for key in rows.keys] == names
        assert len(set(rows.keys)) == len(names)
        found = changed(found, json.loads(json.dumps(change(before, rows))))
        assert list(found.items()) == [(key, [*pair]) for key, pair in as_dict(rows).items()]
        again = settled(items, rows, alike, lambda item: item[0], tuple, kind)
        assert (again is rows or len(set(names)) < len(names)) and change(rows, again) is None
        before = rows


@given(LISTS)
def test_what_is_the_same_is_not_written(rows):
    """Nothing is."""
    assert change(rows, Rows(list(rows.keys), list(rows.values))) is None


@given(LISTS, st.integers(0, 11))
def test_a_changed_row_is_written_alone(rows, index):
    """However many there are."""
    if not rows.keys:
        return
    index %= len(rows.keys)
    values = [*rows.values[:index], 9, *rows.values[index + 1 :]]
    assert change(rows, Rows(rows.keys, values)) == {"set": [[rows.keys[index], 9]]}


@given(KEYS)
def test_keys_are_told_apart_and_known_again(keys):
    """Whatever is there twice."""
    own = distinct(keys)
    assert len(set(own)) == len(keys)
    assert [as_given(key) for key in own] == keys


RECORDS = st.lists(
    st.tuples(st.lists(st.sampled_from("abcde"), max_size=6), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(RECORDS, st.booleans())
def test_processes_that_follow_each_other_write_what_they_read(passes, hears_all):
    """Whichever of them goes on after another one, and whichever writes more than one record."""
    with TemporaryDirectory() as home:
        writer = JournalWriter(home)
        written = []
        for number, (keys, value, is_new) in enumerate(passes):
            if is_new:
                writer = JournalWriter(home)
                writer.take_up()
            jobs = [{"name": key, "value": value} for key in keys]
            nodes = [{"NodeId": key} for key in sorted(set(keys))]
            record = as_written(PassRecord(at=float(number), jobs=jobs, nodes=nodes))
            if hears_all or keys:
                record.lists["given:hook"] = Rows.of_texts(keys)
            writer.append(record, {"number": number} if is_new else None)
            written.append((jobs, nodes))
        found = list(Journal(home))
        assert [(each.jobs, each.nodes) for each in found] == written
        for each, (keys, _, _) in zip(found, passes, strict=True):
            if hears_all or keys:
                assert each.doors["lists"].get("given:hook", []) == keys


SIZES = st.builds(
    lambda kind, value, unit: kind(value, unit),
    st.sampled_from([ht.Size, ht.Memory]),
    st.one_of(st.integers(-5, 5), st.floats(-1e6, 1e6)),
    st.sampled_from("bkmgtKMG"),
)
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), SIZES
    ),
    lambda values: st.one_of(
        st.lists(values, max_size=3),
        st.lists(values, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), values, max_size=3),
    ),
    max_leaves=12,
)


def exactly(value):
    """A value with the class of everything in it."""
    if isinstance(value, dict):
        return [dict, [(exactly(key), exactly(below)) for key, below in value.items()]]
    if isinstance(value, list | tuple):
        return [type(value), [exactly(below) for below in value]]
    return [type(value), value.parts if isinstance(value, ht.Size) else value]


@given(VALUES)
def test_a_portable_value_is_had_again(value):
    """Exactly, by way of bytes; texts that begin like a mark are refused or kept as they are."""
    try:
        said = portable(value)
    except ValueError:
        assert "\0" in str(exactly(value)) or "\\x00" in str(exactly(value))
        return
    assert exactly(restored(marshal.loads(marshal.dumps(said)))) == exactly(value)


ASKED = [
    {"ncpus": 1},
    {"ncpus": 1, "memory": ht.Memory.value_of("4g")},
    [{"ncpus": 2}, {"or": [{"node.nodearray": "a"}, {"node.nodearray": ["b", "c"]}]}],
]
METADATA = [
    *({}, {"state": "Q"}, {"password": "hunter2"}, {"since": {"when": (1, 2)}}, {"o": object}),
    {"note": "log in with hunter2"},
]
RESOURCES = [{"ncpus": 4}, {"ncpus": 4, "memory": ht.Memory.value_of("8g"), "on": "yes"}]
READINGS = st.lists(
    st.tuples(
        st.lists(st.tuples(*map(st.sampled_from, ("abcd", ASKED, METADATA))), max_size=5),
        st.lists(st.tuples(*map(st.sampled_from, ("xyz", RESOURCES, METADATA))), max_size=4),
        st.booleans(),
    ),
    min_size=2,
    max_size=5,
)


@given(READINGS)
def test_jobs_and_hosts_are_handed_over_from_process_to_process(readings):
    """Each record has those of its pass, whatever is in them, and nothing where nothing changed;
    no secret is in what is left for the next one."""
    with TemporaryDirectory() as home:
        written, again, hiding = [], [], Hiding("hunter2")
        for at, (jobs, hosts, is_again) in enumerate(readings):
            for _ in range(1 + is_again):
                writer = JournalWriter(home)
                writer.take_up()
                jobs_read = [a_job_of(*each) for each in jobs]
                hosts_read = [a_host_of(*each) for each in hosts]
                record = as_written(PassRecord(at=float(at)))
                record.hiding = hiding
                known = writer.lists
                record.lists["jobs"] = job_rows(jobs_read, known.get("jobs", NO_ROWS))
                record.lists["hosts"] = host_rows(hosts_read, known.get("hosts", NO_ROWS))
                writer.append(record, {})
                shown = ([*map(job_json, job_rows(jobs_read).values)],)
                shown += ([*map(host_json, host_rows(hosts_read).values)],)
                written.append(hiding.throughout(json.loads(json.dumps(shown, default=_as_text))))
            (left,) = Path(home).glob("last-record")
            assert b"hunter2" not in left.read_bytes()
            again.append(is_again)
        assert [[each.jobs, each.hosts] for each in Journal(home)] == written
        (file,) = Path(home).glob("*.gz")
        lines = list(map(json.loads, gzip.decompress(file.read_bytes()).splitlines()))
        place = -1
        for is_again in again:
            place += 1 + is_again
            assert not is_again or lines[place]["read"] == {}


def _as_text(value):
    return value.to_json() if isinstance(value, ht.Size) else str(value)


def a_job_of(name, asked, metadata):
    """A job as a driver makes it, with nothing of earlier ones in it."""
    job = Job(f"job-{name}", deepcopy(asked), executing_hostnames=["x"] * (name == "d"))
    job.metadata.update(deepcopy(metadata))
    return job


def a_host_of(name, resources, metadata):
    """A host as a driver makes it, with nothing of earlier ones in it."""
    host = SchedulerNode(f"host-{name}", deepcopy(resources))
    host.metadata.update(deepcopy(metadata))
    return host
