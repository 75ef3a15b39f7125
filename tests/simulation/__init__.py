"""Deterministic simulation: the whole autoscaler against a simulated cluster, in one process and in
virtual time.

`script` draws a day from a seed: work that arrives and things that go wrong. `world` is what the
day happens in: the simulator's cluster model (`hpc.autoscale.simulator`), a scheduler
(`scheduler`), the network (`wire`) and the disk (`disk`). `process` is one process of the
autoscaler there, with the library's own loop, client, history and request log. `invariants` says
after every step whether what must never happen has happened, and `day` runs it all. `shrink` makes
a failing day a short script, and `__main__` runs many days (`make simulate`).
"""
