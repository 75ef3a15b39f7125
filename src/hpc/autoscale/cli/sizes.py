"""Whether the VM sizes that somebody named exist: a size misspelt matches nothing, and nothing says
so.

Known are the sizes of the catalogue, in any region, and those that the cluster offers, which may be
newer. A size may be newer than both, so what a configuration names is only worth a warning; what a
user asks a command for is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from hpc.autoscale.config.naming import values_named
from hpc.autoscale.errors import ConfigurationException, did_you_mean
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket


def check_vm_sizes(constraints: Any, where: str, buckets: Iterable[NodeBucket] = ()) -> None:
    """ConfigurationException for the first `node.vm_size` in constraints, as JSON, that no known
    size matches."""
    for unknown in unknown_vm_sizes(constraints, where, buckets):
        raise ConfigurationException(unknown)


def unknown_vm_sizes(
    constraints: Any, where: str, buckets: Iterable[NodeBucket] = ()
) -> Iterator[str]:
    """A sentence on each `node.vm_size` in constraints, as JSON, that no known size matches."""
    if isinstance(constraints, list) and len(constraints) == 1:
        constraints = constraints[0]
    named = list(values_named(constraints, ("node.vm_size",), where))
    if not named:
        return
    known = dict.fromkeys([*(b.vm_size for b in buckets), *vm_sizes.all_possible_vm_sizes()])
    for place, size in named:
        if size not in known and not any(fnmatchcase(each, size) for each in known):
            yield (
                f"{place}: expected a VM size of the catalogue or of the cluster, found {size!r}"
                f"{did_you_mean(size, known)}"
            )
