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
