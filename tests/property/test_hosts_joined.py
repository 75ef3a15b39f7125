"""What hosts say of nodes that are alike is worked out once: nodes, engine and log are as when each
host is taken by itself."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.hosts import no_name_service as no_name_service
from builders.log_lines import Lines
from builders.node_writes import STEPS, carry_out, look, states_of
from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.node.contents import server_id_of
from hpc.autoscale.packing import layers

NODES = 12
PLAIN = st.sampled_from([0, 1, 4, 5])
VALUES = PLAIN | st.sampled_from([1.0, True, "1", [1], Memory(1, "g"), Memory(1024, "m")])
TOTALS = tuple(("total", name) for name in ("ncpus", "memgb", "other", "own"))
LEFT = (("left", "ncpus"), ("left", "memgb"))
KINDS = ("jobs", "required", "metadata", "names_node")
NODE = st.integers(0, NODES - 1)
BEFORE = st.one_of(
    st.tuples(st.just("place"), st.integers(1, 4), st.integers(1, 6)),
    st.tuples(st.sampled_from(["assign", "close", "total", "fail"]), NODE),
    st.tuples(st.just("write"), NODE, st.sampled_from(["ncpus", "memgb"]), VALUES),
    st.tuples(st.just("look")),
)


@st.composite
def sayings(draw):
    """What hosts say: of some of them the same, but for one thing."""
    keys = draw(st.lists(st.sampled_from(TOTALS + LEFT), max_size=2, unique=True))
    first = {key: draw(VALUES) for key in keys}
    first |= {(kind, ""): draw(st.booleans()) for kind in KINDS}
    found = [first]
    for _ in range(draw(st.integers(0, 2))):
        key = draw(st.sampled_from([*first]))
        value = not first[key] if key[0] in KINDS else draw(VALUES)
        found.append({**first, key: value})
    return found


def a_cluster():
    """Nodes that are alike, and some that rest."""
    cluster = an_htc_cluster(40)
    for i in range(1, NODES + 1):
        state = "Ready" if i <= NODES - 5 else "Deallocated"
        cluster.add_node(f"htc-{i}", "htc", state=state, hostname=f"ip-{i}")
    return cluster


def host_of(node, said):
    """A host for a node."""
    totals = {"ccnodeid": server_id_of(node), "own": node.name} if said["names_node", ""] else {}
    totals |= {name: value for (kind, name), value in said.items() if kind == "total"}
    host = SchedulerNode(node.hostname_or_uuid, totals, "all")
    host.available.update({name: value for (kind, name), value in said.items() if kind == "left"})
    host.assignments.update("ab" if said["jobs", ""] else "")
    host.required = said["required", ""]
    host.metadata = {"queue": ["all.q"]} if said["metadata", ""] else {}
    return host


def outcome(cluster, before, said, picks, after, has_defaults):
    """All that can be seen of a cluster whose hosts are joined between some other steps."""
    manager = a_manager(cluster)
    if has_defaults:
        manager.add_default_resource({}, "ccnodeid", lambda node: node.delayed_node_id.node_id)
        manager.add_default_resource({}, "own", "node.name")
    calculator = DemandCalculator({}, manager)
    for number, step in enumerate(before):
        carry_out(manager, step, number)
    nodes = [node for node in manager.get_nodes() if not node._is_planned and node.managed]
    told = zip(nodes, picks, strict=False)
    hosts = [host_of(node, said[pick % len(said)]) for node, pick in told]
    heard = Lines()
    heard.setLevel(logging.WARNING)
    logging.getLogger().addHandler(heard)
    try:
        calculator.update_scheduler_nodes(hosts)
    finally:
        logging.getLogger().removeHandler(heard)
    shapes = [
        (shape.free, shape.units, shape.vacant, shape.closed, shape.dormant)
        for _, _, shape in states_of(manager)
    ]
    steps = [carry_out(manager, step, number) for number, step in enumerate(after, 100)]
    return heard.lines, shapes, steps, look(manager)


def both_ways(*steps):
    """The outcome where what hosts say is worked out once, and where it is for each."""
    cluster = a_cluster()
    for names in ((), ("hosts",)):
        layers.leave_out(*names)
        try:
            yield outcome(cluster, *steps)
        finally:
            layers.leave_out()


@settings(max_examples=200)
@given(
    st.lists(BEFORE, max_size=2),
    sayings(),
    st.lists(st.integers(0, 2), min_size=NODES, max_size=NODES),
    STEPS.map(lambda steps: steps[:3]),
    st.booleans(),
)
def test_hosts_that_say_the_same_are_as_each_by_itself(before, said, picks, after, has_defaults):
    """Whatever was written before, and is written or placed after."""
    once, each = both_ways(before, said, picks, after, has_defaults)
    assert once == each


@pytest.mark.parametrize(
    "said",
    [
        [{("left", "ncpus"): 1}, {("left", "ncpus"): 1.0}],
        [{("left", "ncpus"): 1.0}, {("left", "ncpus"): True}],
        [{("left", "memgb"): Memory(1, "g")}, {("left", "memgb"): Memory(1024, "m")}],
        [{("left", "memgb"): Memory(1, "g")}, {("left", "memgb"): Size(1, "g")}],
        [{("total", "ncpus"): 8, ("left", "ncpus"): 4}, {("left", "ncpus"): 4}],
        [{("total", "other"): 1, ("left", "ncpus"): one} for one in (1.0, True)],
        [{}, {("jobs", ""): False}],
        [{("left", "ncpus"): 1, ("jobs", ""): False}],
        [{("left", "gold"): 1}],
        [{}, {("total", "own"): "htc-1"}],
        [{("total", "other"): [1]}],
        [{("jobs", ""): False}, {("jobs", ""): False, ("required", ""): False}],
    ],
)
@pytest.mark.parametrize(
    "before", [[], [("place", 4, 6)], [("look",)], [("close", 0)], [("write", 2, "own", "x")]]
)
def test_hosts_that_say_nearly_the_same(said, before):
    """Numbers of other kinds, sizes in other units, and what the nodes themselves do not have."""
    said = [{**dict.fromkeys([(kind, "") for kind in KINDS], True), **each} for each in said]
    once, each = both_ways(before, said, [0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 0], [], True)
    assert once == each
