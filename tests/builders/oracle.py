"""A naive packer: slow, one node and one slot at a time, and meant to be obviously right.

It shares nothing with the engine: it imports nothing of this library. Nodes, buckets and limits are
plain dicts (made by `oracle_reading` from what the server says), amounts are exact fractions,
constraints are read as JSON each time.

The rules. A bucket serves a job when its example satisfies every constraint; preferences order
buckets. Nodes with room are used in order before new ones are opened (over all buckets, or bucket
by bucket): first those that are up or that work was counted on, then the unclaimed ones, which are
neither; of a bucket those at rest come last. When capacity failed of late concerns nodes that must
still be given some: new ones, and those that are deallocated. How often a job goes on a node is
decided when the node is reached: conditions as they are then, and what the job takes, taken until
it no longer fits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from fractions import Fraction
from typing import Any, TypeGuard

Cluster = dict[str, Any]
BucketDict = dict[str, Any]
NodeDict = dict[str, Any]
Amounts = dict[Any, Any]
"""Values by name; those of pools are under ("pool", name)."""
Answer = tuple[Amounts, bool]

# on which nodes a gang may lie: not on unclaimed ones, on all that are there, on new ones too
CLAIMED, THERE, EVERY = "claimed", "there", "every"

UNITS = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
NOTHING: Answer = ({}, False)
"""The answer of a condition that holds and takes nothing; an answer is (what it takes, whether it
closes the node)."""


def size_in_bytes(text: str) -> Fraction:
    """The bytes of `memory::4g`."""
    number = text.split("::", 1)[1]
    return Fraction(number[:-1]) * UNITS[number[-1]]


def is_size(value: object) -> TypeGuard[str]:
    """Whether a value is the text of a size."""
    return isinstance(value, str) and value.startswith(("memory::", "size::"))


def is_number(value: object) -> TypeGuard[int | float | Fraction]:
    """Whether something can be taken from a value."""
    return isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)


# -- one constraint against one node


def answer(constraint: dict[str, Any], node: NodeDict, pools: Amounts) -> Answer | None:
    """What one iteration of a constraint takes from a node, as (takes, closes); None when it does
    not fit."""
    if len(constraint) != 1:
        return together([{key: value} for key, value in constraint.items()], node, pools)
    (key, value), *_ = constraint.items()
    if key in ("and", "or", "xor"):
        return combined(key, value, node, pools)
    if key == "not":
        return NOTHING if answer(value, node, pools) is None else None
    if key == "never":
        return None
    if key in ("exclusive", "exclusive-task"):
        if not value:
            return NOTHING
        return None if node["assigned"] else ({}, True)
    if key == "in-a-placement-group":
        return NOTHING if bool(node["props"]["placement_group"]) == value else None
    if key == "capacity-failure-backoff":
        failed = node.get("failed")  # a node that has its capacity has none
        return None if failed is not None and failed < value else NOTHING
    if key.startswith("pool:"):
        return minimum(("pool", key[5:]), Fraction(str(value)), pools)
    if key.startswith("node."):
        values = value if isinstance(value, list) else [value]
        return NOTHING if matching(node["props"][key[5:]], values) is not None else None
    if is_size(value):
        return minimum(key, size_in_bytes(value), node["free"])
    if is_number(value):
        return minimum(key, Fraction(str(value)) * node["units"].get(key, 1), node["free"])
    return equality(key, value, node)


def minimum(key: Any, amount: Fraction, free: Mapping[Any, Any]) -> Answer | None:
    """An amount that must be there, and is taken."""
    available = free.get(key)
    return ({key: amount}, False) if is_number(available) and available >= amount else None


def equality(key: Any, value: Any, node: NodeDict) -> Answer | None:
    """A resource that must be one of some values."""
    if key not in node["free"]:
        return None
    values = value if isinstance(value, list) else [value]
    return NOTHING if matching(node["free"][key], values) is not None else None


def matching(target: object, values: Sequence[object]) -> int | None:
    """Which of the values the target is, the first one being 0; texts may be wildcards."""
    for index, value in enumerate(values):
        if isinstance(value, str) and isinstance(target, str):
            if fnmatch(target, value):
                return index
        elif value == target:
            return index
    return None


def combined(
    word: str, children: list[dict[str, Any]], node: NodeDict, pools: Amounts
) -> Answer | None:
    """and, or, xor."""
    if word == "and":
        return together(children, node, pools)
    answers = [a for a in (answer(child, node, pools) for child in children) if a is not None]
    if word == "or":
        return answers[0] if answers else None
    return answers[0] if len(answers) == 1 else None


def together(
    constraints: Iterable[dict[str, Any]], node: NodeDict, pools: Amounts
) -> Answer | None:
    """All at once: each fits, and so does the sum of what they take."""
    takes: Amounts = {}
    closes = False
    for constraint in constraints:
        found = answer(constraint, node, pools)
        if found is None:
            return None
        closes = closes or found[1]
        for key, amount in found[0].items():
            takes[key] = takes.get(key, 0) + amount
    if not fits(takes, node, pools):
        return None
    return takes, closes


def holder(key: Any, node: NodeDict, pools: Amounts) -> Amounts:
    """Where a resource is kept."""
    return pools if isinstance(key, tuple) else node["free"]


def fits(takes: Amounts, node: NodeDict, pools: Amounts) -> bool:
    """Whether all that is to be taken is there."""
    return all(holder(key, node, pools)[key] >= amount for key, amount in takes.items())


# -- which buckets


def weight(constraint: dict[str, Any], example: NodeDict, pools: Amounts, before: int) -> int:
    """The weight of a bucket after a constraint had its say."""
    if len(constraint) != 1:
        return weight({"and": [{k: v} for k, v in constraint.items()]}, example, pools, before)
    (key, value), *_ = constraint.items()
    if key == "and":
        for child in value:
            before = weight(child, example, pools, before)
        return before
    if key == "or":
        for index, child in enumerate(value):
            if answer(child, example, pools) is not None:
                return before + 100 * (len(value) - index)
        return 0
    if key == "capacity-failure-backoff":
        return 0 if answer(constraint, example, pools) is None else before
    if key.startswith("node."):
        return 0 if before == 0 else preferred(example["props"][key[5:]], value, before)
    if key.startswith("pool:") or key in ("xor", "not", "never", "in-a-placement-group"):
        return before
    if key.startswith("exclusive") or is_size(value) or is_number(value):
        return before
    if key not in example["free"]:
        return 0
    return preferred(example["free"][key], value, before)


def preferred(target: object, value: Any, before: int) -> int:
    """Earlier values weigh more."""
    values = value if isinstance(value, list) else [value]
    index = matching(target, values)
    return 0 if index is None else before + 100 * (len(values) - index)


def separate(constraints: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Constraints one by one, those inside `and` and those of one mapping too."""
    for constraint in constraints:
        for key, value in constraint.items():
            if key == "and":
                yield from separate(value)
            else:
                yield {key: value}


def is_personal(constraint: dict[str, Any]) -> bool:
    """Whether it asks for what differs from node to node, and so cannot be asked of a bucket."""
    return any(
        key in ("node.name", "node.hostname")
        or (key in ("or", "xor") and any(is_personal(child) for child in value))
        or (key == "not" and is_personal(value))
        for key, value in constraint.items()
    )


def candidates(cluster: Cluster, constraints: Iterable[dict[str, Any]]) -> list[int]:
    """Indices of the buckets that may serve, best first, machines that cannot be ordered before all
    others."""
    pools = cluster["pools"]
    buckets = [{**b, "example": {**b["example"], "failed": None}} for b in cluster["buckets"]]
    constraints = [c for c in separate(constraints) if not is_personal(c)]
    weights = []
    for index, bucket in enumerate(buckets):
        found = len(buckets) - index
        for constraint in constraints:
            found = weight(constraint, bucket["example"], pools, found)
        weights.append(found)
    order = sorted(range(len(buckets)), key=lambda i: (-weights[i], i))
    serving = [
        i
        for i in order
        # machines that cannot be ordered differ from each other: whether one of them serves is
        # asked of each
        if buckets[i]["artificial"]
        or all(answer(c, buckets[i]["example"], pools) is not None for c in constraints)
    ]
    return sorted(serving, key=lambda i: not buckets[i]["artificial"])


# -- limits


def room(cluster: Cluster, bucket: BucketDict) -> int:
    """How many more nodes a bucket may have."""
    return min((spare(cluster["limits"][name], bucket) for name in bucket["limits"]), default=0)


def spare(limit: dict[str, int], bucket: BucketDict) -> int:
    """How many more nodes one limit allows."""
    by_nodes = limit["max_nodes"] - limit["used_nodes"]
    by_cores: int = (limit["max_cores"] - limit["used_cores"]) // bucket["cores"]
    return max(0, min(by_nodes, by_cores))


def charge(cluster: Cluster, bucket: BucketDict) -> None:
    """One node more."""
    for name in bucket["limits"]:
        limit = cluster["limits"][name]
        limit["used_nodes"] += 1
        limit["used_cores"] += bucket["cores"]


# -- placing


def node_copy(node: NodeDict) -> NodeDict:
    """A copy that work can be placed on."""
    return {**node, "free": dict(node["free"]), "assigned": set(node["assigned"])}


def cluster_copy(cluster: Cluster) -> Cluster:
    """A copy to try things on."""
    return {
        **cluster,
        "buckets": [
            {**bucket, "nodes": [node_copy(node) for node in bucket["nodes"]]}
            for bucket in cluster["buckets"]
        ],
        "limits": {name: dict(limit) for name, limit in cluster["limits"].items()},
        "names": set(cluster["names"]),
        "pools": dict(cluster["pools"]),
    }


class Run:
    """One request being placed: what is left of it, where it went, and which limits stood in the
    way."""

    def __init__(self, cluster: Cluster, request: dict[str, Any]) -> None:
        self.cluster = cluster
        self.constraints = [c for c in request["constraints"] if c]
        self.left = request["units"]
        self.id = request["id"]
        self.each = request["each"]
        if not self.constraints:
            self.each = 1
        self.placed: list[tuple[str, int]] = []

    def use(self, bucket: BucketDict, unclaimed: bool) -> None:
        """Fill the nodes that are there, in order: the unclaimed ones, or the others."""
        for node in bucket["nodes"]:
            if not self.left or not node["usable"] or node["closed"]:
                continue
            if is_unclaimed(node) is not unclaimed:
                continue
            if is_dormant(node):
                if room(self.cluster, bucket) < 1:
                    self.cluster["stopped"].update(full(self.cluster, bucket))
                elif self.fill(node):
                    charge(self.cluster, bucket)
            else:
                self.fill(node)

    def open(self, bucket: BucketDict) -> None:
        """Add nodes while they are needed and allowed."""
        while self.left and not bucket["artificial"]:
            node = {**node_copy(bucket["example"]), "failed": None}
            in_want = bucket["example"]
            for asked in (node, in_want):
                if together(self.constraints, asked, self.cluster["pools"]) is None:
                    return
            if room(self.cluster, bucket) < 1:
                self.cluster["stopped"].update(full(self.cluster, bucket))
                return
            # conditions on what differs from node to node are asked of the example: a new node has
            # no name yet
            name = free_name(self.cluster, bucket["nodearray"])
            if not self.fill(node, name):
                return
            node["name"] = name
            node["props"] = {**node["props"], "name": name}
            self.cluster["names"].add(node["name"])
            charge(self.cluster, bucket)
            bucket["nodes"].append(node)

    def fill(self, node: NodeDict, name: str | None = None) -> int:
        """Put on a node what fits, one after another; how many that were."""
        pools = self.cluster["pools"]
        found = together(self.constraints, node, pools)
        if found is None:
            return 0
        takes, closes = found
        count = 0
        while count < min(self.left, self.each) and fits(takes, node, pools):
            for key, amount in takes.items():
                holder(key, node, pools)[key] -= amount
            count += 1
        if count:
            node["assigned"].add(self.id)
            node["used"] = True
            node["closed"] = node["closed"] or closes
            self.left -= count
            self.placed.append((name or node["name"], count))
        return count


def is_dormant(node: NodeDict) -> bool:
    """Whether a node must be started, which needs a place under the limits."""
    return node["dormant"] and not node["used"] and not node["assigned"]


def is_unclaimed(node: NodeDict) -> bool:
    """Whether a node is not up and nothing was counted on it so far."""
    return is_dormant(node) or not (node["up"] or node["assigned"])


def full(cluster: Cluster, bucket: BucketDict) -> list[str]:
    """The limits that allow no more nodes of a bucket."""
    return [name for name in bucket["limits"] if spare(cluster["limits"][name], bucket) < 1]


def free_name(cluster: Cluster, nodearray: str) -> str:
    """The lowest name that nobody has."""
    index = 1
    while f"{nodearray}-{index}" in cluster["names"]:
        index += 1
    return f"{nodearray}-{index}"


def allocate(cluster: Cluster, request: dict[str, Any]) -> tuple[Cluster, list[tuple[str, int]]]:
    """Place a request: the cluster afterwards, and [(node name, slots)] in the order in which nodes
    were reached.

    `request`: constraints (a list of JSON), units, each (most on one node), whole (all in one
    bucket or nothing), id. The cluster given is left alone; nothing placed means that it is also
    the cluster afterwards.
    """
    serving = candidates(cluster, [c for c in request["constraints"] if c])
    if request["whole"]:
        return all_in_one(cluster, request, serving)
    after = cluster_copy(cluster)
    run = Run(after, request)
    if cluster["existing_first"]:
        for unclaimed in (False, True):
            for index in serving:
                run.use(after["buckets"][index], unclaimed)
        for index in serving:
            run.open(after["buckets"][index])
    else:
        for index in serving:
            run.use(after["buckets"][index], False)
            run.use(after["buckets"][index], True)
            run.open(after["buckets"][index])
    return (after, run.placed) if run.placed else (cluster, [])


def all_in_one(
    cluster: Cluster, request: dict[str, Any], serving: list[int]
) -> tuple[Cluster, list[tuple[str, int]]]:
    """Bucket by bucket: the first that takes all of it. Existing nodes first: the first that takes
    all of it on nodes that are not unclaimed, or on these too; else the first family of placement
    groups with one that does, which opens as little as it can.
    """
    if not cluster["existing_first"]:
        choices = [[(index, EVERY)] for index in serving]
    else:
        choices = [[(index, how)] for how in (CLAIMED, THERE) for index in serving]
        for members in families(cluster, serving):
            choices.append(
                [(index, EVERY) for index in members if cluster["buckets"][index]["nodes"]]
            )
            choices.extend([(index, EVERY)] for index in members)
    for alike in choices:
        found = [attempt(cluster, request, index, how) for index, how in alike]
        complete = [each for each in found if each is not None]
        if complete:
            _, after, placed = min(complete, key=lambda each: each[0])
            return after, placed
    return cluster, []


def families(cluster: Cluster, serving: list[int]) -> Iterable[list[int]]:
    """Buckets of one nodearray and size that are in placement groups, in the order of the first;
    any other by itself."""
    found: dict[object, list[int]] = {}
    for index in serving:
        bucket = cluster["buckets"][index]
        grouped = bucket["group"] and not bucket["artificial"]
        key = (bucket["nodearray"], bucket["size"]) if grouped else index
        found.setdefault(key, []).append(index)
    return found.values()


def attempt(
    cluster: Cluster, request: dict[str, Any], index: int, how: str
) -> tuple[int, Cluster, list[tuple[str, int]]] | None:
    """All of it in one bucket: (nodes opened, the cluster afterwards, what was placed); None when
    it does not fit. `how`: on which nodes."""
    after = cluster_copy(cluster)
    bucket = after["buckets"][index]
    run = Run(after, request)
    run.use(bucket, False)
    if how != CLAIMED:
        run.use(bucket, True)
    if how == EVERY:
        run.open(bucket)
    if run.left:
        return None
    return len(bucket["nodes"]) - len(cluster["buckets"][index]["nodes"]), after, run.placed
