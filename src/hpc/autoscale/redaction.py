"""Keeping secrets out of everything that people see.

A value is a secret by its key. Copies of configurations and arguments are made that can be printed.
Texts of others, such as messages of a server, may repeat a password that is known: `Hiding` takes
it out in whatever form it comes. Where secrets come from is said in `hpc.autoscale.config.secrets`.
Called by logging, by the configuration checks, by the clients and by everything that prints a
configuration.
"""

import json
import re
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

HIDDEN = "***"

_SECRET_KEY = (
    r"passw(or)?d|passphrase|secret|token|(api|access|private|account|shared)[-_]?key"
    r"|credential(?!s?[-_]?file)|authorization|cookie"
)
_SHORTEST_BASE64 = 6
SHORTEST = 4
"""So many letters a secret has at least that is taken out wherever it stands."""
_URL_PASSWORD = r"(?<=://)([^/?#@\s:]*):([^/?#\s]*)@"


def is_secret(key: object) -> bool:
    """Whether a value under this key must not be shown; `credentials_file` is a path and may be."""
    return isinstance(key, str) and re.search(_SECRET_KEY, key, re.IGNORECASE) is not None


def passwords_of_urls(text: str) -> list[str]:
    """The passwords inside of the URLs in a text."""
    return [password for _, password in re.findall(_URL_PASSWORD, text) if password]


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


def redact_texts(value: Any, is_below: bool = False) -> Any:
    """A copy in which each text under the key of a secret, at any depth, is `***`; numbers stay,
    since a count of tokens is none."""
    # most are texts without a URL, numbers, and None
    if isinstance(value, str):
        if is_below and value:
            return HIDDEN
        return redact(value) if "://" in value else value
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {
            k: (
                v if v is None or v.__class__ is int else redact_texts(v, is_below or _is_secret(k))
            )
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact_texts(v, is_below) for v in value]
    return value


_is_secret = lru_cache(maxsize=10_000)(is_secret)


def _in_html(text: str, quote: bool = True) -> str:
    import html

    return html.escape(text, quote)


# How texts are written inside of other texts: by Python, in JSON, in HTML; and how many times over,
# as in a page that has JSON in it whose message has JSON in it.
_WAYS_TO_WRITE: list[Callable[[str], str]] = [
    lambda text: repr(text)[1:-1],
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: json.dumps(text)[1:-1].replace("/", r"\/"),
    _in_html,
    lambda text: _in_html(text, quote=False),
    lambda text: _in_html(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
]
_NESTED = 3


class Hiding:
    """Takes secrets out of texts, in every form in which a server or an exception may repeat them.

    The forms of a secret: as it is, as Python, JSON and HTML write it (up to three times over),
    quoted for a URL, and in base64, alone or inside of a longer text that was encoded. Empty
    secrets are left out, and so is base64 of fewer than six letters, which stands in ordinary
    words. One of fewer than `SHORTEST` letters stands in them itself, and in every number: it is
    taken out where it is a text of its own, and where it stands in quotes.
    """

    def __init__(self, *secrets: str) -> None:
        self._short = frozenset(secret for secret in secrets if 0 < len(secret) < SHORTEST)
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        written = {form for secret in self._short for form in (secret, json.dumps(secret)[1:-1])}
        in_quotes = [rf"""(?<=["']){re.escape(form)}(?=\\?["'])""" for form in sorted(written)]
        self._in_keys = _any_of(longest_first)
        self._pattern = _any_of([*longest_first, *in_quotes])

    def __call__(self, text: str) -> str:
        """`text` with `***` for each of the secrets."""
        if text in self._short:
            return HIDDEN
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)

    def throughout(self, value: Any) -> Any:
        """A copy of a value of JSON with `***` for each of the secrets in its texts."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self._key(k): self.throughout(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.throughout(v) for v in value]
        return value

    def _key(self, key: str) -> str:
        """A key, which is a word of the form wherever it is short."""
        return key if self._in_keys is None else self._in_keys.sub(HIDDEN, key)

    def __repr__(self) -> str:
        return "Hiding(***)"

    def __reduce__(self) -> tuple[type["Hiding"], tuple[()]]:
        """What encoders that go through whole objects get: nothing of the secrets."""
        return Hiding, ()

    def __copy__(self) -> "Hiding":
        return self

    def __deepcopy__(self, memo: object) -> "Hiding":
        return self


def _any_of(forms: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(forms)) if forms else None


def _forms(secret: str) -> set[str]:
    """Regular expressions for the forms of a secret."""
    from urllib.parse import quote, quote_plus

    written = {secret, repr(secret.encode("utf-8", "surrogatepass"))[2:-1]}
    for _ in range(_NESTED):
        written |= {write(form) for form in written for write in _WAYS_TO_WRITE}
    encoded = secret.encode("utf-8", "surrogatepass")
    quoted = {quote(encoded, safe=safe) for safe in ("", "/", "!$&'()*+,;=:@/~")}
    quoted |= {quote_plus(encoded), quote(quote(encoded, safe=""), safe="")}
    # either case is allowed behind the percent sign
    in_urls = {re.sub("%[0-9A-F]{2}", lambda e: f"(?i:{e.group()})", re.escape(q)) for q in quoted}
    return {re.escape(form) for form in written} | in_urls | _in_base64(encoded)


def _in_base64(secret: bytes) -> set[str]:
    """What base64 has for these bytes: alone, and with up to two bytes before them and any after.

    Letters that depend on the bytes around are left out.
    """
    forms = {b2a_base64(secret, newline=False).decode().rstrip("=")}
    for before in range(3):
        letters = b2a_base64(bytes(before) + secret, newline=False).decode()
        whole = (before + len(secret)) * 8 // 6
        forms.add(letters[(before * 8 + 5) // 6 : whole])
    forms |= {form.replace("+", "-").replace("/", "_") for form in forms}
    return {f"{re.escape(form)}={{0,2}}" for form in forms if len(form) >= _SHORTEST_BASE64}
