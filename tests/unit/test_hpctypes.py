"""Sizes and the names for ids."""

import copy
import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import pytest

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.hpctypes import Memory, Size, SizeError, without_domain


@pytest.fixture(autouse=True)
def own_units(monkeypatch):
    """Units registered by a test are gone after it."""
    monkeypatch.setattr(ht, "_BYTES_PER", dict(ht._BYTES_PER))


@pytest.mark.parametrize(
    "name",
    [
        "BucketId",
        "ClusterName",
        "Hostname",
        "InstanceId",
        "IpAddress",
        "JobId",
        "Location",
        "NodeArrayName",
        "NodeId",
        "NodeName",
        "NodeStatus",
        "OperationId",
        "PlacementGroup",
        "RequestId",
        "SubnetId",
        "VMSize",
        "VMFamily",
        "ResourceDict",
    ],
)
def test_names_are_identity(name):
    """Calling a name returns the very object."""
    value = {"ncpus": 4} if name == "ResourceDict" else "a value"
    assert getattr(ht, name)(value) is value


@pytest.mark.parametrize(
    "unit, expected",
    [
        ("b", 1),
        ("k", 1024),
        ("m", 1024**2),
        ("g", 1024**3),
        ("t", 1024**4),
        ("p", 1024**5),
        ("K", 1000),
        ("M", 1000**2),
        ("G", 1000**3),
        ("T", 1000**4),
        ("P", 1000**5),
    ],
)
def test_units(unit, expected):
    """Lower-case units are powers of 1024, upper-case ones of 1000."""
    assert expected == ht.magnitude_bytes(unit) == Size(1, unit).bytes


def test_there_is_no_unit_B():
    """An upper-case B is not a unit."""
    with pytest.raises(SizeError, match="'B'"):
        ht.magnitude_bytes("B")


@pytest.mark.parametrize("value", [8, 8.0, 0.5, 0, -3, True])
def test_value_is_kept_as_written(value):
    """Int stays int, float stays float."""
    size = Memory(value, "g")
    assert (value, type(value), "g") == (size.value, type(size.value), size.magnitude)


def test_repr_is_raw_and_str_has_two_decimals():
    """repr shows the value as it is, str rounds it."""
    assert (
        repr(Memory(8, "g")),
        repr(Memory.value_of("4g")),
        str(Size(4, "g")),
    ) == ("8g", "4.0g", "4.00g")


@pytest.mark.parametrize("value, unit", [("8", "g"), (None, "g"), (1, "x"), (1, None), (1, [])])
def test_bad_arguments_are_assertion_errors(value, unit):
    """A value that is no number and an unknown unit raise what the published interface says, in our
    tree."""
    with pytest.raises(AssertionError) as e:
        Size(value, unit)
    assert isinstance(e.value, AutoscaleError)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400])
def test_sizes_are_finite(value):
    """nan, infinity and what no float can hold are refused."""
    with pytest.raises(SizeError):
        Size(value, "g")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("20g", Size(20, "g")),
        ("size::20g", Size(20, "g")),
        ("memory::20g", Size(20, "g")),
        ("x:20g", Size(20, "g")),
        ("a:b:1.5k", Size(1536, "b")),
        ("100", Size(100, "b")),
        ("-1.5k", Size(-1536, "b")),
        ("+2k", Size(2048, "b")),
        ("1e3", Size(1000, "b")),
        ("1e3k", Size(1000, "k")),
        (".5g", Size(512, "m")),
    ],
)
def test_texts(text, expected):
    """A text is a number with an optional unit and an optional prefix; its value is a float."""
    size = Memory.value_of(text)
    assert (expected, float, Memory) == (size, type(size.value), type(size))


@pytest.mark.parametrize(
    "text", ["", "x:", "g", "abc", "memory::", "memory::g", "20q", "20B", "2 0g", "20g ", " 20g"]
)
def test_texts_that_are_no_size(text):
    """A text that is no size is a RuntimeError and a ValueError, which names the text."""
    with pytest.raises(SizeError) as e:
        Size.value_of(text)
    assert isinstance(e.value, RuntimeError) and isinstance(e.value, ValueError)


@pytest.mark.parametrize("text", ["nan", "1e999g", "1e999", "-1e999p", "--1g", "1..2g"])
def test_texts_that_are_no_finite_number(text):
    """What is no finite number is refused."""
    with pytest.raises(SizeError):
        Size.value_of(text)


def test_unknown_unit_says_what_to_do():
    """The error of an unknown unit names the function that registers one."""
    with pytest.raises(RuntimeError, match="add_magnitude_conversion"):
        Size.value_of("4furlongs")


def test_registered_units():
    """Units of several letters can be added, and the longest run of letters counts."""
    ht.add_magnitude_conversion("kb", 1024)
    ht.add_magnitude_conversion("w", 8)
    assert (Size(1.5, "k"), Size(16, "b")) == (Size.value_of("1.5kb"), Size.value_of("2w"))


@pytest.mark.parametrize("suffix, unit", [("", 1), ("k1", 1), (None, 1), ("z", 0), ("z", 1.5)])
def test_bad_registrations(suffix, unit):
    """A unit consists of letters and is a whole number of bytes."""
    with pytest.raises(SizeError):
        ht.add_magnitude_conversion(suffix, unit)


def test_value_of_returns_sizes_as_they_are():
    """A size is its own value, also a plain one asked for as Memory."""
    size = Size(1, "g")
    assert size is Memory.value_of(size)


@pytest.mark.parametrize("value", [None, [], {}, object()])
def test_value_of_nothing_else(value):
    """Only numbers, sizes and texts are sizes."""
    with pytest.raises(RuntimeError, match="Unsupported memory value"):
        Size.value_of(value)


def test_numbers_are_bytes():
    """A number is an amount of bytes, in value_of, beside an operator and in a comparison."""
    size = Size(1, "k")
    assert size == 1024 == Size.value_of(1024) and size + 1024 == Size(2, "k")
    assert 5 < size and 1024 <= size and not 1024 < size and 1025 > size  # noqa: SIM300


def test_float_is_bytes_and_int_is_the_value():
    """float gives bytes; int the value in its own unit."""
    assert (float(Size(2.5, "g")), int(Size(2.5, "g"))) == (2.5 * 1024**3, 2)


def test_bytes():
    """bytes is an int when whole and a float when not."""
    found = [Size(1, "g").bytes, Size(0.5, "k").bytes, Size(0.3, "b").bytes]
    assert ([1024**3, 512, 0.3], [int, int, float]) == (found, [type(b) for b in found])


def test_with_bytes_keeps_class_and_unit():
    """The same kind of size with another amount."""
    size = Memory(8, "g").with_bytes(3 * 1024**3)
    assert (Memory, 3.0, "g") == (type(size), size.value, size.magnitude)


def test_convert_to():
    """Converting changes the unit and nothing else."""
    size = Memory(3, "g").convert_to("m")
    assert (Memory, 3072.0, "m", Memory(3, "g")) == (type(size), size.value, size.magnitude, size)


def test_convert_to_unknown():
    """Converting to an unknown unit says so."""
    with pytest.raises(SizeError, match="'furlongs'"):
        Size(1, "g").convert_to("furlongs")


@pytest.mark.parametrize(
    "result, expected",
    [
        (Memory(4, "g") + Memory(512, "m"), "4.5g"),
        (Memory(4, "g") + "512m", "4.5g"),
        (Memory(4, "g") - 1024**3, "3.0g"),
        (1024**3 + Memory(4, "g"), "5.0g"),
        ("1g" + Memory(4, "g"), "5.0g"),
        (1024**3 * 6 - Memory(4, "g"), "2.0g"),
        (Memory(4, "g") * 2, "8.0g"),
        (Memory(4, "g") * "0.5", "2.0g"),
        (2 * Memory(4, "g"), "8.0g"),
        (Memory(4, "g") * Fraction(1, 2), "2.0g"),
        (Decimal("0.5") * Memory(4, "g"), "2.0g"),
        (Memory(100, "g") / Memory(5, "g"), "20.0g"),
        (Memory(100, "g") / 5, "20.0g"),
        (Memory(100, "g") // Memory(30, "g"), "3.0g"),
        (Memory(7, "g") // 2, "3.0g"),
        (Memory(7, "g") // Memory(1, "g"), "7.0g"),
        (-Memory(7, "g"), "-7.0g"),
        (+Memory(7, "g"), "7g"),
        (abs(Memory(-7, "g")), "7.0g"),
        (abs(Memory(7, "g")), "7g"),
        (sum([Memory(1, "g"), Memory(2, "g")]), "3.0g"),
    ],
)
def test_arithmetic(result, expected):
    """Results have the class and the unit of the size on the left."""
    assert (expected, Memory) == (repr(result), type(result))


@pytest.mark.parametrize(
    "operation",
    [
        lambda s: s + None,
        lambda s: s - [],
        lambda s: None + s,
        lambda s: s * s,
        lambda s: s * None,
        lambda s: s / "2",
        lambda s: s // "2",
        lambda s: s // None,
        lambda s: 2 / s,
        lambda s: s % 2,
        lambda s: s < None,
    ],
)
def test_operations_that_make_no_sense(operation):
    """Everything else is a TypeError."""
    with pytest.raises(TypeError):
        operation(Size(4, "g"))


@pytest.mark.parametrize("divisor", [0, 0.0, Size(0, "g")])
def test_division_by_zero(divisor):
    """Dividing by nothing is a ZeroDivisionError."""
    with pytest.raises(ZeroDivisionError):
        Size(1, "g") / divisor


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_factors_are_finite(factor):
    """nan and infinity are no factors."""
    with pytest.raises(SizeError):
        Size(1, "g") * factor


@pytest.mark.parametrize("unit", "bkmgtpKMGTP")
def test_decimal_fractions_are_exact(unit):
    """A tenth times three is three tenths, in every unit."""
    assert Size(0.3, unit) == Size(0.1, unit) * 3 == Size(0.1, unit) + Size(0.2, unit)
    assert Size(0.1 + 0.2, unit) == Size(0.3, unit)


def test_no_drift():
    """A thousand tenths are a hundred, and a third three times is one."""
    assert Size(100, "g") == sum([Size(0.1, "g")] * 1000)
    assert Size(1, "g") == Size(1, "g") / 3 * 3


def test_floor_division_does_not_fall_short():
    """What divides without remainder gives the whole quotient."""
    assert 3 == int(Size(0.3, "g") // Size(0.1, "g")) == int(Size(0.3, "g") // 0.1)
    assert int(Size(2, "g") // (Size(2, "g") / 3)) == 3


def test_slurm_memory_is_dampened():
    """The idiom of an integration: the lesser of one gigabyte off and five percent off."""
    memory = Memory.value_of("112g")
    left = min(memory - Memory.value_of("1g"), memory * 0.95)
    assert int(left.convert_to("m").value) == 108953


def test_equality():
    """Equal by bytes with sizes and numbers, never with texts."""
    assert Size(1, "g") == Memory(1024, "m") and Size(1, "k") == 1024.0
    assert Size(1, "g") != Size(1, "G") and Size(4, "g") not in ["4g", None]
    assert Size(2**50, "b") != Size(2**50 + 1, "b") and Size(1, "b") != Size(1.1, "b")


def test_nan_and_infinity_compare_as_numbers():
    """A size is below infinity and has no order with nan."""
    size = Size(1, "p")
    assert size < math.inf and size > -math.inf and size != math.nan and not size < math.nan


def test_comparison_with_text():
    """A text that is a number counts as bytes; any other has no order."""
    assert Size(1, "k") <= "1024"
    with pytest.raises(ValueError, match="4g"):
        assert Size(1, "k") < "4g"


def test_hash_agrees_with_equality():
    """Equal sizes are one element of a set, and one with the number of bytes."""
    assert len({Size(1, "g"), Memory(1024, "m"), 1024**3, Size(0.1, "g") * 10}) == 1


def test_a_size_of_zero_is_true():
    """A size has no truth value of its own."""
    assert bool(Size(0, "g")) is True


@pytest.mark.parametrize(
    "size, expected",
    [
        (Size(4, "g"), "size::4.00g"),
        (Memory(4, "g"), "memory::4.00g"),
        (Memory(0.0078125, "t"), "memory::0.0078125t"),
        (Size(2**53 + 1, "b"), "size::9007199254740993b"),
    ],
)
def test_json(size, expected):
    """Two decimals where they are enough, and otherwise as many as it takes."""
    assert (expected, size) == (size.to_json(), Size.value_of(expected))


def test_copies():
    """Copies are the same object, and pickling keeps everything."""
    size = Memory(0.1, "t") * 3
    assert size is copy.copy(size) is copy.deepcopy([size])[0]
    again = pickle.loads(pickle.dumps(size))
    assert (Memory, size, repr(size)) == (type(again), again, repr(again))


def test_sizes_are_not_json_by_themselves():
    """Writing a size takes somebody who asks to_json."""
    assert json.dumps(Size(1, "g"), default=lambda o: o.to_json()) == '"size::1.00g"'


@pytest.mark.parametrize(
    "hostname, expected",
    [
        ("ip-0A000001.internal.example.com", "ip-0A000001"),
        ("node-1", "node-1"),
        ("10.example.com", "10"),
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
        ("node.", "node"),
        ("", ""),
    ],
)
def test_host_names_without_their_domain(hostname, expected):
    """An address has none."""
    assert without_domain(hostname) == expected
