"""Optional checks of argument types while the program runs.

With HPC_RUNTIME_CHECKS=true in the environment, `hpcwrap` and `hpcwrapclass` make functions check
the types of their arguments (when the package typeguard is installed) and log their calls.
Otherwise, and that is the normal case, both return what they are given. Used as decorators by
integrations.
"""

import functools
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

from hpc.autoscale import hpclogging

RUNTIME_TYPE_CHECKING = os.getenv("HPC_RUNTIME_CHECKS", "").lower() == "true"
"""Whether functions are checked: looked at when one is decorated, and again at each call of one
that is checked, so that a test can turn it off around something slow."""

TRACE_FUNCTIONS = ["all"]
"""Names of the functions whose calls are logged, or "all"."""

WHITELIST_FUNCTIONS_TYPES = ["register_result_handler"]
"""Names of functions whose argument types are not checked."""

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def hpcwrap(func: F) -> F:
    """A function with the checks when they are turned on; otherwise the function itself."""
    if not RUNTIME_TYPE_CHECKING:
        return func
    wrapped = func if func.__name__ in WHITELIST_FUNCTIONS_TYPES else _typechecked(func)
    if "all" in TRACE_FUNCTIONS or func.__name__ in TRACE_FUNCTIONS:
        wrapped = hpclogging.apitrace(wrapped, fine_level=False)
    return func if wrapped is func else _while_on(wrapped, func)


def _while_on(wrapped: F, plain: F) -> F:
    """A function that calls `wrapped` while the checks are on, and `plain` while they are off."""

    @functools.wraps(wrapped)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (wrapped if RUNTIME_TYPE_CHECKING else plain)(*args, **kwargs)

    return cast(F, call)


def hpcwrapclass(cls: C) -> C:
    """Add the checks to the methods that a class itself defines, when they are turned on."""
    if RUNTIME_TYPE_CHECKING:
        for name, member in list(vars(cls).items()):
            if callable(member) and hasattr(member, "__code__"):
                setattr(cls, name, hpcwrap(member))
    return cls


def _typechecked(func: F) -> F:
    try:
        typeguard = import_module("typeguard")
    except ImportError:
        return func
    return cast(F, typeguard.typechecked(func))
