"""For how long nothing was heard of workers, for drivers that give them up in the end."""

from collections.abc import Callable, Collection, Iterable

from hpc.autoscale import clock


class Silence:
    """For how many seconds each of some names has been silent, as somebody sees who looks from time
    to time.

    `patience`: the seconds of silence after which names are `given_up`. Of the time between two
    looks no more than a third of it counts: nobody watched then, the broker may have been away, the
    machine asleep, or the clock was set. So a name has to be silent in three looks in a row at
    least, however far apart these are. `time` is asked for the time, in seconds.
    """

    def __init__(self, patience: float, time: Callable[[], float] | None = None) -> None:
        self.patience = patience
        self._time = time or (lambda: clock.time())
        self._last: float | None = None
        # None for those that were heard
        self._seconds: dict[str, float | None] = {}

    def look(self, names: Iterable[str], heard: Collection[str] = ()) -> None:
        """Note a look: who is to be heard, and who of them was. Who was not there in the look
        before has been silent for no time yet; who is not there any more is forgotten."""
        now, last = self._time(), self._last
        counted = 0.0 if last is None else min(max(0.0, now - last), self.patience / 3)
        before, self._last = self._seconds, now

        def silent(name: str) -> float:
            return (before[name] or 0.0) + counted if name in before else 0.0

        self._seconds = {name: None if name in heard else silent(name) for name in names}

    def begin_anew(self) -> None:
        """Note that nobody could be heard: the silence up to now does not count."""
        self._last = self._time()
        self._seconds.update(dict.fromkeys(self.silent, 0.0))

    def silent_for(self, name: str) -> float:
        """For how many seconds a name had been silent at the last look; 0 for one that was heard,
        or is unknown."""
        return self._seconds.get(name) or 0.0

    @property
    def silent(self) -> dict[str, float]:
        """The names that were not heard in the last look, and for how many seconds."""
        return {name: each for name, each in self._seconds.items() if each is not None}

    @property
    def given_up(self) -> dict[str, float]:
        """Those of them that have been silent for the whole patience."""
        return {name: each for name, each in self.silent.items() if each >= self.patience}
