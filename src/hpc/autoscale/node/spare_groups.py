"""Placement groups that are made before anybody asks for one, so that gangs find a place to go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, islice
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.config.naming import spare_group
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.nodemanager import NodeManager
from hpc.autoscale.util import partition

# How many placement groups without use are kept at hand, and how many a nodearray may have at most,
# where the configuration says nothing.
PLACEMENT_GROUP_BUFFER = 2
MAX_PLACEMENT_GROUPS = 10_000


def add_default_placement_groups(config: Mapping[str, Any], node_mgr: NodeManager) -> None:
    """Make spare placement groups `<vm size>_pg<i>` for every VM size that can be colocated; none
    for machines that cannot be ordered, such as hosts on premises.

    A nodearray whose groups are named in the configuration (its own section, or that of `default`)
    gets none. `generated_placement_group_buffer` new ones are made per VM size, never more than
    `max_placement_groups` in a nodearray altogether.
    """
    sections = config.get("nodearrays") or {}
    by_size = partition(node_mgr.get_buckets(), lambda each: (each.nodearray, each.vm_size))
    for (nodearray, vm_size), alike in by_size.items():
        plain = next((each for each in alike if not each.placement_group), None)
        if plain is None or plain.is_artificial or not plain.supports_colocation:
            continue
        found = [each for each in (sections.get(nodearray), sections.get("default")) if each]
        if any(section.get("placement_groups") for section in found):
            logging.debug("nodearray %s names its placement groups: none generated", nodearray)
            continue
        buckets = (each for each in node_mgr.get_buckets() if each.nodearray == nodearray)
        taken = {each.placement_group for each in buckets} - {None, ""}
        buffer = _count(found, plain, "generated_placement_group_buffer", PLACEMENT_GROUP_BUFFER)
        allowed = _count(found, plain, "max_placement_groups", MAX_PLACEMENT_GROUPS)
        spare = (name for i in count() if (name := spare_group(vm_size, i)) not in taken)
        for name in islice(spare, max(0, min(buffer, allowed - len(taken)))):
            node_mgr.add_placement_group(name, plain)


def _count(
    sections: Sequence[Mapping[str, Any]], bucket: NodeBucket, key: str, otherwise: int
) -> int:
    found = next((s[key] for s in sections if s.get(key) is not None), otherwise)
    try:
        return int(found)
    except (TypeError, ValueError):
        raise ConfigurationException(
            f"nodearrays.{bucket.nodearray}.{key}: expected a whole number, found {found!r}"
        ) from None
