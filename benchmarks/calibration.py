"""How fast the machine is just now, so that figures of different machines and moments can be read together.

Imports nothing but the clock, so that it disturbs no measurement it stands beside.
"""

import time

TURNS = 3_000_000
REFERENCE_SECONDS = 0.23
"""What the loop takes on the machine that the targets are for."""


def loop_seconds(turns: int = TURNS) -> float:
    """CPU seconds of a fixed loop; fewer turns are extrapolated."""
    start = time.process_time()
    n = 0
    for i in range(turns):
        n += i & 7
    return (time.process_time() - start) * TURNS / turns
