"""Handlers that are objects: results filed under what is being worked on. Used by the command line and integrations."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence

from hpc.autoscale import hpclogging
from hpc.autoscale.results.base import Result

_log = hpclogging.getLogger("hpc.autoscale.results")


class ResultsHandler(ABC):
    """A handler of results that is an object."""

    @abstractmethod
    def __call__(self, result: Result) -> None: ...


class DefaultContextHandler(ResultsHandler):
    """Files results under whatever is being worked on, and says so in the log and on the nodes.

    `by_context` maps each context to its results in order. So that a process that runs for weeks does not grow, only
    the newest `max_contexts` contexts stay, and when one of them has more than twice `max_results` results, it is cut
    back to `max_results`: failures stay rather than successes, and newer ones rather than older ones. A result with nodes
    adds the context to the set `node.metadata["contexts"]` of each.
    """

    def __init__(self, ctx: Hashable, max_results: int = 1000, max_contexts: int = 100_000) -> None:
        self.by_context: dict[Hashable, list[Result]] = {}
        self.max_results = max_results
        self.max_contexts = max_contexts
        self.set_context(ctx)

    def set_context(self, ctx: Hashable, ctx_str: str | None = None) -> None:
        """File what comes from now on under `ctx`; the log shows `ctx_str`, or `ctx` as text."""
        self.ctx = ctx
        hpclogging.set_context(ctx_str or str(ctx))

    def hear_all(self, results: Sequence[Result]) -> None:
        """Results that have no nodes, all at once: thousands of jobs are refused by the same hundreds of buckets."""
        # a subclass that hears each by itself goes on doing so
        if type(self).__call__ is not DefaultContextHandler.__call__ or _log.isEnabledFor(
            hpclogging.DEBUG
        ):
            for result in results:
                self(result)
            return
        known = self.by_context.setdefault(self.ctx, [])
        known.extend(results)
        self._keep_bounds(known)

    def __call__(self, result: Result) -> None:
        if _log.isEnabledFor(hpclogging.DEBUG):
            _log.debug("%s: %s", self.ctx, result)
        results = self.by_context.setdefault(self.ctx, [])
        results.append(result)
        self._keep_bounds(results)
        for node in getattr(result, "nodes", None) or ():
            node.metadata.setdefault("contexts", set()).add(self.ctx)

    def _keep_bounds(self, results: list[Result]) -> None:
        if len(results) > 2 * self.max_results:
            self._forget_some(results)
        if len(self.by_context) > self.max_contexts:
            del self.by_context[next(iter(self.by_context))]

    def _forget_some(self, results: list[Result]) -> None:
        """Shorten the list in place to `max_results`, keeping the order of what stays."""
        by_worth = sorted(range(len(results)), key=lambda i: (bool(results[i]), -i))
        kept = sorted(by_worth[: self.max_results])
        results[:] = [results[i] for i in kept]
