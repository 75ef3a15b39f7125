"""What was seen of each node over time: when it was first seen, last needed, ready and gone.

A loop learns from this which nodes have been idle or booting for too long; nothing here decides or
acts. `interface` says what a history answers, `sqlite` keeps one in a file, `rows` has what is
stored of a node, `gone` looks up those that are no more, `draining` how far one is on its way out,
and `dbfile` opens, upgrades and repairs the file.
"""

from typing import TYPE_CHECKING

from hpc.autoscale.lazily import offered
from hpc.autoscale.node.nodehistory.interface import NodeHistory as NodeHistory
from hpc.autoscale.node.nodehistory.interface import NodeHistoryResult as NodeHistoryResult
from hpc.autoscale.node.nodehistory.interface import NullNodeHistory as NullNodeHistory

if TYPE_CHECKING:
    from hpc.autoscale.node.nodehistory.dbfile import SQLITE_VERSION as SQLITE_VERSION
    from hpc.autoscale.node.nodehistory.dbfile import NodeHistoryError as NodeHistoryError
    from hpc.autoscale.node.nodehistory.dbfile import initialize_db as initialize_db
    from hpc.autoscale.node.nodehistory.rows import NodeRecord as NodeRecord
    from hpc.autoscale.node.nodehistory.sqlite import SQLiteNodeHistory as SQLiteNodeHistory
else:
    __getattr__ = offered(
        __name__,
        {
            "NodeHistoryError": "dbfile",
            "NodeRecord": "rows",
            "SQLITE_VERSION": "dbfile",
            "SQLiteNodeHistory": "sqlite",
            "initialize_db": "dbfile",
        },
    )
