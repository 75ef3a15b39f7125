"""For programs that show how the library is used.

Each example runs on a fresh calculator, with a header, and with its results printed. Used by
documents and demos, where one set-up serves many examples. Not for integrations.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, TypeVar, overload

from hpc.autoscale import hpclogging
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.results import (
    HANDLERS,
    DefaultContextHandler,
    ResultsHandler,
    register_result_handler,
    unregister_result_handler,
)

P = ParamSpec("P")
T = TypeVar("T")

_WIDTH = 80


def clone_dcalc(dcalc: DemandCalculator) -> DemandCalculator:
    """A calculator over the same cluster without the other one's jobs, which writes no history.

    It reads the cluster anew through the same binding, so the next clone sees what either creates
    there. It has the default resources of `dcalc`, also those defined in code. Machines that the
    cluster does not know are copied as they are, with the work that they have. What the scheduler
    said of nodes of the cluster has to be said again.
    """
    manager = dcalc.node_mgr
    config = {**dcalc.config, "default_resources": [], "disable_default_resources": True}
    cloned = new_node_manager({**config, "_mock_bindings": manager.cluster_bindings})
    cloned._define(manager._inventory.defaults.definitions)
    machines = [(node, node.clone()) for node in manager.get_nodes() if not node.managed]
    for node, copied in machines:
        for assignment in node.assignments:
            copied.assign(assignment)
    cloned.add_unmanaged_nodes([copied for _, copied in machines])
    return DemandCalculator(dcalc.config, cloned, NullNodeHistory())


def example(func: Callable[P, T]) -> Callable[P, T]:
    """A decorator: calling the example prints its name and its docstring before it runs."""

    @functools.wraps(func)
    def shown(*args: P.args, **kwargs: P.kwargs) -> T:
        title = func.__name__.replace("_", " ").strip()
        lines = [f" {title} ".center(_WIDTH, "-")]
        if func.__doc__:
            lines.append(inspect.cleandoc(func.__doc__))
        print("\n".join(lines))  # noqa: T201  what an example is for
        return func(*args, **kwargs)

    return shown


@overload
def withcontext(what: ResultsHandler | str) -> AbstractContextManager[ResultsHandler]: ...


@overload
def withcontext(what: Callable[P, T]) -> Callable[P, T]: ...


def withcontext(what: Any) -> Any:
    """Have results filed while something runs: `with withcontext(handler):`, or `@withcontext` on
    an example.

    A text stands for a new DefaultContextHandler of that context, and so does a decorated function,
    whose context is its name in brackets. The block gets the handler. Afterwards it is told of
    nothing more, and the log shows the context of the handler that was registered before.
    """
    if not inspect.isroutine(what):
        return _handling(what)

    @functools.wraps(what)
    def filed(*args: Any, **kwargs: Any) -> Any:
        with _handling(f"[{what.__name__}]"):
            return what(*args, **kwargs)

    return filed


@contextmanager
def _handling(what: ResultsHandler | str) -> Iterator[ResultsHandler]:
    handler = DefaultContextHandler(what) if isinstance(what, str) else what
    register_result_handler(handler)
    try:
        yield handler
    finally:
        unregister_result_handler(handler)
        before = [h.ctx for h in HANDLERS if isinstance(h, DefaultContextHandler)]
        hpclogging.set_context(str(before[-1]) if before else "[init]")
