"""The outcome of a demand calculation."""

from types import SimpleNamespace

from hpc.autoscale.job.demand import DemandResult
from hpc.autoscale.job.schedulernode import TempNode


def test_four_arguments_suffice():
    """The lists are plain ones of the result's own, and there are no buckets."""
    new, old, idle, failed = (TempNode(name) for name in "abcd")
    given = [new]
    result = DemandResult(given, [old, new], [idle], [failed])
    assert (result.new_nodes, result.matched_nodes) == ([new], [old, new])
    assert (result.unmatched_nodes, result.failed_nodes, result.buckets) == ([idle], [failed], [])
    result.new_nodes.clear()
    assert given == [new]
    assert str(result) == "DemandResult(new=0, matched=2, unmatched=1, failed=1)"


def test_compute_nodes_are_each_node_once():
    """Matched, unmatched, then the failed ones that were not among them; by identity."""
    first, second, third, twin = TempNode("a"), TempNode("b"), TempNode("c"), TempNode("a")
    result = DemandResult([], [first], [second], [second, third, twin])
    assert result.compute_nodes == [first, second, third, twin]


def test_buckets_by_id():
    """Buckets of one id, as of one VM size with several placement groups, are listed together, in
    order."""
    buckets = [
        SimpleNamespace(bucket_id=i, pg=pg) for i, pg in (("x", "a"), ("y", None), ("x", None))
    ]
    result = DemandResult([], [], [], [], buckets)
    assert result.buckets_by_id == {"x": [buckets[0], buckets[2]], "y": [buckets[1]]}
    assert result.buckets == buckets
