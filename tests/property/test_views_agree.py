"""What the views of a site say of one and the same moment agrees: `plan`, `whatif`,
`status`, `demand`, `nodes` and `jobs`, and what the journal of the pass after that comes to.

Sites are drawn as for the laws of plans, with more that jobs can be. Every view is asked before
each pass.
"""

import copy
import json
import os
import random
from collections import Counter

import pytest

from builders.plan_queue import DriverOfQueue, PlanCLI
from builders.plan_worlds import F2, F4, PlanWorld, WideWorld, truth
from hpc.autoscale.cli.autoscaling import PassIncomplete
from hpc.autoscale.cli.explaining import look
from hpc.autoscale.cli.status import StatusCommands
from hpc.autoscale.explaining.of_jobs import explain_job
from hpc.autoscale.job.job import Job
from hpc.autoscale.jobs import UnusableJob
from hpc.autoscale.journal import Journal, showing
from hpc.autoscale.report.history import of_records
from hpc.autoscale.results.verdicts import Stand

SITES = int(os.environ.get("VIEW_SITES", "1"))
"""So many sites are drawn; more with `VIEW_SITES`."""

FIRST = int(os.environ.get("VIEW_FIRST", "0"))
"""The seed of the first of them."""

FOUND = (10, 17, 104)
"""Sites at which something was found once: nodes of dynamic arrays, a gang that gathers, and a node
that is off and goes."""

PASSES = int(os.environ.get("VIEW_PASSES", "7"))

WISHES = (
    {"ncpus": 1, "or": [{"node.vm_size": F2}, {"ngpus": 1}]},
    {"ncpus": 1, "xor": [{"node.vm_size": F4}, {"node.nodearray": "htc"}]},
    {"ncpus": 1, "not": {"node.vm_size": F4}},
    {"ngpus": 1},
    {"memory": "memory::500g"},
    {"nosuch": 1},
    {"node.placement_group": "pg0"},
)
LEFT = ("create", "start")
SHAPES = ({"iterations": 3}, {"node_count": 2}, {"node_count": 2, "colocated": True})
QUESTIONS = (
    {"idle_timeout": 30},
    {"packing.policy": "cheapest"},
    {"autoscale.max_new_nodes_per_pass": 1},
    {"backoff.enabled": False},
    {"default_resources": []},
    {"nodearrays.default.max_placement_groups": 1},
    {"on_premises": []},
)


class ViewCLI(PlanCLI, StatusCommands):
    """The commands that are held against each other."""


class OddDriver(DriverOfQueue):
    """A driver that also hands over what is `odd` in its queue."""

    def _read_jobs_and_nodes(self, config):
        jobs, hosts = super()._read_jobs_and_nodes(config)
        return [*jobs, *(make() for make in self.queue.odd.values())], hosts


class ViewWorld(PlanWorld):
    """A site whose queue has more kinds of jobs, also some that no pass can look at."""

    def __init__(self, seed, home):
        super().__init__(seed, home)
        self.settings["journal"] = {}
        self.queue.odd = {}
        self._odd = random.Random(f"odd jobs {seed}")

    def driver(self):
        return OddDriver(self.queue)

    def cli(self):
        return ViewCLI(self.driver)

    def step(self):
        super().step()
        draw, odd = self._odd, self.queue.odd
        for name in [name for name in odd if draw.random() < 0.2]:
            del odd[name]
        name = f"odd{self._steps}"
        wish, shape = draw.choice(WISHES), draw.choice(SHAPES)
        kinds = [
            lambda: Job(name, wish, **shape),
            lambda: UnusableJob(name, "it cannot be read"),
            lambda: name,
        ]
        hosts = list(self.queue.hosts)[:1]
        if hosts:
            kinds.append(lambda: UnusableJob(name, "it runs, and cannot be read", hosts))
        if draw.random() < 0.6:
            odd[name] = draw.choice(kinds)
        if self.queue.hosts and draw.random() < 0.2:
            draw.choice(list(self.queue.hosts.values())).is_marked = True


class WideViewWorld(ViewWorld, WideWorld):
    """The same with more than one cluster, most often."""


@pytest.fixture
def asked(capsys):
    """What asks a world something, with a command that changes nothing: its JSON."""

    def ask(world, command, *args, **more):
        cli = world.cli()
        capsys.readouterr()
        with world.time():
            try:
                getattr(cli, command)({**world.config, "read_only": True}, *args, **more)
            except SystemExit as ended:
                assert ended.code in (2, 3)
            except PassIncomplete:
                pass  # what could be said was printed
            finally:
                cli._unlock()
        return json.loads(capsys.readouterr().out)

    return ask


def waiting_in(plan):
    """The jobs of a plan that wait, whether a pass can look at them or not."""
    return [*plan["waiting"], *(each for each in plan["set_aside"] if each["never"])]


def compared(plan):
    """What of a plan `whatif` has."""
    counts = Counter()
    for row in plan["changes"]:
        if row["action"] in ("create", "start", "delete"):
            counts[row["action"], row["bucket"]] += row["count"]
    waiting = [(each["job"], each["never"]) for each in waiting_in(plan)]
    return (
        *(plan["jobs"], plan["jobs"] - len(waiting), counts, plan["cost_per_hour"]),
        *(sorted(waiting), plan["errors"]),
    )


def of_whatif(case):
    """The same of a case."""
    counts = Counter({(row["action"], row["bucket"]): row["count"] for row in case["changes"]})
    waiting = sorted((each["job"], each["never"]) for each in case["waiting"])
    head = case["jobs"], case["placed"], counts, case["cost_per_hour"]
    return *head, waiting, case["errors"]


@pytest.mark.parametrize("seed", sorted({*range(FIRST, FIRST + SITES), *FOUND}))
def test_what_is_said_of_a_moment_agrees(home, asked, seed):
    """`whatif` says what `plan` says, and what it would say of a configuration with what was set;
    nodes and jobs are as many everywhere."""
    check_moments(ViewWorld(seed, home), asked, seed)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, SITES // 3)))
def test_what_is_said_of_several_clusters_agrees(home, asked, seed):
    """The same where clusters go away, regions have weights, and arrays are dynamic."""
    check_moments(WideViewWorld(seed, home), asked, seed)


def check_moments(world, asked, seed):
    """The law, before each of some passes."""
    for number in range(PASSES):
        world.step()
        plan = asked(world, "plan", output_format="json")
        check_questions(world, asked, plan, QUESTIONS[(seed + number) % len(QUESTIONS)])
        check_standing(world, asked, plan)
        check_demand(world, asked, plan)
        there = truth(world)["nodes"].values()
        summary = world.run()
        record = list(Journal(str(world.home / "journal")))[-1]
        check_record(world, plan, record, is_whole=not summary.errors)
        if not world.down:
            sample = of_records([record]).samples[-1]
            started = Counter(bucket for _, target, bucket in there if target == "Started")
            assert sample.nodes == started


def check_questions(world, asked, plan, question):
    """One question, beside the plan of a configuration in which it is so."""
    given = [f"{key}={json.dumps(value)}" for key, value in question.items()]
    said = asked(world, "whatif", given, output_format="json")
    assert of_whatif(said["now"]) == compared(plan)
    nodes = asked(world, "nodes", [], ["name", "exists", "managed"], "json")
    there = sum(each["exists"] and each["managed"] for each in nodes)
    off = {each["name"] for each in nodes if not each["exists"]}
    come, go = (
        sum(row["count"] for row in plan["changes"] if row["action"] in actions)
        for actions in (("create", "start"), ("delete",))
    )
    go -= sum(row["action"] == "delete" and row["node"] in off for row in plan["changes"])
    assert plan["errors"] or said["now"]["nodes_after"] == there + come - go
    before = copy.deepcopy(world.settings)
    for key, value in question.items():
        *steps, last = key.split(".")
        section = world.settings
        for step in steps:
            section = section.setdefault(step, {})
        section[last] = value
    assert of_whatif(said["then"]) == compared(asked(world, "plan", output_format="json"))
    world.settings = before


def check_demand(world, asked, plan):
    """The nodes of the demand that are not there, one by one, beside what the plan makes and
    starts, and does not yet; and the jobs that they are for."""
    columns = ["name", "nodearray", "vm_size", "placement_group", "exists", "managed", "job_ids"]
    rows = asked(world, "demand", columns, "json")
    if plan["errors"]:
        return
    known, wanted, jobs = truth(world)["nodes"], set(), {}
    left = {name: {r["node"] for r in plan["refused"] if r["command"] == name} for name in LEFT}
    counts = Counter()
    for row in rows:
        if row["exists"] or not row["managed"]:
            continue
        if row["name"] in known:
            wanted |= {row["name"]} if row["job_ids"] else set()
            continue
        parts = (row["nodearray"], row["vm_size"], row["placement_group"])
        bucket = "/".join(part for part in parts if part)
        counts[bucket] += row["name"] not in left["create"]
        jobs.setdefault(bucket, set()).update(row["job_ids"])
    starts = {row["node"] for row in plan["changes"] if row["action"] == "start"}
    assert starts <= wanted <= starts | left["start"]
    made = [row for row in plan["changes"] if row["action"] == "create"]
    assert counts.total() == sum(row["count"] for row in made)
    if not left["create"]:
        assert counts == Counter({row["bucket"]: row["count"] for row in made})
        assert jobs == {row["bucket"]: set(row["jobs"]) for row in made}


def check_standing(world, asked, plan):
    """What `status` says, beside the plan, the nodes and the jobs."""
    stands = asked(world, "status", output_format="json")
    nodes = asked(world, "nodes", [], ["name", "state", "exists", "managed"], "json")
    jobs = asked(world, "jobs")
    running = those_that_run(world)
    waiting = waiting_in(plan)
    assert not {each["job"] for each in waiting} & running
    check_explained(world, plan)
    assert stands["jobs"]["stuck"] == len(waiting)
    assert sum(group["count"] for group in stands["stuck"]) == len(waiting)
    are_to = sum(stands["jobs"][key] for key in ("will_start", "served", "workers"))
    assert are_to == plan["jobs"] - len(waiting) - len(running)
    assert len(jobs) <= plan["jobs"]  # requests are among those of a plan
    there = sum(count for state, count in stands["nodes"].items() if state != "planned")
    assert there == len(nodes)
    assert stands["nodes"].get("failed", 0) == sum(each["state"] == "Failed" for each in nodes)
    planned = sum(row["count"] for row in plan["changes"] if row["action"] == "create")
    left = sum(each["command"] == "create" for each in plan["refused"])
    assert plan["errors"] or stands["nodes"].get("planned", 0) == planned + left
    assert stands["cost"] == plan["cost_per_hour"]["before"]
    paid = sum(each["exists"] and each["managed"] for each in nodes)
    assert plan["errors"] or stands["paid"] == paid


def check_explained(world, plan):
    """What `explain` says of jobs that no pass can look at, beside the plan."""
    if not plan["set_aside"]:
        return
    with world.time():
        scene = look(world.config, world.driver)
        for each in plan["set_aside"]:
            is_never = explain_job(each["job"], scene).stand is Stand.NEVER
            assert is_never == each["never"]


def those_that_run(world):
    """The names of jobs of which a driver says that they run."""
    every = {name: make() for name, make in world.queue.odd.items()}
    return {name for name, job in every.items() if getattr(job, "executing_hostnames", None)}


def check_record(world, plan, record, is_whole):
    """The record of the pass, and the report of it, beside the plan. `is_whole`: nothing went
    wrong, so that all was done."""
    (sample,) = of_records([record]).samples
    row = dict(zip(showing.COLUMNS, showing.rows([record])[0], strict=True))
    assert sample.jobs == plan["jobs"]
    waiting = len(waiting_in(plan))
    assert sum(sample.waiting.values()) == row["waiting"] == waiting
    if not is_whole:
        return
    wanted = Counter()
    for change in plan["changes"]:
        if change["action"] in ("create", "start"):
            wanted[change["bucket"]] += change["count"]
    assert sample.wanted == wanted
    assert row["create"] == wanted.total()
    deleted = sum(change["action"] == "delete" for change in plan["changes"])
    assert row["delete"] == deleted
