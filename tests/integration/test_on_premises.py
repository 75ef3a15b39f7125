"""Hosts on premises, through the loop, over HTTP, and with commands that run."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from hpc.autoscale import clock
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.backoff.file import BackoffFile
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.errors import CycleCloudError
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodehistory import SQLiteNodeHistory
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.onpremises.workers import HostState, HostStates, HostStatesError
from hpc.autoscale.simulator import serve
from hpc.autoscale.workers import WorkerDemand

SIZE = "Standard_F4s_v2"
CLOUD = {
    "clusters": {
        "c": {"region": "southcentralus", "nodearrays": {"htc": {"machine_types": [SIZE]}}}
    },
    "regions": {"southcentralus": {"quota": 12}},  # three nodes
}
IDLE = 301
BOOT = 1801
LONG = 3601


class Queue(GenericDriver):
    """Jobs that take four cores each, hosts with work, and hosts without."""

    def __init__(self, home):
        super().__init__("queue")
        self.wanted = 0
        self.busy, self.idle = [], []
        self.drained = []
        self.later = lambda: None
        self._readings = 0

    def initialize(self):
        self._readings = 0

    def _read_jobs_and_nodes(self, config):
        self._readings += 1
        if self._readings > 1:
            self.later()
        hosts = [SchedulerNode(name) for name in self.busy]
        for host in hosts:
            host.assign(f"job of {host.hostname}")
        hosts += [SchedulerNode(name, {"ncpus": 4}) for name in self.idle]
        return [Job(f"j{i}", {"ncpus": 4}) for i in range(self.wanted)], hosts

    def handle_draining(self, nodes):
        self.drained += [str(node.name) for node in nodes]
        return nodes


class Site:
    """A simulated cluster, a queue, and hosts whose commands write down that they ran."""

    def __init__(self, simulator, home):
        self.simulator = simulator
        self.log = home / "commands.log"
        self.queue = Queue(home)
        self.config = {
            **simulator.connection("c"),
            "lock_file": None,
            "nodehistorydb": str(home / "nodehistory.db"),
            "retry": {"attempts": 1},
            "on_premises": [self.host("rack-1"), self.host("rack-2")],
        }

    def command(self, text):
        """Appends a line to the log."""
        return ["sh", "-c", 'echo "$1" >> "$2"', "sh", text, str(self.log)]

    def host(self, name, **more):
        commands = {"start": self.command(f"start {name}"), "stop": self.command(f"stop {name}")}
        return {"name": name, "resources": {"ncpus": 4, "memgb": 16}, **commands, **more}

    def run(self, jobs, after=0, errors=()):
        clock.sleep(after)
        self.simulator.clock.advance(after)
        self.queue.wanted = jobs
        summary = Autoscaler(self.config, self.queue).run_once()
        assert tuple(map(str, summary.errors)) == tuple(errors)
        return summary

    @property
    def ran(self):
        return Counter(self.log.read_text().splitlines()) if self.log.exists() else Counter()

    @property
    def nodes(self):
        return len(self.simulator.cluster("c").nodes())


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Two hosts of four cores, and room for three nodes of four cores."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    clock.use_mock_clock()
    with serve(CLOUD) as simulator:
        yield Site(simulator, tmp_path)


PACKINGS = [
    {"policy": "declared"},
    {"policy": "cheapest"},
    {"policy": "least-waste"},
    {"policy": "spot-first"},
    {"policy": "capacity-aware"},
    {"order": "declared"},
    {"objective": "cost"},
]


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_hosts_are_filled_first_and_the_cloud_takes_the_rest(site, packing):
    """In every order of packing; nodes of the cloud that are idle come after them, too."""
    site.config["packing"] = packing
    summary = site.run(3)
    assert (len(summary.created), summary.hosts_started) == (1, ("rack-1", "rack-2"))
    summary = site.run(2)
    assert [node.name for node in summary.demand.unmatched_nodes] == ["htc-1"]


def test_a_quota_of_the_cloud_counts_no_host(site):
    """Five jobs: two hosts, and as many nodes as the quota allows."""
    summary = site.run(6)
    assert (site.nodes, len(summary.unsatisfied)) == (3, 1)
    assert "Region(southcentralus)" in summary.unsatisfied[0].limit


def test_a_worker_is_started_once(site):
    """Whoever makes the next pass knows it was."""
    site.run(2)
    assert site.run(2).hosts_started == ()
    assert site.ran == {"start rack-1": 1, "start rack-2": 1}


def test_a_host_that_the_scheduler_reports_is_not_named_as_joined(site):
    """As no node of the cloud is, though both are handed over in each pass."""
    assert "2 joined (rack-1, rack-2)" in site.run(2).headline()
    site.queue.busy = ["rack-1"]
    assert "1 joined (rack-2)" in site.run(2).headline()


def test_a_dry_run_starts_nothing(site):
    """It looks at what is known."""
    site.queue.wanted = 2
    summary = Autoscaler(site.config, site.queue, dry_run=True).run_once()
    assert (summary.hosts_started, site.ran) == ((), {})


def test_an_idle_worker_is_stopped_once_and_never_the_host_deleted(site):
    """After its idle time, drained, and asked about again; then it is started when it is wanted."""
    site.run(2)
    site.run(1)
    summary = site.run(1, after=IDLE)
    summary = site.run(1, after=30) if not summary.hosts_stopped else summary
    assert (summary.hosts_stopped, summary.deleted) == (("rack-2",), ())
    assert site.queue.drained == ["rack-2"]
    assert site.run(1, after=IDLE).hosts_stopped == ()
    assert site.ran["stop rack-2"] == 1
    assert site.run(2).hosts_started == ("rack-2",)


def test_an_idle_worker_is_stopped_that_only_the_scheduler_knows(site, tmp_path):
    """As with a node of the cloud: a node history that is begun anew knows nothing of it."""
    site.run(1)
    site.config["nodehistorydb"] = str(tmp_path / "new.db")
    site.queue.idle = ["rack-1"]
    site.run(0)
    stopped = [site.run(0, after=after).hosts_stopped for after in (IDLE, 30)]
    assert ("rack-1",) in stopped


def test_no_more_hosts_are_drained_than_may_be_stopped(site):
    """A limit of nodes that go in one pass counts hosts too: what is drained and stays is of no use
    to anybody."""
    site.run(2)
    site.config["autoscale"] = {"max_deletes_per_pass": 1}
    stopped = [site.run(0, after=after).hosts_stopped for after in (IDLE, 30, 30)]
    assert max(map(len, stopped)) == 1
    assert site.queue.drained == [name for names in stopped for name in names]
    assert len(site.queue.drained) == 2


@pytest.mark.parametrize("kept", ["rack-1", "htc-1"])
def test_a_host_waits_only_so_long_for_one_that_is_never_let_go(site, kept):
    """Neither a host nor a node of the cloud that the scheduler keeps for half an hour uses up what
    one pass may stop."""
    site.run(3)
    site.config["autoscale"] = {"max_deletes_per_pass": 1}
    site.queue.handle_draining = lambda nodes: [node for node in nodes if node.name != kept]
    hosts, stopped = {"rack-1", "rack-2"}, set()
    for after in (0, IDLE, 30, 1801, 30, 30):
        summary = site.run(0, after=after)
        assert len(summary.hosts_stopped) + len(summary.deleted) <= 1
        stopped.update(summary.hosts_stopped)
    assert stopped == hosts - {kept}


def test_a_host_that_was_drained_and_runs_is_taken_back(site):
    """The scheduler, which closed it, opens it again for the work that is placed there; one whose
    worker was stopped is started and joined."""
    site.run(2)
    site.queue.handle_draining = lambda nodes: [node for node in nodes if node.name == "rack-2"]
    for after in (0, IDLE, 30):
        site.run(0, after=after)
    assert site.ran["stop rack-1"] == 0 < site.ran["stop rack-2"]
    summary = site.run(2)
    assert (summary.undrained, summary.hosts_started) == (("rack-1",), ("rack-2",))
    assert site.run(2).undrained == ()


def test_a_worker_at_work_is_not_stopped(site):
    """Neither by the first reading nor by the second one."""
    site.run(2)
    site.queue.busy = ["rack-1", "rack-2"]
    for _ in range(3):
        assert site.run(0, after=IDLE).hosts_stopped == ()
    site.queue.busy, site.queue.idle = [], ["rack-1", "rack-2"]
    site.run(0)
    site.queue.later = lambda: setattr(site.queue, "busy", ["rack-2"])
    stopped = [site.run(0, after=after).hosts_stopped for after in (IDLE, 30)]
    assert ("rack-1",) in stopped
    assert "stop rack-2" not in site.ran


def minutes_of(site, count, jobs=0):
    """The summaries of so many passes, one in each minute."""
    return [site.run(jobs, after=60) for _ in range(count)]


@pytest.mark.parametrize("left", [[], ["rack-1"]])
def test_a_worker_that_the_scheduler_does_not_report_any_more_is_not_stopped(site, left):
    """A scheduler in trouble answers without the hosts that it has, or with some of them."""
    site.run(2)
    site.queue.busy = ["rack-1", "rack-2"]
    minutes_of(site, 2)
    site.queue.busy = left
    for summary in minutes_of(site, 8):
        assert summary.hosts_stopped == ()
        assert set(summary.missing) == {"rack-1", "rack-2"} - {*left}
    site.queue.busy, site.queue.idle = [], ["rack-1", "rack-2"]
    minutes_of(site, 8)
    assert site.ran["stop rack-1"] == site.ran["stop rack-2"] == 1


@pytest.mark.parametrize("left, stopped", [(["rack-1", "rack-2"], {"rack-3"}), (["rack-1"], set())])
def test_a_host_alone_is_missed_for_an_hour(site, left, stopped):
    """As a node of the cloud is; several are for as long as they are missing."""
    site.config["on_premises"].append(site.host("rack-3"))
    site.run(3)
    site.queue.busy = ["rack-1", "rack-2", "rack-3"]
    minutes_of(site, 2)
    site.queue.busy = left
    found = [site.run(0, after=600).hosts_stopped for _ in range(6)]
    assert not any(found)
    found = [site.run(0, after=600).hosts_stopped for _ in range(3)]
    assert {name for names in found for name in names} == stopped


def test_it_is_said_of_how_many_hosts_some_are_missing(site, caplog):
    """Those that the scheduler reports count, too."""
    site.run(2)
    site.queue.idle = ["rack-1", "rack-2"]
    minutes_of(site, 1)
    site.queue.idle = ["rack-1"]
    minutes_of(site, 1)
    assert "the scheduler reports no host of 1 of 2 nodes, and did before" in caplog.text


def test_hosts_that_are_down_keep_no_idle_node_of_the_cloud(site):
    """That the scheduler does not report them says nothing of other nodes."""
    site.run(3)
    site.queue.idle = ["htc-1", "rack-1", "rack-2"]
    minutes_of(site, 2)
    site.queue.idle = ["htc-1"]
    assert ("htc-1",) in [summary.deleted for summary in minutes_of(site, 8)]


def test_the_host_of_a_worker_that_was_stopped_is_not_missed(site):
    """Nor when it is started again, until it is reported again."""
    site.run(2)
    site.queue.idle = ["rack-1", "rack-2"]
    minutes_of(site, 8)
    assert site.ran["stop rack-1"] == site.ran["stop rack-2"] == 1
    site.queue.idle = []
    assert not any(summary.missing for summary in minutes_of(site, 2) + minutes_of(site, 2, jobs=2))


def test_a_command_that_fails_is_reported_and_rests_and_stops_no_other(site):
    """What was placed there goes to the cloud while it rests; then it is tried again."""
    site.config["on_premises"][0]["start"] = [
        "sh",
        "-c",
        "printf 'no\\033[31m\\n such unit' >&2; exit 5",
    ]
    said = "starting workers on premises: host rack-1: exit code 5: no\\x1b[31m such unit"
    summary = site.run(2, errors=[said])
    assert summary.hosts_started == ("rack-2",)
    assert len(site.run(2).created) == 1
    site.config["on_premises"][0]["start"] = site.command("start rack-1")
    assert site.run(2, after=60).hosts_started == ()
    assert site.run(2, after=61).hosts_started == ("rack-1",)


def test_hosts_that_wait_to_be_drained_cost_no_more_writes(site, monkeypatch):
    """Of the node history, in which nothing is another one then."""
    noted, asked = [], []
    monkeypatch.setattr(SQLiteNodeHistory, "note_scheduler", lambda _, *what: noted.append(what))
    site.queue.handle_draining = lambda nodes: asked.extend(nodes) or []
    site.run(2)
    site.queue.idle = ["rack-1", "rack-2"]
    minutes_of(site, 8)
    assert asked and len(noted) == 9


def test_a_clock_that_is_set_back_makes_no_host_rest_for_longer(site):
    """A host of which a command failed tomorrow is started again once its rest is over."""
    failing = site.host("rack-1", start=["false"])
    site.config["on_premises"] = [failing]
    clock.sleep(86400)
    site.run(1, errors=["starting workers on premises: host rack-1: exit code 1"])
    clock.use_mock_clock()
    site.config["on_premises"] = [site.host("rack-1")]
    assert site.run(1).hosts_started == ()
    assert site.run(1, after=121).hosts_started == ("rack-1",)


def test_jobs_that_wait_for_a_host_that_rests_are_told_which(site):
    """Nothing runs on it and it is large enough, but its worker could not be started."""
    site.config["on_premises"] = [site.host("rack-1", start=["false"]), site.host("rack-2")]
    job = {"ncpus": 4, "nodearray": "on-premises"}
    site.queue._read_jobs_and_nodes = lambda config: ([Job("j", job, iterations=2)], [])
    site.run(2, errors=["starting workers on premises: host rack-1: exit code 1"])
    said = [text for kind, text in site.run(2).details() if kind == "waits"]
    assert len(said) == 1 and said[0].endswith("; rack-1 takes no work now")


def test_a_command_has_a_deadline_and_so_have_its_children(site, tmp_path):
    """It is killed with its group; the others were not kept waiting."""
    pid = tmp_path / "pid"
    script = f'sleep 60 & echo $! > "{pid}"; wait'
    site.config["on_premises"][0].update(start=["sh", "-c", script], command_timeout=0.5)
    said = "starting workers on premises: host rack-1: timed out after 0.5 seconds"
    assert site.run(2, errors=[said]).hosts_started == ("rack-2",)
    state = Path("/proc", pid.read_text().strip(), "stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_command_that_is_none(site):
    """Is an error of that host."""
    site.config["on_premises"][0]["start"] = ["/no/such/command"]
    said = "starting workers on premises: host rack-1: [Errno 2] No such file or directory:"
    summary = site.run(2, errors=[f"{said} '/no/such/command'"])
    assert summary.hosts_started == ("rack-2",)


def test_words_are_words(site):
    """No shell reads them."""
    name = "$(touch /tmp/never)`id`;a"
    site.config["on_premises"] = [site.host("rack-1", start=site.command(name))]
    site.run(1)
    assert site.ran == {name: 1}


@pytest.mark.parametrize("state", ["starting", "stopping"])
def test_a_process_that_was_killed_meanwhile(site, tmp_path, state):
    """Nobody knows what its command did: what is wanted is started again, and what is not wanted
    stopped again."""
    site.run(2)  # or else the guard `host-reported` would keep what it knows nothing of
    states = HostStates(str(tmp_path / "on-premises.db"))
    states.write({name: HostState(state, clock.time()) for name in ("rack-1", "rack-2")})
    assert site.run(1).hosts_started == ("rack-1",)
    stopped = [site.run(1, after=after).hosts_stopped for after in (IDLE, 30)]
    assert ("rack-2",) in stopped


def test_a_worker_that_is_not_reported_is_started_again(site):
    """After the boot timeout, where work waits for it."""
    site.run(1)
    site.queue.busy = ["rack-1"]
    assert site.run(1, after=BOOT).hosts_started == ()
    site.queue.busy = []
    assert site.run(1, after=BOOT).hosts_started == ("rack-1",)
    assert site.run(1, after=60).hosts_started == ()


def test_a_host_whose_worker_was_started_again_in_vain_leaves_its_work_to_the_cloud(site):
    """Its command ends well, and the scheduler never reports it: it rests for a while, for longer
    each time, until it is reported."""
    del site.config["on_premises"][1]
    started = [site.run(1, after=after).hosts_started for after in (0, BOOT, 60)]
    assert started == [("rack-1",), ("rack-1",), ()]
    summary = site.run(1, after=BOOT)
    assert (summary.hosts_started, *summary.notes) == (
        (),
        "rack-1: started again, and still not reported by the scheduler within the boot timeout;"
        " gets no work for now",
    )
    assert [len(site.run(1).created) for _ in range(3)] == [1, 0, 0]
    assert site.run(1, after=601).hosts_started == ("rack-1",)
    assert site.run(1, after=BOOT).hosts_started == ()
    assert site.run(1, after=601).hosts_started == ()
    assert site.run(1, after=601).hosts_started == ("rack-1",)
    site.queue.busy = ["rack-1"]
    site.run(1, after=BOOT)
    site.queue.busy = []
    assert site.run(1, after=BOOT).hosts_started == ("rack-1",)


def test_a_host_that_is_reported_while_it_rests_takes_work_again(site):
    """Its worker took long, and is there: nobody waits for the end of its rest."""
    del site.config["on_premises"][1]
    for after in (0, BOOT, BOOT):
        site.run(1, after=after)
    site.queue.busy = ["rack-1"]
    site.run(0, after=60)
    site.queue.busy = []
    assert site.run(1, after=60).created == ()


def test_a_host_that_was_reported_in_between_is_started_again_each_time(site):
    """As one that is turned off and on."""
    site.run(1)
    for _ in range(3):
        assert site.run(1, after=BOOT).hosts_started == ("rack-1",)
        site.queue.busy = ["rack-1"]
        site.run(1, after=60)
        site.queue.busy = []


def test_hosts_that_are_not_reported_without_work_are_started_again_and_take_work(site):
    """Nobody knows what it means that the scheduler says nothing of them."""
    site.config["autoscale"] = {"scheduler_reports_hosts": False}
    site.run(1)
    assert [site.run(1, after=BOOT).hosts_started for _ in range(3)] == [("rack-1",)] * 3
    assert site.nodes == 0


def test_a_host_without_commands_is_always_there(site):
    """It takes work, and nothing is ever run for it."""
    site.config["on_premises"] = [{"name": "rack-1", "resources": {"ncpus": 8}}]
    assert len(site.run(3).created) == 1
    assert site.run(0, after=IDLE).hosts_stopped == ()


def test_hosts_are_served_while_cyclecloud_cannot_be_read(site):
    """They are started for work, and nothing is stopped, deleted or forgotten."""
    site.run(3)
    assert site.ran == {"start rack-1": 1, "start rack-2": 1} and site.nodes == 1
    site.run(0, after=IDLE)
    site.run(0, after=IDLE)
    assert site.ran["stop rack-1"] == site.ran["stop rack-2"] == 1
    site.simulator.faults.add("status", status=500)
    site.queue.wanted = 1
    with pytest.raises(CycleCloudError, match="500"):
        Autoscaler(site.config, site.queue).run_once()
    assert site.ran["start rack-1"] + site.ran["start rack-2"] == 3
    site.queue.wanted = 0
    clock.sleep(2 * IDLE)
    with pytest.raises(CycleCloudError):
        Autoscaler(site.config, site.queue).run_once()
    assert site.ran["stop rack-1"] == site.ran["stop rack-2"] == 1
    with pytest.raises(CycleCloudError):
        Autoscaler(site.config, site.queue, dry_run=True).run_once()
    assert sum(site.ran.values()) == 5


def test_only_hosts_that_got_work_are_joined_while_cyclecloud_cannot_be_read(site, tmp_path):
    """Not those of the scheduler alone, and not idle ones. No file of the cloud is written, and the
    driver is not asked whose hosts are lost."""
    site.run(0)
    joined = []
    compared = []
    site.queue.validate_nodes = lambda hosts, nodes: compared.append(hosts)
    site.queue.add_nodes_to_cluster = lambda nodes: joined.append([n.name for n in nodes]) or nodes
    site.queue.busy = ["elsewhere"]
    site.queue.wanted = 1
    site.simulator.faults.add("status", status=500)
    files = [tmp_path / name for name in ("requests.db", "backoff.db", "gangs.db")]
    before = [file.read_bytes() if file.exists() else None for file in files]
    with pytest.raises(CycleCloudError):
        Autoscaler(site.config, site.queue).run_once()
    assert [f"start {name}" for names in joined for name in names] == list(site.ran)
    assert (len(site.ran), compared) == (1, [])
    assert [file.read_bytes() if file.exists() else None for file in files] == before


def test_what_is_known_of_the_cloud_outlives_a_pass_without_it(site, tmp_path):
    """A create whose reply was lost keeps no host from work, and is settled when CycleCloud can be
    read again; nodes that boot are remembered."""
    site.config["boot_timeout"] = 2 * LONG
    site.run(3)
    site.simulator.faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    site.simulator.faults.add("status", endpoint="get_nodes", calls=[3], status=500)
    site.queue.wanted = 4
    Autoscaler(site.config, site.queue).run_once()
    assert site.nodes == 2 and len(RequestLog(tmp_path / "requests.db").unsettled) == 1
    site.simulator.faults.add("status", status=500)
    site.config["on_premises"].append(site.host("rack-3"))
    backoff = BackoffFile(str(tmp_path / "backoff.db"))
    before = backoff.read()
    clock.sleep(LONG)
    with pytest.raises(CycleCloudError):
        Autoscaler(site.config, site.queue).run_once()
    assert site.ran["start rack-3"] == 1
    assert backoff.read() == before and before.boots
    site.simulator.faults.clear()
    assert site.run(5).created == ()
    assert RequestLog(tmp_path / "requests.db").unsettled == []


def test_hosts_are_served_while_none_of_several_clusters_answers(site):
    site.config["clusters"] = [{"name": "a", **site.simulator.connection("c")}]
    for key in ("cluster_name", "url", "username", "password"):
        site.config.pop(key, None)
    site.simulator.faults.add("status", status=500)
    site.queue.wanted = 9
    with pytest.raises(CycleCloudError):
        Autoscaler(site.config, site.queue).run_once()
    assert site.ran == {"start rack-1": 1, "start rack-2": 1}


def test_a_systemd_unit(site, tmp_path, monkeypatch):
    """Is started and stopped by systemctl, here or on the host."""
    for name in ("systemctl", "ssh"):
        script = tmp_path / name
        script.write_text(
            f'#!{sys.executable}\nimport sys\nwith open({str(site.log)!r}, "a") as f:\n'
            "    print(*sys.argv[1:], file=f)\n"
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    plain = {"resources": {"ncpus": 4}, "systemd_unit": "worker@1.service"}
    site.config["on_premises"] = [
        {"name": "rack-1", **plain},
        {"name": "rack-2", **plain, "ssh": "me@rack-2"},
    ]
    assert len(site.run(2).hosts_started) == 2
    remote = "-o BatchMode=yes -o ConnectTimeout=10 -- me@rack-2 systemctl start worker@1.service"
    assert site.ran == {"start worker@1.service": 1, remote: 1}


def test_a_damaged_file_of_states_ends_the_pass(site, tmp_path):
    """Unknown is never nothing."""
    (tmp_path / "on-premises.db").write_bytes(b"no database" * 100)
    with pytest.raises(HostStatesError, match=r"hosts on premises .*damaged.*move it away"):
        site.run(1)
    assert (site.nodes, site.ran) == (0, {})


def test_workers_by_number_come_to_hosts_first(site):
    """Each host counts for a node; the cloud takes the rest."""
    site.queue._read_jobs_and_nodes = lambda config: (WorkerDemand(30, 0, 10).jobs(), [])
    summary = site.run(0)
    assert (summary.hosts_started, len(summary.created)) == (("rack-1", "rack-2"), 1)
    assert site.run(0).created == ()
