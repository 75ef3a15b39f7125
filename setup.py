"""Build entry point. The project is described in pyproject.toml; here are only the short commands
`python setup.py build | types | format | test | docs`, each of which calls the tool made for it."""

import subprocess
import sys
from typing import ClassVar

from setuptools import Command, setup


class _Tool(Command):
    """A command that runs other programs, with this interpreter, and fails when one of them fails."""

    user_options: ClassVar[list[tuple[str, str | None, str]]] = []
    programs: ClassVar[list[list[str]]] = []

    def initialize_options(self) -> None:
        """Nothing to set: the tools read pyproject.toml."""

    def finalize_options(self) -> None:
        """Nothing to check."""

    def run(self) -> None:
        """Run each program in turn; SystemExit with its code at the first failure."""
        for program in self.programs:
            code = subprocess.call([sys.executable, "-m", *program])
            if code:
                raise SystemExit(code)


class Types(_Tool):
    description = "check types with mypy --strict"
    programs = [["mypy"]]


class Format(_Tool):
    description = "format with black and apply ruff's safe fixes"
    programs = [["black", "."], ["ruff", "check", "--fix", "."]]


class Test(_Tool):
    description = "run the tests with pytest"
    programs = [["pytest"]]


class Docs(_Tool):
    description = "write the tables in README.md and docs/ anew from the code"
    programs = [["tools.make_docs"]]


setup(cmdclass={"types": Types, "format": Format, "test": Test, "docs": Docs})
