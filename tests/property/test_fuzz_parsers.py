"""Whatever a parser is given, what comes out is a result or an error that it documents."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.parsers import PARSERS, configuration
from hpc.autoscale.ccbindings.settings import pacing, timeouts
from hpc.autoscale.config import config_schema
from hpc.autoscale.config.check import find_problems
from hpc.autoscale.config.timeouts import parse_boot_timeout
from hpc.autoscale.errors import ConfigurationException

SETTINGS = sorted(config_schema()["properties"])
WORDS = [
    *SETTINGS, "and", "or", "not", "xor", "never", "ncpus", "node.vm_size", "node.vcpu_count",
    "memgb", "ngpus", "weight", "in-alphabetical-order", "exclusive", "exclusive_task", "readonly",
    "select", "name", "value", "default", "nodes", "nodearrays", "buckets", "bucketId", "maxCount",
    "maxCoreCount", "definition", "machineType", "sets", "added", "operationId", "operation",
    "Message", "Detail", "Name", "TargetCount", "TargetCoreCount", "Definition", "Dynamic",
    "Extends", "MachineType", "GroupSize", "connect", "read", "attempts", "max_retry_after",
    "interval", "include", "usage", "breakdown", "instance", "reason",
]  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(WORDS),
    st.sampled_from(
        [">=4", "<", "==", "!=x", "in", "4g", "4gb", "1e400", "-1", "nan", "inf", "0x10", "١٢",
         "Basic dTpw", "Basic =", "instance=a&instance=b", "instance=%ff", "GET", "\x00", "node.",
         "node..x", "{", "[]", "{}", '{"a": 1, "a": 2}', "null", "NaN", "1" * 5000, "\ud800",
         "[" * 3000, "SQLite format 3\x00"]
    ),
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**18, max_value=10**400),
    st.floats(),
    TEXTS,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=5)),
    max_leaves=12,
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing is logged: a line for each example is no use to anybody."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=VALUES)
def test_anything(parse: Callable[[Any], None], value: Any) -> None:
    """Values of the shapes that it knows, with anything in them."""
    parse(value)


@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
def test_what_is_nested_too_deeply(parse: Callable[[Any], None]) -> None:
    """It is refused, and the stack is not used up."""
    lists: Any = []
    dicts: Any = {}
    for _ in range(150):
        lists, dicts = [lists], {"and": [dicts]}
    parse(lists)
    parse(dicts)
    parse("[" * 100_000)
    parse('{"a":' * 100_000)


@pytest.mark.parametrize("key", ["boot_timeout", "idle_timeout", "timeout"])
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"default": value}])
def test_a_number_too_large_for_floats(key: str, wrap: Callable[[int], Any]) -> None:
    """OverflowError came out."""
    configuration({key: wrap(10**400)})
    with pytest.raises(ConfigurationException):
        timeouts({"timeout": 10**400})
    with pytest.raises(ConfigurationException):
        parse_boot_timeout({"boot_timeout": 10**400})


@pytest.mark.parametrize("path", [True, 7, [], "/", ".", {"a": 1}])
def test_a_requests_file_that_is_no_path(path: object) -> None:
    """TypeError and ValueError came out."""
    with pytest.raises(ConfigurationException, match="requests_file: expected the path"):
        pacing({"requests_file": path or [0]})


def test_one_that_is_no_list_of_resources() -> None:
    """`azscale config --check` ended with a stack trace."""
    assert [p.split(":")[0] for p in find_problems({"default_resources": True})] == [
        "default_resources"
    ]
