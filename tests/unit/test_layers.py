"""What the import rules of pyproject.toml cannot say: no circle across packages, no reaching into
another package's objects."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from grimp import build_graph

from builders.sources import ROOT, trees

pytestmark = pytest.mark.no_cover  # what is read is run elsewhere

# of named tuples, and of the handlers of `logging`
OF_PYTHON = frozenset({"_asdict", "_fields", "_make", "_open", "_replace"})
# How many private names of others a package still uses. A number may only go down.
LEFT = {
    "autoscaler": 2,
    "example": 2,
    "job": 3,
    "node.bucket": 3,
    "node.constraints": 1,
    "node.default_resources": 1,
    "node.nodemanager": 15,
    "testing": 1,
}


def package_of(path: Path) -> str:
    """The package of a file, below `hpc.autoscale`; a module at the top is one of its own."""
    parts = path.relative_to(ROOT).parts[:-1]
    return ".".join(parts) or path.stem


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Modules that import each other, directly or through others (Tarjan's strongly connected
    components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(imports[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            found.append(set(stack[at:]))
            del stack[at:]

    for module in sorted(imports):
        if module not in index:
            visit(module)
    return [each for each in found if len(each) > 1]


def home(module: str, modules: set[str]) -> str:
    """The package of a module; of a package, itself."""
    is_package = any(each.startswith(f"{module}.") for each in modules)
    return module if is_package else module.rpartition(".")[0]


def across(imports: dict[str, set[str]]) -> list[list[str]]:
    """The circles whose modules are not all in one package."""
    return [
        sorted(circle)
        for circle in circles(imports)
        if len({home(module, set(imports)) for module in circle}) > 1
    ]


def test_no_circle_crosses_a_package():
    """Imports for types alone included."""
    graph = build_graph("hpc", exclude_type_checking_imports=False)
    imports = {
        module: graph.find_modules_directly_imported_by(module) & graph.modules
        for module in graph.modules
    }
    assert len(imports) > 200
    assert across(imports) == []


def test_a_circle_across_packages_is_found():
    """And one inside a package is none of our business."""
    inside = {"p": {"p.a"}, "p.a": {"p.b"}, "p.b": {"p.a"}, "q": set(), "q.c": set()}
    assert across(inside) == []
    assert across({**inside, "q.c": {"p.a"}, "p.b": {"q.c"}}) == [["p.a", "p.b", "q.c"]]


def written_in(tree: ast.Module) -> set[str]:
    """Private names that a module defines: functions, classes, variables, attributes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= (
                {node.attr} if getattr(node.value, "id", "") in ("self", "cls", "made") else set()
            )
    return {name for name in found if is_private(name)}


def is_private(name: str) -> bool:
    """Whether a name is not for others; published mangled names (`_Node__hostname`) are."""
    return name.startswith("_") and not name.endswith("__") and "__" not in name


def reaching(trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """By package, the private attributes that it uses on objects and that only other packages
    define."""
    defined = defaultdict(set)
    for path, tree in trees.items():
        for name in written_in(tree) - OF_PYTHON:
            defined[name].add(package_of(path))
    found = defaultdict(set)
    for path, tree in trees.items():
        here = package_of(path)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or here in defined.get(node.attr, {here}):
                continue
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                found[here].add(node.attr)
    return found


def test_private_attributes_are_of_ones_own_package():
    """But for those that were there before there was a rule."""
    found = {package: sorted(names) for package, names in reaching(trees()).items()}
    more = {each: names for each, names in found.items() if len(names) > LEFT.get(each, 0)}
    assert more == {}


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("node._looks", {"_looks"}),
        ("node._looks = 1", {"_looks"}),
        ("self._looks", set()),
        ("node._replace(a=1)", set()),
        ("node._Node__looks", set()),
        ("node._nobody_defines_this", set()),
    ],
)
def test_reaching_into_another_package_is_found(line, used):
    """Unless it is an attribute of one's own object, of the interpreter or of a published mangled
    name."""
    theirs = "class A:\n    def __init__(self): self._looks = self.__looks = 1; self._replace = 2"
    trees = {ROOT / "a" / "a.py": ast.parse(theirs), ROOT / "b" / "b.py": ast.parse(line)}
    assert reaching(trees).get("b", set()) == used
