"""The library under its two names: that both are built, can be installed, and exclude each other. With the real pip."""

import email
import hashlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from hpc.autoscale._version import __version__

ROOT = Path(__file__).resolve().parents[2]
OURS = "hpc-autoscale"
OTHER = "cyclecloud-scalelib"
ENTRY = "ONLY-ONE-OF-hpc-autoscale-AND-cyclecloud-scalelib"

pytestmark = pytest.mark.slow


def load_tool() -> Any:
    """The build script as a module."""
    path = ROOT / "tools" / "build_scalelib.py"
    spec = importlib.util.spec_from_file_location("build_scalelib", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


tool = load_tool()


def run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments; nothing is asserted of it."""
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, **options)


def succeeding(*command: object, **options: Any) -> str:
    """What a program prints, which has to succeed."""
    done = run(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python setup.py build` makes of a copy of this tree, and the wheel that pip makes of the other sdist."""
    tree = tmp_path_factory.mktemp("build") / "tree"
    tool.copy_sources(ROOT, tree)
    succeeding("setup.py", "build", cwd=tree)
    built = {path.name for path in (tree / "dist").iterdir()}
    assert built == {
        f"hpc_autoscale-{__version__}.tar.gz",
        f"hpc_autoscale-{__version__}-py3-none-any.whl",
        f"cyclecloud-scalelib-{__version__}.tar.gz",
    }
    sdist = tree / "dist" / f"cyclecloud-scalelib-{__version__}.tar.gz"
    # in an environment of its own, or else pip would refuse to build what is installed here under the other name
    builder = an_environment(tmp_path_factory.mktemp("builder"))
    succeeding(*builder, "wheel", "--no-deps", "--wheel-dir", tree / "dist", sdist)
    return tree / "dist"


def sdist_of(name: str, dist: Path) -> Path:
    file_name = OTHER if name == OTHER else name.replace("-", "_")
    return dist / f"{file_name}-{__version__}.tar.gz"


def wheel_of(name: str, dist: Path) -> Path:
    return dist / f"{name.replace('-', '_')}-{__version__}-py3-none-any.whl"


def an_environment(directory: Path) -> list[object]:
    """The beginning of pip commands on a new virtual environment in the directory."""
    succeeding("-m", "venv", "--without-pip", directory)
    return ["-m", "pip", "--python", directory / "bin" / "python"]


def installing(wheel: Path, *more: str) -> list[object]:
    """The end of a pip command that installs a wheel, and nothing that it needs."""
    return ["install", "--no-deps", "--no-index", "--no-compile", *more, wheel]


def installed(directory: Path) -> dict[str, str]:
    """The packages of an environment, name to version."""
    (packages,) = (directory / "lib").glob("python*/site-packages")
    found = importlib.metadata.distributions(path=[str(packages)])
    return {package.name: package.version for package in found}


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def code_in(wheel: Path) -> dict[str, str]:
    """The files of the package in a wheel, with their digests."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name.startswith("hpc/autoscale/") and not name.endswith("/LICENSE")
        }


def test_the_version_is_one_that_installers_accept() -> None:
    """1.0.11 or above."""
    assert Version(__version__) >= Version("1.0.11")


def test_both_have_the_same_code(dist: Path) -> None:
    """File by file, and it is that of this tree."""
    ours, other = code_in(wheel_of(OURS, dist)), code_in(wheel_of(OTHER, dist))
    assert ours == other
    errors = (ROOT / "src/hpc/autoscale/errors.py").read_bytes()
    assert ours["hpc/autoscale/errors.py"] == hashlib.sha256(errors).hexdigest()
    for data in ("logging.conf", "py.typed", "node/vm_sizes.json", "config/schema.json"):
        assert f"hpc/autoscale/{data}" in ours


def test_both_need_the_same(dist: Path) -> None:
    """The metadata differ in the name only, extras made of extras included."""
    ours, other = metadata_of(wheel_of(OURS, dist)), metadata_of(wheel_of(OTHER, dist))
    assert (ours["Name"], other["Name"]) == (OURS, OTHER)
    assert ours["Version"] == other["Version"] == __version__
    needs = [need.replace(OURS, OTHER) for need in ours.get_all("Requires-Dist")]
    assert needs == other.get_all("Requires-Dist")
    assert ours["License-Expression"] == other["License-Expression"] == "MIT"


def test_the_other_sdist_can_be_built_from_again(dist: Path) -> None:
    """It is the whole source, under the other name."""
    with tarfile.open(sdist_of(OTHER, dist)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        (root,) = {name.partition("/")[0] for name in archive.getnames()}
        text = archive.extractfile(f"{root}/pyproject.toml").read().decode()
    assert {"Makefile", "setup.py", "tools/build_scalelib.py", "LICENSE"} <= names
    assert tool.renamed(text) == text


@pytest.mark.parametrize(("first", "second"), [(OURS, OTHER), (OTHER, OURS)])
def test_a_wheel_beside_the_other_is_refused(
    dist: Path, tmp_path: Path, first: str, second: str
) -> None:
    """By the package's own entry, before anything of the first one is touched; the error names both."""
    pip = an_environment(tmp_path)
    succeeding(*pip, *installing(wheel_of(first, dist)))
    before = tree_of(tmp_path)
    done = run(*pip, *installing(wheel_of(second, dist)))
    assert done.returncode != 0
    assert ENTRY in done.stderr
    assert installed(tmp_path) == {first: __version__}
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize(("first", "second"), [(OURS, OTHER), (OTHER, OURS)])
def test_an_sdist_beside_the_other_is_refused(
    dist: Path, tmp_path: Path, first: str, second: str
) -> None:
    """In words that say what is there, why that is a problem and what to do."""
    pip = an_environment(tmp_path)
    succeeding(*pip, *installing(wheel_of(first, dist)))
    done = run(*pip, "install", "--no-deps", sdist_of(second, dist))
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert f"{first} {__version__} is installed in {tmp_path}" in said
    assert "only one of them can be installed. First run: " in said
    assert f"-m pip uninstall {first}" in said
    assert installed(tmp_path) == {first: __version__}


def test_one_after_the_other_can_be_installed(dist: Path, tmp_path: Path) -> None:
    """Uninstalling leaves nothing in the way; the same one again is an upgrade and no conflict."""
    pip = an_environment(tmp_path)
    for name, again in ((OTHER, False), (OURS, True)):
        succeeding(*pip, *installing(wheel_of(name, dist)))
        if again:
            succeeding(*pip, *installing(wheel_of(name, dist), "--force-reinstall"))
        assert installed(tmp_path) == {name: __version__}
        assert (tmp_path / "bin" / "azscale").exists()
        program = "import hpc.autoscale as a; print(a.__version__)"
        command = [tmp_path / "bin" / "python", "-B", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == __version__
        succeeding(*pip, "uninstall", "--yes", name)
    assert not list((tmp_path / "lib").rglob("hpc"))


def upstream_wheel(directory: Path) -> Path:
    """A wheel with upstream's name and some of its files, which knows nothing of us."""
    wheel = directory / "cyclecloud_scalelib-1.0.7-py3-none-any.whl"
    metadata = "cyclecloud_scalelib-1.0.7.dist-info"
    files = {
        "hpc/__init__.py": "",
        "hpc/autoscale/__init__.py": "",
        "hpc/autoscale/cli.py": "",
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {OTHER}\nVersion: 1.0.7\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{metadata}/RECORD"] = "".join(f"{name},,\n" for name in files)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def test_a_wheel_over_upstreams_is_noticed(dist: Path, tmp_path: Path) -> None:
    """No installer can refuse it, so the first command does; uninstalling both as it says makes room for one."""
    environment = tmp_path / "env"
    pip = an_environment(environment)
    succeeding(*pip, *installing(upstream_wheel(tmp_path)))
    succeeding(*pip, *installing(wheel_of(OURS, dist)))
    needed = tmp_path / "needed"
    needed.mkdir()
    for path in Path(pytest.__file__).parents[1].iterdir():
        if "hpc_autoscale" not in path.name:
            (needed / path.name).symlink_to(path)
    variables = {**os.environ, "PYTHONPATH": str(needed)}
    command = [environment / "bin" / "azscale", "initconfig", "--cluster-name", "c"]
    command += ["--username", "u", "--url", "https://x"]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"hpc-autoscale {__version__} in {environment}" in done.stderr
    assert f"cyclecloud-scalelib 1.0.7 in {environment}" in done.stderr
    succeeding(*pip, "uninstall", "--yes", OURS, OTHER)
    succeeding(*pip, *installing(wheel_of(OURS, dist)))
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def tree_of(directory: Path) -> dict[str, str]:
    """The files of an environment, with their digests."""
    files = [path for path in (directory / "lib").rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    "text",
    ["", 'name = "else"\nlicense-files = []\n"hpc.autoscale" = []\n', 'name = "hpc-autoscale"\n'],
)
def test_a_project_file_that_is_not_as_expected(text: str) -> None:
    """Is an error, rather than a distribution under the wrong name."""
    with pytest.raises(ValueError, match=r"pyproject\.toml: expected one line like"):
        tool.renamed(text)
