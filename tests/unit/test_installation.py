"""That an installation under both names is noticed, by the first import and by every command."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpc.autoscale import cli, installation
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.installation import refuse_both


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


def copy_package(directory: Path) -> None:
    """What the package needs to be imported, in this directory."""
    package = Path(installation.__file__).parent
    there = directory / "hpc" / "autoscale"
    there.mkdir(parents=True)
    (there.parent / "__init__.py").touch()
    for name in ("__init__.py", "_version.py", "installation.py", "errors.py", "plaintext.py"):
        shutil.copy(package / name, there)


def test_the_first_import_looks_where_the_package_is(tmp_path: Path) -> None:
    """It is an ImportError with the sentence; a copy elsewhere on the path overwrites nothing, and
    is none of its business."""
    copy_package(tmp_path / "a")
    (tmp_path / "a" / "hpc_autoscale-1.1.0.dist-info").mkdir()
    (tmp_path / "b" / "cyclecloud_scalelib-1.0.7.dist-info").mkdir(parents=True)
    path = [str(tmp_path / name) for name in ("a", "b")]
    program = f"import sys; sys.path[:0] = {path}; import hpc.autoscale"
    command = [sys.executable, "-I", "-c", program]
    assert subprocess.run(command, check=False).returncode == 0
    (tmp_path / "a" / "cyclecloud_scalelib-1.0.7.dist-info").mkdir()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "one library under two names" in done.stderr.splitlines()[-1]
    assert issubclass(installation.MixedInstallationError, ImportError)


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
