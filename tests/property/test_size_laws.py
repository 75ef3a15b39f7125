"""Laws of sizes."""

from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.hpctypes import Memory, Size, whole_bytes

UNITS = "bkmgtpKMGTP"

units = st.sampled_from(UNITS)
decimals = st.decimals(-(10**6), 10**6, places=3).map(float)
floats = st.floats(-1e15, 1e15)
amounts = st.one_of(st.integers(-(10**15), 10**15), decimals, floats)
classes = st.sampled_from([Size, Memory])
sizes = st.builds(lambda cls, value, unit: cls(value, unit), classes, amounts, units)
whole = st.builds(Size, st.integers(-(10**12), 10**12), units)
readable = st.builds(Size, decimals, units)


@given(sizes)
def test_json_gives_back_an_equal_size(size):
    """to_json loses nothing that comparison can see."""
    again = type(size).value_of(size.to_json())
    assert size == again and type(size) is type(again)


@given(st.integers(0, 10**20), units, classes, st.sampled_from(("", "memory::", "of:that:")))
def test_digits_read_as_what_they_say(number, unit, cls, before):
    """However many there are, and however a number is written."""
    size = cls.value_of(f"{before}{number}{unit}")
    assert size == cls(number, unit)
    assert type(size) is cls
    assert (size.value, size.magnitude) == (float(number), unit)
    assert isinstance(size.value, float)
    assert size == cls.value_of(f"+{number}{unit}")
    assert whole_bytes(f"{before}{number}{unit}") in (None, size.bytes)


@given(sizes)
def test_json_of_results_gives_them_back(size):
    """Also for what arithmetic made."""
    for result in (size / 3, size * 0.95, size + size):
        assert result == Size.value_of(result.to_json())


@given(sizes, units)
def test_converting_keeps_the_amount(size, unit):
    """There and back again is the same size."""
    there = size.convert_to(unit)
    assert size == there == there.convert_to(size.magnitude)


@given(whole, units)
def test_whole_bytes_survive_being_written_in_another_unit(size, unit):
    """Whole bytes below 2**53 are found again from the float value."""
    value = size.convert_to(unit).value
    if abs(size.bytes) < 2**53 and unit.islower():
        assert size == Size(value, unit)


@given(sizes, sizes)
def test_equal_sizes_hash_alike(a, b):
    """hash agrees with ==, also for the same amount in another unit."""
    assert a != b or hash(a) == hash(b)
    assert hash(a) == hash(a.convert_to(b.magnitude))


@given(whole)
def test_whole_bytes_are_their_number(size):
    """A whole number of bytes equals that int and hashes like it."""
    assert size == size.bytes and hash(size) == hash(size.bytes)


@given(sizes, sizes)
def test_exactly_one_of_less_equal_greater(a, b):
    """The order is total."""
    assert (a < b) + (a == b) + (a > b) == 1
    assert (a <= b) == (a < b or a == b) and (a >= b) == (b <= a)


@given(sizes, sizes, sizes)
def test_equality_and_order_are_transitive(a, b, c):
    """Sorting is well defined."""
    low, middle, high = sorted([a, b, c])
    assert low <= middle <= high and low <= high


@given(sizes, sizes)
def test_addition_commutes(a, b):
    """The amount does not depend on the order; class and unit are those of the left."""
    assert a + b == b + a and (a + b).magnitude == a.magnitude and type(a + b) is type(a)


@given(sizes, sizes, sizes)
def test_addition_is_associative(a, b, c):
    """Nothing is lost on the way."""
    assert (a + b) + c == a + (b + c)


@given(sizes, sizes)
def test_subtraction_undoes_addition(a, b):
    """No drift."""
    assert a == (a + b) - b and -a == 0 - a


@given(sizes, st.integers(1, 1000))
def test_multiplication_is_repeated_addition(size, n):
    """n times a size is the sum of n of it, and dividing undoes it."""
    assert size * n == sum([size] * n) and size == size * n / n


@given(whole.filter(lambda s: s.bytes > 0), st.integers(0, 10**6))
def test_a_multiple_fits_as_often_as_it_is(size, n):
    """Floor division of n sizes by one is n."""
    assert n == int(size * n // size)


@given(readable)
def test_class_and_unit_make_no_difference(size):
    """A Memory is equal to the Size of the same amount."""
    assert Memory(size.value, size.magnitude) == size


@given(sizes)
def test_bytes_make_the_size_again(size):
    """with_bytes of its own bytes is the same size."""
    assert size == size.with_bytes(size.bytes)
