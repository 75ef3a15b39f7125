"""Tests of laws that hold of scenarios: Hypothesis draws the number of a scenario, and a failing
one is reduced here.

Reduced piece by piece, that is, until no piece of it could be left out: a smaller number is no
smaller scenario.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from hypothesis import Phase, given, note, settings
from hypothesis import event as occurred
from hypothesis import strategies as st

from builders.scenarios import kinds_of, scenario

T = TypeVar("T")
Law = Callable[[dict[str, Any]], object]


def smaller(scenario: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same scenario without one of its pieces, in every way. One without events is some other
    thing, and stays."""
    if "events" not in scenario:
        return
    for index in range(len(scenario["events"])):
        yield {**scenario, "events": without(scenario["events"], index)}
    for number, event in enumerate(scenario["events"]):
        for blocks in fewer(event.get("blocks", ())):
            events = list(scenario["events"])
            events[number] = {**event, "blocks": blocks}
            yield {**scenario, "events": events}
    for kind in ("nodes", "machines", "arrays"):
        for index in range(len(scenario["cluster"][kind])):
            pieces = without(scenario["cluster"][kind], index)
            if pieces or kind != "arrays":
                yield {**scenario, "cluster": {**scenario["cluster"], kind: pieces}}
    for number, event in enumerate(scenario["events"]):
        for index in range(len(event.get("constraints", ()))):
            events = list(scenario["events"])
            events[number] = {**event, "constraints": without(event["constraints"], index)}
            yield {**scenario, "events": events}


def fewer(blocks: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Blocks of jobs (see `queues`) with one block less, with one repeated less often, or with one
    of its jobs less."""
    for index, block in enumerate(blocks):
        yield without(blocks, index)
        for times in sorted({block["times"] // 2, block["times"] - 1} - {0, block["times"]}):
            yield [*blocks[:index], {**block, "times": times}, *blocks[index + 1 :]]
        for number, spec in enumerate(block["jobs"]):
            jobs = without(block["jobs"], number)
            if jobs:
                yield [*blocks[:index], {**block, "jobs": jobs}, *blocks[index + 1 :]]
            for one in range(len(spec["constraints"])):
                less = {**spec, "constraints": without(spec["constraints"], one)}
                jobs = [*block["jobs"][:number], less, *block["jobs"][number + 1 :]]
                yield [*blocks[:index], {**block, "jobs": jobs}, *blocks[index + 1 :]]


def without(pieces: Sequence[T], index: int) -> list[T]:
    """A list without one of its members."""
    return [*pieces[:index], *pieces[index + 1 :]]


def breaks(law: Law, scenario: dict[str, Any]) -> bool:
    """Whether a scenario breaks a law, in whatever way."""
    try:
        law(scenario)
    except Exception:
        return True
    return False


def reduced(law: Law, scenario: dict[str, Any]) -> dict[str, Any]:
    """A scenario that breaks the law, and would not with any piece less. Each turn drops a piece,
    so it ends."""
    while True:
        found = next((each for each in smaller(scenario) if breaks(law, each)), None)
        if found is None:
            return scenario
        scenario = found


def tell(scenario: dict[str, Any], text: str) -> None:
    """Say what goes on in a scenario, once it is as small as it gets."""
    if scenario.get("told"):
        note(text)


def for_scenarios(
    times: int = 1,
    make: Callable[[int], dict[str, Any]] = scenario,
    kinds: Callable[[dict[str, Any]], Iterable[str]] = kinds_of,
) -> Callable[[Law], Callable[[], None]]:
    """A test that a law holds of many scenarios, `times` as many as the profile says; `make` makes
    one of a number.

    `kinds` are counted, for `pytest --hypothesis-show-statistics`.
    """

    def decorate(law: Law) -> Callable[[], None]:
        def test(seed: int) -> None:
            found = make(seed)
            for kind in sorted(set(kinds(found))):
                occurred(kind)
            if breaks(law, found):
                found = reduced(law, found)
                note(f"{found}")
                law({**found, "told": True})

        test.__name__ = test.__qualname__ = law.__name__
        test.__doc__, test.__module__ = law.__doc__, law.__module__
        made = given(st.integers(0, 2**48))(test)
        phases = (Phase.explicit, Phase.reuse, Phase.generate)
        return settings(max_examples=times * settings().max_examples, phases=phases)(made)

    return decorate
