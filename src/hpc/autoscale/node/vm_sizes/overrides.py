"""Reading a user's own facts on VM sizes, in any of three forms.

They are the short form of the packaged table (for a correction by hand), location -> size -> record
(as cyclecloud-scalelib's data file has it), and the output of `az vm list-skus`. All become
`SizeFacts`, which `catalogue` lays over its own. Every mistake is one line that says where.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NoReturn

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.errors import ConfigurationException, did_you_mean, is_number, unreadable
from hpc.autoscale.node.vm_sizes.catalogue import SizeFacts
from hpc.autoscale.node.vm_sizes.size_formats import FIELDS, SizeRecord, capability_value

_PROXIES = "proxied-locations"
_SHORT_FORM_KEYS = ("sizes", "locations", _PROXIES)
_NUMBERS = frozenset(field.capability for field in FIELDS.values() if field.kind in (int, float))
_FLAGS = frozenset(field.capability for field in FIELDS.values() if field.kind is bool)
_NEEDED = ("vcpus", "mem_gib")


class Wrong(Exception):
    """Something in a user's data file that cannot be understood, with its place in the file."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)


def load_user_data(source: Any, what: str) -> tuple[Any, str]:
    """The contents of a JSON file, or the given contents, and their name in messages.

    Raises ConfigurationException when the file cannot be read or is not JSON.
    """
    if not isinstance(source, str | PathLike):
        return source, what
    import json

    path = os.path.expanduser(os.fspath(source))
    name = f"{what} {path}"
    try:
        with open(path, encoding="utf-8-sig") as stream:
            return json.load(stream), name
    except OSError as error:
        problem = unreadable(error)
    except (ValueError, RecursionError) as error:  # both broken JSON and broken UTF-8
        problem = f"expected a JSON file, found {error}"
    raise ConfigurationException(f"{name}: {problem}")


def read_override(source: Any, packaged: SizeFacts) -> SizeFacts:
    """The user's facts. `packaged` says which sizes and locations are known, so that a correction
    may be partial.

    Raises ConfigurationException.
    """
    data, name = load_user_data(source, "VM size override")
    try:
        facts = _parse(data, packaged)
    except Wrong as wrong:
        raise ConfigurationException(f"{name}: {wrong}") from None
    for location in sorted({*facts.records, *facts.locations} - packaged.locations):
        guess = did_you_mean(location, packaged.locations)
        if guess and location not in packaged.proxies:
            logging.warning("%s: location %r is not in the catalogue%s", name, location, guess)
    return facts


def _parse(data: Any, packaged: SizeFacts) -> SizeFacts:
    if isinstance(data, Mapping):
        if isinstance(data.get("value"), list):
            return _from_skus(data["value"])
        if any(key in data for key in ("sizes", "locations")):
            return _from_short_form(data, packaged)
        return _from_records(data)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _from_skus(data)
    raise Wrong("", f"expected an object or a list, found {_kind(data)}")


def _without_comments(data: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((key, value) for key, value in data.items() if not key.startswith("_"))


# --- the short form


def _from_short_form(data: Mapping[str, Any], packaged: SizeFacts) -> SizeFacts:
    for key, _ in _without_comments(data):
        if key not in _SHORT_FORM_KEYS:
            raise Wrong(
                key,
                "expected one of"
                f" {', '.join(_SHORT_FORM_KEYS)}{did_you_mean(key, _SHORT_FORM_KEYS)}",
            )
    sizes: dict[str, dict[str, Any]] = {}
    for name, given in _without_comments(_object(data.get("sizes", {}), "sizes")):
        sizes[name] = _short_record(given, f"sizes.{name}")
        missing = [key for key in _NEEDED if key not in sizes[name]]
        if missing and name not in packaged.sizes:
            guess = did_you_mean(name, packaged.sizes)
            raise Wrong(
                f"sizes.{name}",
                f"expected {' and '.join(missing)}, because the catalogue has no such size{guess}",
            )
    return SizeFacts(sizes, _locations(data.get("locations", ())), _proxies(data))


def _locations(given: Any) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        _expect("locations", "a list of names", given)
    for index, location in enumerate(given):
        if not isinstance(location, str) or not location:
            _expect(f"locations[{index}]", "a name", location)
    return frozenset(given)


def _short_record(given: Any, path: str) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for key, value in _without_comments(_object(given, path)):
        where = f"{path}.{key}"
        if key != "family" and key not in FIELDS:
            names = ("family", *FIELDS)
            raise Wrong(where, f"expected one of {', '.join(names)}{did_you_mean(key, names)}")
        kind = str if key == "family" else FIELDS[key].kind
        if kind is str and not isinstance(value, str):
            _expect(where, "a text", value)
        if kind is bool and not isinstance(value, bool):
            _expect(where, "true or false", value)
        if kind in (int, float):
            _check_number(where, value, whole=kind is int)
        record[key] = value
    if record.get("vcpus") == 0:
        raise Wrong(f"{path}.vcpus", "expected a number above 0, found 0")
    return record


# --- location -> size -> record


def _from_records(data: Mapping[str, Any]) -> SizeFacts:
    records: dict[str, dict[str, SizeRecord]] = {}
    for location, sizes in _without_comments(data):
        if location == _PROXIES:
            continue
        by_size = records.setdefault(location, {})
        for name, given in _without_comments(_object(sizes, location)):
            by_size[name] = _record(given, name, f"{location}.{name}")
    return SizeFacts(proxies=_proxies(data), records=records)


def _record(given: Any, name: str, path: str) -> SizeRecord:
    given = _object(given, path)
    if "capabilities" not in given:
        raise Wrong(
            path,
            f"expected a record with capabilities, found {', '.join(map(str, given)) or 'nothing'} "
            "(records of the short form belong under the key sizes)",
        )
    return {**given, "capabilities": _capabilities(given["capabilities"], f"{path}.capabilities")}


def _capabilities(given: Any, path: str) -> dict[str, Any]:
    if isinstance(given, list):
        given = _named_values(given, path)
    capabilities = {k: capability_value(v) for k, v in _object(given, path).items()}
    for key in _NUMBERS.intersection(capabilities):
        _check_number(f"{path}.{key}", capabilities[key])
    for key in _FLAGS.intersection(capabilities):
        if not isinstance(capabilities[key], bool):
            _expect(f"{path}.{key}", "true or false", capabilities[key])
    return capabilities


# --- az vm list-skus


def _from_skus(skus: Sequence[Any]) -> SizeFacts:
    """The facts in SKU objects of Azure's API; those that are no virtual machines are left out.

    This API gives names of regions in any letter case; everywhere else they are in lower case.
    """
    records: dict[str, dict[str, SizeRecord]] = {}
    for index, sku in enumerate(skus):
        path = f"[{index}]"
        sku = _object(sku, path)
        if sku.get("resourceType", "virtualMachines") != "virtualMachines":
            continue
        name = sku.get("name")
        if not isinstance(name, str) or not name:
            _expect(f"{path}.name", "the name of a VM size", name)
        capabilities = _capabilities(sku.get("capabilities") or [], f"{path}.capabilities")
        for location in _sku_locations(sku, f"{path}.locations"):
            record: SizeRecord = {"name": name, "location": location, "capabilities": capabilities}
            record.update({k: sku[k] for k in ("family", "size", "tier") if sku.get(k)})
            records.setdefault(location, {})[name] = record
    if not records:
        raise Wrong("", "expected the SKU objects of `az vm list-skus`, found no virtual machine")
    return SizeFacts(records=records)


def _sku_locations(sku: Mapping[str, Any], path: str) -> list[str]:
    locations = sku.get("locations")
    if not isinstance(locations, list) or not all(isinstance(each, str) for each in locations):
        _expect(path, "a list of names", locations)
    return [each.lower() for each in locations]


def _named_values(items: list[Any], path: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for index, item in enumerate(items):
        item = _object(item, f"{path}[{index}]")
        if not isinstance(item.get("name"), str):
            _expect(f"{path}[{index}].name", "the name of a capability", item.get("name"))
        values[item["name"]] = item.get("value")
    return values


# --- what all forms share


def _proxies(data: Mapping[str, Any]) -> dict[str, str]:
    proxies = dict(_without_comments(_object(data.get(_PROXIES, {}), _PROXIES)))
    for alias, location in proxies.items():
        if not isinstance(location, str):
            _expect(f"{_PROXIES}.{alias}", "the name of a location", location)
    return proxies


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _expect(path, "an object", value)
    for key in value:
        if not isinstance(key, str):
            _expect(path, "names as keys", key)
    return value


def _check_number(path: str, value: Any, whole: bool = False) -> None:
    if not is_number(value) or value < 0:
        _expect(path, "a number of at least 0", value)
    if whole and value != int(value):
        _expect(path, "a whole number", value)


def _expect(path: str, expected: str, found: Any) -> NoReturn:
    raise Wrong(path, f"expected {expected}, found {_kind(found)}")


def _kind(value: Any) -> str:
    """A value as a message names it: the value when it is short, else the type of it."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, int | float | str):
        what = "text" if isinstance(value, str) else "number"
        return repr(value) if len(repr(value)) < 60 else f"a {what} of {len(str(value))} characters"
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"
