"""Many nodes that are given default resources together get what each would get alone."""

from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import a_manager, a_planned_node, an_htc_cluster
from hpc.autoscale.hpctypes import Size
from hpc.autoscale.node.default_resources import Defaults, MemoryDefault, definition_from
from hpc.autoscale.node.default_resources.definition import NodeIdDefault
from hpc.autoscale.node.node.contents import NodeClass

DEFINITIONS = [
    definition_from({}, "ncpus", "node.vcpu_count"),
    definition_from({}, "memgb", MemoryDefault("g")),
    definition_from({}, "gold", "node.resources.silver"),
    definition_from({}, "silver", "node.resources.ncpus", "multiply", 2),
    definition_from({"ncpus": 3}, "large", True),
    definition_from({"node.vm_size": "Standard_F2"}, "small", True),
    definition_from({"node.name": "htc-2"}, "second", "node.name"),
    definition_from({}, "ccnodeid", NodeIdDefault()),
    definition_from({}, "called", lambda node: f"{node.name}!"),
    definition_from({}, "large", "node.hostname"),
    definition_from({}, "color", "node.software_configuration.color"),
    definition_from({}, "nothing", lambda node: None),
    definition_from({}, "nothing", "node.nodearray"),
    definition_from({}, "host", "node.hostname"),
    definition_from({}, "host", "default"),
    definition_from({}, "same", "node.resources.ccnodeid"),
    definition_from({"ccnodeid": "id-2"}, "chosen", 1),
]
RESOURCES = st.sampled_from(
    [{}, {"ncpus": 1}, {"ncpus": 1.0}, {"memgb": Size(1, "g")}, {"silver": None}, {"list": [1]}]
)
NODES = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from(["Standard_F2", "Standard_F4"]),
        st.sampled_from([1, 4]),
        RESOURCES,
        st.sampled_from([None, {"color": "red"}]),
    ),
    max_size=6,
)
CHOICES = st.lists(st.sampled_from(DEFINITIONS), unique=True)


def made(index, size, cores, resources, configuration):
    """A node of these."""
    return a_planned_node(
        name=f"htc-{index}",
        id=f"id-{index}",
        hostname=f"host-{index}",
        vm_size=size,
        vcpu_count=cores,
        resources=resources,
        software_configuration=configuration or {},
    )


def of_a_class(index, size, cores, resources, configuration):
    """The same, made as one of a class."""
    sample = made(index, size, cores, resources, configuration)
    return a_copy_of(sample, sample.name, sample.hostname, f"id-{index}")


def a_copy_of(sample, name, hostname, node_id=None):
    """One more node of its class."""
    node = NodeClass(sample).node(name)
    node.__dict__.update(_node_id=node_id, _hostname=hostname)
    return node


def have(node):
    """What a node has and has available, in order and with types."""
    return [
        [(name, type(value), value) for name, value in values.items()]
        for values in (node.resources, node.available)
    ]


def defaults_of(definitions):
    """All of these."""
    defaults = Defaults()
    for definition in definitions:
        defaults.add(definition)
    return defaults


@given(NODES, CHOICES)
def test_together_as_alone(nodes, definitions):
    """Whatever the nodes are and whatever is defined."""
    defaults = defaults_of(definitions)
    together = [made(*node) for node in nodes]
    defaults.apply_to(together)
    for node, drawn in zip(together, nodes, strict=True):
        alone = made(*drawn)
        defaults.apply(alone)
        assert have(node) == have(alone)


@given(NODES, CHOICES, CHOICES)
def test_of_a_class_as_alone(nodes, definitions, more):
    """Also where what each is given is made when somebody looks, and when there are more
    definitions later."""
    first, all_of_them = defaults_of(definitions), defaults_of([*definitions, *more])
    together = [of_a_class(*node) for node in nodes]
    first.apply_to(together)
    all_of_them.apply_to(together)
    for node, drawn in zip(together, nodes, strict=True):
        alone = made(*drawn)
        first.apply(alone)
        all_of_them.apply(alone)
        assert have(node) == have(alone)


@given(CHOICES)
def test_copies_of_a_prototype_as_new_nodes(definitions):
    """What is left to do to each copy makes of it what a new node would be."""
    defaults = defaults_of(definitions)
    prototype = a_planned_node(name="htc-9", hostname="new")
    rest = defaults.prepare(prototype)
    for name in ("htc-1", "htc-2"):
        copied = a_copy_of(prototype, name, f"host-{name}")
        if rest is not None:
            rest(copied)
        alone = a_planned_node(name=name, hostname=f"host-{name}")
        defaults.apply(alone)
        assert have(copied) == have(alone)


def test_planned_nodes_share_nothing_that_can_be_changed():
    """A write into one shows in no other, nor in what is planned later."""
    manager = a_manager(an_htc_cluster(resources={"tags": ["a"]}))
    first, second = manager.allocate({"ncpus": 4}, slot_count=2).nodes
    first.resources["tags"].append("b")
    first.available["tags"].append("c")
    first.metadata["seen"] = True
    first.node_attribute_overrides["Zone"] = 1
    first._resources["own"] = 1
    later = manager.allocate({"ncpus": 4}, slot_count=1).nodes[0]
    for node in (second, later):
        assert (node.resources["tags"], node.available["tags"]) == (["a"], ["a"])
        assert not node.metadata
        assert not node.node_attribute_overrides
        assert "own" not in node.resources
    assert len({n.hostname for n in (first, second, later)}) == 3
