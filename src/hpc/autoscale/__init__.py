"""Embeddable autoscaling for HPC schedulers on Azure CycleCloud.

Importing this package does nothing but make its version known; every module of it can be imported first and alone.
"""

from hpc.autoscale._version import __version__ as __version__
