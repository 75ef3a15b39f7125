"""Whatever is given to the parser, the outcome is a constraint that works or a ConstraintError that
can be read."""

import json

from hypothesis import given
from hypothesis import strategies as st

from builders.random_constraints import nodes
from hpc.autoscale.errors import ConstraintError
from hpc.autoscale.node.constraints import get_constraint, get_constraints
from hpc.autoscale.node.constraints.parse import KEYWORDS
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES

KEYS = st.one_of(
    st.sampled_from(sorted(KEYWORDS)),
    st.sampled_from([f"node.{name}" for name in QUERYABLE_PROPERTIES]),
    st.sampled_from(["ncpus", "mem", "owner", "class", "node.", "node.nothing", "resource-name"]),
    st.text(max_size=3),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**300, max_value=10**320),
    st.floats(),
    st.sampled_from(["true", "0", "memory::4g", "size::1", "size::", "memory::4q", "size::1e999"]),
    st.text(max_size=4),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
POOL_KEYS = ["resource-name", "source", "sources", "initial-value", "initial-values"]
POOL_KEYS += ["current-value", "requested", "decrement-once", "target"]
POOLS = st.dictionaries(
    st.sampled_from(["shared-consumable-constraint", "shared-non-consumable-constraint"]),
    st.dictionaries(st.sampled_from(POOL_KEYS), JSON, min_size=3),
    min_size=1,
)


def read(expr):
    """The constraints of an expression, or None with an error that can be read."""
    try:
        return get_constraints(expr)
    except ConstraintError as e:
        assert "expected" in str(e)
        assert len(str(e)) < 5000
        return None


@given(JSON | POOLS)
def test_only_constraint_errors(expr):
    """Nothing else is raised, whatever the JSON."""
    read(expr)


@given(st.dictionaries(KEYS, JSON, min_size=1, max_size=3) | POOLS, nodes())
def test_whatever_is_read_can_be_asked(expr, node):
    """A constraint that was read answers every question without raising, and says what it is."""
    for constraint in read(expr) or ():
        result = constraint.satisfied_by_node(node)
        assert str(result)
        assert result or result.reasons
        assert constraint.minimum_space(node) >= -1
        assert str(constraint)
        constraint.lower()


@given(st.dictionaries(KEYS, JSON, min_size=1, max_size=3) | POOLS)
def test_whatever_is_read_can_be_written(expr):
    """And its dict reads back as itself."""
    for constraint in read(expr) or ():
        text = json.dumps(constraint.to_dict(), default=lambda size: size.to_json())
        if "NaN" not in text:
            assert get_constraint(json.loads(text)) == constraint
