"""The codes of causes: what each stands for, how near it is to being lifted, and how a job stands
that has nothing but it in the way."""

from __future__ import annotations

from typing import NamedTuple

from hpc.autoscale.results.verdicts import Stand


class CauseKind(NamedTuple):
    """`nearness`: 0 is lifted first, by nobody's doing; then come what somebody sets in the
    cluster, what Azure must grant, what the job itself asks for. `meaning`: for the table of
    codes."""

    nearness: int
    stand: Stand
    meaning: str


_BY_ITSELF, _TIMED, _BUSY, _CLUSTER, _QUOTA, _TOO_SMALL, _UNUSABLE, _ASKED, _OTHER = range(9)
_LAST = 9

AFTER_LIMITS = _QUOTA + 1
"""How near machines are that have other work and that nobody can have more of: every limit of
others is nearer."""

CODES: dict[str, CauseKind] = {
    "Running": CauseKind(_BY_ITSELF, Stand.HAS, "It runs."),
    "HasNodes": CauseKind(
        _BY_ITSELF, Stand.HAS, "Its nodes are ready: the scheduler is to start it."
    ),
    "Starts": CauseKind(_BY_ITSELF, Stand.COMES, "The next pass starts nodes for it."),
    "WaitsForBoot": CauseKind(_BY_ITSELF, Stand.COMES, "Nodes that are meant for it boot."),
    "HeldByCap": CauseKind(
        _BY_ITSELF, Stand.COMES, "A pass asks for no more nodes than its cap; later ones go on."
    ),
    "RoomByNow": CauseKind(
        _BY_ITSELF,
        Stand.WAITS,
        "Room has come since nodes were planned: the next pass tries again.",
    ),
    "GangGathers": CauseKind(_TIMED, Stand.WAITS, "A part of its nodes has come; the rest is due."),
    "ThrottleBackoff": CauseKind(_TIMED, Stand.WAITS, "Azure has had too many requests."),
    "CapacityBackoff": CauseKind(
        _TIMED, Stand.WAITS, "Azure had no capacity for the size a while ago."
    ),
    "EvictedBackoff": CauseKind(
        _TIMED, Stand.WAITS, "Spot nodes of the size were evicted a while ago."
    ),
    "BootBackoff": CauseKind(_TIMED, Stand.WAITS, "Nodes of the bucket did not become ready."),
    "HostBackoff": CauseKind(
        _TIMED, Stand.WAITS, "Hosts of new nodes of the bucket took no work of the scheduler."
    ),
    "RefusedBackoff": CauseKind(
        _TIMED, Stand.WAITS, "CycleCloud refused to make nodes of the bucket."
    ),
    "QuotaBackoff": CauseKind(_TIMED, Stand.WAITS, "Azure said that a quota is exceeded."),
    "SubscriptionBackoff": CauseKind(_TIMED, Stand.WAITS, "The subscription cannot be used."),
    "Busy": CauseKind(_BUSY, Stand.WAITS, "The machines that would do have other work."),
    "PoolEmpty": CauseKind(_BUSY, Stand.WAITS, "What jobs share, such as licences, is used up."),
    "ClusterAway": CauseKind(_CLUSTER, Stand.WAITS, "One of several clusters does not answer."),
    "BucketLimit": CauseKind(_CLUSTER, Stand.WAITS, "The server has no room for more of a size."),
    "NodearrayLimit": CauseKind(_CLUSTER, Stand.WAITS, "MaxCoreCount or MaxCount of a nodearray."),
    "ClusterLimit": CauseKind(_CLUSTER, Stand.WAITS, "MaxCoreCount or MaxCount of the cluster."),
    "GroupFull": CauseKind(_CLUSTER, Stand.WAITS, "A placement group takes no more nodes."),
    "FamilyQuota": CauseKind(_QUOTA, Stand.WAITS, "The quota of a VM family in a region."),
    "RegionQuota": CauseKind(_QUOTA, Stand.WAITS, "The quota of all cores in a region."),
    "SpotQuota": CauseKind(_QUOTA, Stand.WAITS, "The quota of spot cores in a region."),
    "GroupTooSmall": CauseKind(
        _TOO_SMALL, Stand.NEVER, "More nodes in one group than it may have."
    ),
    "NodearrayDisabled": CauseKind(
        _UNUSABLE, Stand.NEVER, "The nodearray has autoscale.enabled=false."
    ),
    "SizeNotActivated": CauseKind(
        _UNUSABLE, Stand.NEVER, "The size is not activated in CycleCloud."
    ),
    "SizeRetired": CauseKind(_UNUSABLE, Stand.NEVER, "CycleCloud has disabled the size."),
    "SizeUnusable": CauseKind(
        _UNUSABLE, Stand.NEVER, "CycleCloud says that the size cannot be used."
    ),
    "TooLarge": CauseKind(_ASKED, Stand.NEVER, "More of a resource than any node has."),
    "UnknownResource": CauseKind(_ASKED, Stand.NEVER, "A resource that no node has: often a typo."),
    "UnknownValue": CauseKind(_ASKED, Stand.NEVER, "A value that no node has: often a typo."),
    "SizeNotInRegion": CauseKind(_ASKED, Stand.NEVER, "A VM size that Azure does not have there."),
    "NoSuchNode": CauseKind(_ASKED, Stand.NEVER, "It wants a node or a host that there is not."),
    "NeverAllowed": CauseKind(_ASKED, Stand.WAITS, "The job says itself that it must wait."),
    "NothingOffered": CauseKind(_ASKED, Stand.NEVER, "The cluster offers no nodes."),
    "OtherValue": CauseKind(_OTHER, Stand.NEVER, "Nodes have another value than the job wants."),
    "NoAlternative": CauseKind(_OTHER, Stand.NEVER, "None of the job's alternatives fits."),
    "Excluded": CauseKind(_OTHER, Stand.NEVER, "The job rules these nodes out."),
    "Constraint": CauseKind(_OTHER, Stand.NEVER, "A constraint of the integration says no."),
    "PlacementGroup": CauseKind(
        _OTHER, Stand.NEVER, "It must be in a placement group, or in none."
    ),
    "NodesClosed": CauseKind(_OTHER, Stand.WAITS, "The nodes that would do take no work now."),
    "OtherNodearray": CauseKind(_LAST, Stand.NEVER, "The job wants another nodearray."),
    "SetAside": CauseKind(
        _ASKED, Stand.NEVER, "The job makes no sense to the driver or the engine."
    ),
    "NotInQueue": CauseKind(_ASKED, Stand.UNKNOWN, "The scheduler has no such job."),
    "ServerAway": CauseKind(_ASKED, Stand.UNKNOWN, "CycleCloud does not answer."),
    "Credentials": CauseKind(_ASKED, Stand.UNKNOWN, "CycleCloud refuses the credentials."),
    "DriverDown": CauseKind(_ASKED, Stand.UNKNOWN, "The scheduler cannot be asked."),
    "Contradiction": CauseKind(_ASKED, Stand.UNKNOWN, "CycleCloud contradicts itself."),
    "Error": CauseKind(_ASKED, Stand.UNKNOWN, "Something else went wrong."),
    "Unexplained": CauseKind(_OTHER, Stand.WAITS, "Nothing that is known is in the way."),
}
"""Every code of a cause of a job."""

OF_BACKOFF = {
    "throttle": "ThrottleBackoff",
    "capacity": "CapacityBackoff",
    "evicted": "EvictedBackoff",
    "boot": "BootBackoff",
    "host": "HostBackoff",
    "refused": "RefusedBackoff",
    "quota": "QuotaBackoff",
    "subscription": "SubscriptionBackoff",
}
"""The codes of what is in back-off, by kind of failure."""
