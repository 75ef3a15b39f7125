"""Request ids, kept until the server is known to have answered.

A create whose reply is lost may or may not have happened. Its id is written down before the request
is sent, so that a later pass, also of another process, can ask the server about it. When it never
happened the id is used again: the server carries out one id once. Without a path the ids are kept
as long as the object.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from hpc.autoscale.errors import AutoscaleError, unreadable
from hpc.autoscale.util import random_uuid

if TYPE_CHECKING:
    from pathlib import Path

NewId = Callable[[], str]


class RequestLogError(AutoscaleError):
    """The file that keeps request ids cannot be read or written; nothing was sent."""


class RequestLog:
    """Ids of creates that are not settled yet, in the order in which they were begun.

    The file holds a JSON list of texts and is replaced as a whole, so that a reader never sees half
    of it.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, new_id: NewId | None = None
    ) -> None:
        self._path: Path | None = None
        if path:
            from pathlib import Path

            self._path = Path(path)
        self._new_id = new_id or random_uuid
        self._unsettled = self._read()
        self._reusable: list[str] = []

    @property
    def unsettled(self) -> list[str]:
        """The ids of requests whose outcome is unknown."""
        return list(self._unsettled)

    def begin(self, request_id: str | None = None) -> str:
        """An id for a create that is about to be sent; it is on disk when this returns.

        It is the given id, else one that is known never to have happened, else a new one.
        """
        chosen = request_id or (self._reusable[0] if self._reusable else self._new_id())
        if chosen in self._reusable:
            self._reusable.remove(chosen)
        if chosen not in self._unsettled:
            self._write([*self._unsettled, chosen])
        return chosen

    def settle(self, request_id: str) -> None:
        """Note that the server has answered the request with this id."""
        if request_id in self._unsettled:
            self._write([known for known in self._unsettled if known != request_id])

    def never_happened(self, request_id: str) -> None:
        """Note that the server does not know this id: the next create uses it again."""
        if request_id in self._unsettled and request_id not in self._reusable:
            self._reusable.append(request_id)

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        import json

        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except OSError as e:
            raise RequestLogError(f"request ids {self._path}: {unreadable(e)}") from e
        except (ValueError, RecursionError) as e:
            raise RequestLogError(
                f"request ids {self._path}: expected a JSON list of ids, found: {e}"
            ) from e
        if not isinstance(found, list) or not all(isinstance(i, str) for i in found):
            raise RequestLogError(
                f"request ids {self._path}: expected a JSON list of ids, found {found!r}"
            )
        return found

    def _write(self, unsettled: list[str]) -> None:
        if self._path is not None:
            import json

            temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            try:
                with open(temporary, "w", encoding="utf-8") as f:
                    json.dump(unsettled, f)
                    f.flush()
                    os.fsync(f.fileno())
                os.replace(temporary, self._path)
                _sync_directory(self._path.parent)
            except OSError as e:
                with suppress(OSError):
                    temporary.unlink()
                raise RequestLogError(
                    f"request ids {self._path}: cannot be written: {e.strerror or e}"
                ) from e
        self._unsettled = unsettled


def _sync_directory(directory: Path) -> None:
    """Make a rename last through a power failure, where the file system can do that."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
