"""The scheduler in virtual time: order of arrival, backfill that delays nobody, hosts that go."""

from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc.autoscale.traces.arriving import Arrivals
from hpc.autoscale.traces.asking import Uses, not_looked_at
from hpc.autoscale.traces.scheduling import Scheduler, Task, TraceHost, task_of
from hpc.autoscale.traces.workload import TraceJob


def job(name: str, at: float, seconds: float, cores: int, asked: float | None = None) -> TraceJob:
    return TraceJob(name, at, seconds, cores, requested_seconds=asked)


class Machine:
    """A scheduler with hosts that are there from the start, and its time."""

    def __init__(self, policy: str, hosts: int, cores: int = 1) -> None:
        self.now = 0.0
        self.cores = cores
        self.scheduler = Scheduler(lambda: self.now, policy)
        for number in range(hosts):
            self.scheduler.join(f"id-{number}", f"host-{number}", cores)

    def play(self, jobs: list[TraceJob]) -> list[Task]:
        """Let all jobs come and end."""
        tasks = [task_of(n, each, self.cores) for n, each in enumerate(jobs)]
        come = list(tasks)
        while come or self.scheduler.running or self.scheduler.waiting:
            end = self.scheduler.next_end()
            times = [come[0].job.submitted] if come else []
            self.now = min([*times, *([] if end is None else [end])])
            self.scheduler.end_jobs()
            now = [task for task in come if task.job.submitted <= self.now]
            come = come[len(now) :]
            if now:
                self.scheduler.submit(now)
            self.check()
        return tasks

    def check(self) -> None:
        """No host has more work than cores."""
        for host in self.scheduler.hosts.values():
            taken = sum(run.task.cores for run in host.runs.values())
            assert host.free == host.cores - taken >= 0


def starts(tasks: list[Task]) -> dict[str, float | None]:
    return {task.job.name: task.started for task in tasks}


QUEUE = [
    job("long", 0, 100, 3),
    job("wide", 1, 10, 4),
    job("short", 2, 90, 1),
    job("slow", 3, 200, 1),
]


def test_fcfs_lets_nobody_go_ahead() -> None:
    assert starts(Machine("fcfs", 4).play(QUEUE)) == {
        "long": 0,
        "wide": 100,
        "short": 110,
        "slow": 110,
    }


def test_easy_lets_those_go_ahead_who_delay_nobody() -> None:
    assert starts(Machine("easy", 4).play(QUEUE)) == {
        "long": 0,
        "wide": 100,
        "short": 2,
        "slow": 110,
    }


def test_easy_lets_long_jobs_use_what_the_first_one_does_not_need() -> None:
    queue = [job("a", 0, 100, 3), job("first", 1, 10, 4), job("endless", 2, 999, 1)]
    assert starts(Machine("easy", 5).play(queue))["endless"] == 2


def test_easy_goes_by_what_users_ask_for() -> None:
    queue = [job("a", 0, 100, 3), job("first", 1, 10, 4), job("b", 2, 50, 1, asked=500)]
    assert starts(Machine("easy", 4).play(queue))["b"] == 110


def test_a_job_is_spread_over_as_few_hosts_as_will_do() -> None:
    assert (
        task_of(0, job("x", 0, 1, 20), 16).hosts_wanted,
        task_of(0, job("x", 0, 1, 20), 16).cores,
    ) == (
        2,
        10,
    )
    assert task_of(0, TraceJob("x", 0, 1, 8, nodes=4), 16).cores == 2
    assert task_of(0, job("x", 0, 1, 1), 16).hosts_wanted == 1


def test_the_fullest_host_that_has_room_is_taken() -> None:
    machine = Machine("easy", 2, cores=4)
    tasks = machine.play([job("a", 0, 100, 3), job("b", 1, 100, 1), job("c", 2, 10, 4)])
    assert starts(tasks)["c"] == 2


def test_what_ran_on_a_lost_host_starts_again_before_those_that_came_later() -> None:
    machine = Machine("easy", 2)
    tasks = [task_of(n, job(str(n), 0, 100, 1), 1) for n in range(3)]
    machine.scheduler.submit(tasks)
    machine.now = 40.0
    machine.scheduler.host_lost("id-0")
    assert list(machine.scheduler.waiting) == [0, 2] and tasks[0].lost == 1
    assert tasks[0].lost_core_seconds == 40.0 and tasks[0].started is None
    machine.now = 100.0
    machine.scheduler.end_jobs()
    assert tasks[0].started == 100.0 and tasks[2].started is None


def test_a_job_on_several_hosts_frees_the_others_when_one_is_lost() -> None:
    machine = Machine("easy", 3)
    (wide,) = tasks = [task_of(0, job("w", 0, 100, 3), 1)]
    machine.scheduler.submit(tasks)
    machine.scheduler.host_lost("id-1")
    assert all(host.free == 1 and not host.runs for host in machine.scheduler.hosts.values())
    machine.scheduler.join("id-9", "host-9", 1)
    machine.scheduler.dispatch()
    assert wide.started == 0.0 and wide.lost == 1


def test_a_drained_host_gets_no_work_until_it_joins_again() -> None:
    machine = Machine("easy", 1)
    assert machine.scheduler.drain("id-0")
    task = task_of(0, job("a", 0, 10, 1), 1)
    machine.scheduler.submit([task])
    assert task.started is None
    machine.scheduler.join("id-0", "host-0", 1)
    machine.scheduler.dispatch()
    assert task.started == 0.0 and not machine.scheduler.drain("id-0")


@pytest.mark.parametrize("policy", ["easy", "fcfs"])
def test_nothing_is_promised_while_hosts_boot_and_others_may_run(policy: str) -> None:
    machine = Machine(policy, 1)
    wide, narrow = task_of(0, job("w", 0, 10, 2), 1), task_of(1, job("n", 0, 999, 1), 1)
    machine.scheduler.submit([wide, narrow])
    assert narrow.started == (0.0 if policy == "easy" else None)


JOBS = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 120),
        st.integers(1, 12),
        st.sampled_from([1, 2, 5]),
    ),
    max_size=40,
)


def drawn(rows: list[tuple[int, int, int, int]]) -> list[TraceJob]:
    return [
        job(str(n), at, run, width, asked=run * more)
        for n, (at, run, width, more) in enumerate(sorted(rows))
    ]


class Watched(Scheduler):
    """Keeps the first promise to each job."""

    promises: dict[int, float]

    def _promise(self, head: Task) -> tuple[float, set[TraceHost]]:
        when, hosts = super()._promise(head)
        self.promises.setdefault(head.number, when)
        return when, hosts


@given(rows=JOBS, cores=st.sampled_from([1, 3, 4]))
def test_no_job_starts_later_than_it_was_promised(
    rows: list[tuple[int, int, int, int]], cores: int
) -> None:
    machine = Machine("easy", ceil(12 / cores), cores)
    hosts = machine.scheduler.hosts
    machine.scheduler = watched = Watched(lambda: machine.now, "easy")
    watched.promises = {}
    for host in hosts.values():
        watched.join(host.node_id, host.hostname, host.cores)
    tasks = machine.play(drawn(rows))
    for number, promised in watched.promises.items():
        started = tasks[number].started
        assert started is not None and started <= promised


@given(rows=JOBS)
def test_fcfs_is_what_anybody_would_work_out_by_hand(rows: list[tuple[int, int, int, int]]) -> None:
    jobs = drawn(rows)
    free_at = [0.0] * 12
    expected, before = {}, 0.0
    for each in jobs:
        free_at.sort()
        start = max(before, each.submitted, free_at[each.cores - 1])
        free_at[: each.cores] = [start + each.seconds] * each.cores
        expected[each.name] = before = start
    assert starts(Machine("fcfs", 12).play(jobs)) == expected


# -- what else jobs ask for


EVERYTHING = Uses(memory=True, gpus=True, queues={"q": "large"})


def asking(number: int, **more: Any) -> Task:
    """A job of one core for 10 s."""
    return task_of(number, TraceJob(str(number), 0, 10, 1, **more), 4, EVERYTHING)


def two_hosts() -> Machine:
    """A host with 10 bytes of memory, and one of another nodearray with 100 and a GPU."""
    machine = Machine("easy", 0)
    machine.scheduler.join("s", "s", 4, 10, 0, "small")
    machine.scheduler.join("l", "l", 4, 100, 1, "large")
    return machine


@pytest.mark.parametrize("more", [{"memory": 11}, {"gpus": 1}, {"queue": "q"}])
def test_a_job_goes_where_there_is_what_it_asks_for(more: dict[str, Any]) -> None:
    machine = two_hosts()
    machine.scheduler.submit([asking(0, **more)])
    assert [host.node_id for host in machine.scheduler.running[0].hosts] == ["l"]


def test_memory_and_gpus_are_taken_and_given_back() -> None:
    machine = two_hosts()
    jobs = [asking(0, memory=60, gpus=1), asking(1, memory=60), asking(2, gpus=1), asking(3)]
    machine.scheduler.submit(jobs)
    assert [task.started for task in jobs] == [0.0, None, None, 0.0]
    machine.now = 10.0
    machine.scheduler.end_jobs()
    assert [task.started for task in jobs] == [0.0, 10.0, 10.0, 0.0]
    machine.now = 20.0
    machine.scheduler.end_jobs()
    assert {h.node_id: (h.memory, h.gpus) for h in machine.scheduler.hosts.values()} == {
        "s": (10, 0),
        "l": (100, 1),
    }


def test_nobody_takes_the_memory_that_the_first_job_was_promised() -> None:
    machine = two_hosts()
    first = [asking(0, memory=60), asking(1, memory=90)]
    others = [
        task_of(n, TraceJob(str(n), 0, seconds, 1, memory=memory), 4, EVERYTHING)
        for n, seconds, memory in ((2, 10, 40), (3, 99, 40), (4, 99, 5))
    ]
    machine.scheduler.submit([*first, *others])
    # what would be there for longer than the promise has to be on the other host
    assert [task.started for task in [*first, *others]] == [0.0, None, 0.0, None, 0.0]
    assert machine.scheduler.running[4].hosts[0].node_id == "s"


def test_what_is_asked_for_is_shared_among_hosts_and_counts_where_it_is_to() -> None:
    each = TraceJob("x", 0, 1, 8, nodes=2, memory=9, gpus=3, queue="q", partition="p")
    task = task_of(0, each, 16, EVERYTHING)
    assert task.place == (4, 5, 2, "large")
    assert task_of(0, each, 16).place == (4, 0, 0, "")
    assert Uses(partitions={"p": "other"}, queues={"q": "large"}).nodearray_of(each) == "other"


def test_what_is_not_looked_at_is_counted() -> None:
    jobs = [
        TraceJob("a", 0, 1, 1, memory=1, gpus=0, queue="q", partition="p"),
        TraceJob("b", 0, 1, 1, gpus=2, queue="r", partition="p", after=("a",)),
        TraceJob("c", 0, 1, 1, queue="s", partition="p"),
    ]
    assert not_looked_at(jobs, Uses(queues={"q": "x"})) == {
        "memory": 1,
        "gpus": 1,
        "queues": 2,
        "dependencies": 1,
    }
    everything = Uses(True, True, True, dict.fromkeys("qrs", "x"))
    assert not_looked_at(jobs, everything) == {}


# -- when jobs come


def arrivals(*jobs: TraceJob, dependencies: bool = True) -> tuple[Arrivals, list[Task]]:
    tasks = [task_of(n, each, 1) for n, each in enumerate(jobs)]
    return Arrivals(tasks, dependencies), tasks


def test_a_job_comes_when_all_have_ended_that_it_waits_for() -> None:
    jobs = [job("a", 0, 5, 1), job("b", 0, 5, 1), TraceJob("c", 3, 5, 1, after=("a", "b"))]
    coming, (a, b, c) = arrivals(*jobs)
    assert coming.take(9) == [a, b] and coming.next_due() is None and not coming.is_empty
    coming.ended(a, 10)
    assert coming.next_due() is None
    coming.ended(b, 12)
    assert coming.next_due() == 12 and coming.take(12) == [c] and c.arrival == 12
    assert coming.is_empty and c.wait == 0.0


def test_a_user_who_thought_comes_so_much_later_whatever_the_record_says() -> None:
    coming, (a, b) = arrivals(job("a", 0, 5, 1), TraceJob("b", 99, 5, 1, after=("a",), think=4))
    coming.take(0)
    coming.ended(a, 5)
    assert coming.take(9) == [b] and b.arrival == 9


def test_jobs_that_name_nobody_who_came_before_come_at_their_time() -> None:
    jobs = TraceJob("a", 0, 5, 1, after=("b", "a")), TraceJob("b", 1, 5, 1, after=("a",))
    coming, (a, b) = arrivals(*jobs)
    assert coming.take(1) == [a]
    coming, (a, b) = arrivals(*jobs, dependencies=False)
    assert coming.take(1) == [a, b]
