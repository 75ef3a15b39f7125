"""That the command line notices an installation under both names."""

import sys
from pathlib import Path

import pytest

from hpc.autoscale import cli
from hpc.autoscale.cli.installation import refuse_both
from hpc.autoscale.errors import ConfigurationException


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        ("hpc_autoscale-1.1.0.dist-info", "cyclecloud_scalelib-1.0.7.dist-info"),
        ("hpc_autoscale-1.1.0.dist-info", "cyclecloud_scalelib-1.0.7-py3.8.egg-info"),
        ("hpc_autoscale.egg-info", "cyclecloud-scalelib-1.0.7.dist-info"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_both_names_are_refused(tmp_path: Path, ours: str, other: str, together: bool) -> None:
    """In one directory or in two; the error has both, where they are, and what to run."""
    first, second = tmp_path / "a", tmp_path / ("a" if together else "b")
    (first / ours).mkdir(parents=True)
    (second / other).mkdir(parents=True)
    with pytest.raises(ConfigurationException) as raised:
        refuse_both([str(tmp_path / "no-such.zip"), str(first), str(second)])
    said = str(raised.value)
    assert "cyclecloud-scalelib 1.0.7 in " in said and str(second) in said
    assert "-m pip uninstall hpc-autoscale cyclecloud-scalelib" in said or (
        "-m pip uninstall cyclecloud-scalelib hpc-autoscale" in said
    )


def test_one_name_is_as_it_should_be(tmp_path: Path) -> None:
    """Also twice, and beside others with similar names."""
    for directory in ("a", "b"):
        for name in ("hpc_autoscale-1.1.0.dist-info", "cyclecloud_scalelib_tools-1.dist-info"):
            (tmp_path / directory / name).mkdir(parents=True)
    refuse_both([str(tmp_path / "a"), str(tmp_path / "b")])


def test_commands_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command ends with exit code 1 and one line; --version still answers."""
    for name in ("hpc_autoscale-1.1.0.dist-info", "cyclecloud_scalelib-1.0.7.dist-info"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(SystemExit) as end:
        cli.main(["initconfig", "--cluster-name", "c", "--username", "u", "--url", "https://x"])
    assert end.value.code == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "one library under two names" in printed.err and printed.err.count("\n") == 1
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
