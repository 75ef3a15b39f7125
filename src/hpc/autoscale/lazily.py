"""Names of a package whose modules are imported when somebody first asks for a name.

It is for what costs time to import and most processes never use. The package imports the names
under `TYPE_CHECKING`, for type checkers, and sets its `__getattr__` to what `offered` returns.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def offered(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a package. `where` gives the module, within the package, of each name.

    `from package import *` has these names too, beside all others that are public; modules are
    left out, as which of them there are depends on what was asked for.
    """

    def find(name: str) -> Any:
        if name == "__all__":
            there = vars(sys.modules[package])
            own = (known for known in there if not isinstance(there[known], ModuleType))
            return sorted({*where, *(known for known in own if not known.startswith("_"))})
        module = where.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module}"), name)

    return find
