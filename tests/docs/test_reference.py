"""The reference of the published interface: it builds, it has everything, and what it shows can be
read."""

import html
import importlib
import inspect
import json
import re
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import pdoc
import pytest
from pdoc import docstrings, render_helpers
from pdoc.doc import Class, Function, Module, Variable

from builders.built_once import built_once
from builders.tools import load_tool

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "make_reference.py"
SURFACE = json.loads((ROOT / "tests/conformance/signatures.json").read_text(encoding="utf-8"))
# an old name of another module, which warns; names with an underscore are published, and in no
# reference
LEFT_OUT = {"hpc.autoscale.job.computenode"}


@cache
def make_reference():
    """The generator as a module."""
    return load_tool("make_reference")


def write_pages(directory):
    """Run the generator in a process of its own, as `make docs` does; nothing is said of source."""
    command = [sys.executable, str(TOOL), "--no-source", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"written: {directory / 'index.html'}\n"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The reference, built as `make docs` does."""
    return built_once(tmp_path_factory, "reference", write_pages)


def page_of(pages, module):
    """The page of a module."""
    return (pages / f"{module.replace('.', '/')}.html").read_text(encoding="utf-8")


def is_handed_on(thing):
    """Whether it is the standard library's, as much of a drop-in for `logging` is."""
    return getattr(thing, "__module__", "").startswith("logging")


@pytest.mark.parametrize("module", sorted(set(SURFACE["modules"]) - LEFT_OUT))
def test_every_published_name_is_in_the_reference(pages, module):
    """On the page of the module that it is imported from."""
    page = page_of(pages, module)
    offered = vars(importlib.import_module(module))
    names = {n for n in SURFACE["modules"][module] if not n.startswith("_")}
    ours = {n for n in names if not is_handed_on(offered.get(n))}
    missing = {name for name in ours if f'id="{name}"' not in page}
    assert not missing


def test_what_authors_of_integrations_use_is_in_the_reference(pages):
    """The loop, the worlds, and what each check is about."""
    assert 'id="Autoscaler.run_once"' in page_of(pages, "hpc.autoscale.autoscaler")
    assert 'id="SelfStartingWorld.settle"' in page_of(pages, "hpc.autoscale.testing")
    checks = page_of(pages, "hpc.autoscale.testing.conformance.shrinking")
    assert 'id="Shrinking.test_deleted_nodes_are_forgotten"' in checks


def test_what_is_inside_is_not_in_the_reference(pages):
    """Only public modules have a page."""
    found = {
        path.relative_to(pages).with_suffix("").as_posix().replace("/", ".")
        for path in pages.glob("hpc/**/*.html")
    }
    assert found | {"hpc.autoscale"} == {*make_reference().MODULES}


@cache
def documented():
    """Everything that the reference shows and that has a docstring of its own: by its full name,
    the docstring."""
    found = {}

    def look(thing, owner):
        for member in thing.members.values():
            if member.name.startswith("_") or isinstance(member, Module):
                continue
            if owner and member.taken_from != (owner[0], f"{owner[1]}.{member.name}"):
                continue  # inherited, and shown where it comes from
            if isinstance(member, Class | Function) or is_property(thing.obj, member):
                found[".".join(member.taken_from)] = member.docstring
            if isinstance(member, Class):
                look(member, member.taken_from)

    with warnings.catch_warnings(), make_reference().prepared() as modules:
        warnings.simplefilter("ignore")
        for module in modules:
            found[module.__name__] = (shown := Module(module)).docstring
            look(shown, None)
    return found


def is_property(owner, member):
    """Whether a member of a class is computed, and so may have a docstring."""
    static = inspect.getattr_static(owner, member.name, None)
    return isinstance(member, Variable) and isinstance(static, property)


def test_everything_in_the_reference_is_explained():
    """Every public module, class, function, method and property has a docstring."""
    found = documented()
    assert len(found) > 700
    assert [name for name, docstring in found.items() if not docstring] == []


def test_what_is_explained_can_be_read():
    """No word is lost on the way to HTML, as `<name>` would be, and nothing that stood in columns
    is run together."""
    lost, run_together = [], []
    for name, docstring in documented().items():
        shown = render_helpers.to_html(docstrings.convert(docstring, "markdown", None))
        if re.findall(r"\w+", docstring) != re.findall(r"\w+", as_text(shown)):
            lost.append(name)
        outside = re.sub(r"<pre>.*?</pre>|<div class=\"pdoc-code.*?</div>", "", shown, flags=re.S)
        if re.search(r"\S {2,}\S", as_text(outside)):
            run_together.append(name)
    assert (lost, run_together) == ([], [])


def as_text(shown):
    """What a browser would show."""
    return html.unescape(re.sub(r"<[^>]*>", "", shown))


def test_a_warning_of_the_generator_is_an_error(monkeypatch, tmp_path, capsys):
    """It is said, and the exit code is 1."""

    def grumble(*modules, output_directory):
        warnings.warn("cannot find where Something is from", UserWarning, stacklevel=1)

    monkeypatch.setattr(pdoc, "pdoc", grumble)
    assert make_reference().main([str(tmp_path)]) == 1
    assert "Something" in capsys.readouterr().err


def test_building_leaves_the_modules_as_they_were():
    """What a module offers to `import *` is its own business."""
    modules = [importlib.import_module(name) for name in make_reference().MODULES]
    before = [getattr(module, "__all__", None) for module in modules]
    with make_reference().prepared():
        assert [module.__all__ for module in modules] != before
    assert [getattr(module, "__all__", None) for module in modules] == before


def test_the_reference_is_not_kept():
    """It is built where git does not look."""
    place = make_reference().USUAL_PLACE.relative_to(ROOT)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"{place.parts[0]}/" in ignored
