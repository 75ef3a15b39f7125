"""Print the lowest version that pyproject.toml allows of each package that the library needs, as
constraints for pip (`make lowest`)."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lowest(project: dict[str, object]) -> Iterator[str]:
    """A constraint for each package with a lower bound, of the library and of all its extras."""
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    needed: list[str] = project["dependencies"]  # type: ignore[assignment]
    found: dict[str, str] = {}
    for text in chain(needed, *extras.values()):
        requirement = Requirement(text)
        bounds = [each.version for each in requirement.specifier if each.operator == ">="]
        for version in bounds:
            if found.setdefault(requirement.name, version) != version:
                known = found[requirement.name]
                raise SystemExit(f"{requirement.name}: two lower bounds, {known} and {version}")
    return (f"{name}=={version}" for name, version in sorted(found.items()))


def main() -> int:
    """Print them; the exit code."""
    with PROJECT.open("rb") as file:
        print(*lowest(tomllib.load(file)["project"]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
