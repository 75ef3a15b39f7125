"""Checks of `azscale doctor` about servers: whether one answers, its certificate, the user and the
password, what the user may read, and its clock.

One question is asked of each server, and its answer or error is about one of these. The rows with
their remedies are in `checkup`.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from hpc.autoscale import clock
from hpc.autoscale.ccbindings import errors
from hpc.autoscale.cli.servers import Server
from hpc.autoscale.cli.site import CheckState, Observation, Site, failed, ok, warning
from hpc.autoscale.errors import ConfigurationException, one_line
from hpc.autoscale.wsgi.loopback import is_loopback

CLOCK_MAY_DIFFER = 5.0
"""Seconds by which the server's clock may differ: a Date header has whole ones, and takes a
while."""
CLOCK_MUST_NOT_DIFFER = 60.0
CERTIFICATE_ENDS_SOON = 14 * 86400.0
"""Seconds left of a certificate below which somebody is told."""

_ABOUT_ERRORS = {
    errors.CertificateError: "certificate",
    errors.AuthenticationFailed: "credentials",
    errors.AccessDenied: "permissions",
    errors.NotFound: "permissions",
}
# by the word with which a ConfigurationException begins
_ABOUT_KEYS = {"url": "server", "ca_file": "certificate", "expected": "permissions"}
_OF_AN_ADDRESS = "write url as https://host or https://host:port"
_OF_CREDENTIALS_FILE = (
    "name a JSON file with credentials_file that has username and password, and that only the user"
    " that runs azscale can read (chmod 600)"
)


def _check_about(problem: Exception) -> str:
    """Which check is about what went wrong when a server was asked."""
    if isinstance(problem, ConfigurationException):
        key = re.split(r"\W", str(problem), maxsplit=1)[0]
        return _ABOUT_KEYS.get(key, "credentials")
    return next(
        (name for kind, name in _ABOUT_ERRORS.items() if isinstance(problem, kind)), "server"
    )


def look_at_server(site: Site) -> Iterator[Observation]:
    """Whether each server answers as CycleCloud does."""
    for server in site.servers:
        problem = server.ask()
        if problem is None:
            yield ok(f"{server.config.get('url')} answers", server.name)
        elif _check_about(problem) == "server":
            remedy = _OF_AN_ADDRESS if isinstance(problem, ConfigurationException) else None
            yield failed(one_line(problem), server.name, remedy)


def look_at_certificate(site: Site) -> Iterator[Observation]:
    """Whether the certificate of each server is trusted, and lasts."""
    for server in site.servers:
        problem = server.ask()
        parts = urlsplit(str(server.config.get("url") or ""))
        if problem is not None and _check_about(problem) == "certificate":
            yield failed(one_line(problem), server.name, _remedy_of_tls(problem))
        elif parts.scheme == "http":
            if is_loopback(parts.hostname or ""):
                yield ok("none needed: the server is on this machine", server.name)
            else:
                yield warning(
                    "none: the password goes to the server in the clear",
                    server.name,
                    "write https:// in url, once the server has a certificate",
                )
        elif server.config.get("verify_certificates") is False:
            yield warning(
                "not verified: verify_certificates is false",
                server.name,
                "take verify_certificates out, and name the issuer's certificate with ca_file",
            )
        elif server.reply is not None:
            yield _expiry(parts.hostname or "", parts.port or 443, server)


def _remedy_of_tls(problem: Exception) -> str | None:
    """What to do where no certificate was accepted."""
    text = str(problem)
    if isinstance(problem, errors.CertificateError) and problem.is_plain:
        return (
            "the server speaks plain HTTP at this port: write http:// in url, or give the port at"
            " which it speaks HTTPS"
        )
    if re.search("hostname|IP address mismatch|doesn't match", text, re.IGNORECASE):
        return "write the name in url that the certificate is for, or have it made for this one"
    if text.startswith("ca_file"):
        return "name a file with ca_file that is there, or take it out"
    return None


def _expiry(host: str, port: int, server: Server) -> Observation:
    """When the server's certificate ends, read over a connection of its own."""
    ca_file = server.config.get("ca_file") or os.getenv("REQUESTS_CA_BUNDLE")
    if not ca_file:
        from requests.utils import DEFAULT_CA_BUNDLE_PATH

        ca_file = DEFAULT_CA_BUNDLE_PATH
    context = ssl.create_default_context(cafile=os.path.expanduser(ca_file))
    try:
        with (
            socket.create_connection((host, port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            ends = ssl.cert_time_to_seconds(str((secure.getpeercert() or {})["notAfter"]))
    except (OSError, KeyError, ValueError) as error:
        return ok(f"verified; when it ends is not known: {one_line(error)}", server.name)
    left = ends - clock.time()
    if left < CERTIFICATE_ENDS_SOON:
        text = f"verified; it ends in {left / 86400:.0f} days"
        return warning(text, server.name, "have it renewed")
    return ok(f"verified; it ends in {left / 86400:.0f} days", server.name)


def look_at_credentials(site: Site) -> Iterator[Observation]:
    """Whether each server knows the user, and accepts the password."""
    for server in site.servers:
        problem = server.ask()
        if problem is not None and _check_about(problem) == "credentials":
            is_of_file = str(problem).startswith("credentials_file")
            remedy = _OF_CREDENTIALS_FILE if is_of_file else None
            yield failed(one_line(problem), server.name, remedy)
        elif server.reply is not None:
            yield ok(f"user {server.config.get('username')}", server.name)


def look_at_permissions(site: Site) -> Iterator[Observation]:
    """Whether the user may read the cluster, and there is one."""
    for server in site.servers:
        problem = server.ask()
        if problem is not None and _check_about(problem) == "permissions":
            yield failed(one_line(problem), server.name)
        elif problem is None:
            name = server.config.get("cluster_name")
            yield ok(
                f"cluster {name} can be read; whether {server.config.get('username')} may create"
                " nodes in it, only a create tells: `azscale create_nodes -n 1`",
                server.name,
            )


def look_at_clock(site: Site) -> Iterator[Observation]:
    """How far each server's clock is from ours, in seconds."""
    for server in site.servers:
        server.ask()
        if server.reply is None:
            continue
        if server.ahead is None:
            yield Observation(
                CheckState.SKIPPED, "the server does not say what time it is", server.name
            )
            continue
        by = abs(server.ahead)
        text = f"the server's is {by:.0f} s {'ahead of' if server.ahead > 0 else 'behind'} ours"
        if by >= CLOCK_MUST_NOT_DIFFER:
            yield failed(text, server.name)
        elif by >= CLOCK_MAY_DIFFER:
            yield warning(text, server.name)
        else:
            yield ok("as the server's", server.name)
