"""What a scheduler says of its hosts: whether anything runs there, and whether anything could."""

from __future__ import annotations

from collections.abc import Collection

from hpc.autoscale.node.identity import short_name
from hpc.autoscale.node.node import Node
from hpc.autoscale.packing.amounts import is_amount


def is_at_work(host: Node, named: Collection[str]) -> bool:
    """Whether something runs on a host: as the host itself says, or because its short name is among
    those that jobs name as where they run."""
    says_so = host.assignments or (host.metadata or {}).get("_running_job_")
    return bool(says_so) or short_name(host.hostname) in named


def takes_no_work(host: Node, named: Collection[str]) -> bool:
    """Whether a scheduler has nothing available of a host, though nothing runs there. `named` as in
    `is_at_work`."""
    has = [name for name, amount in host.resources.items() if _is_some(amount)]
    is_empty = not any(_is_some(host.available.get(name)) for name in has)
    return bool(has) and is_empty and not is_at_work(host, named)


def nothing_left_of(host: Node) -> list[str]:
    """The resources that a host has, and of which nothing is available."""
    has = (name for name, amount in host.resources.items() if _is_some(amount))
    return [name for name in has if not _is_some(host.available.get(name))]


def _is_some(amount: object) -> bool:
    return is_amount(amount) and amount > 0
