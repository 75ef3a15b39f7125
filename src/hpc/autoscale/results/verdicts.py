"""Why a job, a node or a bucket is as it is: a verdict in one line, what causes it, and what would
change it.

Plain values, with a JSON form, for whoever shows them: `azscale explain`, the status, plans, pages,
and drivers that write them where users look. They are made in `hpc.autoscale.explaining`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple


class Stand(StrEnum):
    """How something stands: it has all that it wants, something is on its way to it, it waits, or
    it would wait for ever. UNKNOWN: nobody can tell."""

    HAS = "has"
    COMES = "comes"
    WAITS = "waits"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Cause:
    """One thing that stands in the way.

    - `code`: what it is, as one of a fixed list of words (`explaining.codes`)
    - `text`: the same in words, with the figures, in one line
    - `where`: what it is about, equal things folded into one: `htc/Standard_F4s_v2`
    - `count`: how many buckets, nodes or other things that stands for
    - `nearness`: 0 for what is lifted first, by nobody's doing, and more for what takes more
    - `until`: unix time at which it ends by itself, where that is known
    - `said`: what a server said of it, in its own words; empty when it said nothing
    """

    code: str
    text: str
    where: str = ""
    count: int = 1
    nearness: int = 0
    until: float | None = None
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "code": self.code,
            "text": self.text,
            "where": self.where,
            "count": self.count,
            "nearness": self.nearness,
            "until": self.until,
            "said": self.said,
        }

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class Part(NamedTuple):
    """One of several changes that must be made together, with the meanings that `Fix` gives these
    words."""

    subject: str
    amount: float
    unit: str


@dataclass(frozen=True)
class Fix:
    """A change that lets a job start, found by asking with that change.

    - `kind`: what sort of change: `wait`, `rename`, `ask-less`, `allow`, `raise-limit`, `enable`
    - `text`: what to do, in one line
    - `subject`: what is to be changed: a limit, a resource, a nearby nodearray
    - `amount`: by how much, or to how much where the kind is `ask-less`; None where that is no
      matter of amounts. `unit`: of what
    - `nodes`: how many nodes would start for the job then, by bucket, and `price_per_hour` what
      these cost in US dollars; None where the price of one is not known
    - `is_least`: whether every smaller change of the kind was ruled out
    - `parts`: where several limits must be raised together, each of them; `amount` is None then
    - `is_certain`: whether a pass with that change would start the job as things are; otherwise it
      may, and the text says so
    """

    kind: str
    text: str
    subject: str = ""
    amount: float | None = None
    unit: str = ""
    nodes: Mapping[str, int] = field(default_factory=dict)
    price_per_hour: float | None = None
    is_least: bool = True
    is_certain: bool = True
    parts: tuple[Part, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "kind": self.kind,
            "text": self.text,
            "subject": self.subject,
            "amount": self.amount,
            "unit": self.unit,
            "nodes": dict(self.nodes),
            "price_per_hour": self.price_per_hour,
            "is_least": self.is_least,
            "is_certain": self.is_certain,
            "parts": [part._asdict() for part in self.parts],
        }

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Verdict:
    """What there is to say of something, such as `job 17`: its `code` is that of the cause that is
    lifted first, and `line` is one sentence for people.

    `causes` begin with that one. `fixes`: changes that would let it start, the smallest first; none
    where nobody asked for them, or none was found. `left_out`: what was not tried to find them, in
    words; empty where nothing was left out. `until`: unix time at which something will have changed
    by itself, where that is known.
    """

    about: str
    stand: Stand
    code: str
    line: str
    causes: tuple[Cause, ...] = ()
    fixes: tuple[Fix, ...] = ()
    until: float | None = None
    left_out: str = ""

    @property
    def key(self) -> str:
        """What it comes to without figures and times: another one where the verdict has
        changed."""
        first = self.causes[0] if self.causes else None
        where = f"/{first.where}" if first is not None and first.where else ""
        return f"{self.stand}/{self.code}{where}"

    def about_another(self, about: str) -> Verdict:
        """This verdict on something else that is like it."""
        said = self.line
        if said.lower().startswith(self.about.lower()):
            said = f"{about[:1].upper()}{about[1:]}{said[len(self.about) :]}"
        return replace(self, about=about, line=said)

    def fixed_by(self, fixes: tuple[Fix, ...], left_out: str = "") -> Verdict:
        """This verdict, with changes that would let it start, and what was not tried."""
        return replace(self, fixes=fixes, left_out=left_out)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "about": self.about,
            "stand": str(self.stand),
            "code": self.code,
            "line": self.line,
            "until": self.until,
            "causes": [cause.to_dict() for cause in self.causes],
            "fixes": [fix.to_dict() for fix in self.fixes],
            "left_out": self.left_out,
        }

    def __str__(self) -> str:
        return self.line
