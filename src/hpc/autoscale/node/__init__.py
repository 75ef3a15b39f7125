"""The cluster as integrations see it: nodes, buckets, limits, constraints, VM sizes and the history
of nodes."""
