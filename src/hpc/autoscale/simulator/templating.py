"""Templates of local machines: texts with `{placeholders}` for facts of the node.

Only plain names are replaced, so that a template cannot reach into objects; write `{{` and `}}` for
braces. The description checks templates when it is read, the machines fill them in when a node
boots.
"""

import re
from collections.abc import Iterator, Mapping

PLACEHOLDERS: Mapping[str, str] = {
    "node_id": "the node's unique id",
    "name": "its name",
    "hostname": "the host name that it will register",
    "private_ip": "its address",
    "nodearray": "its nodearray",
    "vm_size": "its VM size",
    "cluster": "its cluster",
    "vcpus": "virtual cores",
    "memory_gb": "memory in GiB",
    "gpus": "GPUs",
    "placement_group": "its placement group, empty without one",
    "work_dir": "a directory of its own, which exists and is the working directory",
    "python": "the Python interpreter that runs the simulator",
}
_PATTERN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


def placeholders(text: str) -> Iterator[str]:
    """The names between single braces in a template."""
    return (match[1] for match in _PATTERN.finditer(text) if match[1] is not None)


def fill(text: str, values: Mapping[str, object]) -> str:
    """The template with its placeholders replaced.

    Raises KeyError for a placeholder that `values` does not have.
    """

    def replacement(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else str(values[match[1]])

    return _PATTERN.sub(replacement, text)
