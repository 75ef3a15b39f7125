"""How fast the queue is on this machine: `make bench-queue`.

Broker, worker and submitter run here, side by side. Each figure is printed with its target and
with what AWS-Cyclone-Solution was observed to do, on more than a thousand vCPU. `--kill N` instead
runs N jobs while workers are killed and the broker is restarted, and fails unless every job ended
and each run beyond the first has a lost worker in the history; then it deletes N / 5 waiting jobs,
and fails if one of them begins afterwards.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hpc_queue import JobSpec, Queue, State, embedded
from hpc_queue.settings import Settings

SOURCE = Path(__file__).resolve().parents[1] / "src"
SLOTS = 4
# what was observed of Cyclone: submissions and completions a second
CYCLONE = {"submit": "about 450", "complete": "about 740"}


@contextmanager
def a_site(**keys: object) -> Iterator[tuple[Queue, Path]]:
    """A queue on an embedded Redis of its own, and its configuration."""
    home = Path(tempfile.mkdtemp(prefix="bench-queue-"))
    definition = {"callables": ["time:monotonic"], "directories": str(home / "jobs")}
    config = {"hpcq": {"home": str(home), "definitions": {"default": definition}, **keys}}
    path = home / "autoscale.json"
    path.write_text(json.dumps(config))
    queue = Queue.open(Settings.read(config), patience=60)
    try:
        yield queue, path
    finally:
        queue.close()
        embedded.stop(home)
        shutil.rmtree(home, ignore_errors=True)


def start_worker(config: Path, slots: int = SLOTS) -> subprocess.Popen[bytes]:
    """A worker as a process of its own; its output goes nowhere."""
    words = [sys.executable, "-m", "hpc_queue.cli", "-C", str(config), "worker"]
    return subprocess.Popen(
        [*words, "--slots", str(slots)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "C_FORCE_ROOT": "1"},
    )


@contextmanager
def a_worker(config: Path) -> Iterator[None]:
    """A worker that ends with the block."""
    process = start_worker(config)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def array_of(count: int, command: dict[str, object]) -> JobSpec:
    return JobSpec("bench", command, count=count, is_array=True)


def rate(count: int, work: Callable[[], object]) -> float:
    """How many a second."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def wait_for(queue: Queue, job: str) -> None:
    """Return when a job has ended."""
    while queue.store.job(job).open:
        time.sleep(0.01)


def completions(queue: Queue, count: int, command: dict[str, object]) -> float:
    """How many jobs a second end, once one has."""
    wait_for(queue, queue.submit(array_of(SLOTS * 10, command)))
    job = queue.submit(array_of(count, command))
    found = rate(count, lambda: wait_for(queue, job))
    if queue.store.job(job).counts[State.Successful] != count:
        raise SystemExit(f"expected {count} to succeed, found {queue.store.job(job).counts}")
    return found


def memory_of_arrays(queue: Queue) -> float:
    """Megabytes that ten arrays of 100,000 jobs take in the broker, tickets included."""
    before = queue.store.client.info("memory")["used_memory"]
    for _ in range(10):
        queue.submit(array_of(100_000, {"argv": ["true"]}))
    return float(queue.store.client.info("memory")["used_memory"] - before) / 1e6


def measure(scale: float) -> Iterator[tuple[str, float, float, str]]:
    """What was measured, how much, the target, and Cyclone's."""
    singles, runs = int(4000 * scale), int(6000 * scale)
    with a_site() as (queue, _):
        yield "broker memory of 1,000,000 jobs, MB", memory_of_arrays(queue), -300, ""
    with a_site() as (queue, _):
        spec = array_of(100_000, {"argv": ["true"]})
        found = max(rate(100_000, lambda: queue.submit(spec)) for _ in range(3))
        yield "submissions/s as an array", found, 20_000, CYCLONE["submit"]
        one = JobSpec("bench", {"argv": ["true"]})

        def submit() -> None:
            for _ in range(singles // 4):
                queue.submit(one)

        found = max(rate(singles // 4, submit) for _ in range(4))
        yield "submissions/s one by one", found, 2_000, CYCLONE["submit"]
        found = rate(singles, lambda: queue.submit_all([one] * singles))
        yield "submissions/s of single jobs together", found, 2_000, CYCLONE["submit"]
    with a_site() as (queue, config), a_worker(config):
        found = completions(queue, runs, {"call": "time:monotonic"})
        yield "callables done/s", found, 1_500, CYCLONE["complete"]
        found = completions(queue, runs // 3, {"argv": ["true"]})
        yield "processes done/s", found, 300, CYCLONE["complete"]


def report(scale: float) -> int:
    """Print the figures; 1 when one misses its target."""
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the begin")
    print(f"{'':40} {'found':>10} {'target':>12}   Cyclone, observed")
    missed = 0
    for name, found, target, theirs in measure(scale):
        good = found <= -target if target < 0 else found >= target
        missed += not good
        wanted = f"{'at most' if target < 0 else 'at least'} {abs(target):,.0f}"
        print(f"{name:40} {found:10,.0f} {wanted:>15}   {theirs}{'' if good else '   MISSED'}")
    return int(missed > 0)


def kill_workers(count: int, seed: int) -> int:
    """Run so many jobs while a worker is killed every second and the broker is restarted twice; 0
    when every job ended and each further run is explained."""
    chance = random.Random(seed)
    with a_site(lease=3, grace=1) as (queue, config):
        log = Path(queue.settings.home) / "runs"
        script = f'echo "$HPCQ_ARRAY_INDEX" >> {log}; exit $((HPCQ_ARRAY_INDEX % 100 == 7))'
        spec = JobSpec(
            "kill", {"argv": ["sh", "-c", script]}, count=count, is_array=True, retries=30
        )
        job = queue.submit(spec)
        workers = [start_worker(config, 2) for _ in range(4)]
        kills, restarts = 0, [count // 3, 2 * count // 3]
        while queue.store.job(job).open:
            time.sleep(chance.uniform(0.5, 1.5))
            done = count - queue.store.job(job).open
            if restarts and done >= restarts[0]:
                restarts.pop(0)
                kill_broker(queue)
            index = chance.randrange(len(workers))
            workers[index].kill()
            workers[index].wait()
            workers[index] = start_worker(config, 2)
            kills += 1
            print(f"\r{done} of {count} done, {kills} kills", end="", flush=True)
        for worker in workers:
            worker.kill()
            worker.wait()
        print()
        return judge(queue, job, log, f"{kills} kills, {2 - len(restarts)} restarts of the broker")


def delete_waiting(count: int) -> int:
    """Delete so many waiting jobs, half of them in an array, while a worker works them off; 0 when
    none of them begins afterwards."""
    with a_site() as (queue, config):
        queue.submit_all([JobSpec("doomed", {"argv": ["sleep", "0.05"]})] * (count - count // 2))
        queue.submit(array_of(count // 2, {"argv": ["sleep", "0.05"]}))
        with a_worker(config):
            while sum(queue.store.begun().values()) < SLOTS:
                time.sleep(0.01)
            words = [sys.executable, "-m", "hpc_queue.cli", "-C", str(config), "del"]
            began = time.perf_counter()
            deleted = subprocess.run(
                [*words, "-d", "default"],
                stdout=subprocess.DEVNULL,
                check=True,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )
            took, begun = time.perf_counter() - began, sum(queue.store.begun().values())
            wait_for(queue, queue.submit(JobSpec("after", {"argv": ["true"]}, priority=0)))
            later = sum(queue.store.begun().values()) - begun - 1
    print(f"{count} jobs deleted in {took:.1f} s, {begun} had begun; {later} began afterwards")
    return int(later != 0 or deleted.returncode != 0)


def kill_broker(queue: Queue) -> None:
    """Kill the broker, and start it again with its append-only file."""
    pid = int((Path(queue.settings.home) / "redis.pid").read_text())
    os.kill(pid, 9)
    while embedded.is_up(queue.settings.home):
        time.sleep(0.01)
    embedded.ensure_started(queue.settings.home)


def judge(queue: Queue, job: str, log: Path, what_was_done: str) -> int:
    """Compare what ran with what the history explains."""
    found = queue.store.job(job)
    ran = Counter(int(line) - 1 for line in log.read_text().split())
    explained: Counter[int] = Counter()
    for low, high, _, what in queue.store.history(job):
        if re.search(r"was lost|its worker", what):
            explained.update(range(low, high + 1))
    once = sum(1 for times in ran.values() if times == 1)
    unexplained = [at for at, times in ran.items() if times > 1 + explained[at]]
    never = [at for at in range(found.spec.count) if not ran[at]]
    wrong = sum(1 for at in range(found.spec.count) if (at + 1) % 100 == 7)
    expected = {State.Failed: wrong, State.Successful: found.spec.count - wrong}
    good = all(found.counts[state] == number for state, number in expected.items())
    print(f"{what_was_done}; {once} ran once, {sum(explained.values())} runs were lost")
    print(f"never ran: {len(never)}; ran again without a reason: {len(unexplained)}")
    print({state.name: number for state, number in found.counts.items() if number})
    return int(bool(unexplained or never or not good))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    parser.add_argument("--kill", type=int, metavar="N", help="kill workers of N jobs instead")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.kill:
        return kill_workers(options.kill, options.seed) or delete_waiting(options.kill // 5)
    return report(0.1 if options.quick else 1.0)


if __name__ == "__main__":
    raise SystemExit(main())
