"""Laws of the VM-size catalogue."""

from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.vm_sizes.catalogue import NOTHING
from hpc.autoscale.node.vm_sizes.overrides import read_override

LOCATIONS = vm_sizes.all_possible_locations()
SIZES = vm_sizes.all_possible_vm_sizes()
KEYS = ["sizes", "locations", "proxied-locations", "eastus", "A", "name", "capabilities", "vCPUs"]
KEYS += ["value", "vcpus", "mem_gib", "resourceType"]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(KEYS),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)


@given(st.sampled_from(LOCATIONS), st.sampled_from(SIZES))
def test_every_size_is_known_in_every_location(location, size):
    """Look-ups are total, and agree with the table; physical cores never outnumber virtual ones."""
    info = vm_sizes.get_aux_vm_size_info(location, size)
    record = vm_sizes.VM_SIZES[location][size]
    assert record["location"] == location
    assert info.vcpu_count == record["capabilities"]["vCPUsAvailable"] > 0
    assert 0 < info.pcpu_count <= info.vcpu_count
    assert info.gpu_count >= 0
    assert float(info.memory) != 0
    price = vm_sizes.price_per_hour(location, size)
    assert price is None or price > 0
    spot = vm_sizes.price_per_hour(location, size, spot=True)
    assert spot is None or 0 < spot <= price


@given(st.text() | st.sampled_from(LOCATIONS), st.text() | st.sampled_from(SIZES))
def test_any_question_has_an_answer(location, size):
    """No pair of names makes a look-up fail."""
    info = vm_sizes.get_aux_vm_size_info(location, size)
    assert info.vcpu_count == -1 or info.vcpu_count > 0
    vm_sizes.price_per_hour(location, size, stand_in=True)


@given(st.sampled_from(SIZES))
def test_a_known_size_is_its_own_suggestion(size):
    """So is one in another letter case."""
    assert vm_sizes.suggest_vm_size(size) == size
    assert vm_sizes.suggest_vm_size(size.upper()) == size


@given(JSON)
def test_any_override_is_taken_or_refused_in_one_line(data):
    """Whatever a file holds, it is understood or refused with a ConfigurationException of one
    line."""
    if isinstance(data, str):
        return
    try:
        read_override(data, NOTHING)
    except ConfigurationException as error:
        assert "\n" not in str(error)
