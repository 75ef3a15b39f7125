"""`azscale explain` of nodes, buckets and constraints, what it says of names that it does not know,
and the fix that is to wait."""

import contextlib
import json
import sys

import pytest

from builders.failing_cloud import F4, REGION, a_site
from builders.site_commands import site_command as site_command
from hpc.autoscale import clock
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.cli import GenericDriver, asking_again
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.rehearsal.rehearsing import rehearse

ARRAYS = {"htc": {"machine_types": [F4]}, "hpc": {"machine_types": ["Standard_HB120rs_v3"]}}


@pytest.fixture
def azscale(tmp_path, site_command):
    """azscale beside a site; what it prints on stdout."""

    @contextlib.contextmanager
    def at(arrays=ARRAYS, region=None, **config):
        with a_site(tmp_path, arrays, region) as site:
            site.config.update(config)
            site_command.serve(site)
            yield site

    site_command.at = at
    return site_command


def test_a_node_from_its_plan_to_its_end(azscale):
    """Why it is there, why it stays, and what the server says of it."""
    with azscale.at(idle_timeout=300) as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4, "nodearray": "htc"})]
        assert "the next pass asks for it, for 17" in azscale("explain", "htc-1")
        site.run()
        site.wait(25)
        assert "is Preparing: it boots for 25 s, of 30 min at most, for 17" in azscale(
            "explain", "node:htc-1"
        )
        assert "waits for node htc-1, which boots (Preparing for 25 s, 30 min" in azscale(
            "explain", "17"
        )
        site.wait(60)
        site.run()
        assert "is Ready: it has work: 17" in azscale("explain", "htc-1"), azscale.errors
        site.new_jobs = lambda: [Job("17", {"ncpus": 4, "nodearray": "htc"}, iterations=3)]
        assert f"on 2 x htc/{F4} ($0.41/h), beside 1 node that is there" in azscale("explain", "17")
        site.new_jobs = list
        site.run()
        site.wait(60)
        said = azscale("explain", "htc-1")
        assert "nobody has needed it for 60 s, of 5 min until it goes" in said
        assert "it is not deleted now" not in said
        until = json.loads(azscale("explain", "htc-1", "-F", "json"))["until"]
        assert until == pytest.approx(clock.time() + 240)
        site.wait(241)
        said = azscale("explain", "htc-1")
        assert "is Ready: the next pass deletes it: it has no work for 5 min" in said
        assert "what would spare it: a job that fits it" in said
        found = json.loads(azscale("explain", "htc-1", "-F", "json"))
        assert [each["code"] for each in found["causes"]] == ["Goes"]
        site.simulator.cluster("c").edit("htc-1", KeepAlive=True)
        assert "it is to be kept alive" in azscale("explain", "htc-1")
        site.simulator.cluster("c").edit("htc-1", KeepAlive=False)
        site.simulator.cluster("c").fail("htc-1", message="disk broken")
        found = json.loads(azscale("explain", "htc-1", "-F", "json"))
        assert (found["about"], found["code"]) == ("node htc-1", "Failed")
        assert "it has failed: disk broken" in found["line"]
        assert found["causes"][0]["said"] == "disk broken"
        assert "the server says" not in azscale("explain", "htc-1")


def test_what_keeps_an_idle_node_is_said_first(azscale):
    """In a sentence, as the plan has it: when its time is over, that is why it stays."""
    hosts = []
    with azscale.at(idle_timeout=300) as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4, "nodearray": "htc"}, iterations=3)]
        site.new_hosts = lambda: [SchedulerNode(name, {"ncpus": 4}) for name in hosts]
        site.run()
        site.wait(100)
        hosts += [node["Hostname"] for node in site.simulator.cluster("c").nodes()]
        site.run()
        site.new_jobs = list
        hosts.clear()
        for _ in range(2):
            site.run()
            site.wait(301)
        kept = "the scheduler does not report hosts that it has reported before"
        assert f"is Ready: it is not deleted now: {kept}\n" in azscale("explain", "htc-1")
        found = json.loads(azscale("explain", "htc-1", "-F", "json"))
        assert [each["code"] for each in found["causes"]][:2] == ["SchedulerIncomplete", "Idle"]
        assert "is ready, and the scheduler does not report it any more" in azscale("plan")


def test_a_request_has_its_nodes(azscale):
    """No scheduler is to start it there: often there is none."""
    with azscale.at() as site:
        azscale("request", "--name=htc", "--corecount=4")
        site.wait(60)
        said = azscale("explain", "request:standard/htc")
        assert said == "Job request:standard/htc has its nodes htc-1\n"


def test_until_when_a_gang_gathers(azscale):
    """Is in explain and in plans, as data."""
    with azscale.at(region={"capacity": {F4: 2}}) as site:
        wanted = {"ncpus": 4, "exclusive": True, "nodearray": "htc"}
        site.new_jobs = lambda: [Job("mpi", dict(wanted), node_count=4, colocated=True)]
        deadline = site.simulator.clock.now() + 1800
        site.run()
        site.wait(100)
        site.run()
        found = json.loads(azscale("explain", "mpi", "-F", "json"))
        assert (found["until"], found["causes"][0]["until"]) == (deadline, deadline)
        (job,) = json.loads(azscale("plan", "-F", "json"))["waiting"]
        assert job["until"] == deadline


def test_a_gang_that_can_never_have_its_nodes(azscale):
    """Does not wait for capacity, while the size has none: of the two the limit is harder to
    lift."""
    arrays = {"htc": {"machine_types": [F4], "max_count": 6}}
    with azscale.at(arrays, region={"capacity": {F4: 2}}) as site:
        wanted = {"ncpus": 4, "exclusive": True}
        site.new_jobs = lambda: [
            Job(name, dict(wanted), node_count=nodes, colocated=True)
            for name, nodes in (("mpi", 4), ("wide", 8))
        ]
        said = "Job wide can never run: the limit of nodearray htc allows 6 nodes in all, and 8 are"
        for _ in range(3):
            assert azscale("explain", "wide").startswith(f"{said} needed\n")
            site.run()
            site.wait(100)


def test_a_gang_that_came_short_and_can_never_run_takes_few_passes(azscale, monkeypatch):
    """Where nothing of a kind helps, one question shows it; all kinds together have a limit. Jobs
    that are placed before it take none."""
    arrays = {"htc": {"machine_types": [F4], "max_count": 6}}
    asked = []
    monkeypatch.setattr(
        asking_again, "rehearse", lambda *given, **more: asked.append(0) or rehearse(*given, **more)
    )
    with azscale.at(arrays, region={"capacity": {F4: 2}}, autoscale={"gang_deadline": 90}) as site:
        wanted = {"ncpus": 4, "exclusive": True}
        site.new_jobs = lambda: [Job("mpi", dict(wanted), node_count=4, colocated=True)]
        for _ in range(3):
            site.run()
            site.wait(100)
        site.new_jobs = lambda: [
            *(Job(f"j{n}", {"ncpus": 1}) for n in range(12)),
            Job("wide", dict(wanted), node_count=38, colocated=True),
            Job("much", dict(wanted), iterations=9),
        ]
        said = azscale("explain", "wide")
        assert "the limit of nodearray htc allows 6 nodes in all, and 38 are needed" in said
        assert 0 < len(asked) <= 12
        asked.clear()
        assert azscale("explain", "much").startswith("Job much waits: Azure had no capacity for")
        assert asked == []


def test_a_spot_node_that_is_being_evicted(azscale):
    """Leaves, and does not boot: in `explain`, in `status` and in the summary of a pass."""
    with azscale.at({"htc": {"machine_types": [F4], "spot": True}}) as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4, "nodearray": "htc"})]
        site.run()
        assert json.loads(azscale("status", "-F", "json"))["nodes"] == {"booting": 1}
        site.wait(60)
        site.run()
        site.simulator.cluster("c").evict("htc-1")
        assert site.run().booting == ()
        found = json.loads(azscale("explain", "htc-1", "-F", "json"))
        assert (found["code"], "boots" in found["line"]) == ("TakenAway", False)
        assert "it is being taken away, and gets no work; CycleCloud says: " in found["line"]
        assert json.loads(azscale("status", "-F", "json"))["nodes"] == {"leaving": 1}


def test_what_a_node_is_told_that_asks_whether_it_may_stop(azscale):
    """Where autostop is configured: the service's own answer, of which nothing is kept."""
    with azscale.at(autostop={}) as site:
        site.new_jobs = lambda: [Job(name, {"ncpus": 4, "nodearray": "htc"}) for name in "ab"]
        site.run()
        site.wait(60)
        site.run()
        said = " ".join(azscale("explain", "htc-1").split())
        assert "MayNotStop if it asks by itself (autostop): htc-1 has work: a" in said
        site.new_jobs = list
        for _ in range(2):
            said = " ".join(azscale("explain", "htc-2").split())
            assert "if it asks by itself (autostop): htc-2 " in said
        assert len(site.nodes()) == 2
        assert not (site.home / "autostop.db").exists()


def test_a_node_at_rest(azscale):
    """It takes no place, until a job needs it."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4, "nodearray": "htc"})]
        site.run()
        site.wait(60)
        site.new_jobs, jobs = list, site.new_jobs
        new_cluster_bindings(site.config).deallocate_nodes(names=["htc-1"])
        site.wait(60)
        said = azscale("explain", "htc-1")
        assert "/h when it runs) is Deallocated: it rests, and takes no place" in said
        assert json.loads(azscale("status", "-F", "json"))["nodes"] == {"resting": 1}
        site.new_jobs = jobs
        assert "is Deallocated: the next pass starts it" in azscale("explain", "htc-1")


def test_a_node_that_was_ready_before_and_boots_again(azscale):
    """It is said neither to have a boot timeout, nor to boot since it was made."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4, "nodearray": "htc"})]
        site.run()
        site.wait(60)
        site.run()
        new_cluster_bindings(site.config).restart_nodes(names=["htc-1"])
        site.wait(10)
        site.run()
        said = azscale("explain", "htc-1")
        assert "is Preparing: it boots again, for 17; boot_timeout counts no more, as" in said
        assert "waits for node htc-1, which boots (Preparing)" in azscale("explain", "17")


def test_a_bucket_and_constraints(azscale):
    """How many nodes can be had, at which price, or why none."""
    with azscale.at(region={"family_quotas": {"standardFSv2Family": 8}}) as site:
        first = f"htc/{F4}: 2 more nodes can be had, $0.2"
        assert azscale("explain", f"htc/{F4}").startswith(first)
        assert azscale("explain", "htc").startswith(first)
        assert azscale("explain", f"bucket:{F4.upper()}").startswith(first)
        assert "finds room: htc/" in azscale("explain", "-C", "ncpus=4", "-C", "nodearray=htc")
        said = azscale("explain", "-C", "ncpus=500")
        assert said.startswith(
            "A job with these constraints can never run: the job needs 500 ncpus on one node"
        )
        assert "ask for 120 instead of 500 ncpus: 1 x hpc/Standard_HB120rs_v3" in said
        said = azscale("explain", "-C", "ncpus=4", "-C", "nodearray=htc")
        assert said.endswith(f"; it would start 1 x htc/{F4}, $0.20/h\n")
        site.new_jobs = lambda: [Job("17", {"ncpus": 4, "nodearray": "htc"}, iterations=2)]
        said = azscale("explain", "htc")
        assert "no node can be had: the quota of standardFSv2Family" in said


@pytest.mark.parametrize(
    ("wanted", "needs", "ask_for", "amount", "unit"),
    [
        ({"memb": "memory::900g"}, "900g memb", "456g instead of 900g memb", 456, "g"),
        ({"memb": "memory::2t"}, "2t memb", "456g instead of 2t memb", 456, "g"),
        ({"memmb": "size::921600m"}, "921600m memmb", "466944m instead of 921600m m", 466944, "m"),
        ({"memgb": "memory::1.5t"}, "1.5t memgb", "456g instead of 1.5t memgb", 456, "g"),
        (
            {"memb": "memory::1048576000k"},
            "1000g memb",
            "456g instead of 1000g memb",
            478150656,
            "k",
        ),
        ({"memgb": 2000}, "2000g memgb", "456 instead of 2000 memgb", 456, "memgb"),
        (
            {"memb": 900 * 2**30},
            "900g memb",
            "489626271744 (456g) instead of 966367641600 (900g) memb",
            489626271744,
            "memb",
        ),
    ],
)
def test_sizes_can_be_read_and_be_asked_for_less(azscale, wanted, needs, ask_for, amount, unit):
    """In the magnitude that was asked for, where that is a number that can be read."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("17", wanted)]
        first, _, rest = azscale("explain", "17").partition("\n")
        assert first.startswith(f"Job 17 can never run: the job needs {needs} on one node, and the")
        assert "e+11" not in first
        assert f"ask for {ask_for}" in " ".join(rest.split())
        fix = fixes_of(azscale, "17")["ask-less"]
        assert (fix["amount"], fix["unit"], fix["is_least"]) == (amount, unit, True)
        asked = next(iter(wanted.values()))
        less = f"size::{amount}{unit}" if isinstance(asked, str) else amount
        site.new_jobs = lambda: [Job("17", dict.fromkeys(wanted, less))]
        assert "will start at the next pass on 1 x hpc/" in azscale("explain", "17")


def test_of_alternatives_the_nearest_size_is_named(azscale):
    """Of each of them, not that of the first bucket; and less of each may be asked for."""
    gpu = {"gpu": {"machine_types": ["Standard_NC6s_v3"]}}
    with azscale.at({**ARRAYS, **gpu}) as site:
        either = {"or": [{"ncpus": 500}, {"ngpus": 9}, {"ncpus": 300, "ngpus": 1}]}
        site.new_jobs = lambda: [Job("17", either)]
        first, _, rest = azscale("explain", "17").partition("\n")
        assert first == (
            "Job 17 can never run: a node satisfies none of 3 alternatives: the largest has 120 of"
            " 'ncpus', and 500 is needed; the largest has 1 of 'ngpus', and 9 is needed; the"
            " largest has 120 of 'ncpus', and 300 is needed"
        )
        rest = " ".join(rest.split())
        assert rest.count("NoAlternative") == 1
        assert "- ask for 120 instead of 500 ncpus: 1 x hpc/" in rest
        assert "- ask for 6 instead of 300 ncpus: 1 x gpu/" in rest
        assert "- ask for 1 instead of 9 ngpus: 1 x gpu/" in rest
        either["or"][0]["ncpus"] = 121
        assert "can never run" in azscale("explain", "17")
        either["or"][0]["ncpus"] = 120
        assert "will start at the next pass on 1 x hpc/" in azscale("explain", "17")
        either["or"][0] = {"nodearray": "hcp"}
        assert "none of 3 alternatives: has nodearray = 'htc', and" in azscale("explain", "17")


def test_a_pattern_that_nothing_matches(azscale):
    """Is said to be none that matches; there is a guess where letter case or `Standard_` differ."""
    with azscale.at() as site:
        wanted = {"node.vm_size": "Standard_D*"}
        site.new_jobs = lambda: [Job("17", wanted)]
        said = azscale("explain", "17")
        has = "nodes have 'Standard_F4s_v2', 'Standard_HB120rs_v3'"
        assert said.startswith(f"Job 17 can never run: no VM size matches 'Standard_D*'; {has}\n")
        assert "instead of" not in said
        for pattern in ("standard_f*", "F4?_v2"):
            wanted["node.vm_size"] = pattern
            said = " ".join(azscale("explain", "17").split())
            assert f"no VM size matches {pattern!r}; did you mean {F4!r}?" in said
            assert f"ask for vm_size {F4} instead of {pattern}: 1 x htc/{F4}" in said
        wanted.update({"node.vm_size": "Standard_*", "nodearray": "x[yz]"})
        assert "no nodearray matches 'x[yz]'; nodes have" in azscale("explain", "17")


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        (
            {"node.memory": [8]},
            'node.memory is in bytes: for at least 8 GiB it is {"memgb": 8}',
        ),
        (
            {"memgb": ["memory::8g"]},
            'no text equals a size: for at least 8g it is {"memgb": "memory::8g"}',
        ),
        (
            {"node.memory": "8g"},
            'no text equals a size: for at least 8g it is {"memgb": "memory::8g"}',
        ),
        ({"ncpus": "4"}, 'no text equals a number: without quotes it is {"ncpus": 4}'),
        ({"memgb": "4"}, 'no text equals a number: without quotes it is {"memgb": 4}'),
        (
            {"node.vcpu_count": ["4"]},
            'no text equals a number: without quotes it is {"node.vcpu_count": 4}',
        ),
    ],
)
def test_an_amount_that_is_asked_for_by_what_equals_none(azscale, wanted, hint):
    """What to write instead is said, of jobs and of constraints of a command, and works."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("17", wanted)]
        assert hint in " ".join(azscale("explain", "17").split())
        azscale("buckets", "-C", json.dumps(wanted))
        assert hint in " ".join(azscale.errors.split())
        site.new_jobs = lambda: [Job("17", json.loads(hint.partition(" it is ")[2]))]
        assert "will start at the next pass" in azscale("explain", "17")


def test_a_nodearray_of_several_sizes(azscale):
    """What can be had of each of its sizes, and why none of the others; in the line the first few,
    the most first."""
    small, other = "Standard_F2s_v2", "Standard_F8s_v2"
    refused = {"name": "Standard_F16s_v2", "invalid_reason": "NotActivated"}
    arrays = {"htc": {"machine_types": [F4, small, refused]}}
    with azscale.at(arrays, {"family_quotas": {"standardFSv2Family": 8}}):
        said = azscale("explain", "htc")
        assert said.startswith(
            f"htc, 3 VM sizes: 4 more nodes of htc/{small} or 2 of htc/{F4} can be had\n"
        )
        found = json.loads(azscale("explain", "htc", "-F", "json"))
        causes = [(each["code"], each["where"]) for each in found["causes"]]
        assert causes[:2] == [("Available", f"htc/{small}"), ("Available", f"htc/{F4}")]
        assert ("SizeNotActivated", "htc/Standard_F16s_v2") in causes
        assert found["causes"][1]["text"] == "2 more nodes can be had, $0.20/h each"
        assert "What is known of it:" in said and "$0.20/h each" in said
        assert azscale("explain", f"htc/{F4}").startswith(f"htc/{F4}: 2 more nodes can be had, $")
    arrays = {name: {"machine_types": [F4, other]} for name in ("htc", "low")}
    with azscale.at(arrays):
        said = azscale("explain", F4)
        assert said.startswith("htc, low, 1 VM size: ")
    arrays["low"]["machine_types"].append(small)
    with azscale.at(arrays):
        assert " or some of 1 other bucket can be had\n" not in azscale("explain", "low")
        arrays["low"]["machine_types"].append("Standard_F32s_v2")
    with azscale.at(arrays):
        assert " or some of 1 other bucket can be had\n" in azscale("explain", "low")


def test_of_several_buckets_the_one_that_can_be_had_is_named(azscale):
    """With its price, also in the list of what is known."""
    arrays = {"htc": {"machine_types": [F4]}, "none": {"machine_types": [F4], "max_count": 0}}
    with azscale.at(arrays, {"family_quotas": {"standardFSv2Family": 8}}):
        first, *_ = json.loads(azscale("explain", F4, "-F", "json"))["causes"]
        assert (first["code"], first["where"]) == ("Available", f"htc/{F4}")
        assert first["text"] == "2 more nodes can be had, $0.20/h each"


def test_names_that_there_are_not(azscale):
    """One line, with a guess; and what is expected where nothing is named."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("job17", {"ncpus": 4})]
        for name, meant in (("job71", "job17"), ("hcp", "hpc"), ("bucket:hcp", "hpc")):
            said = azscale("explain", name) + azscale.errors
            assert f"did you mean {meant!r}" in said
        azscale("explain")
        assert "expected a job, a node or a bucket to explain, or constraints" in azscale.errors
        azscale("explain", "job17", "-C", "ncpus=4")
        assert "found both" in azscale.errors


def test_a_name_that_nothing_has_is_not_said_to_be_that_of_a_job(azscale):
    """It might have been meant for a node or a bucket; a kind in front says what it is."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("job17", {"ncpus": 4})]
        assert azscale("explain", "zzz-99") == "No job, node or bucket is called 'zzz-99'\n"
        found = json.loads(azscale("explain", "zzz-99", "-F", "json"))
        assert (found["stand"], found["code"]) == ("unknown", "NotInQueue")
        assert azscale("explain", "job:zzz-99").startswith("Job zzz-99 is not in the queue: the ")


def test_a_job_that_runs_is_only_reported_by_its_nodes(azscale):
    """As README.md tells drivers: it is in no queue, and its nodes have it as an assignment."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("a", {"ncpus": 4, "nodearray": "htc"}, iterations=2)]
        site.run()
        site.wait(60)
        names = [node["Hostname"] for node in site.nodes()]

        def new_hosts():
            hosts = [SchedulerNode(name, {"ncpus": 4}) for name in names]
            for host in hosts:
                host.available["ncpus"] = 0
                host.assign("array.job.1")
            return hosts

        site.new_jobs, site.new_hosts = list, new_hosts
        said = "Job array.job.1 runs: on htc-1, htc-2\n"
        assert azscale("explain", "array.job.1") == said
        assert azscale("explain", "job:array.job.1") == said
        found = json.loads(azscale("explain", "array.job.1", "-F", "json"))
        assert (found["about"], found["stand"]) == ("job array.job.1", "has")
        assert found["code"] == "Running"
        assert "did you mean 'array.job.1'?" in azscale("explain", "aray.job.1")
        job = Job("18", {"ncpus": 4}, executing_hostnames=["htc-1", "elsewhere"])
        job.metadata["job_state"] = "running"
        site.new_jobs = lambda: [job]
        assert azscale("explain", "18") == "Job 18 runs: on htc-1, elsewhere\n"


def test_a_machine_that_is_not_of_the_cluster(azscale):
    """It is left alone, and is neither a limit that is used up nor anything to join; jobs that it
    has run."""
    with azscale.at() as site:

        def new_hosts():
            login = SchedulerNode("login01", {"ncpus": 4})
            login.assign("j41")
            return [login, SchedulerNode("login02", {"ncpus": 4})]

        site.new_jobs, site.new_hosts = list, new_hosts
        said = azscale("explain", "login02")
        assert "nobody needs it; CycleCloud does not manage it, so it is left alone" in said
        standing = json.loads(azscale("status", "-F", "json"))
        assert [each for each in standing["limits"] if "null" in each["name"]] == []
        assert standing["jobs"] == {
            "run": 1,
            "will_start": 0,
            "stuck": 0,
            "served": 0,
            "workers": 0,
        }
        assert json.loads(azscale("plan", "-F", "json"))["changes"] == []


def test_it_changes_nothing(azscale, tmp_path):
    """No node, no file of the site but what reading leaves, and no lock."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4})]
        site.run()

        def files():
            found = (path for path in tmp_path.iterdir() if path.is_file())
            return {path.name: path.read_bytes() for path in found if path.suffix in (".db", "")}

        before = files()
        azscale("explain", "17")
        azscale("explain", "htc-1")
        assert files() == before
        assert len(site.nodes()) == 1


def test_to_wait_is_a_fix_and_no_shorter_wait_does(azscale):
    """For capacity: as long as it says, one node is tried then."""
    with azscale.at(region={"capacity": {F4: 0}}) as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4, "nodearray": "htc"})]
        site.run()
        site.wait(25)
        site.run()
        (fix,) = (
            fix
            for fix in json.loads(azscale("explain", "17", "-F", "json"))["fixes"]
            if fix["kind"] == "wait"
        )
        assert fix["nodes"] == {f"htc/{F4}": 1}
        site.simulator.set_capacity(REGION, **{F4: 5})
        site.wait(fix["amount"] - 1)
        assert "had no capacity for Standard_F4s_v2" in azscale("explain", "17")
        site.wait(2)
        assert "will start at the next pass" in azscale("explain", "17")


def fixes_of(azscale, name):
    """What would let a job start, by kind."""
    found = json.loads(azscale("explain", name, "-F", "json"))
    return {fix["kind"]: fix for fix in found["fixes"]}


def test_a_gang_that_gathers_starts_with_as_many_nodes_as_it_is_told(azscale):
    """A whole pass is asked, with the nodes that have come for it; more nodes do not do."""
    gang = {"exclusive": True, "in-a-placement-group": True}
    sizes = {"htc": {"machine_types": [F4], "placement_groups": ["a"]}}
    with azscale.at(sizes, {"capacity": {F4: 2}}) as site:

        def ask_for(nodes):
            site.new_jobs = lambda: [Job("17", gang, node_count=nodes, colocated=True)]

        # a placement group is found by its name as well
        first = f"htc/{F4} in a: 40 more nodes can be had, "
        assert azscale("explain", "a").startswith(first)
        assert azscale("explain", f"htc/{F4}/a").startswith(first)
        ask_for(4)
        site.run()
        site.wait(60)
        site.run()
        fixes = fixes_of(azscale, "17")
        fix = fixes["ask-less"]
        assert (fix["amount"], fix["is_least"], fix["is_certain"]) == (2, True, True)
        # its deadline may come first, and then it is given up there
        assert not fixes["wait"]["is_certain"]
        assert "it takes no more work now: a job takes it whole" in azscale("explain", "htc-1")
        ask_for(3)
        assert "Job 17 waits: the gang has 2 of 4 nodes" in azscale("explain", "17")
        ask_for(2)
        assert "Job 17 has its nodes" in azscale("explain", "17")


def test_nodes_are_named_in_the_order_of_their_numbers(azscale):
    """Of eleven that boot, the first: htc-10 comes after htc-9."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4}, iterations=11)]
        site.run()
        assert "waits for nodes htc-1, htc-2, htc-3" in azscale("explain", "17")


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("NotActivated", f"let {F4} be activated for the subscription"),
        ("DisabledMachineType", f"let {F4} be used in CycleCloud again"),
    ],
)
def test_what_would_let_a_size_be_used(azscale, reason, said):
    """One that was never activated cannot be used `again`."""
    sizes = [{"name": F4, "invalid_reason": reason}, "Standard_HB120rs_v3"]
    with azscale.at({"htc": {"machine_types": sizes}}) as site:
        site.new_jobs = lambda: [Job("17", {"node.vm_size": F4})]
        shown = " ".join(azscale("explain", "17").split())
        assert f"- may help: {said} (a node costs $0.20/h)" in shown
        causes = json.loads(azscale("explain", "17", "-F", "json"))["causes"]
        assert sorted(each["count"] for each in causes) == [1, 3]


def test_what_is_there_is_told_of_where_nothing_can_be_started(azscale):
    """Of a cluster of which no size can be used: it was `can never run: the cluster offers no
    nodes` of every job and node, and no status at all."""
    sizes = [{"name": F4, "invalid_reason": "NotActivated"}]
    hosts = [{"name": "rack-1", "resources": {"ncpus": 4}}]
    with azscale.at({"htc": {"machine_types": sizes}}, on_premises=hosts) as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4}), Job("18", {"ncpus": 4})]
        assert azscale("explain", "17").startswith("Job 17 has its nodes rack-1")
        said = azscale("explain", "18")
        assert f"{F4} is not activated" in said
        assert azscale("explain", "rack-1").startswith("Node rack-1 ")
        # it was told of limits of the cluster, and of quotas of `null`, which do not count hosts
        assert azscale("explain", "on-premises").startswith(
            "on-premises/unknown: no node can be had: it has 1 machine, not of CycleCloud,"
        )
        assert "did you mean 'job:17'?" in azscale("explain", "jobs:17")
        shown = azscale("status")
        assert "1 job (18)" in shown and f"found only {F4}" in " ".join(shown.split())
        assert azscale.code == 0


def test_a_gang_that_is_too_large_for_the_hosts_on_premises(azscale):
    """It was told to wait for the core quota of `null`, whatever the cloud had too little of."""
    hosts = [{"name": f"rack-{i}", "resources": {"ncpus": 4}} for i in (1, 2)]
    with azscale.at(ARRAYS, {"quota": 16}, on_premises=hosts) as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4}, node_count=5)]
        quota = f"the core quota of {REGION} allows 16 cores in all, and 20 are needed"
        said = " ".join(azscale("explain", "17").split())
        assert said.startswith(f"Job 17 can never run: {quota}")
        assert "the job needs 5 nodes together, and there are 2 machines" in said
        assert quota in " ".join(azscale("plan").split())
        here = {"ncpus": 4, "nodearray": "on-premises"}
        site.new_jobs = lambda: [Job("17", here, node_count=2), Job("18", here, node_count=2)]
        said = azscale("explain", "18")
        assert said.startswith("Job 18 waits: all that would do have other work")


def test_a_host_that_is_started_again_is_one_that_a_job_starts_on(azscale):
    """A worker that the scheduler misses for longer than a boot may take: it was said that the job
    has its nodes, and that nothing was left to do."""
    commands = {"start": ["true"], "stop": ["true"]}
    hosts = [{"name": "rack-1", "resources": {"ncpus": 4}, **commands}]
    with azscale.at(on_premises=hosts, boot_timeout=60) as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4})]
        assert azscale("explain", "17").startswith("Job 17 will start at the next pass on rack-1")
        site.run()
        assert azscale("explain", "17").startswith("Job 17 has its nodes rack-1")
        site.wait(61)
        assert "the next pass starts its worker" in azscale("explain", "rack-1")
        assert azscale("explain", "17").startswith("Job 17 will start at the next pass on rack-1")


def test_a_host_on_premises_that_is_missing_is_not_said_to_be_deleted(azscale):
    """Nobody ever deletes it: its worker is what would go, and stays."""
    commands = {"start": ["true"], "stop": ["true"]}
    hosts = [{"name": "rack-1", "resources": {"ncpus": 4}, **commands}]
    with azscale.at(on_premises=hosts, idle_timeout=60) as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 4})]
        site.run()
        site.new_jobs, site.new_hosts = list, lambda: [SchedulerNode("rack-1", {"ncpus": 4})]
        site.run()
        site.wait(61)
        said = " ".join(azscale("explain", "rack-1").split())
        # CycleCloud, which keeps nodes alive, does not know it
        assert "spare it: a job that fits it, or an idle_timeout above" in said
        site.new_hosts = list
        site.run()
        site.wait(61)
        said = "its worker is not stopped now: the scheduler has reported its host before"
        assert f"is Ready: {said}" in azscale("explain", "rack-1")


def test_where_nothing_can_be_looked_at(azscale):
    """It is not said to be a job, unless somebody says so: a name may be one of a node."""
    with azscale.at() as site:
        site.new_jobs = lambda: (_ for _ in ()).throw(OSError("qstat: cannot connect"))
        for what, about in {
            "htc-1": "Job, node or bucket htc-1",
            "job:17": "Job 17",
            "node:htc-1": "Node htc-1",
            "bucket:htc": "Bucket htc",
        }.items():
            said = azscale("explain", what)
            assert said.startswith(f"{about}: nobody can tell, because the scheduler cannot be")
        assert azscale("explain", "-C", "ncpus=4").startswith("This: nobody can tell, because")


def test_a_hook_that_raises_is_named(azscale, monkeypatch):
    """A KeyError says nothing of where it comes from."""

    def preprocess_config(self, config):
        raise KeyError("slots")

    monkeypatch.setattr(GenericDriver, "preprocess_config", preprocess_config)
    with azscale.at():
        assert ").preprocess_config: KeyError: 'slots'" in azscale("explain", "job:17")


def test_what_nobody_can_promise_may_help(azscale, monkeypatch):
    """Least cost in limited time, a queue that is too long for further passes, and a nodearray of
    which the server says nothing; where a limit is in the way too, it is not proposed."""
    quota = {"family_quotas": {"standardFSv2Family": 4}}
    off = {"attributes": {"Configuration": {"autoscale": {"enabled": False}}}}
    arrays = {"htc": {"machine_types": [F4]}, "gpu": {"machine_types": ["Standard_NC6s_v3"], **off}}
    arrays["off"] = {"machine_types": ["Standard_F8s_v2"], **off}
    with azscale.at(arrays, quota, packing={"objective": "cost"}) as site:
        site.new_jobs = lambda: [
            Job("16", {"ncpus": 4, "nodearray": "htc"}),
            Job("17", {"ncpus": 4, "nodearray": "htc"}),
            Job("18", {"ngpus": 1}),
            Job("19", {"nodearray": "off"}),
        ]
        said = azscale("explain", "17")
        assert f"by 4 cores, to 8: 1 x htc/{F4}" in " ".join(said.split())
        assert "  - may help: raise the quota" in said
        fix = fixes_of(azscale, "17")["raise-limit"]
        assert (fix["is_certain"], fix["is_least"]) == (False, False)
        assert "may help: set autoscale.enabled to true in nodearray gpu" in azscale(
            "explain", "18"
        )
        assert "autoscale.enabled to true" not in azscale("explain", "19")
        monkeypatch.setattr("hpc.autoscale.explaining.waiting_job.LARGE", 3)
        assert "  - may help: raise the quota" in azscale("explain", "17")


def test_a_line_for_a_terminal_is_folded(azscale, monkeypatch):
    """To its width; programs have it in one piece."""
    with azscale.at() as site:
        site.new_jobs = lambda: [Job("17", {"ncpus": 500})]
        assert len(azscale("explain", "17").split("\n", 1)[0]) > 80
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", "60")
        lines = azscale("explain", "17").splitlines()
        assert max(map(len, lines)) <= 60
        assert lines[1].startswith("  ")


def test_a_host_that_is_full_is_none_that_a_job_waits_for_by_another_name(azscale):
    """Hosts that cannot be ordered were looked at for their room alone: a job for a host that there
    is not was said to wait for one, and a nodearray that there is not was said to be wrong by a
    name of ours."""

    def full():
        host = SchedulerNode("login01", {"ncpus": 4})
        host.available["ncpus"] = 0
        return [host]

    with azscale.at() as site:
        site.new_hosts = full
        site.new_jobs = lambda: [
            Job("17", {"ncpus": 2, "node.hostname": ["htc-3", "htc-4"]}),
            Job("18", {"ncpus": 2, "node.hostname": "login01"}),
            Job("19", {"ncpus": 2, "nodearray": "gold"}),
        ]
        said = "there is no node whose hostname is one of 'htc-3', 'htc-4'"
        assert azscale("explain", "17").startswith(f"Job 17 can never run: {said}")
        (cause,) = json.loads(azscale("explain", "17", "-F", "json"))["causes"]
        assert (cause["code"], cause["count"]) == ("NoSuchNode", 7)
        assert "all that would do have other work" in azscale("explain", "18").split("\n")[0]
        assert "no node has the nodearray 'gold'; nodes have 'htc', 'hpc'\n" in azscale(
            "explain", "19"
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("create_nodes -a off", "nodearray off is disabled (autoscale.enabled=false)"),
        ("nodes -C node.nodearray=off", "nodearray off is disabled (autoscale.enabled=false)"),
        ("create_nodes -v Standard_F8s_v2", "Standard_F8s_v2 is not activated for the sub"),
        ("create_nodes -v Standard_F2s_v2", "cluster c has no VM size 'Standard_F2s_v2': exp"),
    ],
)
def test_what_the_cluster_has_and_nobody_can_use_is_no_unknown_name(azscale, words, said):
    """It was said that the cluster has none of that name."""
    sizes = [F4, {"name": "Standard_F8s_v2", "invalid_reason": "NotActivated"}]
    off = {"attributes": {"Configuration": {"autoscale": {"enabled": False}}}}
    with azscale.at({"htc": {"machine_types": sizes}, "off": {"machine_types": [F4], **off}}):
        azscale(*words.split())
        assert said in azscale.errors
        assert azscale.code


@pytest.mark.parametrize("cores", [4, 40])
def test_a_job_for_a_node_by_its_name_waits_for_that_node(azscale, cores):
    """It was said that there is no such node, or, with no room for new ones, that it waits for
    room; and so was a job for a node that there is not."""
    quota = {"family_quotas": {"standardFSv2Family": cores}}
    with azscale.at({**ARRAYS}, quota) as site:
        site.new_jobs = lambda: [Job("16", {"ncpus": 4, "nodearray": "htc"})]
        site.run()
        site.wait(100)
        (node,) = site.nodes()
        site.new_hosts = lambda: site.hosts_with(ncpus=1, total=4)
        site.new_jobs = lambda: [
            Job("17", {"ncpus": 2, "node.hostname": ["htc-1", "htc-8"]}),
            Job("18", {"ncpus": 2, "node.name": "htc-1"}),
            Job("19", {"ncpus": 200, "node.name": "htc-1"}),
            Job("20", {"ncpus": 2, "node.name": "htc-7"}),
            Job("21", {"ncpus": 1, "node.name": "htc-1"}),
            Job("22", {"ncpus": 2, "node.private_ip": node["PrivateIp"]}),
            Job("23", {"ncpus": 2, "ccnodeid": node["NodeId"]}),
            Job("24", [{"ncpus": 2}, {"or": [{"node.name": "htc-1"}, {"node.name": "htc-9"}]}]),
        ]
        for job in ("17", "18", "22", "23", "24"):
            causes = json.loads(azscale("explain", job, "-F", "json"))["causes"]
            assert [(each["code"], each["where"]) for each in causes] == [("Busy", f"htc/{F4}")]
        assert azscale("explain", "19").startswith("Job 19 can never run: the job needs 200 ncpus")
        said = "Job 20 can never run: there is no node whose name is 'htc-7'"
        assert azscale("explain", "20").startswith(said)
        assert azscale("explain", "21").startswith("Job 21 has its nodes htc-1")
