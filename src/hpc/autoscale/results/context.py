"""Handlers that are objects: results filed under what is being worked on.

Used by the command line and by integrations. Results that come as a `Report` are filed as they are,
and made when somebody reads what was filed: thousands of jobs are refused by the same hundreds of
buckets, and few are asked about.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, ItemsView, Iterable, Iterator, ValuesView
from typing import Any, cast

from hpc.autoscale import hpclogging
from hpc.autoscale.results.base import Report, Result

_log = hpclogging.getLogger("hpc.autoscale.results")


class ResultsHandler(ABC):
    """A handler of results that is an object."""

    @abstractmethod
    def __call__(self, result: Result) -> None: ...


class FiledResults(dict[Hashable, list[Result]]):
    """Lists of results by context. A list may hold reports until it is first read, and holds
    results from then on.

    `keep_bounds` shortens a list that has become too long, in place.
    """

    def __init__(self, keep_bounds: Callable[[list[Result]], None]) -> None:
        super().__init__()
        self._unread: set[Hashable] = set()
        self._keep_bounds = keep_bounds

    def file(self, context: Hashable, entry: Result | Report) -> None:
        """Add what was heard to the list of a context."""
        filed = dict.get(self, context)
        if filed is None:
            # most have one entry: a job that was placed
            dict.__setitem__(self, context, [cast(Result, entry)])
            self._unread.add(context)
            return
        if not isinstance(entry, Report):
            filed.append(entry)
        elif context in self._unread:
            filed.append(cast(Result, entry))
        else:
            # somebody has the list
            filed.extend(entry.results)
        self._keep_bounds(filed)

    def forget_unread(self) -> None:
        """Drop the contexts that nobody has read."""
        for context in self._unread:
            super().pop(context, None)
        self._unread.clear()

    def _read(self, context: Hashable) -> None:
        if context in self._unread:
            self._unread.discard(context)
            filed = super().get(context) or []
            if any(isinstance(entry, Report) for entry in filed):
                made: list[Result] = []
                for entry in filed:
                    made += entry.results if isinstance(entry, Report) else (entry,)
                filed[:] = made
                self._keep_bounds(filed)

    def _read_all(self) -> None:
        for context in tuple(self._unread):
            self._read(context)

    # every way to read a list makes its results first; whoever copies a dict with an `__iter__` of
    # its own uses these

    def __getitem__(self, context: Hashable) -> list[Result]:
        self._read(context)
        return super().__getitem__(context)

    def get(self, context: Hashable, default: Any = None) -> Any:
        """The results of a context, or the default."""
        self._read(context)
        return super().get(context, default)

    def setdefault(self, context: Hashable, default: Any = None) -> Any:
        """The results of a context, which are the default from now on where there were none."""
        self._read(context)
        return super().setdefault(context, default)

    def pop(self, context: Hashable, *default: Any) -> Any:
        """Remove a context; its results, or the default."""
        self._read(context)
        return super().pop(context, *default)

    def popitem(self) -> tuple[Hashable, list[Result]]:
        """Remove the newest context; the context and its results."""
        self._read_all()
        return super().popitem()

    def values(self) -> ValuesView[list[Result]]:  # type: ignore[override]
        """The results of each context."""
        self._read_all()
        return super().values()

    def items(self) -> ItemsView[Hashable, list[Result]]:  # type: ignore[override]
        """Contexts with their results."""
        self._read_all()
        return super().items()

    def copy(self) -> dict[Hashable, list[Result]]:
        """A plain dict of the same lists."""
        self._read_all()
        return super().copy()

    def clear(self) -> None:
        """Forget everything."""
        self._unread.clear()
        super().clear()

    def __delitem__(self, context: Hashable) -> None:
        super().__delitem__(context)
        self._unread.discard(context)

    def __setitem__(self, context: Hashable, filed: list[Result]) -> None:
        self._unread.discard(context)
        super().__setitem__(context, filed)

    def __iter__(self) -> Iterator[Hashable]:
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        self._read_all()
        return super().__eq__(other)

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __repr__(self) -> str:
        self._read_all()
        return super().__repr__()


class DefaultContextHandler(ResultsHandler):
    """Files results under whatever is being worked on, and says so in the log and on the nodes.

    `by_context` maps each context to its results in order. So that a process that runs for weeks
    does not grow, only the newest `max_contexts` contexts stay, and when one of them has more than
    twice `max_results` results, it is cut back to `max_results`: failures stay rather than
    successes, and newer ones rather than older ones. A result with nodes adds the context to the
    set `node.metadata["contexts"]` of each.

    Why a job was refused is worked out when its results are read, as things are then, unless the
    logger `hpc.autoscale.results` is at DEBUG and writes each result. A subclass with a `__call__`
    of its own hears each result when it comes about.
    """

    def __init__(self, ctx: Hashable, max_results: int = 1000, max_contexts: int = 100_000) -> None:
        self.by_context = FiledResults(self._keep_bounds)
        self.max_results = max_results
        self.max_contexts = max_contexts
        self._placed: list[tuple[Hashable, Report]] = []
        self._hears_each = type(self).__call__ is not DefaultContextHandler.__call__
        self.set_context(ctx)

    def set_context(self, ctx: Hashable, ctx_str: str | None = None) -> None:
        """File what comes from now on under `ctx`; the log shows `ctx_str`, or `ctx` as text."""
        self.ctx = ctx
        hpclogging.set_context(ctx_str or str(ctx))

    def forget_unread(self) -> None:
        """Drop what nobody has read of a pass that is over: it speaks of a cluster as it was then,
        and keeps all of it in memory."""
        self.by_context.forget_unread()

    def hear_report(self, report: Report) -> None:
        """File results that are still to be made."""
        if self._hears_each or _log.isEnabledFor(hpclogging.DEBUG):
            for result in report.results:
                self(result)
            return
        self._file(report)
        if report:
            self._placed.append((self.ctx, report))

    def settle(self) -> None:
        """Note contexts on the nodes of reports. Nodes that nobody holds yet are placed on
        faster."""
        placed, self._placed = self._placed, []
        for context, report in placed:
            self._note(context, report.nodes())

    def __call__(self, result: Result) -> None:
        if _log.isEnabledFor(hpclogging.DEBUG):
            _log.debug("%s: %s", self.ctx, result)
        self._file(result)
        self._note(self.ctx, getattr(result, "nodes", None) or ())

    def _file(self, entry: Result | Report) -> None:
        filed = self.by_context
        filed.file(self.ctx, entry)
        if len(filed) > self.max_contexts:
            del filed[next(iter(filed))]

    def _note(self, context: Hashable, nodes: "Iterable[Any]") -> None:
        for node in nodes:
            metadata = node.metadata
            contexts = metadata.get("contexts")
            if contexts is None:
                metadata["contexts"] = {context}
            else:
                contexts.add(context)

    def _keep_bounds(self, results: list[Result]) -> None:
        if len(results) > 2 * self.max_results:
            self._forget_some(results)

    def _forget_some(self, results: list[Result]) -> None:
        """Shorten the list in place to `max_results`, keeping the order of what stays."""
        by_worth = sorted(range(len(results)), key=lambda i: (bool(results[i]), -i))
        kept = sorted(by_worth[: self.max_results])
        results[:] = [results[i] for i in kept]
