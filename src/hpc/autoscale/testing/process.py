"""The state of the process: all that this library keeps outside of objects, and how tests get rid
of what they changed.

Whatever is kept for the whole process stands in `KEPT` with its reason, and a test of the library
fails for anything else. State of one pass belongs to the node manager or the calculator that uses
it; what can be worked out again from arguments alone may be cached by a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

from hpc.autoscale.ccbindings.pacing import NotBefore
from hpc.autoscale.node.vm_sizes import SizeTable
from hpc.autoscale.node.vm_sizes.prices import PriceList

_ONE_CLOCK = "the clock of the process, published: clock.use_clock and use_mock_clock"
_ONE_COLLECTOR = "Python has one garbage collector for each process"
_ONE_LOG = "Python's logging is one for each process, published: hpclogging"
_READ_ONCE = "a table that is read once, published: use_override, use_price_override"
_SERVERS = "what a server asked for holds for whoever asks it next, in a new session too"
_TRACED = "a published list of codeanalysis"

KEPT: Mapping[str, str] = MappingProxyType(
    {
        "ccbindings.pacing.PROCESS_WIDE": _SERVERS,
        "ccbindings.transport._unverified": "a warning that is given once for each server",
        "ccbindings.waits._by_path": _SERVERS,
        "clock._clock": _ONE_CLOCK,
        "codeanalysis.TRACE_FUNCTIONS": _TRACED,
        "codeanalysis.WHITELIST_FUNCTIONS_TYPES": _TRACED,
        "collector._set": _ONE_COLLECTOR,
        "collector._found": _ONE_COLLECTOR,
        "collector._inside": _ONE_COLLECTOR,
        "collector._lock": _ONE_COLLECTOR,
        "hpclogging._GID": _ONE_LOG,
        "hpclogging._UID": _ONE_LOG,
        "hpclogging._initialized": _ONE_LOG,
        "hpclogging._lock": _ONE_LOG,
        "hpclogging.records._context": _ONE_LOG,
        "hpctypes._BYTES_PER": "units of sizes, published: add_magnitude_conversion",
        "jetpack._configured": "the cluster that a script means, published: jetpack.configure",
        "job.job._default_names": "jobs without a name are numbered",
        "job.schedulernode.SchedulerNode.ignore_hostnames": "a published setting of the class",
        "node.constraints.parse.KEYWORDS": "filled while the package is imported",
        "node.constraints.parse.CUSTOM_PARSERS": "published: register_parser",
        "node.guards.GUARDS": "filled while the module is imported; tests take guards out",
        "node.vm_sizes.catalogue.VM_SIZES": _READ_ONCE,
        "node.vm_sizes.prices.PRICES": _READ_ONCE,
        "packing.layers.OFF": "what `make bench` leaves out to measure it",
        "packing.order._registered": "order policies of integrations, published: register_policy",
        "results.base.HANDLERS": "result handlers, published: register_result_handler",
        "util._uuid_func": "the source of ids, published: set_uuid_func",
        "weights.current._unanswered": "providers that hang, which nobody can stop asking",
        "weights.current._unwritten": "what cannot be written is kept for this process",
    }
)
"""Every name below `hpc.autoscale` that is written to while the process runs, and why it is of the
whole process.
"""


_STAYS = frozenset(
    {
        "collector._lock",
        "hpclogging._initialized",
        "hpclogging._lock",
        "job.job._default_names",
        "node.constraints.parse.KEYWORDS",
    }
)
"""What no test can change, or would have to change for all: who once writes the log goes on writing
it.
"""


@contextmanager
def a_process_of_its_own() -> Iterator[None]:
    """What is changed in a `with` block for the whole process is put back after it: registered
    parsers, units, policies and handlers, the clock, the source of ids, tables of sizes and prices,
    and what servers asked for.
    """
    with ExitStack() as stack:
        for path in KEPT:
            if path not in _STAYS:
                owner, name = _place(path)
                stack.callback(_restorer(owner, name, getattr(owner, name)))
        yield


@cache
def _place(path: str) -> tuple[Any, str]:
    """The module or class that a name belongs to, and the name."""
    owner, _, name = path.rpartition(".")
    return resolve_name(f"hpc.autoscale.{owner}"), name


def _restorer(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """What puts a value back as it is now. A container stays the same object, because others hold
    it.
    """
    if isinstance(value, (dict, set)):
        return partial(_refill, value, value.copy())
    if isinstance(value, list):
        return partial(value.__setitem__, slice(None), value[:])
    if isinstance(value, NotBefore):
        return partial(_refill, value.asked, value.asked.copy())
    if isinstance(value, (SizeTable, PriceList)):
        return partial(_lay_over, value, value.override, value.configured)
    return partial(setattr, owner, name, value)


def _refill(container: Any, contents: Any) -> None:
    if container != contents:
        container.clear()
        container.update(contents)


def _lay_over(table: SizeTable | PriceList, override: Any, configured: object) -> None:
    if table.override is not override:
        table.use(override)
    table.configured = configured
