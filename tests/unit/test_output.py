"""What becomes of output that its reader does not take."""

import gc
import io
import os
import subprocess
import sys

import pytest

from hpc.autoscale.output import prepare_streams

PROGRAM = """
import sys
from hpc.autoscale.output import prepare_streams
prepare_streams()
sys.stdout.write("x" * 1_000_000)
sys.stdout.flush()
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_text_of_which_a_part_was_written(unbuffered):
    """Is an error, and not taken for written, also with PYTHONUNBUFFERED: the reader goes after the
    first byte."""
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=pipe, stderr=pipe, bufsize=0, env=environment
    ) as program:
        program.stdout.read(1)
        program.stdout.close()
        said = program.stderr.read()
    assert b"BrokenPipeError" in said
    assert program.returncode != 0


def test_the_stream_of_the_caller_stays_open(monkeypatch, tmp_path):
    """Also when ours is gone, as in a program that calls a command."""
    for name in ("stdout", "stderr"):
        raw = io.FileIO(tmp_path / name, "wb")
        monkeypatch.setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    with sys.stdout as out, sys.stderr as err:
        prepare_streams()
        print("ours")
        assert sys.stdout is not out
        sys.stdout, sys.stderr = out, err
        gc.collect()
        print("theirs")
    assert (tmp_path / "stdout").read_text() == "ours\ntheirs\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_an_encoding_has_not(encoding):
    """Are escapes, but for the mark of what is cut, which is three dots."""
    program = PROGRAM.replace('"x" * 1_000_000', '"Standard_F4… 名前…"')
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert done.stdout == rb"Standard_F4... \u540d\u524d..."


def test_a_line_is_written_at_once():
    """With PYTHONUNBUFFERED, as those expect who ask for it."""
    program = PROGRAM.replace('"x" * 1_000_000', '"one\\n"').replace("flush()", "x = input()")
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=pipe, stdin=pipe, bufsize=0, env=environment
    ) as waiting:
        assert waiting.stdout.readline() == b"one\n"
        waiting.communicate(b"\n")


SAYS_MUCH = """
import sys
from hpc.autoscale.output import has_reader, prepare_streams
prepare_streams()
assert has_reader(sys.stderr)
for _ in range(3):
    print("x" * 100_000, file=sys.stderr, flush=True)
print(has_reader(sys.stderr))
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_is_said_is_dropped_where_it_cannot_be_written(unbuffered):
    """Also when the process ends; that a pipe has no reader any more can be asked for."""
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}

    def said(stderr):
        line = [sys.executable, "-c", SAYS_MUCH]
        options = {"stdout": subprocess.PIPE, "env": environment, "check": False}
        done = subprocess.run(line, stderr=stderr, **options)
        return done.returncode, done.stdout

    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "wb") as without_reader:
        assert said(without_reader) == (0, b"False\n")
    unread, full_pipe = os.pipe()
    os.set_blocking(full_pipe, False)
    with open(unread, "rb"), open(full_pipe, "wb") as does_not_wait:
        assert said(does_not_wait) == (0, b"True\n")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            assert said(full) == (0, b"True\n")
