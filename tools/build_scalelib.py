"""Build the library under its other name, cyclecloud-scalelib, for installers that look for it.

`python tools/build_scalelib.py [DIRECTORY]` makes `cyclecloud-scalelib-<version>.tar.gz` and its
wheel in the directory (`dist`): the sources of this tree with another name in their metadata.
`python setup.py build` runs this after building the library under its own name.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from build_backend import Project, write_sdist, write_wheel

OURS = "hpc-autoscale"
OTHER = "cyclecloud-scalelib"

# What integrations got through cyclecloud-scalelib and use without asking for it themselves. `six`
# is imported by one of them. Their packagers leave out charset-normalizer, which is built for one
# interpreter, and requests wants one of the two: chardet below 6 is plain Python, and within what
# every release of requests since 2.31 takes.
ALSO_NEEDED = ("chardet>=3.0.2,<6", "six>=1.16")


def main(argv: Sequence[str] | None = None) -> int:
    """Build, and print what was built; the result is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory", nargs="?", default="dist", type=Path)
    directory = parser.parse_args(argv).directory
    here = Project()
    project = Project(here.root, renamed(here.pyproject))
    sdist = directory / write_sdist(project, directory)
    wheel = directory / write_wheel(project, directory, dict(project.package()))
    print(sdist.replace(directory / published_name(sdist.name)))
    print(wheel)
    return 0


def renamed(pyproject: str) -> str:
    """pyproject.toml with the other name, and with the other things that this needs.

    The name is changed also in the extras that are made of other extras. ValueError when a line
    that is to be changed is not there.
    """
    also = "".join(f'    "{need}",\n' for need in ALSO_NEEDED)
    for before, after in (
        (rf'^name = "(?:{OURS}|{OTHER})"$', f'name = "{OTHER}"'),
        (rf"^dependencies = \[\n(?:{re.escape(also)})?", f"dependencies = [\n{also}"),
    ):
        pyproject, count = re.subn(before, after, pyproject, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"pyproject.toml: expected one line like {before}, found {count}")
    return pyproject.replace(f'"{OURS}[', f'"{OTHER}[')


def published_name(file_name: str) -> str:
    """The name of a built source distribution: with dashes, which is what installers look for."""
    return file_name.replace(OTHER.replace("-", "_"), OTHER, 1)


if __name__ == "__main__":
    raise SystemExit(main())
