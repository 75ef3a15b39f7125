"""The server of a cluster, asked once, for whoever wants to know how it answers. Called by
`server_checks`."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from hpc.autoscale import clock
from hpc.autoscale.config.secrets import of_its_own

if TYPE_CHECKING:
    from hpc.autoscale.ccbindings.replies import Reply
    from hpc.autoscale.ccbindings.session import Session

Config = dict[str, Any]


@dataclass
class Server:
    """The server of one cluster, and what it answered when it was asked for the cluster's status.

    `reply` or `problem`, an error, are there once it was asked; `ahead` is by how many seconds its
    clock is ahead, None when it does not say.
    """

    name: str
    config: Config
    session: Session | None = None
    reply: Reply | None = None
    problem: Exception | None = None
    ahead: float | None = None
    is_asked: bool = False

    def ask(self) -> Exception | None:
        """Ask once; the error, or None when there was a good answer."""
        if self.is_asked:
            return self.problem
        self.is_asked = True
        from hpc.autoscale.ccbindings.auth import resolve_credentials
        from hpc.autoscale.ccbindings.client import Client
        from hpc.autoscale.ccbindings.models import ClusterStatus
        from hpc.autoscale.ccbindings.replies import decode_model
        from hpc.autoscale.ccbindings.session import path_of

        try:
            own = of_its_own(self.config) if self.name else self.config
            known = {**own, **vars(resolve_credentials(own))}
            self.config = known
            self.session = Client(known).session
            path = path_of("clusters", str(own.get("cluster_name")), "status")
            began = clock.time()
            self.reply = self.session.send("GET", path, {"nodes": False})
            self._compare_clocks(began)
            if not self.reply.succeeded:
                raise self.session.refusal(self.reply)
            decode_model(self.reply, ClusterStatus)
        except Exception as error:  # noqa: BLE001  each check says what it makes of it
            self.problem = error
        return self.problem

    def _compare_clocks(self, began: float) -> None:
        said = self.reply.headers.get("Date") if self.reply else None
        try:
            there = parsedate_to_datetime(said or "").timestamp()
        except (TypeError, ValueError):
            return
        now = clock.time()
        # the header has whole seconds, and was written while we waited
        earliest, latest = there - now, there + 1 - began
        self.ahead = 0.0 if earliest <= 0 <= latest else min(earliest, latest, key=abs)
