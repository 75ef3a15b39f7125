"""Default resources as they are written: in a configuration, or by an integration.

What is wrong with one in a configuration is said with its entry and key. No text is ever evaluated
as code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import ConstraintError, did_you_mean
from hpc.autoscale.node.constraints import get_constraints
from hpc.autoscale.node.default_resources.definition import (
    MODIFIERS,
    Called,
    DefaultResource,
    DefaultResourceError,
    FromConfiguration,
    FromResource,
    GetFromBaseNode,
    Literal,
    Value,
)
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node

_RESOURCE = "node.resources."
_CONFIGURATION = "node.software_configuration."


def definition_from(
    selection: Mapping[str, Any] | Sequence[Any],
    resource_name: str,
    default_value: Any,
    modifier: str | None = None,
    modifier_magnitude: Any = None,
    allow_none: bool = True,
) -> DefaultResource:
    """A definition made of the arguments of `NodeManager.add_default_resource`.
    DefaultResourceError for a name that is no text."""
    if not isinstance(resource_name, str):
        raise DefaultResourceError(
            f"default resource {resource_name!r}: expected a name, which is a text, found"
            f" {resource_name!r}"
        )
    whole = isinstance(selection, (Mapping, list, tuple))
    constraints = get_constraints(selection if whole else [selection])
    value = value_from(default_value, f"default resource {resource_name!r}")
    return DefaultResource(
        constraints, resource_name, value, modifier, modifier_magnitude, allow_none
    )


def definitions_from_config(entries: Any) -> list[DefaultResource]:
    """The definitions in `default_resources` of a configuration.

    DefaultResourceError names the entry and the key that is wrong.
    """
    if not isinstance(entries, (list, tuple)):
        raise DefaultResourceError(f"default_resources: Expected a list, found {entries!r}")
    return [_from_entry(entry, f"default_resources[{i}]") for i, entry in enumerate(entries)]


def _from_entry(entry: Any, where: str) -> DefaultResource:
    if not isinstance(entry, Mapping):
        raise DefaultResourceError(f"{where}: Expected select, name and value, found {entry!r}")
    for key, kinds, said in (
        ("select", (Mapping,), "a mapping"),
        ("name", (str,), "a text"),
        ("value", (str, int, float, bool), "a text, number or boolean"),
    ):
        if not isinstance(entry.get(key), kinds):
            found = repr(entry[key]) if key in entry else "nothing"
            raise DefaultResourceError(
                f"default_resources: Expected {said} at {where}.{key}, found {found}"
            )
    steps = [key for key in MODIFIERS if key in entry]
    if len(steps) > 1:
        raise DefaultResourceError(
            f"default_resources: Expected at most one of {', '.join(MODIFIERS)} at {where}, found"
            f" {', '.join(steps)}"
        )
    unknown = [key for key in entry if key not in ("select", "name", "value", *MODIFIERS)]
    if unknown:
        hint = did_you_mean(unknown[0], ["select", "name", "value", *MODIFIERS])
        raise DefaultResourceError(
            f"default_resources: unknown key {unknown[0]!r} at {where}{hint}"
        )
    step = steps[0] if steps else None
    if step and not entry[step]:
        raise DefaultResourceError(
            f"default_resources: Expected a number or a size other than 0 at {where}.{step}, found"
            f" {entry[step]!r}"
        )
    try:
        return definition_from(
            dict(entry["select"]),
            entry["name"],
            entry["value"],
            step,
            entry[step] if step else None,
        )
    except ConstraintError as e:
        raise DefaultResourceError(f"{where}.select: {e.in_words()}") from e
    except DefaultResourceError as e:
        raise DefaultResourceError(f"{where}: {e}") from e


def value_from(given: Any, where: str = "value") -> Value:
    """The source of a value, from what a definition says.

    A text may be `node.<property>`, `node.resources.<name>[.value]`,
    `node.software_configuration.<key>`, `size::…` or `memory::…`; a function is called with the
    node; everything else stands for itself.
    """
    if isinstance(given, Value):
        return given
    if isinstance(given, str):
        return _value_from_text(given, where)
    return Called(given) if callable(given) else Literal(given)


def _value_from_text(text: str, where: str) -> Value:
    if text.startswith("`"):
        raise DefaultResourceError(
            f"{where}: expected a value, found the expression {text}: text is not run as code. "
            "Use node.…, a modifier, or a function given to add_default_resource"
        )
    if text.startswith(_RESOURCE):
        return FromResource(text[len(_RESOURCE) :])
    if text.startswith(_CONFIGURATION):
        return FromConfiguration(text[len(_CONFIGURATION) :])
    if text.startswith("node."):
        return _property_value(text[len("node.") :], where)
    size = ht.size_class(text)
    try:
        return Literal(text if size is None else size.value_of(text))
    except ht.SizeError as e:
        raise DefaultResourceError(f"{where}: {e}") from e


@cache
def _readable() -> list[str]:
    found = [n for n in dir(Node) if not n.startswith("_") and not callable(getattr(Node, n))]
    return [*found, "instance_id"]


def _property_value(attr: str, where: str) -> Value:
    if attr not in QUERYABLE_PROPERTIES and attr not in _readable():
        raise DefaultResourceError(
            f"{where}: Invalid node.attribute: node has no property"
            f" {attr!r}{did_you_mean(attr, _readable())}"
        )
    return GetFromBaseNode(attr)
