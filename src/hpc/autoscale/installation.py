"""Whether the library is installed once: under one of its two names, and not under both.

Two distributions over the same files leave a mixture of both, which goes when either is
uninstalled. An installer that is given a wheel cannot be told to refuse; one that is given a source
distribution is (tools/build_backend.py). So the first import looks, and every command looks
further. Called by the package itself and by `cli.parsing.run_command`.
"""

import os
import re
import sys
from collections.abc import Iterable

from hpc.autoscale.errors import ConfigurationException

# as installers name the directories of their metadata; listing them takes a fraction of what
# importlib.metadata does
_METADATA = re.compile(
    r"(hpc[-_.]autoscale|cyclecloud[-_.]scalelib)(?:-([^-]+))?(?:-py\d[^-]*)?\.(?:dist|egg)-info",
    re.IGNORECASE,
)


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
            metadata = _METADATA.fullmatch(entry)
            if metadata:
                name = re.sub("[-_.]", "-", metadata[1].lower())
                found.setdefault(name, f"{name} {metadata[2] or ''}".strip() + f" in {directory}")
    if len(found) > 1:
        raise MixedInstallationError(
            f"installed are {' and '.join(found.values())}, which are one library under two names"
            " and overwrite each"
            f" other: run {sys.executable or 'python3'} -m pip uninstall {' '.join(found)}, and"
            " then install one of them"
        )


def _entries(directory: str) -> list[str]:
    """The names in a directory; none where there is no directory, as in a zip file."""
    try:
        return os.listdir(directory)
    except OSError:
        return []
