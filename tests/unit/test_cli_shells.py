"""The shell: a console, its history, and dictionaries to type."""

import builtins
import io
import os
import sys

import pytest

from hpc.autoscale.cli import shells
from hpc.autoscale.clilib import ReraiseAssertionInterpreter, ShellDict, shell


@pytest.fixture
def typed(monkeypatch, tmp_path):
    """Type lines into a shell; what it printed."""
    history = tmp_path / "history"
    monkeypatch.setattr(shells, "HISTORY_FILE", str(history))

    def type_lines(*lines, **names):
        waiting = iter(lines)

        def read(prompt=""):
            try:
                return next(waiting)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr(builtins, "input", read)
        monkeypatch.setattr("sys.stderr", io.StringIO())
        shell({}, names, None)

    type_lines.history = history
    return type_lines


def test_typing(typed, capsys):
    """Names are at hand, and a mistake does not end the shell."""
    typed("print(answer)", "1 +", "raise AssertionError('no')", "print('still here')", answer=42)
    assert capsys.readouterr().out == "42\nstill here\n"


def test_history_is_never_run(typed, capsys):
    """Lines of earlier shells are there to be recalled, whatever is in them."""
    typed.history.write_text("print('''from \"history\"''')\n\n")
    typed("print(1)")
    assert capsys.readouterr().out == "1\n"


def test_no_history_to_write_to(typed, monkeypatch, tmp_path):
    """Is said, and nothing more."""
    monkeypatch.setattr(shells, "HISTORY_FILE", str(tmp_path / "none" / "history"))
    typed("1")
    assert "the history could not be kept in" in sys.stderr.getvalue()


def test_a_script(tmp_path, capsys):
    """Runs with the names as globals, and its errors are its own."""
    script = tmp_path / "script.py"
    script.write_text("print(answer, __name__)\nraise AssertionError('wrong')\n")
    with pytest.raises(AssertionError, match="wrong"):
        shell({}, {"answer": 42}, str(script))
    assert capsys.readouterr().out == "42 __main__\n"


def test_a_script_is_the_main_module(tmp_path, capsys):
    """As where Python runs it: with its own annotations, and classes that can be pickled."""
    lines = (
        "import pickle, sys",
        "from dataclasses import dataclass",
        "@dataclass",
        "class Wish:",
        "    nodes: int = 1",
        "print(Wish.__annotations__['nodes'] is int, pickle.loads(pickle.dumps(Wish(2))).nodes)",
        "print(sys.argv[0] == __file__)",
    )
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines))
    before = sys.modules["__main__"], sys.argv[0]
    shell({}, {}, str(script))
    assert capsys.readouterr().out == "True 2\nTrue\n"
    assert (sys.modules["__main__"], sys.argv[0]) == before


def test_a_script_that_comes_through_a_pipe(capsys):
    """As with `--script /dev/stdin`: it is run, once."""
    reader, writer = os.pipe()
    os.write(writer, b"print(answer, __file__)\n")
    os.close(writer)
    try:
        shell({}, {"answer": 42}, f"/dev/fd/{reader}")
    finally:
        os.close(reader)
    assert capsys.readouterr().out == f"42 /dev/fd/{reader}\n"


@pytest.mark.parametrize(
    ("line", "error"), [("raise AssertionError", AssertionError), ("1 +* 2", SyntaxError)]
)
def test_an_interpreter_that_raises(line, error):
    """What others only show."""
    with pytest.raises(error):
        ReraiseAssertionInterpreter(locals={}).push(line)


def test_other_errors_are_shown(capsys):
    """As in any console."""
    ReraiseAssertionInterpreter(locals={}).push("1 / 0")
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_dictionaries_to_type():
    """Keys are attributes, made fit for it."""
    jobs = ShellDict({"12": "a", "ip-0A000004": "b"})
    assert (jobs.k_12, jobs.ip_0A000004, jobs["12"]) == ("a", "b", "a")
