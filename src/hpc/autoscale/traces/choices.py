"""The configurations that are played against each other: what is given, with changes to it.

A change is `key=value`. A key of the simulated machine (`SIMULATED`) changes that, another one is a
path into autoscale.json, as in `packing.objective=cost`. Values are JSON, or a text where they are
none. Everything is checked before anything is played.
"""

from __future__ import annotations

import copy
import io
import json
import math
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.config import check_config, config_schema
from hpc.autoscale.errors import ConfigurationException, did_you_mean
from hpc.autoscale.node.nodemanager.policies import configured_policy
from hpc.autoscale.node.vm_sizes.info import (
    all_possible_locations,
    get_aux_vm_size_info,
    suggest_vm_size,
)
from hpc.autoscale.regions import without_current_weights
from hpc.autoscale.simulator.description import ClusterDescription, Description, Nodearray
from hpc.autoscale.simulator.errors import DescriptionError
from hpc.autoscale.simulator.loading import describe, load_description
from hpc.autoscale.statefiles import STATE_FILES
from hpc.autoscale.traces.asking import Uses
from hpc.autoscale.traces.playing import Play
from hpc.autoscale.traces.scheduling import POLICIES
from hpc.autoscale.traces.workload import Trace, TraceError

INTERVAL = 300.0
"""Seconds from pass to pass where neither an option nor the configuration says so."""

BOOT_SECONDS = 300.0
VM_SIZE = "Standard_F16s_v2"
REGION = "westus2"

# what the simulated loop has no use for: the server, files and hosts of the site
_OF_THE_SITE = frozenset(
    {
        "ca_file",
        "cluster_name",
        "clusters",
        "credentials_file",
        "driver",
        "lock_file",
        "lock_path",
        "logging",
        "metrics",
        "password",
        "read_only",
        "retry",
        "timeout",
        "url",
        "username",
        "verify_certificates",
        "verdicts_file",
        *(file.key.partition(".")[0] for file in STATE_FILES),
    }
)


class ChoiceError(ConfigurationException):
    """A value of a choice that cannot be simulated. The message begins with the key of the choice,
    a colon after it."""


@dataclass(frozen=True)
class Choice:
    """What one run is made of, before it is a `Play`.

    `nodes`, `vm_size`, `region`, `spot`, `cores_per_node`, `boot`, `eviction_hours` and
    `boot_failures` make a cluster of one nodearray, unless `cluster` is a file of the simulator's
    descriptions, or its content. Durations are seconds but where the name says otherwise. `fixed`:
    all nodes are there all the time, and there is no loop. `memory`, `gpus`, `dependencies`,
    `queues` and `partitions` are those of `Uses`.
    """

    name: str = "as given"
    config: Mapping[str, Any] = field(default_factory=dict)
    cluster: str | Mapping[str, Any] | None = None
    nodes: int | None = None
    vm_size: str = VM_SIZE
    region: str = REGION
    spot: bool = False
    cores_per_node: int | None = None
    boot: float = BOOT_SECONDS
    eviction_hours: float | None = None
    boot_failures: float = 0.0
    interval: float | None = None
    scheduler: str = "easy"
    whole_nodes: bool = False
    fixed: bool = False
    memory: bool = False
    gpus: bool = False
    dependencies: bool = False
    queues: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0


_SHORTEST = 1.0
"""Seconds from pass to pass at least: with less, even a short workload takes for ever."""


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _number(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )


def _mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(text, str) and text for pair in value.items() for text in pair
    )


_EXPECTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "nodes": ("a whole number above 0", _whole),
    "cores_per_node": ("a whole number above 0", _whole),
    "vm_size": ("the name of a VM size", lambda value: isinstance(value, str)),
    "region": ("the name of a region", lambda value: isinstance(value, str)),
    "spot": ("true or false", lambda value: isinstance(value, bool)),
    "whole_nodes": ("true or false", lambda value: isinstance(value, bool)),
    "fixed": ("true or false", lambda value: isinstance(value, bool)),
    "memory": ("true or false", lambda value: isinstance(value, bool)),
    "gpus": ("true or false", lambda value: isinstance(value, bool)),
    "dependencies": ("true or false", lambda value: isinstance(value, bool)),
    "queues": ("an object with a nodearray for each queue", _mapping),
    "partitions": ("an object with a nodearray for each partition", _mapping),
    "boot": ("seconds, 0 or more", _number),
    "eviction_hours": ("hours above 0", lambda value: _number(value) and value > 0),
    "boot_failures": ("a part from 0 to 1", lambda value: _number(value) and value <= 1),
    "interval": (
        f"{_SHORTEST:g} second or more",
        lambda value: _number(value) and value >= _SHORTEST,
    ),
    "scheduler": (" or ".join(POLICIES), lambda value: value in POLICIES),
    "seed": ("a whole number", lambda value: isinstance(value, int)),
}

_DESCRIBED = frozenset(
    {
        "boot",
        "boot_failures",
        "cores_per_node",
        "eviction_hours",
        "nodes",
        "region",
        "spot",
        "vm_size",
    }
)
"""Keys of the cluster of one nodearray, which a described cluster says for itself."""

SIMULATED = tuple(_EXPECTED)
"""Keys of changes that are about the simulated machine and scheduler, not about autoscale.json."""


def changed(choice: Choice, text: str) -> Choice:
    """The choice with changes, `key=value` words in one text; its name is the text.

    Raises ConfigurationException for what is no change.
    """
    result = replace(choice, name=" ".join(text.split()) or choice.name)
    rest = text.strip()
    if not rest:
        raise ConfigurationException("expected at least one key=value to compare, found nothing")
    while rest:
        key, value, rest = _first_change(rest, text)
        result = with_value(result, key, value)
    return result


def _first_change(rest: str, text: str) -> tuple[str, Any, str]:
    """The key and the value of the first word of a text, and what stands after it. JSON with
    brackets is a word as it stands, others are split as a shell does it."""
    key, _, after = rest.partition("=")
    if after.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            value, end = json.JSONDecoder().raw_decode(after)
            if not after[end : end + 1].strip():
                return key.strip(), value, after[end:].strip()
    stream = io.StringIO(rest)
    words = shlex.shlex(stream, posix=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        word = words.get_token() or ""
    except ValueError as error:
        raise ConfigurationException(f"{text!r}: expected key=value: {error}") from None
    key, equals, given = word.partition("=")
    if not equals:
        raise ConfigurationException(f"expected key=value, found {word!r}")
    return key.strip(), _value(given), stream.read().strip()


def with_value(choice: Choice, key: str, value: Any) -> Choice:
    """The choice with one key changed. Raises ConfigurationException."""
    if key in _EXPECTED:
        expected, is_right = _EXPECTED[key]
        if not is_right(value):
            raise ChoiceError(f"{key}: expected {expected}, found {value!r}")
        if key in _DESCRIBED and choice.cluster is not None:
            raise ChoiceError(f"{key}: it counts without --cluster alone, whose file says this")
        return replace(choice, **{key: value})
    *above, last = key.split(".")
    known = [*SIMULATED, *config_schema()["properties"]]
    if (first := key.partition(".")[0]) not in known:
        raise ConfigurationException(
            f"{key}: expected a key of autoscale.json or one of {', '.join(SIMULATED)}"
            f"{did_you_mean(first, known)}"
        )
    if first in _OF_THE_SITE:
        raise ChoiceError(
            f"{key}: it is of the site alone, and what is simulated has no use for it"
        )
    config = copy.deepcopy(dict(choice.config))
    place = config
    for name in above:
        inside = place.setdefault(name, {})
        if not isinstance(inside, dict):
            raise ConfigurationException(f"{key}: expected an object at {name}, found {inside!r}")
        place = inside
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value
    return replace(choice, config=config)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def play_of(choice: Choice, trace: Trace) -> Play:
    """What is played for a choice.

    Raises ConfigurationException (ChoiceError for what the choice itself names), DescriptionError
    or TraceError.
    """
    config = {key: value for key, value in choice.config.items() if key not in _OF_THE_SITE}
    config = without_current_weights(config)
    check_config(config)
    configured_policy(config)
    description = _one_cluster(_description(choice, trace))
    arrays = _arrays(next(iter(description.clusters.values())))
    widest = max(size.vcpus for array in arrays for size in array.machine_types.values())
    given = (config.get("autoscale") or {}).get("interval")
    interval = choice.interval or (float(given) if given else INTERVAL)
    if interval < _SHORTEST:
        expected = f"expected {_EXPECTED['interval'][0]} to simulate it"
        raise ConfigurationException(f"autoscale.interval: {expected}, found {interval}")
    fixed = _all_nodes(description) if choice.fixed else 0
    uses = Uses(choice.memory, choice.gpus, choice.dependencies, choice.queues, choice.partitions)
    try:
        uses.check(trace.jobs, [array.name for array in arrays])
    except ConfigurationException as problem:
        raise ChoiceError(str(problem)) from None
    return Play(
        choice.name,
        description,
        config,
        host_cores=widest,
        interval=interval,
        policy=choice.scheduler,
        seed=choice.seed,
        fixed=fixed,
        whole_nodes=choice.whole_nodes,
        uses=uses,
    )


def _description(choice: Choice, trace: Trace) -> Description:
    if choice.cluster is not None:
        return load_description(choice.cluster)
    _check_size(choice)
    size: dict[str, Any] = {"name": choice.vm_size}
    if choice.cores_per_node is not None:
        # of memory nothing is asked
        size.update(vcpus=choice.cores_per_node, pcpus=choice.cores_per_node)
    array: dict[str, Any] = {"machine_types": [size], "max_count": 1, "spot": choice.spot}
    cluster: dict[str, Any] = {"region": choice.region, "nodearrays": {"compute": array}}
    lifecycle: dict[str, Any] = {
        "allocation": min(5.0, choice.boot),
        "acquiring": max(0.0, min(60.0, choice.boot - 5)),
        "preparing": max(0.0, choice.boot - 65),
        "terminating": 60,
        "boot_failure_rate": choice.boot_failures,
    }
    if choice.eviction_hours is not None:
        lifecycle["time_to_eviction"] = choice.eviction_hours * 3600
    described = {"clusters": {"simulated": cluster}, "lifecycle": lifecycle}
    cores = _cores_of(describe(described))
    nodes = choice.nodes or _nodes_of(trace, cores)
    array["max_count"] = cluster["max_count"] = nodes
    return describe(described)


def _check_size(choice: Choice) -> None:
    """ChoiceError for a VM size or a region that nobody knows."""
    region, size = ht.Location(choice.region), ht.VMSize(choice.vm_size)
    if get_aux_vm_size_info(region, size).vcpu_count > 0:
        return
    regions = all_possible_locations()
    if choice.region not in regions:
        hint = did_you_mean(choice.region, regions)
        raise ChoiceError(f"region: expected a known region, found {choice.region!r}{hint}")
    meant = suggest_vm_size(choice.vm_size)
    if meant == choice.vm_size:
        hint = f", which is not known in {choice.region}"
    else:
        hint = f"; did you mean {meant!r}?" if meant else ""
    raise ChoiceError(f"vm_size: expected a known VM size, found {choice.vm_size!r}{hint}")


def _cores_of(description: Description) -> int:
    array = _arrays(next(iter(description.clusters.values())))[0]
    return next(iter(array.machine_types.values())).vcpus


def _nodes_of(trace: Trace, cores: int) -> int:
    """As many nodes as have the cores of the machine that was recorded."""
    if not trace.machine_cores:
        raise TraceError(
            f"{trace.path} does not say how large its machine was: say with --nodes how many nodes"
            " there may be, or describe a cluster with --cluster"
        )
    return math.ceil(trace.machine_cores / cores)


def _one_cluster(description: Description) -> Description:
    if len(description.clusters) != 1:
        raise DescriptionError(
            f"expected one cluster to simulate, found {', '.join(description.clusters)}"
        )
    cluster = next(iter(description.clusters.values()))
    if not cluster.nodearrays:
        raise DescriptionError(f"cluster {cluster.name}: expected a nodearray, found none")
    if any(array.machine for array in _arrays(cluster)):
        raise DescriptionError(
            f"cluster {cluster.name}: expected no local machines, which have no virtual time"
        )
    if cluster.nodes:
        return replace(description, clusters={cluster.name: replace(cluster, nodes={})})
    return description


def _arrays(cluster: ClusterDescription) -> list[Nodearray]:
    return list(cluster.nodearrays.values())


def _all_nodes(description: Description) -> int:
    """All nodes of a machine of one VM size."""
    cluster = next(iter(description.clusters.values()))
    arrays = _arrays(cluster)
    if len(arrays) != 1 or len(arrays[0].machine_types) != 1:
        raise ChoiceError(
            "fixed: expected one nodearray with one VM size, found"
            f" {', '.join(array.name for array in arrays)}"
        )
    return min(arrays[0].max_count, cluster.max_count)
