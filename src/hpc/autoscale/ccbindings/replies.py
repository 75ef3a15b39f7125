"""What the server said: judging a reply by its status code, its body and its JSON.

Pure functions over `Reply`; the session makes replies, the endpoint functions judge them with
these. Everything that a server may send instead of an answer (a login page, nothing, half of it)
becomes an error that says so.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from hpc.autoscale.ccbindings import errors
from hpc.autoscale.ccbindings.models import Model, Record

M = TypeVar("M", bound=Model)

# the words, in lower case, by which callers recognise a request that was never carried out
NEVER_HAPPENED = "no operation found for request id"

# a surrogate as JSON writes it; whole pairs are no trouble, and rare
_HALF_OF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")

# long enough for a sentence of the server, short enough for one line of a log
_QUOTED = 300


@dataclass(frozen=True)
class Reply:
    """One answer to one request. `redact` removes the session's secrets from a text."""

    url: str
    status_code: int
    headers: Mapping[str, str]
    body: bytes
    redact: Callable[[str], str]

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status_code < 300

    def describe(self, fault: str = "") -> str:
        """The kind of the body in a few words, for when it is not what it should be. `fault`: what
        is wrong with it as JSON, and where."""
        text = self.redact(self.body.decode("utf-8", "replace")).strip()
        if not text:
            return "an empty body"
        if text.startswith("<") or "html" in self.headers.get("Content-Type", "").lower():
            title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
            named = f" titled {_quote(' '.join(title.group(1).split()))}" if title else ""
            return f"an HTML page{named}"
        if _is_cut_off(text):
            return f"JSON that is cut off after {len(self.body)} bytes"
        where = f" ({fault})" if fault and text[0] in "{[" else ""
        return f"{len(self.body)} bytes that are not JSON{where}: {_quote(text)}"

    def message(self) -> str:
        """The server's explanation of an error: `Message` and `Detail` of its JSON, or a
        description of the body."""
        said = server_message(self.body)
        if said is not None:
            return self.redact(said)
        try:
            return _quote(self.redact(json.dumps(json.loads(self.body))))
        except (ValueError, RecursionError):
            return self.describe()


def server_message(body: str | bytes) -> str | None:
    """`Message` and `Detail` of an error body, None when it is no JSON object with one of them."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    record = Record(data) if isinstance(data, dict) else Record()
    said = [record.get("Message"), record.get("Detail")]
    sentences = [text for text in said if isinstance(text, str) and text]
    return " ".join(dict.fromkeys(sentences)) or None


def decode(reply: Reply) -> Any:
    """The JSON value in the body of a successful reply. Raises BadReply when there is none."""
    try:
        value = json.loads(reply.body, parse_constant=_refuse_constant)
        return _without_halves(value) if _HALF_OF_A_PAIR.search(reply.body) else value
    except RecursionError:
        found = "JSON that is nested too deeply"
    except ValueError as error:
        found = reply.describe(str(error))
    raise errors.BadReply(reply.url, reply.status_code, "JSON", found)


def decode_model(reply: Reply, model: type[M]) -> M:
    """The protocol object in the body of a successful reply. Raises BadReply naming the fields that
    are wrong."""
    data = decode(reply)
    try:
        decoded = model.from_dict(data)
        decoded.validate()
    except errors.InvalidModel as error:
        raise errors.BadReply(
            reply.url, reply.status_code, f"a {model.__name__}", reply.redact(str(error))
        ) from None
    return decoded


def error_for(reply: Reply) -> errors.HttpError:
    """The error that a reply without success stands for."""
    code, url = reply.status_code, reply.url
    if 300 <= code < 400:
        target = reply.redact(reply.headers.get("Location", "nowhere"))
        return errors.Redirected(url, code, target)
    message = reply.message()
    if code == 401:
        return errors.AuthenticationFailed(url, code, message, "check username and password")
    if code == 403:
        return errors.AccessDenied(url, code, message, "the user has no rights on this cluster")
    if code == 404:
        return errors.NotFound(url, code, message)
    if code == 409:
        return errors.Conflict(url, code, message)
    if code >= 500:
        return errors.ServerError(url, code, message)
    return errors.BadRequest(url, code, message)


def _without_halves(value: Any) -> Any:
    """The value with a replacement character for each half of a surrogate pair in its texts. JSON
    can write a half, and no file, database or other reply can hold it."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(re.sub("[\ud800-\udfff]", "\ufffd", text))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _is_cut_off(text: str) -> bool:
    """Whether a text that is not JSON is the beginning of JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # what is broken at the very end was not meant to end there: a literal, an escape, a number
        at_end = error.pos >= len(text) or (len(text) - error.pos <= 6 and text[-1] not in "}]")
        unended = at_end or error.msg.startswith("Unterminated string")
        return text[0] in "{[" and unended and error.msg != "Extra data"
    except (ValueError, RecursionError):
        return False
    return False


def _quote(text: str) -> str:
    return repr(errors.shorten(text, _QUOTED))
