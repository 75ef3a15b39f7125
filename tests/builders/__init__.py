"""What tests are made with: clusters, nodes, schedulers, servers, random worlds, and the naive
packer. No tests.

`hpc.autoscale.testing` lies under it: what is of use to integrators too stands there and is
imported from there. Each module says whom it serves. Nothing is imported here, because some of it
must know nothing of the library.
"""
