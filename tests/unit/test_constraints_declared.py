"""Classes of integrations that say what they read: remembered while they keep to it, and found out when they do not."""

import logging

import pytest
from node_kit import a_cluster, a_manager

from hpc.autoscale import results
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    BaseNodeConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    register_parser,
)
from hpc.autoscale.node.constraints.declared import believed, declared
from hpc.autoscale.packing.expr import UNBOUNDED, Fit
from hpc.autoscale.packing.reject import Reject
from hpc.autoscale.packing.shape import ShapeTable, Unit
from hpc.autoscale.results import SatisfiedResult


class Seats(BaseNodeConstraint):
    """Takes seats. `calls` counts how often it was asked to take."""

    reads = frozenset({"resources.seats"})
    calls = 0

    def __init__(self, count=1):
        self.count = count

    def satisfied_by_node(self, node):
        enough = node.available.get("seats", 0) >= self.count
        return SatisfiedResult("success" if enough else "NoSeats", self, node, [f"{node} is full"])

    def minimum_space(self, node):
        return node.available.get("seats", 0) // self.count

    def do_decrement(self, node):
        type(self).calls += 1
        if node.available["seats"] < self.count:
            return False
        node.available["seats"] -= self.count
        return True

    def to_dict(self):
        return {"seats-of-ours": self.count}

    def __str__(self):
        return f"{self.count} seats"


def a_shape(units=None, props=None, **free):
    """A shape of these amounts."""
    table = ShapeTable()
    return table.shape(table.template(props or {}, units or {}), free)


def of_class(base=Seats, **changes):
    """A class of its own, so that what becomes of it concerns no other test."""
    return type(f"Some{base.__name__}", (base,), changes)


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
    for other in range(5):
        declared(cls(2)).fit(a_shape(seats=4, other=other))
    asked = cls.calls
    assert 0 < asked <= 3
    assert declared(cls(2)) is declared(cls(2))
    assert declared(cls(2)) != declared(cls(1))
    declared(cls(1)).fit(a_shape(seats=4))
    assert cls.calls > asked


def test_nothing_is_made_of_what_cannot_be_remembered():
    """Of a class that declares nothing, or what differs from node to node, or that must know whose it is."""
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


def a_stray(**methods):
    """What becomes of a class that does not keep to what it declares."""
    expr = declared(of_class(**methods)())
    answer = expr.fit(a_shape(props={"vm_size": "F4"}, seats=4, mark="m"))
    return expr, answer


def taking(change):
    """A `do_decrement` that does something."""

    def do_decrement(self, node):
        change(self, node)
        return True

    return do_decrement


def saying(look):
    """A `satisfied_by_node` that looks at something, and holds its tongue when that is not there."""

    def satisfied_by_node(self, node):
        try:
            look(self, node)
        except Exception:
            return SatisfiedResult("no", self, node)
        return SatisfiedResult("success", self, node)

    return satisfied_by_node


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
        expr, answer = a_stray(satisfied_by_node=saying(look))
    assert not answer
    assert not believed(expr)
    assert declared(expr.constraint) is None
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
        expr, answer = a_stray(do_decrement=taking(change))
    assert not answer
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
        expr, _ = a_stray(**methods)
    assert not believed(expr)
    assert why in caplog.text


def test_each_class_is_told_of_once(caplog):
    """And its relatives are not blamed for it."""
    cls = of_class(satisfied_by_node=saying(lambda self, node: node.name))
    with caplog.at_level(logging.WARNING):
        exprs = [declared(cls(count)) for count in (1, 2)]
        for expr in exprs:
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


# -- placing


def a_world(count=3, seats=4, most=10):
    """A manager with running nodes that have seats, and new ones that have them too, up to `most` in all."""
    cluster = a_cluster(most, resources={"seats": seats})
    for i in range(1, count + 1):
        cluster.add_node(f"htc-{i}", "htc", state="Ready", hostname=f"ip-{i}")
    return a_manager(cluster)


def placed(manager, constraints, slots=1, **more):
    """Where a demand went."""
    result = manager.allocate(constraints, slot_count=slots, **more)
    return [node.name for node in result.nodes] if result else []


def seats_left(manager):
    """By node."""
    return {node.name: node.available["seats"] for node in manager.get_nodes()}


def test_it_is_placed_by_shape():
    """Over nodes that are there and new ones, without asking each."""
    cls = of_class()
    manager = a_world(count=9)
    assert len(placed(manager, [cls(2)], 20)) == 10
    assert set(seats_left(manager).values()) == {0}
    assert cls.calls < 10


@pytest.mark.parametrize("is_monotone", [False, True])
def test_what_it_refused_is_asked_again_where_that_may_help(is_monotone):
    """A node that was written to; and one from which was taken, unless the class says that this never helps."""

    class Even(Seats):
        monotone = is_monotone

        def satisfied_by_node(self, node):
            even = node.available["seats"] % 2 == 0
            return SatisfiedResult("success" if even else "Odd", self, node, ["odd"])

        def minimum_space(self, node):
            return -1

        do_decrement = BaseNodeConstraint.do_decrement

    manager = a_world(count=1, seats=4, most=1)
    (node,) = manager.get_nodes()
    node.available["seats"] = 3
    assert placed(manager, [Even()]) == []
    assert placed(manager, {"seats": 1}) == ["htc-1"]
    again = placed(manager, [Even()])
    assert again == ([] if is_monotone else ["htc-1"])
    node.available["seats"] = 0
    assert placed(manager, [Even()]) == ["htc-1"]


def test_it_may_share_a_resource_with_others():
    """Then what each says depends on what the others take, and they are asked together."""
    manager = a_world(count=1, seats=5, most=1)
    wanted = [of_class()(1), {"seats": 1}]
    assert placed(manager, wanted, 9) == ["htc-1"]
    assert seats_left(manager)["htc-1"] == 1
    manager = a_world(count=1, seats=5, most=1)
    wanted = [of_class()(1), of_class()(2)]
    assert placed(manager, wanted, 9) == ["htc-1"]
    assert seats_left(manager)["htc-1"] == 2


def test_it_has_its_say_about_buckets():
    """By its own methods."""
    refused = of_class(satisfied_by_bucket=lambda self, bucket: SatisfiedResult("no", self, None))
    manager = a_world()
    assert placed(manager, [refused()]) == []
    assert placed(manager, [of_class(weight_buckets=lambda self, weights: weights)()]) == ["htc-1"]


def test_pools_are_paid_beside_it():
    """As many slots as there are licences."""
    manager = a_world()
    pool = SharedConsumableResource("licence", "q", 5, 5)
    result = manager.allocate(
        [of_class()(1), SharedConsumableConstraint([pool], 1)], slot_count=9, assignment_id="a"
    )
    assert (result.total_slots, pool.current_value) == (5, 0)
    assert seats_left(manager) == {"htc-1": 0, "htc-2": 3, "htc-3": 4}


def test_who_is_found_out_is_placed_all_the_same():
    """Node by node, in the same request in which it was found out."""
    sly = of_class(
        satisfied_by_node=saying(
            lambda self, node: node.available["seats"] and 1 / (node.name != "htc-1")
        )
    )
    manager = a_world()
    assert placed(manager, [sly(1)], 2) == ["htc-2"]
    assert placed(manager, [sly(1)], 1) == ["htc-2"]


def test_who_is_found_out_late_is_placed_all_the_same():
    """By what it does on a node that differs from the example."""

    def look(self, node):
        seats = node.available["seats"]
        return node.name if seats == 3 else seats

    manager = a_world()
    manager.get_nodes()[0].available["seats"] = 3
    late = of_class(satisfied_by_node=saying(look))
    assert placed(manager, [late(1)], 4) == ["htc-1", "htc-2"]
    assert seats_left(manager) == {"htc-1": 0, "htc-2": 3, "htc-3": 4}


def test_failures_have_reasons_and_handlers_hear_them():
    """In the words of the class."""
    manager = a_world(count=1, seats=1)
    told = []
    results.register_result_handler(told.append)
    result = manager.allocate([of_class()(2)], slot_count=1)
    assert not result
    assert any("the node is full" in reason for reason in result.reasons)
    assert any("the node is full" in str(each) for each in told)


def test_jobs_of_one_text_share_it():
    """It is read once for all jobs that say the same, and each is assigned by its own name."""
    made = []
    cls = of_class()

    def read(d):
        made.append(cls(d["seats-of-ours"]))
        return made[-1]

    register_parser("seats-of-ours", read)
    manager = a_world()
    for i in range(6):
        assert Job(f"job{i}", {"seats-of-ours": 2}).do_allocate(manager)
    assert len(made) == 1
    assert [node.assignments for node in manager.get_nodes()] == [
        {f"job{i}", f"job{i + 1}"} for i in (0, 2, 4)
    ]


def test_jobs_have_their_own_once_it_is_found_out():
    """What is asked of nodes one by one must be the job's own."""
    made = []
    sly = of_class(satisfied_by_node=saying(lambda self, node: node.name))

    def read(d):
        made.append(sly(d["seats-of-ours"]))
        return made[-1]

    register_parser("seats-of-ours", read)
    manager = a_world()
    jobs = [Job(f"job{i}", {"seats-of-ours": 2}) for i in range(3)]
    assert len(made) == 1
    assert all(job.do_allocate(manager) for job in jobs)
    assert len(made) == 3
