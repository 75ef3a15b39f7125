"""Why jobs wait and nodes stay: verdicts made of what the engine, the limits, the back-off and the
guards have said, and the smallest change that lifts what is in the way, found by asking the engine
again.

Nothing here decides about nodes. Called by the loop, for what waiting jobs are told, and by
commands.
"""
