"""The documents against the code: everything is documented, everything generated is fresh, every
link leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from builders.tools import load_tool
from hpc.autoscale.cli import DriverCLI
from hpc.autoscale.cli.parsing import commands_of
from hpc.autoscale.clilib import CommonCLI
from hpc.autoscale.config.check import config_schema
from hpc.autoscale.node.constraints.parse import KEYWORDS
from hpc.autoscale.node.node import QUERYABLE_PROPERTIES

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "example-celery/*.md")
    for path in ROOT.glob(pattern)
)


make_docs = load_tool("make_docs")


def text_of(name):
    """A document of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


def section_of(name, title):
    """The text below a second-level heading."""
    return text_of(name).split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def anchors_of(path):
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_of(path):
    """The relative links of a document, code left out."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [
        link
        for link in re.findall(r"\]\(([^)\s]+)\)", text)
        if not link.startswith(("http://", "https://"))
    ]


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_every_constraint_keyword_is_documented(keyword):
    """In the README's section on constraints, as a key of an example."""
    spellings = {keyword, keyword.replace("_", "-")}
    examples = section_of("README.md", "Constraints")
    assert any(f'"{spelling}":' in examples for spelling in spellings)


@pytest.mark.parametrize("name", sorted(QUERYABLE_PROPERTIES))
def test_every_node_property_is_documented(name):
    """In the README's table, with a meaning."""
    rows = section_of("README.md", "Node properties").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `node.{name}` |")]
    assert len(row.split("|")[3].strip()) > 5


@pytest.mark.parametrize("key", [path for path, _ in make_docs.schema_keys(config_schema())])
def test_every_configuration_key_is_documented(key):
    """In docs/configuration.md, with a meaning."""
    rows = text_of("docs/configuration.md").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{key}` |")]
    assert len(row.split("|")[3].strip()) > 5


@pytest.mark.parametrize("command", [name for name, _ in commands_of(DriverCLI())])
def test_every_command_is_documented(command):
    """In docs/commands.md, with what it does."""
    rows = text_of("docs/commands.md").splitlines()
    (row,) = [row for row in rows if row.startswith(f"| `{command}` |")]
    assert len(row.split("|")[3].strip()) > 5


def test_the_commands_of_azscale_alone_are_named():
    """Command lines of integrations do not have them: the page said that they have all."""
    (named,) = re.findall(r"those of `azscale` alone: (.*?)\. ", text_of("docs/commands.md"), re.S)
    alone = [name for name, _ in commands_of(DriverCLI()) if not hasattr(CommonCLI, name)]
    assert re.findall(r"`(\w+)`", named) == alone


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path):
    """Relative links name files that exist, and headings that these have."""
    for link in links_of(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_every_page_is_in_the_list_of_the_readme(path):
    """Before its first example, where somebody looks who does not know that the page is there."""
    start = text_of("README.md").split("\n## ", 1)[0]
    assert f"(docs/{path.name})" in start


def test_every_difference_names_a_test_that_exists():
    """The last column of docs/compatibility.md is a test function in a file of tests/."""
    rows = [
        row.split("|")[-2].strip()
        for row in text_of("docs/compatibility.md").splitlines()
        if row.startswith("| ") and "::" in row
    ]
    assert rows
    for cell in rows:
        for reference in re.findall(r"`([^`]+::[^`]+)`", cell):
            file, _, function = reference.partition("[")[0].partition("::")
            assert f"def {function}(" in text_of(f"tests/{file}"), reference


def test_troubleshooting_quotes_what_the_code_says():
    """Every piece of a quoted message, and every status, stands in the source."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("src/**/*.py"))
    rows = re.findall(r"^ *\| (`.+?) \|", text_of("docs/troubleshooting.md"), re.MULTILINE)
    quoted = [
        quote for row in rows for pair in re.findall(r"``(.+?)``|`([^`]+)`", row) for quote in pair
    ]
    assert len(quoted) > 15
    for quote in quoted:
        for piece in re.split(r"…|\(…\)|40\d", quote):
            assert piece.strip(" :(),;?") in source, quote


def test_the_generated_tables_are_fresh():
    """`make docs` would change nothing."""
    command = [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stale_table_is_noticed_and_written_anew(tmp_path, monkeypatch, capsys):
    """--check fails and changes nothing; without it the table is made, and only the table."""
    document = tmp_path / "README.md"
    document.write_text(
        "before\n<!-- begin: lifecycle -->\nSTALE\n<!-- end: lifecycle -->\nafter\n"
    )
    monkeypatch.setattr(make_docs, "ROOT", tmp_path)
    monkeypatch.setattr(make_docs, "DOCUMENTS", ("README.md",))
    assert make_docs.main(["--check"]) == 1
    assert "STALE" in document.read_text()
    assert "README.md" in capsys.readouterr().err
    assert make_docs.main([]) == 0
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "STALE" not in text
    assert make_docs.main(["--check"]) == 0


def test_a_marker_without_a_table_is_an_error(tmp_path, monkeypatch):
    """It names the document and the marker."""
    (tmp_path / "README.md").write_text("<!-- begin: nodes -->\n<!-- end: nodes -->\n")
    monkeypatch.setattr(make_docs, "ROOT", tmp_path)
    monkeypatch.setattr(make_docs, "DOCUMENTS", ("README.md",))
    with pytest.raises(SystemExit, match=r"README.md: <!-- begin: nodes -->"):
        make_docs.main([])
