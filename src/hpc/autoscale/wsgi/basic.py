"""HTTP Basic authentication: the one user that a server of ours lets in."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Login:
    """User name and password of the one user of a server."""

    username: str
    password: str = field(repr=False)

    def admits(self, authorization: str | None) -> bool:
        """Whether a header `Authorization` is HTTP Basic with this user name and password.

        Comparing takes as long for every wrong answer of one length.
        """
        scheme, _, encoded = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            given = base64.b64decode(encoded.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(given, f"{self.username}:{self.password}".encode())
