"""The files in which passes remember things: which keys of the configuration name them, where they
are otherwise, and under which name a journal has them.

Each file has one row here. Who makes, copies, records, restores or checks such files goes by it, so
that a file that is added is none that a rehearsal writes to, or that a journal leaves out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple


class StateFile(NamedTuple):
    """A file in which passes remember things.

    `key`: of the configuration, with a dot below a section, that names the file; where `is_named`
    is false no key does, and it is the section that the file is for. `name`: of the file where
    nothing else is said. `in_journal`: its name in a journal; empty of one that is in none.
    `may_be_off`: with null in the place of its path it is neither read nor written.
    """

    key: str
    name: str
    in_journal: str
    is_named: bool = True
    may_be_off: bool = False


HISTORY = StateFile("nodehistorydb", "nodehistory.db", "nodehistory.db")
REQUESTS = StateFile("requests_file", "requests.db", "requests.db")
REQUEST_SETS = StateFile("requestsetsdb", "requestsets.db", "request-sets.db")
BACKOFF = StateFile("backoffdb", "backoff.db", "backoff.db", may_be_off=True)
GANGS = StateFile("gangsdb", "gangs.db", "gangs.db", may_be_off=True)
CLUSTERS = StateFile("clustersdb", "clusters.db", "clusters.db", may_be_off=True)
HOSTS = StateFile("on_premises", "on-premises.db", "on-premises.db", is_named=False)
# what was found out is in the configuration that a journal has
WEIGHTS = StateFile("weights", "weights.db", "", is_named=False)
STOPS = StateFile("autostop.database", "autostop.db", "autostop.db")

STATE_FILES = (HISTORY, REQUESTS, REQUEST_SETS, BACKOFF, GANGS, CLUSTERS, HOSTS, WEIGHTS, STOPS)


def is_kept(file: StateFile, config: Mapping[str, Any]) -> bool:
    """Whether passes with a configuration use a file, as far as that tells: what is known of
    clusters is kept where there are several."""
    is_off = file.may_be_off and not config.get(file.key, True)
    return not is_off and (file is not CLUSTERS or bool(config.get("clusters")))


def path_of(file: StateFile, config: Mapping[str, Any], home: str) -> str:
    """Where a file is, whether it is there or not: where the configuration says, else beside the
    node history, and of stops beside the request sets. `home`: the directory of the node history
    where the configuration does not name that."""
    section, _, key = file.key.rpartition(".")
    values = (config.get(section) or {}) if section else config
    if file.is_named and values.get(key):
        return str(values[key])
    if file is HISTORY:
        return os.path.join(home, file.name)
    neighbour = path_of(REQUEST_SETS if file is STOPS else HISTORY, config, home)
    return os.path.join(os.path.dirname(os.path.abspath(neighbour)), file.name)


def directory_of_files(config: Mapping[str, Any], home: str) -> str:
    """Where the node history is, and what is remembered beside it."""
    return os.path.dirname(os.path.abspath(path_of(HISTORY, config, home)))
