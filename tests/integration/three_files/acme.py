"""An integration in the three files in which integrations are published: this module, the script
that packs it, and the one that installs it. Written against the published names only.

The scheduler, Acme, keeps its queue and its hosts in a JSON file, and starts jobs on hosts that are
up by itself.
"""

import json
import os
import sys

import six
from typing_extensions import TypedDict

from hpc.autoscale import clilib
from hpc.autoscale import hpclogging as logging
from hpc.autoscale.job import demandcalculator as dcalclib
from hpc.autoscale.job.demandprinter import print_demand
from hpc.autoscale.job.driver import SchedulerDriver
from hpc.autoscale.job.job import Job
from hpc.autoscale.job.nodequeue import NodeQueue
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.util import partition, partition_single

SchedulerNode.ignore_hostnames = True


class Host(TypedDict):
    """What Acme says of a host."""

    slots: int
    ccnodeid: str
    state: str


class Acme:
    """The scheduler's own commands."""

    def __init__(self, path):
        self.path = path

    def read(self):
        """Jobs by id and hosts by name."""
        with open(self.path, encoding="utf-8") as stream:
            said = json.load(stream)
        return said["jobs"], said["hosts"]

    def write(self, jobs, hosts):
        """Change both at once."""
        unfinished = self.path + ".new"
        with open(unfinished, "w", encoding="utf-8") as stream:
            json.dump({"jobs": jobs, "hosts": hosts}, stream)
        os.replace(unfinished, self.path)


class FullestFirst(NodeQueue):
    """Hosts with little room are filled first."""

    def node_priority(self, node):
        return -node.available.get("slots", 0)


class AcmeDriver(SchedulerDriver):
    """What Acme must be told, and what it says. It is asked once, and the answer kept."""

    def __init__(self, acme):
        super().__init__("acme")
        self.acme = acme
        self.__jobs_cache = None
        self.__hosts_cache = None

    def initialize(self):
        logging.debug("resources of %s are defined", self.acme.path)

    def preprocess_config(self, config):
        slots = {"select": {}, "name": "slots", "value": "node.vcpu_count"}
        config["default_resources"] = [*config.get("default_resources", []), slots]
        return config

    def new_node_queue(self, config):
        return FullestFirst()

    def _read_jobs_and_nodes(self, config):
        if self.__jobs_cache is None:
            self._ask()
        return self.__jobs_cache, self.__hosts_cache

    def _ask(self):
        jobs, hosts = self.acme.read()
        nodes = {name: self._node(name, host) for name, host in six.iteritems(hosts)}
        self.__jobs_cache = []
        for name, said in six.iteritems(jobs):
            job = Job(name, {"slots": said["slots"]}, iterations=1)
            job.metadata["job_state"] = "running" if said["state"] == "R" else "queued"
            if said["host"]:
                job.executing_hostnames.append(said["host"])
                node = nodes[said["host"]]
                node.available["slots"] -= said["slots"]
                node.assign(name)
                node.metadata["_running_job_"] = True
            self.__jobs_cache.append(job)
        self.__hosts_cache = list(nodes.values())

    def _node(self, name, host):
        node = SchedulerNode(name, {"slots": host["slots"], "ccnodeid": host["ccnodeid"]})
        node.metadata["acme_state"] = host["state"]
        node.closed = host["state"] == "closed"
        return node

    def validate_nodes(self, scheduler_nodes, cc_nodes):
        """A host whose VM is lost stays in Acme's list as `down`: nothing can be planned on it, and
        it goes."""
        ours = {node.delayed_node_id.node_id for node in cc_nodes}
        for node in scheduler_nodes:
            if node.metadata["acme_state"] == "down" and node.resources["ccnodeid"] not in ours:
                node.closed = True
                node.marked_for_deletion = True

    def add_nodes_to_cluster(self, nodes, include_permanent=False):
        jobs, hosts = self.acme.read()
        joined = []
        for node in nodes:
            if node.state != "Ready" or not node.hostname:
                continue
            known = hosts.get(node.hostname, {})
            if known.get("ccnodeid") != node.resources["ccnodeid"]:
                slots, node_id = node.resources["slots"], node.resources["ccnodeid"]
                hosts[node.hostname] = Host(slots=slots, ccnodeid=node_id, state="up")
            elif known["state"] == "closed":
                known["state"] = "up"
            joined.append(node)
        self.acme.write(jobs, hosts)
        return joined

    def handle_post_join_cluster(self, nodes):
        return nodes

    def handle_failed_nodes(self, nodes):
        return self.handle_post_delete(nodes)

    def handle_boot_timeout(self, nodes):
        return nodes

    def handle_draining(self, nodes):
        jobs, hosts = self.acme.read()
        busy = {job["host"] for job in jobs.values()}
        for node in nodes:
            if node.hostname in hosts and hosts[node.hostname]["state"] == "up":
                hosts[node.hostname]["state"] = "closed"
        self.acme.write(jobs, hosts)
        return [node for node in nodes if node.hostname not in busy]

    def handle_post_delete(self, nodes):
        jobs, hosts = self.acme.read()
        gone = {node.hostname for node in nodes}
        self.acme.write(jobs, {name: host for name, host in hosts.items() if name not in gone})
        return nodes


class AcmeCLI(clilib.CommonCLI):
    """azacme."""

    def __init__(self):
        clilib.CommonCLI.__init__(self, "acme")

    def _driver(self, config):
        return AcmeDriver(Acme(config["acme"]["database"]))

    def _demand_calc(self, config, driver):
        """Running jobs have their hosts, and want no others."""
        jobs, scheduler_nodes = driver.read_jobs_and_nodes(config)
        node_mgr = new_node_manager(config)
        driver.preprocess_node_mgr(config, node_mgr)
        dcalc = dcalclib.new_demand_calculator(
            config,
            existing_nodes=scheduler_nodes,
            node_mgr=node_mgr,
            node_history=driver.new_node_history(config),
            node_queue=driver.new_node_queue(config),
            singleton_lock=driver.new_singleton_lock(config),
        )
        by_state = partition(jobs, lambda job: job.metadata["job_state"])
        return dcalc, by_state.get("queued", [])

    def hosts(self, config):
        """Shows the hosts, and what runs on them."""
        driver, dcalc, nodes = self._find_nodes(config, ["*"], [])
        running = partition_single(
            [job for job in driver.read_jobs_and_nodes(config)[0] if job.executing_hostnames],
            lambda job: job.name,
        )
        demand = dcalc.get_demand()
        print_demand(["name", "hostname", "job_ids", "*slots"], demand, output_format="json")
        logging.info("%s jobs run on %s nodes", len(running), len(nodes))

    def _default_output_columns(self, config):
        return [
            "name",
            "hostname",
            "job_ids",
            "state",
            "vm_size",
            "/slots",
            "ctr@create_time_remaining",
        ]

    def _initconfig_parser(self, parser):
        parser.add_argument("--database", dest="acme__database", required=True)

    def _initconfig(self, config):
        config["output_columns"] = self._default_output_columns(config)

    def _setup_shell_locals(self, config):
        driver = self._driver(config)
        return {"driver": driver, "jobs": driver.read_jobs_and_nodes(config)[0]}


def main():
    """The command."""
    clilib.main(sys.argv[1:], "acme", AcmeCLI())


if __name__ == "__main__":
    main()
