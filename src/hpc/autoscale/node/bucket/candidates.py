"""Which buckets may serve a list of constraints, asked through the constraints' published protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hpc.autoscale.node.bucket.handle import NodeBucket
from hpc.autoscale.results import CandidatesResult, Result, SatisfiedResult


class BucketCondition(Protocol):
    """What buckets are held against: as much of a constraint as they know."""

    def weight_buckets(
        self, bucket_weights: list[tuple[NodeBucket, float]]
    ) -> list[tuple[NodeBucket, float]]:
        """The buckets with the weights that it gives them; heavier ones are used first."""

    def satisfied_by_bucket(self, bucket: NodeBucket) -> SatisfiedResult:
        """Whether a new node of the bucket would do."""


def bucket_candidates(
    buckets: Sequence[NodeBucket], constraints: Sequence[BucketCondition]
) -> CandidatesResult[NodeBucket]:
    """The valid buckets that satisfy all constraints, in order of preference, artificial ones first.

    Through the published protocol of the constraints, so that any subclass has its say; on failure `child_results`
    holds the first refusal of each bucket, in the order in which they would have been asked.
    """
    valid = [bucket for bucket in buckets if bucket.valid]
    if not valid:
        return CandidatesResult("NoBucketsDefined", child_results=[])
    candidates, refused = sift(valid, constraints)
    if not candidates:
        return CandidatesResult("CompoundFailure", child_results=refused)
    return CandidatesResult("success", candidates=candidates)


def sift(
    buckets: Sequence[NodeBucket],
    constraints: Sequence[BucketCondition],
    ask_artificial: bool = True,
) -> tuple[list[NodeBucket], list[Result]]:
    """Of valid buckets, those that satisfy all constraints, in order of preference, artificial ones first; and the first
    refusal of each other one. `ask_artificial` false: artificial ones pass, for their nodes to be asked each.
    """
    weights = [(bucket, float(len(buckets) - i)) for i, bucket in enumerate(buckets)]
    for constraint in constraints:
        weights = constraint.weight_buckets(weights)
    ordered = [bucket for bucket, _ in sorted(weights, key=lambda pair: pair[1], reverse=True)]
    candidates: list[NodeBucket] = []
    refused: list[Result] = []
    for bucket in ordered:
        if bucket._artificial and not ask_artificial:
            candidates.append(bucket)
            continue
        answers = (constraint.satisfied_by_bucket(bucket) for constraint in constraints)
        refusal = next((answer for answer in answers if not answer), None)
        if refusal is not None:
            refused.append(refusal)
        else:
            candidates.append(bucket)
    return sorted(candidates, key=lambda bucket: not bucket._artificial), refused
