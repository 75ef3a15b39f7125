"""What is known of failures in one cluster while a pass runs, and what of it is to be stored."""

from __future__ import annotations

from collections.abc import Iterable

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.backoff import law
from hpc.autoscale.backoff.causes import Diagnosis
from hpc.autoscale.backoff.file import BackoffError, BackoffFile, Boot
from hpc.autoscale.backoff.law import Backoff, Draw, Policy
from hpc.autoscale.backoff.subjects import Subject


class FailureMemory:
    """What the file at `path` remembers, as it is in this pass. To be changed by its methods alone;
    `save` stores what they have changed, if it may be written. `draw`: how jitter is drawn.

    `backoffs`: subjects that failed. `boots`: nodes that boot, or are watched, by NodeId. `sent`:
    when creates were sent of which not all nodes were listed yet, by request id. `problems`: why
    something of it is not remembered.
    """

    def __init__(self, path: str, policy: Policy, read_only: bool, draw: Draw) -> None:
        self.backoffs: dict[Subject, Backoff] = {}
        self.boots: dict[str, Boot] = {}
        self.sent: dict[str, float] = {}
        self.problems: list[str] = []
        self._file = BackoffFile(path)
        self._policy, self._read_only, self._draw = policy, read_only, draw
        self._forget_changes()

    def _forget_changes(self) -> None:
        self._backoffs_changed: dict[Subject, Backoff | None] = {}
        self._boots_changed: dict[str, Boot | None] = {}
        self._sent_changed: dict[str, float | None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered."""
        return not (self.backoffs or self.boots or self.sent)

    def read(self, now: float) -> None:
        """Take over what is stored. Where it cannot be read nothing is known, which costs a
        warning."""
        try:
            stored = self._file.read()
        except BackoffError as error:
            self._complain(error)
            return
        self.boots, self.sent = stored.boots, stored.sent
        aged = {about: law.aged(each, now, self._policy) for about, each in stored.backoffs.items()}
        for about, each in aged.items():
            # a rest that a clock which was put back has moved goes on from there in later passes
            if each is None or each.failed_at < stored.backoffs[about].failed_at:
                self._backoffs_changed[about] = each
        self.backoffs = {about: each for about, each in aged.items() if each}

    def save(self) -> None:
        """Store what has changed since it was read, or saved."""
        is_changed = self._backoffs_changed or self._boots_changed or self._sent_changed
        if is_changed and not self._read_only:
            try:
                self._file.write(self._backoffs_changed, self._boots_changed, self._sent_changed)
            except BackoffError as error:
                self._complain(error)
        self._forget_changes()

    def _complain(self, error: BackoffError) -> None:
        if not self._read_only:
            self.problems.append(f"{error}; what fails is not remembered")
        logging.warning("%s; what fails is not remembered", error)

    def fail(
        self,
        about: Subject,
        finding: Diagnosis,
        message: str,
        at: float,
        now: float,
        count: int = 1,
    ) -> None:
        """So many failures at a time `at`, of which it is now known. Times are in seconds since
        1970."""
        known = self.backoffs.get(about)
        found = law.failed(
            known,
            finding.kind,
            message,
            at,
            now,
            self._policy,
            lambda: self._draw(about, known),
            count,
        )
        if found.level and now >= found.open_at:
            return  # it holds nothing back any more
        self.backoffs[about] = self._backoffs_changed[about] = found
        if found.level > (known.level if known else 0):
            rest = found.until - now
            logging.warning(
                "%s: nothing new for %.0f s (%s): %s", about, rest, finding.kind.value, message
            )

    def succeed(self, about: Subject) -> None:
        """What may have failed before has succeeded once."""
        known = self.backoffs.get(about)
        if known is None:
            return
        found = law.succeeded(known)
        self._backoffs_changed[about] = found
        if found is None:
            del self.backoffs[about]
            if known.level:
                logging.info("%s: out of back-off", about)
        else:
            self.backoffs[about] = found

    def note_boot(self, node_id: str, boot: Boot | None) -> None:
        """How a node boots, or None for one that is of no interest any more."""
        if self.boots.get(node_id) == boot:
            return
        self._boots_changed[node_id] = boot
        if boot is None:
            del self.boots[node_id]
        else:
            self.boots[node_id] = boot

    def note_sent(self, request_ids: Iterable[str], now: float) -> None:
        """Creates that are about to be sent."""
        sent = dict.fromkeys(request_ids, now)
        self.sent.update(sent)
        self._sent_changed.update(sent)

    def forget_sent(self, request_ids: Iterable[str]) -> None:
        """Creates of which all is known."""
        for each in list(request_ids):
            self.sent.pop(each, None)
            self._sent_changed[each] = None
