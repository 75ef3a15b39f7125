"""Several clusters as one, over HTTP: the loop and `azscale` against three servers whose nodes have
the same names, NodeIds and host names, and what becomes of the others when one of them fails."""

import json
import re
import sqlite3
import threading
from collections import Counter
from contextlib import closing, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from builders.command_lines import at_home
from builders.several_clusters import SIZE, several_clusters
from builders.waiting_queue import WaitingQueue
from hpc.autoscale import cli
from hpc.autoscale.autoscaler import Autoscaler
from hpc.autoscale.ccbindings.session import Session
from hpc.autoscale.job.schedulernode import SchedulerNode
from hpc.autoscale.node.requests import RequestLog
from hpc.autoscale.simulator import serve
from hpc.autoscale.testing import without_guard

QUOTAS = {"east": 3, "west": 4, "north": None}


@pytest.fixture
def clusters(tmp_path):
    """Three of them; the quota of two is soon reached."""
    with several_clusters(tmp_path, QUOTAS) as running:
        yield running


def names(clusters, name):
    """The nodes of a server, as they are called everywhere else."""
    return {f"{name}/{node['Name']}" for node in clusters[name].cluster("c").nodes()}


def test_the_union_is_filled_cluster_by_cluster(clusters):
    """Each to its own quota; every node has its cluster before its name, and is joined by it."""
    first = clusters.run(10)
    assert (first.ok, clusters.counts()) == (True, {"east": 3, "west": 4, "north": 3})
    assert set(first.created) == set().union(*(names(clusters, each) for each in QUOTAS))
    clusters.after(600)
    second = clusters.run(10)
    assert (second.created, set(second.joined)) == ((), set(first.created))


def test_limits_are_those_of_each_cluster(clusters):
    """Also of two in one region: reasons name the cluster."""
    del clusters.entries["north"]
    summary = clusters.run(9)
    assert len(summary.created) == 7
    said = summary.unsatisfied[0].limit
    assert "Region(eastus) of east" in said and "Region(westus2) of west" in said


def break_500(clusters):
    """Every request is an error."""
    clusters["west"].faults.add("status", status=500)


def break_password(clusters):
    """The credentials are wrong."""
    clusters.entries["west"]["password"] = "wrong"


def break_settings(clusters):
    """The file with the credentials is not there."""
    del clusters.entries["west"]["password"]
    clusters.entries["west"]["credentials_file"] = "/does/not/exist"


def break_silence(clusters):
    """Nobody answers."""
    clusters["west"].faults.add("latency", seconds=2)
    clusters.entries["west"]["timeout"] = 0.1


def break_listing(clusters):
    """The listing has none of the nodes that the buckets count."""
    clusters["west"].faults.add("empty_nodes", endpoint="get_nodes")


def break_page(clusters):
    """A page for people, with status 200."""
    clusters["west"].faults.add("html", endpoint="get_cluster_status")


def shrunk(clusters, hosts=()):
    """The nodes that go within four minutes without work."""
    gone = set()
    for _ in range(4):
        clusters.after(60)
        gone.update(clusters.run(0, hosts).deleted)
    return gone


BROKEN = [break_500, break_password, break_settings, break_silence, break_listing, break_page]


@pytest.mark.parametrize("break_it", BROKEN)
def test_one_of_three_fails_and_the_others_scale_in_the_same_pass(clusters, break_it):
    """It is named as an error once, and is sent no command; its nodes are not forgotten, and the
    scheduler is given none of them."""
    clusters.run(8)
    clusters.after(600)
    sent = len(clusters.changes("west"))
    break_it(clusters)
    up = clusters.run(10)
    assert set(up.created) == {f"north/htc-{number}" for number in range(2, 8)}
    assert {name.partition("/")[0] for name in up.joined} == {"east", "north"}
    assert [error.phase for error in up.errors] == ["reading the clusters"]
    assert "cluster west is set aside" in up.errors[0].message
    assert len(clusters.changes("west")) == sent
    assert {n["TargetState"] for n in clusters["west"].cluster("c").nodes()} == {"Started"}
    with closing(sqlite3.connect(clusters.home / "nodehistory.db")) as history:
        gone = "SELECT count(*) FROM nodes WHERE delete_time IS NOT NULL"
        assert history.execute(gone).fetchone() == (0,)


def test_the_others_shrink_too_and_its_idle_nodes_wait_until_it_is_back(clusters):
    """Idle time begins anew when it answers again."""
    clusters.settings["idle_timeout"] = 1
    clusters.settings["autoscale"] = {"min_idle_passes": 1, "max_delete_share": None}
    clusters.run(8)
    clusters.after(600)
    break_500(clusters)
    clusters.run(8)
    assert shrunk(clusters) == {f"east/htc-{n}" for n in range(1, 4)} | {
        f"north/htc-{n}" for n in range(1, 6)
    }
    clusters["west"].faults.clear()
    back = clusters.run(0)
    assert back.ok and not back.deleted
    assert {"west/htc-1", "west/htc-4"} <= set(back.joined)
    assert shrunk(clusters) == {f"west/htc-{n}" for n in range(1, 5)}


def test_the_share_that_may_go_is_of_nodes_that_are_known(clusters):
    """Half of the four that the others have, and of all six once it is back."""
    clusters.settings["idle_timeout"] = 1
    clusters.settings["autoscale"] = {"min_idle_passes": 1, "max_delete_share_above": 2}
    clusters.run(8)
    clusters.after(600)
    break_500(clusters)
    assert len(clusters.run(0).deleted) == 2
    clusters["west"].faults.clear()
    clusters.after(600)
    assert len(clusters.run(0).deleted) == 3


@pytest.mark.parametrize("guarded", [True, False])
def test_nothing_goes_of_a_cluster_that_falls_silent_before_the_second_look(clusters, guarded):
    """Its nodes have idled long enough. The guard says why they stay, and without it the binding
    sends nothing either."""
    clusters.settings["idle_timeout"] = 1
    clusters.settings["autoscale"] = {"min_idle_passes": 1, "max_delete_share": None}
    clusters.run(8)
    clusters.after(600)
    clusters["west"].faults.add("status", status=500, endpoint="get_cluster_status", calls=[2])
    sent = len(clusters.changes("west"))
    with nullcontext() if guarded else without_guard("cluster-answers"):
        found = clusters.run(0)
    assert {name.partition("/")[0] for name in found.drained} == {"east", "north", "west"}
    assert {name.partition("/")[0] for name in found.deleted} == {"east", "north"}
    assert len(clusters.changes("west")) == sent
    said = {each.code for each in found.refused if each.node.name.startswith("west/")}
    assert ("ClusterAway" in said) == guarded


def test_nothing_is_done_when_no_cluster_answers(clusters):
    """The pass ends, and says what is wrong with each."""
    for name in QUOTAS:
        clusters[name].faults.add("status", status=503)
    with pytest.raises(Exception, match=r"cluster east is .*cluster west is .*cluster north is"):
        clusters.run(3)


def test_a_create_that_fails_in_one_cluster_is_made_in_the_others(clusters):
    """And made up for by the next pass; a reply that was lost makes no node twice."""
    clusters["west"].faults.add("status", endpoint="create_nodes", status=400, calls=[1])
    clusters["north"].faults.add("lost_reply", endpoint="create_nodes", calls=[1])
    first = clusters.run(10)
    assert clusters.counts() == {"east": 3, "west": 0, "north": 3}
    assert {name.split("/")[0] for name in first.created} >= {"east"}
    assert any("HTTP 400" in note for note in first.notes)
    clusters.settings["backoff"] = {"enabled": False}
    clusters.run(10)
    assert clusters.counts() == {"east": 3, "west": 4, "north": 3}


def test_a_removal_in_doubt_waits_until_its_cluster_is_back(clusters):
    """Nobody takes its nodes for gone meanwhile, also where nothing is known of the cluster."""
    clusters.run(4)
    log = RequestLog(str(clusters.home / "requests.db"))
    log.begin_removal("west/r", "shutdown_nodes", [("west/id", "west/htc-1")])
    clusters["west"].faults.add("status", status=500)
    (clusters.home / "clusters.db").unlink()
    assert clusters.run(4).errors
    assert [removal.node_id for removal in log.removals] == ["west/id"]
    clusters["west"].faults.clear()
    clusters.run(4)
    assert not log.removals


def test_a_file_of_what_clusters_had_that_is_damaged(clusters):
    """Is a note of each pass, whether it is written to or read; it says what to do."""
    clusters.run(2)
    (clusters.home / "clusters.db").write_text("no database")
    (note,) = clusters.run(2).notes
    assert "clusters.db: it is damaged (file is not a database): delete it" in note
    assert note.endswith("what clusters have is not remembered")
    break_500(clusters)
    notes = clusters.run(2).notes
    assert notes[0].endswith("what cluster west had is not known") and notes[1] == note


@pytest.mark.parametrize(
    ("look", "why"),
    [
        ("cast(x'ff' || look as text)", "Could not decode to UTF-8 column 'look'"),
        ("'{'", "JSONDecodeError: .*"),
        ("json_remove(look, '$.nodes')", "KeyError: 'nodes'"),
        ("json_set(look, '$.status.nodearrays', 5)", ".*nodearrays.*"),
    ],
    ids=range(4),
)
def test_a_row_of_what_clusters_had_that_is_damaged(clusters, look, why):
    """Is a note with the file and what to do, in a line, while the cluster does not answer."""
    clusters.run(2)
    with sqlite3.connect(clusters.home / "clusters.db") as db:
        db.execute(f"UPDATE looks SET look = {look}")
    db.close()
    break_500(clusters)
    (note,) = clusters.run(2).notes
    said = rf"what clusters had .*/clusters.db: it is damaged \({why}\): delete it; .*"
    assert re.fullmatch(rf"{said}; what cluster west had is not known", note), note
    assert len(note) < 500


def a_host(clusters, name, number, is_busy):
    """A host as the scheduler has it: its node says which one it is by the id that it knows."""
    node = clusters[name].cluster("c").nodes()[number]
    resources = {"ncpus": 4, "ccnodeid": node["NodeId"]}
    host = SchedulerNode(f"{name}-{number}", resources)
    if is_busy:
        host.assign(f"job-{name}-{number}")
    return host


def test_hosts_of_nodes_that_share_an_id_are_no_evidence(clusters, monkeypatch):
    """A host that one node of several may be keeps all of them; no other node is kept for it."""
    monkeypatch.setattr(SchedulerNode, "ignore_hostnames", True)
    del clusters.entries["north"]
    clusters.settings["idle_timeout"] = 1
    clusters.settings["autoscale"] = {"min_idle_passes": 1, "max_delete_share": None}
    clusters.run(5)
    clusters.after(600)
    ids = [n["NodeId"] for name in ("east", "west") for n in clusters[name].cluster("c").nodes()]
    assert len(set(ids)) == 3  # five nodes
    busy = a_host(clusters, "west", 0, is_busy=True)
    assert shrunk(clusters, [busy]) == {"east/htc-2", "east/htc-3", "west/htc-2"}


def test_a_host_that_says_its_own_id_is_no_news(clusters, caplog):
    """Its machine does not know what its cluster is called; the node keeps the id that says so."""
    del clusters.entries["east"], clusters.entries["north"]
    clusters.run(1)
    clusters.after(600)
    host = a_host(clusters, "west", 0, is_busy=False)
    host.metadata["rack"] = 7
    summary = clusters.run(0, [host])
    (node,) = summary.demand.compute_nodes
    assert node.resources["ccnodeid"] == node.delayed_node_id.node_id
    assert node.metadata["rack"] == 7
    assert "ccnodeid" not in caplog.text


WEIGHTS = {"eastus": 3, "westus2": 1, "northeurope": 0}


def test_weights_of_regions_hold_over_clusters(clusters):
    """Over several passes; what a region cannot take spills over, is not moved back when it can
    again, and its nodes count while its cluster does not answer."""
    clusters.settings["packing"] = {"policy": {"regions": WEIGHTS}}
    clusters.settings["backoff"] = {"enabled": False}
    clusters.run(4)
    assert clusters.counts() == {"east": 3, "west": 1, "north": 0}
    clusters.after(600)
    clusters.run(7)
    assert clusters.counts() == {"east": 3, "west": 4, "north": 0}
    clusters["east"].faults.add("status", status=500)
    clusters.settings["packing"]["policy"]["regions"] = {**WEIGHTS, "northeurope": 3}
    clusters.run(8)
    # its three nodes are there, and nobody knows whether they have work: north is short
    assert clusters.counts() == {"east": 3, "west": 4, "north": 4}


def test_regions_of_one_cluster_go_by_the_same_rules(tmp_path):
    """A region without capacity rests, and the others take its share."""
    arrays = {
        name: {"machine_types": [SIZE], "region": region}
        for name, region in (("a", "eastus"), ("b", "westus2"), ("c", "northeurope"))
    }
    description = {"clusters": {"c": {"region": "eastus", "nodearrays": arrays}}}
    with serve(description) as server:
        server.set_capacity("eastus", **{SIZE: 3})
        config = {
            **server.connection("c"),
            "lock_file": None,
            "nodehistorydb": str(tmp_path / "nodehistory.db"),
            "packing": {"policy": {"regions": WEIGHTS}},
        }

        def live():
            server.clock.settle()
            nodes = server.cluster("c").nodes()
            return Counter(n["Region"] for n in nodes if n["Status"] == "Ready")

        found = []
        for _ in range(3):
            Autoscaler(config, WaitingQueue(8)).run_once()
            found.append(live())
        assert found[0] == {"eastus": 3, "westus2": 2}
        assert found[-1] == {"eastus": 3, "westus2": 5}


@pytest.fixture
def azscale(clusters, azscale_of):
    """Run a command of azscale; what it printed, and what it said on stderr."""
    return partial(azscale_of, clusters)


@pytest.fixture
def azscale_of(tmp_path, monkeypatch, capsys):
    """The same for other clusters, which come before the command."""
    at_home(monkeypatch, tmp_path)
    path = tmp_path / "autoscale.json"

    def run(clusters, command, *args, code=0):
        path.write_text(json.dumps(clusters.config))
        path.chmod(0o600)
        ended = 0
        try:
            cli.main([command, "-c", str(path), *args])
        except SystemExit as end:
            ended = end.code
        captured = capsys.readouterr()
        assert ended == code, captured
        return captured.out + captured.err

    return run


def test_a_create_of_a_cluster_that_was_taken_out_of_the_configuration(clusters, azscale_of):
    """Nobody asks that server whether it happened, and that is said."""
    log = RequestLog(str(clusters.home / "requests.db"))
    kept = [log.begin("west/r", "west"), log.begin("east/r", "east")]
    del clusters.entries["west"]
    rows = json.loads(azscale_of(clusters, "requests", "--ask", "-F", "json"))
    assert {row["request_id"]: row["server"] for row in rows} == dict(
        zip(
            kept,
            ["not asked: the configuration has no cluster west", "does not know it"],
            strict=True,
        )
    )


def test_azscale_names_the_cluster_of_everything(clusters, azscale, tmp_path):
    """Each command shows it, takes it, and finds the right one by it."""
    made = azscale("create_nodes", "-a", "htc", "-n", "2", code=2)
    assert "east/htc" in made  # the nearest that there is
    azscale("create_nodes", "-a", "west/htc", "-n", "2")
    azscale("create_nodes", "-a", "east/htc", "-n", "1")
    clusters.after(600)
    assert clusters.counts() == {"east": 1, "west": 2, "north": 0}
    listed = azscale("nodes", "-o", "name,nodearray,ccnodeid", "-F", "json")
    assert {node["name"] for node in json.loads(listed)} == {
        "east/htc-1",
        "west/htc-1",
        "west/htc-2",
    }
    for verb in ("buckets", "limits"):
        assert all(f"{name}/htc" in azscale(verb) for name in QUOTAS)
    assert azscale("connect") == ""
    azscale("restart_nodes", "-N", "west/htc-2", "--force")
    deleted = azscale("delete_nodes", "-N", "west/htc-1", "--force")
    assert "west/htc-1" in deleted
    targets = {n["Name"]: n["TargetState"] for n in clusters["west"].cluster("c").nodes()}
    assert targets["htc-2"] == "Started" and targets.get("htc-1") != "Started"
    assert clusters["east"].cluster("c").nodes()[0]["TargetState"] == "Started"
    wrong = azscale("delete_nodes", "-N", "wst/htc-2", "--force", code=1)
    assert "did you mean 'west/htc-2'?" in wrong
    azscale("retry_failed_nodes")
    assert "east/htc" in azscale("debug_cluster_status")
    clusters.settings["cost"] = {"prices_url": "http://127.0.0.1:9/", "cache_root": str(tmp_path)}
    until = datetime.fromtimestamp(clusters["east"].clock.now(), UTC)
    times = [(until - timedelta(hours=hours)).isoformat() for hours in (2, 0)]
    spent = azscale("cost", "--start", times[0], "--end", times[1])
    assert "east/htc" in spent and "west/htc" in spent


def test_azscale_says_which_cluster_is_away(clusters, azscale):
    """What is known of the others is printed all the same; its nodes are as they were last."""
    azscale("create_nodes", "-a", "west/htc", "-n", "1")
    clusters.after(600)
    clusters.run(0)
    clusters["west"].faults.add("status", status=500)
    shown = azscale("nodes", "-o", "name,state")
    assert "Unreachable" in shown and "cluster west is set aside" in shown
    for verb in ("buckets", "connect"):
        assert "cluster west is set aside" in azscale(verb, code=1)
    assert "cluster west is set aside" in azscale("retry_failed_nodes")
    refused = azscale("delete_nodes", "-N", "west/htc-1", "--force", code=1)
    assert "nothing was done" in refused and "ClusterAway" in refused
    assert "Drained" not in refused


def test_names_without_their_cluster(clusters, azscale):
    """Are guessed at, and none is chosen where two have it."""
    clusters.settings["journal"] = {"directory": str(clusters.home / "journal")}
    azscale("create_nodes", "-a", "west/htc")
    azscale("create_nodes", "-a", "east/htc")
    clusters.after(600)
    azscale("autoscale")
    assert "did you mean 'east/htc'?" in azscale("explain", "htc", code=1)
    said = azscale("explain", "htc-1", code=1)
    assert "host name htc-1 stands for 2 nodes: east/htc-1, west/htc-1" in said
    clusters["west"].faults.add("status", status=500)
    azscale("autoscale", code=1)
    assert "~ status bucket west/htc/Standard_F4s_v2: valid true" in azscale("journal", "diff")


def test_azscale_checks_the_clusters(clusters, azscale):
    """Typos have a guess, contradictions a line, and no password is shown."""
    clusters.entries["west"]["credential_file"] = "x"
    assert "clusters[1].credential_file: unknown key" in azscale("config", "--check", code=1)
    del clusters.entries["west"]["credential_file"]
    password = clusters["west"].password
    assert password not in azscale("config")
    clusters.entries["west"].update(clusters.entries["east"], name="west")
    assert "expected different clusters, found c twice" in azscale("config", "--check", code=1)


def test_a_mistake_in_one_of_several_clusters_is_an_error(clusters, azscale):
    """Though passes go on without that cluster; one that does not answer is none."""
    clusters.entries["west"]["url"] = "htp:127"
    said = azscale("config", "--check", code=1)
    assert "error: cluster west: url: expected https://host[:port], found 'htp:127'" in said
    clusters.entries["west"]["url"] = "http://127.0.0.1:9"
    assert "error" not in azscale("config", "--check")


def test_one_cluster_under_two_addresses_is_set_aside_once_its_nodes_tell(clusters):
    """Its nodes are there once, and nobody doubts whose they are."""
    clusters.run(2)
    url = str(clusters.entries["east"]["url"])
    again = {
        **clusters.entries["east"],
        "name": "again",
        "url": url.replace("127.0.0.1", "localhost"),
    }
    assert again["url"] != url
    clusters.entries["again"] = again
    summary = clusters.run(3)
    (error,) = map(str, summary.errors)
    assert "cluster again is set aside in this pass" in error
    assert "expected another cluster than east, found the same one under another address" in error
    assert len(summary.created) == 1 and not any(
        name.startswith("again/") for name in summary.created
    )
    assert sum(clusters.counts().values()) == 3
    clusters.after(300)
    assert len(shrunk(clusters)) == 3 and not sum(clusters.counts().values())


def test_what_is_in_doubt_in_all_clusters_is_asked_about_side_by_side(clusters, monkeypatch):
    """A pass takes as long as the slowest, also after replies were lost everywhere."""
    for server in clusters.servers.values():
        server.faults.add("lost_reply", endpoint="create_nodes")
        server.faults.add("status", endpoint="get_nodes", status=500, calls=[2])
    assert clusters.run(20).errors
    assert clusters.counts() == {"east": 3, "west": 4, "north": 13}
    for server in clusters.servers.values():
        server.faults.clear()
    all_of_them, asked, read = threading.Barrier(3), [], Session.read

    def read_together(self, path, query=None, attempts=None):
        if (query or {}).get("request_id"):
            asked.append(path)
            all_of_them.wait(30)
        return read(self, path, query, attempts)

    monkeypatch.setattr(Session, "read", read_together)
    summary = clusters.run(20)
    assert (summary.errors, summary.created, len(asked)) == ((), (), 3)


def test_a_dynamic_array_rests_with_the_cluster_that_it_extends(tmp_path, azscale_of):
    """Whatever it is called: what Azure takes back there rests in that cluster, in its other
    nodearrays too, and in no array of another cluster of the same region."""
    with several_clusters(tmp_path, {"one": None, "two": None}, spot=True) as clusters:
        azscale = partial(azscale_of, clusters)
        left = {"Name": "left", "Dynamic": True, "Extends": "one/htc"}
        right = {"Name": "right", "Dynamic": True, "Extends": "two/htc"}
        wish = tmp_path / "wish.json"
        wish.write_text(json.dumps([{**left, "TargetCount": 2}, {**right, "TargetCount": 1}]))
        azscale("request", "--file", str(wish))
        clusters.after(60)
        azscale("autoscale")
        clusters["one"].cluster("c").evict("left-1")
        clusters.after(5)
        azscale("autoscale")
        rows = json.loads(azscale("buckets", "-o", "nodearray,backoff", "-F", "json"))
        assert {row["nodearray"] for row in rows if row["backoff"]} == {"left", "one/htc"}
        wish.write_text(json.dumps([{**left, "TargetCount": 2}, {**right, "TargetCount": 4}]))
        azscale("request", "--file", str(wish))
        assert clusters.counts() == {"one": 2, "two": 4}  # one of them is being evicted
        assert len(clusters["one"].journal.entries(event="created")) == 2


def test_nodes_of_dynamic_arrays_count_for_the_limit_of_their_cluster(tmp_path, azscale_of):
    """So that no node is planned that the server refuses."""
    with several_clusters(
        tmp_path, {"one": None, "two": None}, limits={"max_count": 3}
    ) as clusters:
        azscale = partial(azscale_of, clusters)
        wish = tmp_path / "wish.json"
        array = {"Name": "left", "Dynamic": True, "Extends": "one/htc"}
        wish.write_text(json.dumps([{**array, "TargetCount": 2}]))
        azscale("request", "--file", str(wish))
        wish.write_text(json.dumps([{**array, "TargetCount": 5}]))
        azscale("request", "--file", str(wish))
        assert clusters.counts() == {"one": 3, "two": 0}
        said = " ".join(azscale("explain", "request:standard/left").split())
        assert "the limit of cluster one (MaxCount) has 3 of 3 nodes in use" in said
