"""What an expression sees of a node that it looks at directly."""

from types import SimpleNamespace

import pytest

from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.node.contents import NodeView, split_sizes

VALUES = {
    "ncpus": 4,
    "memgb": Memory(1.5, "g"),
    "disk": Size(10, "G"),
    "owner": None,
    "nodearray": "htc",
}


@pytest.fixture
def seen():
    """What is seen of a node that has all kinds of resources."""
    return NodeView(SimpleNamespace(available=VALUES))


def test_sizes_are_bytes_with_a_unit(seen):
    """As in the shapes of the engine."""
    plain, units = split_sizes(VALUES)
    assert (seen.free, seen.units) == (plain, units)
    assert (len(seen.free), len(seen.units)) == (5, 2)
    assert [(name, seen.free[name]) for name in seen.free] == list(plain.items())
    assert [(name, seen.units[name]) for name in seen.units] == list(units.items())


@pytest.mark.parametrize("name", ["ncpus", "owner", "nothing"])
def test_only_sizes_have_units(seen, name):
    """A number has none, nor has what is not there."""
    assert name not in seen.units
    assert seen.units.get(name) is None
    assert seen.free.get(name) == VALUES.get(name)
    assert (name in seen.free) == (name in VALUES)
