"""Whether an address is this machine's own: there nobody else listens, and nobody else asks."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host name or address, without a port and without brackets, is a loopback address or
    `localhost`. Other names are not looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
