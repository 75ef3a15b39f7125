"""What the journal costs a pass of a loop: `python benchmarks/journal_cost.py [--nodes 5000]`.

Nodes that all run a job, and jobs that wait for a quota, of a simulator in another process that is
asked over HTTP; in each pass one job has ended and another one has begun, so that something has
changed. Times of whole passes differ by more than the journal costs, so its own calls are timed
within each pass: the CPU seconds of them all, summed, are held against those of the rest of the
same pass. Printed are the share in all passes together and in the cheapest and the dearest of them,
how many functions were called by either (no noise changes that), and how many objects the journal
keeps. Before that the same for passes that are each made by a process of their own, as cron does it
(`--fresh`: so many), the first of which writes all there is.

What the journal looks at first is in the processor's cache for the rest of the pass, and what it
keeps pushes other things out of it, so a pass gets longer by something else than these calls take.
With `--changing`, the server's listing is another one in each pass, and with `--sizes` jobs and
hosts have memory. With `--turns`, so many passes of a loop with a journal and of one without are
made by turns, and their CPU seconds are held against each other.
"""

import argparse
import gc
import json
import logging
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import requests

from hpc.autoscale import clock
from hpc.autoscale import hpctypes as ht
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.autoscaler.journaling import LoopJournal
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.journal.listening import HeardBinding
from hpc.autoscale.journal.recording import PassRecorder
from hpc.autoscale.simulator import serve

JOURNAL, REST = "journal", "rest"
SIZE, REGION = "Standard_F4s_v2", "westus2"
Site = tuple[dict[str, Any], list[str]]


class Meter:
    """Who uses the CPU while a pass runs: the journal, or the rest of the pass."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.kept = 0
        self._who: str | None = None
        self._since = 0.0
        self._counts = False
        self._blocks = 0

    @contextmanager
    def of(self, who: str, if_running: bool = True) -> Iterator[None]:
        """Meanwhile the CPU is used by `who`."""
        before = self._who
        if if_running and before is None:
            yield
            return
        self._switch(who)
        try:
            yield
        finally:
            self._switch(before)

    def _switch(self, who: str | None) -> None:
        now = time.process_time()
        if self._who is not None:
            self.seconds[self._who] += now - self._since
        if self._counts and JOURNAL in (who, self._who) and who != self._who:
            blocks = sys.getallocatedblocks()
            self.kept += blocks - self._blocks if self._who == JOURNAL else 0
            self._blocks = blocks
        self._who = who
        self._since = time.process_time()

    def run(self, one: Callable[[], object]) -> None:
        """A pass."""
        with self.of(REST, if_running=False):
            one()

    def count(self, one: Callable[[], object]) -> None:
        """A pass whose calls of functions are counted, which takes far longer."""

        def profile(frame: object, event: str, argument: object) -> None:
            if event in ("call", "c_call") and self._who is not None:
                self.calls[self._who] += 1

        self._counts = True
        sys.setprofile(profile)
        try:
            self.run(one)
        finally:
            sys.setprofile(None)
            self._counts = False

    def times(self, kind: type, who: str, *names: str) -> None:
        """Let methods of a class be those of `who`."""
        for name in names:
            setattr(kind, name, self._timed(getattr(kind, name), who))

    def _timed(self, method: Callable[..., Any], who: str) -> Callable[..., Any]:
        @wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.of(who):
                return method(*args, **kwargs)

        return timed


def metered() -> Meter:
    """A meter of everything that a pass calls of the journal."""
    meter = Meter()
    meter.times(LoopJournal, JOURNAL, "listen", "begin", "keep")
    heard = [name for name in vars(PassRecorder) if name.startswith("heard")]
    meter.times(PassRecorder, JOURNAL, "around", *heard)
    meter.times(HeardBinding, JOURNAL, "get_cluster_status", "get_nodes", "check_listing")
    meter.times(HeardBinding, REST, "_ask")  # that is the cluster within it, and its server
    return meter


def let_listings_change() -> None:
    """Let a node record be another one in each pass, so that every listing is."""
    ask = HeardBinding._ask

    def changed(binding: HeardBinding, door: str, *args: Any, **kwargs: Any) -> Any:
        found = ask(binding, door, *args, **kwargs)
        if door == "nodes":
            number = int(clock.time()) // 60
            found.nodes[number % len(found.nodes)]["StatusMessage"] = f"minute {number}"
            found.body += f" minute {number}".encode()
        return found

    HeardBinding._ask = changed  # type: ignore[assignment]


class BusyDriver(GenericDriver):
    """Every node runs a job, and others wait.

    As drivers of most schedulers do it, it reads jobs and hosts from two texts (JSON), so that all
    names are new objects in each pass. The texts are there before the pass begins.
    """

    have_sizes = False
    """Whether jobs and hosts have memory, too."""

    def __init__(self, hosts: Sequence[str], waiting: int) -> None:
        super().__init__("benchmark")
        self._running = [(hostname, f"running-{n}") for n, hostname in enumerate(hosts)]
        self._waiting = waiting
        self._ended = 0
        self._texts = self._answers()

    def _sizes(self) -> dict[str, Any]:
        """The memory of a job or host, as a driver reads it."""
        return {"memory": ht.Memory.value_of("4g")} if self.have_sizes else {}

    def end_one(self) -> None:
        """One job more has ended, and another one runs on its host."""
        hostname, _ = self._running[self._ended]
        self._running[self._ended] = (hostname, f"running-{self._ended + len(self._running)}")
        self._ended += 1
        self._texts = self._answers()

    def _answers(self) -> tuple[str, str]:
        """What the scheduler would say of its jobs, and of its hosts."""
        jobs = [{"name": name, "ncpus": 4, "host": host} for host, name in self._running]
        waiting = [{"name": f"waiting-{n}", "ncpus": 1 + n % 4} for n in range(self._waiting)]
        hosts = [{"name": h, "ncpus": 4, "free": 0, "job": job} for h, job in self._running]
        return json.dumps([*jobs, *waiting]), json.dumps(hosts)

    def _read_jobs_and_nodes(self, config: dict[str, Any]) -> tuple[list[Job], list[SchedulerNode]]:
        of_jobs, of_hosts = self._texts
        jobs, hosts = [], []
        for said in json.loads(of_jobs):
            job = Job(said["name"], {"ncpus": said["ncpus"], **self._sizes()})
            if "host" in said:
                job.executing_hostnames = [said["host"]]
                job.metadata["job_state"] = "running"
            jobs.append(job)
        for said in json.loads(of_hosts):
            host = SchedulerNode(said["name"], {"ncpus": said["ncpus"], **self._sizes()})
            host.assign(said["job"])
            host.available["ncpus"] = said["free"]
            hosts.append(host)
        return jobs, hosts


@contextmanager
def cluster_of(nodes: int) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """A simulated cluster in a process of its own, whose nodes are all ready and at whose quota
    nothing more can be started: how to connect to it, and its host names."""
    array = {"machine_types": [SIZE]}
    limits = {REGION: {"quota": 4 * nodes}}
    cluster = {"region": REGION, "nodearrays": {"htc": array}, "max_count": 2 * nodes}
    reading, writing = os.pipe()
    if not (child := os.fork()):
        with serve({"clusters": {"benchmark": cluster}, "regions": limits}) as simulator:
            connection = simulator.connection("benchmark")
            definition = {"machineType": SIZE}
            sets = [{"count": nodes, "nodearray": "htc", "definition": definition}]
            requests.post(
                f"{connection['url']}/clusters/benchmark/nodes/create",
                json={"requestId": "benchmark", "sets": sets},
                auth=(connection["username"], connection["password"]),
                timeout=600,
            ).raise_for_status()
            simulator.clock.advance(3600)
            os.write(writing, json.dumps(connection).encode())
            signal.pause()
    try:
        connection = {**json.loads(os.read(reading, 10_000)), "lock_file": None}
        listing = new_cluster_bindings(connection).get_nodes().nodes or []
        yield connection, [str(record["Hostname"]) for record in listing]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def new_loop(
    connection: dict[str, Any], hosts: list[str], waiting: int, home: str, has_journal: bool = True
) -> tuple[Autoscaler, BusyDriver]:
    """A loop over a cluster, with what it remembers in a directory; and its driver."""
    config = {
        **connection,
        "nodehistorydb": os.path.join(home, "history.db"),
        "journal": {"directory": os.path.join(home, "journal")} if has_journal else False,
    }
    driver = BusyDriver(hosts, waiting)
    return Autoscaler(config, driver), driver


def shares(passes: list[Counter[str]]) -> list[float]:
    """How much a journal adds to each pass, in per cent."""
    return [100 * each[JOURNAL] / each[REST] for each in passes]


def print_shares(what: str, passes: list[Counter[str]]) -> None:
    """A line about passes."""
    own, rest = sum(p[JOURNAL] for p in passes), sum(p[REST] for p in passes)
    each = shares(passes)
    print(
        f"{what}: {rest / len(passes):.3f} s, and {own / len(passes) * 1000:.1f} ms for the"
        f" journal: {100 * own / rest:+.2f} % ({min(each):.2f} to {max(each):.2f}, median"
        f" {statistics.median(each):.2f}, of {len(passes)} passes)"
    )


def in_one_process(args: argparse.Namespace, now: clock.MockClock, site: Site) -> None:
    """Passes of one loop."""
    meter = metered()
    with tempfile.TemporaryDirectory() as home:
        loop, driver = new_loop(*site, args.waiting, home)
        passes, sizes = [], []
        for number in range(args.rounds + 2):
            gc.collect()
            meter.seconds.clear()
            (meter.count if number > args.rounds else meter.run)(loop.run_once)
            if number <= args.rounds:
                passes.append(meter.seconds.copy())
                sizes.append(size_of(home))
            driver.end_one()
            now.sleep(60)
    print_shares("a pass of a loop", passes[1:])
    calls = meter.calls
    print(
        f"functions called in a pass: {calls[REST]}, and {calls[JOURNAL]} for the journal:"
        f" {100 * calls[JOURNAL] / calls[REST]:+.2f} %; {meter.kept} objects are kept"
    )
    print_shares("its first pass", passes[:1])
    later = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
    print(f"its first record has {sizes[0]} bytes, others {later:.0f} each")


def by_themselves(args: argparse.Namespace, now: clock.MockClock, site: Site) -> None:
    """Passes that are each made by a process of their own."""
    meter = metered()
    with tempfile.TemporaryDirectory() as home:
        loop, driver = new_loop(*site, args.waiting, home)
        passes, sizes = [], []
        for _ in range(args.fresh):
            reading, writing = os.pipe()
            if not (child := os.fork()):
                meter.run(loop.run_once)
                os.write(writing, json.dumps(meter.seconds).encode())
                os._exit(0)
            os.waitpid(child, 0)
            passes.append(Counter(json.loads(os.read(reading, 10_000))))
            os.close(reading)
            os.close(writing)
            sizes.append(size_of(home))
            driver.end_one()
            now.sleep(60)
    print_shares("a pass of a process of its own", passes[1:])
    print_shares("the first of them", passes[:1])
    later = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
    print(f"its record has {sizes[0]} bytes, others {later:.0f} each")


def by_turns(args: argparse.Namespace, now: clock.MockClock, site: Site) -> None:
    """Passes with a journal and without one, by turns, of a process each, as what one keeps costs
    its garbage collector; the first two of each are left out."""
    with tempfile.TemporaryDirectory() as home:
        loops = {}
        for name, has_journal in (("with", True), ("without", False)):
            os.mkdir(own := os.path.join(home, name))
            loops[name] = _in_a_process(*new_loop(*site, args.waiting, own, has_journal), now)
        seconds: dict[str, list[float]] = {"with": [], "without": []}
        for number in range(args.turns + 2):
            for name, one_pass in sorted(loops.items(), reverse=number % 2 > 0):
                seconds[name].append(one_pass())
    own, other = seconds["with"][2:], seconds["without"][2:]
    pairs = [100 * (a / b - 1) for a, b in zip(own, other, strict=True)]
    print(
        f"{args.turns} passes with a journal and as many without, by turns:"
        f" {statistics.mean(own):.3f} and {statistics.mean(other):.3f} s:"
        f" {100 * (sum(own) / sum(other) - 1):+.2f} %; of the cheapest"
        f" {100 * (min(own) / min(other) - 1):+.2f} %, median of pairs"
        f" {statistics.median(pairs):+.2f} %"
    )


def _in_a_process(
    loop: Autoscaler, driver: BusyDriver, now: clock.MockClock
) -> Callable[[], float]:
    """What lets a process of its own make the next pass of a loop; its CPU seconds."""
    forking = multiprocessing.get_context("fork")
    here, there = forking.Pipe()

    def passes() -> None:
        while there.recv():
            gc.collect()
            before = time.process_time()
            loop.run_once()
            there.send(time.process_time() - before)
            driver.end_one()
            now.sleep(60)

    forking.Process(target=passes, daemon=True).start()
    there.close()  # a process that has failed is an EOFError here

    def one_pass() -> float:
        here.send(True)
        return float(here.recv())

    return one_pass


def size_of(home: str) -> int:
    """Bytes in the files of the journal."""
    files = os.scandir(os.path.join(home, "journal"))
    return sum(each.stat().st_size for each in files if each.name.endswith(".gz"))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--waiting", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--fresh", type=int, default=5)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--changing", action="store_true", help="listings of nodes change, too")
    parser.add_argument("--sizes", action="store_true", help="jobs and hosts have memory, too")
    args = parser.parse_args()
    # as a service logs: why jobs wait is worked out for that, and not for the journal
    logging.basicConfig(filename=os.devnull, level=logging.INFO)
    if args.changing:
        let_listings_change()
    BusyDriver.have_sizes = args.sizes
    now = clock.use_mock_clock()
    now.now = 1_790_000_000.0
    with cluster_of(args.nodes) as site:
        # first, as a process that was forked from one that has grown collects its garbage, too
        if args.fresh > 1:
            by_themselves(args, now, site)
        if args.turns:
            by_turns(args, now, site)
        if args.rounds:
            in_one_process(args, now, site)


if __name__ == "__main__":
    main()
