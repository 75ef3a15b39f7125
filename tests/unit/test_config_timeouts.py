"""Idle and boot timeouts."""

from types import SimpleNamespace

import pytest

from hpc.autoscale.config import parse_boot_timeout, parse_idle_timeout, parse_timeout
from hpc.autoscale.errors import ConfigurationException

HTC = SimpleNamespace(nodearray="htc")


def test_defaults():
    """Five minutes of idling and half an hour for booting."""
    assert (parse_idle_timeout({}), parse_boot_timeout({}, HTC)) == (300, 1800)


@pytest.mark.parametrize(
    "value, expected",
    [
        (60, 60),
        (0, 0),
        ("60", 60),
        (60.9, 60),
        ("60.5", 60),
        (None, 7),
        ({"htc": 1, "default": 2}, 1),
        ({"htc": "1"}, 1),
        ({"htc": None, "default": "2"}, 7),
        ({"htc": 0}, 7),
        ({"htc": 0, "default": 2}, 7),
        ({"hpc": 1, "default": 0}, 7),
        ({"hpc": 1, "default": 2.5}, 2),
        ({"hpc": 1}, 7),
        ({}, 7),
    ],
)
def test_values(value, expected):
    """Numbers, numbers as text, or either by nodearray with a default; 0 for a nodearray is
    none."""
    assert parse_timeout("some_timeout", 7, {"some_timeout": value}, HTC) == expected


@pytest.mark.parametrize(
    "value, expected",
    [
        ({"hpc": 1, "default": 2}, 1),
        ({"hpc": 1, "hpc:64": 3, "default": 2}, 3),
        ({"hpc": 0, "default": 2}, 7),
        ({"": 1, "htc": 1, "default": 2}, 2),
    ],
)
def test_groups_of_a_request_set_have_the_timeouts_of_their_nodearray(value, expected):
    """Unless the array of their size has its own."""
    group = SimpleNamespace(nodearray="hpc:64")
    assert parse_timeout("some_timeout", 7, {"some_timeout": value}, group) == expected


def test_without_a_node_the_default_entry_counts():
    """A nodearray is only looked up for a node."""
    assert parse_idle_timeout({"idle_timeout": {"htc": 1, "default": 2}}) == 2


@pytest.mark.parametrize(
    "value, where",
    [
        (-1, "idle_timeout: "),
        ("soon", "idle_timeout: "),
        ("", "idle_timeout: "),
        (True, "idle_timeout: "),
        ([1], "idle_timeout: "),
        (float("nan"), "idle_timeout: "),
        (float("inf"), "idle_timeout: "),
        ({"htc": -1}, "idle_timeout.htc: "),
        ({"default": [1]}, "idle_timeout.default: "),
    ],
)
def test_garbage(value, where):
    """The error says where, what was expected and what was found."""
    with pytest.raises(ConfigurationException) as e:
        parse_idle_timeout({"idle_timeout": value}, HTC)
    assert str(e.value).startswith(f"{where}expected a number of seconds of 0 or more, found")
