"""The command cost: what the nodes of the cluster have cost, by nodearray and VM size.

Only `azscale` has it: integrations have cost reports of their own. Usage comes from CycleCloud.
Prices are Azure's retail prices, or the catalogue's while those cannot be had. `hpc.autoscale.cost`
works the costs out.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hpc.autoscale import clock
from hpc.autoscale.cli.argtypes import CommandLineError, warn
from hpc.autoscale.cli.base import CommandLine, Config
from hpc.autoscale.cli.painting import folded, table_width
from hpc.autoscale.config.clusters import members_of, qualified
from hpc.autoscale.config.secrets import of_its_own
from hpc.autoscale.cost.formats import az_array_hourly_retail_t, az_array_retail_t
from hpc.autoscale.cost.rates import CATALOGUE_METER
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.plaintext import amount_in_words
from hpc.autoscale.tables import OutputFormat, print_rows

_IN_TABLES = ["nodearray", "sku_name", "region", "spot", "core_hours", "rate", "cost", "currency"]


class CostCommands(CommandLine):
    """The command cost."""

    def cost_parser(self, parser: ArgumentParser) -> None:
        """Options of cost."""
        add = parser.add_argument
        add("--start", help="from when, as in 2026-01-31T12:00 (UTC); a day before the end")
        add("--end", help="until when (UTC); now")
        add("--hourly", action="store_true", help="hour by hour")
        self._add_output_format(parser)

    def cost(
        self,
        config: Config,
        start: str | None = None,
        end: str | None = None,
        hourly: bool = False,
        output_format: OutputFormat | None = None,
    ) -> None:
        """Prints what the nodes have cost, by nodearray and VM size: the last day, unless asked
        otherwise."""
        # takes long, and no other command needs it
        from hpc.autoscale.cost.azurecost import azurecost

        _, config = self._with_driver(config)
        until = _moment(end, "--end") or datetime.fromtimestamp(clock.time(), UTC)
        since = _moment(start, "--start") or until - timedelta(days=1)
        if since >= until:
            raise CommandLineError(
                f"expected a start before the end, found {clock.in_utc(since.timestamp())} and"
                f" {clock.in_utc(until.timestamp())}"
            )
        rows: list[az_array_retail_t | az_array_hourly_retail_t] = []
        failed: list[str] = []
        problems: dict[str, None] = {}
        prices = None
        for name, own in members_of(config) or [("", config)]:
            try:
                costs = azurecost(of_its_own(own) if name else own, prices=prices)
                prices = costs.prices
                read = costs.nodearray_hourly_rows if hourly else costs.nodearray_rows
                found: Sequence[az_array_retail_t | az_array_hourly_retail_t] = read(since, until)
            except AutoscaleError as error:
                if not name:
                    raise
                failed.append(f"cluster {name}: {error}")
                continue
            rows += [_of_cluster(name, row) for row in found]
            if costs.problem:
                problems[costs.problem] = None
        fields = (az_array_hourly_retail_t if hourly else az_array_retail_t)._fields
        columns = list(fields)
        if output_format != "json":
            columns = [*(["start"] if hourly else []), *_IN_TABLES]
        printed = [[_shown(row, column, output_format) for column in columns] for row in rows]
        print_rows(columns, printed, sys.stdout, output_format or "table", table_width())
        warn(folded(_total(rows, since, until, problems), sys.stderr))
        if failed:
            raise AutoscaleError("; ".join(failed))


def _of_cluster(
    name: str, row: az_array_retail_t | az_array_hourly_retail_t
) -> az_array_retail_t | az_array_hourly_retail_t:
    """A row with the cluster before its nodearray, where there are several."""
    return row._replace(nodearray=qualified(name, row.nodearray)) if name else row


def _shown(row: Any, column: str, output_format: OutputFormat | None) -> Any:
    """A value as it is printed: in tables figures are rounded, and no column has a space in it."""
    value = getattr(row, column)
    if output_format == "json" or value is None:
        return value
    if column == "cost":
        return _amount(value).replace(" ", "")
    return f"{value:.4f}" if column == "rate" else value


def _amount(value: float) -> str:
    return amount_in_words(value).replace(",", "")


def _moment(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        given = datetime.fromisoformat(text.strip())
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter for what is in no year in UTC
        raise CommandLineError(f"{option}: expected a time in ISO-8601, found {text!r}") from None


def _total(
    rows: Sequence[az_array_retail_t | az_array_hourly_retail_t],
    since: datetime,
    until: datetime,
    problems: Iterable[str],
) -> str:
    """The sum of all rows in words, with the period, what the sum leaves out, and why."""
    sums: dict[str, float] = {}
    for row in rows:
        if row.cost is not None:
            sums[row.currency] = sums.get(row.currency, 0.0) + row.cost
    said = " and ".join(f"{_amount(amount)} {currency}" for currency, amount in sums.items())
    period = f"from {since:%Y-%m-%dT%H:%M:%SZ} to {until:%Y-%m-%dT%H:%M:%SZ}"
    parts = [f"{said or 'nothing'} {period}"]
    unknown = sum(row.cost is None for row in rows)
    if unknown:
        parts.append(f"{unknown} of {len(rows)} rows have no known cost")
    if any(row.meter.startswith(CATALOGUE_METER) for row in rows):
        parts.append("prices are those of the offline catalogue: the price service did not answer")
    return "; ".join([*parts, *problems])
