"""How long the VMs of clusters ran, and the answer to GET usage.

The orchestrator tells a `UsageLog` when a VM begins and ends; `SimCluster.usage` asks it. A VM is
counted from when it is up to when it is gone, as it is billed. There are no prices here: a report
has core-hours and no cost.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hpc.autoscale.ccbindings import models
from hpc.autoscale.simulator.attributes import timestamp
from hpc.autoscale.simulator.errors import BadRequest
from hpc.autoscale.simulator.nodes import SimNode
from hpc.autoscale.simulator.reading import shown

TIMEFRAMES = ("monthToDate", "lastMonth", "weekToDate", "custom")
GRANULARITIES = ("daily", "hourly", "total")
_MOST_INTERVALS = 20_000
_HOUR, _DAY = 3600.0, 86400.0

# whose cores: category and name; and of which kind: VM size, cores of one, region, priority
_Share = tuple[str, str, str, int, str, str]


@dataclass(frozen=True)
class UsageQuery:
    """The question that a report answers. Raises BadRequest for what cannot be understood."""

    timeframe: str | None = None
    start: str | None = None
    end: str | None = None
    granularity: str | None = None
    details: bool = False

    def bounds(self, now: float) -> tuple[float, float, float]:
        """The start and the end of the report, and how long one interval is.

        They are whole hours, or whole days where the report is by days.
        """
        granularity = _choice("granularity", self.granularity, GRANULARITIES)
        timeframe = _choice("timeframe", self.timeframe, TIMEFRAMES)
        start, end = self._custom() if timeframe == "custom" else _frame(timeframe, now)
        unit = _DAY if granularity == "daily" else _HOUR
        start, end = math.floor(start / unit) * unit, math.ceil(end / unit) * unit
        step = max(unit, end - start) if granularity == "total" else unit
        if (end - start) / step > _MOST_INTERVALS:
            raise BadRequest(f"expected a time of at most {_MOST_INTERVALS} intervals")
        return start, end, step

    def _custom(self) -> tuple[float, float]:
        start, end = _moment("from", self.start), _moment("to", self.end)
        if end < start:
            raise BadRequest(f"to: expected a time after {self.start}, found {shown(self.end)}")
        return start, end


@dataclass
class _Run:
    """The run of one VM, from when it was up; `end` is None while it is up."""

    cluster: str
    category: str
    name: str
    vm_size: str
    cores: int
    region: str
    priority: str
    start: float
    end: float | None = None


class UsageLog:
    """Every VM that ran.

    A report costs the number of VMs times the number of intervals that each ran in.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._running: dict[str, _Run] = {}

    def vm_up(self, node: SimNode, now: float) -> None:
        """Note that the VM of a node is up; nothing happens when it was up before."""
        if node.node_id in self._running:
            return
        array = node.nodearray
        run = _Run(
            node.cluster,
            "nodearray" if array.is_array else "node",
            array.name,
            node.machine_type.name,
            node.machine_type.vcpus,
            array.region,
            "Spot" if array.spot else "Regular",
            now,
        )
        self._running[node.node_id] = run
        self._runs.append(run)

    def vm_gone(self, node: SimNode, now: float) -> None:
        """Note that the VM of a node is gone, if it had one."""
        run = self._running.pop(node.node_id, None)
        if run is not None:
            run.end = now

    def report(self, cluster: str, query: UsageQuery, now: float) -> models.ClusterUsage:
        """The core-hours of a cluster."""
        start, end, step = query.bounds(now)
        shares: dict[int, dict[_Share, float]] = defaultdict(lambda: defaultdict(float))
        for run in self._runs:
            if run.cluster == cluster:
                share = (run.category, run.name, run.vm_size, run.cores, run.region, run.priority)
                for index, seconds in _spread(run, start, end, step, now):
                    shares[index][share] += seconds * run.cores / _HOUR
        count = math.ceil((end - start) / step)
        return models.ClusterUsage(
            usage=[
                _interval(start + i * step, min(end, start + (i + 1) * step), shares[i], query)
                for i in range(count)
            ]
        )


def _spread(
    run: _Run, start: float, end: float, step: float, now: float
) -> Iterator[tuple[int, float]]:
    """The intervals in which a VM ran, and how many seconds it ran in each."""
    first, last = max(run.start, start), min(now if run.end is None else run.end, end)
    while first < last:
        index = int((first - start) // step)
        until = min(last, start + (index + 1) * step)
        yield index, until - first
        first = until


def _interval(
    start: float, end: float, shares: dict[_Share, float], query: UsageQuery
) -> models.ClusterUsageInterval:
    def item(
        category: str, name: str | None, belongs: Callable[[_Share], bool]
    ) -> models.ClusterUsageItem:
        mine = {share: hours for share, hours in shares.items() if belongs(share)}
        return models.ClusterUsageItem(
            category=category,
            node=name,
            hours=round(sum(mine.values()), 6),
            details=_details(mine) if query.details else None,
        )

    owners = dict.fromkeys(share[:2] for share in shares)
    return models.ClusterUsageInterval(
        start=timestamp(start),
        end=timestamp(end),
        total=item("cluster", None, lambda share: True),
        breakdown=[
            item(*owner, lambda share, owner=owner: share[:2] == owner)  # type: ignore[misc]
            for owner in sorted(owners)
        ],
    )


def _details(shares: dict[_Share, float]) -> list[models.ClusterUsageItemDetails]:
    by_kind: dict[tuple[str, int, str, str], float] = defaultdict(float)
    for share, hours in shares.items():
        by_kind[share[2:]] += hours
    return [
        models.ClusterUsageItemDetails(
            vm_size=size,
            hours=round(hours, 6),
            core_count=cores,
            region=region,
            priority=priority,
            os="Linux",
        )
        for (size, cores, region, priority), hours in sorted(by_kind.items())
    ]


def _choice(name: str, value: str | None, options: tuple[str, ...]) -> str:
    if value is not None and value not in options:
        raise BadRequest(f"{name}: expected one of {', '.join(options)}, found {shown(value)}")
    return value or options[0]


def _frame(timeframe: str, now: float) -> tuple[float, float]:
    """The start and the end of a timeframe that goes by the calendar, in UTC."""
    midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if timeframe == "weekToDate":
        days_since_sunday = (midnight.weekday() + 1) % 7
        return (midnight - timedelta(days=days_since_sunday)).timestamp(), now
    month = midnight.replace(day=1)
    if timeframe == "lastMonth":
        return (month - timedelta(days=1)).replace(day=1).timestamp(), month.timestamp()
    return month.timestamp(), now


def _moment(name: str, text: str | None) -> float:
    if text is None:
        raise BadRequest(f"{name}: expected a time, because timeframe is custom; found nothing")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(f"{name}: expected a time as in ISO-8601, found {shown(text)}") from None
    if not 1000 < moment.year < 9999:
        # beyond these years are times that ISO-8601 and the calendar of Python cannot name
        raise BadRequest(f"{name}: expected a time of the years 1001 to 9998, found {shown(text)}")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
