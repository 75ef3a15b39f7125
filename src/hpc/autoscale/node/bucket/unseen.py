"""What a bucket asks of whoever knows its existing nodes before anybody looks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hpc.autoscale.node.node import Node
from hpc.autoscale.node.node.kind import Kind


class Unseen(Protocol):
    """Nodes that exist, by position."""

    kinds: list[Kind]

    def __len__(self) -> int: ...

    def refine(self, refined: Callable[[Kind], Kind | None]) -> bool:
        """Make nodes of other kinds of them; False, and nothing done, where it takes the nodes themselves to tell."""

    def node(self, index: int) -> Node:
        """A node, made now."""
