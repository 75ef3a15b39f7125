"""The published surface, pinned name by name from signatures.json.

There a module has its names: null for one that only has to be there, a text for a function's
parameters, an object for a class (`init`, `methods`, `properties`, `attributes` of its objects,
`bases`, `abstract`, `constants`) or a value. A parameter called `_0`, `_1` … may have any name,
because nobody passes it by name; a default of `...` may be any. What is ours may have more:
parameters with defaults behind the published ones, methods, bases.
"""

import ast
import importlib
import inspect
import json
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest

from builders.nodes import a_manager, a_planned_node, an_htc_cluster, node_arguments
from builders.processes import python
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.node.bucket import NodeDefinition
from hpc.autoscale.node.constraints import get_constraint
from hpc.autoscale.node.nodehistory import NullNodeHistory

SURFACE = json.loads((Path(__file__).parent / "signatures.json").read_text(encoding="utf-8"))
NAMES = [
    pytest.param(module, name, id=f"{module.removeprefix('hpc.autoscale.')}.{name}")
    for module, names in SURFACE["modules"].items()
    for name in names
]
CLASSES = [p for p in NAMES if isinstance(SURFACE["modules"][p.values[0]][p.values[1]], dict)]


def _module(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name)


def _found(path):
    module, _, name = path.rpartition(".")
    return getattr(_module(module), name)


def _published(text):
    """The parameters that a text stands for: name, kind and default of each, where `...` is any
    default."""
    arguments = ast.parse(f"def f{text}: pass").body[0].args
    plain = arguments.args
    defaults = [inspect.Parameter.empty] * (len(plain) - len(arguments.defaults))
    defaults += [ast.literal_eval(d) for d in arguments.defaults]
    parameters = [(a.arg, d) for a, d in zip(plain, defaults, strict=True)]
    keyword_only = [
        (a.arg, ast.literal_eval(d))
        for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return parameters, keyword_only, bool(arguments.vararg), bool(arguments.kwarg)


def _differences(function, text, skip_first=False):
    """What a caller of the published signature would stumble over."""
    actual = list(inspect.signature(function).parameters.values())[skip_first:]
    by_position = [p for p in actual if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = {p.name: p for p in actual}
    takes_rest = any(p.kind is p.VAR_POSITIONAL for p in actual)
    takes_names = any(p.kind is p.VAR_KEYWORD for p in actual)
    parameters, keyword_only, rest, named_rest = _published(text)
    for position, (name, default) in enumerate(parameters):
        if position >= len(by_position):
            if not takes_rest:
                yield f"{name}: no parameter at position {position}"
            continue
        found = by_position[position]
        if found.name != name and name[1:] != str(position):
            yield f"{name}: position {position} is called {found.name}"
        yield from _of_default(name, default, found.default)
    for name, default in keyword_only:
        if name in by_name:
            yield from _of_default(name, default, by_name[name].default)
        elif not takes_names:
            yield f"{name}: cannot be given by name"
    if rest and not takes_rest:
        yield "takes no more positional arguments"
    if named_rest and not takes_names:
        yield "takes no more keyword arguments"
    if not rest:
        for extra in by_position[len(parameters) :]:
            if extra.default is inspect.Parameter.empty:
                yield f"{extra.name}: is needed, and is not published"


def _of_default(name, published, found):
    empty = inspect.Parameter.empty
    if published is empty:
        return
    if found is empty:
        yield f"{name}: has no default"
    elif published is not ... and (found, found is True) != (published, published is True):
        yield f"{name}: default is {found!r}"


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_names_and_signatures(module, name):
    """The name is there, and can be called as published."""
    published = SURFACE["modules"][module][name]
    found = getattr(_module(module), name)
    if isinstance(published, str):
        assert list(_differences(found, published)) == []
    elif isinstance(published, dict) and "value" in published:
        assert found == published["value"]
    elif isinstance(published, dict) and "set" in published:
        assert sorted(found) == sorted(published["set"])
        assert isinstance(found, list)


def _is_static(cls, name):
    return isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod)


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_classes(module, name):
    """Constructor, methods, properties, bases, abstract methods and constants are as published."""
    published = SURFACE["modules"][module][name]
    cls = getattr(_module(module), name)
    problems = []
    if "init" in published:
        problems += _differences(cls, published["init"])
    for method, text in published.get("methods", {}).items():
        function = getattr(cls, method)
        if text is not None:
            problems += [
                f"{method}: {d}" for d in _differences(function, text, not _is_static(cls, method))
            ]
    problems += [
        f"{each}: is a method"
        for each in published.get("properties", ())
        if callable(inspect.getattr_static(cls, each))
    ]
    for base in published.get("bases", ()):
        builtin = getattr(sys.modules["builtins"], base, None)
        path = base if "." in base else f"{module}.{base}"
        assert issubclass(cls, builtin or _found_base(path, base))
    abstract = published.get("abstract")
    assert problems == []
    assert abstract is None or cls.__abstractmethods__ == set(abstract)
    constants = published.get("constants", {})
    assert {key: vars(cls)[key] for key in constants if name != "SchedulerNode"} == {
        key: value for key, value in constants.items() if name != "SchedulerNode"
    }


def _found_base(path, name):
    if name == "Node":
        return _found("hpc.autoscale.node.node.Node")
    return _found(path)


@cache
def _objects():
    """An object of each class whose attributes are published."""
    from hpc.autoscale import clock, hpclogging, results, util
    from hpc.autoscale.ccbindings.legacy import ClusterBinding
    from hpc.autoscale.ccbindings.mock import MockClusterBinding
    from hpc.autoscale.job.demand import DemandResult
    from hpc.autoscale.job.demandcalculator import DemandCalculator
    from hpc.autoscale.job.job import Job
    from hpc.autoscale.node import constraints as cons
    from hpc.autoscale.node import limits, nodehistory, vm_sizes
    from hpc.autoscale.node.delayednodeid import DelayedNodeId

    node, constraint = a_planned_node(), get_constraint({"ncpus": 1})
    pool = cons.SharedConsumableResource("l", "s", 1, 1)
    value = cons.SharedNonConsumableResource("l", "s", 1)
    node_mgr = a_manager(an_htc_cluster())
    made = [
        clock.MockClock(),
        results.AllocationResult("Failed"),
        results.MatchResult("success", node, 1),
        results.CandidatesResult("success", []),
        results.SatisfiedResult("success", constraint, node),
        results.NodeOperationResult("success", "", None),
        results.EarlyBailoutResult("success"),
        results.DefaultContextHandler("x"),
        hpclogging.HPCLogger("x"),
        DelayedNodeId("n"),
        node,
        NodeDefinition("a", "b", "s", "l", False, "n", 1, 0, Memory(1, "g"), None, {}, {}),
        node_mgr.get_buckets()[0],
        limits._SharedLimit("Cluster", 0, 1),
        vm_sizes.AuxVMSizeInfo({}),
        NullNodeHistory(),
        nodehistory.SQLiteNodeHistory(":memory:"),
        cons.NodeResourceConstraint("a", 1),
        constraint,
        cons.ExclusiveNode(),
        cons.NodePropertyConstraint("name", "x"),
        pool,
        value,
        cons.SharedConsumableConstraint([pool], 1),
        cons.SharedNonConsumableConstraint(value, 1),
        Job("1"),
        DemandResult([], [], [], []),
        DemandCalculator({}, node_mgr, NullNodeHistory(), None, util.NullSingletonLock()),
        ClusterBinding({"cluster_name": "c"}, object(), object(), object()),
        MockClusterBinding(),
    ]
    return {type(each).__name__: each for each in made}


def test_attributes_of_objects(tmp_path):
    """What is published as an attribute can be read from an object."""
    from builders.integration_cli import CLI
    from hpc.autoscale.util import SingletonFileLock

    lock = SingletonFileLock(str(tmp_path / "lock"))
    objects = {**_objects(), "SingletonFileLock": lock, "CommonCLI": CLI()}
    missing = [
        f"{name}.{attribute}"
        for names in SURFACE["modules"].values()
        for name, published in names.items()
        if isinstance(published, dict) and name in objects
        for attribute in published.get("attributes", ())
        if not hasattr(objects[name], attribute)
    ]
    lock.unlock()
    untold = {
        name
        for names in SURFACE["modules"].values()
        for name, published in names.items()
        if isinstance(published, dict) and published.get("attributes")
    } - set(objects)
    assert missing == []
    assert untold == {"Result"}
    assert set(node_arguments()) <= set(inspect.signature(type(objects["Node"])).parameters)


@pytest.mark.parametrize(("one", "other"), SURFACE["same"], ids=[p[0] for p in SURFACE["same"]])
def test_the_same_object_from_every_path(one, other):
    """A name that is published in two places is one thing."""
    assert _found(one) is _found(other)


def test_the_class_flag_that_tests_set():
    """SchedulerNode looks host names up unless somebody has said otherwise."""
    done = python(
        "from hpc.autoscale.job.schedulernode import SchedulerNode as S; print(S.ignore_hostnames)"
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("function", "published"),
    [
        (lambda a: 0, "(b)"),
        (lambda a, b: 0, "(a)"),
        (lambda a: 0, "(a, b)"),
        (lambda a: 0, "(a=1)"),
        (lambda a=2: 0, "(a=1)"),
        (lambda a=True: 0, "(a='x')"),
        (lambda b, a: 0, "(a, b)"),
        (lambda a: 0, "(a, *rest)"),
        (lambda a: 0, "(a, **rest)"),
        (lambda a: 0, "(a, *, b=1)"),
    ],
)
def test_differences_are_seen(function, published):
    """What would break a caller is reported, and what would not is let through."""
    assert list(_differences(function, published))
    assert not list(_differences(lambda a, b=1, *rest, c=2, **more: 0, "(a, b=1)"))
    assert not list(_differences(lambda a, b=1: 0, "(_0, b=...)"))
