"""An integration's command line over a cluster in memory, as its author would write it."""

import json

import pytest

from hpc.autoscale import clilib
from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job


class Scheduler(GenericDriver):
    """A scheduler with the jobs and hosts that the test gives it; `refuses` are names of nodes that do not drain."""

    def __init__(self):
        super().__init__("grid")
        self.jobs = []
        self.hosts = []
        self.refuses = set()
        self.joined = []

    def _read_jobs_and_nodes(self, config):
        return [Job.from_dict(job) for job in self.jobs], list(self.hosts)

    def add_nodes_to_cluster(self, nodes, include_permanent=False):
        self.joined.append(([node.name for node in nodes], include_permanent))
        return nodes

    def handle_draining(self, nodes):
        return [node for node in nodes if node.name not in self.refuses]

    def queue(self, name, slots=1, **constraints):
        """Add a job."""
        job = Job(name, {"ncpus": 1, **constraints}, iterations=slots)
        self.jobs.append(job.to_dict())


class GridCLI(clilib.CommonCLI):
    """All commands, and one of its own."""

    def __init__(self, scheduler, cluster):
        super().__init__("grid")
        self.scheduler = scheduler
        self.cluster = cluster
        self.initialized = []

    def _driver(self, config):
        return self.scheduler

    def _initialize(self, command, config):
        self.initialized.append(command)
        config["_mock_bindings"] = self.cluster

    def _default_output_columns(self, config):
        return ["name", "state", "job_ids"]

    def _initconfig_parser(self, parser):
        parser.add_argument("--queue", dest="grid__queue", default="all.q")

    def _initconfig(self, config):
        config["grid"]["done"] = True

    def _setup_shell_locals(self, config):
        return {"answer": 42}

    def hello_parser(self, parser):
        """Options of hello."""
        parser.add_argument("--name", default="world")

    def hello(self, config, name):
        """Greets."""
        print(f"hello {name}, {config['cluster_name']}")


class Grid:
    """The command line, its scheduler and its cluster, and a way of running commands."""

    def __init__(self, home, capsys):
        self.home = home
        self.capsys = capsys
        self.scheduler = Scheduler()
        self.cluster = MockClusterBinding("clusty")
        self.cluster.add_nodearray("htc", {})
        self.cluster.add_bucket("htc", "Standard_F4s", 10, 10)
        self.config = {"cluster_name": "clusty", "nodehistorydb": str(home / "history.db")}
        self.cli = None

    def __call__(self, *argv, code=0):
        """Run a command; what it printed on stdout. Anything on stderr is in `errors`."""
        (self.home / "autoscale.json").write_text(json.dumps(self.config))
        self.cli = GridCLI(self.scheduler, self.cluster)
        ended = 0
        try:
            clilib.main(list(argv), "grid", self.cli)
        except SystemExit as end:
            ended = end.code
        captured = self.capsys.readouterr()
        self.errors = captured.err
        assert ended == code, captured
        return captured.out

    def json(self, *argv):
        """Run a command that prints JSON."""
        return json.loads(self(*argv))


@pytest.fixture
def grid(tmp_path, monkeypatch, capsys):
    """A command line with ten nodes of four cores to start, in a home of its own."""
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    return Grid(tmp_path, capsys)
