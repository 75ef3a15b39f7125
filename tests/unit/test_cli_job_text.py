"""What the command analyze says of a job."""

from hpc.autoscale.cli.job_text import Reason, reasons_of
from hpc.autoscale.results import AllocationResult, EarlyBailoutResult


def test_equal_reasons_are_told_once():
    """In the order in which they come, whatever they come from; so are equal lines of one."""
    no_room = [AllocationResult("NoCapacity", reasons=["a is full", "a is full"]) for _ in "ab"]
    refused = [*no_room, EarlyBailoutResult("NoCapacity", reasons=["b is full"]), no_room[0]]
    assert list(reasons_of("1", refused, (), (), long=False)) == [
        Reason("NoCapacity", ["a is full"]),
        Reason("NoCapacity", ["b is full"]),
    ]
