"""What all protocol models share: typed fields, JSON in and out, validation, and node records.

The models themselves are in `models`; nothing here knows an endpoint or a transport. A field is
declared once, as in `max_count: int = required(INT)`. A field that was never given a value reads as
None, also a required one: `validate` is what makes the declared types true.
"""

import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import NoneType
from typing import Any, ClassVar, Self, TypeVar

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.ccbindings.errors import InvalidModel


def _fold(keys: Iterable[object]) -> dict[str, str]:
    """The keys by their lower-case form; of keys that differ in case alone, the first."""
    folded: dict[str, str] = {}
    for key in keys:
        if isinstance(key, str):
            folded.setdefault(key.lower(), key)
    return folded


# the records of a listing have few different sets of keys
_folded = lru_cache(maxsize=1_000)(_fold)
_MANY = 200
_MISSING = object()
# what the record of a node says in a text, in lower case
_IN_TEXTS = frozenset(
    (
        *("name", "nodeid", "template", "machinetype", "status", "state", "targetstate"),
        *("requestid", "placementgroupid", "instanceid", "hostname", "privateip", "region"),
    )
)


class Record(dict[str, Any]):
    """One node or nodearray as CycleCloud describes it.

    It is a dict whose keys are looked up without regard to case. Keys keep the case in which they
    were first written.
    """

    __slots__ = ()

    def __init__(self, *args: Mapping[str, Any] | Iterable[tuple[str, Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if len(self._folding()) < len(self):
            contents = dict(self)
            self.clear()
            self.update(contents)

    def _folding(self) -> Mapping[str, str]:
        keys = tuple(self)
        return _folded(keys) if len(keys) < _MANY else _fold(keys)

    def _key(self, key: str) -> str:
        """The key under which `key` is stored, or `key` itself when nothing is."""
        if super().__contains__(key) or not isinstance(key, str):
            return key
        return self._folding().get(key.lower(), key)

    def __missing__(self, key: str) -> Any:
        stored = self._key(key)
        if stored == key:
            raise KeyError(key)
        return super().__getitem__(stored)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(self._key(key), value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(self._key(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (
            isinstance(key, str) and super().__contains__(self._key(key))
        )

    def get(self, key: str, default: Any = None) -> Any:
        # most ask by the key as it is
        found = dict.get(self, key, _MISSING)
        if found is not _MISSING:
            return found
        stored = self._folding().get(key.lower()) if isinstance(key, str) else None
        return default if stored is None else dict.get(self, stored, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str, *default: Any) -> Any:
        return super().pop(self._key(key), *default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        new = dict(*args, **kwargs)
        folded = _fold((*self, *new))
        for key, value in new.items():
            super().__setitem__(folded[key.lower()] if isinstance(key, str) else key, value)

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self

    def copy(self) -> "Record":
        return Record(self)

    def __reduce__(self) -> tuple[type["Record"], tuple[dict[str, Any]]]:
        return Record, (dict(self),)


def is_disabled(nodearray: object) -> bool:
    """Whether the record that defines a nodearray has autoscale.enabled=false: such a nodearray is
    left alone, and gets no nodes."""
    found: Any = nodearray
    for key in ("Configuration", "autoscale", "enabled"):
        if not isinstance(found, Mapping):
            return False
        found = found.get(key)
    return found is False


def resources_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The resources in the Configuration of a record. ValueError for what is no object."""
    found = record
    for key in ("Configuration", "autoscale", "resources"):
        found = found.get(key) or {}
        if not isinstance(found, ht.OBJECT_KINDS):
            raise ValueError(f"{key}: expected an object, found {found!r}")
    return found


def check_of_nodes(attributes: Mapping[str, Any]) -> None:
    """ValueError for attributes by which no pass could read the nodes that have them: it would set
    them aside, and start others in their place again and again."""
    ht.with_sizes(resources_of(attributes))
    hardware_of(attributes)


def hardware_of(record: Mapping[str, Any]) -> tuple[int | None, ht.Memory | None]:
    """The CoreCount and the Memory (GiB) of a record; None for what it does not say. ValueError for
    what is no number."""
    cores = _number_in(record, "CoreCount", int)
    return cores, _number_in(record, "Memory", lambda value: ht.Memory(value, "g"))


N = TypeVar("N")


def _number_in(record: Mapping[str, Any], key: str, read: Callable[[Any], N]) -> N | None:
    value = record.get(key)
    try:
        return read(value) if value else None
    except (TypeError, ValueError, ArithmeticError):
        raise ValueError(f"{key}: expected a number, found {value!r}") from None


def values_of(
    records: Iterable[Mapping[str, Any]], keys: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """What each record has under some keys, in whatever case; None for what it has not.

    Keys are looked up once for all records that have the same ones: a listing has few such sets.
    """
    known: dict[tuple[str, ...], list[str]] = {}
    for record in records:
        given = tuple(record)
        stored = known.get(given)
        if stored is None:
            folded = _fold(given)
            exact = dict.fromkeys(given)
            found = (key if key in exact else folded.get(key.lower(), key) for key in keys)
            stored = known[given] = list(found)
        get = partial(dict.get, record) if isinstance(record, dict) else record.get
        yield tuple(map(get, stored))


class FieldType:
    """What the values of one field may be.

    `build` makes the attribute from decoded JSON, and returns a value that it cannot understand as
    it is; `faults` says what is wrong with a value; `plain` makes JSON of it.
    """

    def __init__(self, expected: str, accepts: Callable[[Any], bool]) -> None:
        self.expected = expected
        self._accepts = accepts

    def build(self, value: Any) -> Any:
        return value

    def faults(self, value: Any, path: str) -> Iterator[str]:
        if not self._accepts(value):
            yield f"{path}: expected {self.expected}, found {_shown(value)}"

    def plain(self, value: Any) -> Any:
        return value


class _Integer(FieldType):
    """A whole number. The number 3.0 is one too, because JSON does not tell it from 3."""

    def build(self, value: Any) -> Any:
        return int(value) if isinstance(value, float) and value.is_integer() else value


class _FreeForm(FieldType):
    """A free-form JSON object, kept as a `Record`."""

    def build(self, value: Any) -> Any:
        return Record(value) if type(value) is dict else value

    def plain(self, value: Any) -> Any:
        return dict(value) if isinstance(value, Mapping) else value


@lru_cache(maxsize=1_000)
def _no_texts(keys: tuple[str, ...], kinds: tuple[type, ...]) -> tuple[str, ...]:
    """Which keys of the record of a node have no text and should, by the kinds of their values;
    thousands of records have the same keys and kinds."""
    others = [key for key, kind in zip(keys, kinds, strict=True) if kind not in (str, NoneType)]
    return tuple(key for key in others if str(key).lower() in _IN_TEXTS)


class _NodeRecord(_FreeForm):
    """The record of a node. What it has to say in a text is left out where it is none, as if the
    record did not say it: whoever compares and keeps ids, names and states then meets texts alone.
    """

    def build(self, value: Any) -> Any:
        record = super().build(value)
        if not isinstance(record, Mapping):
            return record
        wrong = _no_texts(tuple(record), tuple(map(type, record.values())))
        for key in wrong:
            name, found = record.get("Name"), _shown(record[key])
            logging.warning("node %s: %s: expected a text, found %s; not heeded", name, key, found)
        if not wrong:
            return record
        return Record({key: said for key, said in record.items() if key not in wrong})


class _Nested(FieldType):
    """An object that is another model."""

    def __init__(self, model: type["Model"]) -> None:
        super().__init__("an object", lambda value: isinstance(value, Model))
        self._model = model

    def build(self, value: Any) -> Any:
        return self._model.adopt(value)

    def faults(self, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, Model):
            yield from value.faults(path)
        else:
            yield from super().faults(value, path)

    def plain(self, value: Any) -> Any:
        return value.to_dict() if hasattr(value, "to_dict") else value


class _List(FieldType):
    """A list whose items are all of one type; of at least one, where `one` says what that is."""

    def __init__(self, item: FieldType, one: str) -> None:
        super().__init__("a list", lambda value: isinstance(value, list | tuple))
        self._item = item
        self._one = one

    def build(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._item.build(item) for item in value]
        return value

    def faults(self, value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list | tuple):
            yield from super().faults(value, path)
            return
        if self._one and not value:
            yield f"{path}: expected at least one {self._one}, found none"
        for index, item in enumerate(value):
            yield from self._item.faults(item, f"{path}[{index}]")

    def plain(self, value: Any) -> Any:
        return (
            [self._item.plain(item) for item in value] if isinstance(value, list | tuple) else value
        )


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_integer(value) and abs(value) < 2**63  # what servers and databases count with


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max  # a whole number can be larger than any float


INT: FieldType = _Integer("a whole number", _is_count)
ANY_INT: FieldType = _Integer("a whole number", _is_integer)
"""Of what is asked for, which need not be had."""
NUMBER = FieldType("a number", _is_number)
STR = FieldType("a string", lambda value: isinstance(value, str))
BOOL = FieldType("true or false", lambda value: isinstance(value, bool))
RECORD: FieldType = _FreeForm("an object", lambda value: isinstance(value, Mapping))
NODE: FieldType = _NodeRecord("an object", lambda value: isinstance(value, Mapping))


class Field:
    """The declaration of one field: its type, whether it must be there, and its name in JSON."""

    def __init__(self, field_type: FieldType, required: bool, wire: str | None) -> None:
        self.field_type = field_type
        self.required = required
        self.wire = wire or ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.wire = self.wire or wire_name(name)


def wire_name(field: str) -> str:
    """The name in JSON of a field, where it is given no other: `max_count` is `maxCount`."""
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def required(field_type: FieldType | type["Model"], wire: str | None = None) -> Any:
    """A field without which `validate` refuses the model."""
    return Field(_field_type(field_type), True, wire)


def optional(field_type: FieldType | type["Model"], wire: str | None = None) -> Any:
    """A field that may be absent."""
    return Field(_field_type(field_type), False, wire)


def list_of(field_type: FieldType | type["Model"], one: str = "") -> FieldType:
    """A list whose items are all of one type. `one`: what an item is called, where there has to be
    at least one."""
    return _List(_field_type(field_type), one)


def _field_type(field_type: FieldType | type["Model"]) -> FieldType:
    return field_type if isinstance(field_type, FieldType) else _Nested(field_type)


class Model:
    """Base of the protocol's objects: attributes in snake_case, JSON in camelCase.

    Keyword arguments that name no field are ignored, as are unknown JSON keys: servers and clients
    of other versions know other fields.
    """

    _fields: ClassVar[dict[str, Field]] = {}
    _by_wire: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {name: field for name, field in vars(cls).items() if isinstance(field, Field)}
        cls._fields = {**cls._fields, **own}
        cls._by_wire = {field.wire.lower(): name for name, field in cls._fields.items()}
        for name in own:
            setattr(cls, name, None)

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            if name in self._fields:
                setattr(self, name, value)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The model that decoded JSON describes. Raises InvalidModel only when `data` is no object
        at all.

        Values of the wrong type are kept as they came, for `validate` to name.
        """
        if not isinstance(data, Mapping):
            raise InvalidModel(cls.__name__, [f"expected an object, found {_shown(data)}"])
        model = cls.__new__(cls)
        for key, value in data.items():
            name = cls._by_wire.get(key.lower()) if isinstance(key, str) else None
            if name is not None and value is not None:
                setattr(model, name, cls._fields[name].field_type.build(value))
        return model

    @classmethod
    def adopt(cls, value: Any) -> Any:
        """A value as this model, when it can be converted; otherwise the value itself.

        It can when it is one, when it is an object of another library with `to_dict`, when it is a
        mapping, and when it has attributes with the names of the model's fields.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            return cls.from_dict(value)
        to_dict = getattr(value, "to_dict", None)
        data = to_dict() if callable(to_dict) else None
        if isinstance(data, Mapping):
            return cls.from_dict(data)
        named = {field.wire: getattr(value, name, None) for name, field in cls._fields.items()}
        # methods are no fields: every text has a `count`
        given = {key: of for key, of in named.items() if of is not None and not callable(of)}
        return cls.from_dict(given) if given else value

    @classmethod
    def json_decode(cls, text: str) -> Self:
        """The model in a JSON text. Raises InvalidModel when it is not JSON or not an object."""
        import json

        try:
            data = json.loads(text)
        except ValueError as error:
            raise InvalidModel(cls.__name__, [f"not JSON: {error}"]) from None
        return cls.from_dict(data)

    def to_dict(self) -> dict[str, Any]:
        """A dict that JSON can hold, with the protocol's key names, without fields that have no
        value.
        """
        plain = {}
        for name, field in self._fields.items():
            value = getattr(self, name)
            if value is not None:
                plain[field.wire] = field.field_type.plain(value)
        return plain

    def json_encode(self) -> str:
        """The JSON text of `to_dict`."""
        import json

        return json.dumps(self.to_dict(), default=_json_default)

    def validate(self) -> None:
        """Raise InvalidModel naming every field that is missing or of the wrong type."""
        faults = list(self.faults(""))
        if faults:
            raise InvalidModel(type(self).__name__, faults)

    def faults(self, path: str) -> Iterator[str]:
        """What `validate` finds wrong: a sentence for each field, with its path in JSON terms."""
        prefix = f"{path}." if path else ""
        for name, field in self._fields.items():
            value = getattr(self, name)
            if value is not None:
                yield from field.field_type.faults(value, prefix + field.wire)
            elif field.required:
                yield f"{prefix}{field.wire}: expected {field.field_type.expected}, found nothing"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    __hash__ = None  # type: ignore[assignment]  # compared by value, and mutable

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in self._fields)
        shown = ", ".join(f"{n}={reprlib.repr(v)}" for n, v in values if v is not None)
        return f"{type(self).__name__}({shown})"


def _json_default(value: Any) -> Any:
    """JSON for values that nodes may have in their attributes: sizes, frozen mappings and sets."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    raise InvalidModel("JSON", [f"expected a value that JSON can hold, found {_shown(value)}"])


def _shown(value: Any) -> str:
    """A value as error messages show it, which is short whatever the value is."""
    return "None" if value is None else f"{reprlib.repr(value)} ({type(value).__name__})"
