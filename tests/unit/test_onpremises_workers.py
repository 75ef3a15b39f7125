"""Workers of hosts on premises: commands beside each other, and what is remembered of them."""

import os
import sqlite3

import pytest

from builders.nodes import a_planned_node
from hpc.autoscale.autoscaler.faults import Faults
from hpc.autoscale.autoscaler.workers_on_premises import HostsOfPass
from hpc.autoscale.commands import Ran
from hpc.autoscale.onpremises import OnPremisesHost
from hpc.autoscale.onpremises.workers import (
    RUN_EACH,
    STATES_FILE,
    HostStates,
    HostStatesError,
    Workers,
)


def test_hosts_of_different_patience_are_not_kept_waiting_for_each_other(tmp_path):
    """Each of the commands ends when the other one runs."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    hosts = [
        OnPremisesHost("a", "a", start=("sh", "-c", f"read x < {pipe}"), command_timeout=30),
        OnPremisesHost("b", "b", start=("sh", "-c", f"echo x > {pipe}"), command_timeout=31),
    ]
    workers = Workers(str(tmp_path / "hosts.db"))
    assert {name: ran.code for name, ran in workers.start(hosts).items()} == {"a": 0, "b": 0}
    assert workers.to_start(hosts, lambda host, state: False) == []


def test_hosts_whose_commands_have_not_begun_stay_as_they_were(tmp_path):
    """They are due in the next pass, and those that failed rest."""
    hosts = [OnPremisesHost(name, name, start=("true",), stop=("true",)) for name in "abc"]
    path = str(tmp_path / "hosts.db")
    Workers(path).start(hosts[2:])
    known = HostStates(path).read()["c"]

    def only_one(doing, commands, timeouts):
        return {"a": Ran(None, "timed out")}

    workers = Workers(path, run=only_one)
    assert list(workers.start(hosts)) == ["a"]
    found = HostStates(path).read()
    assert (found["a"].state, found["b"].state, found["c"]) == ("starting", "down", known)
    due = workers.to_start(hosts, lambda host, state: False)
    assert [host.name for host in due] == ["b"]


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (["a", "b", "c"], []),
        (["a"], ["the commands of 2 hosts, the first of b, are left for the next pass: "]),
        (["a", "b"], ["the commands of 1 host, the first of c, are left for the next pass: "]),
    ],
)
def test_a_pass_says_whose_commands_have_not_begun(tmp_path, ran, said):
    """And which of the workers were stopped."""
    common = {"resources": {"ncpus": 4}, "start": ["true"], "stop": ["true"]}
    section = [{"name": name, "hostname": name, **common} for name in "abc"]
    config = {
        "on_premises": section,
        STATES_FILE: str(tmp_path / "hosts.db"),
        RUN_EACH: lambda doing, commands, timeouts: {name: Ran(0, "") for name in ran},
    }
    faults = Faults()
    nodes = [a_planned_node(name=name, state="Ready", managed=False) for name in "abc"]
    stopped = HostsOfPass(config, faults).stop(nodes)
    assert [node.name for node in stopped] == ran
    assert [
        error.message[: len(text)] for error, text in zip(faults.found, said, strict=True)
    ] == said


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "gone"),
        ("since", "noon"),
        ("backoff", "[]"),
        ("backoff", "[" * 100_000),
        ("backoff", '{"cause": "refused", "message": "", "failed_at": "noon"}'),
    ],
    ids=range(5),
)
def test_states_that_cannot_be_are_a_damaged_file(tmp_path, column, value):
    """With what to do about it."""
    path = tmp_path / "hosts.db"
    hosts = [OnPremisesHost("a", "a", start=("true",), stop=("true",))]
    Workers(str(path)).start(hosts)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE hosts SET {column} = ?", (value,))
    with pytest.raises(HostStatesError, match=r"hosts.db: it is damaged \(.*\): move it away"):
        HostStates(str(path)).read()
