"""The section `hpcq` of autoscale.json: where the queue is, and its definitions.

A definition says what a job of it takes, where its workers run and how they behave. Read by
everybody: the command line, workers, and the driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hpc.autoscale.config import load_config
from hpc.autoscale.errors import ConfigurationException, ConstraintError, did_you_mean
from hpc.autoscale.node.constraints import get_constraints

EMBEDDED = "embedded"
CONFIG_VARIABLE = "HPCQ_CONFIG"
HOME_VARIABLE = "HPCQ_HOME"
_KEEP = ("failed", "all", "none")
# seconds, about thirty years: with much longer times Redis and Python cannot reckon
_LONGEST = 1e9
# how URLs begin: of a Redis, and of brokers that keep no jobs
_REDIS = ("redis", "rediss", "redis+socket")
_OTHERS = ("amqp", "amqps", "pyamqp")


@dataclass(frozen=True)
class Definition:
    """How jobs of one kind run. Times are seconds.

    - `resources`: what a job takes, as a constraint or a list of them
    - `nodearrays`: whose nodes run its workers, in order of preference unless regions have
      weights; empty for any
    - `jobs_per_worker`: how many jobs there are for each worker
    - `slots_per_node`: how many workers a node runs, whatever its size: then workers are wanted by
      number. Without it a node runs as many jobs as it has vCPUs, and jobs may say what they take
    - `finish_within`: in which time the backlog is to be done, by the time that jobs take; needs
      `slots_per_node`
    - `minimum`, `maximum`: of workers
    - `idle_time`, `max_age`, `max_jobs`: after how long without work, after how long at all and
      after how many jobs a worker leaves; 0 for never
    - `environment`: variables of its jobs
    - `callables`: which Python callables may run, as `module:function`, or `module:*`
    - `directories`: where jobs have their directories; empty for below the home of the queue
    - `keep_directories`: of which jobs they stay: `failed`, `all` or `none`
    - `output_bytes`: how much of the end of an output is kept
    - `output_limit`: how many bytes a job may write before it is ended; 0 for no limit
    """

    name: str = "default"
    resources: Any = field(default_factory=dict)
    nodearrays: tuple[str, ...] = ()
    jobs_per_worker: int = 1
    slots_per_node: int | None = None
    finish_within: float | None = None
    minimum: int = 0
    maximum: int | None = None
    idle_time: float = 0.0
    max_age: float = 0.0
    max_jobs: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    callables: tuple[str, ...] = ()
    directories: str = ""
    keep_directories: str = "failed"
    output_bytes: int = 4096
    output_limit: int = 1 << 30

    def allows(self, name: str) -> bool:
        """Whether this Python callable may run in a worker."""
        return name in self.callables or f"{name.partition(':')[0]}:*" in self.callables


@dataclass(frozen=True)
class Settings:
    """Where the queue is and how it works. Times are seconds.

    - `broker`: where Celery's messages are, a URL of Redis or RabbitMQ, or `embedded`
    - `store`: the Redis that keeps what becomes of jobs; the broker unless given
    - `home`: where the embedded Redis and directories of jobs are
    - `lease`: how long a worker may be silent before what it runs is run again
    - `worker_timeout`: how long a ready node may be without a worker that is heard, before it
      counts as failed
    - `grace`: how long a job has to end after SIGTERM before it is killed
    - `notice`: how long jobs may run on when Azure has said that the machine ends; then they run
      again elsewhere
    - `drain_time`: how long jobs may run on after SIGTERM; 0 for until they end
    - `events`: the address of Azure's metadata service, empty for not asking
    - `keep`: how long ended jobs are remembered; 0 for ever
    """

    broker: str = EMBEDDED
    store: str = ""
    home: str = ""
    lease: float = 30.0
    worker_timeout: float = 300.0
    grace: float = 10.0
    notice: float = 15.0
    drain_time: float = 0.0
    events: str = ""
    keep: float = 7 * 86400.0
    definitions: Mapping[str, Definition] = field(default_factory=lambda: {"default": Definition()})

    @staticmethod
    def read(config: Mapping[str, Any]) -> Settings:
        """The settings of a configuration, checked. ConfigurationException says what is wrong and
        where."""
        section = config.get("hpcq", {})
        values = _checked("hpcq", section, _SETTINGS)
        given = section.get("definitions", {"default": {}})
        if not isinstance(given, Mapping) or not given:
            raise ConfigurationException(
                'hpcq.definitions: expected {"<name>": {...}, ...} with one definition at least,'
                f" found {given!r}"
            )
        found = {name: _definition(name, each) for name, each in given.items()}
        home = values.pop("home", "") or os.environ.get(HOME_VARIABLE, "")
        try:
            values["home"] = str(Path(home or "~/.hpcq").expanduser().absolute())
        except RuntimeError as error:
            raise ConfigurationException(
                f"hpcq.home: expected a path, found {home!r}: {error}"
            ) from error
        settings = Settings(**values, definitions=found)
        _check_address("broker", settings.broker, (*_REDIS, *_OTHERS))
        if settings.store:
            _check_address("store", settings.store, (*_REDIS, "unix"))
        elif settings.broker.startswith(_OTHERS) or ";" in settings.broker:
            raise ConfigurationException(
                "hpcq.store: expected the URL of a Redis beside RabbitMQ or beside several brokers,"
                " found none"
            )
        return settings

    @staticmethod
    def load(path: str | None = None) -> Settings:
        """The settings in a file, in that of HPCQ_CONFIG, or else the defaults."""
        path = path or os.environ.get(CONFIG_VARIABLE) or None
        return Settings.read(load_config(path) if path else {})

    def definition(self, name: str) -> Definition:
        """The definition of this name. ConfigurationException when there is none."""
        if name not in self.definitions:
            known = ", ".join(self.definitions)
            raise ConfigurationException(
                f"expected a definition ({known}), found {name!r}"
                f"{did_you_mean(name, self.definitions)}"
            )
        return self.definitions[name]


def _check_address(key: str, text: str, schemes: Sequence[str]) -> None:
    """ConfigurationException for what is neither `embedded` nor a URL with one of these schemes. A
    password is never shown."""
    if text == EMBEDDED:
        return
    shown = (
        "one that is not shown, as it may have a password" if set("@?") & set(text) else repr(text)
    )
    where = f"hpcq.{key}: expected 'embedded' or a URL that begins with {', '.join(schemes)}"
    # of a broker, there may be several to choose from
    for each in text.split(";") if key == "broker" else [text]:
        scheme, mark, rest = each.partition("://")
        if not mark or scheme not in schemes:
            guess = did_you_mean(scheme.lower(), (*schemes, EMBEDDED))
            raise ConfigurationException(f"{where}, found {shown}{guess}")
        try:
            parts = urlsplit(f"//{rest}")
            _ = parts.port  # ValueError for one that is no number
        except ValueError as error:
            reason = "" if "@" in text else f": {error}"
            raise ConfigurationException(
                f"hpcq.{key}: expected a host and a port in the URL, found {shown}{reason}"
            ) from None
        database = parts.path.strip("/")
        if scheme in ("redis", "rediss") and database and not database.isdecimal():
            raise ConfigurationException(
                f"hpcq.{key}: expected the number of a database at the end of the URL, as"
                f" redis://host:6379/0, found {shown}"
            )


def _definition(name: str, section: Any) -> Definition:
    where = f"hpcq.definitions.{name}"
    if not name or len(name) > 100 or not all(c.isalnum() or c in "-_." for c in name):
        raise ConfigurationException(
            f"{where}: expected a name of letters, digits, '-', '_' and '.', found {name!r}"
        )
    values = _checked(where, section, _DEFINITION)
    try:
        get_constraints(values.get("resources", {}))
    except ConstraintError as error:
        raise ConfigurationException(f"{where}.resources: {error.in_words()}") from error
    definition = Definition(name=name, **values)
    if definition.finish_within is not None and definition.slots_per_node is None:
        raise ConfigurationException(
            f"{where}.finish_within: expected slots_per_node beside it, found none"
        )
    if definition.maximum is not None and definition.maximum < definition.minimum:
        raise ConfigurationException(
            f"{where}.maximum: expected at least minimum, {definition.minimum}, found"
            f" {definition.maximum}"
        )
    return definition


def _checked(where: str, section: Any, kinds: Mapping[str, _Kind]) -> dict[str, Any]:
    if not isinstance(section, Mapping):
        raise ConfigurationException(f"{where}: expected an object, found {section!r}")
    values = {}
    for key, value in section.items():
        if key.startswith("_") or (where == "hpcq" and key == "definitions"):
            continue
        if key not in kinds:
            raise ConfigurationException(
                f"{where}.{key}: unknown key (known: {', '.join(kinds)})"
                f"{did_you_mean(key, kinds)}"
            )
        expected, convert = kinds[key]
        try:
            values[key] = convert(value)
        except (TypeError, ValueError):
            # an address may have a password
            found = type(value).__name__ if key in ("broker", "store") else repr(value)
            raise ConfigurationException(
                f"{where}.{key}: expected {expected}, found {found}"
            ) from None
    return values


_Kind = tuple[str, Callable[[Any], Any]]


def _number(least: float) -> _Kind:
    def convert(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        if not least <= value <= _LONGEST:
            raise ValueError
        return float(value)

    return f"a number of {least:g} to {_LONGEST:g}", convert


def _whole(least: int) -> _Kind:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError
        if value < least:
            raise ValueError
        return value

    return f"a whole number of at least {least}", convert


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(_text(each) for each in value)


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError
    if any("=" in key or not key for key in value):
        raise ValueError
    return {_text(key): _text(each) for key, each in value.items()}


def _kept(value: Any) -> str:
    if value not in _KEEP:
        raise ValueError
    return str(value)


def _any(value: Any) -> Any:
    if not isinstance(value, Mapping | list):
        raise TypeError
    return value


_SETTINGS: dict[str, _Kind] = {
    "broker": ("the URL of a Redis or RabbitMQ, or 'embedded'", _text),
    "store": ("the URL of a Redis", _text),
    "home": ("a path", _text),
    "lease": _number(0.1),
    "worker_timeout": _number(1),
    "grace": _number(0),
    "notice": _number(0),
    "drain_time": _number(0),
    "events": ("the address of a metadata service", _text),
    "keep": _number(0),
}
_DEFINITION: dict[str, _Kind] = {
    "resources": ("a constraint or a list of constraints", _any),
    "nodearrays": ("a list of names", _texts),
    "jobs_per_worker": _whole(1),
    "slots_per_node": _whole(1),
    "finish_within": _number(1),
    "minimum": _whole(0),
    "maximum": _whole(0),
    "idle_time": _number(0),
    "max_age": _number(0),
    "max_jobs": _whole(0),
    "environment": ("an object of texts", _environment),
    "callables": ("a list of module:function", _texts),
    "directories": ("a path", _text),
    "keep_directories": (f"one of {', '.join(_KEEP)}", _kept),
    "output_bytes": _whole(0),
    "output_limit": _whole(0),
}
