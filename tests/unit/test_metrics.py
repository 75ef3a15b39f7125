"""Figures of passes: what Prometheus reads, the health file, and azscale metrics."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from builders.deep_json import DEEP, TOO_DEEP
from builders.failing_cloud import F4, a_site
from builders.fake_scheduler import cluster, now, raising, run, scheduler
from builders.site_commands import site_command as site_command
from hpc.autoscale.autoscaler.steps import STEPS
from hpc.autoscale.ccbindings.errors import Throttled
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.config.check import check_config
from hpc.autoscale.journal import PassRecord
from hpc.autoscale.journal.frames import packed
from hpc.autoscale.metrics import Health, Metric, of_record, read_health, text_of
from hpc.autoscale.metrics.families import of_pass
from hpc.autoscale.metrics.health import HealthError, last_end
from hpc.autoscale.testing import a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "examples" / "metrics" / "alerts.yml"
DASHBOARD = ROOT / "examples" / "metrics" / "dashboard.json"

needs_prometheus = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None,
    reason="Prometheus is not installed here: apt-get install prometheus",
)


@pytest.fixture
def files(tmp_path):
    """The section metrics, with both files."""
    return {
        "metrics": {
            "file": str(tmp_path / "figures.prom"),
            "health_file": str(tmp_path / "health.json"),
        }
    }


def samples(text):
    """The value of each sample, by name and labels, without that of the cluster."""
    plain = re.sub(r'cluster="[^"]*",?', "", text).replace("{}", "")
    lines = [line for line in plain.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def figures(files):
    """What is in the file for node_exporter."""
    return samples(Path(files["metrics"]["file"]).read_text())


def test_a_pass_writes_its_figures(run, cluster, scheduler, files):
    """Nodes, jobs, limits and price, as they were read."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    cluster.add_node("htc-2", "htc", state="Failed", hostname="host-2")
    scheduler.jobs = [a_job("7", tasks=400)]
    run(**files)
    found = figures(files)
    nodes = 'hpc_autoscale_nodes{nodearray="htc",vm_size="Standard_F4s",state="%s"}'
    assert (found[nodes % "Ready"], found[nodes % "Failed"]) == (1, 1)
    assert (found["hpc_autoscale_jobs"], found["hpc_autoscale_jobs_unsatisfied"]) == (1, 1)
    assert found["hpc_autoscale_price_dollars_per_hour"] > 0
    assert found['hpc_autoscale_nodes_total{what="created"}'] > 0
    assert found['hpc_autoscale_passes_total{result="ok"}'] == 1
    bucket = 'hpc_autoscale_bucket_available_nodes{nodearray="htc",vm_size="Standard_F4s"}'
    assert found[bucket] == 8


def test_every_figure_names_the_cluster(run, cluster, scheduler, files):
    """So node_exporter takes the files of two loops in one directory; of a loop over several, all
    are named, in the file as in what is read from a journal."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.jobs = [a_job("7", tasks=400)]
    run(**files)
    text = Path(files["metrics"]["file"]).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) > 30 and all('{cluster="clusty"' in line for line in lines)
    several = {"clusters": [{"name": "east"}, {"name": "west"}]}
    for config, name in (({"cluster_name": "c"}, "c"), (several, "east, west")):
        told = text_of(of_record(PassRecord(config=config), Health()))
        assert f'hpc_autoscale_jobs{{cluster="{name}"}} 0' in told
        assert f'passes_total{{cluster="{name}",result="ok"}} 0' in told
    assert "cluster=" not in text_of(of_record(PassRecord(), Health()))


def test_counts_go_on_from_process_to_process(run, cluster, files, now, monkeypatch):
    """Good passes, those with errors, and those that could not look."""
    run(**files)
    good = now.now
    now.sleep(60)
    error = Throttled("http://x", 429, "slow down", 7.0, "wait")

    def fail(*args, **kwargs):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "get_nodes", fail)
        with pytest.raises(Throttled):
            run(**files)
    health = read_health(files["metrics"]["health_file"])
    assert (health.passes, health.failed, health.last_good_pass) == (2, 1, good)
    assert "slow down" in health.last_error
    assert health.age(now.now) == 60
    assert health.last_duration is not None
    assert figures(files)["hpc_autoscale_last_pass_ok"] == 0
    assert figures(files)['hpc_autoscale_passes_total{result="failed"}'] == 1


def test_what_a_pass_that_could_not_look_did_not_see_is_not_zero(run, cluster, files, monkeypatch):
    """No figures of jobs, nodes, price and limits; that it failed is one."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    run(**files)
    known = {name.partition("{")[0] for name in figures(files)}
    error = Throttled("http://x", 429, "slow down", 7.0, "wait")
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "get_nodes", lambda *args, **kwargs: (_ for _ in ()).throw(error))
        with pytest.raises(Throttled):
            run(**files)
    found = figures(files)
    gone = known - {name.partition("{")[0] for name in found}
    told = ("jobs", "jobs_unsatisfied", "jobs_set_aside", "nodes", "price_dollars_per_hour")
    more = ("nodes_in_pass", "nodes_unpriced", "bucket_available_nodes", "bucket_active_nodes")
    assert gone == {f"hpc_autoscale_{name}" for name in (*told, *more)}
    assert found["hpc_autoscale_last_pass_errors"] == 1
    assert found["hpc_autoscale_last_pass_duration_seconds"] >= 0
    # what is not known of a record of before is not said
    before = samples(text_of(of_pass(1.0, (), 0, {"ended_by": "x"}, {})))
    assert "hpc_autoscale_last_pass_duration_seconds" not in before


def test_the_seconds_of_each_step_are_figures(run, files):
    """Those of the journal, by name."""
    run(journal={}, **files)
    steps = {name for name in figures(files) if name.startswith("hpc_autoscale_last_pass_step")}
    named = {name.partition('"')[2].partition('"')[0] for name in steps}
    assert {"read", "limits", "match", "join", "create", "history"} <= named <= set(STEPS)


def test_every_figure_is_in_the_documents(run, files):
    """With its kind, its labels and its meaning."""
    run(**files)
    lines = Path(files["metrics"]["file"]).read_text().splitlines()
    written = (ROOT / "docs" / "metrics.md").read_text()
    for line in lines:
        if line.startswith("# HELP "):
            _, _, name, meaning = line.split(" ", 3)
            kind = next(each.split()[3] for each in lines if each.startswith(f"# TYPE {name} "))
            assert f"| `{name}` | {kind} |" in written and f"| {meaning} |" in written, name


def test_each_set_of_labels_occurs_once():
    """Prometheus refuses a text in which one does twice, with all that is in it."""
    bucket = {"definition": {"machineType": "F4"}, "availableCount": 2, "activeCount": 1}
    array = {"name": "htc", "buckets": [bucket, bucket]}
    text = text_of(of_pass(1.0, (), 0, {}, {"nodearrays": [array, array]}))
    labels = '{nodearray="htc",vm_size="F4"}'
    assert text.count(labels) == 2
    assert samples(text)[f"hpc_autoscale_bucket_available_nodes{labels}"] == 8
    assert samples(text)[f"hpc_autoscale_bucket_active_nodes{labels}"] == 4


def test_what_the_server_does_not_count_is_not_zero():
    """Nor is what several buckets have together, where one of them is not counted."""
    known = {"definition": {"machineType": "F4"}, "availableCount": 2, "activeCount": 1}
    unknown = {"definition": {"machineType": "F4"}, "availableCount": None}
    arrays = [
        {"name": "some", "buckets": [known, unknown]},
        {"name": "away", "buckets": [{**known, "valid": False}]},
    ]
    found = samples(text_of(of_pass(1.0, (), 0, {}, {"nodearrays": arrays})))
    buckets = {name: value for name, value in found.items() if "_bucket_" in name}
    assert buckets == {'hpc_autoscale_bucket_active_nodes{nodearray="away",vm_size="F4"}': 1}


def test_nothing_is_offered_where_a_nodearray_is_disabled(site_command, tmp_path):
    """As in the list of buckets; the page about the journal marks it."""
    off = {"Configuration": {"autoscale": {"enabled": False}}}
    arrays = {"htc": {"machine_types": [F4]}, "off": {"machine_types": [F4], "attributes": off}}
    with a_site(tmp_path, arrays) as site:
        site_command.serve(site, journal={})
        site_command("autoscale")
        found = samples(site_command("metrics"))
        listed = site_command("buckets")
    offered, used = (
        {name for name in found if name.startswith(f"hpc_autoscale_bucket_{each}_nodes")}
        for each in ("available", "active")
    )
    assert (len(offered), len(used)) == (1, 2) and "htc" in offered.pop()
    assert "htc" in listed and "off" not in listed
    page = tmp_path / "page.html"
    site_command("report", "-o", str(page))
    marked = f"off/{F4}: nodes (the nodearray has autoscale.enabled=false)"
    assert page.read_text().count(marked) == 2  # the row, and its bar for who cannot see it


@pytest.mark.parametrize("key, other", [("file", "health_file"), ("health_file", "file")])
def test_no_figures_fail_no_pass(run, files, tmp_path, caplog, key, other):
    """A note of the pass says so; the other file is written."""
    files["metrics"][key] = str(tmp_path / "nowhere" / "x")
    found = run(**files)
    named = f"{'metrics' if key == 'file' else 'health file'} {tmp_path}/nowhere/x"
    said = f"{named}: it cannot be written: there is no directory {tmp_path}/nowhere"
    assert found.ok and found.notes == (said,) and said in caplog.text
    assert Path(files["metrics"][other]).exists()


def test_figures_are_written_where_the_journal_is_not(run, files, tmp_path):
    """A journal that another user has made, say, does not make a loop look dead."""
    (tmp_path / "journal").write_text("in the way")
    found = run(**files, journal={"directory": str(tmp_path / "journal")})
    assert [note for note in found.notes if "not in the journal" in note]
    assert read_health(files["metrics"]["health_file"]).passes == 1
    assert Path(files["metrics"]["file"]).exists()


def test_a_dry_run_writes_none(run, files, tmp_path):
    """It is no pass that did anything."""
    run(dry_run=True, **files)
    assert not list(tmp_path.glob("*.prom"))


def test_a_file_is_the_old_one_or_the_new_one(run, files, tmp_path):
    """Nothing else is left behind, and everybody may read it."""
    run(**files)
    run(**files)
    made = {path.name for path in tmp_path.iterdir()}
    assert {"figures.prom", "health.json"} <= made and not [n for n in made if n.endswith(".new")]
    assert (tmp_path / "figures.prom").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "content",
    ["", "[]", "7", '{"passes": "x"}', '{"nodes": 3}', '{"last_pass": "now"}', '{"joined": [7]}'],
)
def test_a_health_file_that_is_none(tmp_path, content, run, files):
    """An error for who reads it; a pass begins anew."""
    path = Path(files["metrics"]["health_file"])
    path.write_text(content)
    with pytest.raises(HealthError, match=r"health file .*: expected what passes write"):
        read_health(path)
    run(**files)
    assert read_health(path).passes == 1


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"last_good_pass": NaN}', "last_good_pass: nan"),
        ('{"last_good_pass": 1e400}', "last_good_pass: inf"),
        ("[]", "no object"),
        (f'{{"nodes": {DEEP}', TOO_DEEP),
    ],
)
def test_a_probe_fails_where_the_health_file_is_none(tmp_path, capsys, content, found):
    """A time that is no finite number would never be too old."""
    health, config = tmp_path / "health.json", tmp_path / "autoscale.json"
    health.write_text(content)
    site = {"cluster_name": "c", "url": "http://none.invalid"}
    config.write_text(json.dumps({**site, "metrics": {"health_file": str(health)}}))
    with pytest.raises(SystemExit) as ended:
        main(["metrics", "--health", "--max-age", "60", "-c", str(config)])
    said = capsys.readouterr()
    assert ended.value.code == 1 and said.out == ""
    assert f"health file {health}: expected what passes write, found {found}" in said.err


def test_a_health_file_that_is_not_there(tmp_path):
    """Says so, and what makes it."""
    said = r"none.json: there is no such file; the first pass with `metrics.health_file` writes it"
    with pytest.raises(HealthError, match=said):
        read_health(tmp_path / "none.json")
    (tmp_path / "none").mkdir()
    with pytest.raises(HealthError) as caught:
        read_health(tmp_path / "none")
    assert "first pass" not in str(caught.value)


def test_what_labels_may_hold():
    """Whatever a site calls its nodearrays."""
    family = Metric("m", "What\nit is.")
    family.add(1.5, name='a "b" \\ c\nd')
    family.add(float("inf"))
    assert text_of([family]) == (
        '# HELP m What\\nit is.\n# TYPE m gauge\nm{name="a \\"b\\" \\\\ c\\nd"} 1.5\nm +Inf\n'
    )


def test_azscale_prints_them(run, files, tmp_path, capsys, now):
    """From the journal, and from the health file; the exit code says whether that is too old. Where
    there is no health file, the journal tells that, too."""
    run(journal={}, **files)
    config = tmp_path / "autoscale.json"
    known = {"cluster_name": "c", "url": "http://none.invalid", "journal": {}, **files}
    check_config(known)
    config.write_text(json.dumps(known))
    main(["metrics", "-c", str(config)])
    printed = capsys.readouterr().out
    written = Path(files["metrics"]["file"]).read_text()
    assert printed == written
    now.sleep(1000)
    main(["metrics", "--health", "--max-age", "2000", "-c", str(config)])
    assert "the last good pass was 1000 s ago; 1 pass, 0 not good" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["metrics", "--health", "--max-age", "900", "-c", str(config)])
    assert end.value.code == 2
    capsys.readouterr()
    config.write_text(json.dumps({**known, "metrics": {}}))
    main(["metrics", "--health", "--max-age", "2000", "-c", str(config)])
    assert "the last good pass was 1000 s ago; 1 pass, 0 not good" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["metrics", "--max-age", "900", "-c", str(config)])
    assert end.value.code == 2, "a probe that forgets --health was always content"
    assert "--max-age: expected --health with it" in capsys.readouterr().err


@pytest.mark.parametrize("has_health_file", [True, False])
def test_a_good_pass_ahead_of_the_clock_is_no_good_sign(
    run, files, tmp_path, capsys, now, has_health_file
):
    """A clock that was put back says nothing of whether the loop still runs; that clocks differ by
    a few seconds does not matter."""
    run(journal={}, **files)
    config = tmp_path / "autoscale.json"
    known = {"cluster_name": "c", "url": "http://none.invalid", "journal": {}, **files}
    config.write_text(json.dumps(known if has_health_file else {**known, "metrics": {}}))
    now.now -= 4
    main(["metrics", "--health", "--max-age", "900", "-c", str(config)])
    assert "the last good pass was 0 s ago" in capsys.readouterr().out
    now.now -= 86400
    with pytest.raises(SystemExit) as end:
        main(["metrics", "--health", "--max-age", "900", "-c", str(config)])
    assert end.value.code == 2
    said = "the last good pass was 24 h ahead of the clock, which was put back; 1 pass"
    assert said in capsys.readouterr().out


def test_the_dashboard_and_the_alerts_use_figures_that_there_are(run, files):
    """Every one of them."""
    run(**files)
    text = Path(files["metrics"]["file"]).read_text()
    known = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    used = set()
    for part in (ALERTS.read_text() + DASHBOARD.read_text()).replace("(", " ").split():
        name = part.strip('"').partition("{")[0].partition("[")[0].strip('"),:\\')
        used |= {name} if name.startswith("hpc_autoscale_") else set()
    assert used and used <= known, used - known


@needs_prometheus
def test_promtool_takes_the_text_and_the_rules(run, cluster, scheduler, files):
    """Debian's Prometheus has nothing to say against either."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.jobs = [a_job("7", tasks=400)]
    run(**files)
    text = Path(files["metrics"]["file"]).read_text()
    for command, given in ((["check", "metrics"], text), (["check", "rules", str(ALERTS)], "")):
        done = subprocess.run(
            ["promtool", *command], input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


MINUTES = 180
GOOD = "last_good_pass_timestamp_seconds"
LOOP = {
    "last_pass_timestamp_seconds": f"0+60x{MINUTES}",
    GOOD: f"0+60x{MINUTES}",
    'passes_total{result="failed"}': f"0x{MINUTES}",
    "jobs_unsatisfied": f"0x{MINUTES}",
    'nodes_total{what="created"}': f"0x{MINUTES}",
    'nodes_total{what="joined"}': f"0x{MINUTES}",
    'nodes_in_pass{what="failed"}': f"0x{MINUTES}",
    'nodes_in_pass{what="overdue"}': f"0x{MINUTES}",
}
"""Three hours of a loop that is idle, as promtool writes series of a minute."""

WAIT = {"jobs_unsatisfied": f"3x{MINUTES}"}
BUSY = {**WAIT, 'nodes_total{what="joined"}': f"0+1x{MINUTES}"}
ALERTED = {
    "idle": ({}, set()),
    "stopped": ({GOOD: f"60x{MINUTES}"}, {"AutoscalerHasNoGoodPass"}),
    "never good": ({GOOD: "_"}, {"AutoscalerNeverHadAGoodPass"}),
    "fails": ({'passes_total{result="failed"}': f"0+1x{MINUTES}"}, {"AutoscalerPassesFail"}),
    "busy": (BUSY, set()),
    "waits": (WAIT, {"JobsWaitAndNothingScales"}),
    "has no capacity": (
        {**WAIT, 'nodes_total{what="created"}': f"0+1x{MINUTES}"},
        {"JobsWaitAndNothingScales"},
    ),
    "cannot look now and then": (
        {"jobs_unsatisfied": "3x20 stale " * 8, 'nodes_in_pass{what="failed"}': "1x9 stale " * 18},
        {"JobsWaitAndNothingScales", "NodesFailed"},
    ),
    "hangs": ({'nodes_in_pass{what="overdue"}': f"1x{MINUTES}"}, {"NodesDoNotBecomeReady"}),
}


@needs_prometheus
def test_alerts_fire_when_they_should(tmp_path):
    """Each for the loop that it is about, whatever the others do, and for no other."""
    series = []
    for loop, (more, _) in ALERTED.items():
        for name, values in {**LOOP, **more}.items():
            family, _, labels = f"hpc_autoscale_{name}".partition("{")
            text = f'{family}{{instance="{loop}",{labels or "}"}'
            series.append({"series": text, "values": values})
    names = set(re.findall(r"- alert: (\w+)", ALERTS.read_text()))
    wanted = {name: {n for n, (_, fire) in ALERTED.items() if name in fire} for name in names}
    asked = [
        {
            "expr": f'count by (instance) (ALERTS{{alertname="{name}",alertstate="firing"}})',
            "eval_time": "3h",
            "exp_samples": [{"labels": f'{{instance="{n}"}}', "value": 1} for n in loops],
        }
        for name, loops in wanted.items()
    ]
    told = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    path = tmp_path / "cases.yml"
    path.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": [told]}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert names - {"AutoscalerFiguresMissing"} == {n for n, loops in wanted.items() if loops}


@needs_prometheus
def test_a_real_prometheus_has_the_figures(run, cluster, files, tmp_path):
    """It scrapes them, and its rules can be evaluated."""
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    run(**files)
    text = Path(files["metrics"]["file"]).read_bytes()

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "prometheus.yml"
    target = f"127.0.0.1:{server.server_address[1]}"
    config.write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{ALERTS}]\n"
        f"scrape_configs: [{{job_name: a, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    process = subprocess.Popen(
        [
            *("prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"),
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        query = f"http://127.0.0.1:{port}/api/v1/query?query=hpc_autoscale_nodes"
        found = []
        for _ in range(150):
            try:
                with urllib.request.urlopen(query, timeout=5) as answer:
                    found = json.load(answer)["data"]["result"]
            except OSError:
                pass
            if found:
                break
            time.sleep(0.2)
        assert [each["metric"]["state"] for each in found] == ["Ready"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/rules", timeout=5) as answer:
            groups = json.load(answer)["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) == 7 and {rule["health"] for rule in rules} <= {"ok", "unknown"}
    finally:
        process.terminate()
        process.wait()
        server.shutdown()
        server.server_close()


def test_how_the_last_pass_ended(run, cluster, files, now, tmp_path, monkeypatch):
    """By the health file, by the journal, and by whichever knows of a later pass."""
    health, journal = files["metrics"]["health_file"], str(tmp_path / "journal")
    assert last_end(health, journal) is None and last_end(None, None) is None
    own = {"journal": {"directory": journal}}
    run(**own, **files)
    good = last_end(health, journal)
    assert (good.at, good.error, good.failed, good.last_good) == (now.now, "", False, now.now)
    assert good == last_end(None, journal) and good.took is not None
    now.sleep(60)
    error = Throttled("http://x", 429, "slow down", 7.0, "wait")
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "get_nodes", raising(error))
        with pytest.raises(Throttled):
            run(**own)
    # the journal alone has this one; when the last good one was, the health file knows
    bad = last_end(health, journal)
    assert bad.failed and "slow down" in bad.error and (bad.at, bad.last_good) == (now.now, good.at)
    assert last_end(None, journal).last_good == good.at
    assert last_end(health, None) == good
    now.sleep(60)
    run(journal=False, **files)
    assert last_end(health, journal).at == now.now


BAD = b'{"version": 1, "at": 90000000000, "did": {"ended_by": "x"}}'


@pytest.mark.parametrize("has_health_file", [True, False])
def test_the_last_good_pass_of_many(
    run, cluster, files, now, tmp_path, monkeypatch, has_health_file
):
    """Those since the health file was written are in the journal alone."""
    health, journal = files["metrics"]["health_file"], str(tmp_path / "journal")
    own = {"journal": {"directory": journal}}
    run(**own, **files)
    for _ in range(2):
        now.sleep(60)
        run(**own)
    good = now.now
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "get_nodes", raising(Throttled("http://x", 429, "no", 7.0, "w")))
        for _ in range(2):
            now.sleep(60)
            with pytest.raises(Throttled):
                run(**own)
    assert last_end(health if has_health_file else None, journal).last_good == good


def test_the_end_of_a_journal_that_cannot_be_read_is_not_known(tmp_path, run):
    """Whatever is in its last record; what is cut off is none."""
    journal = tmp_path / "journal"
    run(journal={"directory": str(journal)})
    at = last_end(None, str(journal)).at
    (file,) = journal.glob("*.jsonl.gz")
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:-30])
    assert last_end(None, str(journal)).at == at
    file.write_bytes(whole + packed(b"[]") + packed(BAD))
    assert (last_end(None, str(journal)).error, last_end(None, str(journal)).last_good) == ("x", at)
    for text in (b"[]", b'{"version": 1, "at": 5}', b'{"version": 99, "at": 5, "did": {}}'):
        file.write_bytes(whole + packed(text))
        assert last_end(None, str(journal)) is None
    file.write_bytes(b"rubbish" * 99)
    assert last_end(None, str(journal)) is None


def test_a_node_joins_once():
    """Though each pass hands it to the scheduler again; when it was gone in between, again."""
    health = Health()
    counts = []
    errors = {"errors": ["no answer"]}
    for did in (
        {"joined": ["a", "b"]},
        {"joined": ["b", "a"]},
        {"ended_by": "no answer"},
        {"joined": ["a"], **errors},
        {"joined": ["a", "b", "c"]},
        {"joined": ["a"]},
        {"joined": ["a", "b"]},
    ):
        health = health.after(1.0, did)
        counts.append(health.nodes["joined"])
    assert counts == [2, 2, 2, 2, 3, 3, 4]


def test_a_node_that_is_called_as_one_that_was_deleted_joins():
    """Also where something goes wrong in each pass, as while one of several clusters is away."""
    health = Health()
    for did in ({"joined": ["a"]}, {"joined": ["a"], "deleted": ["a"]}, {}, {"joined": ["a"]}):
        health = health.after(1.0, {**did, "errors": ["no answer"]})
    assert health.nodes["joined"] == 2


def test_health_of_nobody():
    """There was no pass."""
    assert Health().age(5.0) is None
