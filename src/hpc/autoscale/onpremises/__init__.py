"""Hosts on premises: machines of the site, which take work before the cloud does.

`hosts` reads them from autoscale.json, `listing` makes the nodes by which work is placed
on them, and `workers` starts and stops what runs jobs there. The loop decides when.
"""

from hpc.autoscale.onpremises.hosts import ON_PREMISES, OnPremisesHost, hosts_of

__all__ = ["ON_PREMISES", "OnPremisesHost", "hosts_of"]
