"""The loop that every integration used to write by hand: passes, one or again and again, under the
driver's lock."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from hpc.autoscale import clock as real_clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale import results
from hpc.autoscale.autoscaler import hooks, learning
from hpc.autoscale.autoscaler.journaling import LoopJournal
from hpc.autoscale.autoscaler.learning import NewCalculator
from hpc.autoscale.autoscaler.passes import Pass
from hpc.autoscale.autoscaler.reading import Prepared, Readings
from hpc.autoscale.autoscaler.repeating import (
    Clock,
    PassSkippedError,
    checked_interval,
    run_repeatedly,
    stopper,
)
from hpc.autoscale.autoscaler.reporting import LogReporter, Reporter
from hpc.autoscale.autoscaler.summary import PassSummary
from hpc.autoscale.autoscaler.telemetry import OFF, PassSpans, Telemetry
from hpc.autoscale.backoff.settings import LEARNS
from hpc.autoscale.ccbindings.pacing import Stop
from hpc.autoscale.ccbindings.settings import TOLD_TO_STOP
from hpc.autoscale.collector import passing
from hpc.autoscale.config import check_config
from hpc.autoscale.errors import LockUnusableError, MultipleInstancesError, counted
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.util import NullSingletonLock, SingletonLock, new_loop_lock, wants_lock

if TYPE_CHECKING:
    from hpc.autoscale.journal.recording import PassRecorder
    from hpc.autoscale.locks import LoopLock

NewDriver = Callable[[], SchedulerDriver]


class Autoscaler:
    """Runs passes for one scheduler and one cluster.

    `driver` serves all passes, or is a function that makes one: the first at once, then one for
    each pass. Take the function where a driver keeps what it read; with a driver that hands over
    the jobs of an earlier pass, a pass ends with StaleReading. `driver`, the attribute, is the one
    of the last pass.

    `config` is what `util.load_config` returns and is left as it is; ConfigurationException when
    something is wrong with it. With `dry_run`, or where the configuration is `read_only`, a pass
    ends when demand is known: neither the cluster nor the scheduler is changed and no lock is
    taken. `new_calculator` replaces the way in which the demand calculator is made (it gets the
    pass's configuration and the driver); `result_handler` hears every result and is told the
    context, as in `[Job 12]`. `demand_known`
    is called with each pass when demand is known, and before anything is changed. `clock` is for
    pauses and durations; for how long nodes have been idle is the node history's business. Without
    `has_spans` passes have no spans of OpenTelemetry, whoever wants them.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        driver: SchedulerDriver | NewDriver,
        *,
        dry_run: bool = False,
        clock: Clock = real_clock,
        reporter: Reporter | None = None,
        new_calculator: NewCalculator = learning.new_calculator,
        result_handler: results.DefaultContextHandler | None = None,
        demand_known: Callable[[Pass], object] = lambda one: None,
        has_spans: bool = True,
    ) -> None:
        check_config(config)
        self.config = config
        makes_one = callable(driver) and not isinstance(driver, SchedulerDriver)
        self._new_driver = cast(NewDriver, driver) if makes_one else None
        self.driver = hooks.checked_driver(self._new_driver() if self._new_driver else driver)
        self._driver_is_fresh = True
        self._interval: float | None = None
        self._loop_lock: LoopLock | None = None
        self._stop: Stop | None = config.get(TOLD_TO_STOP)
        self._readings = Readings()
        self.dry_run = dry_run or bool(config.get("read_only"))
        self._clock = clock
        self._reporter = reporter or LogReporter()
        self._new_calculator = new_calculator
        self._result_handler = result_handler
        self._demand_known = demand_known
        self._journal = LoopJournal()
        self._weights_problem: str | None = None
        self._telemetry = Telemetry(os.environ if has_spans else OFF)

    def run_once(self) -> PassSummary:
        """One pass.

        Raises MultipleInstancesError when another process holds the lock, and whatever the driver
        or CycleCloud raised when jobs, nodes or limits could not be read; nothing has been changed
        then, but for workers of hosts on premises that were started. Errors after that are in the
        summary.
        """
        return self._told_of(hooks.new_lock)

    def run_locked(self) -> PassSummary:
        """One pass, as `run_once`, for a caller that holds the lock already."""
        return self._told_of(lambda driver, config: NullSingletonLock())

    @passing()
    def _told_of(
        self, take_lock: Callable[[SchedulerDriver, dict[str, Any]], SingletonLock]
    ) -> PassSummary:
        """One pass under a lock, of which the reporter is told."""
        started_at = self._clock.time()
        self._reporter.pass_started(self.dry_run)
        driver, config = self._next_driver()
        self._hold_loop(driver, config)
        lock = self._locked(take_lock, driver, config)
        try:
            summary = self._run(started_at, driver, config)
        finally:
            lock.unlock()
        self._reporter.pass_finished(summary)
        return summary

    def _locked(
        self,
        take_lock: Callable[[SchedulerDriver, dict[str, Any]], SingletonLock],
        driver: SchedulerDriver,
        config: dict[str, Any],
    ) -> SingletonLock:
        """The lock. In a loop, one that somebody else has is no failure of the pass."""
        try:
            return take_lock(driver, config)
        except LockUnusableError:
            raise
        except MultipleInstancesError as error:
            if self._loop_lock is None:
                raise
            raise PassSkippedError(str(error)) from error

    def _run(
        self, started_at: float, driver: SchedulerDriver, config: dict[str, Any]
    ) -> PassSummary:
        """One pass, while the lock is held; of a real one there are traces and a record
        afterwards."""
        if self.dry_run:
            one = self._pass(driver, config)
            self._listen(one.run)
            summary = one.summary(started_at, self._clock.time())
            return _with_notes(summary, filter(None, [self._weights_problem]))
        with self._telemetry.of_pass(config, str(driver)) as spans:
            summary = self._recorded(started_at, driver, config, spans)
            if spans is not None:
                spans.summary = summary
        problems = (self._telemetry.problem, self._weights_problem)
        return _with_notes(summary, filter(None, problems))

    def _recorded(
        self,
        started_at: float,
        driver: SchedulerDriver,
        config: dict[str, Any],
        spans: PassSpans | None,
    ) -> PassSummary:
        """A real pass, which is in the journal afterwards."""
        recorder = self._journal.listen(config, driver, started_at)
        if recorder is None:
            one = self._pass(driver, config, spans)
            self._listen(one.run)
            return one.summary(started_at, self._clock.time())
        with recorder.listening():
            one = self._pass(driver, recorder.around(config), spans)
            self._journal.begin(recorder, one, self._readings)
            try:
                self._listen(one.run)
            except Exception as error:
                with recorder.outside():
                    took = max(0.0, self._clock.time() - started_at)
                self._keep(recorder, one, error, took)
                raise
        summary = one.summary(started_at, self._clock.time())
        unwritten = self._keep(recorder, one, summary, summary.duration)
        return _with_notes(summary, unwritten)

    @property
    def not_in_journal(self) -> str:
        """How many passes could not be written to the journal, and why; empty when all were."""
        missing = self._journal.missing
        return f"{counted(missing, 'pass')}: {self._journal.first_problem}" if missing else ""

    def _keep(
        self, recorder: PassRecorder, one: Pass, end: PassSummary | Exception, took: float
    ) -> tuple[str, ...]:
        with one.steps.doing("state"):
            return self._journal.keep(recorder, one, end, took, self._interval)

    @passing()
    def look(self, interval: float | None = None) -> Pass:
        """A pass without a lock, of which nobody is told, for callers that act on it. `interval`:
        seconds from pass to pass, where the caller knows.

        It is for those made with `dry_run`, where it has calculated demand and changed nothing, and
        for those whose doors carry nothing out (`hpc.autoscale.rehearsal`). Raises what `run_once`
        raises.
        """
        if interval is not None:
            self._interval = checked_interval("look", interval) or self._interval
        one = self._pass(*self._next_driver())
        self._listen(one.run)
        return one

    def run_forever(
        self,
        interval: float,
        stop_event: threading.Event | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> int:
        """Passes with `interval` seconds between the end of one and the start of the next; how many
        were done.

        Ends after the pass in hand once `stop_event` is set or `should_stop()` is true, which is
        asked between passes. Once the event is set that pass waits for no server any more, as one
        that asks for a pause. A pass that fails is reported and followed by a longer pause: twice
        as long for each failure in a row, up to MAX_PAUSE, and never shorter than an error's
        `retry_after`. A pass that finds its lock taken, as by a command, is skipped and reported;
        the next one comes after the usual pause.
        Only a configuration that is wrong from the start ends the loop, by raising. While another
        loop of this machine has one of the clusters, passes fail.

        InvalidArgument, before the first pass, for an interval that is no number of seconds from 0
        to LONGEST_INTERVAL. MultipleInstancesError while another call of it has not returned, as
        where a hook or a thread begins a second loop.
        """
        if self._loop_lock is not None:
            raise MultipleInstancesError("run_forever: expected one loop at a time, found a second")
        interval = self._interval = checked_interval("run_forever", interval)
        stop = stopper(stop_event, should_stop)
        if stop_event is not None:
            self._stop = stop_event.is_set
        self._loop_lock = new_loop_lock()
        try:
            return run_repeatedly(self.run_once, interval, stop, self._reporter, self._clock)
        finally:
            self._loop_lock.unlock()
            self._loop_lock = None

    def _hold_loop(self, driver: SchedulerDriver, config: Mapping[str, Any]) -> None:
        """In a loop, keep other loops of this machine from its clusters, until it ends. Where no
        lock is wanted, and where the driver has one of its own, nobody is kept away."""
        if self._loop_lock is not None and wants_lock(config) and not hooks.has_own_lock(driver):
            self._loop_lock.take(config)

    def _next_driver(self) -> Prepared:
        """The driver for the next pass, and its configuration."""
        if not self._driver_is_fresh:
            self._take_another_driver()
        self._driver_is_fresh = False
        return self._prepared(self.driver)

    def _pass(
        self, driver: SchedulerDriver, config: dict[str, Any], spans: PassSpans | None = None
    ) -> Pass:
        """A pass that has not begun; `spans` hears of its steps."""
        recorder = config.get("_journal")  # what the configuration comes to is in its record
        with nullcontext() if recorder is None else recorder.outside():
            config = self._config_under_lock(config)
        self._weights_problem = config.get(learning.WEIGHTS_PROBLEM)
        one = Pass(
            config,
            driver,
            self._readings,
            self._another_driver,
            self._new_calculator,
            self._set_context,
            self.dry_run,
            self._interval or _configured_interval(config),
            self._demand_known,
        )
        one.steps.begun = spans.begun if spans else None
        return one

    def _prepared(self, driver: SchedulerDriver) -> Prepared:
        """A driver that is ready for a pass, and its configuration."""
        hooks.ask(driver.initialize)
        return driver, hooks.prepared_config(driver, self._config_of_a_pass())

    def _take_another_driver(self) -> None:
        """A driver for another pass, where one can be made."""
        other = hooks.made(self._new_driver) if self._new_driver else self.driver
        before, self.driver = self.driver, other
        if before is not self.driver:
            before.close_histories()

    def _another_driver(self) -> Prepared:
        """A driver that has read nothing in this pass; the same one, as it is, where no other can
        be made."""
        other = hooks.made(self._new_driver) if self._new_driver else self.driver
        if other is self.driver:
            return other, {}
        other, config = self._prepared(other)
        return other, self._config_under_lock(config)

    def _config_under_lock(self, config: dict[str, Any]) -> dict[str, Any]:
        """For what happens while the lock is held here: nobody who is given this takes it again."""
        config = learning.for_a_pass(config, self.driver)
        return {**config, "lock_file": None, LEARNS: not self.dry_run}

    def _config_of_a_pass(self) -> dict[str, Any]:
        """A copy that a driver may write to. Entries with a leading underscore hold live objects
        and are handed on."""
        config = {
            key: value if key.startswith("_") else copy.deepcopy(value)
            for key, value in self.config.items()
        }
        if self._stop is not None:
            config[TOLD_TO_STOP] = self._stop
        if self.dry_run:
            config.update(read_only=True, lock_file=None)
        return config

    def _set_context(self, context: str) -> None:
        if self._result_handler:
            self._result_handler.set_context(context)
        else:
            logging.set_context(context)

    def _listen(self, run: Callable[[], None]) -> None:
        """Run with the result handler registered, and leave the handlers as they were found."""
        handler = self._result_handler
        if isinstance(handler, results.DefaultContextHandler):
            handler.forget_unread()
        if handler is None or handler in results.HANDLERS:
            run()
            return
        results.register_result_handler(handler)
        try:
            run()
        finally:
            results.unregister_result_handler(handler)


def _with_notes(summary: PassSummary, notes: Iterable[str]) -> PassSummary:
    return replace(summary, notes=(*summary.notes, *notes))


def _configured_interval(config: Mapping[str, Any]) -> float | None:
    """Seconds from pass to pass, where the configuration says so."""
    seconds = (config.get("autoscale") or {}).get("interval")
    return None if seconds is None else float(seconds)
