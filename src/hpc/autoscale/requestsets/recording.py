"""Checking a reporter's wish and recording it, for `hpc.autoscale.jetpack` and for `azscale`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.config.clusters import split_name
from hpc.autoscale.errors import AutoscaleError, CycleCloudError
from hpc.autoscale.requestsets.definitions import RequestError, check_arrays, read_arrays
from hpc.autoscale.requestsets.dynamic import listed_by
from hpc.autoscale.requestsets.extending import completed
from hpc.autoscale.requestsets.store import KEPT_SECONDS, RequestSet, RequestStore

STANDARD = "standard"
"""The request set of reporters that name none."""
LEAST_SECONDS = 300
"""How long a request set stands at least."""
LONGEST_SECONDS = 1e11
"""How long it may stand: some 3,000 years, of which dates still can tell the end."""


class NotServedError(AutoscaleError):
    """The wish is recorded, but could not be served now; the next pass tries again."""

    def __init__(self, request_set: str, problem: object) -> None:
        super().__init__(
            f"request set {request_set} is recorded, and is served by the next pass: {problem}"
        )


def record(
    config: Mapping[str, Any],
    store: RequestStore,
    arrays: Any,
    request_set: str = STANDARD,
    expiration_interval: float = LEAST_SECONDS,
) -> None:
    """Put a wish in the place of what the request set wanted before.

    RequestError when it cannot be used, RequestStoreError when it cannot be written: then the set
    that stood before stays. NotServedError when the cluster cannot be asked whether it has what the
    wish names; the wish is recorded then. Of several clusters what is wanted of one that cannot be
    asked is recorded as it is, for the pass to say so.
    """
    if not isinstance(request_set, str) or not request_set.strip():
        raise RequestError(f"request_set: expected a name, found {request_set!r}")
    seconds = _seconds(expiration_interval)
    read_arrays(arrays)
    now = clock.time()
    sets = [one for one in store.sets() if one.stands(now) or one.name == request_set]
    definitions = completed(arrays, request_set, sets)
    requests = read_arrays(definitions)
    binding = new_cluster_bindings(dict(config))
    unreachable: CycleCloudError | None = None
    try:
        dynamic = [array.name for array in listed_by(sets, now)]
        status = binding.get_cluster_status()
        # of several clusters one that does not answer cannot be asked; its wishes wait for it
        away = getattr(binding, "away", ())
        known = [one for one in requests if split_name(one.base)[0] not in away]
        check_arrays(known, binding.cluster_name, status, dynamic)
    except CycleCloudError as error:
        unreachable = error
    one = RequestSet(request_set, now, now + seconds, definitions)
    named = [name for request in requests for name in request.arrays]
    store.replace(one, named, now - KEPT_SECONDS)
    if unreachable is not None:
        raise NotServedError(request_set, unreachable) from unreachable


def _seconds(interval: object) -> float:
    is_number = isinstance(interval, int | float) and not isinstance(interval, bool)
    if is_number and 0 <= (seconds := float(str(interval))) <= LONGEST_SECONDS:
        return max(LEAST_SECONDS, seconds)
    raise RequestError(
        f"expiration_interval: expected a number of seconds from 0 to {LONGEST_SECONDS:g}, found"
        f" {interval!r}"
    )
