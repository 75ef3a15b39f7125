"""Keeping secrets out of everything that people see.

A value is a secret by its key. Copies of configurations and arguments are made that can be printed.
Where secrets come from is said in `hpc.autoscale.config.secrets`. Called by logging, by the
configuration checks and by everything that prints a configuration.
"""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_SECRET_KEY = (
    r"passw(or)?d|passphrase|secret|token|(api|access|private|account|shared)[-_]?key"
    r"|credential(?!s?[-_]?file)|authorization|cookie"
)
_URL_PASSWORD = r"(?<=://)([^/?#@\s:]*):[^/?#\s]*@"


def is_secret(key: object) -> bool:
    """Whether a value under this key must not be shown; `credentials_file` is a path and may be."""
    return isinstance(key, str) and re.search(_SECRET_KEY, key, re.IGNORECASE) is not None


def redact(value: Any) -> Any:
    """A copy in which each secret, at any depth, is `***`; a password inside of a URL likewise.

    Mappings, lists and tuples are copied and other objects are passed on as they are. A secret that
    is None stays None, so that one sees that it is not set.
    """
    if isinstance(value, Mapping):
        return {k: _redacted(k, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact(v) for v in value]
    if isinstance(value, str):
        return re.sub(_URL_PASSWORD, rf"\1:{HIDDEN}@", value)
    return value


def _redacted(key: object, value: Any) -> Any:
    if is_secret(key) and value is not None:
        return HIDDEN
    return redact(value)
