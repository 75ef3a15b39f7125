"""Home of `hpc.autoscale`."""
