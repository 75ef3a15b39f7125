"""The queues and clusters that are measured: W1 to W6b, the big case, and queues that hurt. Data
only, by seed.

A workload is plain JSON. `buckets`: what can be ordered, with a made-up price per hour that is good
for comparing costs with each other and nothing else. `nodes`: what is there already, each with the
index of its bucket and its free amounts. `jobs`: `constraints` is all that a job asks for, `req`
the amounts among it. Facts on VM sizes are the library's own. `clusters` makes a cluster and jobs
of a workload; here nothing knows how.
"""

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from hpc.autoscale import hpctypes as ht
from hpc.autoscale.node.vm_sizes import get_aux_vm_size_info

Record = dict[str, Any]
Workload = dict[str, Any]

LOCATION = "southcentralus"

# price per hour of a vCPU, a GiB and a GPU, and what a family costs compared to the others
CORE_PRICE, GIB_PRICE, GPU_PRICE = 0.0335, 0.0037, 0.75
FAMILY_FACTORS = {"D": 1.0, "E": 1.05, "F": 0.86, "N": 1.2}

GENERAL_SIZES = (
    *("D2s_v3", "D4s_v3", "D8s_v3", "D16s_v3", "D32s_v3", "D64s_v3"),
    *("E4s_v3", "E8s_v3", "E16s_v3", "E32s_v3", "E64s_v3"),
    *("F4s_v2", "F8s_v2", "F16s_v2", "F32s_v2", "F64s_v2", "F72s_v2"),
    *("E2s_v3", "E20s_v3", "E48s_v3"),
)
GPU_SIZES = (
    *("NC6s_v3", "NC12s_v3", "NC24s_v3", "NC24rs_v3"),
    *("NV6", "NV12", "NV24"),
    *("NC6s_v2", "NC12s_v2", "NC24s_v2"),
)

# drawn from with equal chances: 24 different shapes of 1 to 32 cores with 1 to 8 GB each
MIXED_CORES = (1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32)
MIXED_GB_PER_CORE = (1, 2, 2, 4, 4, 8, 8)
FREE_PARTS = (0, 0, 0.25, 0.5, 0.5, 0.75, 1.0)


def bucket(size: str, nodearray: str, factor: float, **more: Any) -> Record:
    """A bucket of one VM size, with no limit that a benchmark could reach unless `more` says
    otherwise."""
    vm_size = f"Standard_{size}"
    known = get_aux_vm_size_info(ht.Location(LOCATION), ht.VMSize(vm_size))
    gib = float(known.memory.convert_to("g").value)
    gib = int(gib) if gib.is_integer() else gib
    price = CORE_PRICE * known.vcpu_count + GIB_PRICE * gib + GPU_PRICE * known.gpu_count
    made = {
        "nodearray": nodearray,
        "vm_size": vm_size,
        "location": LOCATION,
        "vcpus": known.vcpu_count,
        "mem_gb": gib,
        "gpus": known.gpu_count,
        "family": known.vm_family,
        "price": round(factor * price, 4),
        "max_count": 100_000,
        "pgs": [],
        "pg_size": 100,
        "spot": False,
    }
    return {**made, **more}


def job(
    name: str,
    cores: int,
    gb: int | None = None,
    gpus: int | None = None,
    also: Sequence[Record] = (),
    amounts_in_constraints: bool = True,
    **more: Any,
) -> Record:
    """A job of one task. `also`: further constraints; the amounts are one too unless these settle
    them otherwise."""
    asked: Record = {"ncpus": cores}
    if gb:
        asked["memgb"] = gb
    if gpus:
        asked["ngpus"] = gpus
    written = {**asked, "memgb": f"memory::{gb}g"} if gb else dict(asked)
    constraints = [*([written] if amounts_in_constraints else []), *also]
    made = {"name": name, "iterations": 1, "node_count": 0, "colocated": False}
    return {**made, "req": asked, "constraints": constraints, **more}


def _by_price_per_core(buckets: list[Record]) -> list[Record]:
    return sorted(buckets, key=lambda b: float(b["price"]) / int(b["vcpus"]))


def general_buckets() -> list[Record]:
    """Twenty buckets of three families, the cheapest per core first."""
    return _by_price_per_core([bucket(s, "htc", FAMILY_FACTORS[s[0]]) for s in GENERAL_SIZES])


def _node(number: int, index: int, cores: int, gb: float) -> Record:
    free = {"ncpus": cores, "memgb": gb, "ngpus": 0}
    return {"name": f"htc-{number}", "bucket": index, "free": free}


def _used_nodes(draw: random.Random, buckets: list[Record], count: int) -> list[Record]:
    """Nodes of any of the buckets, used in part."""
    made = []
    for number in range(1, count + 1):
        index = draw.randrange(len(buckets))
        part = draw.choice(FREE_PARTS)
        of = buckets[index]
        cores, gb = int(of["vcpus"] * part), round(of["mem_gb"] * part, 3)
        made.append(_node(number, index, cores, gb))
    return made


def _mixed(draw: random.Random, name: str, **more: Any) -> Record:
    """A job of one of the 24 shapes."""
    cores = draw.choice(MIXED_CORES)
    gb = min(256, max(1, cores * draw.choice(MIXED_GB_PER_CORE)))
    return job(name, cores, gb, **more)


def _workload(buckets: list[Record], nodes: list[Record], jobs: list[Record]) -> Workload:
    return {"buckets": buckets, "nodes": nodes, "jobs": jobs}


def w1(n: int = 10_000, seed: int = 1) -> Workload:
    """One-core jobs, all alike. Nothing is drawn."""
    sizes = ("F16s_v2", "F32s_v2", "D16s_v3")
    buckets = [bucket(s, "htc", FAMILY_FACTORS[s[0]]) for s in sizes]
    return _workload(_by_price_per_core(buckets), [], [job(f"j{i}", 1) for i in range(n)])


def w2(n: int = 10_000, seed: int = 2) -> Workload:
    """Jobs of 24 shapes."""
    draw = random.Random(seed)
    return _workload(general_buckets(), [], [_mixed(draw, f"j{i}") for i in range(n)])


def w2u(n: int = 10_000, seed: int = 22) -> Workload:
    """Jobs of any number of cores and gigabytes: most shapes occur once or twice."""
    draw = random.Random(seed)
    jobs = [job(f"j{i}", draw.randint(1, 32), draw.randint(1, 256)) for i in range(n)]
    return _workload(general_buckets(), [], jobs)


def w3(n: int = 500, seed: int = 3, pgs: int | None = None) -> Workload:
    """Gangs of 4 to 64 exclusive nodes, each in one placement group. `pgs`: groups; one for five
    jobs when not given."""
    draw = random.Random(seed)
    groups = [f"pg{i}" for i in range(pgs or max(2, n // 5))]
    buckets = [bucket(s, "hpc", FAMILY_FACTORS[s[0]], pgs=groups) for s in ("F72s_v2", "D64s_v3")]
    jobs = []
    for i in range(n):
        cores = draw.choice((36, 48, 60))
        nodes = draw.choice((4, 4, 4, 8, 8, 8, 16, 16, 32, 64))
        also = [{"exclusive": True}, {"in-a-placement-group": True}]
        jobs.append(job(f"m{i}", cores, also=also, node_count=nodes, colocated=True))
    return _workload(buckets, [], jobs)


def w4(n: int = 500, iters: int = 100, nodes: int = 5_000, seed: int = 4) -> Workload:
    """Arrays of `iters` tasks in 24 shapes, and nodes that are used in part."""
    draw = random.Random(seed)
    buckets = general_buckets()
    used = _used_nodes(draw, buckets, nodes)
    return _workload(buckets, used, [_mixed(draw, f"a{i}", iterations=iters) for i in range(n)])


def w5(n: int = 5_000, seed: int = 5) -> Workload:
    """Jobs for GPUs and without, with alternatives and exclusions; of some, the alternative says
    what is used."""
    draw = random.Random(seed)
    factors = {"NC6": 1.3, "NV6": 0.8}
    buckets = [
        bucket(s, "gpu" if s[0] == "N" else "htc", factors.get(s[:3], 1.1))
        for s in (*GPU_SIZES, "D32s_v3", "F32s_v2")
    ]
    jobs = []
    for i in range(n):
        kind = draw.randrange(6)
        jobs.append(_W5_KINDS[kind](f"g{i}", draw.choice((1, 1, 1, 2, 4))))
    return _workload(buckets, [], jobs)


def _family(*names: str) -> list[Record]:
    return [{"node.vm_family": f"standard{name}Family"} for name in names]


def _either_family(name: str, gpus: int) -> Record:
    return job(name, 6 * gpus, 56 * gpus, gpus, also=[{"or": _family("NCSv3", "NCSv2")}])


def _other_family(name: str, gpus: int) -> Record:
    return job(name, 6 * gpus, None, gpus, also=[{"not": _family("NV")[0]}])


def _size_or_family(name: str, gpus: int) -> Record:
    size = {"node.vm_size": f"Standard_NV{6 * gpus}"}
    return job(name, 4 * gpus, 28 * gpus, gpus, also=[{"xor": [size, *_family("NCSv2")]}])


def _without_gpu(name: str, gpus: int) -> Record:
    return job(name, 2, 16, also=[{"node.gpu_count": 0}])


def _nested(name: str, gpus: int) -> Record:
    none_of = {"not": {"node.vm_size": ["Standard_NC24rs_v3", "Standard_NV24"]}}
    either = {"or": [*_family("NV"), {"node.gpu_count": [2, 4]}]}
    return job(name, 3 * gpus, 20 * gpus, gpus, also=[none_of, either])


def _one_gpu_or_many_cores(name: str, gpus: int) -> Record:
    with_gpu = {**_family("NV")[0], "ngpus": 1, "ncpus": 6}
    without = {"node.gpu_count": 0, "ncpus": 16}
    either = [{"or": [with_gpu, without]}]
    return job(name, 6, None, 1, also=either, amounts_in_constraints=False)


_W5_KINDS = (
    *(_either_family, _other_family, _size_or_family),
    *(_without_gpu, _nested, _one_gpu_or_many_cores),
)


def _misfit(i: int) -> Record:
    """A job with too many cores, too much memory, GPUs that no bucket has, or a resource that
    nobody knows."""
    name, cores, gb = f"u{i}", 1 + i % 30, 1 + i // 30
    if i % 4 == 0:
        return job(name, 100 + i, 4)
    if i % 4 == 1:
        return job(name, 1, 700 + i)
    if i % 4 == 2:
        return job(name, cores, gb, 8)
    return job(name, cores, gb, also=[{"license_x": f"v{i}"}])


def w6(n: int = 2_000, seed: int = 6, nodes: int = 0) -> Workload:
    """Shapes of which none fits any bucket, for four kinds of reasons. Nothing is drawn; `nodes`
    are empty ones."""
    buckets = general_buckets()
    empty = []
    for number in range(1, nodes + 1):
        index = (number - 1) % len(buckets)
        empty.append(_node(number, index, buckets[index]["vcpus"], buckets[index]["mem_gb"]))
    return _workload(buckets, empty, [_misfit(i) for i in range(n)])


def w6b(n: int = 2_000, nodes: int = 500, seed: int = 66) -> Workload:
    """Shapes that would fit, but every node is full and there is no quota left. Nothing is
    drawn."""
    buckets = general_buckets()
    full = [_node(number, (number - 1) % len(buckets), 0, 0.0) for number in range(1, nodes + 1)]
    for index, each in enumerate(buckets):
        each["max_count"] = sum(node["bucket"] == index for node in full)
    return _workload(buckets, full, [job(f"u{i}", 1 + i % 30, 1 + i // 30) for i in range(n)])


def big(n: int = 100_000, nodes: int = 20_000, seed: int = 7) -> Workload:
    """Jobs of 24 shapes against many nodes that are used in part."""
    draw = random.Random(seed)
    buckets = general_buckets()
    used = _used_nodes(draw, buckets, nodes)
    return _workload(buckets, used, [_mixed(draw, f"j{i}") for i in range(n)])


def drain(n: int = 20_000, seed: int = 8, quota: int = 8_000) -> Workload:
    """Jobs of 24 shapes until the quota of every family (`quota` cores) is used up, and nine times
    as many after that."""
    draw = random.Random(seed)
    made = _workload(general_buckets(), [], [_mixed(draw, f"d{i}") for i in range(n)])
    return {**made, "quotas": {"family_cores": {b["family"]: quota for b in made["buckets"]}}}


def full_arrays(n: int = 10_000, seed: int = 9, arrays: int = 300) -> Workload:
    """So many nodearrays of one size with room for three nodes each, and jobs of which most find
    them full."""
    draw = random.Random(seed)
    sizes = general_buckets()
    buckets = [
        {**sizes[i % len(sizes)], "nodearray": f"array{i}", "max_count": 3} for i in range(arrays)
    ]
    return _workload(buckets, [], [_mixed(draw, f"t{i}") for i in range(n)])


def or10(n: int = 8_000, seed: int = 10, nodes: int = 500) -> Workload:
    """Jobs with ten alternatives, each a size with amounts of its own, and nodes that are used in
    part."""
    draw = random.Random(seed)
    buckets = general_buckets()
    used = _used_nodes(draw, buckets, nodes)
    jobs = []
    for i in range(n):
        asked = _mixed(draw, f"o{i}", amounts_in_constraints=False)
        either = [_alternative(draw, each, asked["req"]) for each in draw.sample(buckets, k=10)]
        jobs.append({**asked, "constraints": [{"or": either}]})
    return _workload(buckets, used, jobs)


def _alternative(draw: random.Random, of: Record, asked: Record) -> Record:
    """A size, and all or half of the cores that a job asks for."""
    cores = max(1, asked["ncpus"] // draw.choice((1, 1, 2)))
    return {"node.vm_size": of["vm_size"], "ncpus": cores, "memgb": f"memory::{asked['memgb']}g"}


MAKERS: dict[str, Callable[..., Workload]] = {
    "W1": w1,
    "W2": w2,
    "W2u": w2u,
    "W3": w3,
    "W4": w4,
    "W5": w5,
    "W6": w6,
    "W6b": w6b,
    "big": big,
    "drain": drain,
    "full300": full_arrays,
    "or10": or10,
}


def make(name: str, **scale: Any) -> Workload:
    """A workload by name. `scale` replaces its defaults: `n` jobs, `nodes`, `iters` tasks in an
    array, `pgs`, `seed`."""
    return {**MAKERS[name](**scale), "name": name, "scale": scale}


def digest(workload: Workload) -> str:
    """SHA-256 of the workload as JSON with sorted keys."""
    text = json.dumps(workload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
