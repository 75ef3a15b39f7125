"""Figures of passes for Prometheus, and the file that says how old the last good pass is.

`exposition` writes the text that Prometheus reads, `families` says which figures there are, and
`health` keeps what is counted from pass to pass.
"""

from typing import TYPE_CHECKING

from hpc.autoscale.lazily import offered

if TYPE_CHECKING:
    from hpc.autoscale.metrics.exposition import Metric as Metric
    from hpc.autoscale.metrics.exposition import text_of as text_of
    from hpc.autoscale.metrics.families import of_record as of_record
    from hpc.autoscale.metrics.health import Health as Health
    from hpc.autoscale.metrics.health import read_health as read_health
else:
    __getattr__ = offered(
        __name__,
        {
            "Metric": "exposition",
            "Health": "health",
            "of_record": "families",
            "read_health": "health",
            "text_of": "exposition",
        },
    )
