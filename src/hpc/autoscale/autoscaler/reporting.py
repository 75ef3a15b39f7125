"""Who is told about passes. A reporter only listens: it must not change anything, and may print,
log or count."""

from __future__ import annotations

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autoscaler.summary import PassError, PassSummary


class Reporter:
    """Hears about passes; every method does nothing unless it is overridden."""

    def pass_started(self, dry_run: bool) -> None:
        """Called before anything is read."""

    def pass_finished(self, summary: PassSummary) -> None:
        """Called at the end of a pass, also of one in which something went wrong."""

    def pass_failed(self, error: PassError, failures: int, pause: float) -> None:
        """Called in repeated mode when a pass could not be done: the how-manieth in a row, and
        seconds to the next. It was skipped, which does not count, where the error's `is_skip`."""


class LogReporter(Reporter):
    """Writes one entry per pass to the log."""

    def pass_finished(self, summary: PassSummary) -> None:
        """The summary, as a warning when something went wrong."""
        log = logging.info if summary.ok else logging.warning
        log("pass finished: %s", summary, extra={"own_lines": True})

    def pass_failed(self, error: PassError, failures: int, pause: float) -> None:
        """The error and what happens next."""
        how = "skipped" if error.is_skip else f"failed ({failures} in a row)"
        logging.warning("pass %s, next one in %.0f s: %s", how, pause, error.message)
