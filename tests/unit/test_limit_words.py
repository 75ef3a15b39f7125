"""Limits and refusals by the names that people know."""

import pytest

from hpc.autoscale.explaining.limit_words import limit_in_words, reason_in_words


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("Region(westus2)", "the core quota of westus2"),
        ("Spot(westus2)", "the spot quota of westus2"),
        ("VM Family(f, westus2)", "the quota of f in westus2"),
        ("NodeArray(htc)", "the limit of nodearray htc"),
        ("NodeArray(west/htc) of west", "the limit of nodearray west/htc"),
        ("Cluster", "the limit of the cluster"),
        ("Cluster of west", "the limit of cluster west"),
        ("PlacementGroup(pg0)", "placement group pg0"),
        ("Bucket(htc, F4)", "what CycleCloud allows of htc/F4"),
        ("something of a driver", "something of a driver"),
    ],
)
def test_what_limits_are_called(name: str, called: str) -> None:
    """One that nobody knows keeps its name."""
    assert limit_in_words(name)[1] == called


@pytest.mark.parametrize(
    ("noted", "said"),
    [
        ("NodeArray(htc) has 3 of 3 nodes", "the limit of nodearray htc has 3 of 3 nodes"),
        (
            "NoRoom: NodeBucket(nodearray=a, vm_size=F4) has 4; NodeBucket(nodearray=b,"
            " vm_size=F8, pg=x) has 8",
            "a/F4 has 4; b/F8 has 8",
        ),
        ("no node has room", "no node has room"),
        ("qsub: it has gone", "qsub: it has gone"),
        ("", ""),
    ],
)
def test_what_was_noted(noted: str, said: str) -> None:
    """Codes go; whatever else was said stays as it is."""
    assert reason_in_words(noted) == said
