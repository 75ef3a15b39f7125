"""A loop over a cluster whose server tells of nodes in records of which none can be made."""

import pytest

from builders.failing_cloud import F2, F4, a_site
from hpc.autoscale.ccbindings.errors import InconsistentStatus
from hpc.autoscale.simulator import cluster

GARBLED = [
    {"MachineType": 7},
    {"MachineType": None},
    {"Status": ["Ready"]},
    {"TargetState": None},
    {"Configuration": 5},
    {"CoreCount": "many"},
]
TWO_ARRAYS = {"htc": {"machine_types": [F4]}, "hpc": {"machine_types": [F2]}}


class Garbler:
    """What the server says of its nodes: as it is, but for some fields of those of a nodearray."""

    def __init__(self, true_record):
        self._true_record = true_record
        self.said = {}
        self.nodearray = "htc"

    def __call__(self, node):
        record = dict(self._true_record(node))
        if node.nodearray.name == self.nodearray:
            record.update(self.said)
        return record


@pytest.fixture
def garbler(monkeypatch):
    made = Garbler(cluster.node_record)
    monkeypatch.setattr(cluster, "node_record", made)
    return made


def passes(site, count):
    """So many passes, 10 s after each other: how many nodes each of them has made."""
    made = []
    for _ in range(count):
        site.run()
        made.append(site.made().total())
        site.wait(10)
    return made


@pytest.mark.parametrize("said", GARBLED, ids=lambda said: "-".join(said))
def test_nodes_of_unusable_records_are_not_made_again_and_again(garbler, tmp_path, said):
    """They are of no use, and so would others be that the same server makes."""
    garbler.said = said
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as site:
        site.want(3)
        made = passes(site, 20)
        assert made[:10] == [3, *[0] * 9]
        assert sum(made[10:]) <= 1  # one more is tried when the rest is over


def test_where_nobody_can_tell_what_nodes_are_of_nothing_is_made(garbler, tmp_path):
    """The nodearray counts nodes that the listing has not: that listing is no evidence."""
    garbler.said = {"Template": None}
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as site:
        site.want(3)
        site.run()
        site.wait(10)
        with pytest.raises(InconsistentStatus, match="lists 0 nodes of nodearray htc"):
            site.run()
        assert len(site.nodes()) == 3


def test_what_else_there_is_gets_the_work(garbler, tmp_path):
    """Only the bucket rests whose nodes are of no use."""
    garbler.said = {"CoreCount": "many"}
    with a_site(tmp_path, TWO_ARRAYS) as site:
        site.want(3)
        site.run()
        assert site.made() == {f"htc/{F4}": 3}
        site.wait(10)
        site.run()
        assert site.made() == {f"hpc/{F2}": 3}


def test_a_server_that_makes_sense_again_gets_all_the_work(garbler, tmp_path):
    """The first node that comes up ends the rest."""
    garbler.said = {"MachineType": None}
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as site:
        site.want(6)
        passes(site, 3)
        garbler.said = {}
        assert sum(passes(site, 6)) == 0  # the six are there after all
        assert len(site.nodes()) == 6


def test_a_record_that_was_good_is_no_eviction_when_it_is_unusable(garbler, tmp_path):
    """A spot node that was up is listed, so nobody took it back."""
    with a_site(tmp_path, {"htc": {"machine_types": [F4], "spot": True}}) as site:
        site.want(1)
        passes(site, 5)
        garbler.said = {"Status": ["Ready"]}
        site.run()
        assert site.made() == {f"htc/{F4}": 1}  # for the job, as spot nodes do not rest


@pytest.mark.parametrize("cores", [[1], {"a": 1}, "many"])
def test_what_is_wrong_with_a_number_is_said_in_plain_words(garbler, tmp_path, cores):
    """What was expected, and what is there."""
    garbler.said = {"CoreCount": cores}
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as site:
        site.want(1)
        site.run()
        site.wait(10)
        wrong = f"cannot be used: CoreCount: expected a number, found {cores!r}"
        assert site.run().notes == (f"node htc-1: set aside, its record {wrong}",)


def test_the_reason_is_named_where_jobs_wait(garbler, tmp_path):
    """The limit says which field is wrong."""
    garbler.said = {"MachineType": 7}
    with a_site(tmp_path, {"htc": {"machine_types": [F4]}}) as site:
        site.want(2)
        site.run()
        site.wait(10)
        summary = site.run()
        reasons = " ".join(str(each) for each in summary.unsatisfied)
        assert "in back-off (boot" in reasons
        assert "expected a text in its MachineType" in reasons
