"""What a driver's hooks answer: garbage is one line that names driver, hook and expectation, before
anything is done with it."""

import asyncio
import copy
import signal
from functools import partial
from types import SimpleNamespace

import pytest

from builders.fake_scheduler import FakeScheduler, cluster, idle_cluster, now, run, scheduler
from builders.grid_cli import GridCLI
from hpc.autoscale.autoscaler import Autoscaler, Reporter, hooks
from hpc.autoscale.autoscaler.faults import Faults, HookError
from hpc.autoscale.clock import MockClock
from hpc.autoscale.errors import AutoscaleError, one_line_and_where
from hpc.autoscale.hpctypes import Memory
from hpc.autoscale.testing import a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures


class Garbled:
    """Its repr has two lines, and fails after that."""

    said = 0

    def __repr__(self):
        self.said += 1
        if self.said > 1:
            raise ValueError("no repr")
        return "two\nlines"


CONFIG = "the configuration, a dict,"
READING = "a list of jobs and a list of SchedulerNodes"
ARRAYS = "a list of nodearray definitions"
GARBAGE = [
    *[("preprocess_config", CONFIG, answer) for answer in (None, [], "config")],
    *[("new_singleton_lock", "a SingletonLock that is held", answer) for answer in (None, True)],
    *[("new_node_history", "a NodeHistory", answer) for answer in (None, "nodehistory.db")],
    *[("new_node_queue", "a NodeQueue", answer) for answer in (None, [])],
    *[("wanted_arrays", ARRAYS, answer) for answer in (None, {"Name": "htc"}, "htc", [None], 7)],
    *[
        ("read_jobs_and_nodes", READING, answer)
        for answer in (
            None,
            [],
            "ab",
            ([], [], []),
            ([], None),
            (None, []),
            ([], {}),
            ("jobs", []),
            ([], ["host-1"]),
            (iter([a_job()]), []),
            (7, 7),
            Garbled(),
        )
    ],
]


@pytest.mark.parametrize(("hook", "wanted", "answer"), GARBAGE)
def test_garbage_ends_a_pass_before_anything_is_changed(
    run, scheduler, cluster, now, hook, wanted, answer
):
    """In one line."""
    idle_cluster(cluster, run, now)
    before = {name: node.target_state for name, node in cluster.nodes.items()}
    scheduler.jobs = [a_job(tasks=40)]
    setattr(scheduler, hook, answering(hook, answer))
    with pytest.raises(HookError) as raised:
        run()
    said = str(raised.value)
    start = f"FakeScheduler(fake).{hook}: expected {wanted} to be returned, found "
    assert said.startswith(start)
    assert "\n" not in said and len(said) < 300
    assert {name: node.target_state for name, node in cluster.nodes.items()} == before


def answering(hook, answer):
    """A method of the scheduler that answers this."""

    def method(self, *args):
        return answer

    method.__name__ = hook
    return method.__get__(FakeScheduler())


def test_a_lock_that_is_none_is_found_out_before_the_pass(run, scheduler):
    """Not after it, when it is to be given back."""
    scheduler.new_singleton_lock = lambda config: None
    with pytest.raises(HookError, match="expected a SingletonLock that is held"):
        run()
    assert "read" not in scheduler.calls


ENDING_A_PASS = [
    *("initialize", "preprocess_config", "preprocess_node_mgr", "validate_nodes", "reading_stamp"),
    *("new_node_queue", "new_node_history", "new_singleton_lock"),
]


@pytest.mark.parametrize("hook", ENDING_A_PASS)
def test_what_a_hook_of_the_start_raises_names_it(run, scheduler, monkeypatch, hook):
    """KeyError alone would tell nobody where to look."""

    def method(self, *args):
        raise KeyError("slots")

    method.__name__ = hook
    monkeypatch.setattr(type(scheduler), hook, method)
    with pytest.raises(KeyError) as raised:
        run()
    assert one_line_and_where(raised.value) == f"FakeScheduler(fake).{hook}: KeyError: 'slots'"


def test_what_a_hook_with_nodes_raises_names_it(run, scheduler):
    """In the summary, which nothing else says; one that says what is wrong is told as it is."""
    scheduler.jobs = [a_job(tasks=99)]
    scheduler.failing["add_nodes_to_cluster"] = KeyError("slots")
    scheduler.failing["explain_job"] = KeyError("id")
    summary = run()
    (error,) = summary.errors
    assert (
        str(error) == "joining nodes: FakeScheduler(fake).add_nodes_to_cluster: KeyError: 'slots'"
    )
    (note,) = (note for note in summary.notes if note.startswith("telling"))
    assert note.endswith(": FakeScheduler(fake).explain_job: KeyError: 'id'")
    scheduler.failing["add_nodes_to_cluster"] = RuntimeError("no licence")
    assert str(run().errors[0]) == "joining nodes: no licence"


@pytest.mark.parametrize("answer", [None, "", 7, Garbled()])
def test_a_name_of_a_job_that_is_none_names_the_hook(scheduler, monkeypatch, answer):
    """And a driver that says nothing of it has the name that users have."""
    assert hooks.name_of_job(scheduler, "17") == "17"
    monkeypatch.setattr(scheduler, "name_of_job", lambda name: answer, raising=False)
    with pytest.raises(HookError, match="expected the name of a job to be returned, found"):
        hooks.name_of_job(scheduler, "17")


def test_hosts_that_are_listed_twice_are_a_note(run, scheduler):
    """Only one entry is looked at, so work may wait for room that is not there."""
    scheduler.hosts = [a_host("rack-1"), a_host("rack-1.site"), a_host("rack-2")]
    (note,) = run().notes
    assert note.startswith("FakeScheduler(fake).read_jobs_and_nodes: expected each host once, ")
    assert "found rack-1 more than once" in note


def test_what_is_no_amount_where_nodes_have_one_is_a_note(run, scheduler):
    """No job fits on such a host, and nodes would be made in its place again and again."""
    scheduler.hosts = [
        a_host("rack-1", ncpus="4", ccnodeid="id", queue="long"),
        a_host("rack-2", ncpus="4", memgb="8gb"),
        a_host("rack-3", ncpus=4, memmb=Memory(8, "g")),
        a_host("rack-4", memtb=["8"], row=7),
        a_host("rack-5", row="left"),
    ]
    cores, memory, other = run().notes
    assert "memtb of a host" in other and "found ['8'] for rack-4" in other
    reading = "FakeScheduler(fake).read_jobs_and_nodes: expected"
    assert cores == (
        f"{reading} ncpus of a host to be a number or a size, as nodes have it, found '4' for"
        " rack-1, rack-2: no work that asks for an amount of it fits there"
    )
    assert memory.startswith(f"{reading} memgb of a host")
    assert "found '8gb' for rack-2" in memory


def test_hosts_of_one_name_that_are_different_nodes_are_no_note(run, scheduler):
    """A name is used again while the old host is still known."""
    scheduler.hosts = [
        a_host("rack-1", ccnodeid="4f00"),
        a_host("rack-1", ccnodeid="5a00"),
    ]
    assert not run().notes


def test_what_validate_nodes_leaves_is_checked(run, scheduler):
    """Only nodes can be told from others."""
    scheduler.validate_nodes = lambda hosts, nodes: hosts.append(None)
    with pytest.raises(HookError, match="expected a list of SchedulerNodes to be left, found None"):
        run()
    scheduler.hosts = []
    scheduler.validate_nodes = lambda hosts, nodes: nodes.append(None)
    assert run().ok


@pytest.mark.parametrize("driver", [lambda: None, lambda: FakeScheduler, "fake"])
def test_something_else_than_a_driver(cluster, driver):
    """Is an error for whoever starts the loop."""
    with pytest.raises(HookError, match="expected a SchedulerDriver for the loop, found"):
        Autoscaler({"cluster_name": "clusty", "_mock_bindings": cluster}, driver)


NODE_HOOKS = [
    "handle_failed_nodes",
    "add_nodes_to_cluster",
    "handle_post_join_cluster",
    "handle_boot_timeout",
    "handle_draining",
    "handle_post_delete",
]


def test_a_host_that_the_scheduler_calls_otherwise(run, scheduler, cluster):
    """It is its node by the id. Hooks, and jobs that name a host, go by CycleCloud's host name."""
    node = cluster.add_node("htc-1", "htc", state="Ready", hostname="ip-0a010002")
    its = {"ncpus": 4, "ccnodeid": node.delayed_node_id.node_id}
    joined = []
    scheduler.add_nodes_to_cluster = lambda nodes, *_: joined.extend(nodes) or nodes
    scheduler.hosts = [a_host("slurm-1", "41", **its)]
    scheduler.jobs = [
        a_job("42", {"node.hostname": "ip-0a010002", "ncpus": 1}),
        a_job("43", {"node.hostname": "slurm-1", "ncpus": 1}),
    ]
    assert [job.name for job in run().unsatisfied] == ["43"]
    (node,) = joined
    assert (node.hostname, node.assignments) == ("ip-0a010002", {"41", "42"})


@pytest.fixture
def all_hooks(run, scheduler, cluster, now):
    """A pass in which every hook is given nodes."""
    cluster.add_node("htc-9", "htc", state="Preparing", hostname="host-9")
    scheduler.answers = {"handle_draining": [], "handle_boot_timeout": []}
    idle_cluster(cluster, run, now, count=2)
    for _ in range(3):
        run(boot_timeout=900)
        now.sleep(301)
    cluster.add_node("htc-8", "htc", state="Failed", hostname="host-8")
    scheduler.answers.clear()
    return lambda: run(boot_timeout=900)


def test_every_hook_is_given_nodes(all_hooks, scheduler):
    """Otherwise the tests below would show nothing."""
    summary = all_hooks()
    assert summary.deleted == ("htc-1", "htc-2", "htc-8", "htc-9")
    assert [hook for hook in NODE_HOOKS if not scheduler.given[hook]] == []


@pytest.mark.parametrize("hook", NODE_HOOKS)
@pytest.mark.parametrize("answer", [True, "htc-1", {"htc-1": 1}, ["htc-1"], [None], 7])
def test_garbage_for_nodes(all_hooks, scheduler, hook, answer):
    """The error is in the summary, the rest of the pass is done."""
    scheduler.answers[hook] = answer
    (error,) = all_hooks().errors
    said = f"FakeScheduler(fake).{hook}: expected a list of nodes to be returned, found "
    assert error.message.startswith(said)


@pytest.mark.parametrize("hook", NODE_HOOKS)
def test_none_for_nodes(all_hooks, scheduler, hook):
    """Stands for no nodes, and a note says so: many drivers return nothing where nobody asked."""
    scheduler.answers[hook] = None
    summary = all_hooks()
    assert summary.ok
    said = f"FakeScheduler(fake).{hook}: expected a list of nodes to be returned, found None"
    assert [note for note in summary.notes if note.startswith(said)] == list(summary.notes)
    assert len(summary.notes) == 1


@pytest.mark.parametrize("hook", ["handle_failed_nodes", "handle_draining"])
def test_nodes_that_a_hook_was_not_given_are_left_alone(
    all_hooks, run, scheduler, cluster, hook, monkeypatch
):
    """Nobody chose them, and nobody drained them."""
    cluster.add_node("htc-5", "htc", state="Ready", hostname="host-5")
    known = {}

    def note(nodes):
        known.update({node.name: node for node in nodes})
        return nodes

    monkeypatch.setattr(scheduler, "add_nodes_to_cluster", note)
    run(dry_run=False, boot_timeout=900, idle_timeout=9000)
    more = lambda nodes: [*nodes, known["htc-5"]] if nodes else []  # noqa: E731
    more.__name__ = hook
    monkeypatch.setattr(scheduler, hook, more)
    cluster.add_node("htc-6", "htc", state="Failed", hostname="host-6")
    summary = all_hooks()
    assert "htc-5" not in summary.deleted
    (said,) = summary.notes
    assert "expected nodes of those that were given to be returned, found htc-5" in said


def test_a_copy_of_a_node_stands_for_it(run, scheduler, cluster, now):
    """Drivers have returned such."""
    idle_cluster(cluster, run, now)
    scheduler.handle_draining = lambda nodes: [copy.copy(node) for node in nodes]
    summary = run()
    assert (len(summary.deleted), summary.notes) == (3, ())


@pytest.mark.parametrize("home", [None, 7, b"/tmp", ""])
def test_a_directory_that_is_no_path_is_named(cluster, scheduler, monkeypatch, home):
    """Before anything is looked for there."""
    monkeypatch.setattr(FakeScheduler, "autoscale_home", home)
    loop = Autoscaler({"cluster_name": "clusty", "_mock_bindings": cluster}, scheduler)
    said = r"FakeScheduler\.autoscale_home: expected the path of a directory, found "
    with pytest.raises(AutoscaleError, match=said):
        loop.run_once()
    with pytest.raises(AutoscaleError, match=said):
        GridCLI(scheduler, cluster).jobs({"cluster_name": "clusty", "_mock_bindings": cluster})


def test_commands_say_the_same(cluster, scheduler):
    """A line, and not a traceback."""

    scheduler.read_jobs_and_nodes = answering("read_jobs_and_nodes", None)
    cli = GridCLI(scheduler, cluster)
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    said = r"\.read_jobs_and_nodes: expected a list of jobs and"
    with pytest.raises(AutoscaleError, match=said):
        cli.jobs(config)
    scheduler.preprocess_config = answering("preprocess_config", None)
    with pytest.raises(AutoscaleError, match="preprocess_config: expected the configuration"):
        cli.jobs(config)


# -- the same answer, made into new objects


class Numbered(FakeScheduler):
    """It makes objects anew of what it is handed, and knows the number of that."""

    def __init__(self):
        super().__init__()
        self.number = 0

    def _read_jobs_and_nodes(self, config):
        jobs, hosts = super()._read_jobs_and_nodes(config)
        return [a_job(job.name) for job in jobs], [a_host(host.hostname) for host in hosts]

    def reading_stamp(self):
        return self.number


def test_an_answer_of_the_pass_before_is_found_out_by_its_stamp(cluster, now):
    """Nothing is created or deleted, until there is another."""
    driver = Numbered()
    autoscaler = Autoscaler({"cluster_name": "clusty", "_mock_bindings": cluster}, driver)
    driver.jobs = [a_job("first")]
    autoscaler.run_once()
    driver.jobs = [a_job("first"), a_job("second", tasks=8)]
    for _ in range(2):
        with pytest.raises(AutoscaleError, match="found the same reading_stamp, 0, as in the pass"):
            autoscaler.run_once()
    driver.number += 1
    assert autoscaler.run_once().ok


def test_an_answer_of_the_first_look_is_no_second_one(cluster, run, now):
    """Another driver is asked, and where it knows no other answer nothing is deleted."""
    idle_cluster(cluster, run, now)
    no_hosts = {"scheduler_reports_hosts": False}
    config = {"cluster_name": "clusty", "_mock_bindings": cluster, "autoscale": no_hosts}
    summary = Autoscaler(config, Numbered).run_once()
    assert (len(summary.drained), summary.deleted) == (3, ())
    assert "found the same reading_stamp, 0, as at the start of the pass" in str(summary.errors[0])
    numbers = iter(range(1, 9))

    class Counting(Numbered):
        def _read_jobs_and_nodes(self, config):
            self.number = next(numbers)
            return super()._read_jobs_and_nodes(config)

    assert len(Autoscaler(config, Counting).run_once().deleted) == 3


def exits(code, *_):
    """As a driver may, or a handler of signals."""
    raise SystemExit(code)


class Exits:
    """The same as an object."""

    def __call__(self, *_):
        raise SystemExit(143)

    def on_signal(self, *_):
        """As a method."""
        raise SystemExit(143)


def test_a_hook_that_calls_exit():
    """Is an error of the pass, which goes on."""
    faults = Faults()
    driver = SimpleNamespace(add_nodes_to_cluster=partial(exits, 3))
    assert faults.nodes("joining nodes", driver, "add_nodes_to_cluster", []) == []
    (error,) = map(str, faults.found)
    assert error.endswith("it called sys.exit(3)")


def exits_later(nodes):
    """A generator, whose code runs once somebody wants to know what is in it."""
    exits(3)
    yield from nodes


@pytest.mark.parametrize("recorded", [{}, {"journal": {}}])
def test_a_generator_that_calls_exit(run, scheduler, recorded):
    """Is the same, whether a journal is written or not."""
    scheduler.jobs = [a_job("1", tasks=1)]
    scheduler.add_nodes_to_cluster = exits_later
    (error,) = map(str, run(**recorded).errors)
    assert error.endswith(".add_nodes_to_cluster: it called sys.exit(3)")


@pytest.mark.parametrize("ended", [asyncio.CancelledError(), GeneratorExit("closed")])
@pytest.mark.parametrize("hook", ["read", "validate_nodes", "add_nodes_to_cluster"])
def test_what_ends_a_coroutine_ends_no_loop(cluster, scheduler, hook, ended):
    """Let out of a hook it is an error like others: it was for whoever runs the coroutine."""
    scheduler.failing[hook] = ended
    scheduler.jobs = [a_job("1", tasks=1)]
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    said = []

    class Told(Reporter):
        def pass_finished(self, summary):
            said.extend(map(str, summary.errors))

        def pass_failed(self, error, failures, pause):
            said.append(str(error))

    loop = Autoscaler(config, scheduler, clock=MockClock(), reporter=Told())
    turns = iter([False, False, True])
    assert loop.run_forever(15, should_stop=lambda: next(turns, True)) >= 1
    assert type(ended).__name__ in said[0]


@pytest.mark.parametrize("ended", [KeyboardInterrupt, type("Killed", (BaseException,), {})])
def test_what_is_for_the_process_ends_the_loop(cluster, scheduler, ended):
    """Ctrl-C, and whatever ends the green thread that the loop runs in."""
    scheduler.failing["read"] = ended()
    config = {"cluster_name": "clusty", "_mock_bindings": cluster}
    with pytest.raises(ended):
        Autoscaler(config, scheduler, clock=MockClock()).run_forever(15)


@pytest.mark.parametrize(
    "handler",
    [lambda *_: exits(143), partial(exits, 143), Exits(), Exits().on_signal],
    ids=["function", "partial", "object", "method"],
)
def test_a_signal_ends_a_hook(handler):
    """Whoever handles it by `sys.exit`, as programs do that have a loop in them."""
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(SystemExit) as ended:
            driver = SimpleNamespace(hook=lambda _: signal.raise_signal(signal.SIGUSR1))
            Faults().nodes("joining nodes", driver, "hook", [])
        assert ended.value.code == 143
    finally:
        signal.signal(signal.SIGUSR1, before)
