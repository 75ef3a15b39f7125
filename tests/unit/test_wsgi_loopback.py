"""Which addresses are this machine's own."""

import pytest

from hpc.autoscale.wsgi.loopback import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_addresses_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "::", "127.evil.example", "localhost.example", "10.0.0.1", "127.1", "[::1]"],
)
def test_addresses_that_others_have_or_reach(host: str) -> None:
    assert not is_loopback(host)
