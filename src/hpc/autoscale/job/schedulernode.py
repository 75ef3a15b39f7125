"""A node as a scheduler reports it, before it is known which cluster node it is.

Drivers make one for each host in the scheduler's listing; the demand calculator joins them to
cluster nodes by host name. Also `TempNode`, a node made up for a question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpc.autoscale import hpclogging as logging
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.node.node import Node, host_arguments
from hpc.autoscale.util import random_uuid


class SchedulerNode(Node):
    """A running host by its name and resources; its hardware and its place in a cluster are
    unknown.

    The private address is looked up by name when it is first read, never before, unless
    `ignore_hostnames` is set, which is a flag of the class for tests and for sites without name
    service.
    """

    ignore_hostnames: bool = False

    def __init__(
        self,
        hostname: str,
        resources: Mapping[str, Any] | None = None,
        bucket_id: str | None = None,
    ) -> None:
        given = bucket_id or random_uuid()
        super().__init__(**host_arguments(hostname, resources, bucket_id=given))
        self._has_bucket_id = bucket_id is not None

    @property
    def private_ip(self) -> ht.IpAddress | None:
        """Private address as text, if the name has one. May wait for the name service, once."""
        given = super().private_ip
        if given is not None or self.ignore_hostnames:
            return given
        if "_address" not in self.__dict__:
            self._address = _look_up(self.fqdn)
        return self._address

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of a node, with its figures."""
        return {
            **super().to_dict(),
            "memory": self.memory,
            "vcpu-count": self.vcpu_count,
            "pcpu-count": self.pcpu_count,
            "gpu-count": self.gpu_count,
        }

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> SchedulerNode:
        """The inverse of `to_dict`; the argument is left alone."""
        return SchedulerNode.restored(d, "gpu-count")

    def __str__(self) -> str:
        return f"SchedulerNode({self.hostname}, {self.bucket_id})"

    __repr__ = __str__


def _look_up(hostname: str | None) -> ht.IpAddress | None:
    if not hostname:
        return None
    import socket

    try:
        return ht.IpAddress(socket.gethostbyname(hostname))
    except (OSError, UnicodeError) as error:  # the latter for what cannot be a host name
        logging.warning("Could not find the address of %s: %s", hostname, error)
        return None


class TempNode(Node):
    """A running host made up to ask about; any argument of `Node` can be given by keyword."""

    def __init__(
        self,
        hostname: str,
        resources: Mapping[str, Any] | None = None,
        bucket_id: str | None = None,
        **overrides: Any,
    ) -> None:
        given = {"bucket_id": bucket_id or random_uuid(), **overrides}
        super().__init__(**host_arguments(hostname, resources, **given))
        self._has_bucket_id = bucket_id is not None
