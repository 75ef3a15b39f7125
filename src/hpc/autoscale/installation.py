"""Whether the library is installed once: under one of its two names, and not under both.

Two distributions over the same files leave a mixture of both, which goes when either is
uninstalled. An installer that is given a wheel cannot be told to refuse; one that is given a source
distribution is (tools/build_backend.py). So the first import looks, and every command looks
further. Called by the package itself and by `cli.parsing.run_command`.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from hpc.autoscale.errors import ConfigurationException

_NAMES = ("hpc-autoscale", "cyclecloud-scalelib")


class MixedInstallationError(ConfigurationException, ImportError):
    """The library is installed under both of its names."""


def refuse_mixture() -> None:
    """MixedInstallationError when both distributions are installed where this package is."""
    package = os.path.dirname(os.path.abspath(__file__))
    refuse_both([os.path.dirname(os.path.dirname(package))])


def refuse_both(path: Iterable[str] | None = None) -> None:
    """MixedInstallationError when both distributions are on `path`, by default `sys.path`."""
    found: dict[str, str] = {}
    for directory in sys.path if path is None else path:
        for entry in _entries(directory or os.curdir):
            for name, version in _installed(entry):
                found.setdefault(name, f"{name} {version}".strip() + f" in {directory}")
    if len(found) > 1:
        raise MixedInstallationError(
            f"installed are {' and '.join(found.values())}, which are one library under two names"
            " and overwrite each"
            f" other: run {sys.executable or 'python3'} -m pip uninstall {' '.join(found)}, and"
            " then install one of them"
        )


def _installed(entry: str) -> Iterator[tuple[str, str]]:
    """Which of the two a directory is the metadata of, as installers name it, and its version. To
    list them takes a fraction of what importlib.metadata does."""
    whole = entry.removesuffix(".dist-info").removesuffix(".egg-info")
    for name in _NAMES if whole != entry else ():
        own, rest = whole[: len(name)], whole[len(name) :]
        if own.lower().replace("_", "-").replace(".", "-") == name and rest[:1] in ("", "-"):
            yield name, rest[1:].partition("-")[0]


def _entries(directory: str) -> list[str]:
    """The names in a directory; none where there is no directory, as in a zip file."""
    try:
        return os.listdir(directory)
    except OSError:
        return []
