"""Check that black would leave every Python file as it is.

Black takes a minute for all of them where it has not seen them before, and ruff, which formats
nearly as black does, a tenth of a second: black is asked about the files that ruff would write in
another way. `make format` is black itself. Called by the Makefile.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
HEADING = re.compile(r"^\+\+\+ (.*\.pyi?)$", re.MULTILINE)


def main() -> int:
    """Say which files are to be formatted; the exit code."""
    ruff = subprocess.run(
        [BIN / "ruff", "format", "--diff", "."], capture_output=True, encoding="utf-8"
    )
    if ruff.returncode not in (0, 1):
        sys.stderr.write(ruff.stderr)
        return ruff.returncode
    files = [name for name in HEADING.findall(ruff.stdout) if Path(name).is_file()]
    if not files:
        return 0
    black = subprocess.run(
        [BIN / "black", "--check", "--", *files], capture_output=True, encoding="utf-8"
    )
    if black.returncode:
        sys.stderr.write(black.stderr)
    return black.returncode


if __name__ == "__main__":
    sys.exit(main())
