"""A queue of very many short jobs on Celery, whose workers are nodes of an autoscaled cluster.

    from hpc_queue import Queue

    queue = Queue.open("autoscale.json")
    job = queue.submit(JobSpec("hello", {"argv": ["echo", "hello"]}))

`hpcq` is its command line (`hpc_queue.cli`; `hpc_queue.operating` has the commands for whoever
keeps it running), `hpc_queue.driver:QueueDriver` its driver for the autoscaler. Redis keeps what
becomes of jobs (`store`); Celery's messages only say where to look for work (`tickets`), so one
that is lost or comes twice does no harm. Nothing in `hpc.autoscale` knows this package.
"""

from typing import TYPE_CHECKING

from hpc.autoscale.lazily import offered

if TYPE_CHECKING:
    from hpc_queue.model import ElementId, JobSpec, State
    from hpc_queue.queue import Queue
else:
    # `hpcq` begins with a module that needs none of it
    __getattr__ = offered(
        __name__,
        {"ElementId": "model", "JobSpec": "model", "Queue": "queue", "State": "model"},
    )

__all__ = ["ElementId", "JobSpec", "Queue", "State"]
