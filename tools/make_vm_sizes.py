"""Write the VM-size catalogue that the package carries from the raw Azure data.

Run by a maintainer when the raw data change; nothing in the library imports it. The same input
gives the same bytes.

    python tools/make_vm_sizes.py azure_vm_sizes.json azure_regions.json [--out DIR]

DIR is where the catalogue goes, src/hpc/autoscale/node unless given.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Regions whose SKU lists are not public, and the public region whose sizes stand in for theirs.
STAND_IN = "southcentralus"
PROXIED = (
    "usdodcentral",
    "usdodeast",
    "usdodtexas",
    "usgovarizona",
    "usgoviowa",
    "usgovtexas",
    "usgovvirginia",
    "usseceast",
    "ussecwest",
)

# Facts copied under the name that the raw data give them. What is false or absent is left out.
COPIED = (
    "family",
    "vcpus",
    "vcpus_avail",
    "per_core",
    "mem_gib",
    "gpus",
    "gpu",
    "gpu_mem_gib",
    "gpu_frac",
    "rdma",
    "accel_net",
    "spot",
    "premium_io",
    "temp_gib",
    "nvme_gib",
    "parent",
)
USUAL_ARCHITECTURE = "x64"
SOURCES = (
    "Facts from kubernetes/autoscaler (Apache-2.0), microsoft/aspire (MIT), "
    "Azure/karpenter-provider-azure (Apache-2.0), Azure/cyclecloud-scalelib (MIT), "
    "the Azure Retail Prices API and, for the spot ratios, SkyPilot's Azure catalogue; "
    "what no source states follows from Azure's naming conventions."
)

Raw = Mapping[str, Any]


def compact_record(raw: Raw) -> dict[str, Any]:
    """What the package keeps of one size: facts only, without their sources."""
    record = {key: raw[key] for key in COPIED if raw.get(key) not in (None, False)}
    if raw.get("local_disk") is False:
        record["temp_gib"] = 0
    if raw.get("arch", USUAL_ARCHITECTURE) != USUAL_ARCHITECTURE:
        record["arch"] = raw["arch"]
    return record


def size_lines(data: Raw, regions: Sequence[Raw]) -> str:
    """vm_sizes.json: one line for each size, so that it can be edited and compared by hand."""
    locations = sorted({*data["regions"], *(region["name"] for region in regions)})
    head = {
        "_comment_": "Azure VM sizes, written by tools/make_vm_sizes.py. A size is known in every "
        "location. proxied-locations: a location that is not in the list borrows the sizes of "
        "another.",
        "_sources_": SOURCES,
        "proxied-locations": dict.fromkeys(PROXIED, STAND_IN),
        "locations": locations,
    }
    top = json.dumps(head, indent=1)[:-2]
    rows = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(compact_record(raw), separators=(',', ':'))}"
        for name, raw in sorted(data["sizes"].items())
    )
    return f'{top},\n "sizes": {{\n{rows}\n }}\n}}\n'


def price_table(data: Raw) -> dict[str, Any]:
    """vm_prices.json: on-demand prices by region, and how much of them spot machines of a series
    cost."""
    # a meter at 0 is a placeholder of the price service: unknown, as null is
    priced = {
        name: [price or None for price in raw["usd_h"]]
        for name, raw in sorted(data["sizes"].items())
        if any(raw.get("usd_h", ()))
    }
    series: dict[str, list[str]] = {}
    for name, raw in sorted(data["sizes"].items()):
        if "spot_series" in raw:
            series.setdefault(raw["spot_series"], []).append(name)
    meta = data["_meta"]
    return {
        "_sources_": SOURCES,
        "basis": meta["price_basis"],
        "date": meta["prices_generated"][:10],
        "locations": data["regions"],
        "usd_per_hour": priced,
        "spot": {
            name: {"ratio": data["spot_ratios"][name], "sizes": sizes}
            for name, sizes in sorted(series.items())
        },
    }


def write(data: Raw, regions: Sequence[Raw], folder: Path) -> list[Path]:
    """Write both files into the folder; returns their paths."""
    sizes, prices = folder / "vm_sizes.json", folder / "vm_prices.json.gz"
    sizes.write_text(size_lines(data, regions), encoding="utf-8")
    text = json.dumps(price_table(data), separators=(",", ":"))
    # a time stamp or a file name in the gzip header would differ from run to run
    prices.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    return [sizes, prices]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    default_out = Path(__file__).resolve().parent.parent / "src/hpc/autoscale/node"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sizes", type=Path, help="the merged catalogue (azure_vm_sizes.json)")
    parser.add_argument("regions", type=Path, help="the list of regions (azure_regions.json)")
    parser.add_argument("--out", type=Path, default=default_out, help="folder to write into")
    args = parser.parse_args(argv)
    data = json.loads(args.sizes.read_text(encoding="utf-8"))
    regions = json.loads(args.regions.read_text(encoding="utf-8"))
    for path in write(data, regions, args.out):
        print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
