"""Build entry point. The project is described in pyproject.toml; here are only the short commands
`python setup.py build | types | format | test | docs`, each of which calls the tools made for it, and the refusal to be
installed beside the same library under its other name."""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from setuptools import setup

PROGRAMS = {
    "build": [["-m", "build", "--outdir", "dist", "."], ["tools/build_scalelib.py", "dist"]],
    "types": [["-m", "mypy"]],
    "format": [["-m", "black", "."], ["-m", "ruff", "check", "--fix", "."]],
    "test": [["-m", "pytest"]],
    "docs": [["tools/make_docs.py"]],
}

NAMES = ("hpc-autoscale", "cyclecloud-scalelib")


def run(command: str) -> int:
    """Run the programs of a short command with this interpreter; the exit code of the first that fails."""
    for program in PROGRAMS[command]:
        code = subprocess.call([sys.executable, *program])
        if code:
            return code
    return 0


def refuse_both() -> None:
    """End with a message when the library is there under its other name, in the environment that pip installs into.

    pip builds with the interpreter of that environment, and hides its packages but not its paths. Wheels run nothing when
    they are installed; there the entry `ONLY-ONE-OF-…` of the package stands in the way.
    """
    pyproject = Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8")
    ours = tomllib.loads(pyproject)["project"]["name"]
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    for name in NAMES:
        for other in importlib.metadata.distributions(name=name, path=folders):
            if name != ours:
                raise SystemExit(
                    f"{name} {other.version} is installed in {folders[0]}, and {ours} is the same library under another"
                    f" name: only one of them can be installed. First run: {sys.executable} -m pip uninstall {name}"
                )


if len(sys.argv) == 2 and sys.argv[1] in PROGRAMS:
    raise SystemExit(run(sys.argv[1]))
if "PIP_BUILD_TRACKER" in os.environ:  # set by pip; whoever only builds may have the other one
    refuse_both()
setup()
