"""Names that somebody gave to a command or wrote into a configuration, and that nothing has.

Columns, resources and nodearrays may exist elsewhere, on nodes that are not there now or in another
cluster, so an unknown one is a doubt and no error: what is returned is a sentence for stderr. A
constraint that no node satisfies is a doubt as well, since its value may be mistyped. VM sizes are
known from the catalogue, in any region, and from the cluster, which may have newer ones.
A size may be newer than both, so for a configuration an unknown one is a doubt as well; in what a
user asks of a command it is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from hpc.autoscale.cli.wide import KEYWORDS
from hpc.autoscale.columns import JOB_IDS, PRICE, all_column_names, parse_column
from hpc.autoscale.config.naming import NODEARRAYS, values_named
from hpc.autoscale.errors import AutoscaleError, MistakenWord, did_you_mean
from hpc.autoscale.explaining.known import clusters_that_may_have
from hpc.autoscale.explaining.refusals import unusable_cause
from hpc.autoscale.explaining.words import a_property, an_amount, away_in_words
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.bucket import NodeBucket
from hpc.autoscale.node.constraints import (
    MinResourcePerNode,
    NodeConstraint,
    NodePropertyConstraint,
    NodeResourceConstraint,
    get_constraints,
)
from hpc.autoscale.node.node import Node
from hpc.autoscale.node.nodemanager import NodeManager

# what only nodes on their way out have
_OF_SOME = ("drain",)
# how many values that there are stand in a sentence
_SHOWN = 8


def unknown_columns(
    columns: Iterable[str],
    nodes: Sequence[Node],
    buckets: Sequence[NodeBucket],
    only_typos: bool = False,
) -> list[str]:
    """A sentence on each column that no node has a value for, and no bucket's example node.

    Columns with a default are not among them: whoever gives one expects that nodes may have none.
    With `only_typos`, only on those that are close to a known one.
    """
    parsed = {text: parse_column(text) for text in columns if text not in KEYWORDS}
    names = {text: column.name for text, column in parsed.items() if column.default is None}
    if not names:
        return []
    every = [*nodes, *(bucket.example_node for bucket in buckets)]
    known = {*all_column_names(every), *JOB_IDS, PRICE, *_OF_SOME, *_names_of_buckets()}
    for node in every:
        known.update(node.resources, node.metadata)
    lower = sorted({name.lower() for name in known if isinstance(name, str)})
    guesses = {text: did_you_mean(name, lower) for text, name in names.items() if name not in lower}
    return [
        f"column {text!r}: no node has anything called {names[text]!r}{guess}"
        for text, guess in guesses.items()
        if guess or not only_typos
    ]


def _names_of_buckets() -> Iterator[str]:
    yield from ("backoff", "region_weight")
    for name in dir(NodeBucket):
        if not name.startswith("_") and not callable(getattr(NodeBucket, name)):
            yield name


def unknown_in_constraints(
    given: Sequence[dict[str, Any]], nodes: Sequence[Node], node_mgr: NodeManager
) -> list[str]:
    """A sentence on each unknown resource and each unknown nodearray in constraints, given as JSON.

    Unknown is what no node has, and no bucket's example node. AutoscaleError for a nodearray of one
    of several clusters that does not answer, unless a node has it.
    """
    buckets = node_mgr.get_buckets()
    resources = unknown_resources(get_constraints(given), nodes, buckets)
    unknown = list(_unknown_nodearrays(given, nodes, buckets))
    for name, _ in unknown:
        check_is_read(name, node_mgr)
    known = (why_unusable(node_mgr, "nodearray", name) for name, _ in unknown)
    texts = (text for _, text in unknown)
    return [*resources, *("; ".join(why) or text for why, text in zip(known, texts, strict=True))]


def why_unusable(
    node_mgr: NodeManager, attr: str, name: str, nodearray: str | None = None
) -> list[str]:
    """Why nobody can use buckets that the cluster has, those of this `nodearray` or `vm_size`, one
    sentence each; of one nodearray, where that is named."""
    said = (
        unusable_cause(bucket, reason).text
        for bucket, reason in node_mgr.get_unusable()
        if getattr(bucket, attr) == name and nodearray in (None, bucket.nodearray)
    )
    return list(dict.fromkeys(said))


def check_is_read(name: str, node_mgr: NodeManager) -> None:
    """AutoscaleError for the name of what one of several clusters may have that does not answer:
    nobody can tell of it."""
    for cluster in clusters_that_may_have(name, node_mgr):
        raise AutoscaleError(f"{name!r}: {away_in_words(cluster)}")


def _unknown_nodearrays(
    given: Sequence[dict[str, Any]], nodes: Iterable[Node], buckets: Iterable[NodeBucket]
) -> Iterator[tuple[str, str]]:
    """Each nodearray that nothing has, and a sentence on it."""
    named = dict.fromkeys(name for _, name in values_named(given, NODEARRAYS))
    if not named:
        return
    some = [*nodes, *(bucket.example_node for bucket in buckets)]
    every = (
        str(said) for n in some for said in (n.nodearray, n.resources.get("nodearray")) if said
    )
    known = list(dict.fromkeys(every))
    for name in named:
        if not any(fnmatchcase(each, name) for each in known):
            guess = did_you_mean(name, known)
            yield name, f"no node is in a nodearray {name!r}, and none could be{guess}"


def unknown_resources(
    constraints: Iterable[NodeConstraint], nodes: Iterable[Node], buckets: Iterable[NodeBucket]
) -> list[str]:
    """A sentence on each resource in constraints that no node has, and no bucket."""
    return unknown_resources_named(_resources_named(constraints), nodes, buckets)


def unknown_resources_named(
    names: Iterable[str], nodes: Iterable[Node], buckets: Iterable[NodeBucket]
) -> list[str]:
    """A sentence on each of the names that is a resource of no node, and of no bucket."""
    named = dict.fromkeys(names)
    if not named:
        return []
    known = dict.fromkeys(name for node in nodes for name in node.resources)
    known.update(dict.fromkeys(name for bucket in buckets for name in bucket.resources))
    return [
        f"no node has a resource {name!r}{a_property(name) or did_you_mean(name, known)}"
        for name in named
        if name not in known
    ]


def _resources_named(constraints: Iterable[NodeConstraint]) -> Iterator[str]:
    for constraint in constraints:
        if isinstance(constraint, MinResourcePerNode | NodeResourceConstraint):
            yield constraint.attr
        yield from _resources_named(constraint.get_children())


def why_nothing(
    constraints: Sequence[NodeConstraint], every: Sequence[Node] | Sequence[NodeBucket]
) -> str:
    """Why none of all nodes, or of all buckets, satisfies the constraints: those that none does,
    with a guess where a value is close to one that there is."""
    apart = [c for c in constraints if not any(map(partial(_satisfies, c), every))]
    if not apart:
        return "nothing matches all of the constraints together"
    nodes = [each.example_node if isinstance(each, NodeBucket) else each for each in every]
    kind = "bucket" if isinstance(every[0], NodeBucket) else "node"
    return f"nothing matches: {'; '.join(_missed(c, kind, nodes) for c in apart)}"


def _satisfies(constraint: NodeConstraint, each: Node | NodeBucket) -> bool:
    if isinstance(each, NodeBucket):
        return bool(constraint.satisfied_by_bucket(each))
    return bool(constraint.satisfied_by_node(each))


def _missed(constraint: NodeConstraint, kind: str, nodes: Iterable[Node]) -> str:
    """That none has what a constraint asks for; where that are values, with those that there
    are."""
    if isinstance(constraint, MinResourcePerNode):
        left = " left" if kind == "node" else ""
        return f"no {kind} has {constraint.value} of {constraint.attr}{left}"
    if isinstance(constraint, NodePropertyConstraint):
        name, found = f"node.{constraint.attr}", [getattr(n, constraint.attr, None) for n in nodes]
    elif isinstance(constraint, NodeResourceConstraint):
        name, found = constraint.attr, [node.available.get(constraint.attr) for node in nodes]
    else:
        return f"no {kind} satisfies {json.dumps(constraint.to_dict(), default=str)}"
    known = [each for each in dict.fromkeys(map(str, found)) if each != str(None)]
    guesses = [did_you_mean(str(value), known) for value in constraint.values]
    some = f", but {', '.join(known[:_SHOWN])}{' …' if known[_SHOWN:] else ''}" if known else ""
    wanted = " or ".join(map(repr, constraint.values))
    instead = an_amount(name, constraint.values, found)
    return f"no {kind} has {name} {wanted}{next(filter(None, guesses), some)}{instead}"


def check_vm_sizes(constraints: Any, where: str, buckets: Iterable[NodeBucket] = ()) -> None:
    """MistakenWord for the first unknown `node.vm_size` in constraints (JSON)."""
    for unknown in unknown_vm_sizes(constraints, where, buckets):
        raise MistakenWord(unknown)


def unknown_vm_sizes(
    constraints: Any, where: str, buckets: Iterable[NodeBucket] = ()
) -> Iterator[str]:
    """A sentence on each `node.vm_size` in constraints, given as JSON, that no known size
    matches."""
    if isinstance(constraints, list) and len(constraints) == 1:
        constraints = constraints[0]
    named = list(values_named(constraints, ("node.vm_size",), where))
    if not named:
        return
    known = dict.fromkeys([*(b.vm_size for b in buckets), *vm_sizes.all_possible_vm_sizes()])
    for place, size in named:
        if size not in known and not any(fnmatchcase(each, size) for each in known):
            yield (
                f"{place}: expected a VM size of the catalogue or of the cluster, found {size!r}"
                f"{did_you_mean(size, known)}"
            )
