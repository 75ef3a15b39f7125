"""The names in the library are words that a stranger who knows schedulers would expect."""

import ast
import re
from collections import Counter, defaultdict

import pytest

from builders.sources import ROOT, trees

pytestmark = pytest.mark.no_cover  # what is read is run elsewhere

FILES = sorted(ROOT.rglob("*.py"))
# words that were used for something else than they say
NOT_USED = re.compile(r"(outlook|mould|unseen|roster|lane|stray|toll|draft|tab)s?|looks|strayed")

# how a docstring begins that speaks of the one before it: "The same, once …", "Those that …"
SPEAKS_OF_ANOTHER = re.compile(
    r"(The same|Those|The others)\b"
    r"(?=[,.;:]|\s+(as|but|by|for|in|once|that|there|to|which|with|within|without)\b)"
    r"|(The same|Those) of (a|an|another|it|one|something|the (library|queue))\b|It (came|is|of)\b"
)
# what a check of the conformance kit is about is in its name
NAMED_BY_THEIR_CHECK = ROOT / "testing" / "conformance"

# classes of one name, each with the modules that have one and why both are called that
SAME_NAMES = {
    # the words of HTTP: what the simulator answers with, and what the client makes of an answer
    "BadRequest": {"simulator.errors", "ccbindings.errors"},
    "Conflict": {"simulator.errors", "ccbindings.errors"},
    "NotFound": {"simulator.errors", "ccbindings.errors"},
    # WSGI's word for what a server calls with each request: the simulator's, and that of autostop
    "Application": {"simulator.app", "autostop.web"},
    # the published clock, and what the loop asks of any, as the plug-in API names it
    "Clock": {"clock", "autoscaler.repeating"},
    # a nodearray as somebody describes it: to the simulator, and to the builder of test clusters
    "Nodearray": {"simulator.description", "testing.builders"},
}


def parts(name):
    """The words of an identifier or a file name, in lower case."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names_in(tree):
    """All identifiers of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.keyword(arg=str(name)) | ast.alias(asname=str(name)):
                yield name


def misnamed(file):
    """The names in a file, and its own, that have one of the words."""
    place = file.relative_to(ROOT).with_suffix("").parts
    return sorted(
        {n for n in (*names_in(trees()[file]), *place) if any(map(NOT_USED.fullmatch, parts(n)))}
    )


def test_no_name_has_a_word_of_a_private_vocabulary():
    """In any identifier or file name."""
    found = {str(file.relative_to(ROOT)): misnamed(file) for file in FILES}
    assert {path: names for path, names in found.items() if names} == {}


def texts_in(tree):
    """Every text that stands by itself in a module: docstrings, and what follows a name."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield " ".join(text.split())


def test_every_docstring_can_be_understood_without_its_neighbours():
    """None begins with a word that stands for what another one says."""
    found = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in FILES
        if NAMED_BY_THEIR_CHECK not in file.parents
        for text in texts_in(trees()[file])
        if SPEAKS_OF_ANOTHER.match(text)
    ]
    assert found == []


def test_a_class_with_spot_in_its_name_is_about_spot_instances():
    """And there is one: their quota."""
    classes = [n.name for t in trees().values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)]
    assert {name for name in classes if "spot" in parts(name)} <= {"_SpotLimit"}


def test_a_file_name_says_what_is_in_it():
    """At most a few packages have a file of the same name: where people look for it in each."""
    counted = Counter(file.name for file in FILES)
    usual = {"__init__.py", "__main__.py", "errors.py", "base.py"}
    often = {name: n for name, n in counted.items() if n > 3 and name not in usual}
    assert often == {}


def test_no_two_classes_share_a_name():
    """But for those that are written down above with the reason."""
    modules = defaultdict(list)
    for file in FILES:
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(trees()[file]):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(module)
    shared = {name: where for name, where in modules.items() if len(where) > 1}
    assert {name: set(where) for name, where in shared.items()} == SAME_NAMES
    assert all(len(where) == len(set(where)) for where in shared.values())


def test_words_are_told_apart():
    """By case and underscore."""
    assert parts("_own_mouldOfVMSize2") == ["own", "mould", "of", "vm", "size"]
    assert not NOT_USED.fullmatch("table") and NOT_USED.fullmatch("tab")
