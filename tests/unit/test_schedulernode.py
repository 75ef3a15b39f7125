"""Nodes as a scheduler reports them."""

import io
import json
import socket
import subprocess
import sys

import pytest

from hpc.autoscale import util
from hpc.autoscale.hpctypes import Memory, Size
from hpc.autoscale.job.schedulernode import SchedulerNode, TempNode


@pytest.fixture
def names(monkeypatch):
    """A name service that knows two hosts and counts questions."""
    asked = []

    def look_up(hostname):
        asked.append(hostname)
        if hostname == "known.example":
            return "10.0.0.4"
        if hostname == "strange":
            raise UnicodeError("label too long")
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "gethostbyname", look_up)
    return asked


def test_a_scheduler_node_is_a_running_host(names):
    """Only name and resources are known; the rest says so. Making one asks no name service."""
    node = SchedulerNode("host-1.example", {"ncpus": 4})
    assert (node.name, node.hostname, node.fqdn) == ("host-1.example", "host-1", "host-1.example")
    assert (node.nodearray, node.vm_size, node.location) == ("unknown", "unknown", "unknown")
    assert (node.state, node.exists, node.managed, node.keep_alive) == (
        "running",
        True,
        False,
        False,
    )
    assert (node.vcpu_count, node.gpu_count, node.memory) == (1, 0, Memory(0, "b"))
    assert dict(node.resources) == node.available == {"ncpus": 4}
    assert node.delayed_node_id.node_id is None
    assert not node.required
    assert names == []


def test_a_copy_asks_no_name_service(names):
    """Why jobs wait is worked out on copies of all hosts, each of which would wait for it; what is
    known of the address is copied."""
    node = SchedulerNode("known.example", {"ncpus": 4})
    assert (node.clone().private_ip, names) == (None, [])
    assert (node.private_ip, node.clone().private_ip) == ("10.0.0.4", "10.0.0.4")
    assert names == ["known.example"]


def test_bucket_ids():
    """A bucket id can be given; otherwise each node has one of its own."""
    assert SchedulerNode(hostname="a", resources={}, bucket_id="b").bucket_id == "b"
    assert SchedulerNode("a").bucket_id != SchedulerNode("a").bucket_id


def test_resources_are_copied():
    """Writing into a node does not write into the caller's dict."""
    given = {"ncpus": 4}
    node = SchedulerNode("a", given)
    node.available["ncpus"] = 1
    assert given == {"ncpus": 4}
    assert node.resources["ncpus"] == 4


def test_the_address_is_looked_up_once_when_read(names):
    """By the full name, and the answer is kept."""
    node = SchedulerNode("known.example")
    assert (node.private_ip, node.private_ip) == ("10.0.0.4", "10.0.0.4")
    assert names == ["known.example"]


@pytest.mark.parametrize("hostname", ["missing", "strange"])
def test_a_name_without_address_is_no_error(names, caplog, hostname):
    """It is a warning, once, and the address is None."""
    node = SchedulerNode(hostname)
    assert node.private_ip is None
    assert node.private_ip is None
    assert names == [hostname]
    assert caplog.text.count(f"Could not find the address of {hostname}") == 1


def test_an_empty_name_is_not_looked_up(names):
    """A host without a name has no address."""
    assert SchedulerNode("").private_ip is None
    assert names == []


def test_the_class_flag_suppresses_look_ups(names, monkeypatch):
    """With `ignore_hostnames` set on the class no name is looked up."""
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)
    assert SchedulerNode("known.example").private_ip is None
    assert names == []


def test_an_address_that_was_written_counts(names):
    """An address put into the node in the way that integrations do needs no look-up."""
    node = SchedulerNode("known.example")
    node._Node__private_ip = "10.1.1.1"
    assert node.private_ip == "10.1.1.1"
    assert names == []


def test_json_round_trip(names):
    """Through JSON and back everything is there, and it is a scheduler node again."""
    node = SchedulerNode("known.example", {"ncpus": 4, "memgb": Size(8, "g")}, "b")
    node.available["ncpus"] = 1
    node.assign("job-1")
    node.metadata["_running_job_"] = True
    written = node.to_dict()
    assert {"memory", "vcpu-count", "pcpu-count", "gpu-count"} <= set(written)
    text = io.StringIO()
    util.json_dump(written, text)
    loaded = json.loads(text.getvalue())
    again = SchedulerNode.from_dict(loaded)
    assert type(again) is SchedulerNode
    assert again.private_ip == "10.0.0.4"
    assert again.available == {"ncpus": 1, "memgb": Size(8, "g")}
    assert again.resources["ncpus"] == 4
    assert again.assignments == {"job-1"}
    assert again.metadata == {"_running_job_": True}
    assert again.memory == Memory(0, "b")
    assert (again.bucket_id, again.vcpu_count, again.state) == ("b", 1, "running")
    rewritten = io.StringIO()
    util.json_dump(again.to_dict(), rewritten)
    assert json.loads(rewritten.getvalue()) == json.loads(text.getvalue())


def test_from_dict_keeps_a_given_gpu_count():
    """GPUs that were stated come back."""
    data = {**SchedulerNode("").to_dict(), "gpu-count": 3}
    assert SchedulerNode.from_dict(data).gpu_count == 3


def test_names_ending_in_a_number_are_shown_as_hosts():
    """A host called like a bucket's example node is still shown as a host."""
    assert str(SchedulerNode("htc-0", bucket_id="b")) == repr(SchedulerNode("htc-0", bucket_id="b"))
    assert str(SchedulerNode("htc-0", bucket_id="b")) == "SchedulerNode(htc-0, b)"


def test_temp_node_takes_any_argument_of_a_node(names):
    """What is not given is as for a scheduler node; no name is looked up."""
    node = TempNode(
        "host",
        {"ncpus": 2},
        vm_size="Standard_F2s_v2",
        location="eastus",
        state="Ready",
        vcpu_count=-1,
    )
    assert (node.vm_size, node.state, node.vm_family) == (
        "Standard_F2s_v2",
        "Ready",
        "standardFSv2Family",
    )
    assert node.private_ip is None
    assert TempNode("host", private_ip="10.0.0.1", exists=False).private_ip == "10.0.0.1"
    with pytest.raises(TypeError):
        TempNode("host", no_such_argument=1)
    assert names == []


def test_the_old_module_name_warns():
    """Importing the old name warns and gives the same class."""
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    from hpc.autoscale.job.computenode import SchedulerNode\n"
        "assert any(w.category is DeprecationWarning and 'schedulernode' in str(w.message) for w "
        "in caught)\n"
        "from hpc.autoscale.job import schedulernode\n"
        "assert SchedulerNode is schedulernode.SchedulerNode\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("resources", ["ncpus", 4, [("ncpus", 4)]])
def test_resources_that_are_no_mapping(resources):
    """The error names the host and the argument."""
    with pytest.raises(AssertionError, match=r"host rack-1: expected resources to be .*, found"):
        SchedulerNode("rack-1", resources)
