"""Several clusters in one configuration: how what they have is called, and the settings of each.

The name of a cluster stands before the names of its nodearrays and nodes, as in `east/htc-1`. Here
is only how such names are written and read, and what of the configuration each cluster is connected
with. Called by the binding of several clusters, by the locks and by whoever needs to know of which
cluster something is.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from hpc.autoscale.errors import did_you_mean

SEPARATOR = "/"
"""What stands between the name of a cluster and that of what it has."""

_PORTS = {"http": 80, "https": 443}


def qualified(cluster: str, name: str) -> str:
    """A name that a cluster has, with the cluster before it."""
    return f"{cluster}{SEPARATOR}{name}"


def split_name(name: str) -> tuple[str, str]:
    """The cluster of a qualified name, empty where it has none, and the name that it has there."""
    cluster, separator, own = name.partition(SEPARATOR)
    return (cluster, own) if separator else ("", name)


def cluster_of_bucket(bucket_id: str, nodearray: str) -> str:
    """The cluster that a bucket is of, empty where there is one only.

    A dynamic array is called as its reporters like, so it is the id that tells: that of the bucket
    which it extends, and its own name after it.
    """
    of_server = bucket_id.removesuffix(f"{SEPARATOR}{nodearray}")
    return split_name(of_server)[0] or split_name(nodearray)[0]


def cluster_named(name: str, clusters: Collection[str]) -> str | None:
    """The first of some clusters that stands before a name, or that a shell pattern of names has
    there; None where none does."""
    wanted, _ = split_name(name)
    return next((each for each in clusters if fnmatchcase(each, wanted)), None)


def members_of(config: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The name of each cluster of `clusters`, and the configuration for it alone.

    What an entry leaves out is what the configuration says for all. An entry with a
    `credentials_file` has only that file, and what it says itself, to log in with.
    """
    found = []
    for entry in config.get("clusters") or ():
        general = {key: value for key, value in config.items() if key != "clusters"}
        if entry.get("credentials_file"):
            for key in ("username", "password"):
                general.pop(key, None)
        own = {key: value for key, value in entry.items() if value is not None}
        found.append((str(own.pop("name")), {**general, **own}))
    return found


def names_of(config: Mapping[str, Any]) -> str:
    """The name of the cluster of a configuration, or the names of all; empty where it has none."""
    several = ", ".join(str(each.get("name")) for each in config.get("clusters") or ())
    return several or str(config.get("cluster_name") or "")


def server_of(url: object) -> str | None:
    """The server of a URL, in one spelling: without the scheme, and with the port. None where there
    is no URL."""
    if not (isinstance(url, str) and url):
        return None
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None  # it cannot be reached, and whoever tries says so
    host = (parts.hostname or "").rstrip(".")
    return f"{host}:{port}{parts.path.rstrip('/')}"


def find_conflicts(config: Mapping[str, Any]) -> Iterator[str]:
    """A line about each thing by which the clusters of a configuration contradict each other.

    The configuration must be one that its schema accepts.
    """
    entries = config.get("clusters")
    if entries is None:
        return
    if not entries:
        yield "clusters: expected a list of clusters, one or more, found an empty one"
    if config.get("cluster_name"):
        yield "cluster_name: expected it in each of clusters, or no clusters, found both"
    for name, count in Counter(str(each["name"]).lower() for each in entries).items():
        if count > 1:
            yield f"clusters: expected a name of its own for each, found {name!r} {count} times"
    known: dict[object, str] = {}
    for name, member in members_of(config):
        place = (server_of(member.get("url")), member.get("cluster_name"))
        if place[0] is None:
            continue  # the address is in a file or in the environment, or none
        other = known.setdefault(place, name)
        if other != name:
            yield f"clusters: expected different clusters, found {place[1]} twice: {other}, {name}"


def unknown_cluster(name: str, known: Mapping[str, object]) -> str:
    """Why a name does not say which cluster is meant."""
    cluster, own = split_name(name)
    if not cluster:
        return (
            f"expected the cluster before the name, as in {qualified(next(iter(known)), own)},"
            f" found {name!r}"
        )
    hint = did_you_mean(cluster, known)
    return f"expected one of the clusters {', '.join(known)} before the name, found {name!r}{hint}"
