"""`python -m hpc.autoscale.jetpack autoscale …`: what `jetpack autoscale` is on a cluster node.

It has the options of `azscale request`.
"""

from __future__ import annotations

import sys

from hpc.autoscale.cli import main
from hpc.autoscale.jetpack import config_path


def run(argv: list[str]) -> None:
    """Run one command; only `autoscale` is known here."""
    if not argv or argv[0] != "autoscale":
        print("usage: python -m hpc.autoscale.jetpack autoscale [options]", file=sys.stderr)
        raise SystemExit(2)
    main(["request", *argv[1:]], config_path())


if __name__ == "__main__":
    run(sys.argv[1:])
