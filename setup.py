"""Short commands for a working tree: `python setup.py build | types | format | test | docs`.

Each calls the tools made for it. `sdist` and `bdist_wheel` make one distribution in dist/, for
scripts that call them so. The project is described in pyproject.toml and built by
tools/build_backend.py; pip does not run this file.
"""

import subprocess
import sys

PROGRAMS = {
    "build": [["tools/build_backend.py", "sdist", "wheel"], ["tools/build_scalelib.py", "dist"]],
    "sdist": [["tools/build_backend.py", "sdist"]],
    "bdist_wheel": [["tools/build_backend.py", "wheel"]],
    "types": [["-m", "mypy"]],
    "format": [["-m", "black", "."], ["-m", "ruff", "check", "--fix", "."]],
    "test": [["-m", "pytest"]],
    "docs": [["tools/make_docs.py"]],
}


def run(command: str) -> int:
    """Run the programs of a short command with this interpreter, until one fails.

    The result is the exit code of that one, or 0.
    """
    for program in PROGRAMS[command]:
        code = subprocess.call([sys.executable, *program])
        if code:
            return code
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PROGRAMS:
        raise SystemExit(
            f"setup.py: expected one of {', '.join(PROGRAMS)},"
            f" found {' '.join(sys.argv[1:]) or 'nothing'} (to install: python -m pip install .)"
        )
    raise SystemExit(run(sys.argv[1]))
