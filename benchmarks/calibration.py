"""How fast the machine is just now, so that figures of different machines and moments can be read together.

Imports nothing but the clock, so that it disturbs no measurement it stands beside.
"""

import time

TURNS = 3_000_000
REFERENCE_SECONDS = 0.23
"""What the loop takes on the machine that the targets are for."""


n = i = 0


def loop_seconds(turns: int = TURNS) -> float:
    """CPU seconds of a fixed loop; fewer turns are extrapolated.

    The loop runs as it does in a script, with names that are global: so the 0.23 s agree with what is quoted beside them
    for the same machine (10,000 plain objects in 2.7 ms, 5,000 larger ones in 2.1 ms). With local names it takes little
    more than half as long, and they do not.
    """
    global n, i
    n = 0
    start = time.process_time()
    for i in range(turns):
        n += i & 7
    return (time.process_time() - start) * TURNS / turns
