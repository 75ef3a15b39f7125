"""What the server's words for a failure say: why, and how far that reaches.

The words are Azure's error codes, which CycleCloud hands on in the StatusMessage of a node and in
the message of a creation set, among sentences of its own.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from hpc.autoscale.backoff.subjects import Reach
from hpc.autoscale.plaintext import in_words

LONGEST_MESSAGE = 300


class FailureKind(StrEnum):
    """Why something failed."""

    THROTTLE = "throttle"
    SUBSCRIPTION = "subscription"
    QUOTA = "quota"
    CAPACITY = "capacity"
    BOOT = "boot"
    HOST = "host"
    REFUSED = "refused"
    EVICTED = "evicted"


class Diagnosis(NamedTuple):
    """What a message says."""

    kind: FailureKind
    reach: Reach


def _row(words: str, cause: FailureKind, reach: Reach) -> tuple[re.Pattern[str], Diagnosis]:
    return re.compile(words, re.IGNORECASE), Diagnosis(cause, reach)


_TABLE = (
    _row(
        r"TooManyRequests|throttl|rate limit|request rate|HTTP 429|RetryableError",
        FailureKind.THROTTLE,
        Reach.SUBSCRIPTION,
    ),
    _row(
        r"SubscriptionNotFound|SubscriptionNotRegistered|ReadOnlyDisabledSubscription"
        r"|SubscriptionRequestsThrottled|subscription\b.{0,60}\b(?:disabled|suspended|expired)",
        FailureKind.SUBSCRIPTION,
        Reach.SUBSCRIPTION,
    ),
    _row(
        r"Low-?\s?Priority\s?Cores|spot (?:vm )?(?:cores? )?quota"
        r"|Total\s?Regional\s?(?:vCPU|Core)|regional (?:vcpu|core)s? quota",
        FailureKind.QUOTA,
        Reach.REGION,
    ),
    _row(
        r"QuotaExceeded|\bquota\b|OperationNotAllowed.{0,200}\b(?:cores|vcpus|limit)\b",
        FailureKind.QUOTA,
        Reach.FAMILY,
    ),
    _row(
        r"Overconstrained(?!.*Spot)|proximity placement|placement group"
        r"|(?:scale ?set|vmss)\b.{0,60}\b(?:limit|maximum|full)",
        FailureKind.CAPACITY,
        Reach.GROUP,
    ),
    _row(
        r"AllocationFail|SkuNotAvailable|NotAvailableForSubscription|OutOfCapacity"
        r"|InsufficientCapacity|(?:no|not enough|not have sufficient|insufficient) capacity"
        r"|not available in (?:location|region|zone)|capacity restriction",
        FailureKind.CAPACITY,
        Reach.OFFER,
    ),
    _row(r"\bevict|\bpreempt", FailureKind.EVICTED, Reach.OFFER),
)


def of_a_node(message: str) -> Diagnosis:
    """Why a node failed; where its message says nothing that is known, it failed to boot, which is
    about its bucket."""
    return _found(message) or Diagnosis(FailureKind.BOOT, Reach.BUCKET)


def of_a_refusal(message: str) -> Diagnosis:
    """Why a node was not made, or not started; where the message says nothing that is known, its
    bucket was refused."""
    return _found(message) or Diagnosis(FailureKind.REFUSED, Reach.BUCKET)


def _found(message: str) -> Diagnosis | None:
    return next((finding for words, finding in _TABLE if words.search(message)), None)


def plain(message: object) -> str:
    """A message of the server as one line of printable text that is not too long."""
    return in_words(str(message or ""), LONGEST_MESSAGE)
