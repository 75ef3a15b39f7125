"""What is in use of a limit never falls below what is there, whatever comes and goes, and what went
is free again."""

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.node.nodemanager import new_node_manager

CORES = {"Standard_F4": 4, "Standard_F8": 8}
SLOTS = (("htc", "Standard_F4"), ("htc", "Standard_F8"), ("hpc", "Standard_F4"))
GROUP = "pg0"
KINDS = ("own", "regional", "cluster", "nodearray", "family", "group")

NODES = st.lists(
    st.tuples(st.sampled_from(SLOTS), st.booleans(), st.sampled_from(["Ready", "Deallocated"])),
    max_size=6,
)
# how far what the server says is in use, and the quotas, lie from what they should be
SAID = st.tuples(st.integers(-24, 24), st.integers(-24, 24), st.booleans(), st.integers(-16, 16))
WHICH = st.sets(st.integers(0, 7), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.integers(1, 9), st.booleans()),
        st.tuples(st.just("bootup")),
        st.tuples(st.sampled_from(["delete", "deallocate_nodes", "start_nodes"]), WHICH),
        st.tuples(st.just("look again"), WHICH),
        st.tuples(st.just("close"), WHICH),
        st.tuples(st.just("use"), WHICH, st.integers(1, 3)),
        st.tuples(st.just("reserve"), st.integers(0, 3), st.integers(1, 3), st.integers(0, 5)),
        st.tuples(st.just("take and give back"), st.integers(0, 3), st.integers(1, 3)),
    ),
    max_size=12,
)


class Site:
    """A cluster as its server tells of it, a manager over it, and what each limit is about."""

    def __init__(self, nodes, said):
        cores, quota, counts, cluster = said
        self.binding = MockClusterBinding("limits")
        self.binding.max_core_count = 40 + cluster
        for name, size in SLOTS:
            if name not in self.binding.nodearrays:
                self.binding.add_nodearray(name, {}, max_count=8, max_placement_group_size=3)
            groups = [GROUP] if size == "Standard_F4" else []
            self.binding.add_bucket(name, size, 5, 5, placement_groups=groups)
        for index, ((name, size), in_group, state) in enumerate(nodes, 1):
            group = GROUP if in_group and size == "Standard_F4" else None
            made = f"{name}-{index}", name, size
            self.binding.add_node(*made, state=state, placement_group=group)
        for array in self.binding.nodearrays.values():
            for bucket in array.buckets:
                used = max(0, bucket.regional_consumed_core_count + cores)
                bucket.regional_consumed_core_count = bucket.family_consumed_core_count = used
                bucket.regional_quota_core_count = bucket.family_quota_core_count = 60 + quota
                if not counts:
                    bucket.active_count = bucket.active_core_count = 0
        self.in_region = used
        self.manager = new_node_manager({"cluster_name": "limits", "_mock_bindings": self.binding})
        self.taken = Counter()
        there = self.there()
        self.others = {key: self.said(key, there) - there[key] for key in self.used()}
        self.before = self.used()

    def said(self, key, there):
        """How much the server says is in use."""
        if key[0] in ("regional", "family"):
            return self.in_region
        # the library counts for itself what is in use of the cluster and of a nodearray, and the
        # mock what is in a group
        return self.used()[key] if key[0] == "own" else there[key]

    def buckets(self):
        """The buckets, with what each limit of theirs is called here: what has one name is one
        limit."""
        for bucket in self.manager.get_buckets():
            size = bucket.nodearray, bucket.vm_size
            names = (size, None, None, bucket.nodearray, None, (*size, bucket.placement_group))
            yield bucket, dict(zip(KINDS, zip(KINDS, names, strict=True), strict=True))

    def used(self):
        """What is in use of each limit: of a bucket in nodes, of all others in cores."""
        found = {}
        for bucket, keys in self.buckets():
            limits = bucket.limits
            found[keys["own"]] = limits.active_count
            for kind in ("regional", "cluster", "nodearray", "family"):
                found[keys[kind]] = getattr(limits, f"{kind}_consumed_core_count")
            if bucket.placement_group:
                used = limits.placement_group_max_count - limits.placement_group_available_count
                found[keys["group"]] = used * bucket.vcpu_count
        return found

    def most(self):
        """What each limit allows."""
        found = {}
        for bucket, keys in self.buckets():
            limits = bucket.limits
            found[keys["own"]] = limits.active_count + limits.available_count
            found[keys["regional"]] = limits.regional_quota_core_count
            for kind in ("cluster", "family"):
                found[keys[kind]] = getattr(limits, f"{kind}_max_core_count")
            found[keys["nodearray"]] = 10**9
            found[keys["group"]] = limits.placement_group_max_count * bucket.vcpu_count
        return found

    def there(self):
        """What there is under each limit: nodes that exist, that are planned, and that rest and
        were given work here."""
        found = Counter(self.taken)
        for bucket, keys in self.buckets():
            nodes = [n for n in bucket.nodes if n.exists or n.state != "Deallocated" or n.required]
            for kind, key in keys.items():
                found[key] += len(nodes) * (1 if kind == "own" else bucket.vcpu_count)
        return found

    def chosen(self, which):
        """Nodes by their place in the listing."""
        return [node for index, node in enumerate(self.manager.get_nodes()) if index in which]

    # -- what may happen

    def do(self, what, *arguments):
        """One step."""
        manager = self.manager
        if what == "allocate":
            count, only_new = arguments
            wanted = {"ncpus": 4, **({"node.exists": False} if only_new else {})}
            manager.allocate(wanted, slot_count=count)
        elif what == "bootup":
            manager.bootup()
        elif what in ("delete", "deallocate_nodes", "start_nodes"):
            getattr(manager, what)(self.chosen(*arguments))
        elif what == "look again":
            for operation in {n.delayed_node_id.operation_id for n in self.chosen(*arguments)}:
                if operation:
                    manager.get_nodes_by_operation(operation)
        elif what == "close":
            for node in self.chosen(*arguments):
                node.closed = True
        elif what == "use":
            which, times = arguments
            for node in self.chosen(which):
                if node.exists:
                    node.decrement([], times, "somebody")
        else:
            self.by_hand(what, *arguments)

    def by_hand(self, what, index, count, back=0):
        """What a caller may do to the counters of a bucket."""
        bucket = self.manager.get_buckets()[index]
        count = min(count, bucket.available_count)
        if what == "take and give back":
            bucket.limits.decrement(count)
            bucket.limits.increment(count)
            return
        bucket.decrement(count)
        bucket.increment(back)
        bucket.commit()
        (keys,) = [keys for other, keys in self.buckets() if other is bucket]
        for kind, key in keys.items():
            kept = max(0, count - back)
            self.taken[key] += kept * (1 if kind == "own" else bucket.vcpu_count)

    def check(self):
        """The law."""
        there, most, before = self.there(), self.most(), self.before
        self.before = self.used()
        for key, used in self.before.items():
            # where the server has not counted all, or all is in use, there may be more than is in
            # use
            assert used >= min(before[key], there[key]), key
            if self.others[key] >= 0 and key[0] != "own":
                assert used == min(most[key], self.others[key] + there[key]), key
            assert used >= 0, key
        for bucket, _ in self.buckets():
            limits = bucket.limits
            assert limits.active_core_count >= 0
            assert 0 <= bucket.available_count <= limits.max_count


@given(NODES, SAID, STEPS)
@example(
    [(SLOTS[0], False, "Ready")] * 3,
    (-24, 0, False, 0),
    [("allocate", 3, True), ("delete", {0, 1, 2})],
)
@example(
    [(SLOTS[0], False, "Ready")] * 5, (24, -24, True, -16), [("delete", {0}), ("delete", {0, 1})]
)
@example(
    [(SLOTS[0], True, "Deallocated")], (0, 0, True, 0), [("start_nodes", {0}), ("delete", {0})]
)
@example(
    [],
    (0, 0, True, 0),
    [("allocate", 4, False), ("bootup",), ("deallocate_nodes", {0}), ("delete", {0})],
)
def test_what_is_in_use_never_falls_below_what_is_there(nodes, said, steps):
    """Whatever the server has counted, and of limits that are exceeded too."""
    site = Site(nodes, said)
    site.check()
    for step in steps:
        site.do(*step)
        site.check()
