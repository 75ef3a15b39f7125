"""Names that a package offers and that are imported when somebody first asks for them.

For what costs time to import and most processes never use. The package names them under
`TYPE_CHECKING` as usual, for type checkers, and gives itself the `__getattr__` that is made here.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def offered(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a package: the module, within the package, of each name that is
    offered."""

    def find(name: str) -> Any:
        module = where.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module}"), name)

    return find
