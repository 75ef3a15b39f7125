"""Write the reference of the published interface as HTML.

`python tools/make_reference.py [--no-source] [DIRECTORY]` writes to build/api by default. pdoc
reads docstrings and types. What is public is said here: the modules of `MODULES`, and of each the
names that it defines or exports. Called by people, by `make docs`, and by a test. The exit code is
1 when pdoc warns of anything.
"""

import argparse
import ast
import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pdoc

ROOT = Path(__file__).resolve().parent.parent
USUAL_PLACE = ROOT / "build" / "api"

# What integrations and programs import from. Everything else is inside, and may change.
MODULES = (
    "hpc.autoscale",
    "hpc.autoscale.autoscaler",
    "hpc.autoscale.ccbindings",
    "hpc.autoscale.ccbindings.auth",
    "hpc.autoscale.ccbindings.interface",
    "hpc.autoscale.ccbindings.legacy",
    "hpc.autoscale.ccbindings.mock",
    "hpc.autoscale.ccbindings.reproduce",
    "hpc.autoscale.cli",
    "hpc.autoscale.clilib",
    "hpc.autoscale.clock",
    "hpc.autoscale.codeanalysis",
    "hpc.autoscale.config",
    "hpc.autoscale.cost",
    "hpc.autoscale.cost.azurecost",
    "hpc.autoscale.errors",
    "hpc.autoscale.example",
    "hpc.autoscale.example.basic",
    "hpc.autoscale.example.readmeutil",
    "hpc.autoscale.hpclogging",
    "hpc.autoscale.hpctypes",
    "hpc.autoscale.job",
    "hpc.autoscale.job.demand",
    "hpc.autoscale.job.demandcalculator",
    "hpc.autoscale.job.demandprinter",
    "hpc.autoscale.job.driver",
    "hpc.autoscale.job.job",
    "hpc.autoscale.job.nodequeue",
    "hpc.autoscale.job.schedulernode",
    "hpc.autoscale.node",
    "hpc.autoscale.node.bucket",
    "hpc.autoscale.node.constraints",
    "hpc.autoscale.node.default_resources",
    "hpc.autoscale.node.delayednodeid",
    "hpc.autoscale.node.limits",
    "hpc.autoscale.node.node",
    "hpc.autoscale.node.nodehistory",
    "hpc.autoscale.node.nodemanager",
    "hpc.autoscale.node.vm_sizes",
    "hpc.autoscale.results",
    "hpc.autoscale.simulator",
    "hpc.autoscale.testing",
    "hpc.autoscale.testing.conformance",
    "hpc.autoscale.testing.conformance.growing",
    "hpc.autoscale.testing.conformance.shrinking",
    "hpc.autoscale.testing.conformance.trouble",
    "hpc.autoscale.util",
    "hpc.autoscale.weights",
    "hpc.autoscale.workers",
)

# Attributes that a class keeps under its own name are annotated, and in no source that pdoc could
# show.
_OF_NO_INTEREST = r"Cannot determine where hpc\.autoscale\.[\w.]+\._[A-Z]\w*__\w+ is taken from"


@contextmanager
def prepared() -> Iterator[list[ModuleType]]:
    """A context with the modules, each with an `__all__` of what it exports and has below it."""
    modules = [importlib.import_module(name) for name in MODULES]
    before = [vars(module).get("__all__") for module in modules]
    try:
        for module in modules:
            vars(module)["__all__"] = [*_handed_out(module), *_below(module)]
        yield modules
    finally:
        for module, names in zip(modules, before, strict=True):
            if names is None:
                del vars(module)["__all__"]
            else:
                vars(module)["__all__"] = names


def _handed_out(module: ModuleType) -> list[str]:
    names = vars(module).get("__all__")
    if names is None:
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        names = dict.fromkeys(_names_in(tree.body))
    for name in names:
        vars(module)[name] = getattr(module, name)  # some are imported when first asked for
    return [name for name in names if _is_ours(getattr(module, name))]


def _below(module: ModuleType) -> list[str]:
    split = (name.rpartition(".") for name in MODULES)
    return [last for parent, _, last in split if parent == module.__name__]


def _is_ours(thing: object) -> bool:
    """Whether a thing is the library's, and not passed on from elsewhere, as in `hpclogging`."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return True
    return thing.__module__.startswith("hpc.")


def _names_in(body: list[ast.stmt]) -> Iterator[str]:
    """The names that a module defines, and those that it exports with `from … import X as X`."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _names_in(statement.body)
        for name in _names_of(statement):
            if not name.startswith("_"):
                yield name


def _names_of(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.ImportFrom):
        yield from (alias.name for alias in statement.names if alias.asname == alias.name)
    elif isinstance(statement, ast.ClassDef | ast.FunctionDef):
        yield statement.name
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
    elif isinstance(statement, ast.Assign) and not _makes_a_type_variable(statement):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))


def _makes_a_type_variable(statement: ast.Assign) -> bool:
    made = statement.value
    return (
        isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "TypeVar"
    )


def build(directory: Path, with_source: bool = True) -> list[str]:
    """Write the reference; the result is pdoc's warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", _OF_NO_INTEREST)
        pdoc.render.configure(footer_text="hpc-autoscale", show_source=with_source)
        with prepared():
            pdoc.pdoc(MODULES[0], output_directory=directory)
    return [str(warning.message) for warning in caught if warning.category is UserWarning]


def main(arguments: list[str]) -> int:
    """Build, and print where the reference is; the exit code is 1 when there was a warning."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", metavar="DIRECTORY", nargs="?", type=Path)
    parser.add_argument(
        "--no-source",
        action="store_true",
        help="leave out the source, which takes half of the time",
    )
    options = parser.parse_args(arguments)
    directory = options.directory or USUAL_PLACE
    said = build(directory, with_source=not options.no_source)
    for warning in said:
        print(warning, file=sys.stderr)
    print(f"written: {directory / 'index.html'}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
