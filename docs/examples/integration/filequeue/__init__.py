"""A scheduler that is a directory, and its driver for hpc-autoscale."""
