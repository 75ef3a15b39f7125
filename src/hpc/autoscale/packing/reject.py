"""Why something does not fit: a reason code with the facts behind it, and the sentence made from
them on demand.

Codes are the published status words. A `Reject` costs two attribute writes; nothing is formatted
until `explain` is called, because most refusals are never read.
"""

from __future__ import annotations

from collections.abc import Iterable

_TEMPLATES: dict[str, str] = {
    "UndefinedResource": "has no resource {0!r}",
    "InsufficientResource": "has {1} of {0!r}, and {2} is needed",
    "InvalidOption": "has {0} = {1!r}, and {2} is needed",
    "NotInAPlacementGroup": "is not in a placement group",
    "InAPlacementGroup": "is in placement group {0!r}, and none is wanted",
    "ExclusiveRequirementFailed": "is in use, and the job wants it for itself",
    "Never": "{0}",
    "not(success)": "satisfies what must not be: {0}",
    "CompoundFailure": "satisfies none of {0} alternatives: {1}",
    "XORFailed": "satisfies both {0} and {1}, and exactly one is allowed",
    "CapacityFailureBackoff": "had a capacity failure {0:.0f} s ago, and must rest for {1:g} s",
    "NodeClosed": "is closed",
    "NodeUnusable": "is {0}",
    "SharedLimitReached": "needs {2} of {0!r}, and {1} is left",
    "InvalidSharedValue": "needs {0!r} to be {2!r}, and it is {1!r}",
    "NoSuchNode": "has no node whose {0}",
    "NodesFull": "has {0} nodes, none of which has room for it",
    "NoCapacity": "has no room for a new node: {0}",
    "InsufficientCapacity": "has room for {1} of {0}: {2}",
    "GangTooLarge": "could take {1} of the {0} {2} that must go together{3}",
}


class Reject:
    """A refusal: `code` is the published status word, `facts` what the sentence is made of.

    Falsy, so that `if fit:` reads naturally beside `Fit`.
    """

    __slots__ = ("code", "facts")

    def __init__(self, code: str, *facts: object) -> None:
        self.code = code
        self.facts = facts

    def __bool__(self) -> bool:
        return False

    def explain(self, subject: str = "") -> str:
        """One sentence; `subject` says what was refused, as in `Bucket[array=htc,
        vm_size=Standard_F4]`."""
        facts = [f.explain() if isinstance(f, Reject) else f for f in self.facts]
        template = _TEMPLATES.get(self.code)
        said = template.format(*facts) if template else " ".join(str(f) for f in facts)
        return f"{self.code}: {subject} {said}" if subject else f"{self.code}: {said}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reject) and (self.code, self.facts) == (other.code, other.facts)

    def __hash__(self) -> int:
        return hash((self.code, len(self.facts)))

    def __repr__(self) -> str:
        return f"Reject({self.explain()!r})"


def summarise(rejects: Iterable[tuple[str, Reject]], limit: int = 20) -> list[str]:
    """Sentences for refusals of many subjects: equal refusals are said once, with how many they
    stand for.

    Order is that of first appearance; at most `limit` sentences, the last then says how many are
    left out.
    """
    groups: dict[Reject, list[str]] = {}
    for subject, reject in rejects:
        groups.setdefault(reject, []).append(subject)
    said = []
    for reject, subjects in groups.items():
        more = f" (and {len(subjects) - 1} more alike)" if len(subjects) > 1 else ""
        said.append(reject.explain(subjects[0]) + more)
    if len(said) > limit:
        said[limit - 1 :] = [f"… and {len(said) - limit + 1} other reasons"]
    return said
