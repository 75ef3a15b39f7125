"""What one bucket (and placement group) has to offer: its nodes as runs, the shape of a new one, and the limits that a
new one is charged to."""

from __future__ import annotations

from collections.abc import Sequence

from hpc.autoscale.packing.expr import Expr
from hpc.autoscale.packing.ledger import Account
from hpc.autoscale.packing.runs import RunList
from hpc.autoscale.packing.shape import NodeShape


class Stock:
    """State of one bucket; changed by `Packer` alone, and by `reshape` when a node was written to from outside.

    `bucket_shape` is what ranking looks at, `new_shape` what a new node would be. `cores`: vCPUs of one node.
    `artificial`: stands for machines that cannot be ordered; ranked first. `reserved`: nodes promised elsewhere.
    """

    __slots__ = (
        "_marks",
        "accounts",
        "artificial",
        "bucket_shape",
        "cores",
        "name",
        "new_shape",
        "reserved",
        "runs",
    )

    def __init__(
        self,
        name: str,
        bucket_shape: NodeShape,
        new_shape: NodeShape,
        cores: int,
        accounts: Sequence[Account],
        artificial: bool = False,
    ) -> None:
        self.name = name
        self.bucket_shape = bucket_shape
        self.new_shape = new_shape
        self.cores = cores
        self.accounts = tuple(accounts)
        self.artificial = artificial
        self.reserved = 0
        self.runs = RunList()
        self._marks: dict[Expr, int] = {}

    def first_to_ask(self, expr: Expr) -> int:
        """The first position that may fit; all before it have refused, and refuse still."""
        return self._marks.get(expr, 0)

    def refused_below(self, expr: Expr, position: int) -> None:
        """Remember that every node before `position` refuses a monotone expression."""
        self._marks[expr] = position

    def reshape(self, lo: int, hi: int, shape: NodeShape | None) -> None:
        """Give nodes another shape for a reason other than placing work: refusals of before no longer count."""
        self.runs.assign(lo, hi, shape)
        self._marks.clear()

    def __repr__(self) -> str:
        return f"Stock({self.name}, {self.runs.size} nodes in {len(self.runs)} runs)"
