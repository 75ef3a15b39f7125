"""What happens when a reporter says what it wants: the wish is recorded, and then there is a pass.

Called by `hpc.autoscale.jetpack` and by `azscale request`. A reporter needs no loop: the pass
serves all request sets, and the jobs of a driver where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.loop import Autoscaler
from hpc.autoscale.autoscaler.summary import PassSummary
from hpc.autoscale.errors import LockUnusableError, MultipleInstancesError
from hpc.autoscale.requestsets.recording import NotServedError, record
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.statefiles import REQUEST_SETS, path_of

# Passes of one reporter at most, where others go on reporting meanwhile.
_MAX_PASSES = 10


def report(
    config: Mapping[str, Any],
    home: str,
    autoscaler: Callable[[], Autoscaler],
    arrays: Any,
    request_set: str,
    expiration_interval: float,
) -> PassSummary | None:
    """Record a wish and make a pass; its summary, or None where somebody else holds the lock.

    Whoever holds it looks again after its pass, or is a loop that goes on. RequestError or
    RequestStoreError when nothing was recorded, NotServedError when there could be no pass.
    """
    store = RequestStore(path_of(REQUEST_SETS, config, home))
    record(config, store, arrays, request_set, expiration_interval)
    summary: PassSummary | None = None
    for _ in range(_MAX_PASSES):
        before = store.sets()
        try:
            summary = _one_pass(autoscaler())
        except LockUnusableError as error:
            raise NotServedError(request_set, error) from error
        except MultipleInstancesError as error:
            logging.info("request set %s is recorded: %s", request_set, error)
            return summary
        except Exception as error:
            raise NotServedError(request_set, error) from error
        # who reported during the pass found the lock taken, and relies on it being looked at again
        if store.sets() == before:
            break
    return summary


def _one_pass(autoscaler: Autoscaler) -> PassSummary:
    """One pass; nothing stays open after it, however long the reporter lives."""
    try:
        return autoscaler.run_once()
    finally:
        autoscaler.driver.close_histories()
