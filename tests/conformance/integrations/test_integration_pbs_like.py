"""The life of a cluster under an integration in the style of PBS Professional's, over several
passes."""

import json

import pytest

from builders.pbs_like import PBSCLI, Driver, Server, autoscale, new_demand_calculator
from hpc.autoscale import clilib, clock
from hpc.autoscale.ccbindings.mock import MockClusterBinding


class Site:
    """A cluster, its scheduler and a clock that moves when it is told to."""

    def __init__(self, home):
        self.now = clock.use_mock_clock()
        self.cluster = MockClusterBinding("clusty")
        self.cluster.add_nodearray("execute", {}, max_placement_group_size=2)
        self.cluster.add_bucket("execute", "Standard_F4", 10, 10)
        self.server = Server()
        self.driver = Driver(self.server)
        self.config = {
            "cluster_name": "clusty",
            "_mock_bindings": self.cluster,
            "lock_file": str(home / "lock"),
            "idle_timeout": 300,
            "boot_timeout": 1800,
            "assume_standalone_hostnames": True,
            "nodearrays": {"default": {"generated_placement_group_buffer": 1}},
        }

    def run(self, **more):
        """One pass by the integration's own loop."""
        return autoscale({**self.config, **more}, self.driver)

    def boot(self):
        """Every node that was asked for comes up."""
        fresh = [n for n, node in self.cluster.nodes.items() if not node.private_ip]
        self.cluster.assign_ip(fresh)
        self.cluster.update_state("Ready", fresh)

    @property
    def running(self):
        """Names of the nodes that CycleCloud lists."""
        return [r["Name"] for r in self.cluster.get_nodes().nodes]


@pytest.fixture
def site(tmp_path):
    """An empty cluster."""
    return Site(tmp_path)


def test_jobs_come_and_go(site):
    """Nodes are created for jobs, joined when they are up, kept while they work, and deleted when
    idle."""
    site.server.qsub("1", chunks=6)
    demand, *_ = site.run()
    assert [n.name for n in demand.new_nodes] == site.running == ["execute-1", "execute-2"]
    assert site.server.hosts == {}

    site.boot()
    demand, nodes, *_ = site.run()
    assert demand.new_nodes == []
    assert sorted(site.server.hosts) == ["ip-0A010002", "ip-0A010003"]
    assert site.server.hosts["ip-0A010002"]["resources"]["ccnodeid"] == (
        nodes["execute-1"].delayed_node_id.node_id
    )

    site.server.run("1", ip_0A010002=4, ip_0A010003=2)
    site.now.sleep(4000)
    demand, nodes, deleted, _ = site.run()
    assert {n.name for n in demand.matched_nodes} == {"execute-1", "execute-2"}
    assert nodes["execute-1"].assignments == {"1"}
    assert [nodes[n].available["ncpus"] for n in ("execute-1", "execute-2")] == [0, 2]
    assert (deleted.nodes, demand.new_nodes) == (None, [])

    site.server.finish("1")
    site.run()
    site.now.sleep(301)
    _, _, deleted, _ = site.run()
    assert sorted(n.name for n in deleted.nodes) == ["execute-1", "execute-2"]
    assert site.running == []


def test_the_scheduler_forgets_deleted_nodes_by_their_host_names(site):
    """handle_post_delete gets the nodes under the names by which they were joined."""
    site.server.qsub("1")
    site.run()
    site.boot()
    site.run()
    site.server.jobs.clear()
    site.run()
    site.now.sleep(301)
    site.run()
    assert (site.server.hosts, site.running) == ({}, [])


def test_a_drained_node_that_is_wanted_again_comes_back(site):
    """A job that arrives while a node is being drained finds it, and the driver puts it back to
    work."""
    site.server.qsub("1")
    site.run()
    site.boot()
    site.run()
    site.server.jobs.clear()
    site.server.hosts["ip-0A010002"]["state"] = "offline"
    site.server.qsub("2")
    demand, *_ = site.run()
    assert ([n.name for n in demand.new_nodes], site.server.hosts["ip-0A010002"]["state"]) == (
        [],
        "free",
    )


def test_licences_limit_what_is_started(site):
    """Twelve chunks that each need a licence, of which there are five; other jobs go on."""
    site.server.licences["ansys"] = 5
    site.server.qsub("1", chunks=12, ncpus=4, ansys=1)
    site.server.qsub("2", chunks=1, ncpus=4)
    demand, _, _, ctx = site.run()
    assert len(demand.new_nodes) == 6
    assert site.driver.pools["ansys"].current_value == 0
    assert ctx.by_context["[Job 1]"]
    site.boot()
    again, *_ = site.run()
    assert (again.new_nodes, len(site.running)) == ([], 6)


def test_a_value_of_the_server_holds_a_job_back(site):
    """Until it is what the job asks for."""
    site.server.qsub("1", ncpus=4, mode="night")
    by_day, *_ = site.run()
    site.server.mode = "night"
    by_night, *_ = site.run()
    assert (by_day.new_nodes, len(by_night.new_nodes)) == ([], 1)


def test_a_group_fits_one_placement_group_or_waits(site):
    """Groups hold two nodes here: two scattered chunks start together, three never, and leave no
    trace."""
    site.server.qsub("big", chunks=3, place="scatter:group:excl", ncpus=1)
    site.server.qsub("fits", chunks=2, place="scatter:group:excl", ncpus=1)
    demand, *_ = site.run()
    groups = {n.placement_group for n in demand.new_nodes}
    assert [n.assignments for n in demand.new_nodes] == [{"fits"}, {"fits"}]
    assert groups == {"Standard_F4_pg0"}
    assert {n.resources["group_id"] for n in demand.new_nodes} == groups
    records = site.cluster.get_nodes().nodes
    assert {r["PlacementGroupId"] for r in records} == groups
    assert site.cluster.nodearrays["execute"].buckets[0].available_count == 8


def test_memory_in_units_of_pbs(site):
    """Nodes have what is left of 8 GB after the one that the configuration subtracts."""
    site.server.qsub("fits", ncpus=1, mem="7gb")
    site.server.qsub("not", ncpus=1, mem="7300mb")
    demand, *_ = site.run()
    assert [n.assignments for n in demand.new_nodes] == [{"fits"}]
    assert str(demand.new_nodes[0].available["mem"]) == "0.00g"


def test_nodes_that_do_not_come_up_are_given_up(site):
    """After the boot timeout; failed ones leave the scheduler at once."""
    site.server.qsub("1", chunks=2, ncpus=4)
    site.run()
    site.cluster.update_state("Preparing")
    site.run()
    site.now.sleep(1801)
    site.server.jobs.clear()
    _, _, deleted, _ = site.run()
    assert sorted(n.name for n in deleted.nodes) == ["execute-1", "execute-2"]


def test_on_premises_hosts_are_used_first(site):
    """A host that CycleCloud does not know takes work before any node is started, and is never
    deleted."""
    site.server.hosts["tux"] = {"resources": {"ncpus": 16}, "jobs": {}, "state": "free"}
    site.server.qsub("1", chunks=10)
    demand, *_ = site.run()
    assert demand.new_nodes == []
    site.server.jobs.clear()
    site.now.sleep(10_000)
    _, _, deleted, _ = site.run()
    assert not deleted.nodes
    assert site.running == []


@pytest.fixture
def azpbs(site, tmp_path, capsys, monkeypatch):
    """Runs a command of azpbs on the site; what it printed."""

    def run(*argv, code=0, cli=PBSCLI):
        config = {key: value for key, value in site.config.items() if key != "_mock_bindings"}
        (tmp_path / "autoscale.json").write_text(json.dumps(config))
        ended = 0

        class OnSite(cli):
            def _initialize(self, command, config):
                config["_mock_bindings"] = site.cluster
                super()._initialize(command, config)

        try:
            clilib.main(list(argv), "pbspro", OnSite(site.driver))
        except SystemExit as end:
            ended = end.code
        captured = capsys.readouterr()
        assert ended == code, captured.err
        return captured.out

    return run


def test_the_same_life_by_the_command_line(site, azpbs):
    """autoscale, nodes, delete: the commands go through the integration's own methods."""
    site.server.qsub("1", chunks=6)
    azpbs("autoscale")
    site.boot()
    azpbs("autoscale")
    site.server.run("1", ip_0A010002=4, ip_0A010003=2)
    table = azpbs("autoscale").splitlines()
    assert table[0].split()[:4] == ["NAME", "HOSTNAME", "PBS_STATE", "JOB_IDS"]
    assert [line.split()[:4] for line in table[1:]] == [
        ["execute-1", "ip-0A010002", "job-busy", "1"],
        ["execute-2", "ip-0A010003", "job-busy", "1"],
    ]
    assert "1" in azpbs("demand")
    site.server.finish("1")
    azpbs("autoscale")
    site.now.sleep(301)
    azpbs("autoscale")
    assert (site.server.hosts, site.running) == ({}, [])


class ComparingDriver(Driver):
    """Forgets hosts whose node CycleCloud lists no more."""

    def validate_nodes(self, scheduler_nodes, cc_nodes):
        listed = {node.delayed_node_id.node_id for node in cc_nodes}
        for host in scheduler_nodes:
            if host.resources.get("ccnodeid") not in {None, *listed}:
                self.server.hosts.pop(host.hostname)


class OwnDemandCLI(PBSCLI):
    """Makes the demand calculator itself, from the first line to the last."""

    def _demand_calc(self, config, driver):
        jobs, hosts = driver.read_jobs_and_nodes(config)
        dcalc = new_demand_calculator(config, driver, jobs, hosts)
        return dcalc, [j for j in jobs if j.metadata.get("job_state") != "running"]


def test_work_does_not_wait_for_a_host_whose_vm_is_lost(site, azpbs):
    """Also where the integration calculates demand itself: the pass has the driver compare hosts
    and nodes."""
    site.driver = ComparingDriver(site.server)
    site.server.qsub("1", chunks=4)
    azpbs("autoscale", cli=OwnDemandCLI)
    site.boot()
    azpbs("autoscale", cli=OwnDemandCLI)
    (host,) = site.server.hosts
    site.server.run("1", **{host.replace("-", "_"): 4})
    (lost,) = site.running
    site.cluster.remove_nodes(names=[lost])
    site.server.finish("1")
    site.server.qsub("1", chunks=4)
    azpbs("autoscale", cli=OwnDemandCLI)
    assert site.server.hosts == {}
    azpbs("autoscale", cli=OwnDemandCLI)
    assert len(site.running) == 1


def test_a_node_removed_for_good_does_not_join_again(site, azpbs):
    """remove_nodes --permanent marks it in the history, which the driver reads; --include-permanent
    takes it back."""
    site.server.qsub("1")
    azpbs("autoscale")
    site.boot()
    azpbs("autoscale")
    site.server.jobs.clear()
    azpbs("remove_nodes", "-N", "execute-1", "--permanent", "--force")
    assert site.server.hosts == {}
    azpbs("autoscale")
    assert (site.server.hosts, site.running) == ({}, ["execute-1"])
    azpbs("join_nodes", "-N", "execute-1", "--include-permanent")
    assert list(site.server.hosts) == ["ip-0A010002"]


def test_the_shell_has_nodes_and_jobs_by_name(site, azpbs, tmp_path):
    """With `k_` before a job's number, and resources to be read by attribute of what is
    available."""
    site.server.qsub("17", chunks=2)
    azpbs("autoscale")
    script = tmp_path / "look.py"
    script.write_text("print(jobs.k_17.iterations, nodes.execute_1.available.ncpus)")
    assert azpbs("shell", "--script", str(script)).split() == ["2", "4"]


def test_initconfig_writes_a_bare_pattern_of_host_names(azpbs):
    """The text `.+`, which must let every name pass."""
    config = json.loads(
        azpbs("initconfig", "--cluster-name", "c", "--username", "u", "--url", "https://cc")
    )
    assert config["valid_hostnames"] == ".+"
    assert config["pbspro"] == {"ignore_queues": []}
    assert config["output_columns"][-1] == "ctr@create_time_remaining"
