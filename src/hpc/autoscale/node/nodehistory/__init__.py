"""What was seen of each node over time: first seen, last needed, first ready, gone.

A loop learns from this which nodes have been idle or booting for too long; nothing here decides
policy or acts. `interface`: what a history answers. `sqlite`: the one that is kept in a file.
`rows`: what is stored of a node. `dbfile`: opening, upgrading and repairing the file.
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
