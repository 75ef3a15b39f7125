"""The script that installs azscale on a machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from builders.processes import HASTY

SCRIPT = Path(__file__).resolve().parents[2] / "util" / "install_azscale.sh"


def install(*args):
    """Run the script."""
    command = ["bash", str(SCRIPT), *args]
    options = {"capture_output": True, "text": True, "check": False, "env": HASTY}
    return subprocess.run(command, timeout=300, **options)


@pytest.mark.slow
def test_the_launcher_runs_azscale_with_its_own_configuration(tmp_path):
    """A virtual environment, a launcher and its completion, all below the prefix."""
    prefix = tmp_path / "azscale"
    done = install("--prefix", str(prefix), "--link", "", "--python", sys.executable)
    assert done.returncode == 0, done.stderr
    version = subprocess.run(
        [prefix / "azscale", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith("azscale ")
    (prefix / "autoscale.json").write_text('{"cluster_nam": "c"}', encoding="utf-8")
    wrong = subprocess.run(
        [prefix / "azscale", "connect"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 1
    assert "cluster_nam" in wrong.stderr
    assert "azscale" in (prefix / "azscale.completion").read_text(encoding="utf-8")


@pytest.mark.parametrize("args", [["--prefx", "x"], ["--prefix"]])
def test_a_wrong_option_is_one_line(args):
    """And nothing is installed."""
    done = install(*args)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
