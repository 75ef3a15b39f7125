"""Optional run-time checks."""

import functools
import logging
import sys
from types import ModuleType

import pytest

from hpc.autoscale import codeanalysis


def add(a: int) -> int:
    """Adds one."""
    return a + 1


class Base:
    """What is inherited."""

    def inherited(self):
        """Stays as it is."""
        return self


def a_class():
    """A new class with all kinds of members."""

    class Derived(Base):
        attribute = 3

        def method(self):
            return self.attribute

        @classmethod
        def of_class(cls):
            return cls

        @staticmethod
        def static():
            return 4

    return Derived


def checked(function):
    """Stands in for what typeguard does."""
    return functools.wraps(function)(lambda *args: ("checked", function(*args)))


@pytest.fixture
def checks_on(monkeypatch):
    """Checks are on, with a stand-in for typeguard."""
    typeguard = ModuleType("typeguard")
    typeguard.typechecked = checked
    monkeypatch.setitem(sys.modules, "typeguard", typeguard)
    monkeypatch.setattr(codeanalysis, "RUNTIME_TYPE_CHECKING", True)


def test_off(monkeypatch):
    """Both decorators return what they get."""
    monkeypatch.setattr(codeanalysis, "RUNTIME_TYPE_CHECKING", False)
    cls = a_class()
    members = dict(vars(cls))
    assert codeanalysis.hpcwrap(add) is add
    assert codeanalysis.hpcwrapclass(cls) is cls and dict(vars(cls)) == members


def test_on(checks_on, caplog):
    """Calls are checked and logged."""
    with caplog.at_level(1):
        assert codeanalysis.hpcwrap(add)(1) == ("checked", 2)
    assert any("add" in m for m in caplog.messages)


def test_on_without_typeguard(monkeypatch):
    """Without the package, calls are only logged."""
    monkeypatch.setitem(sys.modules, "typeguard", None)
    monkeypatch.setattr(codeanalysis, "RUNTIME_TYPE_CHECKING", True)
    wrapped = codeanalysis.hpcwrap(add)
    assert (wrapped(1), wrapped.__name__) == (2, "add")


def test_on_for_some(checks_on, monkeypatch, caplog):
    """Functions can be left out of either."""
    monkeypatch.setattr(codeanalysis, "TRACE_FUNCTIONS", ["other"])
    monkeypatch.setattr(codeanalysis, "WHITELIST_FUNCTIONS_TYPES", ["add"])
    with caplog.at_level(1):
        assert codeanalysis.hpcwrap(add) is add and add(1) == 2
    assert caplog.messages == []


def test_on_for_classes(checks_on):
    """Methods of the class itself are wrapped; inherited, class and static ones are left alone."""
    cls = codeanalysis.hpcwrapclass(a_class())
    assert cls().method() == ("checked", 3)
    assert "inherited" not in vars(cls) and cls.inherited is Base.inherited

    class Below(cls):
        pass

    assert (Below.of_class(), Below.static(), Below.attribute) == (Below, 4, 3)


def test_level_of_the_trace(checks_on, caplog):
    """Calls show at TRACE and below, not at DEBUG."""
    with caplog.at_level(logging.DEBUG):
        codeanalysis.hpcwrap(add)(1)
    assert caplog.messages == []
