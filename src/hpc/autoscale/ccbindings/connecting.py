"""The binding of several clusters, made from a configuration with `clusters`.

Each cluster is connected to by its own settings. One whose settings cannot be used is set aside
like one that does not answer. Called by `new_cluster_bindings`, which connects to each.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hpc.autoscale.ccbindings import settings
from hpc.autoscale.ccbindings.interface import ClusterBindingInterface
from hpc.autoscale.ccbindings.lastseen import LastSeen
from hpc.autoscale.ccbindings.several import Member, SeveralClusters
from hpc.autoscale.config.check import check_config
from hpc.autoscale.config.clusters import members_of
from hpc.autoscale.config.secrets import of_its_own
from hpc.autoscale.errors import AutoscaleError, ConfigurationException, one_line

Connect = Callable[[Mapping[str, Any]], ClusterBindingInterface]

REPLIES_WAITED_FOR = 2
"""How many replies a cluster may take its whole read timeout for, until it is set aside."""


def connect_several(config: Mapping[str, Any], connect: Connect) -> SeveralClusters:
    """The binding of the clusters of a configuration; nothing is sent yet.

    `connect` makes the binding of one. ConfigurationException when the list of clusters itself is
    wrong, or when not one of them has settings that can be used.
    """
    check_config({key: config[key] for key in ("clusters", "cluster_name") if config.get(key)})
    members = [_member(name, own, connect) for name, own in members_of(config)]
    errors = [each.binding for each in members if isinstance(each.binding, Exception)]
    if len(errors) == len(members):
        raise errors[0]
    seen = LastSeen(config.get("clustersdb"), bool(config.get("read_only")))
    return SeveralClusters(members, seen)


def check_members(config: Mapping[str, Any], connect: Connect) -> None:
    """ConfigurationException that names each cluster whose settings cannot be used. A pass goes on
    without such a cluster; this is for those who want to hear of a mistake. Nothing is sent."""
    members = [_member(name, own, connect) for name, own in members_of(config)]
    said = [
        f"cluster {each.name}: {one_line(each.binding)}"
        for each in members
        if isinstance(each.binding, Exception)
    ]
    if said:
        raise ConfigurationException("; ".join(said))


def _member(name: str, config: Mapping[str, Any], connect: Connect) -> Member:
    place = f"{config.get('cluster_name')} at {config.get('url') or config.get('credentials_file')}"
    try:
        own = of_its_own(config)
        timeouts = settings.timeouts(own)
        patience = timeouts.connect + REPLIES_WAITED_FOR * timeouts.read
        return Member(name, connect(own), place, patience)
    except AutoscaleError as error:
        return Member(name, error, place)
