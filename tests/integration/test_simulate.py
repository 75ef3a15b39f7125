"""`azscale simulate`: recorded workloads through the loop on a simulated cluster."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.clock import MockClock
from hpc.autoscale.journal import Journal
from hpc.autoscale.journal.writing import JournalWriter
from hpc.autoscale.report.live import LivePage
from hpc.autoscale.traces import comparing, playing
from hpc.autoscale.traces.choices import Choice, play_of
from hpc.autoscale.traces.measures import measures_of
from hpc.autoscale.traces.opening import read_trace
from hpc.autoscale.traces.playing import Played, World, play_trace
from hpc.autoscale.traces.workload import Trace, TraceError, TraceJob

HOUR = 3600


def line(number: int, submit: float, run: float, procs: int, wait: float = -1) -> str:
    return f"{number} {submit} {wait} {run} {procs} -1 -1 {procs} {run} -1 1 1 1 -1 1 -1 -1 -1\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two bursts of jobs of 16 cores, and a few small ones between them."""
    rows = [line(n, 0, 2 * HOUR, 16) for n in range(4)]
    rows += [line(10 + n, 100 + n * 60, 600, 2) for n in range(5)]
    rows += [line(20, 5 * HOUR, 600, 40)]
    path = tmp_path / "log.swf"
    path.write_text("; UnixStartTime: 1700000000\n; MaxProcs: 64\n" + "".join(rows))
    return path


def simulate(capsys: pytest.CaptureFixture[str], *argv: object) -> list[dict[str, Any]]:
    main(["simulate", *map(str, argv), "-F", "json"])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", *map(str, argv)])
    assert ended.value.code not in (0, None)
    return capsys.readouterr().err


def play(trace: Path, **choice: Any) -> Played:
    workload = read_trace(str(trace))
    return play_trace(play_of(Choice(**choice), workload), workload.jobs)


def test_weights_that_a_site_works_out_while_running_are_left_out(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is asked for them, and the policy within a region counts."""
    weights = {"provider": "spot-score", "regions": ["eastus"], "metadata_url": "http://[::1]:1"}
    policy = {"regions": "auto", "within": "spot-first"}
    config = tmp_path / "autoscale.json"
    config.write_text(json.dumps({"weights": weights, "packing": {"policy": policy}}))
    config.chmod(0o600)
    (found,) = simulate(capsys, trace, "-c", config)
    assert (found["unfinished"], found["failed_passes"]) == (0, 0)
    choice = Choice(config=json.loads(config.read_text()))
    assert play_of(choice, read_trace(str(trace))).config["packing"] == {"policy": "spot-first"}


def test_why_no_pass_was_made_is_said(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with the weights of a site whose regions the simulated machine does not have."""
    config = tmp_path / "autoscale.json"
    config.write_text(json.dumps({"packing": {"policy": {"regions": {"eastus": 1}}}}))
    config.chmod(0o600)
    main(["simulate", str(trace), "-c", str(config), "--compare", "region=eastus"])
    told = capsys.readouterr()
    (said,) = told.err.splitlines()
    assert "as given: passes with errors, most often: packing.policy.regions: expected" in said
    assert "never ended" in told.out


def test_jobs_wait_for_nodes_to_boot_and_nodes_go_when_nothing_is_left(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = simulate(capsys, trace, "--interval", 60)
    assert (found["jobs"], found["unfinished"], found["impossible"]) == (10, 0, 0)
    # a node takes 300 s, and joins in the pass after that
    assert 300 <= found["waits"]["p50"] <= 420
    # 128 core-hours of the first burst, 6.7 of the second: idle and booting nodes are the rest
    assert 134 < found["core_hours"] < 200 and found["most_nodes"] == 5 - 1
    assert 0.6 < found["utilisation"] < 1 and found["cost"] > 0 and found["failed_passes"] == 0


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_may_come_by_a_pipe(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: bool
) -> None:
    """As a shell makes one of `<(sacct …)`: it is read once, and looked at before that."""
    content = trace.read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    written = gzip.compress(content) if packed else content
    writing = threading.Thread(target=pipe.write_bytes, args=(written,), daemon=True)
    writing.start()
    assert simulate(capsys, pipe) == simulate(capsys, trace)
    writing.join()


def test_configurations_are_compared_side_by_side(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, fixed, long = simulate(
        capsys, trace, "--compare", "fixed=true", "--compare", "idle_timeout=18000"
    )
    assert [each["name"] for each in (given, fixed, long)] == [
        "as given",
        "fixed=true",
        "idle_timeout=18000",
    ]
    assert fixed["waits"]["mean"] < long["waits"]["mean"] <= given["waits"]["mean"]
    assert given["node_hours"] < fixed["node_hours"] and given["node_hours"] < long["node_hours"]
    assert given["boots"] > long["boots"] == 4


def test_values_that_are_objects_are_written_as_json(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone and among others, and in quotes of their own as in a shell."""
    changes = (
        'queues={"1": "compute"}',
        'interval=600 idle_timeout={"default": 60, "compute": 18000} nodes=3',
        """idle_timeout='{"default": 18000}' packing.policy="cheapest" """,
    )
    words = [word for change in changes for word in ("--compare", change)]
    _, of_queue, among, quoted = simulate(capsys, trace, *words)
    assert of_queue["unfinished"] == 0 and of_queue["name"] == changes[0]
    assert among["most_nodes"] == among["boots"] == 3 and quoted["boots"] == 4


def test_the_same_is_simulated_twice(trace: Path) -> None:
    one, two = (measures_of(play(trace, boot_failures=0.5, seed=5)) for _ in range(2))
    assert one == two and one.failed_boots


@pytest.mark.parametrize(
    "choice",
    [
        {"nodes": 3, "config": {"idle_timeout": 900}},
        {"spot": True, "eviction_hours": 3.0, "seed": 1, "boot_failures": 0.2},
    ],
    ids=["full", "failures"],
)
def test_passes_that_are_left_out_would_have_changed_nothing(
    trace: Path, choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = play(trace, interval=600.0, **choice)
    monkeypatch.setattr(World, "is_quiet", False)
    every = play(trace, interval=600.0, **choice)
    assert (some.nodes, some.events) == (every.nodes, every.events)
    runs, all_runs = (
        [(task.started, task.ended, task.lost) for task in played.tasks] for played in (some, every)
    )
    assert runs == all_runs and every.skipped == 0
    assert some.passes + some.skipped < every.passes


def test_a_run_that_would_never_end_ends_at_the_same_time_with_passes_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(playing, "LONGEST_REST", 3.0 * HOUR)
    long = Trace("t", "swf", [TraceJob("1", 1e9, 1e6, 16)], machine_cores=16)
    one = play_of(Choice(spot=True, eviction_hours=1.0), long)
    some = play_trace(one, long.jobs)
    monkeypatch.setattr(World, "is_quiet", False)
    every = play_trace(one, long.jobs)
    assert some.ended == every.ended == 1e9 + 3 * HOUR and some.passes < every.passes


def test_a_run_goes_on_for_as_long_as_jobs_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a queue is for its machine, and a job for the month after which a run ends."""
    monkeypatch.setattr(playing, "LONGEST_REST", 3.0 * HOUR)
    jobs = [TraceJob(str(n), 1e9 + n, 2 * HOUR, 16) for n in range(5)]
    jobs.append(TraceJob("long", 1e9 + 5, 9 * HOUR, 16))
    queue = Trace("t", "swf", jobs, machine_cores=16)
    found = measures_of(play_trace(play_of(Choice(), queue), jobs))
    assert (found.unfinished, found.jobs) == (0, 6) and found.waits.longest is not None
    assert found.waits.longest > 10 * HOUR


def test_every_job_runs_once_from_beginning_to_end_after_it_came(trace: Path) -> None:
    for task in play(trace, boot_failures=0.2).tasks:
        assert task.started is not None and task.ended is not None
        assert task.started >= task.job.submitted
        assert task.ended == task.started + task.job.seconds


def test_evicted_nodes_cost_runs_and_all_jobs_end_all_the_same(trace: Path) -> None:
    found = measures_of(play(trace, spot=True, eviction_hours=3.0, seed=1))
    assert found.evictions and found.restarts and found.unfinished == 0
    assert found.lost_core_hours and found.lost_core_hours > 0


def test_a_job_that_is_too_large_keeps_nobody_waiting(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = simulate(capsys, trace, "--nodes", 2, "--scheduler", "fcfs")
    assert (found["jobs"], found["impossible"], found["unfinished"]) == (9, 1, 0)


def test_nodes_that_boot_at_once_and_stay_are_as_good_as_a_fixed_machine(trace: Path) -> None:
    fixed = measures_of(play(trace, fixed=True)).waits.longest
    loop = measures_of(play(trace, boot=0.0, config={"idle_timeout": 6 * HOUR})).waits.longest
    # they are joined in the pass after the one that has asked for them, at most
    assert fixed is not None and loop is not None and 0 <= loop - fixed <= 2 * 300


def test_waits_as_they_were_recorded_stand_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = line(1, 0, 1000, 2, wait=0) + line(2, 10, 500, 2, wait=1490)
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 2\n; MaxNodes: 1\n" + rows)
    recorded, found = simulate(capsys, path, "--vm-size", "Standard_F2s_v2", "--fixed")
    assert recorded["name"] == "as recorded" and recorded["waits"]["longest"] == 1490
    assert found["waits"]["longest"] == 990 and found["utilisation"] == 1.0
    assert recorded["utilisation"] == 0.75


def test_a_described_cluster_is_simulated(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = {
        "clusters": {
            "c": {
                "region": "westus2",
                "nodearrays": {
                    "small": {"machine_types": ["Standard_F2s_v2"], "max_count": 8},
                    "large": {"machine_types": ["Standard_F16s_v2"], "max_count": 9},
                },
            }
        },
        "regions": {"westus2": {"quota": 1000}},
    }
    path = tmp_path / "clusters.json"
    path.write_text(json.dumps(cluster))
    (found,) = simulate(capsys, trace, "--cluster", path)
    assert found["unfinished"] == 0 and found["boots"] > found["most_nodes"] > 4


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--nodes", 4], "--nodes: it counts without --cluster alone"),
        (["--vm-size", "Standard_F16s_v2"], "--vm-size: it counts without"),
        (["--spot"], "--spot: it counts without"),
        (["--compare", "nodes=50"], "nodes: it counts without"),
        (["--compare", "boot_failures=0.1"], "boot_failures: it counts without"),
    ],
)
def test_what_a_described_cluster_says_itself_is_not_said_again(
    trace: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    argv: list[object],
    said: str,
) -> None:
    """It would change nothing, and stand over figures that are the same."""
    path = tmp_path / "cluster.json"
    array = {"machine_types": ["Standard_F16s_v2"], "max_count": 6}
    cluster = {"region": "westus2", "nodearrays": {"htc": array}}
    path.write_text(json.dumps({"clusters": {"c": cluster}}))
    err = refused(capsys, trace, "--cluster", path, *argv)
    assert said in err and err.count("\n") == 1


def test_spot_nodes_may_be_those_of_a_comparison(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hours = ("--eviction-hours", 1, "--compare", "spot=true")
    given, spot = simulate(capsys, trace, *hours)
    assert given["evictions"] == 0 < spot["evictions"]


def test_the_configuration_of_the_site_counts_and_its_server_does_not(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "url": "https://127.0.0.1:1",
        "cluster_name": "real",
        "username": "a",
        "password": "b",
        "idle_timeout": 18000,
        "nodehistorydb": "/nowhere/at/all.db",
        "autoscale": {"interval": 600},
    }
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps(config))
    (found,) = simulate(capsys, trace, "-c", path)
    assert found["boots"] == 4 and found["failed_passes"] == 0


def test_nothing_is_written_where_the_site_has_its_files(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures of passes that never were would be taken for those of the loop of the site."""
    site = tmp_path / "site"
    site.mkdir()
    config = {
        "metrics": {"file": str(site / "figures.prom"), "health_file": str(site / "health.json")},
        "journal": {"directory": str(site / "journal")},
        "verdicts_file": str(site / "verdicts.json"),
    }
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps(config))
    simulate(capsys, trace, "-c", path)
    assert list(site.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--compare", "idel_timeout=60"], "idel_timeout: expected a key of autoscale.json"),
        (["--compare", "idel_timeout=60"], "did you mean 'idle_timeout'"),
        (["--compare", "idle_timeout"], "expected key=value, found 'idle_timeout'"),
        (["--compare", "driver=x"], "driver: it is of the site alone"),
        (["--compare", "nodes=-3"], "nodes: expected a whole number above 0, found -3"),
        (["--compare", "packing.objective=cots"], "packing.objective"),
        (["--compare", "packing.policy=cheepest"], "did you mean 'cheapest'?"),
        (["--compare", "scheduler=slurm"], "scheduler: expected easy or fcfs"),
        (["--nodes", "0"], "--nodes: expected a whole number above 0"),
        (["--vm-size", "Standard_F16s_v3000"], "expected a known VM size"),
        (
            ["--vm-size", "F16s_v2"],
            "error: --vm-size: expected a known VM size, found 'F16s_v2'; did",
        ),
        (["--vm-size", "F16s_v2"], "did you mean 'Standard_F16s_v2'?"),
        (["--compare", "vm_size=F16s_v2"], "error: vm_size: expected a known VM size, found"),
        (["--region", "wetus2"], "--region: expected a known region, found 'wetus2'; did you mean"),
        (["--region", "WestUS2"], "found 'WestUS2'; did you mean 'westus2'?"),
        (["--region", "West US 2"], "found 'West US 2'; did you mean 'westus2'?"),
        (["--eviction-hours", "5"], "--eviction-hours: expected --spot with it"),
        (["--eviction-hours", "5", "--spot", "--fixed"], "and not --fixed: no node is evicted"),
        (["--fixed", "--journal", "j"], "--journal: expected a loop, found --fixed without one"),
        (["--days", "-1"], "--days: expected days above 0, found -1"),
        (["--start", "-1"], "--start: expected days, 0 or more, found -1"),
        (["--start", "99"], "expected days with jobs"),
        (["--cluster", "/nowhere.json"], "/nowhere.json"),
        (["--queue", "1"], "--queue: expected NAME=NODEARRAY, found '1'"),
        (["--queue", "2=compute"], "--queue: expected a queue of the recorded jobs (1), found '2'"),
        (["--partition", "1=compute"], "expected a partition of the recorded jobs (none)"),
        (["--queue", "1=compte"], "found 'compte'; did you mean 'compute'"),
        (["--compare", "queues=1"], "queues: expected an object with a nodearray for each queue"),
        (["--memory-unit", "KiB"], "error: --memory-unit: expected one of b, kb, mb, gb"),
        (["--form", "swff"], "error: --form: expected one of swf, sacct, qstat, journal, found"),
        (["--memory-unit", "mb"], "--memory-unit: expected --memory with it"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_line(
    trace: Path, capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    err = refused(capsys, trace, *argv)
    assert said in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--vm-size", "F16s_v2"], 2),
        (["--region", "wetus2"], 2),
        (["--days", "-1"], 2),
        (["--start", "99"], 2),
        (["--queue", "1=htc"], 2),
        (["--form", "swff"], 2),
        (["--memory-unit", "KiB"], 2),
        (["--compare", "vm_size=F16s_v2"], 2),
        (["--compare", "idle_timeout=soon"], 2),
        (["-c", "/nowhere.json"], 1),
        (["--cluster", "/nowhere.json"], 1),
    ],
)
def test_a_wrong_command_line_has_the_exit_code_of_one(
    trace: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: int
) -> None:
    """And what is wrong in a file has that of a failure."""
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(trace), *argv])
    assert ended.value.code == code, capsys.readouterr().err


def test_without_a_size_of_the_machine_one_has_to_say_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.swf"
    path.write_text(line(1, 0, 60, 1))
    assert "say with --nodes" in refused(capsys, path)


def test_the_table_is_no_wider_than_a_screen(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [f"fixed=true seed={n}" for n in range(6)]
    main(["simulate", str(trace), "--fixed", *(w for c in changes for w in ("--compare", c))])
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "1: as given" and out[6] == "7: fixed=true seed=5"
    assert max(map(len, out)) <= 80 and sum("wait, mean" in each for each in out) == 2


def test_the_journal_of_a_run_is_one_of_the_loop(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "journal"
    (found,) = simulate(capsys, trace, "--journal", directory)
    records = list(Journal(directory))
    assert len(records) == found["passes"] and records[0].at == 1700000000
    assert sum(len(record.names("created")) for record in records) == found["boots"]
    assert "expected a new directory" in refused(capsys, trace, "--journal", directory)


def test_a_journal_that_could_not_be_written_is_said_beside_the_figures(
    trace: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run does not need it, but whoever asked for it does."""
    append, written = JournalWriter.append, []

    def append_until_full(self: JournalWriter, *args: Any) -> None:
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        written.append(append(self, *args))

    monkeypatch.setattr(JournalWriter, "append", append_until_full)
    directory = tmp_path / "journal"
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(trace), "--journal", str(directory), "-F", "json"])
    out, err = capsys.readouterr()
    (found,) = json.loads(out)
    assert ended.value.code == 1 and found["unfinished"] == 0
    missing = found["passes"] - 3
    said = f"--journal: {directory} does not have {missing} passes: "
    assert said in err and "No space left on device" in err and err.count("\n") == 1


def test_a_journal_without_a_pass_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where all jobs are too large for the nodes."""
    log, directory = tmp_path / "log.swf", tmp_path / "journal"
    log.write_text("; MaxProcs: 640\n" + line(1, 0, HOUR, 640))
    main(["simulate", str(log), "--nodes", "1", "--journal", str(directory)])
    said = f"--journal: {directory} stays empty: no job could be played, so there was no pass\n"
    assert capsys.readouterr().err.endswith(said)


def test_estimates_are_in_the_journal_of_a_run(trace: Path, tmp_path: Path) -> None:
    main(["simulate", str(trace), "--journal", str(tmp_path / "journal")])
    again = {job.name: job.requested_seconds for job in read_trace(str(tmp_path / "journal")).jobs}
    waited = {job.name: job.requested_seconds for job in read_trace(str(trace)).jobs}
    assert again and all(seconds == waited[name] for name, seconds in again.items())


def test_whatif_knows_the_jobs_of_a_simulation_without_a_driver(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And does not say that no jobs are known of."""
    journal, config = tmp_path / "journal", tmp_path / "autoscale.json"
    simulate(capsys, trace, "--journal", journal)
    config.write_text(json.dumps({"cluster_name": "c", "url": "http://127.0.0.1:1"}))
    words = ("whatif", "-c", config, "--journal", journal, "--pass", 1, "--set", "idle_timeout=9")
    main([*map(str, words), "-F", "json"])
    out, err = capsys.readouterr()
    assert json.loads(out)["now"]["jobs"] == 4 and err == ""


def test_a_page_about_a_simulation_has_no_empty_chart(trace: Path, tmp_path: Path) -> None:
    journal, page = tmp_path / "journal", tmp_path / "page.html"
    main(["simulate", str(trace), "--journal", str(journal)])
    main(["report", str(journal), "-o", str(page)])
    live = LivePage(str(journal), MockClock()).parts()[0]
    for text in (page.read_text("utf-8"), live):
        assert "No pass took any time, as in a simulation" in text
        assert 'aria-label="How long passes took' not in text
        assert 'aria-label="US dollars per hour' in text


def test_times_that_are_not_in_seconds_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log in milliseconds, say: no calendar has its years."""
    path = tmp_path / "log.swf"
    path.write_text(
        f"; UnixStartTime: 1e15\n{line(1, 0, 60, 4)}{line(2, 1.7e12, 60, 4)}{line(3, 0, 1e300, 4)}"
    )
    main(["simulate", str(path), "--nodes", "2", "-F", "json"])
    out, err = capsys.readouterr()
    (found,) = json.loads(out)
    assert (found["jobs"], found["unfinished"]) == (1, 0)
    assert "2 lines set aside: it came or ended after the year 3000" in err
    assert "UnixStartTime is after the year 3000" in err
    path.write_text(line(2, 1.7e12, 60, 4))
    assert "its times are not in seconds" in refused(capsys, path, "--nodes", 2)


def test_lines_that_are_set_aside_are_said(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_text(trace.read_text() + "1 2 3\n")
    main(["simulate", str(trace), "--fixed"])
    assert "1 line set aside: expected 18 fields: line 13 (found 3)" in capsys.readouterr().err


# -- what jobs ask for beside cores

CLUSTER = {
    "clusters": {
        "c": {
            "region": "westus2",
            "nodearrays": {
                "htc": {"machine_types": ["Standard_F4s_v2"], "max_count": 4},
                "gpu": {"machine_types": ["Standard_NC6"], "max_count": 2},
            },
        }
    },
    "regions": {"westus2": {"quota": 1000}},
}


@pytest.fixture
def accounting(tmp_path: Path) -> Path:
    """Jobs of one core as sacct has them: one that asks for nothing else, one for 20 GB, two for a
    GPU each, of which the second comes after the first, and one for more memory than there is."""
    rows = [
        ("1", "htc", "cpu=1,mem=1G", ""),
        ("2", "htc", "cpu=1,mem=20G", ""),
        ("3", "gpu", "cpu=1,mem=1G,gres/gpu=1", ""),
        ("4", "gpu", "cpu=1,mem=1G,gres/gpu=1", "afterok:3"),
        ("5", "htc", "cpu=1,mem=900G", ""),
    ]
    lines = ["JobID|Submit|Start|End|NCPUS|Partition|AllocTRES|Dependency"]
    for name, partition, tres, after in rows:
        times = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:10:00"
        lines.append(f"{name}|{times}|1|{partition}|{tres}|{after}")
    (tmp_path / "clusters.json").write_text(json.dumps(CLUSTER))
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


NOON = "2026-01-01T12:00:00"


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (("0001-01-01T00:00:00+23:00", NOON, NOON), "the submit time is unknown"),
        (("0001-01-01T00:00:00", NOON, NOON), "the submit time is unknown"),
        ((NOON, NOON, "9999-12-31T23:59:59"), "it came or ended after the year 3000"),
    ],
)
def test_a_job_of_sacct_at_a_time_that_is_none_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], odd: tuple[str, ...], reason: str
) -> None:
    """And the others are played."""
    good = "2|2026-01-01T12:00:00|2026-01-01T12:00:00|2026-01-01T12:10:00|1"
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join(["JobID|Submit|Start|End|NCPUS", "|".join(["1", *odd, "1"]), good]))
    main(["simulate", str(path), "--nodes", "1", "-F", "json"])
    said = capsys.readouterr()
    assert [run["jobs"] for run in json.loads(said.out)] == [1, 1]
    assert f"1 line set aside: {reason}" in said.err and "line 2 (job 1)" in said.err


@pytest.mark.parametrize(
    "content",
    [
        line(1, 0, 60, 1).replace(" -1 1 1 1 ", " 1e308 1 1 1 "),
        f"JobID|Submit|Start|End|NCPUS|ReqMem\n1|{NOON}|{NOON}|2026-01-02|1|{'9' * 400}G\n",
    ],
)
def test_memory_without_end_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(content)
    *_, run = simulate(capsys, path, "--nodes", 1, "--memory")
    assert (run["jobs"], run["impossible"]) == (1, 0)


def test_compressed_data_that_is_damaged_is_not_called_cut_off(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = bytearray(gzip.compress(trace.read_bytes()))
    packed[10] = 0xFF
    trace.write_bytes(packed)
    assert f"{trace} has compressed data that is damaged: " in refused(capsys, trace)


def test_what_is_behind_compressed_data_is_named(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No part of a workload is taken for the whole."""
    trace.write_bytes(gzip.compress(trace.read_bytes()) + b"junk")
    assert "what is behind the compressed data is none itself" in refused(capsys, trace)


@pytest.mark.parametrize("seconds", ["1e-9", "0.5", "0", "-1", "nan"])
def test_passes_are_a_second_apart_at_least(
    trace: Path, capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    """A day of passes without any time between them would never end."""
    said = refused(capsys, trace, "--interval", seconds)
    assert "--interval: expected 1 second or more, found" in said
    config = trace.parent / "autoscale.json"
    config.write_text('{"autoscale": {"interval": 1e-9}}')
    said = refused(capsys, trace, "-c", config)
    assert "autoscale.interval: expected 1 second or more to simulate it, found 1e-09" in said


def test_the_unit_of_memory_is_of_swf(accounting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Others say it themselves."""
    said = refused(capsys, accounting, "--nodes", 2, "--memory", "--memory-unit", "mb")
    assert "--memory-unit: expected SWF, found sacct" in said


def where(trace: Path, **choice: Any) -> dict[str, tuple[str, float]]:
    """The nodearrays of the nodes that were created, and when jobs ended after the first came."""
    cluster = str(trace.parent / "clusters.json")
    played = play(trace, cluster=cluster, interval=60.0, **choice)
    assert not played.errors
    arrays = ",".join(sorted({life.nodearray for life in played.nodes}))
    return {task.label: (arrays, (task.ended or 0) - played.began) for task in played.tasks}


@pytest.mark.parametrize(
    ("limit", "hours"),
    [("1-12:00:00", 36), ("1-12:30", 36.5), ("1-12", 36), ("1:12:00:00", 36), ("-1", None)],
)
def test_time_limits_are_what_slurm_means(tmp_path: Path, limit: str, hours: float | None) -> None:
    path = tmp_path / "jobs.txt"
    times = "2026-01-01T00:00:00|2026-01-01T00:05:00|2026-01-01T01:05:00"
    path.write_text(f"\n \nJobID|Submit|Start|End|NCPUS|Timelimit\n1|{times}|4|{limit}\n")
    (job,) = read_trace(str(path)).jobs
    assert job.requested_seconds == (None if hours is None else hours * HOUR)


def test_a_job_whose_name_has_the_mark_between_columns_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands after its name would be read as other columns: it would take 64 nodes here."""
    path = tmp_path / "jobs.txt"
    times = "2026-01-01T00:00:00|2026-01-01T00:05:00|2026-01-01T01:05:00"
    rows = ["JobID|Submit|Start|End|JobName|NNodes|NCPUS", f"1|{times}|a|1|4"]
    path.write_text("\n".join([*rows, f"2|{times}|a|64|1|4", ""]))
    main(["simulate", str(path), "--nodes", "100", "-F", "json"])
    out, err = capsys.readouterr()
    assert json.loads(out)[1]["jobs"] == 1
    assert "1 line set aside: expected 7 columns: line 3 (found 8)" in err


def test_what_is_not_looked_at_is_said_for_each_run(
    accounting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, interval = ("--cluster", accounting.parent / "clusters.json"), ("--interval", "600")
    everything = ("--memory", "--gpus", "--dependencies", "--partition", "htc=htc")
    more = ("--partition", "gpu=gpu", "--compare", "memory=false gpus=false partitions={}")
    main(["simulate", *map(str, (accounting, *cluster, *interval, *everything, *more))])
    said = [line.split() for line in capsys.readouterr().out.splitlines() if "looked at" in line]
    assert said == [
        ["memory", "not", "looked", "at", "5"],
        ["GPUs", "not", "looked", "at", "2"],
        ["partition", "not", "looked", "at", "5"],
    ]


def test_memory_and_gpus_decide_which_nodes_there_are(accounting: Path) -> None:
    plain = where(accounting)
    asked = where(accounting, memory=True, gpus=True)
    assert plain["1"][0] == "htc" and len(plain) == 5
    # 20 GB are on the larger nodes alone, and 900 on none
    assert asked["1"][0] in ("gpu", "gpu,htc") and set(asked) == {"1", "2", "3", "4"}


def test_a_partition_runs_on_its_nodearray(accounting: Path) -> None:
    assert where(accounting, partitions={"htc": "gpu", "gpu": "gpu"})["1"][0] == "gpu"
    assert where(accounting, partitions={"htc": "htc", "gpu": "htc"})["1"][0] == "htc"


def test_a_job_that_waits_for_another_one_comes_when_that_has_ended(accounting: Path) -> None:
    loose, tied = where(accounting), where(accounting, dependencies=True)
    assert loose["4"][1] == loose["3"][1]
    assert tied["4"][1] >= tied["3"][1] + 600


def test_a_job_that_waits_for_an_array_comes_when_all_tasks_have_ended(tmp_path: Path) -> None:
    rows = [("3_1", "00:10:00", ""), ("3_2", "00:40:00", ""), ("4", "00:10:00", "afterok:3")]
    lines = ["JobID|Submit|Start|End|NCPUS|Dependency"]
    begin = "2026-01-01T00:00:00"
    lines += [f"{name}|{begin}|{begin}|2026-01-01T{end}|1|{dep}" for name, end, dep in rows]
    (tmp_path / "clusters.json").write_text(json.dumps(CLUSTER))
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join(lines) + "\n")
    ended = {name: at for name, (_, at) in where(path, dependencies=True).items()}
    assert ended["3_2"] >= 2400 and ended["4"] >= ended["3_2"] + 600


def test_passes_of_a_simulation_have_no_spans(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What watches the loop of the site hears nothing of them, though the environment asks for
    spans and the program has set up OpenTelemetry."""
    otel = pytest.importorskip("opentelemetry.trace", reason="needs the extra otel")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    kept, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    main(["simulate", str(trace), "--nodes", "3", "--interval", "600"])
    assert "passes" in capsys.readouterr().out
    assert kept.get_finished_spans() == ()


def test_a_machine_that_is_always_there_has_memory_too(
    accounting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = ("--vm-size", "Standard_F4s_v2", "--nodes", 1, "--fixed")
    every, small = simulate(capsys, accounting, *machine, "--compare", "memory=true")[1:]
    assert (every["jobs"], every["impossible"]) == (5, 0)
    assert (small["jobs"], small["impossible"]) == (3, 2)


# -- runs in processes of their own


def test_runs_in_processes_of_their_own_come_to_the_same(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = ("--fixed", "--compare", "scheduler=fcfs")
    here = simulate(capsys, trace, *both)
    monkeypatch.setattr(comparing, "SMALL", 0)
    monkeypatch.setattr(comparing, "processors", lambda: 2)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    main(["simulate", str(trace), *both, "-F", "json"])
    said = capsys.readouterr()
    assert json.loads(said.out) == here
    assert "20 of 20 jobs have ended" in said.err


PLAYED_IN = """
import os, sys, time
from pathlib import Path
from hpc.autoscale.cli.console import console_main
from hpc.autoscale.traces import comparing, playing

make = os.mkdir

def make_slowly(*args, **more):
    make(*args, **more)
    time.sleep(float(os.environ["PAUSE"]))

os.mkdir = make_slowly
playing._IN_MEMORY = Path(os.environ["KEPT"])
if __name__ == "__main__":
    comparing.SMALL = 0
    comparing.processors = lambda: 2
    sys.argv.insert(1, "simulate")
    console_main()
"""


@pytest.mark.parametrize("pause", [0, 2], ids=["", "as soon as there are files"])
@pytest.mark.parametrize("runs", [1, 2, 4])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_all_runs_and_leaves_no_files(
    tmp_path: Path, number: signal.Signals, runs: int, pause: int
) -> None:
    """The signal goes to the first process alone, as from `timeout` or a service manager. Runs that
    wait for one of the two processors are not begun any more."""
    more = ["--compare", "idle_timeout=60"] * (runs - 1)
    trace, program, kept = tmp_path / "log.swf", tmp_path / "played.py", tmp_path / "kept"
    trace.write_text("; MaxProcs: 64\n" + "".join(line(n, n * 900, 700, 4) for n in range(20000)))
    program.write_text(PLAYED_IN)
    kept.mkdir()
    argv = [sys.executable, str(program), str(trace), *more]
    environment = {**os.environ, "KEPT": str(kept), "PAUSE": str(pause)}
    process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 300
        while len(list(kept.iterdir())) < min(runs, 2) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(number)
        _, err = process.communicate(timeout=300)  # and so has every process that has this pipe
    finally:
        process.kill()
    assert process.returncode == 128 + number and "Traceback" not in err, err
    assert list(kept.iterdir()) == []


class Deadly:
    """Ends the process that takes it in."""

    def __reduce__(self) -> Any:
        return os._exit, (3,)


@pytest.mark.parametrize(
    ("job", "error"), [(Deadly(), TraceError), (None, AttributeError)], ids=["dies", "fails"]
)
def test_a_run_that_ends_its_process_or_fails_ends_the_comparison(
    trace: Path, job: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "SMALL", 0)
    monkeypatch.setattr(comparing, "processors", lambda: 2)
    one = play_of(Choice(fixed=True), read_trace(str(trace)))
    with pytest.raises(error):
        comparing.play_all([one, one], [job])
