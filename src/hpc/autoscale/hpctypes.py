"""The vocabulary of the library: names for ids, and sizes with units.

Here belong types without behaviour of their own (`NodeId`, `VMSize`, …: plain `str` to the
interpreter) and the one value type that every other module shares, `Size`, with its subclass
`Memory`. Nothing here knows nodes, jobs or configuration. Everybody imports this module; it imports
nothing but the error tree.
"""

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NewType, Self, cast

from hpc.autoscale.errors import AutoscaleError, did_you_mean

if TYPE_CHECKING:
    from fractions import Fraction

BucketId = NewType("BucketId", str)
ClusterName = NewType("ClusterName", str)
Hostname = NewType("Hostname", str)
InstanceId = NewType("InstanceId", str)
IpAddress = NewType("IpAddress", str)
JobId = NewType("JobId", str)
Location = NewType("Location", str)
NodeArrayName = NewType("NodeArrayName", str)
NodeId = NewType("NodeId", str)
NodeName = NewType("NodeName", str)
NodeStatus = NewType("NodeStatus", str)
OperationId = NewType("OperationId", str)
PlacementGroup = NewType("PlacementGroup", str)
RequestId = NewType("RequestId", str)
SubnetId = NewType("SubnetId", str)
VMFamily = NewType("VMFamily", str)
VMSize = NewType("VMSize", str)

READY_STATES = (NodeStatus("Ready"), NodeStatus("Started"))
"""The states of nodes that are ready for work, as a server says them."""


def without_domain(hostname: str) -> str:
    """A host name up to its first dot. What ends in a number is an address (RFC 1123, 2.1), which
    has no domain and stays whole."""
    short, _, domain = hostname.partition(".")
    return hostname if domain.rpartition(".")[2].isdigit() else short


SizeMagnitude = Literal["b", "k", "m", "g", "t", "p"]
MemoryMagnitude = SizeMagnitude
SizeValue = float | int

_BYTES_PER: dict[str, int] = {"b": 1}
_BYTES_PER.update({letter: 1024**power for power, letter in enumerate("kmgtp", start=1)})
_BYTES_PER.update({letter: 1000**power for power, letter in enumerate("KMGTP", start=1)})

# A size is held as a whole number of ticks, so that adding and subtracting never round.
_TICKS_PER_BYTE = 10**12
# Fractions of a byte are compared to this many significant digits: what a float still tells
# reliably after a few steps.
_COMPARED_DIGITS = 12
# So many digits a float holds.
_SURE_DIGITS = 15
# Beyond this a size cannot be shown as a float any more.
_MOST_BITS = 1000


class SizeError(AutoscaleError, ValueError):
    """A text or value that is not a size, or a unit that is not known."""


class SizeArgumentError(SizeError, AssertionError):
    """`Size(value, magnitude)` was given a value that is no number, or an unknown unit."""


def magnitude_bytes(suffix: str) -> int:
    """The number of bytes in one unit: 1024 for `k`, 1000 for `K`.

    SizeError when no such unit is registered.
    """
    try:
        return _BYTES_PER[suffix]
    except (KeyError, TypeError):
        raise SizeError(_unknown_unit(suffix)) from None


def add_magnitude_conversion(suffix: str, magnitude: int) -> None:
    """Register a unit for the whole process, as in `add_magnitude_conversion("kb", 1024)`.

    The suffix consists of letters and may have several. Registering it again replaces it for sizes
    made afterwards, but not for what jobs ask that say the same as one that was read before: do it
    before there are jobs.
    """
    if not (isinstance(suffix, str) and suffix.isalpha()):
        raise SizeError(f"a unit of size: expected letters, found {suffix!r}")
    if isinstance(magnitude, bool) or not isinstance(magnitude, int) or magnitude <= 0:
        raise SizeError(f"unit {suffix!r}: expected a whole number of bytes, found {magnitude!r}")
    _BYTES_PER[suffix] = magnitude


def _unknown_unit(suffix: object) -> str:
    known = ", ".join(_BYTES_PER)
    hint = did_you_mean(suffix, _BYTES_PER) if isinstance(suffix, str) else ""
    return (
        f"unknown unit of size {suffix!r}: expected one of {known}{hint}"
        " (add_magnitude_conversion registers another)"
    )


def _decimal(number: int | float) -> "Fraction":
    """A number as an exact decimal, as people mean it: the float 0.1 becomes one tenth."""
    from fractions import Fraction

    if isinstance(number, int):
        return Fraction(number)
    try:
        return Fraction(float.__format__(number, ".15g"))
    except ValueError:  # nan and inf have no digits
        raise SizeError(f"expected a finite number, found {number!r}") from None


def _ticks_of(value: int | float, unit: int) -> int:
    """An amount of `value` units, as a number of ticks."""
    if isinstance(value, int):
        return value * unit * _TICKS_PER_BYTE
    product = value * unit
    # A whole number of bytes that a float holds exactly, as most sizes are; the rest is worth the
    # slower way.
    if product.is_integer() and -(2.0**53) < product < 2.0**53:
        return int(product) * _TICKS_PER_BYTE
    return round(_decimal(value) * (unit * _TICKS_PER_BYTE))


def _comparable(ticks: int) -> int:
    """A number of ticks rounded so that amounts that differ by float noise only become equal.

    Whole bytes stay as they are. A fraction of a byte keeps 12 significant digits of the whole
    amount, and from 10^12 bytes on it goes to the nearest byte. Rounding, unlike a tolerance, keeps
    equality transitive and lets sizes be hashed.
    """
    if not ticks % _TICKS_PER_BYTE:
        return ticks
    from fractions import Fraction

    grid: int = min(_TICKS_PER_BYTE, 10 ** max(0, len(str(abs(ticks))) - _COMPARED_DIGITS))
    return round(Fraction(ticks, grid)) * grid


def _floor(ratio: "Fraction") -> int:
    """The largest whole number not above a ratio.

    A ratio at most one part in 10^12 below a whole number counts as that number.
    """
    nearest = round(ratio)
    if abs(ratio - nearest) * 10**_COMPARED_DIGITS <= abs(nearest):
        return nearest
    return ratio.numerator // ratio.denominator


class Size:
    """An amount of bytes with the unit it is written in: `Size(4, "g")`, immutable.

    `value` and `magnitude` are what was written; `float(size)` and `size.bytes` are bytes;
    `int(size)` is the value in its own unit, cut to a whole number. Lower-case units are powers of
    1024, upper-case ones powers of 1000.

    Arithmetic is exact (0.1g * 3 is 0.3g) and keeps the class and the unit of the size; a plain
    number or text beside `+` and `-` and in comparisons is an amount of bytes or a text such as
    `"4g"`. Sizes compare and hash by their bytes, whatever the unit or class: a whole number of
    bytes equals that int, a fraction of a byte is compared to 12 significant digits.
    SizeArgumentError when the value is not a finite number or the unit is unknown.
    """

    __slots__ = ("_magnitude", "_ticks", "_value")

    _json_prefix: ClassVar[str] = "size::"
    _value: float | int
    _magnitude: str
    _ticks: int

    def __init__(self, value: float | int, magnitude: str) -> None:
        if not isinstance(value, (int, float)):
            raise SizeArgumentError(f"expected a number of {magnitude!r}, found {value!r}")
        try:
            ticks = _ticks_of(value, _BYTES_PER[magnitude])
        except (KeyError, TypeError):
            raise SizeArgumentError(_unknown_unit(magnitude)) from None
        except SizeError as e:
            raise SizeArgumentError(str(e)) from None
        _refuse_overflow(ticks)
        self._value = value
        self._magnitude = magnitude
        self._ticks = ticks

    @classmethod
    def _of_ticks(cls, ticks: int, magnitude: str) -> Self:
        _refuse_overflow(ticks)
        return cls.of_parts(ticks / (_BYTES_PER[magnitude] * _TICKS_PER_BYTE), magnitude, ticks)

    @property
    def parts(self) -> tuple[float | int, str, int]:
        """All there is of it, for `of_parts`."""
        return (self._value, self._magnitude, self._ticks)

    @classmethod
    def of_parts(cls, value: float | int, magnitude: str, ticks: int) -> Self:
        """The very size that had these `parts`, whether or not its unit is registered."""
        size = cls.__new__(cls)
        size._value = value
        size._magnitude = magnitude
        size._ticks = ticks
        return size

    @property
    def value(self) -> float | int:
        """The number in front of the unit, an int or a float as it was given."""
        return self._value

    @property
    def magnitude(self) -> str:
        """The unit, as `magnitude_bytes` takes it."""
        return self._magnitude

    @property
    def bytes(self) -> float | int:
        """The amount in bytes: an int when it is whole, otherwise a float."""
        ticks = _comparable(self._ticks)
        whole, rest = divmod(ticks, _TICKS_PER_BYTE)
        return ticks / _TICKS_PER_BYTE if rest else whole

    def convert_to(self, new_mag: str) -> Self:
        """The same amount written in another unit; SizeError when that is unknown."""
        magnitude_bytes(new_mag)
        return self._of_ticks(self._ticks, new_mag)

    def with_bytes(self, amount: float | int) -> Self:
        """A size of this class and unit that holds `amount` bytes."""
        return self._of_ticks(_ticks_of(amount, 1), self._magnitude)

    @classmethod
    def value_of(cls, value: "float | int | Size | str") -> Self:
        """The size that `value` describes.

        A size is returned as it is (also a plain `Size` by `Memory.value_of`), a number is bytes, a
        text is a number with an optional unit behind and an optional `…:` in front: `"20g"`,
        `"1.5k"`, `"memory::20g"`. From a text `.value` is always a float. SizeError (a RuntimeError
        and a ValueError) for everything else.
        """
        if isinstance(value, Size):
            return cast(Self, value)
        if isinstance(value, str):
            return cls._parse(value)
        if isinstance(value, (int, float)):
            return cls(value, "b")
        raise SizeError(f"Unsupported memory value {value!r}: expected a number, a size or a text")

    @classmethod
    def _parse(cls, text: str) -> Self:
        amount = text.rpartition(":")[2]
        whole = whole_bytes(text)
        if whole is not None:
            ticks = whole * _TICKS_PER_BYTE
            _refuse_overflow(ticks)
            return cls.of_parts(float(amount[:-1]), amount[-1], ticks)
        if not amount:
            raise SizeError(f"blank string {text!r}: expected a size such as '20g'")
        number = amount
        while number and number[-1].isalpha():
            number = number[:-1]
        suffix = amount[len(number) :] or "b"
        if not number:
            raise SizeError(f"{text!r} has no number: expected a size such as '20g'")
        unit = magnitude_bytes(suffix)
        if number != number.strip():
            raise SizeError(f"{text!r} has blanks in it: expected a size such as '20g'")
        try:
            size = cls(float(number), suffix)
        except ValueError:
            raise SizeError(f"{number!r} in {text!r} is not a finite number") from None
        digits = number.lstrip("+-")
        if digits.isdecimal():  # a float would lose the last digits of a long number
            size._ticks = int(number) * unit * _TICKS_PER_BYTE
        return size

    def to_json(self) -> str:
        """The text `size::4.00g`, with as many digits as `value_of` needs to give an equal size."""
        texts = (str(self), repr(self), f"{self.bytes!r}b")
        return self._json_prefix + next(t for t in texts if self._parse(t) == self)

    def __str__(self) -> str:
        return f"{self._value:.2f}{self._magnitude}"

    def __repr__(self) -> str:
        return f"{self._value!r}{self._magnitude}"

    def __float__(self) -> float:
        return float(self.bytes)

    def __int__(self) -> int:
        return int(self._value)

    def __add__(self, other: Any) -> Self:
        try:
            return self._of_ticks(self._ticks + _operand(other), self._magnitude)
        except TypeError:
            return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Self:
        try:
            return self._of_ticks(self._ticks - _operand(other), self._magnitude)
        except TypeError:
            return NotImplemented

    def __rsub__(self, other: Any) -> Self:
        return (-self).__add__(other)

    def __mul__(self, factor: Any) -> Self:
        if isinstance(factor, Size):
            return NotImplemented
        if not isinstance(factor, (int, float)):
            try:
                factor = float(factor)
            except TypeError:
                return NotImplemented
        return self._of_ticks(round(self._ticks * _decimal(factor)), self._magnitude)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Self:
        """A size in this unit: the value divided by a number, or how often another size fits."""
        if (ratio := self._ratio(other)) is None:
            return NotImplemented
        return self._in_own_unit(ratio)

    def __floordiv__(self, other: Any) -> Self:
        """A size in this unit: the quotient that `/` gives, rounded down to a whole number."""
        if (ratio := self._ratio(other)) is None:
            return NotImplemented
        return self._in_own_unit(_floor(ratio))

    def _ratio(self, other: object) -> "Fraction | None":
        from fractions import Fraction

        if isinstance(other, Size):
            return Fraction(self._ticks, other._ticks)
        if isinstance(other, (int, float)):
            unit = _BYTES_PER[self._magnitude] * _TICKS_PER_BYTE
            return Fraction(self._ticks, unit) / _decimal(other)
        return None

    def _in_own_unit(self, value: "Fraction | int") -> Self:
        unit = _BYTES_PER[self._magnitude] * _TICKS_PER_BYTE
        return self._of_ticks(round(value * unit), self._magnitude)

    def __neg__(self) -> Self:
        return self._of_ticks(-self._ticks, self._magnitude)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self if self._ticks >= 0 else -self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Size):
            mine, others = self._ticks, other._ticks
            return mine == others or _comparable(mine) == _comparable(others)
        if isinstance(other, (int, float)):
            return _comparable(self._ticks) == _comparable_number(other)
        return False

    def __lt__(self, other: Any) -> bool:
        return self._ordered(other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return self._ordered(other, operator.le)

    def __gt__(self, other: Any) -> bool:
        return self._ordered(other, operator.gt)

    def __ge__(self, other: Any) -> bool:
        return self._ordered(other, operator.ge)

    def _ordered(self, other: object, holds: Callable[[Any, Any], bool]) -> bool:
        """Compare by bytes. A text stands for a number of bytes; ValueError when it does not."""
        if isinstance(other, Size):
            return bool(holds(_comparable(self._ticks), _comparable(other._ticks)))
        if isinstance(other, str):
            other = float(other)
        if isinstance(other, (int, float)):
            return bool(holds(_comparable(self._ticks), _comparable_number(other)))
        return cast(bool, NotImplemented)

    def __hash__(self) -> int:
        return hash(self.bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of_parts, self.parts

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Memory(Size):
    """A size of memory; differs from `Size` in its JSON form only (`memory::4.00g`)."""

    __slots__ = ()

    _json_prefix = "memory::"


OBJECT_KINDS = dict, Mapping
"""What to ask `isinstance` for where a value is to be an object of JSON and there are thousands of
them: most are a dict, and to ask for Mapping alone takes five times as long."""

_SIZES: dict[str, type[Size]] = {cls._json_prefix: cls for cls in (Size, Memory)}


def whole_bytes(text: str) -> int | None:
    """The bytes of a size that is written as most are, a whole number and one letter: `memory::4g`,
    `20g`. None for any other text, which `Size.value_of` reads or refuses."""
    amount = text.rpartition(":")[2]
    number, per_unit = amount[:-1], _BYTES_PER.get(amount[-1:])
    if per_unit is None or not number.isdecimal() or len(number) > _SURE_DIGITS:
        return None
    return int(number) * per_unit


def size_class(text: str) -> type[Size] | None:
    """What a text such as `size::4g` or `memory::4g` is a size of, as its beginning says; None for
    any other text."""
    return _SIZES.get(text[: text.find("::") + 2])


def with_sizes(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with texts that begin like sizes as sizes. SizeError where one does not go on
    like a size."""
    found = dict(values)
    for name, value in values.items():
        cls = size_class(value) if isinstance(value, str) else None
        if cls is not None:
            found[name] = cls.value_of(value)
    return found


_PLAIN = frozenset((int, float, bool, str, type(None)))


def kind_and_value(value: object) -> tuple[object, ...] | None:
    """Equal for values that are equal, of one class and in one unit; None where that cannot be told
    without looking into them."""
    cls = value.__class__
    if cls in _PLAIN:
        return cls, value
    return (cls, value.magnitude, value.bytes) if isinstance(value, Size) else None


def numbered(name: str) -> tuple[str, int | None]:
    """The name of a node before its last dash, and the number behind that; all of it and None where
    there is no number."""
    stem, _, last = name.rpartition("-")
    return (stem, int(last)) if last.isdecimal() else (name, None)


def name_order(name: str) -> tuple[str, int, str]:
    """What names of nodes are sorted by: those of one nodearray by number."""
    # there are thousands to sort, so this is written out
    stem, _, last = name.rpartition("-")
    return (stem, int(last), name) if last.isdecimal() else (name, 0, name)


def _refuse_overflow(ticks: int) -> None:
    if ticks.bit_length() > _MOST_BITS:
        raise SizeArgumentError("expected a size that a float can hold, found a larger one")


def _operand(other: object) -> int:
    """The ticks of what stands beside + or -.

    TypeError when it is neither a size nor a number nor a text.
    """
    if not isinstance(other, (Size, int, float, str)):
        raise TypeError
    return Size.value_of(other)._ticks


def _comparable_number(number: int | float) -> int | float:
    """A plain number in the form that ticks of sizes are compared with; nan and inf stay as they
    are.
    """
    return number if number - number != 0 else _comparable(_ticks_of(number, 1))


ResourceTypeAtom = str | int | float | bool | Size
ResourceType = ResourceTypeAtom | list[ResourceTypeAtom]
ResourceDict = NewType("ResourceDict", dict[str, ResourceTypeAtom])
