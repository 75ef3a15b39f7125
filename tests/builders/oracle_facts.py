"""What the engine's world and the naive packer's have in common: how requests differ, and what
machines have.

Like the naive packer it imports nothing of this library.
"""

from fractions import Fraction
from typing import Any

LARGE = 10**9

REQUEST = {
    # how: (most on one node, all in one bucket)
    "job-slots": (LARGE, False),
    "job-nodes": (1, True),
    "job-colocated": (LARGE, True),
    "job-scatter": (1, True),
    "slots": (LARGE, False),
    "nodes": (1, False),
    "whole-slots": (LARGE, True),
    "whole-nodes": (1, True),
    "new-slots": (LARGE, False),
}
"""How requests are placed: the most on one node, and whether all of it goes in one bucket."""


def machine_resources(machine: tuple[int, str | None]) -> dict[str, Any]:
    """All resources of a machine that cannot be ordered, so that no default is added. `machine`:
    cores, and owner."""
    cores, owner = machine
    return {
        **({"owner": owner} if owner else {}),
        "ncpus": cores,
        "pcpus": cores,
        "ngpus": 0,
        "nodearray": "unknown",
        "memb": "memory::8589934592b",
        "memkb": "memory::8388608k",
        "memmb": "memory::8192m",
        "memgb": "memory::8g",
        "memtb": "memory::8t",
    }


def rounded(value: object) -> object:
    """A number rounded to what matters; anything else as it is."""
    if isinstance(value, (int, float, Fraction)) and not isinstance(value, bool):
        return float(f"{float(value):.6g}")
    return value
