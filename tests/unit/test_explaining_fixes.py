"""What lets a job start where a copy of the engine's state cannot tell, and where the queue is too
long to try everything; in passes over a cluster in memory."""

import pytest

from hpc.autoscale.cli import GenericDriver, asking_again
from hpc.autoscale.cli.explaining import look
from hpc.autoscale.errors import AutoscaleError
from hpc.autoscale.explaining import fixes, raising, waiting_job
from hpc.autoscale.explaining.of_buckets import explain_constraints
from hpc.autoscale.explaining.of_jobs import explain_job
from hpc.autoscale.explaining.of_nodes import explain_node, find_node
from hpc.autoscale.explaining.text import lines_of
from hpc.autoscale.job.job import Job
from hpc.autoscale.node.constraints import (
    SharedConsumableConstraint,
    SharedConsumableResource,
    SharedNonConsumableConstraint,
    SharedNonConsumableResource,
)
from hpc.autoscale.simulator import serve
from hpc.autoscale.testing import Nodearray, a_cluster, a_config, a_host

F4, F8 = "Standard_F4s_v2", "Standard_F8s_v2"


class Reads(GenericDriver):
    """Reads the jobs that a test makes, and hosts."""

    def __init__(self, new_jobs, *hosts):
        super().__init__("reads")
        self._new_jobs = new_jobs
        self._hosts = hosts

    def _read_jobs_and_nodes(self, config):
        return self._new_jobs(), list(self._hosts)


@pytest.fixture
def fixes_of(tmp_path):
    """The fixes for a job of a queue, by kind and subject."""

    def explain(new_jobs, name, *, cluster=None, connection=None, **config):
        config = {
            **(connection or a_config(cluster or a_cluster(htc={F4: 4}))),
            "nodehistorydb": str(tmp_path / "history.db"),
            **config,
        }
        scene = look(config, lambda: Reads(new_jobs), name=name)
        explain.verdict = explain_job(name, scene)
        return {(fix.kind, fix.subject): fix for fix in explain.verdict.fixes}

    return explain


def raised(found):
    """The fix that raises a limit."""
    (fix,) = (fix for (kind, _), fix in found.items() if kind == "raise-limit")
    return fix


def limited(max_count, quota=20):
    """A cluster of one nodearray with F4s; the server's own figure for these follows from both."""
    htc = {"machine_types": [F4], "max_count": max_count}
    quotas = {"quota": 500, "family_quotas": {"standardFSv2Family": quota}}
    cluster = {"region": "southcentralus", "nodearrays": {"htc": htc}}
    return {"clusters": {"c": cluster}, "regions": {"southcentralus": quotas}}


@pytest.fixture
def fixes_beside(fixes_of):
    """The same over a simulated cluster."""

    def explain(new_jobs, name, description):
        with serve(description) as simulator:
            return fixes_of(new_jobs, name, connection=simulator.connection("c"))

    return explain


def test_a_raise_alone_does_up_to_the_next_limit(fixes_beside):
    """What the pass has planned itself is none that the server has no room for beside it."""
    fix = raised(fixes_beside(lambda: [Job("a", {"ncpus": 4}, iterations=6)], "a", limited(6)))
    assert (fix.subject, fix.amount) == ("VM Family(standardFSv2Family, southcentralus)", 4)
    assert fix.nodes == {f"htc/{F4}": 6}


def test_limits_that_are_in_the_way_at_once_are_raised_together(fixes_beside):
    """Each by the least, for the job and those before it; none that need not be."""

    def jobs():
        return [Job("first", {"ncpus": 4}, iterations=2), Job("a", {"ncpus": 4}, iterations=8)]

    fix = raised(fixes_beside(jobs, "a", limited(6, quota=20)))
    assert fix.text == (
        "raise the quota of standardFSv2Family in southcentralus by 20 cores, to 40, and the limit"
        f" of nodearray htc (MaxCount) by 4 nodes, to 10: 8 x htc/{F4}, $1.63/h"
    )
    family = "VM Family(standardFSv2Family, southcentralus)"
    assert fix.parts == ((family, 20, "cores"), ("NodeArray(htc)", 4, "nodes"))
    assert (fix.amount, fix.is_least, fix.is_certain) == (None, True, True)
    assert fix.to_dict()["parts"][1] == {
        "subject": "NodeArray(htc)",
        "amount": 4,
        "unit": "nodes",
    }
    for cluster in (limited(9, quota=40), limited(10, quota=39)):
        assert raised(fixes_beside(jobs, "a", cluster)).parts == ()


def test_limits_are_raised_together_behind_jobs_with_licences(fixes_beside):
    """Whole passes are asked, which may take other nodes with less of one raise: these are not
    called the least."""
    queue = licensed(("first", 1, 2), licences=50)

    def jobs():
        return [*queue(), Job("a", {"ncpus": 4}, iterations=4)]

    fix = raised(fixes_beside(jobs, "a", limited(4, quota=12)))
    assert [part.amount for part in fix.parts] == [12, 2]
    assert (fix.is_least, fix.is_certain) == (False, True)


def test_of_a_long_queue_raises_together_are_found_by_halves(fixes_beside, monkeypatch):
    """They are not known to be the least then, and they do."""
    monkeypatch.setattr(raising, "_TRIED", 10)

    def jobs():
        return [Job(f"j{n}", {"ncpus": 4}) for n in range(300)]

    fix = raised(fixes_beside(jobs, "j299", limited(6)))
    assert [(part.amount, part.unit) for part in fix.parts] == [
        (1180, "cores"),
        (700, "cores"),
        (294, "nodes"),
    ]
    assert not fix.is_least


@pytest.mark.parametrize("step", [1, -1])
def test_of_parts_the_one_that_can_never_run_is_explained(fixes_of, step):
    """With what would help it, and nothing that would help others; that it lets the job start is
    not promised while these wait, too."""

    def parts():
        return [Job("a", {"ncpus": 4}, iterations=9), Job("a", {"ncpsu": 1})][::step]

    found = fixes_of(parts, "a")
    assert fixes_of.verdict.line.startswith("Job a can never run: no node has a resource 'ncpsu'")
    assert {kind for kind, _ in found} == {"rename"}
    assert all(fix.text.startswith("may help: ask for ") for fix in found.values())


def test_one_part_of_a_job_that_waits_is_explained_as_a_job(fixes_of):
    """The others have their nodes."""
    found = fixes_of(lambda: [Job("a", {"ncpus": 4}), Job("a", {"ncpus": 4}, iterations=9)], "a")
    assert found["ask-less", "slots"].text.startswith("ask for 3 slots instead of 9: 3 x htc/")


def licensed(*jobs, licences=5):
    """Makes jobs of name, amount and slots that draw on one pool."""

    def new_jobs():
        pool = SharedConsumableResource("licences", "site", licences, licences)
        return [
            Job(name, [{"ncpus": 4}, SharedConsumableConstraint([pool], amount)], iterations=slots)
            for name, amount, slots in jobs
        ]

    return new_jobs


def test_fewer_licences_are_asked_of_a_pass(fixes_of):
    """As many as the jobs before leave; the pool is that of all."""
    found = fixes_of(licensed(("a", 3, 1), ("b", 4, 1)), "b")
    assert (
        fixes_of.verdict.line == "Job b waits: the job needs 4 of licences, and 2 of them are left"
    )
    assert [cause.code for cause in fixes_of.verdict.causes] == ["PoolEmpty"]
    fix = found["ask-less", "licences"]
    assert fix.text.startswith("ask for 2 instead of 4 of licences: 1 x htc/")
    assert (fix.amount, fix.is_least, fix.is_certain) == (2, True, True)


@pytest.mark.parametrize("amount", [9, 9.0])
def test_as_many_licences_as_there_are_in_all(fixes_of, amount):
    """Also where the scheduler's amounts are floats."""
    fix = fixes_of(licensed(("a", amount, 1)), "a")["ask-less", "licences"]
    assert fix.text.startswith("ask for 5 instead of 9 of licences: 1 x htc/")


def test_fewer_slots_are_asked_of_a_pass(fixes_of):
    """One after another, the most first; by halves where there are too many."""
    queue = licensed(("a", 1, 2), ("b", 1, 6), licences=5)
    fix = fixes_of(queue, "b")["ask-less", "slots"]
    assert (fix.amount, fix.is_least, fix.is_certain) == (2, True, True)
    fix = fixes_of(licensed(("a", 1, 2), ("b", 1, 60), licences=5), "b")["ask-less", "slots"]
    assert (fix.amount, fix.is_least, fix.is_certain) == (2, False, True)


@pytest.mark.parametrize("others", [{}, {F4: 0}])
@pytest.mark.parametrize("rehearsed", [False, True])
def test_a_job_with_a_rest_of_its_own_after_failures_is_told_to_wait(fixes_of, others, rehearsed):
    """Until it is over, however long it takes to find that out; also beside a size that has not
    failed and is full."""
    cluster = a_cluster(htc={F8: 4, **others})
    cluster.nodearrays["htc"].buckets[0].last_capacity_failure = 10.0

    def jobs():
        wanted = Job("a", {"ncpus": 4, "capacity-failure-backoff": 300})
        return [*licensed(("b", 9, 1))(), wanted] if rehearsed else [wanted]

    fix = fixes_of(jobs, "a", cluster=cluster)["wait", "capacity"]
    assert fix.text.startswith("wait 5 min, until capacity is tried again: ")
    assert (round(fix.amount), fix.nodes) == (290, {f"htc/{F8}": 1})


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (Job("a", {"ncpus": 1}), "has its nodes own: the scheduler is to start it there"),
        (Job("a", {"ncpus": 1}, 0), "wants nothing now: no task of it may start"),
        (Job("run", {"ncpus": 1}, 0), "runs: on own; nothing more is wanted for it now"),
    ],
)
def test_a_job_that_waits_for_no_node(tmp_path, job, said):
    """On a host that was never a node, and that does not boot; of an array that may start no more
    tasks than run."""
    driver = Reads(lambda: [job], a_host("own", "run", ncpus=4))
    config = {**a_config(a_cluster(htc={F4: 4})), "nodehistorydb": str(tmp_path / "history.db")}
    verdict = explain_job(job.name, look(config, lambda: driver, name=job.name))
    assert verdict.line == f"Job {job.name} {said}"


@pytest.mark.parametrize("name", ["own.dc.example", "OWN"])
def test_a_host_is_asked_for_by_its_short_name(tmp_path, name):
    """That is guessed; and hosts that were never nodes have no nodearray whose name is ours."""
    job = Job("a", {"node.hostname": name})
    driver = Reads(lambda: [job], a_host("own.dc.example", ncpus=4))
    config = {**a_config(a_cluster(htc={F4: 4})), "nodehistorydb": str(tmp_path / "history.db")}
    verdict = explain_job("a", look(config, lambda: driver))
    said = f"there is no node whose hostname is '{name}'; did you mean 'own'?"
    assert verdict.line == f"Job a can never run: {said}"
    (cause,) = verdict.causes
    assert cause.where.endswith(", hosts that are not of CycleCloud")
    scene = look(config, lambda: driver)
    line = explain_node(find_node("own", scene), scene).line
    assert line.startswith("Node own.dc.example (not of CycleCloud) is running: ")


@pytest.mark.parametrize(
    ("name", "where"),
    [("hpc-1", f"hpc/{F4}"), ("own", "hosts that are not of CycleCloud"), ("hpc-?", f"hpc/{F4}")],
)
def test_a_host_of_a_nodearray_that_the_job_does_not_want(tmp_path, name, where):
    """It was said that there is no such node, and whether that very name was meant."""
    cluster = a_cluster(htc={F4: 4}, hpc={F4: 4})
    cluster.add_node("hpc-1", "hpc", state="Ready", hostname="hpc-1")
    config = {**a_config(cluster), "nodehistorydb": str(tmp_path / "history.db")}
    job = Job("a", {"node.hostname": name, "node.nodearray": "htc"})
    verdict = explain_job("a", look(config, lambda: Reads(lambda: [job], a_host("own", ncpus=4))))
    said = f"the only nodes whose hostname is '{name}' are among {where}"
    assert verdict.line == f"Job a can never run: {said}, and the job wants another nodearray"
    assert verdict.code == "OtherNodearray"


def test_a_host_name_is_that_of_the_node_that_runs(tmp_path):
    """Where one that was switched off had it before; where two run, nobody can tell."""
    cluster = a_cluster(htc={F4: 4})
    cluster.add_node("htc-1", "htc", state="Deallocated", target_state="Deallocated", hostname="x")
    cluster.add_node("htc-2", "htc", state="Ready", hostname="x")
    config = {**a_config(cluster), "nodehistorydb": str(tmp_path / "history.db")}
    assert find_node("X", look(config, lambda: Reads(list))).name == "htc-2"
    cluster.add_node("htc-3", "htc", state="Ready", hostname="x")
    scene = look(config, lambda: Reads(list))
    assert find_node("htc-3", scene).name == "htc-3"
    with pytest.raises(AutoscaleError, match="stands for 2 nodes: htc-2, htc-3; name one"):
        find_node("x", scene)


@pytest.mark.parametrize("asked", [5, 6])
def test_less_on_a_node_is_asked_of_a_pass(fixes_of, asked):
    """Every whole number, the most first."""

    def jobs():
        return [*licensed(("a", 1, 1))(), Job("b", {"ncpus": asked})]

    fix = fixes_of(jobs, "b")["ask-less", "ncpus"]
    assert (fix.amount, fix.is_least, fix.is_certain) == (4, True, True)


def test_a_raise_is_asked_of_passes_behind_jobs_with_licences(fixes_of, monkeypatch):
    """Step by step; where these are too many, it is not known to be the least."""
    queue = licensed(("a", 1, 4), licences=50)

    def jobs():
        return [*queue(), Job("c", {"ncpus": 4}, iterations=3)]

    fix = raised(fixes_of(jobs, "c"))
    assert (fix.amount, fix.is_least, fix.is_certain) == (3, True, True)
    monkeypatch.setattr(waiting_job, "PASSES", 3)
    fix = raised(fixes_of(jobs, "c"))
    assert (fix.amount, fix.is_least, fix.is_certain) == (3, False, True)


@pytest.fixture
def passes(monkeypatch):
    """How many passes were rehearsed beside the first, as the length of a list."""
    asked, rehearse = [], asking_again.rehearse

    def counted(*given, **more):
        asked.append(given)
        return rehearse(*given, **more)

    monkeypatch.setattr(asking_again, "rehearse", counted)
    return asked


def test_other_jobs_behind_licences_take_no_pass(fixes_of, passes):
    """What the pass itself had left at the turn of the job is known."""

    def jobs():
        return [
            *licensed(("a", 1, 3))(),
            Job("b", {"ncpus": 4}, iterations=30),
            Job("c", {"ncpus": 4}),
        ]

    units = fixes_of(jobs, "b")["ask-less", "slots"]
    assert (units.amount, units.is_least, units.is_certain) == (1, True, True)
    passes.clear()

    def typo():
        return [*licensed(("a", 1, 3))(), Job("b", {"ncpsu": 4}, iterations=30)]

    assert fixes_of(typo, "b") == {}
    assert passes == []


def test_a_job_with_licences_takes_one_pass_for_all_that_it_may_ask_for(fixes_of, passes):
    """Which goes up to its turn; of many licences or slots the most are found by halves."""
    fix = fixes_of(licensed(("a", 1, 1), ("b", 90, 60), licences=100), "b")["ask-less", "slots"]
    assert (fix.amount, fix.is_certain, len(passes)) == (1, True, 1)
    fix = fixes_of(licensed(("a", 3, 1), ("b", 90, 1), licences=80), "b")["ask-less", "licences"]
    assert (fix.amount, fix.is_least, fix.is_certain) == (77, False, True)
    assert len(passes) == 2


def test_what_starts_for_a_job_is_not_what_was_planned_for_others(fixes_of):
    """Where a pass is asked: a node that it shares with one before it starts for that one."""

    def jobs():
        first = licensed(("a", 1, 1), licences=50)()
        return [*first, Job("b", {"ncpus": 2}), Job("c", {"ncpus": 2}, iterations=7)]

    cluster = a_cluster(htc={F4: 3})
    fix = raised(fixes_of(jobs, "c", cluster=cluster))
    assert (fix.amount, fix.nodes) == (2, {f"htc/{F4}": 3})


def test_several_raises_are_found_in_few_passes(fixes_beside, passes):
    """What all take where nothing is in their way is asked first."""
    queue = licensed(("first", 1, 2), licences=50)

    def jobs():
        return [*queue(), Job("a", {"ncpus": 4}, iterations=90)]

    fix = raised(fixes_beside(jobs, "a", limited(4, quota=12)))
    assert [part.amount for part in fix.parts] == [356, 88]
    assert len(passes) <= 12


def test_what_was_not_tried_is_said(fixes_of, monkeypatch):
    """Where it takes more passes than may be asked, or all of them take too long."""
    cost = {"packing": {"objective": "cost", "optimize_rounds": 5}}

    def jobs():
        return [Job("a", {"ncpus": 4}, iterations=4), Job("b", {"ncpus": 4}, iterations=9)]

    fixes_of(jobs, "b", **cost)
    assert fixes_of.verdict.left_out == ""
    monkeypatch.setattr(waiting_job, "PASSES", 2)
    fixes_of(jobs, "b", **cost)
    said = "not everything was tried: that takes more than 2 passes"
    assert (fixes_of.verdict.left_out, fixes_of.verdict.to_dict()["left_out"]) == (said, said)
    assert [*lines_of(fixes_of.verdict)][-1] == f"N{said[1:]}."
    monkeypatch.setattr(waiting_job, "LARGE", 1)
    fixes_of(licensed(("a", 3, 1), ("b", 4, 1)), "b")
    assert fixes_of.verdict.left_out == (
        "changes of the job were not tried: each takes a whole pass here, and jobs and nodes are"
        " more than 1"
    )


def test_no_more_is_asked_than_is_told(fixes_of, monkeypatch):
    """After the fifth change nothing is looked for."""
    monkeypatch.setattr(fixes, "MOST_FIXES", 1)
    monkeypatch.setattr(fixes, "least_raise", None)

    def jobs():
        return [Job("a", {"ncpus": 4}, iterations=9)]

    assert set(fixes_of(jobs, "a")) == {("ask-less", "ncpus")}


def test_a_typo_of_a_job_with_licences_is_asked_of_a_pass(fixes_of):
    """The constraint on the pool stays the same object."""

    def jobs():
        made = licensed(("a", 5, 1))()
        made.append(Job("b", {"ncpsu": 4}))
        return made

    assert fixes_of(jobs, "b")["rename", "ncpus"].is_certain


def six():
    """Six nodes for one task each, where four fit under one limit and five under another."""
    return [Job("a", {"ncpus": 4}, iterations=6)]


def counted_runs(monkeypatch):
    """What is asked of queues with changes that raise several limits, as amounts by limit."""
    asked, raise_all = [], raising._raise_all

    def counting(state, raise_it, raised):
        asked.append({(lv.limit.name, lv.unit): by for lv, by in raised.items()})
        raise_all(state, raise_it, raised)

    monkeypatch.setattr(raising, "_raise_all", counting)
    return asked


def test_raises_together_are_asked_once_each(fixes_beside, monkeypatch):
    """The round that finds nothing less knows the answers of the one before."""
    asked = counted_runs(monkeypatch)
    fix = raised(fixes_beside(six, "a", limited(4, quota=16)))
    assert len(fix.parts) > 1 and fix.is_least
    assert len(asked) == len({frozenset(each.items()) for each in asked})


def test_with_many_buckets_fewer_raises_are_tried(fixes_beside, monkeypatch):
    """Each try copies all buckets, so these count as jobs before this one do."""

    def asked_beside(arrays):
        asked = counted_runs(monkeypatch)
        cloud = limited(4, quota=16)
        nodearrays = cloud["clusters"]["c"]["nodearrays"]
        for number in range(arrays):
            nodearrays[f"other{number}"] = {"machine_types": ["Standard_D4s_v3"]}
        jobs = [Job("a", {"nodearray": "htc", "ncpus": 4}, iterations=30)]
        assert len(raised(fixes_beside(lambda: jobs, "a", cloud)).parts) > 1
        return len(asked)

    monkeypatch.setattr(raising, "_TRIED", 100)
    few = asked_beside(0)
    monkeypatch.undo()
    monkeypatch.setattr(raising, "_TRIED", 100)
    assert asked_beside(30) < few


def test_a_shared_value_that_is_another_is_named(fixes_of):
    """It is nothing that could be had less of."""

    def jobs():
        value = SharedNonConsumableResource("mode", "site", "night")
        return [Job("a", [{"ncpus": 1}, SharedNonConsumableConstraint(value, "day")])]

    assert fixes_of(jobs, "a") == {}
    assert fixes_of.verdict.line == "Job a waits: mode is night, and the job wants day"


def test_of_a_long_queue_what_all_take_is_asked(fixes_of, monkeypatch):
    """It is not known to be the least then, and it does."""
    monkeypatch.setattr(raising, "_TRIED", 10)

    def jobs():
        return [Job(f"j{n}", {"ncpus": 4}) for n in range(300)]

    fix = raised(fixes_of(jobs, "j299"))
    assert (fix.amount, fix.is_least, fix.is_certain) == (296, False, True)
    assert fix.nodes == {f"htc/{F4}": 1}


def test_of_a_long_queue_each_limit_that_would_do_is_told(fixes_of, monkeypatch):
    """Not only that of the first nodearray where a raise helps."""
    monkeypatch.setattr(raising, "_TRIED", 10)

    def jobs():
        return [Job(f"j{n}", {"ncpus": 4}) for n in range(300)]

    found = fixes_of(jobs, "j299", cluster=a_cluster(htc={F4: 4}, big={F8: 4}))
    told = {subject: fix.amount for (kind, subject), fix in found.items() if kind == "raise-limit"}
    assert told == {f"Bucket(htc, {F4})": 296, f"Bucket(big, {F8})": 144}


def test_of_a_long_queue_what_the_job_needs_alone_is_tried_first(fixes_of, monkeypatch):
    """Jobs before it that have all they want take no more."""
    monkeypatch.setattr(raising, "_TRIED", 10)

    def jobs():
        return [*(Job(f"j{n}", {"ncpus": 4}) for n in range(8)), Job("last", {"ncpus": 4})]

    # with more than that, work that others have on the nodes of big would come to those of htc
    found = fixes_of(jobs, "last", cluster=a_cluster(htc={F4: 4}, big={F8: 2}))
    told = [found["raise-limit", f"Bucket({at})"] for at in (f"htc, {F4}", f"big, {F8}")]
    assert [(fix.amount, fix.is_least) for fix in told] == [(1, False)] * 2


def test_constraints_are_asked_behind_all_jobs(tmp_path):
    """On what these leave."""
    config = {**a_config(a_cluster(htc={F8: 1})), "nodehistorydb": str(tmp_path / "history.db")}
    scene = look(config, lambda: Reads(lambda: [Job("a", {"ncpus": 4})]))
    said = explain_constraints([{"ncpus": 4}], scene)
    assert said.line.endswith("; it would go on a node that is there or planned")
    scene = look(config, lambda: Reads(lambda: [Job("a", {"ncpus": 8})]))
    assert explain_constraints([{"ncpus": 4}], scene).code in ("BucketLimit", "NodearrayLimit")


@pytest.mark.parametrize("disks", [("100g", "1t"), ("1t", "100g")])
def test_a_plain_amount_is_one_in_the_unit_of_each_node(fixes_of, disks):
    """Nodes may have a resource in different units: that of the last one is not that of all."""

    def jobs():
        return [Job("a", {"ncpus": 1, "disk": 3000})]

    defined = [
        {"select": {"node.vm_size": size}, "name": "disk", "value": f"size::{disk}"}
        for size, disk in zip((F4, F8), disks, strict=True)
    ]
    cluster = a_cluster(htc={F4: 4}, big={F8: 4})
    fix = fixes_of(jobs, "a", cluster=cluster, default_resources=defined)["ask-less", "disk"]
    where = f"htc/{F4}" if disks[0] == "100g" else f"big/{F8}"
    assert fix.text.startswith(f"ask for 100 instead of 3000 disk: 1 x {where}")


@pytest.mark.parametrize(
    ("wanted", "other"),
    [({"nodearray": "HTC"}, "htc"), ({"node.vm_size": "F4s_v2"}, F4), ({"Ncpus": 1}, "ncpus")],
)
def test_what_is_written_with_other_capitals_is_renamed(fixes_of, wanted, other):
    """And a VM size without its beginning."""
    assert fixes_of(lambda: [Job("a", wanted)], "a")["rename", other].nodes == {f"htc/{F4}": 1}


@pytest.mark.parametrize(
    ("name", "wanted", "others"),
    [
        ("node.spot", True, False),
        # the handle of a bucket has attributes of these names, which are something else
        ("priority", "high", "low"),
        ("limits", "high", "low"),
        ("node.nodearray", "full", "n10"),
        ("nodearray", "full", "n10"),
    ],
)
def test_any_value_that_nodes_have_may_be_allowed(fixes_of, name, wanted, others):
    """Also one that is false, a resource that is called like something of a bucket, and one of many
    nodearrays by either name."""
    high, low = ({"priority": value, "limits": value} for value in ("high", "low"))
    arrays = {f"n{n}": Nodearray({F4: 1}, resources=low) for n in range(10, 40)}
    full = Nodearray({"Standard_HB120rs_v3": 0}, spot=True, resources=high)
    cluster = a_cluster(full=full, **arrays)
    fixes = fixes_of(lambda: [Job("a", {name: wanted})], "a", cluster=cluster)
    subject = f"{name.removeprefix('node.')} {others}"
    assert fixes["allow", subject].nodes == {f"n10/{F4}": 1}
