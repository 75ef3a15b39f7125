"""Order policies by name, from the configuration and from installed distributions, and what they do
to where jobs go."""

import sys

import pytest

from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.node.nodemanager.policies import configured_policy, policy_named
from hpc.autoscale.packing.order import cheapest, declared, register_policy

NAMES = "declared, cheapest, least-waste, spot-first, capacity-aware"

MODULE = '''
def largest(offering):
    """More cores first."""
    return -offering.vcpu_count


class Smallest:
    def __call__(self, offering):
        return offering.vcpu_count


class NeedsMore:
    def __init__(self, more):
        self.more = more

nothing = None
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed distribution that offers policies, good ones and others."""
    (tmp_path / "acme_order.py").write_text(MODULE)
    (tmp_path / "acme_old.py").write_text("def policy(:")
    (tmp_path / "acme_unset.py").write_text("import os\npolicy = os.environ['ACME_NOT_SET']")
    info = tmp_path / "acme_order-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-order\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hpc.autoscale.packing]\n"
        "largest = acme_order:largest\n"
        "smallest = acme_order:Smallest\n"
        "needy = acme_order:NeedsMore\n"
        "nothing = acme_order:nothing\n"
        "absent = acme_order:absent\n"
        "broken = acme_no_such_module:policy\n"
        "old = acme_old:policy\n"
        "unset = acme_unset:policy\n"
        "cheapest = acme_order:largest\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("acme_order", None)


@pytest.fixture
def registered():
    """A policy known in this process."""
    register_policy("in-house", cheapest)


def refused(function, *arguments):
    """The one line of a ConfigurationException."""
    with pytest.raises(ConfigurationException) as e:
        function(*arguments)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_the_default_is_declared():
    """Without a section, an empty one, and a name."""
    for config in ({}, {"packing": None}, {"packing": {"order": "declared"}}):
        assert configured_policy(config) == "declared"
    assert policy_named("declared") is declared


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cheepest", f"({NAMES}), found 'cheepest'; did you mean 'cheapest'?"),
        ("spot", f"({NAMES}), found 'spot'"),
        (["cheapest"], f"({NAMES}), found ['cheapest']"),
        (None, f"({NAMES}), found None"),
    ],
)
def test_an_unknown_name_is_one_line(name, expected):
    """Where, what was expected, what was found, and what was probably meant."""
    line = refused(configured_policy, {"packing": {"policy": name}})
    assert line.startswith(f"packing.policy: expected an order policy {expected}")


def test_names_of_this_process_are_known(registered):
    """And named among the others."""
    assert policy_named("in-house") is cheapest
    line = refused(policy_named, "inhouse")
    assert line.endswith(f"({NAMES}, in-house), found 'inhouse'; did you mean 'in-house'?")


def test_a_distribution_may_offer_policies(plugin):
    """A function, or a class."""

    class Offered:
        vcpu_count = 8

    assert policy_named("largest")(Offered) == -8
    assert policy_named("smallest")(Offered) == 8
    assert "largest, needy" in refused(policy_named, "larges")


def test_names_of_the_library_are_its_own(plugin):
    """A distribution cannot change what they mean."""
    assert policy_named("cheapest") is cheapest


@pytest.mark.parametrize("name", ["needy", "nothing", "absent", "broken", "old", "unset"])
def test_an_offered_policy_that_cannot_be_had(plugin, name):
    """One line with its name and where it was looked for."""
    line = refused(configured_policy, {"packing": {"policy": name}})
    assert line.startswith(f"packing.policy: the order policy {name!r} (acme_")
    assert "cannot be had: " in line
