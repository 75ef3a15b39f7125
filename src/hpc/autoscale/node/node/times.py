"""When things happened to a node, and how long it may still stay as it is.

The figures are set by the node history, in seconds and in seconds since the epoch; nothing here reads a clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


class Timed:
    """Times of a node. Every `*_unix` attribute may be written to."""

    if TYPE_CHECKING:
        state: Any

        @property
        def assignments(self) -> set[str]: ...

    create_time_unix: float = 0.0
    last_match_time_unix: float = 0.0
    delete_time_unix: float | None = 0.0
    __create_time_remaining: float = 0.0
    __idle_time_remaining: float = 0.0

    @property
    def create_time_remaining(self) -> float:
        """Seconds left to become ready before the boot timeout; -1 once ready."""
        return -1 if self.state == "Ready" else self.__create_time_remaining

    @create_time_remaining.setter
    def create_time_remaining(self, value: float) -> None:
        self.__create_time_remaining = max(0, value)

    @property
    def idle_time_remaining(self) -> float:
        """Seconds left before the idle timeout; -1 while work is assigned."""
        return -1 if self.assignments else self.__idle_time_remaining

    @idle_time_remaining.setter
    def idle_time_remaining(self, value: float) -> None:
        self.__idle_time_remaining = max(-1, value)

    @property
    def create_time(self) -> datetime:
        """When it was first seen; local time."""
        return _local(self.create_time_unix)

    @property
    def last_match_time(self) -> datetime:
        """When work last needed it; local time."""
        return _local(self.last_match_time_unix)

    @property
    def delete_time(self) -> datetime:
        """When it was last found gone (the epoch: it is not gone); local time."""
        return _local(self.delete_time_unix or 0)


def _local(seconds: float) -> datetime:
    from datetime import datetime

    return datetime.fromtimestamp(seconds)
