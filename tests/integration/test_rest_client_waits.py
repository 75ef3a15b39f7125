"""A server that asks to be left alone is left alone by the next process too."""

import json
import sys
from pathlib import Path
from subprocess import run

from builders.scripted_server import Answer, serving

STATUS = "/clusters/c/status"
PROGRAM = """
import sys
from hpc.autoscale.ccbindings import new_cluster_bindings
from hpc.autoscale.ccbindings.errors import Throttled
config = {"cluster_name": "c", "url": sys.argv[1], "username": "u", "password": "p"}
config["requests_file"] = sys.argv[2]
try:
    new_cluster_bindings(config).get_cluster_status()
except Throttled as error:
    print(error)
"""


def test_a_wait_lasts_from_process_to_process(tmp_path: Path) -> None:
    """As under cron, where each pass is a process: the second one says why it asks nothing."""
    with serving() as server:
        server.on("GET", STATUS, Answer(429, {"Message": "Slow."}, {"Retry-After": "900"}))
        command = [sys.executable, "-c", PROGRAM, server.url, str(tmp_path / "requests.json")]
        said = [run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
        assert len(server.seen("GET", STATUS)) == 1
    assert all("Slow." in text and "wait" in text for text in said)


def test_the_error_names_the_file_that_keeps_the_wait_and_no_wait_is_endless(
    tmp_path: Path,
) -> None:
    """A server that asks for a day is asked again after a quarter of an hour."""
    with serving() as server:
        server.on("GET", STATUS, Answer(429, {"Message": "Slow."}, {"Retry-After": "86400"}))
        command = [sys.executable, "-c", PROGRAM, server.url, str(tmp_path / "requests.json")]
        said = [run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    kept = json.loads((tmp_path / "requests.waits.json").read_text())
    assert 0 < kept[0]["seconds"] <= 900
    assert str(tmp_path / "requests.waits.json") in said[1]
