"""Fuzzing of every parser with atheris, which looks for inputs that reach new lines of the code.

    pip install atheris
    PYTHONPATH=tests python tools/fuzz.py constraints -max_total_time=60

The first argument is one of the parsers of `tests/builders/parsers.py`; the others are libFuzzer's.
It ends with a stack trace at the first error that the parser does not document. `make test` throws
anything at the same parsers without it (`tests/property/test_fuzz_parsers.py`).
"""

import json
import logging
import sys
from contextlib import suppress
from typing import Any

import atheris  # type: ignore[import-not-found,unused-ignore]

with atheris.instrument_imports(include=["hpc.autoscale"]):
    from builders.parsers import PARSERS


def value_of(data: bytes) -> Any:
    """What the bytes stand for: JSON where they are JSON, or else a text."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return text


def main() -> None:
    """Fuzz the parser that the command line names."""
    if len(sys.argv) < 2 or sys.argv[1] not in PARSERS:
        raise SystemExit(f"expected one of {', '.join(PARSERS)}")
    parse = PARSERS[sys.argv.pop(1)]
    logging.disable(logging.CRITICAL)
    atheris.Setup(sys.argv, lambda data: parse(value_of(data)))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
