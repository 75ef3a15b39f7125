"""Section 3: `hpc.autoscale.hpctypes`."""

import operator

import pytest

from builders.nodes import a_planned_node
from builders.published import row
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.hpctypes import Memory, Size, add_magnitude_conversion

GIB = 1024**3


@row("hpctypes.value_of")
@pytest.mark.parametrize(
    ("given", "in_bytes"),
    [
        (1024, 1024),
        (1.5, 1.5),
        ("8g", 8 * GIB),
        ("1.5k", 1536),
        ("1e3", 1000),
        ("-2k", -2048),
        ("memory::4g", 4 * GIB),
        ("size::20g", 20 * GIB),
        ("any:thing:1M", 1_000_000),
        ("512", 512),
    ],
)
def test_value_of_reads_numbers_and_texts(given, in_bytes):
    """Numbers are bytes; of a text what follows the last colon counts, with 1024 for small letters,
    1000 for capitals."""
    assert float(Size.value_of(given)) == in_bytes
    assert float(Memory.value_of(given)) == in_bytes


@row("hpctypes.value_of")
def test_value_of_gives_its_own_class_and_leaves_sizes_alone():
    """Memory by Memory, Size by Size; a size that is one already is returned as it is, of whatever
    class."""
    size, memory = Size(1, "g"), Memory(1, "g")
    assert type(Size.value_of("1g")) is Size
    assert type(Memory.value_of("1g")) is Memory
    assert Memory.value_of(size) is size
    assert Size.value_of(memory) is memory


@row("hpctypes.value_of")
@pytest.mark.parametrize("given", ["", "memory::", "5parsec", "abc", None, [1]], ids=repr)
def test_what_is_no_size_is_a_runtime_error(given):
    """PBS turns any exception into its own; a known one is a RuntimeError."""
    with pytest.raises(RuntimeError):
        Size.value_of(given)


@row("hpctypes.Memory")
def test_memory_is_made_of_a_value_and_a_unit():
    """Grid Engine counts in gigabytes by it; the value keeps its type, and nonsense is an
    AssertionError."""
    one_gig = Memory(1, "g")
    assert (one_gig.value, one_gig.magnitude, float(one_gig)) == (1, "g", GIB)
    assert repr(Memory(8, "g")) == "8g"
    assert int((Memory(7.5, "g") // one_gig).value) == 7
    for wrong in (("1", "g"), (1, "x"), (1, "B")):
        with pytest.raises(AssertionError):
            Memory(*wrong)


@row("hpctypes.isinstance")
@pytest.mark.parametrize("value", [Size(20.0, "g"), Memory(20, "g"), Size.value_of("20g")])
def test_sizes_of_both_classes_print_in_pbs_style(value):
    """`isinstance(v, Size)` passes for Memory, and value and magnitude make up PBS's notation."""
    assert isinstance(value, ht.Size)
    assert f"{int(value.value)}{value.magnitude}" == "20g"
    assert not isinstance(20, ht.Size)


@row("hpctypes.parts")
def test_convert_to_keeps_amount_and_class():
    """Slurm prints megabytes by it."""
    memory = Memory(8, "g").convert_to("m")
    assert (memory.value, memory.magnitude, type(memory)) == (8192, "m", Memory)
    assert type(Size(1, "g").convert_to("k")) is Size
    assert memory == Memory(8, "g")
    with pytest.raises(RuntimeError):
        Memory(8, "g").convert_to("parsec")


@row("hpctypes.arithmetic")
def test_comparison_is_by_bytes():
    """With sizes in any unit and with plain numbers of bytes, from either side; a text is never
    equal."""
    gig = Memory(1, "g")
    assert gig == Size(1024, "m") == GIB
    assert gig > Memory(1, "m") and gig >= GIB and gig <= GIB and not gig < GIB
    assert operator.lt(5, Memory(1, "k")) and operator.gt(2000, Memory(1, "k"))
    assert gig != "1g" and gig != 1
    assert Memory(0.1, "g") * 3 == Memory(0.3, "g")


@row("hpctypes.arithmetic")
@pytest.mark.parametrize(
    ("result", "expected", "magnitude"),
    [
        (Memory(4, "g") + Memory(512, "m"), 4.5 * GIB, "g"),
        (Memory(4, "g") - "1g", 3 * GIB, "g"),
        (Memory(4, "g") + GIB, 5 * GIB, "g"),
        (Memory(4, "g") * 0.5, 2 * GIB, "g"),
        (Memory(4, "g") * "2", 8 * GIB, "g"),
        (Memory(100, "g") / 4, 25 * GIB, "g"),
        (Memory(100, "g") / Memory(5, "g"), 20 * GIB, "g"),
        (Memory(7.5, "g") // Memory(2, "g"), 3 * GIB, "g"),
        (Memory(7.5, "g") // 2, 3 * GIB, "g"),
        (Memory(1024, "m") - Memory(0.5, "g"), 0.5 * GIB, "m"),
    ],
)
def test_arithmetic_keeps_the_unit_of_the_left(result, expected, magnitude):
    """Ratios too come as a size in the left one's unit."""
    assert float(result) == expected
    assert result.magnitude == magnitude


@row("hpctypes.arithmetic")
def test_numbers_and_texts_of_a_size():
    """float: bytes; int: the value in its own unit, cut; str: two decimals; repr: as it is."""
    size = Memory(7.256, "g")
    assert float(Memory(2, "k")) == 2048.0
    assert int(size) == 7
    assert (str(size), repr(size)) == ("7.26g", "7.256g")
    assert str(Memory(4, "g")) == "4.00g"


@row("hpctypes.arithmetic")
def test_the_memory_that_slurm_reports():
    """The lesser of 95 % and all but one gigabyte, in megabytes."""
    node = a_planned_node(memory=Memory(8, "g"))
    reported = min(node.memory - Memory.value_of("1g"), node.memory * 0.95)
    assert reported.convert_to("m").value == 7 * 1024


@row("hpctypes.add_magnitude_conversion")
def test_pbs_registers_its_units():
    """Units of several letters; the longest run of letters behind the number counts."""
    for power, letter in enumerate("kmgtp", start=1):
        add_magnitude_conversion(f"{letter}b", 1024**power)
        add_magnitude_conversion(f"{letter}w", 8 * 1024**power)
    add_magnitude_conversion("w", 8)
    assert Size.value_of("1.5kb") == 1536
    assert Size.value_of("2w") == 16
    assert Size.value_of("1mw") == 8 * 1024**2
    assert (Size.value_of("20gb").magnitude, int(Size.value_of("20gb").value)) == ("gb", 20)
    with pytest.raises(RuntimeError, match="add_magnitude_conversion"):
        Size.value_of("1xb")


@row("hpctypes.newtypes")
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
    ],
)
def test_names_of_texts_give_back_the_very_text(name):
    """They are called as functions, and copy or convert nothing."""
    text = "".join(["some ", name])
    assert getattr(ht, name)(text) is text


@row("hpctypes.newtypes")
def test_resource_dict_gives_back_the_very_dict():
    """The same for the dict of resources; the aliases for annotations are there too."""
    resources = {"ncpus": 4, "mem": Memory(1, "g")}

    def annotated(values: ht.ResourceDict, atom: ht.ResourceTypeAtom) -> ht.ResourceType:
        return values["ncpus"] if values else atom

    assert ht.ResourceDict(resources) is resources
    assert annotated(ht.ResourceDict(resources), 1) == 4
