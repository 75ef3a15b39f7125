"""Deciding again from a journal, with the production code.

`doors` has a binding, a driver and a clock that answer from a record; `replay` makes the passes and
says where they come to something else. Nothing is asked of a cluster or a scheduler.
"""

from hpc.autoscale.replaying.replay import Replay as Replay
from hpc.autoscale.replaying.replay import Replayed as Replayed
from hpc.autoscale.replaying.replay import remembered_before as remembered_before

__all__ = ["Replay", "Replayed", "remembered_before"]
