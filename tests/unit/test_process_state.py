"""What the library keeps outside of objects is on one short list with its reasons, and one context
manager puts it back."""

import ast
import functools
import importlib
import logging
import pkgutil
import re
import reprlib
import struct
import types
import typing
from collections.abc import Iterator, MutableMapping, MutableSequence, MutableSet
from contextvars import ContextVar
from enum import Enum
from operator import attrgetter, itemgetter
from pathlib import Path, PurePath

import pytest

import hpc.autoscale
from builders.sources import trees
from hpc.autoscale import clock, hpctypes, results, util
from hpc.autoscale.ccbindings.pacing import PROCESS_WIDE, RetryAfter
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node import vm_sizes
from hpc.autoscale.node.constraints import register_parser
from hpc.autoscale.packing.order import cheapest, known_policies, register_policy
from hpc.autoscale.testing.process import KEPT, a_process_of_its_own

WRITERS = frozenset(
    [
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "popleft",
        "remove",
        "setdefault",
        "sort",
        "update",
    ]
)
CONTAINERS = (MutableMapping, MutableSequence, MutableSet)
CACHE = type(functools.cache(lambda: None))
# What cannot be written to, or is not by anybody.
VALUES = (
    *(str, bytes, int, float, bool, type(None), tuple, frozenset, Enum, types.MappingProxyType),
    *(
        type,
        types.FunctionType,
        types.BuiltinFunctionType,
        types.GenericAlias,
        types.UnionType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
    ),
    *(attrgetter, itemgetter, struct.Struct, PurePath, ContextVar),
    *(re.Pattern, reprlib.Repr, logging.Logger, typing.TypeVar, typing.ParamSpec, typing.NewType),
)


pytestmark = [
    pytest.mark.filterwarnings("ignore:hpc.autoscale.job.computenode:DeprecationWarning"),
    pytest.mark.no_cover,  # what is read is run elsewhere
]


@functools.cache
def modules() -> dict[str, tuple[types.ModuleType, ast.Module]]:
    """Every module of the library by its name below `hpc.autoscale`, imported and parsed."""
    found = {}
    for each in pkgutil.walk_packages(hpc.autoscale.__path__, "hpc.autoscale."):
        if not each.name.endswith("__main__"):
            module = importlib.import_module(each.name)
            name = each.name.removeprefix("hpc.autoscale.")
            found[name] = (module, trees()[Path(str(module.__file__))])
    return found


def last_name(target: ast.expr) -> str | None:
    """`c` of `a.b.c` and of `c`."""
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else None


@functools.cache
def written_in(tree: ast.Module) -> frozenset[str | None]:
    """Names of containers that a module puts something into, or takes out of."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in WRITERS:
                found.add(last_name(node.func.value))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(last_name(node.value))
        elif isinstance(node, ast.AugAssign):
            found.add(last_name(node.target))
    return frozenset(found)


@functools.cache
def written_to() -> frozenset[str | None]:
    """The same of all modules."""
    return frozenset().union(*(written_in(tree) for _, tree in modules().values()))


def assigned(body: list[ast.stmt]) -> Iterator[str]:
    """Names that are given a value when a module, or a class, is made."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def writes_to_itself(cls: type) -> bool:
    """Whether a class of the library has methods that change an object after it was made."""
    if not cls.__module__.startswith("hpc."):
        return False
    _, tree = modules()[cls.__module__.removeprefix("hpc.autoscale.")]
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == cls.__name__).body
    for method in body:
        if isinstance(method, ast.FunctionDef) and method.name not in ("__init__", "__set_name__"):
            for node in ast.walk(method):
                written = None
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    written = node.func.value if node.func.attr in WRITERS else None
                elif isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
                    written = node
                if written is not None and re.match(r"self\b.", ast.unparse(written)):
                    return True
    return False


def is_state(name: str, value: object) -> bool:
    """Whether a value may change while the process runs."""
    if isinstance(value, CONTAINERS):
        return not value or name in written_to()
    if isinstance(value, (*VALUES, CACHE)) or type(value).__module__ == "typing":
        return False
    if type(value).__module__.startswith("hpc."):
        return any(map(writes_to_itself, type(value).__mro__))
    return type(value) is not object


def state_of(where: str, module: types.ModuleType, tree: ast.Module) -> Iterator[str]:
    """The names of a module, and of its classes, that hold state."""
    rebound = {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
    for name in dict.fromkeys(assigned(tree.body)):
        if name in rebound or is_state(name, getattr(module, name, None)):
            yield f"{where}.{name}"
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            values = vars(getattr(module, node.name))
            for name in assigned(node.body):
                if isinstance(values.get(name), CONTAINERS) and name in written_to():
                    yield f"{where}.{node.name}.{name}"


def found_state() -> list[str]:
    """All state of the process."""
    return [name for where, each in modules().items() for name in state_of(where, *each)]


def test_all_state_of_the_process_is_known():
    """Anything new belongs to the manager or the calculator that uses it, or to the list with a
    reason."""
    # only other programs write to these, so that they look like constants here
    set_by_integrations = [
        "codeanalysis.TRACE_FUNCTIONS",
        "codeanalysis.WHITELIST_FUNCTIONS_TYPES",
        "job.schedulernode.SchedulerNode.ignore_hostnames",
    ]
    # each class has its own, which is complete when the class is made
    of_each_class = {
        "ccbindings.modelbase.Model._by_wire",
        "ccbindings.modelbase.Model._fields",
        "testing.world.SchedulerWorld.config",
    }
    assert sorted({*found_state(), *set_by_integrations} - of_each_class) == sorted(KEPT)


@pytest.mark.parametrize(
    "line",
    [
        "KNOWN = {}",
        "KNOWN: dict[str, int] = {'a': 1}\ndef learn(): KNOWN['b'] = 2",
        "seen = {1}\ndef see(): seen.add(2)",
        "count = 0\ndef up():\n    global count\n    count += 1",
        "import threading\nlock = threading.Lock()",
        "class A:\n    known = {1: 2}\n    def learn(self): self.known[3] = 4",
    ],
)
def test_new_state_is_found(line, monkeypatch):
    """However it is written to."""
    module = types.ModuleType("new")
    exec(line, vars(module))  # noqa: S102  the line of the test
    new = (module, ast.parse(line))
    known = modules()
    monkeypatch.setattr(f"{__name__}.modules", lambda: {**known, "new": new})
    written_to.cache_clear()
    assert len(list(state_of("new", *new))) == 1
    monkeypatch.undo()
    written_to.cache_clear()


def test_caches_are_of_functions_that_read_no_state():
    """But for those of a table that empties them when it changes."""
    names = {path.rpartition(".")[2] for path in KEPT}
    impure = set()
    for where, (module, tree) in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and isinstance(vars(module).get(node.name), CACHE):
                read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                if read & names:
                    impure.add(f"{where}.{node.name}")
    assert impure == {"node.vm_sizes.info._info"}


def test_every_reason_is_a_sentence_for_people():
    """Of what is written to for the whole process."""
    assert all(len(why) > 20 for why in KEPT.values())


def seen():
    """What a program sees of all that can be changed for the whole process."""
    return (
        clock.time(),
        util.uuid("a"),
        hpctypes.Size.value_of("1g").convert_to("b").value,
        list(results.HANDLERS),
        sorted(known_policies()),
        vm_sizes.get_aux_vm_size_info("eastus", "Standard_F4s").gpu_count,
        vm_sizes.price_per_hour("eastus", "Standard_F4s"),
        PROCESS_WIDE.all_pending(0.0),
        SchedulerNode.ignore_hostnames,
    )


def test_a_process_of_its_own():
    """Whatever is changed in it is as before afterwards, and containers are the same objects."""
    clock.use_mock_clock()
    util.set_uuid_func(lambda prefix: f"{prefix}-0")
    before, handlers = seen(), results.HANDLERS
    with a_process_of_its_own():
        clock.use_mock_clock().now = 5.0
        util.set_uuid_func(util.IncrementingUUID())
        util.uuid("a")
        hpctypes.add_magnitude_conversion("g", 7)
        register_parser("ours", lambda given: None)
        register_policy("ours", cheapest)
        results.register_result_handler(print)
        vm_sizes.use_override({"sizes": {"Standard_F4s": {"gpus": 3}}})
        vm_sizes.configure({"vm_sizes": {"prices": {"*": {"Standard_F4s": 7.0}}}})
        PROCESS_WIDE.note(("server", "GET", "/"), RetryAfter(9.0, 429, "later"))
        SchedulerNode.ignore_hostnames = True
        changed = seen()
    assert all(one != other for one, other in zip(changed, before, strict=True))
    assert seen() == before
    assert results.HANDLERS is handlers
