"""Hosts that come up and take no work, as where a scheduler drains those of too little memory: the
loop does not make such nodes again and again."""

import json

import pytest

from builders.failing_cloud import F2, a_site
from hpc.autoscale import cli
from hpc.autoscale.backoff.file import BackoffError, BackoffFile
from hpc.autoscale.job.job import Job

ARRAYS = {"htc": {"machine_types": [F2]}}
SPOT = {"htc": {"machine_types": [F2], "spot": True}}
IDLE = 300


def made_in(site, passes, every=60):
    """How many nodes are made in so many passes, `every` so many seconds."""
    made = 0
    for _ in range(passes):
        site.run(idle_timeout=IDLE)
        made += site.made().total()
        site.wait(every)
    return made


@pytest.fixture(params=[ARRAYS, SPOT], ids=["regular", "spot"])
def site(tmp_path, request):
    """One job waits, and the hosts of all nodes take no work."""
    with a_site(tmp_path, request.param) as made:
        made.want(1)
        made.left = 0
        made.new_hosts = lambda: made.hosts_with(made.left, 2)
        yield made


def test_nodes_are_tried_one_at_a_time_at_longer_and_longer_intervals(site, capsys):
    """Without that one was made in each pass, and none deleted; why is told, with when the next one
    is tried."""
    assert made_in(site, 30) <= 7
    assert made_in(site, 36, every=600) <= 11
    assert len(site.nodes()) <= 2
    (known,) = BackoffFile(str(site.home / "backoff.db")).read().backoffs.values()
    assert known.cause == "host"
    (job,) = site.run(idle_timeout=IDLE).unsatisfied
    assert "is in back-off (host, " in job.reason
    path = site.home / "autoscale.json"
    path.write_text(json.dumps(site.config))
    path.chmod(0o600)
    cli.main(["buckets", "-c", str(path), "-o", "backoff"])
    assert "took no work" in capsys.readouterr().out


def test_hosts_may_be_late(site):
    """One that has nothing available for two minutes after it came up, and then takes work, is what
    it is waited for: no other one is made for that work."""
    assert made_in(site, 3) == 1
    assert [host.available["ncpus"] for host in site.new_hosts()] == [0]
    site.left = 2
    assert made_in(site, 10) == 0
    assert not BackoffFile(str(site.home / "backoff.db")).read().backoffs
    assert len(site.nodes()) == 1


@pytest.mark.parametrize("says", ["assigned", "named", "marked"])
def test_a_host_that_is_full_takes_work(site, says):
    """It began a job that takes it whole before it was reported, however the scheduler says that:
    no more is counted on it, and it is no failure."""
    running, wanted = {}, ["j0"]

    def hosts():
        found = site.hosts_with(0, 2)
        for host, name in zip(found, wanted, strict=False):
            running[name] = str(host.hostname)
            if says == "assigned":
                host.assign(name)
            elif says == "marked":
                host.metadata["_running_job_"] = True
        return found

    def jobs():
        hosts()
        found = [Job(name, {"ncpus": 2}) for name in wanted if name not in running]
        at_work = [Job(name, {}, executing_hostnames=[host]) for name, host in running.items()]
        for job in at_work:
            job.metadata["job_state"] = "running"
        return found + at_work if says == "named" else found

    site.new_jobs, site.new_hosts = jobs, hosts
    assert made_in(site, 2) == 1
    wanted.append("j1")
    assert [made_in(site, 1), made_in(site, 6)] == [1, 0]
    assert not BackoffFile(str(site.home / "backoff.db")).read().backoffs


def test_what_else_a_new_host_says_of_its_node_counts(site):
    """That it is to stay, though nothing is available there yet and no work wants it any more."""

    def hosts():
        found = site.hosts_with(0, 2)
        for host in found:
            host.required = True
            host.metadata["queue"] = "long"
        return found

    site.new_hosts = hosts
    site.run(idle_timeout=30)
    site.want(0)
    for _ in range(8):
        site.wait(30)
        done = site.run(idle_timeout=30)
        assert done.deleted == ()
        assert [node.metadata["queue"] for node in done.demand.compute_nodes] == ["long"]


def test_what_cannot_be_remembered_is_noted(site, monkeypatch):
    """The disk is full once hosts are there; that they take no work is learnt late in a pass."""
    made_in(site, 3)

    def full(*_):
        raise BackoffError("backoff.db: disk full")

    monkeypatch.setattr(BackoffFile, "write", full)
    for _ in range(2):
        done = site.run(idle_timeout=IDLE)
        site.wait(120)
    assert done.notes == ("backoff.db: disk full; what fails is not remembered",)


def test_hosts_that_take_work_again_end_it(site):
    """The first one that has something available is enough, and what was remembered is gone."""
    made_in(site, 12)
    site.left = 2
    site.want(4)
    made_in(site, 12, every=180)
    assert len(site.nodes()) == 4
    assert not BackoffFile(str(site.home / "backoff.db")).read().backoffs


def test_a_host_that_took_work_once_is_no_sign_of_others(site):
    """An administrator who drains hosts that were at work keeps nobody from new ones."""
    site.left = 2
    made_in(site, 10)
    site.left = 0
    site.want(0)
    made_in(site, 30)
    assert site.nodes() == []
    assert not BackoffFile(str(site.home / "backoff.db")).read().backoffs


def test_nothing_is_watched_where_the_scheduler_does_not_report_hosts(tmp_path):
    """Regular nodes that are up are forgotten at once."""
    with a_site(tmp_path, ARRAYS) as made:
        made.config["autoscale"] = {"scheduler_reports_hosts": False}
        made.want(3)
        made_in(made, 5)
        assert len(made.nodes()) == 3
        assert not BackoffFile(str(tmp_path / "backoff.db")).read().boots


@pytest.mark.parametrize("hours", [0, 25])
def test_nodes_of_which_nothing_is_heard_are_watched_for_a_day(tmp_path, hours):
    """And are no failures: nobody knows what their hosts would take."""
    with a_site(tmp_path, ARRAYS) as made:
        made.want(3)
        made_in(made, 5)
        made.wait(3600 * hours)
        made_in(made, 2)
        known = BackoffFile(str(tmp_path / "backoff.db")).read()
        assert (len(known.boots), known.backoffs) == (0 if hours else 3, {})
