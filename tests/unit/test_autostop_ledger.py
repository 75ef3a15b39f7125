"""The file of stops: what stands, for how long, and when it cannot be used."""

import sqlite3

import pytest

from hpc.autoscale.autostop.decision import Code, KnownNode, Surplus
from hpc.autoscale.autostop.ledger import Ledger, LedgerError
from hpc.autoscale.statefiles import STOPS, path_of

POOL = ("execute", "F4", "")


def a_surplus(count, wanted=0, group=None):
    """Nodes 0, 1, …, demand being placed on the first ones."""
    return Surplus(
        KnownNode(str(i), f"execute-{i}", POOL, f"vm-{i}", group, i < wanted) for i in range(count)
    )


@pytest.fixture
def ledger(tmp_path):
    """A new file."""
    made = Ledger(str(tmp_path / "autostop.db"))
    made.prepare()
    return made


def yes(answers):
    """Who was told yes."""
    return sorted(each for each, answer in answers.items() if answer.accepted)


def test_a_yes_is_written_down(ledger):
    """For whoever opens the file next."""
    assert yes(ledger.decide(a_surplus(3, 2), ["0", "1"], 1000)) == ["0"]
    again = Ledger(ledger.path)
    assert again.reserved(1000) == {"0"}
    assert yes(again.decide(a_surplus(3, 2), ["1", "2", "0"], 1000)) == ["0"]


def test_it_lapses_after_ten_minutes(ledger):
    """And not before."""
    ledger.decide(a_surplus(3, 2), ["0"], 1000)
    assert ledger.reserved(1599.9) == {"0"}
    assert ledger.reserved(1600) == set()


def test_a_clock_that_went_back(ledger):
    """Makes nothing stand for longer than ten minutes from then."""
    ledger.decide(a_surplus(3, 2), ["0"], 1_000_000)
    assert ledger.reserved(1000) == {"0"}
    assert ledger.reserved(1600) == set()


def test_who_is_gone(ledger):
    """Is neither surplus nor reserved: whoever looked before still counts both."""
    before = a_surplus(5, 3)
    assert yes(ledger.decide(before, ["0", "1"], 1000)) == ["0", "1"]
    after = Surplus(one for one in before.by_id.values() if one.node_id not in "01")
    assert yes(ledger.decide(before, ["2"], 1001)) == []
    assert yes(ledger.decide(after, ["3", "4"], 1001)) == ["3", "4"]


def test_told_yes(ledger):
    """A node that is no longer listed is given the same answer, by either id."""
    ledger.decide(a_surplus(1), ["0"], 1000)
    for instance in ("vm-0", "0"):
        assert ledger.told_yes(instance, 1599).code is Code.MAY_STOP
    assert ledger.told_yes("vm-0", 1600) is None
    assert ledger.told_yes("vm-1", 1000) is None


def test_asks_of_groups_are_remembered(ledger):
    """For five minutes, of whichever process they came to."""
    group = a_surplus(2, group="g")
    assert yes(ledger.decide(group, ["0"], 1000)) == []
    assert yes(Ledger(ledger.path).decide(group, ["1"], 1299)) == ["1"]
    assert ledger.reserved(1299) == {"0", "1"}


@pytest.mark.parametrize("table", ["stops", "asks"])
@pytest.mark.parametrize("damaged", ["NULL", "x'ff'"])
def test_a_row_without_an_id_is_damage_until_it_lapses(ledger, table, damaged):
    """Somebody was told yes, or asks for a group, and nobody knows who."""
    group = a_surplus(3, group="g")
    assert yes(ledger.decide(a_surplus(3), ["0"], 1000)) == ["0"]
    assert yes(ledger.decide(group, ["1"], 1000)) == []
    with sqlite3.connect(ledger.path) as conn:
        conn.execute(f"UPDATE {table} SET node_id = {damaged}")
    conn.close()
    asks = [lambda at: ledger.decide(group, ["1"], at)]
    if table == "stops":
        asks += [lambda at: ledger.told_yes("vm-7", at), ledger.reserved]
    for ask in asks:
        with pytest.raises(LedgerError, match=r"autostop.db: it is damaged \(.* in a row\)"):
            ask(1001)
    for ask in asks:
        ask(1600)


def test_release(ledger):
    """Gives back what was not told to anybody."""
    ledger.decide(a_surplus(2, 1), ["0"], 1000)
    ledger.release(["0"])
    assert yes(ledger.decide(a_surplus(2, 1), ["1"], 1000)) == ["1"]


def test_a_claim_of_the_loop(ledger):
    """Is counted with what nodes were told; nodes of groups are nobody's surplus."""
    ledger.decide(a_surplus(5, 2), ["0"], 1000)
    assert ledger.claim(a_surplus(5, 2), ["2", "3", "4"], 1000) == {"2", "3"}
    assert yes(ledger.decide(a_surplus(5, 2), ["1"], 1000)) == []
    assert ledger.claim(a_surplus(3, group="g"), ["1"], 1000) == {"1"}


def test_where_the_file_is(tmp_path):
    """Beside the request sets, or where the section says."""
    assert path_of(STOPS, {}, "/var/x") == "/var/x/autostop.db"
    assert path_of(STOPS, {"requestsetsdb": "/a/b.db"}, "/var/x") == "/a/autostop.db"
    assert path_of(STOPS, {"autostop": {"database": "/c/d.db"}}, "/var/x") == "/c/d.db"


def test_a_file_that_cannot_be_used(tmp_path):
    """Is an error that names it and says why."""
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 100)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    for path, said in (
        (damaged, "it is damaged"),
        (other, "found another"),
        (tmp_path / "no" / "x.db", "there is no directory"),
    ):
        with pytest.raises(LedgerError, match=f"{path}.*{said}"):
            Ledger(str(path)).decide(a_surplus(1), ["0"], 1000)
    assert not Ledger(str(tmp_path / "no" / "x.db")).exists
