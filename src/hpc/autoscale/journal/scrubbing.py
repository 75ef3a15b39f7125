"""A journal for others: names of hosts, jobs, people and places replaced, the same by the same.

What is left decides the same again: numbers at the end of names stay, and names are in the same
order as before. Two looks are needed, one for all names and one to replace them. Nodearrays, VM
sizes, regions, and names and ids of nodes stay as they are.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.config import config_schema
from hpc.autoscale.journal.records import PassRecord
from hpc.autoscale.journal.state import changed_texts

_WORD = re.compile(r"[\w.\-\[\]@]+")
_PIECES = re.compile(r"([@.])")
_NUMBER = re.compile(r"\d*$")
_NODE = re.compile(r"-\d+$")
# keys under which people and their accounts are named
_PERSON = re.compile(
    r"user|owner|account|mail|(?<!placement)(?<!placement_)group|project|created_?by|submitter|team"
    r"|subscription|tenant",
    re.IGNORECASE,
)
_WORDS_OF_OURS = (
    *("create", "start", "delete", "drain", "undrain", "join", "running", "slots", "nodes"),
    *("idle", "failed", "overdue", "marked", "gang", "surplus", "unfinished", "asked", "loop"),
)
_PLACES = ("address", "server", "host")
# keys under which people name machines
_MACHINE = re.compile(r"server|host|broker|url|address", re.IGNORECASE)
_HOST_NAME = re.compile(r"[a-z0-9][\w.\-]*", re.IGNORECASE)
# what may be an address of IPv4 or IPv6, servers, and paths of two names at least, within a text
_ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d+(?:\.\d+){3}|[0-9a-f]*:[0-9a-f:]*:[0-9a-f.]*)(?![\w:])", re.I
)
_URL = re.compile(r"https?://[^\s/\"'<>]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w/.~:\-])~?(?:/[\w.+\-]*\w){2,}")
_OF_THE_PROTOCOL = (
    *("Status", "TargetState", "State"),
    *("Template", "MachineType", "Region", "PlacementGroupId"),
)


class Aliases:
    """The names of a journal, and what stands for each."""

    def __init__(self) -> None:
        self._found: dict[str, set[str]] = {}
        self._kept: set[str] = set(_WORDS_OF_OURS)
        self._arrays: set[str] = set()
        self._arrays_there: set[str] = set()  # as their own cluster calls them, one of several
        self._seen: set[str] = set()
        self._known: dict[str, str] = {}
        self._odd: list[str] = []
        # names are often the same ones, and so are keys: each is looked at once
        self._replaced: dict[str, str] = {}
        self._names_people = cache(lambda key: bool(_PERSON.search(key)))

    # -- the first look

    def learn(self, record: PassRecord) -> None:
        """Note the names in a record."""
        self._learn_server(record.config)
        for each in record.config.get("on_premises") or ():
            self._add("on premises", each.get("name"))
            self._add("host", each.get("hostname"))
            self._learn_people({"user": str(each.get("ssh") or "").rpartition("@")[0]})
        self._add("host", record.by.get("host"))
        self._learn_nodes_and_jobs(record)
        for each in (record.config, record.nodes, record.jobs, record.hosts):
            self._learn_people(each)
        ours = config_schema()["properties"]
        for section, value in record.config.items():
            self._look_through(value, section in ours)
        for own in fields(record):
            if own.name != "config":
                self._look_through(getattr(record, own.name))

    def _learn_nodes_and_jobs(self, record: PassRecord) -> None:
        for node in record.nodes:
            self._arrays.add(str(node.get("Template")))
            self._arrays_there.add(str(node.get("Template")).rpartition("/")[2])
            self._kept.add(str(node.get("Name")))
            self._kept.add(str(node.get("Name")).rpartition("/")[2])
            self._add("host", node.get("Hostname"))
            self._add("address", node.get("PrivateIp"))
            self._kept.update(str(node.get(key)) for key in _OF_THE_PROTOCOL)
        known = {_short(node.get("Hostname")) for node in record.nodes}
        for name in known:
            self._add("host of a node", name)
        for host in record.hosts:
            self._add("host", host.get("hostname"))
            if _short(host.get("hostname")) not in known:  # a node beside those of the cluster
                self._add("on premises", _short(host.get("hostname")))
            for name in host.get("job-ids") or ():
                self._add("job", name)
        for job in record.jobs:
            self._add("job", job.get("name"))
            for name in job.get("executing-hostnames") or ():
                self._add("host", name)

    def _learn_server(self, config: Mapping[str, Any]) -> None:
        entries = config.get("clusters")
        for each in [config, *(entries if isinstance(entries, list) else ())]:
            url = each.get("url")
            self._add("server", urlsplit(url).hostname if isinstance(url, str) else None)
            self._add("cluster", each.get("cluster_name"))
            self._add("user", each.get("username"))

    def _learn_people(self, value: Any, is_person: bool = False) -> None:
        """Texts under keys that name people, and paths, at any depth."""
        if isinstance(value, Mapping):
            for key, below in value.items():
                self._learn_people(below, self._names_people(str(key)))
        elif isinstance(value, list | tuple):
            for below in value:
                self._learn_people(below, is_person)
        elif isinstance(value, str):
            if value.startswith(("/", "~/")):
                self._add("path", value)
            elif is_person:
                self._add("user", value)

    def _look_through(self, value: Any, is_ours: bool = True, is_machine: bool = False) -> None:
        """Keep keys, but for those that are not ours: of metadata, and of sections that are a
        driver's. There machines are known by their keys. Addresses and paths are so anywhere."""
        if isinstance(value, Mapping):
            for key, below in value.items():
                if is_ours:
                    self._kept.add(str(key))
                names_machine = not is_ours and bool(_MACHINE.search(str(key)))
                self._look_through(below, is_ours and key != "metadata", names_machine)
        elif isinstance(value, list | tuple):
            for below in value:
                self._look_through(below, is_ours, is_machine)
        elif isinstance(value, str):
            if is_machine:
                self._learn_machine(value)
            if value not in self._seen:
                self._seen.add(value)
                self._learn_text(value)

    def _learn_machine(self, text: str) -> None:
        try:
            name = urlsplit(text if "//" in text else f"//{text}").hostname
        except ValueError:
            return
        if name and name != "localhost" and _HOST_NAME.fullmatch(name):
            self._add("server", name)

    def _learn_text(self, text: str) -> None:
        """The addresses, servers and paths in a text. What is connected with need not be in the
        configuration."""
        for url in _URL.findall(text):
            self._learn_machine(url)
        for word in _ADDRESS.findall(text):
            if _version_of(word) and not ipaddress.ip_address(word).is_loopback:
                self._add("address", word)
        for path in _PATH.findall(text):
            self._add("path", path)

    def _add(self, kind: str, name: Any) -> None:
        if isinstance(name, str) and name:
            own = "address" if _version_of(name) and kind in _PLACES else kind
            self._found.setdefault(own, set()).add(name)

    # -- what stands for them

    def settle(self) -> None:
        """Choose what stands for each name, once all are known."""
        domains: set[str] = set()
        for kind in ("path", "user", "job", "cluster", "server", "host"):
            names = set(filter(self._is_replaced, self._found.get(kind, ())))
            if kind in ("host", "server"):
                domains |= {name.partition(".")[2] for name in names} - {""}
                names = set(filter(self._is_replaced, (n.partition(".")[0] for n in names)))
            self._known.update(_stand_ins(kind, names))
        self._known.update(_stand_ins("domain", domains))
        self._known.update(self._on_premises())
        for name in self._found.get("host", set()) | self._found.get("server", set()):
            short, dot, domain = name.partition(".")
            if dot:
                own = self._known.get(short, short)
                self._known[name] = f"{own}.{self._known.get(domain, domain)}"
        addresses = filter(_version_of, self._found.get("address", ()))
        for number, address in enumerate(sorted(addresses), 1):
            self._known[address] = _other_address(number, _version_of(address))
        odd = (name for name in self._known if not _WORD.fullmatch(name) and len(name) > 3)
        self._odd = sorted(odd, key=len, reverse=True)

    def _on_premises(self) -> Iterator[tuple[str, str]]:
        """What stands for hosts on premises, and others that only the scheduler knows. They are
        nodes beside those of the cluster, which keep their names; so they begin as they did, as far
        as their order depends on it. Where one of them is the host of a node at other times, as
        when a node is gone and its host still listed, or where some hosts are called what their
        nodes are, all hosts do, as their order counts too."""
        names = self._found.get("on premises", set())
        of_nodes = self._found.get("host of a node", set())
        if not (names.isdisjoint(of_nodes) and all(map(self._is_replaced, of_nodes))):
            names = names | of_nodes
        names = set(filter(self._is_replaced, names))
        for name, alias in _stand_ins("host", names):
            counts = range(1, len(name))
            count = next((n for n in counts if not self._begins_a_node(name[:n])), len(name))
            yield name, f"{name[:count]}-{alias}"

    def _begins_a_node(self, text: str) -> bool:
        """Whether a nodearray begins with this, so that more is needed to tell its nodes apart."""
        arrays = self._arrays | self._arrays_there
        return any(array.startswith(text) and array != text for array in arrays)

    def _is_replaced(self, name: str) -> bool:
        """Not what the library says itself: words of its own, and nodes, which have the names of
        their nodearrays; nor hosts that are called what their nodes are."""
        stem = _NODE.sub("", name)
        return name not in self._kept and stem not in self._arrays | self._arrays_there

    # -- the second look

    def text(self, text: str) -> str:
        """A text with every name replaced."""
        found = self._replaced.get(text)
        if found is None:
            found = self._replaced[text] = self._known.get(text) or self._without_names(text)
        return found

    def _without_names(self, text: str) -> str:
        for name in self._odd:
            if name in text:
                text = text.replace(name, self._known[name])
        return _WORD.sub(self._word, text)

    def _word(self, found: re.Match[str]) -> str:
        word = found[0]
        bare = word.rstrip(".")
        whole = self._known.get(word)
        if whole is not None:
            return whole
        alias = self._known.get(bare)
        if alias is None and bare not in self._kept:  # an address of mail, a name with its domain
            pieces = _PIECES.split(bare)
            alias = "".join(self._known.get(piece, piece) for piece in pieces)
        return (alias or bare) + word[len(bare) :]

    def value(self, value: Any) -> Any:
        """A value of JSON with every name in it replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(below) for key, below in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(below) for below in value]
        return value

    def record(self, record: PassRecord) -> PassRecord:
        """A record with every name in it replaced."""
        own = {f.name: getattr(record, f.name) for f in fields(record)}
        files = record.doors.get("state")
        own["doors"] = {key: value for key, value in record.doors.items() if key != "state"}
        found = PassRecord(**{key: self.value(value) for key, value in own.items()})
        found.decided = [
            # in the order of their names, as a replay has them
            {**row, "jobs": sorted(row["jobs"], key=ht.name_order)} if "jobs" in row else row
            for row in found.decided
        ]
        if files is not None:
            state = {name: changed_texts(content, self.text) for name, content in files.items()}
            found.doors = {**found.doors, "state": state}
        return found


def _short(name: Any) -> str:
    """The name of a host without its domain; empty for an address."""
    return "" if not isinstance(name, str) or _version_of(name) else name.partition(".")[0]


def _version_of(name: str) -> int | None:
    """Which version of IP an address is of; None for what is no address. That of IPv6 by which a
    machine calls itself is none here: it tells nothing, and stands in others."""
    try:
        return None if name == "::1" else ipaddress.ip_address(name).version
    except ValueError:
        return None


def _other_address(number: int, version: int | None) -> str:
    """The address of a number; as texts they are in the order of their numbers."""
    if version == 6:
        return f"2001:db8::{0x1000 + (number >> 12):x}:{0x1000 + (number & 0xFFF):x}"
    return f"10.{100 + number // 10_000}.{100 + number // 100 % 100}.{100 + number % 100}"


def _stand_ins(kind: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What stands for names. Names of the same beginning have the same one again, and numbers at
    their ends stay; where the order would then be another one, as of numbers in hexadecimal digits,
    they are numbered anew. Numbers alone tell nothing, and stay."""
    found = dict(_by_stems(kind, names))
    for order in (ht.name_order, str):
        before = sorted(found, key=order)
        if [found[name] for name in before] != sorted(found.values(), key=order):
            ranked, width = sorted(found, key=ht.name_order), len(str(len(found)))
            return ((name, f"{kind}-{rank:0{width}}") for rank, name in enumerate(ranked, 1))
    return iter(found.items())


def _by_stems(kind: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    stems: dict[str, list[str]] = {}
    for name in names:
        stem = _NUMBER.sub("", name)
        if stem:
            stems.setdefault(stem, []).append(name)
    for index, stem in enumerate(sorted(stems, key=ht.name_order)):
        letters = "".join(chr(97 + index // 26**power % 26) for power in (3, 2, 1, 0))
        dash = "-" if stem.endswith("-") else ""
        for name in stems[stem]:
            yield name, f"{kind}-{letters}{dash}{name[len(stem) :]}"
