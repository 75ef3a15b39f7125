"""The commands plan and apply: what the next pass will do, and doing just that."""

import errno
import io
import json
import random
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from builders.failing_cloud import F4, a_site
from builders.grid_cli import grid as grid
from builders.plan_worlds import F8
from builders.site_commands import site_command as site_command
from hpc.autoscale import clock
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.journal import Journal

IDLE = 301
WITHOUT_HOSTS = {"autoscale": {"scheduler_reports_hosts": False}}


@pytest.fixture
def site(grid):
    """A cluster with two nodes that have had no work for longer than the idle timeout."""
    grid.config |= WITHOUT_HOSTS
    now = clock.use_mock_clock()
    for number in (1, 2):
        grid.cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    grid("autoscale")
    now.sleep(IDLE)
    return grid


@pytest.fixture(autouse=True)
def the_real_clock():
    """It is back after each test."""
    before = clock.use_clock(clock.Clock())
    yield
    clock.use_clock(before)


def test_nothing_to_do(grid):
    """It says so, and the exit code is 0."""
    assert grid("plan").strip() == "Nothing to do. Nodes cost $0.00/h now, $0.00/h after that."


def test_nodes_that_come(grid):
    """How many of what, for which jobs, and for how much; the exit code is 2."""
    grid.scheduler.queue("a", slots=9)
    lines = grid("plan", code=2).splitlines()
    assert lines[0].split() == ["+", "create", "3", "of", "htc/Standard_F4s", "+$0.60/h"]
    assert lines[1] == "    for job a"
    assert lines[-1] == "3 to create. Nodes cost $0.00/h now, $0.60/h after that."
    assert not grid.cluster.nodes


def test_nodes_that_go(site):
    """For how long they were idle, and what would spare them; they are told of once, though they
    are drained first."""
    text = site("plan", code=2)
    lines = text.splitlines()
    assert lines[0].startswith("- delete  htc-1, htc-2 (2 of htc/Standard_F4s)")
    assert lines[0].endswith("-$0.40/h")
    assert "has no work for 5 min; what would spare it: a job that fits it" in lines[1]
    assert "drain" not in text
    assert all(len(line) <= 80 for line in lines)
    assert {node.target_state for node in site.cluster.nodes.values()} == {"Started"}


def test_nodes_are_told_of_by_number(grid):
    """In whatever order they are listed: those that go, and those that stay."""
    grid.config |= WITHOUT_HOSTS
    now = clock.use_mock_clock()
    for number in (8, 10, 2, 9, 1, 7):
        grid.cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    grid("autoscale")
    now.sleep(IDLE)
    assert "- delete  htc-1 … htc-10 (6 of htc/Standard_F4s)" in grid("plan", code=2)
    grid.config["autoscale"] = {**grid.config["autoscale"], "min_lifetime": 10_000}
    assert "htc-1 … htc-10 kept: has been there for 301 of 10000 seconds" in grid("plan")


def test_nodes_that_stay_though_they_are_idle(site):
    """By the guard that spares them."""
    site.scheduler.queue("a", slots=1, **{"node.exists": False})
    assert "htc-1, htc-2 kept: nodes like it are created in the same pass" in site("plan", code=2)


@pytest.mark.parametrize(
    ("policy", "bound"), [("declared", 2), ("cheapest", 0), ("cheapest", 2), ("least-waste", 0)]
)
def test_what_boots_for_one_job_is_not_counted_for_another(site_command, tmp_path, policy, bound):
    """docs/configuration.md: while the nodes of a queue boot, nothing more is to be made for it.
    `bound`: how many cores a first job takes of the node that has room for the second."""
    arrays = {"hpc": {"machine_types": [F8]}, "htc": {"machine_types": [F4]}}
    with a_site(tmp_path, arrays) as simulated:
        simulated.new_jobs = lambda: [
            *[Job("bound", {"ncpus": bound, "nodearray": "htc"}) for _ in range(bound > 0)],
            Job("any", {"ncpus": 2}, iterations=1 if bound else 2),
            Job("whole", {"ncpus": 8, "nodearray": "hpc"}),
        ]
        site_command.serve(simulated, packing={"policy": policy})
        site_command("autoscale")
        assert simulated.made().total() == 2
        assert "create" not in site_command("plan")
        site_command("autoscale")
        assert simulated.made().total() == 0


def test_what_the_scheduler_does_not_know_yet_is_not_counted_for_another_job(
    site_command, tmp_path
):
    """A node that is ready, and of which the scheduler reports no host, can start nothing: work is
    counted on it as while it booted. Where the driver reports no hosts, it is up."""
    arrays = {"hpc": {"machine_types": [F8]}, "htc": {"machine_types": [F4]}}
    with a_site(tmp_path, arrays) as simulated:
        simulated.new_jobs = lambda: [
            Job("bound", {"ncpus": 2, "nodearray": "htc"}),
            Job("any", {"ncpus": 2}),
            Job("whole", {"ncpus": 8, "nodearray": "hpc"}),
        ]
        site_command.serve(simulated)
        site_command("autoscale")
        simulated.wait(1_000)
        plan = site_command("plan")
        assert "hpc-1 (hpc/Standard_F8s_v2)\n    is ready, and the scheduler does not" in plan
        assert "create" not in plan
        site_command.serve(simulated, autoscale={"scheduler_reports_hosts": False})
        assert "+ create  1 of hpc/Standard_F8s_v2" in site_command("plan")


def test_a_damaged_node_history_is_said_by_the_plan_and_by_the_pass(site_command, tmp_path):
    """With what becomes of it, and once: the pass after that has a new one."""
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as simulated:
        site_command.serve(simulated, journal={})
        history = Path(simulated.config["nodehistorydb"])
        site_command("autoscale")
        history.write_text("no history")
        said = f"node history {history} is damaged, or none: it is moved to {history}.unknown"
        assert said.replace(" ", "") in "".join(site_command("plan").split())
        assert history.read_text() == "no history"
        site_command("autoscale")
        assert said in site_command.errors
        assert Path(f"{history}.unknown").read_text() == "no history"
        site_command("autoscale")
        assert "damaged" not in site_command.errors
        notes = [record.did["notes"] for record in Journal(tmp_path / "journal")]
        assert [[said in note for note in each] for each in notes] == [[], [True], []]


def test_the_limit_of_a_whole_cluster(site_command, tmp_path):
    """Two nodearrays together come to no more nodes than the cluster may have, by the plan and by
    the pass that follows; the jobs that are left wait for that limit."""
    sizes = {"machine_types": [F4]}
    with a_site(tmp_path, {"htc": sizes, "more": sizes}, limits={"max_count": 4}) as simulated:
        site_command.serve(simulated)
        wanted = [{"ncpus": 4, "nodearray": name} for name in ("htc", "more") * 3]
        simulated.new_jobs = lambda: [Job(f"j{i}", [wish]) for i, wish in enumerate(wanted)]
        text = site_command("plan")
        assert "+ create  2 of htc/Standard_F4s_v2" in text
        assert "+ create  2 of more/Standard_F4s_v2" in text
        assert "the limit of the cluster (MaxCount) has 4 of 4 nodes" in " ".join(text.split())
        assert site_command("plan", "--out", str(tmp_path / "plan.json")) == text
        site_command("apply", str(tmp_path / "plan.json"))
        assert "4 created" in site_command.errors
        assert len(simulated.names()) == 4
        answer = " ".join(site_command("explain", "j5").split())
        assert "the limit of the cluster (MaxCount) has 4 of 4 nodes in use" in answer
        assert "raise the limit of the cluster (MaxCount) by 2 nodes, to 6" in answer


def test_files_that_only_others_may_read(site_command, tmp_path, monkeypatch):
    """Are named with the reason: they were said to be directories."""

    def refused(path, *more):
        if str(path).endswith("requests.db"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return copy(path, *more)

    copy = shutil.copyfile
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as simulated:
        site_command.serve(simulated)
        simulated.new_jobs = lambda: [Job("a", [{"ncpus": 1}])]
        site_command("autoscale")
        (requests,) = tmp_path.rglob("requests.db")
        requests.write_text("not SQLite's, so that it is copied byte by byte")
        monkeypatch.setattr(shutil, "copyfile", refused)
        for words in (["plan"], ["status"], ["whatif", "--set", "idle_timeout=1"]):
            site_command(*words)
            assert "requests.db: it cannot be read: Permission denied" in site_command.errors


def test_caps_are_told(grid):
    """What is not asked for yet, and why."""
    grid.config["autoscale"] = {"max_new_nodes_per_pass": 2}
    grid.scheduler.queue("a", slots=40)
    text = " ".join(grid("plan", code=2).split())
    assert "+ create 2 of htc/Standard_F4s" in text
    held = "8 of the 10 new nodes are left for the next pass: at most 2 new nodes in one"
    assert f"{held} [MaxNewNodes]" in text
    assert held.replace("new nodes are", "are") in " ".join(grid("explain", "a").split())
    grid.config["autoscale"] = {"max_new_nodes_per_pass": 9}
    text = " ".join(grid("plan", code=2).split())
    assert "1 of the 10 new nodes is left for the next pass: at most 9 new nodes in one" in text


def test_jobs_that_can_never_run_are_counted_apart(site_command, tmp_path):
    """Also among those that are only counted, and by status; a pass, which does not work out all of
    it, does not say that they wait."""
    jobs = {f"big{n}": {f"oddity{n}": 1} for n in range(12)}
    jobs |= {f"wide{n}": {"ncpus": 3 + n} for n in range(2)}
    sizes = {"machine_types": [F4], "max_count": 1}
    with a_site(tmp_path, {"htc": sizes}) as site:
        site_command.serve(site)
        site.new_jobs = lambda: [Job(f"{n}", c, iterations=9) for n, c in jobs.items()]
        planned = " ".join(site_command("plan").split())
        stands = json.loads(site_command("status", "-F", "json"))
        site_command("autoscale")
    assert sum(each["count"] for each in stands["stuck"] if each["never"]) == 12
    assert planned.count("can never run: no node has a resource") == 7
    told = "! 5 jobs (big7, big8, big9, …) can never run: 5 other reasons: azscale explain JOB says"
    assert told in planned and "jobs (wide0, wide1) wait: " in planned
    assert "wait or can never run: 5 other reasons" in " ".join(site_command.errors.split())


def test_jobs_that_wait(grid):
    """For a limit, as soon as it is free."""
    grid.scheduler.queue("a", slots=44)
    text = " ".join(grid("plan", code=2).split())
    assert "! 1 job (a) waits: " in text


def test_a_job_that_can_never_run(grid):
    """The exit code is 3, whatever else there is to do."""
    grid.scheduler.queue("a", slots=1)
    grid.scheduler.queue("b", slots=1, ncpus=1000)
    assert "! 1 job (b) can never run: " in grid("plan", code=3)


def test_json(site):
    """All that is told, as data."""
    site.scheduler.queue("b", slots=1, ncpus=1000)
    found = json.loads(site("plan", "-F", "json", code=3))
    assert [(row["action"], row["node"]) for row in found["changes"]] == [
        ("drain", "htc-1"),
        ("drain", "htc-2"),
        ("delete", "htc-1"),
        ("delete", "htc-2"),
    ]
    assert found["changes"][-1]["idle_seconds"] == IDLE
    assert found["cost_per_hour"]["after"] == {"per_hour": 0.0, "unpriced": 0}
    assert [(row["job"], row["never"]) for row in found["waiting"]] == [("b", True)]


def test_colours_on_a_terminal_alone(grid, monkeypatch):
    """And not where NO_COLOR is set."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    grid.scheduler.queue("a", slots=1)

    def shown() -> str:
        monkeypatch.setattr(sys, "stdout", screen := Terminal())
        grid("plan", code=2)
        return screen.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert shown().startswith("\x1b[32m+ create")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown()


def test_names_of_jobs_act_on_no_terminal(grid):
    """Whatever a user has called them."""
    grid.scheduler.queue("a\x1b[31m\nb", slots=1)
    assert r"for job a\x1b[31m\nb" in grid("plan", code=2)


# -- apply


def planned(site, *options, code=2):
    """The path of a plan as things are now."""
    path = site.home / "plan.json"
    site("plan", "--out", str(path), *options, code=code)
    return str(path)


def test_a_plan_is_carried_out(site):
    """With all that is in it."""
    site.scheduler.queue("a", slots=8, **{"node.vm_size": "Standard_F8s"})
    site.cluster.add_bucket("htc", "Standard_F8s", 10, 10)
    path = planned(site)
    site("apply", path)
    states = {str(node.name): str(node.target_state) for node in site.cluster.nodes.values()}
    assert states == {"htc-1": "Terminated", "htc-2": "Terminated", "htc-3": "Started"}
    assert "1 created" in site.errors


def test_a_plan_is_carried_out_once(site):
    """After that the world is another one."""
    path = planned(site)
    site("apply", path)
    site("apply", path, code=1)
    assert "node htc-1 is " in site.errors
    assert "a pass would not" in site.errors


def test_apply_takes_the_lock(site):
    """As a pass does."""
    path = planned(site)
    lock = site.scheduler.new_singleton_lock({"lock_file": str(site.home / "lock.file")})
    site("apply", path, code=3)
    assert {str(node.target_state) for node in site.cluster.nodes.values()} == {"Started"}
    lock.unlock()
    site("apply", path)
    assert "Terminated" in {str(node.target_state) for node in site.cluster.nodes.values()}


def test_what_is_not_planned_is_not_done(site, monkeypatch):
    """Where the world moves between the last look and the pass itself, the gate stands in the
    way."""
    path = planned(site)
    look, readings = site.scheduler._read_jobs_and_nodes, []

    def read(config):
        readings.append(config)
        if len(readings) == 4:  # the command line, twice the rehearsal, then the pass
            site.scheduler.queue("late", slots=8, **{"node.exists": False})
        return look(config)

    monkeypatch.setattr(site.scheduler, "_read_jobs_and_nodes", read)
    site("apply", path, code=0)
    assert len(readings) >= 5
    assert {str(node.name) for node in site.cluster.nodes.values()} == {"htc-1", "htc-2"}
    assert "NotPlanned" in site.errors


def changed_node(site, **values):
    """The first node is as given, by the server."""
    for name, value in values.items():
        setattr(site.cluster.nodes["htc-1"], name, value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda site: site.cluster.nodes.pop("htc-1"), "node htc-1 is gone"),
        (lambda site: site.config.update(idle_timeout=1000), "the configuration has changed"),
        (lambda site: site.scheduler.queue("x", slots=8), "job x is new"),
        (
            lambda site: changed_node(site, state="Failed", keep_alive=True),
            "node htc-1 is in state Failed now, and was in state Ready, and is to be kept alive"
            " now: ",
        ),
        (
            lambda site: changed_node(site, keep_alive=True),
            "node htc-1 is to be kept alive now: ",
        ),
    ],
)
def test_a_world_that_has_moved(site, change, said):
    """It is said what has changed, in one line, and nothing is done."""
    path = planned(site)
    change(site)
    before = {str(n.name): str(n.target_state) for n in site.cluster.nodes.values()}
    site("apply", path, code=1)
    assert said in site.errors
    assert "nothing was changed" in site.errors
    assert len(site.errors.splitlines()) == 1
    assert {str(n.name): str(n.target_state) for n in site.cluster.nodes.values()} == before


def test_a_job_that_has_ended(grid):
    """Its node is not needed any more."""
    grid.scheduler.queue("a", slots=4)
    path = planned(grid)
    grid.scheduler.jobs.clear()
    grid("apply", path, code=1)
    assert "job a has ended: a pass would not create 1 of htc/Standard_F4s" in grid.errors


def test_a_limit_that_has_changed(grid):
    """With both values."""
    grid.scheduler.queue("a", slots=40)
    path = planned(grid)
    array = grid.cluster.get_cluster_status().nodearrays[0]
    array.buckets[0].max_count = array.buckets[0].available_count = 3
    grid("apply", path, code=1)
    assert "the limit htc/Standard_F4s max_count was 10 and is 3" in grid.errors


def test_what_has_changed_and_does_not_matter(site):
    """A job for which there is room on a node that stays."""
    site.cluster.add_node("htc-3", "htc", state="Ready", hostname="host-3", keep_alive=True)
    path = planned(site)
    site.scheduler.queue("small", slots=1, **{"node.name": "htc-3"})
    site("apply", path)
    assert site.cluster.nodes["htc-1"].target_state == "Terminated"


def test_a_node_that_has_become_ready_since(grid):
    """It is joined, as in any pass, and the plan is carried out: the same is decided. When it had
    been joined by a pass meanwhile, nothing is left undone either."""
    grid.scheduler.queue("a", slots=4, **{"node.name": "htc-1"})
    grid.cluster.add_node("htc-1", "htc", state="Preparing", hostname="host-1")
    grid.scheduler.queue("b", slots=4)
    path = planned(grid)
    grid.cluster.nodes["htc-1"].state = "Ready"
    grid("apply", path)
    assert sorted(map(str, grid.cluster.nodes)) == ["htc-1", "htc-2"]
    assert "1 created" in grid.errors
    assert "htc-1" in str(grid.scheduler.joined[-1])


def test_a_node_that_was_joined_since(grid):
    """By a pass, say: of a plan to join it nothing is left to do."""
    grid.cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1", keep_alive=True)
    path = planned(grid)
    grid.scheduler.hosts = [SchedulerNode("host-1", {"ncpus": 4})]
    grid("apply", path)
    assert grid.errors.startswith("0 jobs")


def test_a_node_that_has_booted_on_is_no_reason(grid):
    """What has changed beside it and matters is said first."""
    grid.cluster.add_node("htc-1", "htc", state="Acquiring", hostname="host-1", keep_alive=True)
    grid.scheduler.queue("a", slots=8, **{"node.exists": False})
    path = planned(grid)
    grid.cluster.nodes["htc-1"].state = "Preparing"
    grid.scheduler.jobs.clear()
    grid("apply", path, code=1)
    said = grid.errors.partition("nothing was changed: ")[2]
    assert said.startswith("job a has ended, node htc-1 is in state Preparing now")


@pytest.mark.parametrize(("at_first", "then"), [(1e-9, 60), (60, 1e-9)])
def test_a_search_that_time_has_ended(grid, at_first, then):
    """`plan` says that a pass may find other nodes at the least cost. `apply` goes just as far,
    whatever time there is by then: it makes the nodes of the plan."""
    sizes = ("Standard_F4s", "Standard_F8s", "Standard_F16s")
    for size in sizes[1:]:
        grid.cluster.add_bucket("htc", size, 300, 300)
    grid.config["vm_sizes"] = {"prices": {"*": dict(zip(sizes, (0.25, 0.36, 0.8), strict=True))}}
    draw = random.Random(0)
    for number in range(40):
        grid.scheduler.queue(f"j{number}", slots=draw.randint(1, 5), ncpus=draw.randint(1, 7))

    def found(seconds):
        grid.config["packing"] = {"objective": "cost", "optimize_seconds": seconds}
        rows = json.loads(grid("plan", "-F", "json", code=2))["changes"]
        return Counter({row["bucket"]: row["count"] for row in rows})

    assert found(at_first) != found(then)
    expected = found(at_first)
    path = str(grid.home / "plan.json")
    said = " ".join(grid("plan", "--out", path, code=2).split())
    assert ("the search for nodes ended with its time" in said) == (at_first < 1)
    found(then)
    grid("apply", path)
    made = Counter(f"htc/{node.vm_size}" for node in grid.cluster.nodes.values())
    assert made == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such file"),
        ("{", "expected JSON"),
        ('{"changes": []}', "expected what `azscale plan --out` writes"),
        ('{"format": "azscale plan", "version": 99}', "expected a plan of version 1, found 99"),
        ('{"format": "azscale plan", "version": 1}', "it was changed since it was written"),
    ],
)
def test_what_is_no_plan(grid, text, said):
    """It is said in one line."""
    path = grid.home / "plan.json"
    if text is not None:
        path.write_text(text)
    grid("apply", str(path), code=1)
    assert said in grid.errors
    assert len(grid.errors.splitlines()) == 1


def test_a_plan_that_somebody_has_changed(site):
    """It is not what was looked at."""
    path = planned(site)
    saved = json.loads((site.home / "plan.json").read_text())
    saved["made_from"]["jobs"]["other"] = "1 slots"
    (site.home / "plan.json").write_text(json.dumps(saved))
    site("apply", path, code=1)
    assert "make it again (its checksum is another)" in site.errors
    assert "Error(" not in site.errors


@pytest.mark.parametrize(
    "change",
    [
        lambda saved: saved["changes"][0].update(count=2),
        lambda saved: saved["changes"][0].update(reason="because"),
        lambda saved: saved["changes"].pop(),
        lambda saved: saved.update(cluster="cluster other"),
        lambda saved: saved.update(at=0.5),
        lambda saved: saved["cost_per_hour"]["after"].update(per_hour=0.01),
        lambda saved: saved.pop("checksum"),
        lambda saved: saved["changes"].append(5),
        lambda saved: saved["changes"][0].update(count=0),
        lambda saved: saved["changes"][0].update(action=None),
    ],
)
def test_a_plan_of_which_any_part_was_changed(site, change):
    """Is not carried out, and the reason is not looked for in the cluster."""
    path = planned(site)
    saved = json.loads((site.home / "plan.json").read_text())
    change(saved)
    (site.home / "plan.json").write_text(json.dumps(saved))
    site("apply", path, code=1)
    assert "it was changed since it was written, or is damaged: make it again" in site.errors
    assert len(site.errors.splitlines()) == 1


def test_a_plan_that_was_cut_off(site):
    """Wherever that was."""
    path = planned(site)
    text = (site.home / "plan.json").read_text()
    for end in (0, 1, len(text) // 2, len(text) - 3):
        (site.home / "plan.json").write_text(text[:end])
        site("apply", path, code=1)
        found = "JSON that was cut off at line" if end else "an empty file"
        assert f"expected JSON, found {found}" in site.errors
        assert "char" not in site.errors and "Expecting" not in site.errors
    (site.home / "plan.json").write_bytes(b"\xff\xfe garbage")
    site("apply", path, code=1)
    assert "expected JSON, found" in site.errors


def test_a_plan_on_stdin(site, monkeypatch):
    """As `plan -F json` prints it."""
    text = site("plan", "-F", "json", code=2)
    (site.home / "plan.json").write_text(text)
    with open(site.home / "plan.json") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        site("apply", "-")
    assert site.cluster.nodes["htc-1"].target_state == "Terminated"


def test_where_a_plan_is_written(site):
    """Devices and links stay what they are; `-` is no file."""
    (site.home / "real.json").write_text("")
    (site.home / "link.json").symlink_to("real.json")
    for path in ("/dev/null", str(site.home / "link.json")):
        site("plan", "--out", path, code=2)
    assert json.loads((site.home / "real.json").read_text())["format"] == "azscale plan"
    site("plan", "--out", "-", code=1)
    assert "-F json prints the plan as JSON" in site.errors
    site("plan", "--out", str(site.home), code=1)
    assert "it cannot be written" in site.errors


def test_a_plan_of_another_cluster(site):
    """Both are named."""
    path = planned(site)
    site.config["cluster_name"] = "other"
    site.cluster.cluster_name_ = "other"
    site.cluster.__class__ = type(
        "Other", (type(site.cluster),), {"cluster_name": property(lambda self: "other")}
    )
    site("apply", path, code=1)
    said = "it is for cluster clusty, this configuration is of cluster other"
    assert said in site.errors and "nothing was changed" in site.errors


def test_what_goes_wrong_over_http_is_said_in_words(site_command, tmp_path):
    """A plan that was carried out before, and one of another cluster, whose server is not asked."""
    path = str(tmp_path / "plan.json")
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as site:
        site.config |= WITHOUT_HOSTS
        site.want(1)
        site.run()
        site.new_jobs = list
        site.wait(60)
        site.run()
        site.wait(IDLE)
        site_command.serve(site)
        assert "- delete  htc-1" in site_command("plan", "--out", path)
        site_command("apply", path)
        site_command("apply", path)
        now = "in state Terminating with target state Terminated now"
        was = "in state Ready with target state Started"
        assert f"node htc-1 is {now}, and was {was}: " in site_command.errors
        site_command.serve(site, cluster_name="second", url="http://127.0.0.1:1")
        site_command("apply", path)
        here = "this configuration is of cluster second at http://127.0.0.1:1"
        there = f"cluster c at {site.config['url']}"
        assert f"it is for {there}, {here}" in site_command.errors


def test_an_old_plan(site):
    """Is carried out where the next pass would still do the same."""
    path = planned(site)
    clock.sleep(600)
    site("apply", path)
    assert site.cluster.nodes["htc-1"].target_state == "Terminated"


def test_work_that_has_begun(site):
    """On a host: no job is new in the queue, and none is gone."""
    site.scheduler.hosts = [SchedulerNode(f"host-{number}", {"ncpus": 4}) for number in (1, 2)]
    path = planned(site)
    site.scheduler.hosts[0].assign("running")
    site("apply", path, code=1)
    assert "host host-1 has 1 job now, and had 0 jobs: a pass would not" in site.errors
