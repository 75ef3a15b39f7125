"""Builds the library: the hooks that pip and `build` call (PEP 517 and 660), in the standard
library alone.

The schedulers that this is embedded in often have no package registry, and what a backend requires
has to be fetched to build a source distribution, whatever is installed already. This one requires
nothing. The project is described in pyproject.toml; what goes into a distribution is said here.
Called by installers through pyproject.toml, by setup.py, and by build_scalelib.py, which builds the
same sources under their other name.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.metadata
import io
import os
import re
import sys
import sysconfig
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("hpc-autoscale", "cyclecloud-scalelib")
"""The names under which this library is distributed; an environment can have it under one of them
only."""

SOURCES = (
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md"),
    *("conftest.py", "dev-requirements.txt", "pyproject.toml", "setup.py"),
    *("benchmarks", "docs", "example-celery", "examples", "src", "tests", "tools", "util"),
)
"""What a source distribution is made of."""

PACKAGES = ("hpc", "hpc_queue")
"""The packages below `src`."""

PACKAGE = ("*.py", "*.json", "*.json.gz", "*.conf", "py.typed")
"""What of each package is installed."""

LEFT_OUT = (".*", "__pycache__", "*.egg-info", "*.py[cod]", "*.db", "build", "dist", "out")
"""What a working tree has beside its sources, at any depth."""


@dataclass(frozen=True)
class Project:
    """A source tree, with what its pyproject.toml says, or is to say."""

    root: Path = ROOT
    pyproject: str = field(default_factory=lambda: (ROOT / "pyproject.toml").read_text("utf-8"))

    @cached_property
    def described(self) -> dict[str, Any]:
        """The table `project`, read once: it is asked for the name of every file."""
        table: dict[str, Any] = tomllib.loads(self.pyproject)["project"]
        return table

    @property
    def name(self) -> str:
        return str(self.described["name"])

    @cached_property
    def version(self) -> str:
        path = self.root / "src" / "hpc" / "autoscale" / "_version.py"
        found = re.search(r'^__version__ = "([^"]+)"$', path.read_text("utf-8"), re.MULTILINE)
        if found is None:
            raise ValueError(f'{path}: expected a line __version__ = "…", found none')
        return found[1]

    @property
    def stem(self) -> str:
        """The beginning of the names of the files that are built."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    def sources(self) -> Iterator[tuple[str, bytes, int]]:
        """Path, contents and mode of each file of a source distribution."""
        for path in files_below(self.root, SOURCES):
            name = path.relative_to(self.root).as_posix()
            renamed = name == "pyproject.toml"
            contents = self.pyproject.encode() if renamed else path.read_bytes()
            yield name, contents, 0o755 if path.stat().st_mode & 0o100 else 0o644

    def package(self) -> Iterator[tuple[str, bytes]]:
        """Path and contents of each file of the package."""
        source = self.root / "src"
        for path in files_below(source, PACKAGES):
            if any(fnmatch(path.name, pattern) for pattern in PACKAGE):
                yield path.relative_to(source).as_posix(), path.read_bytes()

    def core_metadata(self) -> str:
        """What installers and registries are told, as METADATA and PKG-INFO say it."""
        said = self.described
        fields = [
            ("Metadata-Version", "2.4"),
            ("Name", self.name),
            ("Version", self.version),
            ("Summary", said["description"]),
            ("License-Expression", said["license"]),
            *(("License-File", name) for name in said["license-files"]),
            ("Keywords", ",".join(said["keywords"])),
            *(("Classifier", name) for name in said["classifiers"]),
            ("Requires-Python", said["requires-python"]),
            *(("Requires-Dist", need) for need in said["dependencies"]),
        ]
        for extra, needs in said["optional-dependencies"].items():
            fields.append(("Provides-Extra", extra))
            fields.extend(("Requires-Dist", f'{need}; extra == "{extra}"') for need in needs)
        fields.append(("Description-Content-Type", "text/markdown"))
        head = "".join(f"{key}: {value}\n" for key, value in fields)
        return f"{head}\n{(self.root / said['readme']).read_text('utf-8')}"

    def dist_info(self) -> dict[str, bytes]:
        """The metadata of a wheel, without the list of its files."""
        scripts = "".join(f"{name} = {at}\n" for name, at in self.described["scripts"].items())
        texts = {
            "METADATA": self.core_metadata(),
            "WHEEL": (
                "Wheel-Version: 1.0\nGenerator: hpc-autoscale\nRoot-Is-Purelib: true\nTag:"
                " py3-none-any\n"
            ),
            "entry_points.txt": f"[console_scripts]\n{scripts}",
        }
        files = {name: text.encode() for name, text in texts.items()}
        for name in self.described["license-files"]:
            files[f"licenses/{name}"] = (self.root / name).read_bytes()
        return {f"{self.stem}.dist-info/{name}": contents for name, contents in files.items()}


def files_below(root: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """The files of these names, and the files below directories of these names, in order.

    FileNotFoundError when one does not exist.
    """
    for name in sorted(names):
        path = root / name
        if path.is_dir():
            inside = (entry for entry in os.listdir(path) if not is_left_out(entry))
            yield from files_below(path, tuple(inside))
        elif path.exists():
            yield path
        else:
            raise FileNotFoundError(f"{path}: expected in the sources, found nothing")


def is_left_out(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def write_sdist(project: Project, directory: Path) -> str:
    """Write the source distribution; its file name."""
    name = f"{project.stem}.tar.gz"
    files = [*project.sources(), ("PKG-INFO", project.core_metadata().encode(), 0o644)]
    moment = built_at()
    with (
        writing(directory / name) as stream,
        gzip.GzipFile("", "wb", fileobj=stream, mtime=moment) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for file_name, contents, mode in files:
            entry = tarfile.TarInfo(f"{project.stem}/{file_name}")
            entry.size, entry.mode, entry.mtime = len(contents), mode, moment
            archive.addfile(entry, io.BytesIO(contents))
    return name


def write_wheel(project: Project, directory: Path, contents: Mapping[str, bytes]) -> str:
    """Write a wheel of these files; its file name."""
    name = f"{project.stem}-py3-none-any.whl"
    files = {**contents, **project.dist_info()}
    record = f"{project.stem}.dist-info/RECORD"
    lines = [f"{path},sha256={digest(data)},{len(data)}\n" for path, data in files.items()]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    moment = time.gmtime(built_at())[:6]
    with writing(directory / name) as stream, zipfile.ZipFile(stream, "w") as archive:
        for file_name, data in files.items():
            entry = zipfile.ZipInfo(file_name, moment)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


@contextmanager
def writing(target: Path) -> Iterator[BinaryIO]:
    """A context with a file to write to, which gets its name when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(unfinished, "wb") as stream:
            yield stream
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def digest(contents: bytes) -> str:
    """The digest of contents, as lists of installed files have it."""
    found = hashlib.sha256(contents).digest()
    return base64.urlsafe_b64encode(found).decode().rstrip("=")


def built_at() -> int:
    """The time that built files have: SOURCE_DATE_EPOCH, or now."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    return int(time.time()) if said is None else max(int(said), 315_532_800)  # zip begins in 1980


def refuse_both(project: Project) -> None:
    """End with a message when the library is installed under its other name where pip installs.

    pip builds with the interpreter of that environment, and hides its packages but not its paths. A
    wheel runs nothing when it is installed; there the first import finds out
    (`hpc.autoscale.installation`).
    """
    if (
        "PIP_BUILD_TRACKER" not in os.environ
    ):  # set by pip; whoever only builds may have the other one
        return
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    for name in NAMES:
        for other in importlib.metadata.distributions(name=name, path=folders):
            if name != project.name:
                raise SystemExit(
                    f"{name} {other.version} is installed in {folders[0]}, and {project.name} is"
                    " the same library under"
                    " another name: only one of them can be installed. First run:"
                    f" {sys.executable} -m pip uninstall {name}"
                )


# The hooks, by the names and parameters that front ends expect.


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Make a source distribution."""
    return write_sdist(Project(), Path(sdist_directory))


def build_wheel(
    wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None
) -> str:
    """Make a wheel."""
    project = Project()
    refuse_both(project)
    return write_wheel(project, Path(wheel_directory), dict(project.package()))


def build_editable(
    wheel_directory: str, config_settings: object = None, metadata_directory: str | None = None
) -> str:
    """Make a wheel through which Python imports from this tree."""
    project = Project()
    refuse_both(project)
    link = {f"__editable__.{project.stem}.pth": f"{project.root / 'src'}\n".encode()}
    return write_wheel(project, Path(wheel_directory), link)


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: object = None
) -> str:
    """Write the metadata that a resolver needs, without building."""
    project = Project()
    for name, contents in project.dist_info().items():
        path = Path(metadata_directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)
    return f"{project.stem}.dist-info"


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def main(kinds: list[str]) -> int:
    """Build the kinds of distribution that the arguments name, `sdist` and `wheel`, in dist/.

    The names of the files are printed. The result is the exit code.
    """
    project = Project()
    directory = project.root / "dist"
    for kind in kinds:
        if kind == "sdist":
            print(directory / write_sdist(project, directory))
        elif kind == "wheel":
            print(directory / write_wheel(project, directory, dict(project.package())))
        else:
            print(f"{__file__}: expected sdist or wheel, found {kind}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
