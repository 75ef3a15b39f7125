"""Times, limits and failures in the words of verdicts."""

import pytest

from builders.nodes import a_manager
from hpc.autoscale import clock
from hpc.autoscale.backoff.causes import FailureKind
from hpc.autoscale.backoff.held import HeldBack, ShutOff
from hpc.autoscale.backoff.law import Backoff
from hpc.autoscale.backoff.subjects import BucketFacts, Reach, subject
from hpc.autoscale.errors import did_you_mean
from hpc.autoscale.explaining.limit_words import left_in_words, resting_in_words, what_rests
from hpc.autoscale.explaining.refusals import SAID
from hpc.autoscale.explaining.refusing import OF_ROOM
from hpc.autoscale.explaining.words import (
    in_time,
    meant,
    names_of,
    with_next_try,
    without_codes,
)
from hpc.autoscale.packing import reject
from hpc.autoscale.testing import a_cluster

F4 = "Standard_F4s_v2"


@pytest.fixture
def bucket():
    """A bucket of regular nodes."""
    clock.use_mock_clock().now = 1000.0
    return a_manager(a_cluster(htc={F4: 3})).get_buckets()[0]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0 s"), (119, "119 s"), (600, "10 min"), (9000, "2.5 h"), (259200, "3 days")],
)
def test_a_time_has_its_unit(seconds, said):
    assert in_time(seconds) == said


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("HTC", ["htc", "Htc", "hpc", "east/htc"]),
        ("tch", ["htc", "Htc"]),
        ("hpcc", ["hpc"]),
        ("f4s_v2", [F4]),
        ("f4*", [F4]),
        ("", []),
        ("other", []),
    ],
)
def test_a_word_is_meant_for_what_is_called_nearly_so(word, found):
    """Capitals count for nothing, as in what is said to be meant."""
    known = ["hpc", "htc", "Htc", "east/htc", F4]
    assert meant(word, known) == found
    guess = did_you_mean(word, known)
    assert not guess or repr(found[0]) in guess


def held(bucket, reach, kind, until=1300.0, streak=1, room=0, cluster=""):
    """A limit of what rests."""
    facts = BucketFacts("htc", F4, str(bucket.location), False, str(bucket.vm_family), "a", cluster)
    known = Backoff(kind, "message", 990.0, 1, streak, 100.0, until)
    return HeldBack(subject(reach, facts), known, room, clock.time())


@pytest.mark.parametrize(
    ("reach", "kind", "said"),
    [
        (Reach.BUCKET, FailureKind.BOOT, "nodes of htc/{size} did not become ready"),
        (Reach.BUCKET, FailureKind.HOST, "hosts of new nodes of htc/{size} took no work"),
        (Reach.BUCKET, FailureKind.QUOTA, "Azure says that a quota for htc/{size} is used up"),
        (
            Reach.GROUP,
            FailureKind.CAPACITY,
            "Azure had no capacity for {size} in a placement group in {place}",
        ),
        (Reach.OFFER, FailureKind.CAPACITY, "Azure had no capacity for {size} in {place}"),
        (Reach.FAMILY, FailureKind.QUOTA, "Azure says that the quota of {family} in {place} is"),
        (Reach.REGION, FailureKind.QUOTA, "Azure says that the core quota of {place} is used up"),
        (Reach.SUBSCRIPTION, FailureKind.THROTTLE, "there were too many requests for the sub"),
    ],
)
def test_a_failure_is_said_in_words(bucket, reach, kind, said):
    """Not by the name under which it is filed, and with when it is tried again."""
    facts = {"size": F4, "place": bucket.location, "family": bucket.vm_family}
    text = resting_in_words(held(bucket, reach, kind), bucket)
    assert text.startswith(said.format(**facts))
    assert text.endswith(": next try in 5 min (00:21:40 UTC)")


def test_failures_in_a_row_are_counted(bucket):
    """Of nodes that do not boot the nodes, of others the times."""
    text = resting_in_words(held(bucket, Reach.BUCKET, FailureKind.BOOT, streak=3), bucket)
    assert text.startswith(f"3 nodes of htc/{F4} in a row did not become ready")
    text = resting_in_words(held(bucket, Reach.OFFER, FailureKind.CAPACITY, streak=3), bucket)
    assert f"{F4} in {bucket.location}, 3 times in a row" in text


def test_what_is_tried_again_says_with_how_many(bucket):
    """And when with all."""
    tried = held(bucket, Reach.OFFER, FailureKind.CAPACITY, until=900.0, room=2)
    assert ": tried again with 2 nodes first, with all in 100 s" in resting_in_words(tried, bucket)
    tried = held(bucket, Reach.OFFER, FailureKind.CAPACITY, until=900.0)
    assert ": tried again with nodes that boot first" in resting_in_words(tried, bucket)


@pytest.mark.parametrize(
    ("until", "streak", "room", "said"),
    [
        (1300.0, 1, 0, "(capacity), for 300 s more: message"),
        (1300.0, 2, 4, "(capacity, 2 nodes in a row), for 300 s more: message"),
        (1000.0, 1, 4, "(capacity), tried with 4 at a time: message"),
        (900.0, 1, 0, "(capacity), tried by nodes that boot: message"),
    ],
)
def test_a_limit_says_what_failed_and_for_how_long(bucket, until, streak, room, said):
    """With what the server said, also where that is nothing; and what is planned."""
    limit = held(bucket, Reach.OFFER, FailureKind.CAPACITY, until, streak, room)
    assert limit.describe() == f"{limit.about} is in back-off {said}"
    assert limit.describe(2).endswith(", and 2 planned: message")
    limit.known = Backoff(FailureKind.CAPACITY, "", 990.0, 1, streak, 100.0, until)
    assert limit.describe().endswith(": no message")


def test_an_offer_that_is_shut_takes_no_new_node_until_it_is_not(bucket):
    """Also where what is placed meanwhile fails; others than those of gangs have room then."""
    offer = ShutOff(held(bucket, Reach.OFFER, FailureKind.CAPACITY).about)
    before = offer.room(4)
    assert before > 0
    with pytest.raises(ValueError, match="no"), offer.shut():
        assert offer.room(4) == 0
        raise ValueError("no")
    assert offer.room(4) == before


def test_when_it_is_tried_again_is_said_once(bucket):
    """Also where one node is tried before that, now."""
    tried = resting_in_words(
        held(bucket, Reach.OFFER, FailureKind.CAPACITY, until=900.0, room=2), bucket
    )
    assert with_next_try(tried, 1100.0) == tried
    assert with_next_try("full", 1100.0) == "full; next try in 100 s (00:18:20 UTC)"
    assert with_next_try("full", None) == "full"


def test_of_several_clusters_each_is_named(bucket):
    """Each has its own quotas."""
    rests = held(bucket, Reach.OFFER, FailureKind.CAPACITY, cluster="east")
    assert what_rests(rests, bucket) == f"{F4} in {bucket.location} of east"
    rests = held(bucket, Reach.SUBSCRIPTION, FailureKind.THROTTLE, cluster="east")
    assert what_rests(rests, bucket) == "the subscription of cluster east"


def test_what_the_server_has_left(bucket):
    """With what is needed, where that is more than one node."""
    said = f"CycleCloud has room for 3 more nodes of htc/{F4} (at most 3), and 5 are needed"
    assert left_in_words(bucket, 5) == said


def test_codes_are_no_words():
    """Names of limits stay."""
    said = "InsufficientResource: has 4 of 'ncpus'; NodeArray(htc) has 8 of 8 cores in use"
    assert without_codes(said) == said.removeprefix("InsufficientResource: ")


def test_buckets_of_one_nodearray_and_of_one_group():
    """Sizes are counted; a single group is named."""
    array = {F4: 3, "Standard_F8s_v2": 3}
    manager = a_manager(a_cluster(htc=array))
    assert names_of(manager.get_buckets()) == "htc, 2 VM sizes"


BY_THEIR_FACTS = {
    *("UndefinedResource", "InsufficientResource", "InvalidOption", "CompoundFailure"),
    *("SharedLimitReached", "CapacityFailureBackoff", "NoSuchNode"),
}
"""Refusals of which the explanation looks at the facts."""


@pytest.mark.parametrize("code", sorted(reject._TEMPLATES.keys() - BY_THEIR_FACTS - OF_ROOM))
def test_every_refusal_has_words_that_need_no_name(code):
    """The engine's follow the name of a node or bucket, which an explanation does not have."""
    assert code in SAID, f"{code} has no row in SAID of explaining/refusals.py"
