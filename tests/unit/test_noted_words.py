"""What was noted of jobs that wait, in the sentences of verdicts."""

import pytest

from hpc.autoscale.explaining.noted import causes_noted, nearest_noted

F4, F8 = (f"NodeBucket(nodearray=htc, vm_size={size})" for size in ("F4", "F8"))
GPU = "NodeBucket(nodearray=gpu, vm_size=NC4, pg=pg0)"
HAS = "InsufficientResource: {} has {} of '{}', and {} is needed"
GANG = (
    "GangTooLarge: {} could take {} of the 30 nodes that must go together: NoCapacity: has no room"
    " for a new node: {}"
)
ROOM = "Bucket(htc, F4) can take 6 new nodes, and 6 are planned"
RESTS = "Regular f4 in westus2 is in back-off (capacity), for 63 s more, and 1 planned: no room"
QUOTA = "VM Family(f, westus2) has 8 of 8 cores in use"


@pytest.mark.parametrize(
    ("reason", "limit", "code", "said"),
    [
        (
            f"{HAS.format(F4, 4, 'n', 64)} (and 8 more alike); {HAS.format(F8, 16, 'n', 64)}",
            None,
            "TooLarge",
            "the job needs 64 n on one node, and the largest has 16",
        ),
        (
            f"{HAS.format(F4, '8.58993e+09b', 'm', '1e+12b')}; {HAS.format(F8, '512m', 'm', '9g')}",
            None,
            "TooLarge",
            "the job needs 931.323g m on one node, and the largest has 8g",
        ),
        (
            HAS.format(F4, 4, "n", "1e+06"),
            None,
            "TooLarge",
            "the job needs 1e+06 n on one node, and the largest has 4",
        ),
        # hosts on premises are nodes as others; they were nearer than all else
        (
            f"{HAS.format(F4, 8, 'n', 64)}; {HAS.format('Node[name=rack-1 attr=n]', 4, 'n', 64)}",
            None,
            "TooLarge",
            "the job needs 64 n on one node, and the largest has 8",
        ),
        (
            f"InvalidOption: {F4} has nodearray = 'htc', and 'htcc' is needed;"
            f" {HAS.format('Node[name=rack-1 attr=n]', 4, 'n', 6)}",
            None,
            "UnknownValue",
            "no node has the nodearray 'htcc' and 6 n",
        ),
        (
            "ExclusiveRequirementFailed: Node[name=rack-1] is in use; Own: Node[name=rack-1] no",
            None,
            "Busy",
            "all that would do have other work",
        ),
        # a node that there is not, of a job and of a gang
        (
            f"NoSuchNode: {F4} has no node whose node.name is 'x'; InvalidOption: {F8} has"
            " node.name = 'htc-0', and 'x' is needed",
            None,
            "NoSuchNode",
            "there is no node whose name is 'x'",
        ),
        (
            f"NoSuchNode: {F8} has no node whose node.name is 'x'; {HAS.format(F4, 0, 'n', 1)}",
            None,
            "Busy",
            "all that would do have other work, or are too small",
        ),
        (
            f"GangTooLarge: {F4} could take 0 of the 3 nodes that must go together: NoSuchNode: has"
            " no node whose node.name is 'x' (and 2 more alike)",
            None,
            "NoSuchNode",
            "there is no node whose name is 'x'",
        ),
        (
            f"GangTooLarge: {F4} could take 1 of the 3 nodes that must go together: NodesFull: has"
            " 2 nodes, none of which has room for it",
            None,
            "Busy",
            "all that would do have other work, or are too small",
        ),
        # names are as users have them
        (
            f"InvalidOption: {F4} has my-kind = 'a = b', and 'c' is needed",
            None,
            "UnknownValue",
            "no node has the my-kind 'c'; nodes have 'a = b'",
        ),
        (
            f"""InsufficientResource: {F4} has 1 of "Bob's", and 2 is needed""",
            None,
            "TooLarge",
            "the job needs 2 Bob's on one node, and the largest has 1",
        ),
        (
            f'UndefinedResource: {F4} has no resource "Bob\'s"',
            None,
            "UnknownResource",
            'no node has a resource "Bob\'s"',
        ),
        # nobody can tell where such a text ends
        (
            f"InvalidOption: {F4} has kind = 'a; b', and 'c' is needed",
            None,
            "Unexplained",
            "htc/F4 has kind = 'a",
        ),
        (
            f"UndefinedResource: {F4} has no resource 'licence' (and 15 more alike)",
            None,
            "UnknownResource",
            "no node has a resource 'licence'",
        ),
        (
            f"UndefinedResource: {F4} has no resource 'gpus'; {HAS.format(GPU, 1, 'gpus', 4)}",
            None,
            "TooLarge",
            "the job needs 4 gpus on one node, and the largest has 1",
        ),
        (
            f"UndefinedResource: {F4} has no resource 'gpus'; InvalidOption: {GPU} has"
            " node.nodearray = 'gpu', and 'htc' is needed",
            None,
            "OtherValue",
            "new nodes have no gpus",
        ),
        (
            f"InvalidOption: {F4} has node.nodearray = 'htc', and 'htx' is needed",
            None,
            "UnknownValue",
            "no node has the nodearray 'htx'; did you mean 'htc'?",
        ),
        (
            f"InvalidOption: {F4} has node.nodearray = 'htc', and 'x' is needed (and 5 more alike);"
            f" InvalidOption: {GPU} has node.nodearray = 'gpu', and 'x' is needed",
            None,
            "UnknownValue",
            "no node has the nodearray 'x'; nodes have 'htc', 'gpu'",
        ),
        (
            f"cluster west does not answer; InvalidOption: {F4} has node.nodearray = 'htc', and"
            " 'west/htc' is needed",
            None,
            "ClusterAway",
            "cluster west does not answer",
        ),
        (
            f"InvalidOption: {F4} has node.vm_size = 'F4', and 'Standard_F8' is needed",
            None,
            "UnknownValue",
            "no nodearray has the VM size Standard_F8",
        ),
        (
            f"InvalidOption: {F4} has node.nodearray = 'htc', and 'gpu' is needed; InvalidOption:"
            f" {GPU} has colour = 'red', and 'blue' is needed",
            None,
            "OtherValue",
            "colour is 'red', and the job wants 'blue'",
        ),
        (
            f"NodesFull: {F4} has 25 nodes, none of which has room for it; NoCapacity: {GPU} has no"
            " room for a new node: NodeArray(gpu) has 3 of 3 nodes in use",
            None,
            "Busy",
            "all that would do have other work, or are too small",
        ),
        (
            f"NoCapacity: {F4} has no room for a new node: NodeArray(htc) has 3 of 3 nodes in use",
            None,
            "NodearrayLimit",
            "the limit of nodearray htc (MaxCount) has 3 of 3 nodes in use",
        ),
        (
            f"NodesFull: {F4} has 2 nodes, none of which has room for it",
            QUOTA,
            "FamilyQuota",
            "the quota of f in westus2 has 8 of 8 cores in use",
        ),
        (
            "nothing can take 200 nodes, all in one bucket with (x); GangTooLarge:"
            f" {GPU} could take 40 of the 200 nodes that must go together; … and 3 other reasons",
            None,
            "BucketLimit",
            "gpu/NC4 could take 40 of the 200 nodes that must go together",
        ),
        (
            f"{GANG.format(F4, 10, ROOM)} (and 1 more alike); {GANG.format(F8, 20, QUOTA)}",
            None,
            "FamilyQuota",
            "the quota of f in westus2 leaves room for 20 of the 30 nodes that must go together",
        ),
        (
            GANG.format(F4, 10, ROOM),
            None,
            "BucketLimit",
            "what CycleCloud allows of htc/F4 leaves room for 10 of the 30 nodes that must go"
            " together",
        ),
        (
            GANG.format(F4, 2, RESTS),
            None,
            "CapacityBackoff",
            "Azure had no capacity for f4 in westus2: next try in 63 s; message: no room",
        ),
        (
            "nothing can take 4 nodes",
            f"the gang has 2 of 4 nodes in htc/F4/a, and 9 s left for the rest; {RESTS}",
            "GangGathers",
            "the gang has 2 of 4 nodes in htc/F4/a, and 9 s left for the rest",
        ),
        (
            "no",
            f"{QUOTA}; Spot quota of westus2 is in back-off (quota, 3 nodes in a row), tried with 2"
            " at a time, and 2 planned: no message",
            "QuotaBackoff",
            "Azure says that the spot quota of westus2 is used up, 3 times in a row: tried again"
            " with 2 nodes first",
        ),
        (
            "no",
            "Bucket(htc, f4) is in back-off (boot, 2 nodes in a row), tried by nodes that boot: no"
            " message",
            "BootBackoff",
            "2 nodes of htc/f4 in a row did not become ready: tried again with nodes that boot"
            " first",
        ),
        (
            "no",
            "Regular quota of westus2 is in back-off (quota), for 5 s more: no message",
            "QuotaBackoff",
            "Azure says that the core quota of westus2 is used up: next try in 5 s",
        ),
        (
            "no",
            "Cluster has 60 of 60 nodes and 84 of 900 cores in use or planned (2 nodes and 4 cores"
            " planned)",
            "ClusterLimit",
            "the limit of the cluster (MaxCount) has 60 of 60 nodes in use or planned (2 nodes"
            " planned)",
        ),
        (
            "no",
            "NodeArray(htc) has 5 of 60 nodes and 898 of 900 cores in use",
            "NodearrayLimit",
            "the limit of nodearray htc (MaxCoreCount) has 898 of 900 cores in use",
        ),
        (
            f"NoCapacity: {F4} has no room for a new node: Bucket(htc, F4) can take 3 new nodes,"
            " and 2 are planned (and 2 more alike)",
            None,
            "BucketLimit",
            "CycleCloud has room for 1 more node of htc/F4",
        ),
        (
            f"InvalidOption: {GPU} has nodearray = 'gpu', and 'htx' is needed (and 2 more alike);"
            f" {HAS.format(F4, 2, 'ncpus', 4)} (and 2 more alike)",
            None,
            "UnknownValue",
            "no node has the nodearray 'htx' and 4 ncpus",
        ),
        (
            f"nothing can take 2 nodes, all in one bucket with (x); {HAS.format(F4, 2, 'n', 4)};"
            f" InvalidOption: {GPU} has node.vm_size = 'NC4', and one of 'F6', 'F8' is needed",
            None,
            "UnknownValue",
            "no node has the VM size one of 'F6', 'F8' and 4 n",
        ),
        (
            f"InvalidOption: {GPU} has nodearray = 'gpu', and 'htc' is needed;"
            f" {HAS.format(F4, 2, 'ncpus', 4)}",
            None,
            "TooLarge",
            "the job needs 4 ncpus on one node, and the largest has 2",
        ),
        (
            f"InvalidOption: {GPU} has kind = 'a', and 'b' is needed; {HAS.format(F4, 2, 'n', 4)}",
            None,
            "TooLarge",
            "the job needs 4 n on one node, and the largest has 2",
        ),
        (
            f"InvalidOption: {GPU} has node.vm_size = 'NC4', and 'Standard_F4s_v2' is needed;"
            f" UndefinedResource: {F4} has no resource 'x'",
            None,
            "OtherValue",
            "vm_size is 'NC4', and the job wants 'Standard_F4s_v2'",
        ),
        (
            f"UndefinedResource: {F4} has no resource 'x'; UndefinedResource: {GPU} has no resource"
            " 'y'",
            None,
            "OtherValue",
            "new nodes have no x",
        ),
        (f"SharedLimitReached: {F4} x has 3 left", None, "PoolEmpty", "htc/F4 x has 3 left"),
        (f"Never: {F4} held by its owner", None, "NeverAllowed", "the job says: held by its owner"),
        (
            "UndefinedResource: Bucket[array=htc vm_size=F4 attr=ncpsu] has no resource 'ncpsu';"
            " did you mean 'ncpus'?",
            None,
            "UnknownResource",
            "no node has a resource 'ncpsu'",
        ),
        (
            "InsufficientResource: Bucket[array=htc vm_size=F4 attr=ncpus] has 4 of 'ncpus', and 99"
            " is needed",
            None,
            "TooLarge",
            "the job needs 99 ncpus on one node, and the largest has 4",
        ),
        (None, ROOM, "BucketLimit", "CycleCloud has room for no more nodes of htc/F4"),
        (
            None,
            "NodeArray(htc) has 3 of 8 nodes in use",
            "NodearrayLimit",
            "the limit of nodearray htc (MaxCount) has 3 of 8 nodes in use",
        ),
        (
            None,
            "Spot quota of westus2 is in back-off (quota), for 63 s more: no room",
            "QuotaBackoff",
            "Azure says that the spot quota of westus2 is used up: next try in 63 s;"
            " message: no room",
        ),
        (
            None,
            "Regular quota of f in westus2 is in back-off (quota), for 63 s more: no message",
            "QuotaBackoff",
            "Azure says that the quota of f in westus2 is used up: next try in 63 s",
        ),
        (
            None,
            "Bucket(htc, F4) is in back-off (boot, 3 nodes in a row), tried by nodes that boot: no",
            "BootBackoff",
            "3 nodes of htc/F4 in a row did not become ready: tried again with nodes that boot"
            " first; message: no",
        ),
        # what is said of alternatives is one cause, and such a job can never run
        (
            f"CompoundFailure: {F4} satisfies none of 2 alternatives: InsufficientResource: has 4"
            " of 'n', and 8 is needed; UndefinedResource: has no resource 'm' (and 2 more alike)",
            None,
            "NoAlternative",
            "htc/F4 satisfies none of 2 alternatives: has 4 of 'n', and 8 is needed; has no"
            " resource 'm'",
        ),
        (
            f"CompoundFailure: {F4} satisfies none of 2 alternatives: UndefinedResource: has no"
            f" resource 'm'; UndefinedResource: has no resource 'k'; {HAS.format(F8, 16, 'n', 64)}",
            None,
            "TooLarge",
            "the job needs 64 n on one node, and the largest has 16",
        ),
        (
            f"not(success): {F4} satisfies what must not be: n >= 3",
            None,
            "Excluded",
            "htc/F4 satisfies what must not be: n >= 3",
        ),
        ("nothing can take 4 slots; … more", None, "Unexplained", "nothing can take 4 slots"),
        ("quota is used up", None, "Unexplained", "quota is used up"),
        (None, None, "Unexplained", "not worked out"),
    ],
)
def test_the_nearest_of_what_was_noted(reason, limit, code, said):
    """In the words of the verdict, equal things once."""
    found = nearest_noted(reason, limit)
    assert (found.code, found.text) == (code, said)


def test_jobs_by_cause():
    """Whatever the figures of their engine were; those of most jobs first, and those that could not
    be looked at with what was said of them."""
    large = HAS.format(F4, 4, "ncpus", 64)
    jobs = [{"job": "a", "reason": "no", "limit": None}]
    jobs += [{"job": f"b{n}", "reason": large + n * " ", "limit": None} for n in range(7)]
    first, second, aside = causes_noted(jobs, [{"job": "c", "reason": "has no\nname"}])
    assert (aside.jobs, aside.names, aside.cause.text) == (1, ["c"], "has no name")
    assert (first.jobs, first.names, first.cause.is_never) == (7, [f"b{n}" for n in range(5)], True)
    assert (second.jobs, second.names, second.cause.is_never) == (1, ["a"], False)


def test_what_a_limit_leaves_a_gang_in_all_was_not_noted():
    """So it may wait for others, or for ever."""
    for is_never, reason in ((None, GANG.format(F4, 10, ROOM)), (False, GANG.format(F4, 2, RESTS))):
        assert nearest_noted(reason).is_never is is_never
