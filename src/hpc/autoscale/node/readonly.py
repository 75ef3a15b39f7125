"""Views of mappings that cannot be written to, as nodes hand them out.

Integrations copy and pickle what a node gives them, also as a part of something else, such as the
metadata of another node. Python's own view can be neither copied nor pickled; that it can be is
arranged here, for the whole process.
"""

from __future__ import annotations

import copyreg
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


def read_only(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """A live view of a mapping. A copy of the view, deep or not, or by way of pickle, is a view of
    what is in the mapping then."""
    return MappingProxyType(mapping)


def _of_a_copy(view: MappingProxyType[Any, Any]) -> tuple[Any, tuple[dict[Any, Any]]]:
    return read_only, (dict(view),)


copyreg.pickle(MappingProxyType, _of_a_copy)
