"""Which nodes count as boots that failed, where replies were lost or of a moment before."""

import pytest

from builders.nodes import a_manager, an_htc_cluster
from builders.replies import a_record
from hpc.autoscale import clock
from hpc.autoscale.backoff.holds import Holds
from hpc.autoscale.backoff.listed import Listed

MADE = ("n1", "n2")


def listed(status="", request_id="r"):
    """A listing of two nodes that one request has made; of none without a status."""
    records = [
        a_record(
            each,
            NodeId=each,
            Template="htc",
            MachineType="Standard_F4s_v2",
            Status=status,
            RequestId=request_id,
            StatusMessage="The software could not be installed",
        )
        for each in (MADE if status else ())
    ]
    return Listed(
        records if status == "Preparing" else [],
        records if status == "Failed" else [],
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
