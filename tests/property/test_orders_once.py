"""What the first pass orders for a queue is enough: as long as its nodes boot and nothing else
happens, later passes order nothing."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.waiting_sites import WaitingSite


@settings(max_examples=int(os.environ.get("WAITING_SITES", "40")))
@given(st.integers(0, 10**6))
def test_later_passes_order_nothing_for_a_queue_that_waits(seed):
    """Whatever the jobs, the limits, the nodes that are there, and the order of the buckets."""
    with TemporaryDirectory() as home:
        first, *later = WaitingSite(seed).ordered(Path(home), passes=3)
    assert later == [first, first]
