"""The verdict on a job that waits: what is in its way, made of what the engine says of every
bucket now."""

from __future__ import annotations

from collections.abc import Sequence

from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.explaining.found import Found, causes_of
from hpc.autoscale.explaining.known import Known
from hpc.autoscale.explaining.refusals import in_the_way
from hpc.autoscale.explaining.refusing import who_refuses
from hpc.autoscale.explaining.words import with_next_try
from hpc.autoscale.gangs.gathering import GangNews
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.plaintext import on_one_line
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict


def verdict_on_waiting(
    job: Job, node_mgr: NodeManager, of_gang: GangNews | None = None, known: Known | None = None
) -> Verdict:
    """Why a job of a queue has not all that it wants, as things are now; nothing is changed.

    `of_gang`: what is known of it as a gang of which a part has come. `known`: what was worked out
    for other jobs of the pass. Cost: that of looking for the job on every bucket and, where nodes
    must be asked one by one, on every node.
    """
    found = in_the_way(job, who_refuses(job, node_mgr), node_mgr, known)
    return verdict_of(job.name, found, of_gang)


def verdict_of(name: str, found: Sequence[Found], of_gang: GangNews | None = None) -> Verdict:
    """The verdict on a job that has these things in its way."""
    about, causes = f"job {name}", causes_of(found)
    is_never = bool(found) and found[0].is_never
    if of_gang:
        code = CODES["GangGathers"]
        # room there may be, and the next pass asks for none of it
        others = (each for each in causes if each.code != "RoomByNow")
        news = Cause("GangGathers", of_gang.text, nearness=code.nearness, until=of_gang.until)
        # what is known of tries says nothing to one that no try can help
        causes = (*others, news) if is_never else (news, *others)
    if not causes:
        causes = (_nothing_known(found),)
    first = causes[0]
    stand = Stand.NEVER if is_never else Stand.WAITS
    return Verdict(
        about, stand, first.code, line_of(about, stand, first), causes, until=first.until
    )


def line_of(about: str, stand: Stand, first: Cause) -> str:
    """The one sentence of a verdict."""
    how = {
        Stand.WAITS: "waits",
        Stand.NEVER: "can never run",
        Stand.UNKNOWN: "nobody can tell",
    }.get(stand, "")
    said = with_next_try(first.text, first.until)
    return on_one_line(f"{about[:1].upper()}{about[1:]} {how}: {said}")


def _nothing_known(found: Sequence[Found]) -> Cause:
    code = CODES["Unexplained"]
    return Cause("Unexplained", "no node has room", nearness=code.nearness)
