"""The weights of regions that hold now: asked for anew when their time is over, kept where nobody
answers, and changed only when that makes a difference.

They are in a file beside the node history, for the next pass and the next process.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import ConfigurationException, did_you_mean, one_line
from hpc.autoscale.sidebyside import side_by_side
from hpc.autoscale.sqlitefile import SqliteFile
from hpc.autoscale.statefiles import WEIGHTS, path_of
from hpc.autoscale.weights.providers import BLEND, WeightQuestion, WeightsError, ask, provider_named

SECTION = "weights"
TIME_TO_LIVE = 900.0
HYSTERESIS = 0.25
TIMEOUT = 60.0
ASK_AGAIN = 60.0
"""Seconds after which a provider is asked again that did not answer."""
_WHOLE = 1000
"""What the largest weight of providers is that know no whole numbers."""

Ask = Callable[[str, WeightQuestion], Mapping[str, float | None]]


@dataclass(frozen=True)
class CurrentWeights:
    """Weights by region.

    `taken_at`: when the provider last confirmed them (unix seconds); None for those that stand in
    because it has never answered. `tried_at`: when it was last asked. `problem`: why it gave no
    answer then; empty where it did. `unknown`: the regions of which it knew nothing then. `whole`:
    whether they are whole numbers as the provider gave them, and not made of floats.
    """

    weights: Mapping[str, int]
    taken_at: float | None
    tried_at: float
    problem: str = ""
    unknown: tuple[str, ...] = ()
    whole: bool = True


# the questions, by their key, to which a provider of this process has given no answer yet
_unanswered: set[str] = set()
# what this process has found and could not write, or may not, by path and question
_unwritten: dict[tuple[str, str], CurrentWeights] = {}


class WeightsFile(SqliteFile):
    """The last weights, by what they were asked for."""

    NAME = "weights"
    VERSION = 1
    TABLES = ("CREATE TABLE weights (question TEXT PRIMARY KEY, found TEXT NOT NULL)",)
    ERROR = WeightsError
    REMEDY = "move it away; weights are asked for anew then"

    def read(self, question: str) -> CurrentWeights | None:
        """What is known under a key."""
        rows = self.rows("SELECT found FROM weights WHERE question = ?", (question,))
        if not rows:
            return None
        try:
            saved = json.loads(rows[0][0])
            found = CurrentWeights(**{**saved, "unknown": tuple(saved["unknown"])})
            _check_saved(found)
            return found
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
            raise self.damaged(error) from error

    def write(self, question: str, found: CurrentWeights) -> None:
        """Remember it, in the place of all others."""
        text = json.dumps({**vars(found), "weights": dict(found.weights)})
        with self.writing() as db:
            db.execute("DELETE FROM weights")
            db.execute("INSERT INTO weights VALUES (?, ?)", (question, text))


def _check_saved(found: CurrentWeights) -> None:
    """ValueError for weights or times that cannot be."""
    weights = list(found.weights.values())
    if not any(weights) or not all(type(each) is int and each >= 0 for each in weights):
        raise ValueError(f"expected weights, whole numbers, found {found.weights!r}")
    for moment in (found.taken_at or 0.0, found.tried_at):
        if not isinstance(moment, int | float):
            raise ValueError(f"expected a time, found {moment!r}")


def current_weights(
    config: Mapping[str, Any], home: str, ask_provider: Ask = ask
) -> CurrentWeights:
    """The weights that the section `weights` of a configuration leads to.

    A provider that fails in any way leaves the last weights in force; where there are none, those
    under `static` stand in, or all regions weigh the same. ConfigurationException for a section
    that makes no sense, WeightsError for a file that cannot be read; one that cannot be written
    costs a warning, and what it would have is kept in this process.
    """
    settings = config.get(SECTION) or {}
    question = _question(config, settings)
    key = _key(settings, question)
    file = WeightsFile(path_of(WEIGHTS, config, home))
    here = (file.path, key)
    every = [each for each in (file.read(key), _unwritten.get(here)) if each is not None]
    known = max(every, key=lambda each: each.tried_at, default=None)
    if known is not None and _is_fresh(known, clock.time(), settings):
        return known
    patient = functools.partial(_ask_in_time, ask_provider, key)
    found = _renewed(known, settings, question, patient)
    _unwritten[here] = found
    if not config.get("read_only"):
        try:
            file.write(key, found)
            _unwritten.pop(here, None)
        except WeightsError as error:
            logging.warning("weights are not remembered beyond this process: %s", error)
    return found


def check_section(config: Mapping[str, Any]) -> None:
    """ConfigurationException where the section `weights` makes no sense; nobody is asked."""
    settings = config.get(SECTION) or {}
    if settings:
        _question(config, settings)
        name = str(settings.get("provider") or "static")
        for each in (settings.get("blend") or ()) if name == BLEND else (name,):
            provider_named(each)


def _question(config: Mapping[str, Any], settings: Mapping[str, Any]) -> WeightQuestion:
    regions = tuple(settings.get("regions") or settings.get("static") or ())
    if not regions:
        raise ConfigurationException("weights.regions: expected one region or more, found none")
    static = settings.get("static") or {}
    if static and not any(static.values()):
        raise ConfigurationException(
            "weights.static: expected a weight above 0 of one region or more, found 0 for"
            f" {', '.join(static)}"
        )
    for region in static:
        if region not in regions:
            raise ConfigurationException(
                f"weights.static: expected weights of weights.regions ({', '.join(regions)}), found"
                f" {region!r}{did_you_mean(region, regions)}"
            )
    return WeightQuestion(
        regions,
        tuple(settings.get("sizes") or ()),
        int(settings.get("count") or 1),
        bool(settings.get("spot", True)),
        settings,
        config,
    )


def _key(settings: Mapping[str, Any], question: WeightQuestion) -> str:
    """A text that is the same for the same question: what was asked of another provider, or for
    other regions, is no answer."""
    kept = {k: v for k, v in settings.items() if k not in ("ttl", "timeout", "hysteresis")}
    text = json.dumps([kept, question.regions], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_fresh(known: CurrentWeights, now: float, settings: Mapping[str, Any]) -> bool:
    lives = float(settings.get("ttl") or TIME_TO_LIVE)
    if known.problem:
        lives = min(lives, ASK_AGAIN)
    return 0 <= now - known.tried_at < lives


def _renewed(
    known: CurrentWeights | None,
    settings: Mapping[str, Any],
    question: WeightQuestion,
    ask_provider: Ask,
) -> CurrentWeights:
    """What holds after the provider was asked."""
    name = str(settings.get("provider") or "static")
    try:
        answer = ask_provider(name, question)
        completed = _completed(answer, known, question)
        weights = _in_whole_numbers(completed)
    except ConfigurationException:
        raise
    except Exception as error:  # noqa: BLE001  providers are anybody's
        problem = f"{name}: {one_line(error)}"
        logging.warning("weights: %s", problem)
        tried = clock.time()  # it may have taken long to fail
        if known is not None:
            return replace(known, tried_at=tried, problem=problem)
        return CurrentWeights(_stand_in(settings, question), None, tried, problem)
    unknown = tuple(region for region in question.regions if answer.get(region) is None)
    share = settings.get("hysteresis")
    margin = HYSTERESIS if share is None else float(share)
    has_last = known is not None and known.taken_at is not None
    now = clock.time()
    found = CurrentWeights(weights, now, now, "", unknown, _are_whole(completed))
    if known is not None and has_last and not _differs(known.weights, weights, margin):
        return replace(found, weights=dict(known.weights), whole=known.whole)
    return found


def _ask_in_time(
    ask_provider: Ask, key: str, name: str, question: WeightQuestion
) -> Mapping[str, float | None]:
    """What a provider answers; TimeoutError when it takes too long. It is left alone then, and not
    asked again while it has that question."""
    if key in _unanswered:
        raise TimeoutError("it still has not answered what it was asked before")
    _unanswered.add(key)

    def asked() -> Mapping[str, float | None]:
        try:
            return ask_provider(name, question)
        finally:
            _unanswered.discard(key)

    seconds = float(question.settings.get("timeout") or TIMEOUT)
    found = side_by_side({key: asked}, {key: seconds})[key]
    if isinstance(found, Exception):
        raise found
    return found


def _completed(
    answer: Mapping[str, float | None], known: CurrentWeights | None, question: WeightQuestion
) -> dict[str, float]:
    """The answer, with a weight for regions of which the provider knows nothing: the last one that
    it gave, else the median of the others. WeightsError where it knows nothing at all, or says
    never to all."""
    given = {r: w for r in question.regions if (w := answer.get(r)) is not None}
    if not any(given.values()):
        said = "never to all regions" if given else "nothing of any region"
        raise WeightsError(f"expected a weight above 0 of some region, found {said}")
    has_last = known is not None and known.taken_at is not None
    last: Mapping[str, float] = known.weights if known is not None and has_last else {}
    usual = median([weight for weight in given.values() if weight])
    is_whole = _are_whole(given)
    if is_whole:
        usual = max(1, round(usual))
    if known is not None and not (is_whole and known.whole):
        both = [region for region in given if given[region] and last.get(region)]
        # the last ones in the measure of these
        measure = sum(given[r] for r in both) / sum(last[r] for r in both) if both else 0.0
        last = {region: weight * measure for region, weight in last.items() if both}
    return {r: given.get(r, last.get(r, usual)) for r in question.regions}


def _are_whole(weights: Mapping[str, float]) -> bool:
    return not any(isinstance(weight, float) for weight in weights.values())


def _in_whole_numbers(weights: Mapping[str, float]) -> dict[str, int]:
    """The same weights or, where a provider has floats, weights in about the same ratios, with 1000
    for the largest; what is above 0 stays so. Whether floats happen to be whole makes no
    difference: weights of one provider are compared with those that it gave before."""
    scale = 1.0 if _are_whole(weights) else _WHOLE / max(weights.values())
    return {r: max(round(weight * scale), int(weight > 0)) for r, weight in weights.items()}


def _stand_in(settings: Mapping[str, Any], question: WeightQuestion) -> dict[str, int]:
    given = settings.get("static") or {}
    if any(given.get(region) for region in question.regions):
        return {region: int(given.get(region, 0)) for region in question.regions}
    return dict.fromkeys(question.regions, 1)


def _differs(before: Mapping[str, int], after: Mapping[str, int], margin: float) -> bool:
    """Whether the share of some region has changed by more than this part of it, or has come from
    nothing or gone to nothing."""
    if before.keys() != after.keys():
        return True
    was, now = _shares(before), _shares(after)
    return any(
        (was[region] == 0) != (now[region] == 0)
        or abs(now[region] - was[region]) > margin * max(was[region], now[region])
        for region in was
    )


def _shares(weights: Mapping[str, int]) -> dict[str, float]:
    whole = sum(weights.values()) or 1
    return {region: weight / whole for region, weight in weights.items()}
