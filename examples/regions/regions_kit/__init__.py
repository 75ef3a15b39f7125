"""The parts of `make demo-regions`: the world it plays in, its jobs, its course, what is shown, and
the judgement."""
