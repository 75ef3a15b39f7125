"""The `vm_sizes` section of autoscale.json, put into effect for this process.

Called once per pass by whoever builds a node manager from a configuration. A file is read again
only when it has changed, so that a daemon picks up an edited file and a pass costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node.vm_sizes.catalogue import VM_SIZES, SizeTable
from hpc.autoscale.node.vm_sizes.info import use_override
from hpc.autoscale.node.vm_sizes.prices import PRICES, PriceList, use_price_override

_TARGETS: Mapping[str, tuple[SizeTable | PriceList, Callable[[Any], None]]] = {
    "override": (VM_SIZES, use_override),
    "prices": (PRICES, use_price_override),
}


def configure(config: Mapping[str, Any]) -> None:
    """Use the files that `vm_sizes.override` and `vm_sizes.prices` of the configuration name.

    The keys may also have the contents of the files. A configuration without these keys undoes what
    an earlier one has set, and leaves alone what was set by calling `use_override` or
    `use_price_override`. Raises ConfigurationException.
    """
    section = config.get("vm_sizes") or {}
    if not isinstance(section, Mapping):
        raise ConfigurationException(f"vm_sizes: expected an object, found {section!r}")
    for key, (table, use) in _TARGETS.items():
        source = section.get(key)
        state = _state_of(source)
        if state != table.configured:
            use(source)
            table.configured = state


def _state_of(source: Any) -> object:
    """A value that differs whenever the source has to be read again."""
    if not isinstance(source, str):
        return source
    path = os.path.abspath(os.path.expanduser(source))
    try:
        status = os.stat(path)
    except OSError:
        return (path, None)
    return (path, status.st_mtime_ns, status.st_size)
