"""Commands of hosts on premises: how they are run beside each other."""

import os

from hpc.autoscale.onpremises import OnPremisesHost
from hpc.autoscale.onpremises.workers import Workers


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
