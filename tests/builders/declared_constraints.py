"""A constraint that declares what it reads, for tests, and classes made from it that differ a little."""

from hpc.autoscale.node.constraints import BaseNodeConstraint
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


def of_class(base=Seats, **changes):
    """A class of its own, so that what becomes of it concerns no other test."""
    return type(f"Some{base.__name__}", (base,), changes)


def saying(look):
    """A `satisfied_by_node` that looks at something, and holds its tongue when that is not there."""

    def satisfied_by_node(self, node):
        try:
            look(self, node)
        except Exception:
            return SatisfiedResult("no", self, node)
        return SatisfiedResult("success", self, node)

    return satisfied_by_node
