"""Build the library under its other name, cyclecloud-scalelib, for installers that look for it.

`python tools/build_scalelib.py [DIRECTORY]` makes `cyclecloud-scalelib-<version>.tar.gz` in the directory (`dist`): the source
distribution of this tree with another name in its metadata. `--wheel` makes the wheel as well. `python setup.py build` runs
this after building the library under its own name.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = "hpc-autoscale"
OTHER = "cyclecloud-scalelib"

# what a working tree has beside its sources
_LEFT_OUT = (".*", "__pycache__", "*.egg-info", "*.py[cod]", "*.db", "build", "dist")


def main(argv: Sequence[str] | None = None) -> int:
    """Build and say what was built; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory", nargs="?", default="dist", type=Path)
    parser.add_argument("--wheel", action="store_true", help="build the wheel as well")
    parser.add_argument(
        "--no-isolation",
        action="store_true",
        help="build with the setuptools of this environment instead of a fresh one",
    )
    args = parser.parse_args(argv)
    kinds = ["--sdist", *(["--wheel"] if args.wheel else [])]
    isolation = ["--no-isolation"] if args.no_isolation else []
    with tempfile.TemporaryDirectory() as work:
        tree, built = Path(work, OTHER), Path(work, "built")
        copy_under_other_name(ROOT, tree)
        command = [sys.executable, "-m", "build", *kinds, *isolation, "--outdir", str(built), "."]
        code = subprocess.call(command, cwd=tree)
        if code:
            return code
        args.directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(built.iterdir()):
            target = args.directory / published_name(path.name)
            shutil.move(path, target)
            print(target)
    return 0


def copy_sources(root: Path, tree: Path) -> None:
    """A copy of the sources without what has been built from them."""
    shutil.copytree(root, tree, ignore=shutil.ignore_patterns(*_LEFT_OUT))


def copy_under_other_name(root: Path, tree: Path) -> None:
    """A copy of the sources in which the distribution is called cyclecloud-scalelib."""
    copy_sources(root, tree)
    pyproject = tree / "pyproject.toml"
    text = renamed(pyproject.read_text(encoding="utf-8"))
    pyproject.write_text(text, encoding="utf-8")
    shutil.copy(tree / "LICENSE", tree / "src" / "hpc" / "autoscale")
    exclude_ours(tree / "src" / "hpc" / f"ONLY-ONE-OF-{OURS}-AND-{OTHER}")


def renamed(pyproject: str) -> str:
    """pyproject.toml with the other name, also in the extras that are made of other extras, and with the licence in the package.

    Licence files beside the metadata are the first thing that installers unpack, and would stay behind when they are then
    kept out. ValueError when a line that is to be changed is not there.
    """
    for before, after in (
        (rf'^name = "(?:{OURS}|{OTHER})"$', f'name = "{OTHER}"'),
        (r"^license-files = .*$", "license-files = []"),
        (r'^("hpc\.autoscale" = \[)(?:"LICENSE", )?', r'\1"LICENSE", '),
    ):
        pyproject, count = re.subn(before, after, pyproject, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"pyproject.toml: expected one line like {before}, found {count}")
    return pyproject.replace(f'"{OURS}[', f'"{OTHER}[')


def exclude_ours(entry: Path) -> None:
    """Make a directory of the package's entry that is a file in our own distribution, and cannot be both.

    An installer's error names the path, so the path says what to do.
    """
    if entry.is_file():
        text = entry.read_text(encoding="utf-8")
        entry.unlink()
        entry.mkdir()
        (entry / f"uninstall-{OURS}-first").write_text(text, encoding="utf-8")


def published_name(file_name: str) -> str:
    """The name of a built file: with dashes for the source distribution, which is what installers look for."""
    if file_name.endswith(".tar.gz"):
        return file_name.replace(OTHER.replace("-", "_"), OTHER, 1)
    return file_name


if __name__ == "__main__":
    raise SystemExit(main())
