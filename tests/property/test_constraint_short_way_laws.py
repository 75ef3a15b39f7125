"""What the short way makes of amounts and values is what the parser makes of them, or nothing."""

from marshal import dumps

from hypothesis import example, given
from hypothesis import strategies as st

from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.node.constraints import (
    compile_constraints,
    compile_expressions,
    get_constraints,
)

NAMES = ("ncpus", "memgb", "owner", "node.vm_size") * 5 + (
    *("class", "exclusive", "never", "node.hostname", "in-a-placement-group", "and", "xor", ""),
)
UNITS = ("b", "k", "m", "g", "t", "p", "K", "G") * 2 + ("x", "kb", "")

numbers = st.one_of(
    st.integers(-2, 2**64), st.floats(allow_nan=False), st.booleans(), st.just(10**400)
)
sizes = st.builds(
    "{}::{}{}".format,
    st.sampled_from(("memory", "size", "disk", "mem")),
    st.one_of(
        st.integers(0, 9999),
        st.integers(-1, 10**20),
        st.floats(0, 1e300),
        st.sampled_from(("", "+4", " 4")),
    ),
    st.sampled_from(UNITS),
)
plain = st.one_of(st.integers(0, 99), st.sampled_from(("a", "b*")), sizes)
others = st.one_of(numbers, st.text(max_size=3), st.none(), st.lists(numbers, max_size=2))
values = plain | plain | others
texts = st.lists(st.sampled_from(("a", "b*", "memory::4g")), max_size=2)
leaves = st.dictionaries(st.sampled_from(NAMES), values | texts, max_size=3)
alternatives = st.fixed_dictionaries(
    {"or": st.lists(leaves, max_size=3)}, optional={"ncpus": values, "or ": values}
)
sources = st.lists(leaves | alternatives, max_size=3)


@given(sources)
@example([{"memgb": "memory::4g"}, {}, {"memgb": "memory::4096m", "ncpus": True}])
@example([{"memgb": "memory::9007199254740993b"}])
@example([{"or": [{"ncpus": 1, "node.vm_size": ["a", "b*"]}, {"ncpus": True}]}, {"ncpus": 1}])
@example([{"or": [{"ncpus": 1}, {}]}])
@example([{"ncpus": 1, "and": []}])
@example([{"or": [{"ncpus": 1}, {"or": [{"ncpus": 2}, {"ncpus": 1}]}]}])
@example([{"memgb": "memory::1." + "0" * 20 + "g", "owner": "size::" + "9" * 400 + "g"}])
def test_the_short_way_comes_to_the_same(source):
    """Where the parser refuses, the short way leaves it to the parser to say why."""
    short = compile_expressions(source, dumps(source, 2))
    try:
        long = compile_constraints(get_constraints(source))
    except AutoscaleError:
        long = None
    if short is not None:
        assert long is not None
        assert (short.expr, short.opaque, short.pooled) == (long.expr, long.opaque, long.pooled)
        assert [str(c) for c in short.constraints] == [str(c) for c in long.constraints]
