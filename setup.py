"""Build entry point. The project is described in pyproject.toml; here are only the short commands
`python setup.py build | types | format | test | docs`, each of which calls the tools made for it.
"""

import subprocess
import sys

from setuptools import setup

PROGRAMS = {
    "build": [["-m", "build", "--outdir", "dist", "."]],
    "types": [["-m", "mypy"]],
    "format": [["-m", "black", "."], ["-m", "ruff", "check", "--fix", "."]],
    "test": [["-m", "pytest"]],
    "docs": [["tools/make_docs.py"]],
}


def run(command: str) -> int:
    """Run the programs of a short command with this interpreter; the exit code of the first that fails."""
    for program in PROGRAMS[command]:
        code = subprocess.call([sys.executable, *program])
        if code:
            return code
    return 0


if len(sys.argv) == 2 and sys.argv[1] in PROGRAMS:
    raise SystemExit(run(sys.argv[1]))
setup()
