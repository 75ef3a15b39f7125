"""Where constraints that declare what they read are placed: as their methods say, node by node or
not."""

import pytest

from builders.constraints import Seats, of_class, saying
from builders.nodes import a_manager, an_htc_cluster
from hpc.autoscale import results
from hpc.autoscale.job.demandcalculator import DemandCalculator
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    BaseNodeConstraint,
    SharedConsumableConstraint,
    SharedConsumableResource,
    register_parser,
)
from hpc.autoscale.results import SatisfiedResult


def a_world(count=3, seats=4, most=10):
    """A manager with running nodes that have seats, and new ones that have them too, up to `most`
    in all."""
    cluster = an_htc_cluster(most, resources={"seats": seats})
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
    """A node that was written to; and one from which was taken, unless the class says that this
    never helps."""

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


def jobs_of(cls, count):
    """Jobs of one text that is read as a constraint of a class, for one seat each."""
    register_parser("seats-of-ours", lambda d: cls(d["seats-of-ours"]))
    return [Job(f"job{i}", {"seats-of-ours": 1}) for i in range(count)]


def test_jobs_are_placed_in_few_steps(monkeypatch):
    """On nodes that are there and new ones, without a plan for each, as with constraints of
    ours."""
    manager = a_world(count=1)
    monkeypatch.setattr(manager._placer.planner, "ask", None)
    DemandCalculator({}, manager).add_jobs(jobs_of(of_class(), 6))
    assert list(seats_left(manager).values()) == [0, 2]


def test_who_is_found_out_between_jobs_is_placed_all_the_same():
    """By what it does once something was taken."""
    sly = of_class(
        satisfied_by_node=saying(lambda self, node: node.available["seats"] == 3 and node.name)
    )
    manager = a_world()
    DemandCalculator({}, manager).add_jobs(jobs_of(sly, 6))
    assert manager._placer.declarations.expression(sly(1)) is None
    assert seats_left(manager) == {"htc-1": 0, "htc-2": 2, "htc-3": 4}


def test_who_is_found_out_elsewhere_is_believed_here():
    """Each manager has what it found out itself, and what it remembers is of use to it."""
    asked = []

    def look(self, node):
        asked.append(node.available["seats"])
        if not asked[-1]:
            raise ValueError("full")
        return asked[-1] == 9 and node.name

    sly = of_class(satisfied_by_node=saying(look))
    manager, elsewhere = a_world(), a_world(seats=9)
    jobs = jobs_of(sly, 6)
    DemandCalculator({}, manager).add_jobs(jobs[:5])
    DemandCalculator({}, elsewhere).add_jobs(jobs_of(sly, 1))
    assert elsewhere._placer.declarations.expression(sly(1)) is None
    asked.clear()
    DemandCalculator({}, manager).add_jobs(jobs[5:])
    assert not asked
    assert seats_left(manager) == {"htc-1": 0, "htc-2": 2, "htc-3": 4}


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
