"""How fast the machine is just now, so that figures of different machines and moments can be read
together.

Imports nothing but the clock, so that it disturbs no measurement it stands beside.
"""

import sys

TURNS = 3_000_000
REFERENCE_SECONDS = 0.23
"""What the loop takes on the machine that the targets are for."""


asked = TURNS
"""Turns of the next loop, which reads this when it is imported."""


def loop_seconds(turns: int = TURNS) -> float:
    """CPU seconds of a fixed loop; fewer turns are extrapolated.

    The loop runs as a script does, outside of any function (see `loop`): so the 0.23 s agree with
    what is quoted beside them for the same machine (10,000 plain objects in 2.7 ms, 5,000 larger
    ones in 2.1 ms), and in a function they do not.
    """
    global asked
    asked = turns
    sys.modules.pop("loop", None)
    import loop

    return loop.seconds * TURNS / turns
