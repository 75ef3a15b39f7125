"""Celery's settings, the same for whoever submits, for the workers and for the autoscaler.

The broker and the result backend come from CELERY_BROKER_URL and CELERY_RESULT_BACKEND, which
Celery reads itself.
"""

task_default_queue = "default"
task_routes = {
    "tasks.count_primes": {"queue": "default"},
    "tasks.sort_in_memory": {"queue": "memory"},
    "tasks.render_frame": {"queue": "gpu"},
}

# A message is acknowledged when its task has finished, not when it was fetched: so the task of a
# worker that dies is still known to the broker and can run again. Tasks must therefore stand being
# run twice.
task_acks_late = True
task_reject_on_worker_lost = True
# A worker holds as many messages as it has slots, and hoards none that another node could be
# started for.
worker_prefetch_multiplier = 1

task_track_started = True
# the command with which a worker tells the autoscaler what it is and what it holds
imports = ("census",)
broker_connection_retry_on_startup = True
