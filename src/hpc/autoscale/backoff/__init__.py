"""What could not be had is not asked for again at once: back-off from offers of the cluster that
have failed, and the circuit breaker of buckets whose nodes never become ready.

`subjects`: what a failure is about, from one bucket to the whole subscription. `causes`: what a
message of the server says. `law`: for how long something rests, and how it recovers. `file`: what
outlives the process. `holds`: what a pass learns from the cluster, and what it keeps its plan from.
"""
