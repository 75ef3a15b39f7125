"""What `azscale doctor` looks at in the files in which passes remember things.

Each is looked at by the class to which it belongs, and nothing is changed: no list of an earlier
version is taken over, and no history is moved aside. Called by `checkup`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from hpc.autoscale.autostop.ledger import Ledger
from hpc.autoscale.backoff.file import BackoffFile
from hpc.autoscale.ccbindings.lastseen import LastSeenFile
from hpc.autoscale.errors import AutoscaleError, one_line
from hpc.autoscale.gangs.file import GangFile
from hpc.autoscale.node.nodehistory.dbfile import problem_of
from hpc.autoscale.node.requests import RequestFile
from hpc.autoscale.onpremises.workers import HostStates
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.sqlitefile import SqliteFile
from hpc.autoscale.statefiles import (
    BACKOFF,
    CLUSTERS,
    GANGS,
    HISTORY,
    HOSTS,
    REQUEST_SETS,
    REQUESTS,
    STOPS,
    WEIGHTS,
)
from hpc.autoscale.weights.current import WeightsFile


class DamagedFile(NamedTuple):
    """A file that cannot be used. `passes_end`: because of it passes end, or delete no node; others
    cost what they had in them. `says_what_to_do`: the text does."""

    passes_end: bool
    text: str
    says_what_to_do: bool


_NEEDED: Mapping[str, Callable[[str], SqliteFile]] = {
    REQUESTS.key: RequestFile,
    REQUEST_SETS.key: RequestStore,
    HOSTS.key: HostStates,
    WEIGHTS.key: WeightsFile,
    STOPS.key: Ledger,
}
_OTHERS: Mapping[str, Callable[[str], SqliteFile]] = {
    BACKOFF.key: BackoffFile,
    GANGS.key: GangFile,
    CLUSTERS.key: LastSeenFile,
}
_OF_A_SECTION = (HOSTS.key, WEIGHTS.key)
# others are looked at with the key that names them, or written by other users
_OF_PASSES = (*_OF_A_SECTION, *_OTHERS)


def damaged_files(state: Mapping[str, str], config: Mapping[str, Any]) -> Iterator[DamagedFile]:
    """Those of the files of `state`, by key, that a pass with this configuration cannot use."""
    for key, kind in {**_NEEDED, **_OTHERS}.items():
        if key not in state or (key in _OF_A_SECTION and not config.get(key)):
            continue
        file = kind(state[key])
        try:
            file.check()
        except AutoscaleError as error:
            text = one_line(error)
            yield DamagedFile(key in _NEEDED, text, file.REMEDY in text)
            continue
        if key in _OF_PASSES and file.exists and not os.access(file.path, os.W_OK):
            text = one_line(file.error("this user cannot write it"))
            yield DamagedFile(key == HOSTS.key, text, False)
    if problem := problem_of(state[HISTORY.key]):
        yield DamagedFile(False, problem, True)
