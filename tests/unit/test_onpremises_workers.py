"""Workers of hosts on premises: commands beside each other, and what is remembered of them."""

import os
import sqlite3

import pytest

from hpc.autoscale.onpremises import OnPremisesHost
from hpc.autoscale.onpremises.workers import HostStates, HostStatesError, Workers


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
