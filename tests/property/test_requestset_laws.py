"""Laws of request sets: what stands adds up in nodes, and a set moves only its own share."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale import clock
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.job.demandcalculator import new_demand_calculator
from hpc.autoscale.node.nodehistory import NullNodeHistory
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.requestsets.demand import requested_jobs
from hpc.autoscale.requestsets.recording import record
from hpc.autoscale.requestsets.store import RequestSet, RequestStore

CORES = {"small": 4, "large": 16}
NAMES = sorted(CORES)
SIZES = {"small": "Standard_F4s_v2", "large": "Standard_F16s_v2"}

definitions = (
    st.fixed_dictionaries(
        {"Name": st.sampled_from(NAMES)},
        optional={"TargetCount": st.integers(0, 9)},
    )
    | st.builds(
        lambda name, cores: {"Name": name, "TargetCoreCount": cores},
        st.sampled_from(NAMES),
        st.integers(0, 70),
    )
    | st.builds(
        lambda name, groups, cores: {
            "Name": name,
            "TargetGroupCount": groups,
            "GroupCoreCount": cores,
        },
        st.sampled_from(NAMES),
        st.integers(0, 3),
        st.integers(1, 40),
    )
)
definitions |= st.builds(
    lambda base, count: {"Name": "new", "Dynamic": True, "Extends": base, "TargetCount": count},
    st.sampled_from(NAMES),
    st.integers(0, 9),
)
wishes = st.lists(definitions, max_size=2, unique_by=lambda d: d["Name"])
# who reports, what, when, and for how long
reports = st.lists(
    st.tuples(
        st.sampled_from("abc"), wishes, st.integers(0, 400), st.sampled_from([0, 300, 301, 900])
    ),
    max_size=8,
)


def wanted_of(definition):
    """The nodes that one definition stands for, by array, as CycleCloud counts them: rounded up by
    itself."""
    name = definition["Name"]
    each = CORES[definition.get("Extends", name)]
    cores = definition.get("TargetCoreCount", 0)
    found = Counter({name: definition.get("TargetCount", 0) + -(-cores // each)})
    if "GroupCoreCount" in definition:
        size = definition["GroupCoreCount"]
        found[f"{name}:{size}"] = definition["TargetGroupCount"] * -(-size // each)
    return found


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The nodes per nodearray that a pass would have, for the request sets in a file."""

    def plan(path):
        binding = MockClusterBinding("c")
        for name in NAMES:
            binding.add_nodearray(name, {}, max_count=1000, max_core_count=100_000)
            binding.add_bucket(name, SIZES[name], 1000, 1000)
        config = {"_mock_bindings": binding, "requestsetsdb": str(path), "lock_file": None}
        manager = new_node_manager(config)
        jobs = requested_jobs(config, "", manager)
        calculator = new_demand_calculator(config, node_mgr=manager, node_history=NullNodeHistory())
        calculator.add_jobs(jobs)
        return Counter(node.nodearray for node in calculator.get_demand().new_nodes)

    return plan


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file that is made anew for each example."""
    directory = tmp_path_factory.mktemp("sets")

    def new():
        path = directory / "sets.db"
        path.unlink(missing_ok=True)
        return path

    return new


@given(reports)
def test_what_stands_adds_up_in_nodes(planned, file, told):
    """Whoever reported last of a set counts, until the set lapses; each share is rounded up."""
    path = file()
    mock = clock.use_mock_clock()
    standing = {}
    for name, wish, later, interval in told:
        mock.now += later
        ends = mock.now + max(300, interval)
        arrays = [definition["Name"] for definition in wish]
        RequestStore(str(path)).replace(RequestSet(name, mock.now, ends, wish), arrays)
        standing[name] = (ends, wish)
    expected = Counter()
    for ends, wish in standing.values():
        if mock.now < ends:
            for definition in wish:
                expected += wanted_of(definition)
    assert planned(path) == +expected


@given(wishes, wishes, wishes)
def test_a_set_moves_only_its_own_share(planned, file, others, before, after):
    """Whatever a set wants now, or when it lapses: the share of the other one is the same."""
    path = file()
    store = RequestStore(str(path))
    clock.use_mock_clock()

    def told(name, wish, seconds=300.0):
        store.replace(RequestSet(name, clock.time(), clock.time() + seconds, wish), [])
        return planned(path)

    alone = told("others", others)
    with_before = told("own", before)
    with_after = told("own", after)
    assert with_before == sum(map(wanted_of, before), alone)
    assert with_after == sum(map(wanted_of, after), alone)
    assert told("own", before, seconds=0.0) == alone  # it has lapsed
    assert told("own", []) == alone


@given(wishes, st.integers(-10, 2_000))
def test_no_wish_lapses_before_five_minutes(tmp_path_factory, wish, seconds):
    """A longer interval is kept, a shorter one counts as 300; less than nothing is a mistake."""
    binding = MockClusterBinding("c")
    for name in NAMES:
        binding.add_nodearray(name, {}, max_count=10, max_core_count=1000)
        binding.add_bucket(name, SIZES[name], 10, 10)
    store = RequestStore(str(tmp_path_factory.mktemp("one") / "sets.db"))
    mock = clock.use_mock_clock()
    try:
        record({"_mock_bindings": binding}, store, wish, "s", seconds)
    except RuntimeError:
        assert seconds < 0
        assert store.sets() == []
        return
    (one,) = store.sets()
    assert one.stands(mock.now + max(300, seconds) - 0.001)
    assert not one.stands(mock.now + max(300, seconds))
