"""Asking, from a node: the callback that says whether it may stop, and Azure's metadata service."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from hpc.autoscale import hpclogging as logging
from hpc.autoscale.autostop.settings import access_of, section_of
from hpc.autoscale.errors import ConfigurationException

if TYPE_CHECKING:
    import requests

_CONNECT, _READ = 10.0, 120.0
_METADATA_TIMEOUT = (2.0, 10.0)
_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
# what a proxy says for a service that is away, or a service of itself when it has failed
_AWAY = frozenset({500, 502, 504})
_LONGEST = 300


@dataclass(frozen=True)
class Told:
    """What came of asking. `accepted` is None when there was no answer."""

    accepted: bool | None
    text: str


class Callback:
    """The address at which a node asks, with what it brings along.

    `open_session` makes what requests go through. ConfigurationException when the configuration
    lacks address, user or password.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        instance: str,
        open_session: Callable[[], requests.Session] | None = None,
    ) -> None:
        access = access_of(config)
        self.url = _stop_url(access.url, config.get("cluster_name"))
        self._instance = instance
        self._access = (access.username, access.password)
        verify = config.get("verify_certificates", True) is not False
        self._verify: bool | str = str(config["ca_file"]) if config.get("ca_file") else verify
        self._open_session = open_session or _new_session

    def ask(self, reason: str) -> Told:
        """Whether this node may stop. Only status 200 is a yes."""
        import requests

        from hpc.autoscale.ccbindings.transport import innermost

        try:
            with self._open_session() as session:
                reply = session.post(
                    self.url,
                    params={"instance": self._instance, "reason": reason},
                    auth=self._access,
                    timeout=(_CONNECT, _READ),
                    verify=self._verify,
                    allow_redirects=False,
                )
                status, text = reply.status_code, _text_of(reply)
        except (requests.RequestException, OSError, ValueError) as error:
            return Told(None, f"{self.url} does not answer: {innermost(error)}")
        said = f"status {status}: {text}" if text else f"status {status}"
        # who does not know what is wanted says why; a proxy whose service is away does not
        if status in _AWAY or (status == 503 and not text):
            return Told(None, f"{self.url} does not answer: {said}")
        return Told(status == 200, said)


@dataclass(frozen=True)
class ScheduledEvent:
    """Something that Azure is about to do to this machine."""

    event_id: str
    kind: str
    not_before: str

    @property
    def ends_it(self) -> bool:
        """Whether the machine goes, whoever wants it."""
        return self.kind in ("Preempt", "Terminate")


class Metadata:
    """Azure's metadata service for this machine; where there is none, it has no events."""

    def __init__(
        self, url: str, open_session: Callable[[], requests.Session] | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._open_session = open_session or _new_session
        self._name: str | None = None

    def events(self) -> Sequence[ScheduledEvent]:
        """The events that are scheduled for this machine. They are never acknowledged here."""
        import requests

        try:
            listing = self._get(_EVENTS).json()
            found = [self._event(each) for each in listing["Events"]]
            if not found:
                return []
            self._name = self._name or self._get(_NAME).text.strip()
        except (requests.RequestException, OSError, ValueError, LookupError, TypeError) as error:
            logging.debug("no scheduled events are known: %s", error)
            return []
        return [event for event, names in found if self._name in names]

    def _get(self, path: str) -> requests.Response:
        with self._open_session() as session:
            reply = session.get(
                self._url + path,
                headers={"Metadata": "true"},
                timeout=_METADATA_TIMEOUT,
                allow_redirects=False,
            )
            reply.raise_for_status()
            return reply

    def _event(self, found: Mapping[str, Any]) -> tuple[ScheduledEvent, Sequence[str]]:
        event = ScheduledEvent(
            str(found["EventId"]), str(found["EventType"]), str(found.get("NotBefore"))
        )
        return event, [str(each) for each in found.get("Resources") or ()]


def _new_session() -> requests.Session:
    from hpc.autoscale.ccbindings.deadlines import punctual_session

    session = punctual_session()
    session.trust_env = False  # no .netrc, and no proxy between a node and its own metadata
    return session


def _stop_url(url: str, cluster_name: object) -> str:
    """The address to ask at; one that ends in /stop is complete."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigurationException(
            "autostop.url: expected an address that begins with http:// or https://, found another"
        )
    if urlsplit(url).username or urlsplit(url).password:
        raise ConfigurationException(
            "autostop.url: expected user and password in keys of their own, not in the address"
        )
    if urlsplit(url).path.endswith("/stop"):
        return url
    if not cluster_name:
        raise ConfigurationException(
            "cluster_name: expected the name of the cluster beside autostop.url, found none"
        )
    return f"{url.rstrip('/')}/cloud/actions/autoscale/{quote(str(cluster_name), safe='')}/stop"


def _text_of(reply: requests.Response) -> str:
    """What the service says, in one line; empty for what is no answer of ours."""
    try:
        said = json.loads(reply.content).get("message")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return " ".join(str(said or "").split())[:_LONGEST]


def metadata_of(config: Mapping[str, Any]) -> Metadata | None:
    """The metadata service to watch; None where the section says not to."""
    section = section_of(config)
    if section.get("scheduled_events") is False:
        return None
    return Metadata(str(section.get("metadata_url", "http://169.254.169.254")))
