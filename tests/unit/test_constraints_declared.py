"""Classes of integrations that say what they read: remembered while they keep to it, and found out
when they do not."""

import logging

import pytest

from builders.constraints import Seats, of_class, saying
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.node.constraints import BaseNodeConstraint
from hpc.autoscale.node.constraints.declared import Declarations, NotAsDeclared
from hpc.autoscale.packing.expr import UNBOUNDED, Fit
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import ShapeTable, Unit
from hpc.autoscale.results import SatisfiedResult


def declared(constraint, deferred=()):
    """The expression of a constraint, as somebody has it who knows nothing of it yet."""
    return Declarations().expression(constraint, deferred)


def believed(expr):
    """Whether its class is still believed by whoever made the expression."""
    return expr.known_to.believes(expr)


def a_shape(units=None, props=None, **free):
    """A shape of these amounts."""
    table = ShapeTable()
    return table.shape(table.template(props or {}, units or {}), free)


# -- what is made of it


def test_answers_are_those_of_the_methods():
    """How often it fits, and what it takes each time."""
    expr = declared(of_class()(3))
    fit = expr.fit(a_shape(seats=11))
    assert (fit.count, fit.take, fit.closes) == (3, (("seats", 3),), False)
    refusal = expr.fit(a_shape(seats=2))
    assert isinstance(refusal, Reject)
    assert refusal.facts == ("the node is full",)
    assert isinstance(expr.fit(a_shape(other=1)), Reject)
    assert believed(expr)


def test_nodes_alike_are_asked_once():
    """Alike in what is read; and so are objects of a class that are equal in all attributes."""
    cls = of_class()
    declared = Declarations().expression
    for other in range(5):
        declared(cls(2)).fit(a_shape(seats=4, other=other))
    asked = cls.calls
    assert 0 < asked <= 3
    assert declared(cls(2)) is declared(cls(2))
    assert declared(cls(2)) != declared(cls(1))
    declared(cls(1)).fit(a_shape(seats=4))
    assert cls.calls > asked


def test_nothing_is_made_of_what_cannot_be_remembered():
    """Of a class that declares nothing, or what differs from node to node, or that must know whose
    it is."""
    assert declared(of_class(reads=None)()) is None
    assert declared(of_class(reads=frozenset({"node.hostname"}))()) is None
    assert declared(of_class(reads=frozenset({"node.assignments"}))()) is None
    assert declared(of_class()(), deferred={"seats"}) is None
    assert declared(of_class(assignment_id="job")()) is None
    assert declared(of_class(get_children=lambda self: [Seats()])()) is None


def test_what_takes_nothing_has_no_bound():
    """As for a condition, by whatever way it says that it takes nothing."""
    condition = {"minimum_space": lambda self, node: -1}
    without = of_class(do_decrement=BaseNodeConstraint.do_decrement, **condition)
    nothing = of_class(do_decrement=lambda self, node: True, **condition)
    for cls in (without, nothing):
        fit = declared(cls()).fit(a_shape(seats=1))
        assert (fit.count, fit.take) == (UNBOUNDED, ())


def test_what_closes_the_node():
    """It may close the node, and nothing else of it."""

    def close(self, node):
        node.closed = True
        return True

    assert declared(of_class(do_decrement=close)()).fit(a_shape(seats=4)).closes


def test_sizes_are_shown_as_sizes():
    """In the unit that the node has them in; taken are bytes."""

    class Disk(Seats):
        reads = frozenset({"resources.memgb", "resources.disk"})

        def satisfied_by_node(self, node):
            memory, disk = node.available["memgb"], node.available["disk"]
            assert (memory, disk) == (Memory(4, "g"), Size(10, "t"))
            assert (str(memory), str(disk)) == ("4.00g", "10.00t")
            return SatisfiedResult("success", self, node)

        def minimum_space(self, node):
            return int(node.available["memgb"] // Memory(2, "g"))

        def do_decrement(self, node):
            node.available["memgb"] -= Memory(2, "g")
            return True

    units = {"memgb": Unit(2**30, "g"), "disk": Unit(2**40, "t")}
    expr = declared(Disk())
    fit = expr.fit(a_shape(units, memgb=4 * 2**30, disk=10 * 2**40))
    assert (fit.count, fit.take) == (2, (("memgb", 2 * 2**30),))


def test_floats_are_rounded_as_the_engine_rounds_them():
    """A tenth goes ten times into one."""

    class Share(Seats):
        def minimum_space(self, node):
            return -1

        def satisfied_by_node(self, node):
            return SatisfiedResult(
                "success" if node.available["seats"] >= 0.1 else "no", self, node
            )

        def do_decrement(self, node):
            if node.available["seats"] < 0.1:
                return False
            node.available["seats"] -= 0.1
            return True

    fit = declared(Share()).fit(a_shape(seats=1.0))
    assert (fit.count, fit.take) == (10, (("seats", 0.1),))


# -- what is found out


def an_overstepping(**methods):
    """What becomes of a class that does not keep to what it declares."""
    expr = declared(of_class(**methods)())
    with pytest.raises(NotAsDeclared):
        expr.fit(a_shape(props={"vm_size": "F4"}, seats=4, mark="m"))
    return expr


def taking(change):
    """A `do_decrement` that does something."""

    def do_decrement(self, node):
        change(self, node)
        return True

    return do_decrement


def set_seats(self, node, value):
    """Write seats."""
    node.available["seats"] = value


LOOKS = [
    (lambda self, node: node.name, "reads node.name too"),
    (lambda self, node: node.vm_size, "reads node.vm_size too"),
    (lambda self, node: node.assignments, "reads node.assignments too"),
    (lambda self, node: node.resources, "reads node.resources too"),
    (lambda self, node: node.available["mark"], "reads resources.mark too"),
    (lambda self, node: "mark" in node.available, "reads resources.mark too"),
    (lambda self, node: dict(node.available), "reads all resources"),
    (lambda self, node: len(node.available), "counts resources"),
    (lambda self, node: setattr(self, "asked", 1), "changes itself"),
    (lambda self, node: set_seats(self, node, 1), "only asked about"),
    (lambda self, node: setattr(node, "metadata", {}), "writes node.metadata"),
]


@pytest.mark.parametrize(("look", "why"), LOOKS, ids=[why for _, why in LOOKS])
def test_who_looks_further_is_found_out(look, why, caplog):
    """Also when it catches what it runs into."""
    with caplog.at_level(logging.WARNING):
        expr = an_overstepping(satisfied_by_node=saying(look))
    assert not believed(expr)
    assert expr.known_to.expression(expr.constraint) is None
    assert why in caplog.text


CHANGES = [
    (lambda self, node: node.available.update(mark="n"), "reads resources.mark too"),
    (lambda self, node: node.available.pop("seats"), "removes resources.seats"),
    (lambda self, node: set_seats(self, node, 99), "makes 99 of seats"),
    (lambda self, node: set_seats(self, node, "few"), "makes 'few' of seats"),
    (lambda self, node: set_seats(self, node, True), "makes True of seats"),
    (lambda self, node: set_seats(self, node, Size(1, "g")), "of seats"),
    (lambda self, node: set_seats(self, node, node.available["seats"] // 2), "another amount"),
    (lambda self, node: setattr(node, "closed", 1), "writes node.closed"),
    (lambda self, node: setattr(node, "placement_group", "pg"), "writes node.placement_group"),
]


@pytest.mark.parametrize(("change", "why"), CHANGES, ids=[why for _, why in CHANGES])
def test_who_does_more_than_to_take_is_found_out(change, why, caplog):
    """What no expression can say."""
    with caplog.at_level(logging.WARNING):
        expr = an_overstepping(do_decrement=taking(change))
    assert not believed(expr)
    assert why in caplog.text


@pytest.mark.parametrize(
    ("methods", "why"),
    [
        ({"minimum_space": lambda self, node: 0}, "no room"),
        ({"do_decrement": lambda self, node: False}, "takes nothing"),
        (
            {"do_decrement": taking(lambda s, n: set_seats(s, n, n.available["seats"] - 1e-6))}
            | {"minimum_space": lambda self, node: -1},
            "takes so little",
        ),
    ],
)
def test_who_contradicts_himself_is_found_out(methods, why, caplog):
    """A node that will do and then does not."""
    with caplog.at_level(logging.WARNING):
        expr = an_overstepping(**methods)
    assert not believed(expr)
    assert why in caplog.text


def test_each_class_is_told_of_once(caplog):
    """And its relatives are not blamed for it."""
    cls = of_class(satisfied_by_node=saying(lambda self, node: node.name))
    declared = Declarations().expression
    with caplog.at_level(logging.WARNING):
        exprs = [declared(cls(count)) for count in (1, 2)]
        for expr in exprs:
            with pytest.raises(NotAsDeclared):
                expr.fit(a_shape(seats=4))
    assert caplog.text.count("asked about one node after another") == 1
    assert isinstance(declared(of_class()()).fit(a_shape(seats=1)), Fit)


def test_what_it_raises_reaches_the_caller():
    """As from any opaque constraint."""

    def fail(self, node):
        raise ZeroDivisionError

    expr = declared(of_class(satisfied_by_node=fail)())
    with pytest.raises(ZeroDivisionError):
        expr.fit(a_shape(seats=1))
    assert believed(expr)
