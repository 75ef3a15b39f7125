"""Prints demand (`hpc.autoscale.demandtable`), under the published name of the module."""

from hpc.autoscale.demandtable import DemandPrinter as DemandPrinter
from hpc.autoscale.demandtable import print_columns as print_columns
from hpc.autoscale.demandtable import print_demand as print_demand
from hpc.autoscale.hpclogging.printed import (
    ExcludeDemandPrinterFilter as ExcludeDemandPrinterFilter,
)
from hpc.autoscale.hpclogging.printed import logging_stream as logging_stream
from hpc.autoscale.tables import OutputFormat as OutputFormat
from hpc.autoscale.tables import calculate_column_widths as calculate_column_widths
from hpc.autoscale.tables import print_rows as print_rows
