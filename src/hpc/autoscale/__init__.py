"""Embeddable autoscaling for HPC schedulers on Azure CycleCloud.

Importing this package makes its version known, and ends in an ImportError where the library is
installed into itself under its other name. It does nothing else; every module of it can be imported
first and alone.
"""

from hpc.autoscale._version import __version__ as __version__
from hpc.autoscale.installation import refuse_mixture as _refuse_mixture

_refuse_mixture()
