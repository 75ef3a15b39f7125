"""What a pass leaves in its journal, and what azscale prints of it."""

import gzip
import json
import stat

import pytest

from builders.fake_scheduler import IDLE, cluster, idle_cluster, now, run, scheduler
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.errors import Throttled
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.journal import Journal
from hpc.autoscale.testing import a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures

ON = {"journal": {}}


def records(tmp_path):
    """The passes in the journal."""
    return list(Journal(tmp_path / "journal"))


def shown(capsys, tmp_path, *args):
    """What azscale prints about the journal."""
    config = tmp_path / "autoscale.json"
    known = {"cluster_name": "c", "url": "http://none.invalid", **ON}
    config.write_text(json.dumps(known))
    main(["journal", *args, "-c", str(config)])
    return capsys.readouterr()


def test_a_pass_leaves_what_it_read_decided_and_did(run, cluster, scheduler, tmp_path):
    """Beside the node history, without being asked."""
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    scheduler.jobs = [a_job("7", tasks=8)]
    scheduler.hosts = [a_host("host-1")]
    run(**ON)
    (found,) = records(tmp_path)
    assert [n["Name"] for n in found.nodes] == ["htc-1"]
    assert [(j["name"], j["iterations"]) for j in found.jobs] == [("7", 8)]
    assert [h["hostname"] for h in found.hosts] == ["host-1"]
    (array,) = found.status["nodearrays"]
    assert (array["name"], len(array["buckets"])) == ("htc", 1)
    (created,) = found.decided
    assert (created["action"], created["count"], created["jobs"]) == ("create", 1, ["7"])
    assert created["bucket"] == "htc/Standard_F4s"
    assert created["price_per_hour"] > 0
    assert found.names("created") == ["htc-2"]
    assert found.config["cluster_name"] == "clusty"
    assert found.by["driver"] == "builders.fake_scheduler:FakeScheduler"


def test_who_goes_and_why(run, cluster, scheduler, now, tmp_path):
    """Drained, and then deleted."""
    idle_cluster(cluster, run, now, count=1)
    run(**ON)
    (found,) = records(tmp_path)
    assert [(d["action"], d["node"], d["reason"]) for d in found.decided] == [
        ("drain", "htc-1", "idle"),
        ("delete", "htc-1", "idle"),
    ]


def test_the_jobs_are_those_that_were_read(run, scheduler, tmp_path):
    """Before anything was placed, and why they wait with each."""
    scheduler.jobs = [a_job("7", tasks=400), a_job("8", nodes=2)]
    run(**ON)
    (found,) = records(tmp_path)
    assert [j.get("iterations-remaining") for j in found.jobs] == [None, None]
    waiting, other = found.did["unsatisfied"]
    assert (waiting["job"], waiting["missing"] > 300, other["missing"]) == ("7", True, 2)
    assert waiting["reason"]


def test_a_pass_that_could_not_look_is_there_too(run, cluster, scheduler, tmp_path, monkeypatch):
    """With the error that ended it."""
    error = Throttled("http://x", 429, "slow down", 7.0, "wait")
    monkeypatch.setattr(cluster, "get_nodes", lambda **kwargs: (_ for _ in ()).throw(error))
    with pytest.raises(Throttled):
        run(**ON)
    (found,) = records(tmp_path)
    assert "slow down" in found.did["ended_by"]


def test_one_key_turns_it_off(run, tmp_path):
    """And a dry run has none."""
    run(journal=False)
    run(dry_run=True, **ON)
    assert not (tmp_path / "journal").exists()


def test_where_else_it_may_be(run, tmp_path):
    """Nobody else can read it."""
    run(journal={"directory": str(tmp_path / "elsewhere")})
    assert len(list(Journal(tmp_path / "elsewhere"))) == 1
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) & 0o007 == 0


def test_a_loop_writes_only_what_has_changed(cluster, scheduler, tmp_path, now):
    """From pass to pass of one process."""
    for number in range(1, 9):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")

    def read(config):
        return [a_job("1", {"ncpus": 64})], [a_host(f"host-{n}") for n in range(1, 9)]

    scheduler._read_jobs_and_nodes = read
    config = {"cluster_name": "c", "_mock_bindings": cluster, "idle_timeout": 9999, **ON}
    loop = Autoscaler(config, scheduler)
    for _ in range(3):
        loop.run_once()
        now.sleep(60)
    (file,) = (tmp_path / "journal").iterdir()
    _, second, third = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
    assert second["read"] == third["read"] == {}
    assert [len(r.hosts) for r in records(tmp_path)] == [8, 8, 8]


def test_a_journal_that_cannot_be_written_fails_no_pass(cluster, scheduler, tmp_path, now, caplog):
    """It is said once, and once more when it can be written again."""
    (tmp_path / "journal").write_text("in the way")
    config = {"cluster_name": "c", "_mock_bindings": cluster, **ON}
    loop = Autoscaler(config, lambda: scheduler)
    for _ in range(3):
        assert loop.run_once().ok
    assert caplog.text.count("this pass is not in the journal: journal ") == 1
    (tmp_path / "journal").unlink()
    with caplog.at_level("INFO"):
        loop.run_once()
        loop.run_once()
    assert caplog.text.count("the journal is written again") == 1
    assert len(records(tmp_path)) == 2


SECRETS = ("hunter2-password", "tok3n-of-the-queue", "key/with+signs=")


def test_no_secret_is_in_it(cluster, scheduler, tmp_path, run):
    """Whatever the configuration has, at whichever depth, in whatever a server says."""
    password, token, key = SECRETS
    cluster.add_node("htc-1", "htc", state="Ready", hostname="host-1")
    queue = {"queue": {"token": token, "port": 7}}
    cluster.add_nodearray("hpc", {}, software_configuration=queue)
    cluster.add_bucket("hpc", "Standard_F4s", max_count=5, available_count=5)
    listing = cluster.get_nodes

    def listed(*args, **kwargs):
        found = listing(*args, **kwargs)
        for record in found.nodes:
            record["Configuration"] = queue
        return found

    cluster.get_nodes = listed
    scheduler.jobs = [a_job("1")]
    scheduler.jobs[0].metadata.update(access_key=key, note=f"login with {password}")
    run(
        password=password,
        url=f"https://me:{password}@server.invalid",
        site={"queue": {"token": token, "shared_key": key}},
        **ON,
    )
    content = b"".join(gzip.decompress(f.read_bytes()) for f in (tmp_path / "journal").iterdir())
    assert b'"port":7' in content
    for secret in SECRETS:
        assert json.dumps(secret)[1:-1].encode() not in content


# -- azscale


def test_azscale_prints_the_passes(run, scheduler, tmp_path, capsys):
    """A row each, within 80 columns; or as JSON."""
    scheduler.jobs = [a_job("7", tasks=400)]
    run(**ON)
    run(**ON)
    printed = shown(capsys, tmp_path, "show", str(tmp_path / "journal")).out.splitlines()
    assert printed[0].split() == [
        *("PASS", "AT", "NODES", "JOBS", "WAITING", "CREATE", "JOIN", "DRAIN", "DELETE", "SAID")
    ]
    assert [line.split()[0] for line in printed[1:]] == ["1", "2"]
    assert printed[1].split()[2:6] == ["0", "1", "1", "10"]
    assert max(map(len, printed)) <= 80
    args = ("show", str(tmp_path / "journal"), "--last", "1", "-F", "json")
    (found,) = json.loads(shown(capsys, tmp_path, *args).out)
    assert (found["number"], len(found["jobs"]), "doors" in found) == (2, 1, False)


def test_azscale_prints_one_pass_in_words(run, scheduler, tmp_path, capsys):
    """What it read, decided and did."""
    scheduler.jobs = [a_job("7", tasks=400)]
    run(**ON)
    printed = shown(capsys, tmp_path, "show", str(tmp_path / "journal"), "--pass", "1").out
    assert "read: 0 nodes, 1 job, 0 hosts" in printed
    assert "  + create 10 nodes of htc/Standard_F4s, $" in printed
    assert "  job 7 lacks 360 slots: " in printed
    with pytest.raises(SystemExit):
        shown(capsys, tmp_path, "show", str(tmp_path / "journal"), "--pass", "9")
    assert "it has no pass 9" in capsys.readouterr().err


def test_azscale_says_what_is_wrong_with_a_journal(run, tmp_path, capsys):
    """And prints what can be read."""
    run(**ON)
    (file,) = (tmp_path / "journal").iterdir()
    file.write_bytes(file.read_bytes() + b"\x1f\x8b\x08")
    printed = shown(capsys, tmp_path, "show", str(tmp_path / "journal"))
    assert len(printed.out.splitlines()) == 2
    assert "record 2 at byte" in printed.err and "its end is missing" in printed.err


def test_the_journal_of_the_configuration(run, tmp_path, capsys, now):
    """Where no other is named."""
    now.sleep(IDLE)
    run(**ON)
    assert len(shown(capsys, tmp_path, "show").out.splitlines()) == 2
