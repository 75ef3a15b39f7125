"""Which nodes count as boots that failed, where replies were lost or of a moment before."""

import sqlite3
from contextlib import closing

import pytest

from builders.nodes import a_manager, an_htc_cluster
from builders.replies import a_record
from hpc.autoscale import clock
from hpc.autoscale.backoff import law, subjects
from hpc.autoscale.backoff.causes import FailureKind
from hpc.autoscale.backoff.file import BackoffFile, Boot
from hpc.autoscale.backoff.holds import Holds
from hpc.autoscale.backoff.law import Policy
from hpc.autoscale.backoff.listed import Listed

MADE = ("n1", "n2")


def listed(status="", request_id="r", message="The software could not be installed"):
    """A listing of two nodes that one request has made; of none without a status."""
    statuses = dict.fromkeys(MADE, status) if status else {}
    return listing(statuses, RequestId=request_id, StatusMessage=message)


def listing(statuses, **more):
    """A listing of nodes by name with their statuses."""
    records = [
        a_record(
            each,
            NodeId=each,
            Template="htc",
            MachineType="Standard_F4s_v2",
            Status=status,
            **more,
        )
        for each, status in statuses.items()
    ]
    return Listed(
        [each for each in records if each["Status"] in ("Acquiring", "Preparing")],
        [each for each in records if each["Status"] == "Failed"],
        lambda ids: {r["NodeId"]: r for r in records if r["NodeId"] in ids},
        made_by=lambda ids: [r for r in records if r["RequestId"] in ids],
    )


@pytest.fixture
def look(tmp_path):
    """One pass: what it finds in a listing, and whether anything rests then. `first` is what it
    does before, with what is remembered."""
    buckets = a_manager(an_htc_cluster(10, vm_size="Standard_F4s_v2")).get_buckets()

    def one_pass(seen, first=lambda holds: None):
        holds = Holds(str(tmp_path / "backoff.db"))
        holds.look(seen, buckets)
        first(holds)
        return bool(holds.limits)

    return one_pass


def test_nodes_of_a_create_count_whose_ids_nobody_was_told(look):
    """They failed before anybody saw them boot."""
    assert not look(listed(), lambda holds: holds.sending(["r"]))
    assert look(listed("Failed"))


def test_nodes_of_other_requests_were_up_for_all_that_is_known(look):
    """They are somebody else's, or of long ago."""
    assert not look(listed(), lambda holds: holds.sending(["r"]))
    assert not look(listed("Failed", "another"))


def test_a_node_that_was_ready_when_it_was_first_seen_did_boot(look):
    """What fails later is no boot that failed."""
    look(listed(), lambda holds: holds.sending(["r"]))
    assert not look(listed("Ready"))
    assert not look(listed("Failed"))


def test_a_create_of_long_ago_is_forgotten(look):
    """Its nodes came and went, or it never happened."""
    look(listed(), lambda holds: holds.sending(["r"]))
    clock.use_mock_clock().now = clock.time() + 3601
    look(listed())
    assert not look(listed("Failed"))


def test_nodes_that_an_older_listing_lacks_count_when_they_are_back(look):
    """A listing of before they were made says nothing of them."""
    look(listed(), lambda holds: holds.asked(MADE))
    assert not look(listed())
    assert look(listed("Failed"))


def test_nodes_that_nobody_lists_for_an_hour_are_forgotten(look, tmp_path):
    """They are gone."""
    look(listed(), lambda holds: holds.asked(MADE))
    clock.use_mock_clock().now = clock.time() + 3601
    look(listed())
    assert not look(listed("Failed"))


def test_a_rest_ends_though_the_clock_was_put_back(look):
    """It begins anew at the first pass after that, and not in every one."""
    now = clock.use_mock_clock()
    look(listed(), lambda holds: holds.asked(MADE))
    assert look(listed("Failed"))
    now.now -= 3600
    for _ in range(12):
        assert look(listed("Failed"))
        now.now += 100  # ten minutes of rest, and twenty in which single nodes are tried
    now.now += 601
    assert not look(listed("Failed"))


def test_a_failed_node_that_stays_counts_once(look):
    """Otherwise it would be one more failure in each pass, and its bucket rest for ever."""
    look(listed(), lambda holds: holds.asked(MADE))
    assert look(listed("Failed"))
    clock.use_mock_clock().now = clock.time() + 1801
    assert not look(listed("Failed"))


def test_a_machine_shows_that_there_is_capacity_again_if_it_was_asked_for_after_the_failure(look):
    """What was asked for before may have been given before, too."""
    now = clock.use_mock_clock()
    short = {"RequestId": "r", "StatusMessage": "SkuNotAvailable: there is no capacity"}
    look(listing({}), lambda holds: holds.asked(["n1", "n2"]))
    now.now += 10
    assert look(listing({"n1": "Acquiring", "n2": "Failed"}, **short))
    now.now += 10
    assert look(listing({"n1": "Preparing", "n2": "Failed"}, **short))
    now.now += 10
    assert look(listing({"n1": "Ready"}), lambda holds: holds.asked(["n3"]))
    now.now += 10
    assert look(listing({"n1": "Ready", "n3": "Acquiring"}))
    now.now += 10
    assert not look(listing({"n1": "Ready", "n3": "Preparing"}))


def test_a_machine_that_was_given_and_is_ready_shows_it_once(look):
    """It would end a rest that began in between: what is ready was given long ago."""
    now = clock.use_mock_clock()
    short = {"RequestId": "r", "StatusMessage": "SkuNotAvailable: there is no capacity"}
    look(listing({}), lambda holds: holds.asked(["n1"]))
    now.now += 10
    assert look(listing({"n1": "Failed"}, **short), lambda holds: holds.asked(["n2", "n3"]))
    now.now += 3600
    look(listing({"n2": "Preparing", "n3": "Acquiring"}))
    assert look(listing({"n2": "Preparing", "n3": "Failed"}, **short))
    assert look(listing({"n2": "Ready", "n3": "Failed"}, **short))


def test_regular_nodes_are_not_evicted(look):
    """Whatever is said of them."""
    look(listed(), lambda holds: holds.asked(MADE))
    assert not look(listed("Failed", message="The node was evicted"))


# -- the law, in numbers


def failing(kind, *times, draw=0.0):
    """What is known after failures at these times."""
    known = None
    for at in times:
        known = law.failed(known, kind, "", at, at, Policy(), lambda: draw)
    return known


@pytest.mark.parametrize(
    ("kind", "rests"),
    [
        (FailureKind.CAPACITY, [300, 600, 1200, 2400, 3600, 3600]),
        (FailureKind.EVICTED, [60, 120, 240, 480, 600, 600]),
        (FailureKind.BOOT, [0, 600, 1200, 2400, 3600, 3600]),
    ],
)
def test_a_rest_is_twice_as_long_after_each_failure(kind, rests):
    """Up to a ceiling, which is lower after evictions; one node that does not boot is no reason."""
    known, found, now = None, [], 1e6
    for _ in rests:
        known = law.failed(known, kind, "", now, now, Policy(), lambda: 0.0)
        found.append(known.until - now)
        now = known.until
    assert found == rests


def test_a_rest_is_shortened_at_random():
    """By a fifth at most."""
    assert failing(FailureKind.QUOTA, 1000.0, draw=1.0).until == 1240.0


def test_what_was_asked_for_before_a_rest_does_not_lengthen_it():
    """It counts as if it had come first, and the rest begins no earlier than the last failure."""
    known = failing(FailureKind.CAPACITY, 1000.0, 1100.0)
    assert (known.level, known.streak, known.until) == (1, 2, 1400.0)
    late = law.failed(known, FailureKind.CAPACITY, "", 1050.0, 1200.0, Policy(), lambda: 0.0)
    assert (late.level, late.until, late.failed_at) == (1, 1400.0, 1100.0)
    early = law.failed(None, FailureKind.CAPACITY, "", 9e9, 1000.0, Policy(), lambda: 0.0)
    assert (early.failed_at, early.until) == (1000.0, 1300.0)


def test_how_many_may_be_tried():
    """None during the rest, then one, and any number where nobody tried for twice the rest; twice
    as many after each success, those on their way included."""
    known = failing(FailureKind.CAPACITY, 1000.0)
    assert [law.allowance(known, now, 0) for now in (1299, 1300, 1899, 1900)] == [0, 1, 1, None]
    assert [law.allowance(known, now, 1) for now in (1300, 1900)] == [0, 0]
    known = failing(FailureKind.CAPACITY, 1000.0, 1300.0, 1900.0, 3100.0)
    for level, delay, allowed in ((2, 600.0, [2, 1, 0]), (1, 300.0, [4, 3, 2])):
        known = law.succeeded(known)
        assert (known.level, known.delay, known.streak) == (level, delay, 0)
        assert [law.allowance(known, known.until, coming) for coming in (0, 1, 2)] == allowed
    assert law.succeeded(known) is None


def test_single_nodes_that_do_not_boot_count_while_it_is_remembered():
    """Also where the older failure is heard of later."""
    known = law.failed(
        failing(FailureKind.BOOT, 1000.0),
        FailureKind.BOOT,
        "",
        990.0,
        1000.0,
        Policy(),
        lambda: 0.0,
    )
    assert (known.level, known.streak) == (1, 2)
    known = law.succeeded(failing(FailureKind.BOOT, 1000.0, 1000.0, 1600.0))
    assert (known.level, known.streak) == (1, 0)
    known = law.failed(known, FailureKind.BOOT, "", 9000.0, 9000.0, Policy(), lambda: 0.0)
    assert (known.level, known.until) == (2, 10200.0)


def test_a_clock_that_went_back_makes_no_rest_longer():
    """What failed in the future has failed now."""
    known = law.aged(failing(FailureKind.CAPACITY, 9000.0), 100.0, Policy())
    assert (known.failed_at, known.until) == (100.0, 400.0)


def test_what_time_leaves_of_it():
    """A level is forgotten for each hour after any number may be tried, and what does not rest is
    forgotten after an hour."""
    known = failing(FailureKind.CAPACITY, 0.0, 300.0)
    assert (known.level, known.open_at) == (2, 2100.0)
    assert law.aged(known, 2100.0 + 3599.0, Policy()) == known
    fallen = law.aged(known, 2100.0 + 3600.0, Policy())
    assert (fallen.level, fallen.delay) == (1, 300.0)
    assert law.aged(known, 2100.0 + 7200.0, Policy()) is None
    once = failing(FailureKind.BOOT, 1000.0)
    assert (law.aged(once, 4599.0, Policy()), law.aged(once, 4600.0, Policy())) == (once, None)
    assert law.allowance(once, 1000.0, 1) is None


def test_rows_that_make_no_sense_are_left_out_of_the_file(tmp_path):
    """A value that no pass has written is no error of each pass; the other rows are read."""
    file = BackoffFile(str(tmp_path / "backoff.db"))
    boots = {name: Boot(5.0, up_at="htc") for name in ("good", "bad", "half")}
    rests = {subjects.node(name): failing(FailureKind.BOOT, 1000.0) for name in ("good", "bad")}
    file.write(rests, boots, {"good": 6.0, "bad": 7.0})
    with closing(sqlite3.connect(file.path)) as db, db:
        db.execute("UPDATE boots SET since = 'x' WHERE node_id = 'bad'")
        db.execute("UPDATE boots SET empty_since = x'ff' WHERE node_id = 'half'")
        db.execute("UPDATE sent SET since = 'soon' WHERE request_id = 'bad'")
        db.execute("UPDATE backoffs SET delay = 9e999 WHERE subject LIKE '%bad%'")
    found = file.read()
    assert found.backoffs.keys() == {subjects.node("good")}
    assert (found.boots.keys(), found.sent) == ({"good", "half"}, {"good": 6.0})
    assert found.boots["half"] == Boot(5.0, up_at="htc")


@pytest.mark.parametrize("column", ["failed_at", "delay", "until"])
@pytest.mark.parametrize("value", ["1e308", "-1e308", "9e999", "-9e999"])
def test_no_damaged_time_of_a_row_keeps_passes_from_being_made(tmp_path, column, value):
    """What rests by it rests for no longer than anything does, or is forgotten."""
    file = BackoffFile(str(tmp_path / "backoff.db"))
    file.write({subjects.node("n"): failing(FailureKind.CAPACITY, 1000.0)}, {}, {})
    with closing(sqlite3.connect(file.path)) as db, db:
        db.execute(f"UPDATE backoffs SET {column} = {value}")
    aged = [law.aged(each, 1010.0, Policy()) for each in file.read().backoffs.values()]
    assert all(each is None or each.open_at <= 1010.0 + 3 * 3600.0 for each in aged)


def test_a_bucket_of_nodes_that_boot_is_not_said_to_rest(tmp_path):
    """Though it has a limit, in case this very pass learns that it is to rest."""
    (bucket,) = a_manager(an_htc_cluster(10, vm_size="Standard_F4s_v2")).get_buckets()
    said = str(bucket.limits)
    Holds(str(tmp_path / "backoff.db")).look(listed("Preparing"), [bucket])
    assert str(bucket.limits) != said
    assert "back-off" not in str(bucket.limits)
