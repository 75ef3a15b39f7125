"""Laws of the changes in a journal."""

import json
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

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
from hpc.autoscale.journal.records import as_written

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
