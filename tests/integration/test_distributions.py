"""The library under its two names: that both are built and can be installed where there is no
registry, that they go with what existing packagers ask for, and that a mixture of both says so.
With the real pip."""

import ast
import email
import hashlib
import importlib.metadata
import json
import os
import subprocess
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from email.message import Message
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.version import Version

from builders.built_once import built_once
from builders.processes import OFFLINE, an_environment, needed_beside, run, succeeding
from builders.tools import load_tool
from hpc.autoscale._version import __version__

ROOT = Path(__file__).resolve().parents[2]
OURS = "hpc-autoscale"
OTHER = "cyclecloud-scalelib"
PINNED = "typing_extensions==3.7.4.3"
"""What the packagers of existing integrations ask for beside the library."""

pytestmark = pytest.mark.slow


tool = load_tool("build_scalelib")


def build_all(work: Path) -> None:
    """Copy this tree, and build both distributions."""
    tree = work / "tree"
    for path, contents, mode in tool.Project().sources():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(contents)
        (tree / path).chmod(mode)
    an_environment(work / "bare")
    program = [work / "bare" / "bin" / "python", "setup.py", "build"]
    done = subprocess.run(program, capture_output=True, text=True, cwd=tree, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in (tree / "dist").iterdir()} == {
        f"hpc_autoscale-{__version__}.tar.gz",
        f"hpc_autoscale-{__version__}-py3-none-any.whl",
        f"cyclecloud-scalelib-{__version__}.tar.gz",
        f"cyclecloud_scalelib-{__version__}-py3-none-any.whl",
    }


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `python setup.py build` makes of a copy of this tree, with a Python that has nothing
    installed."""
    return built_once(tmp_path_factory, "distributions", build_all) / "tree" / "dist"


def sdist_of(name: str, dist: Path) -> Path:
    file_name = OTHER if name == OTHER else name.replace("-", "_")
    return dist / f"{file_name}-{__version__}.tar.gz"


def wheel_of(name: str, dist: Path) -> Path:
    return dist / f"{name.replace('-', '_')}-{__version__}-py3-none-any.whl"


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
            if name.startswith("hpc/")
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
    """Extras made of extras included; the other brings what integrations got through it besides."""
    ours, other = metadata_of(wheel_of(OURS, dist)), metadata_of(wheel_of(OTHER, dist))
    assert (ours["Name"], other["Name"]) == (OURS, OTHER)
    assert ours["Version"] == other["Version"] == __version__
    needs = {need.replace(OURS, OTHER) for need in ours.get_all("Requires-Dist")}
    also = set(other.get_all("Requires-Dist")) - needs
    assert needs <= set(other.get_all("Requires-Dist"))
    assert {need.partition(">")[0] for need in also} == {"chardet", "six"}
    assert ours["License-Expression"] == other["License-Expression"] == "MIT"


@pytest.mark.parametrize("name", [OURS, OTHER])
def test_installers_understand_what_was_built(dist: Path, name: str) -> None:
    """The metadata are valid and the same in both files; the list of a wheel's files has each with
    its digest."""
    with zipfile.ZipFile(wheel_of(name, dist)) as archive:
        files = {entry: archive.read(entry) for entry in archive.namelist()}
    (record,) = (entry for entry in files if entry.endswith(".dist-info/RECORD"))
    listed = dict(line.split(",", 1) for line in files.pop(record).decode().splitlines())
    assert listed.pop(record) == ","
    assert listed == {
        entry: "sha256="
        + urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        + f",{len(data)}"
        for entry, data in files.items()
    }
    metadata = files[record.replace("RECORD", "METADATA")]
    assert Metadata.from_email(metadata, validate=True).name == name
    with tarfile.open(sdist_of(name, dist)) as archive:
        (told,) = (entry for entry in archive.getnames() if entry.endswith("/PKG-INFO"))
        assert archive.extractfile(told).read() == metadata


def test_a_source_distribution_has_what_the_tests_need(dist: Path) -> None:
    """Everything that git has, but what is about this repository; scripts can still be run."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this tree is not under git")
    with tarfile.open(sdist_of(OURS, dist)) as archive:
        entries = {entry.name.partition("/")[2]: entry.mode for entry in archive}
    there = {path for path in listed.stdout.split() if (ROOT / path).exists()}
    assert {path for path in there if not path.startswith(".")} <= set(entries)
    assert entries["util/install_azscale.sh"] == 0o755


@pytest.mark.parametrize(("name", "more"), [(OURS, []), (OTHER, ["--no-build-isolation"])])
def test_the_sdist_is_installed_without_a_registry(
    dist: Path, tmp_path: Path, name: str, more: list[str]
) -> None:
    """By what a new virtual environment brings: pip needs nothing to build it, in its isolated
    environment or outside."""
    succeeding("-m", "venv", tmp_path)
    python = tmp_path / "bin" / "python"
    command = [python, "-m", "pip", "install", "--no-deps", "--no-cache-dir", "--no-compile"]
    command += [*more, sdist_of(name, dist)]
    done = subprocess.run(command, capture_output=True, text=True, env=OFFLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert installed(tmp_path)[name] == __version__
    program = "import hpc.autoscale as a; print(a.__version__, a.__file__)"
    told = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split()[0] == __version__
    assert told.stdout.split()[1].startswith(str(tmp_path))


def test_a_working_tree_is_installed_without_a_registry(dist: Path, tmp_path: Path) -> None:
    """`pip install -e .`: Python imports from the tree."""
    pip = an_environment(tmp_path)
    succeeding(*pip, "install", "--no-deps", "-e", dist.parent, env=OFFLINE)
    program = "import hpc.autoscale as a; print(a.__file__)"
    command = [tmp_path / "bin" / "python", "-I", "-B", "-c", program]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.startswith(str(dist.parent))
    assert (tmp_path / "bin" / "azscale").exists()


def skip_without_registry(directory: Path) -> None:
    """Skip, in one line, when pip cannot get what packagers pin."""
    done = run("-m", "pip", "download", "--no-deps", "--dest", directory / "pinned", PINNED)
    if done.returncode:
        pytest.skip(f"no package registry that has {PINNED} can be reached")


@pytest.mark.parametrize(("name", "kind"), [(OURS, "sdist"), (OTHER, "wheel")])
def test_what_packagers_pin_goes_with_it(dist: Path, name: str, kind: str, tmp_path: Path) -> None:
    """pip finds releases of everything that is needed beside the release of typing_extensions that
    they ask for."""
    skip_without_registry(tmp_path)
    wanted = (sdist_of if kind == "sdist" else wheel_of)(name, dist)
    pip = an_environment(tmp_path / "env")
    report = tmp_path / "report.json"
    succeeding(*pip, "install", "--quiet", "--dry-run", "--report", report, wanted, PINNED)
    chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = {each["metadata"]["name"].lower().replace("_", "-") for each in chosen}
    versions = [each["metadata"]["version"] for each in chosen]
    assert {name, "typing-extensions", "requests", "frozendict"} <= found
    assert "3.7.4.3" in versions
    assert {"six", "chardet"} <= found or name == OURS


def imports_of_integrations() -> str:
    """The import statements of the integrations that the conformance suite is run with, and what
    else is imported."""
    statements = {
        *("import six", "import chardet", "import typing_extensions", "import requests"),
        "from hpc.autoscale.ccbindings import ClusterBindingInterface, new_cluster_bindings",
        "from hpc.autoscale.ccbindings.mock import MockClusterBinding",
        "from hpc.autoscale.cost.azurecost import azurecost",
        "from hpc.autoscale.example.basic import BasicDriver, autoscale_driver",
        "from hpc.autoscale.example.readmeutil import clone_dcalc, example, withcontext",
        "from hpc.autoscale.job import computenode, demandprinter, nodequeue",
        "from hpc.autoscale.node import limits, nodehistory, vm_sizes",
        "from hpc.autoscale import cli, clock, codeanalysis, hpclogging, hpctypes, results, util",
    }
    for path in (ROOT / "tests" / "builders").glob("*_like.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                statements.add(ast.unparse(node))
    assert len(statements) > 20
    return "\n".join(sorted(statements))


def test_what_integrations_import_is_there(dist: Path, tmp_path: Path) -> None:
    """In an installation under the name that they require."""
    environment = tmp_path / "env"
    pip = an_environment(environment)
    succeeding(*pip, "install", "--no-deps", sdist_of(OTHER, dist), env=OFFLINE)
    program = tmp_path / "imports.py"
    program.write_text(imports_of_integrations(), encoding="utf-8")
    brought = tmp_path / "brought"  # chardet may not be here; that it is required is shown above
    brought.mkdir()
    (brought / "chardet.py").write_text("__version__ = '5.2.0'", encoding="utf-8")
    variables = {**os.environ, "PYTHONPATH": f"{needed_beside(tmp_path)}:{brought}"}
    command = [environment / "bin" / "python", program]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_packager_puts_together_works(dist: Path, tmp_path: Path) -> None:
    """Downloaded with the pin, without charset-normalizer, installed without a registry: imports,
    and no warning of requests."""
    skip_without_registry(tmp_path)
    packages, environment = tmp_path / "packages", tmp_path / "env"
    pip = an_environment(environment)
    succeeding(*pip, "download", "--quiet", "--dest", packages, sdist_of(OTHER, dist), PINNED)
    files = [path for path in packages.iterdir() if "charset_normalizer" not in path.name]
    assert len(files) < len(list(packages.iterdir()))
    succeeding(*pip, "install", "--quiet", "--no-deps", *files, env=OFFLINE)
    program = tmp_path / "imports.py"
    program.write_text(imports_of_integrations(), encoding="utf-8")
    config = tmp_path / "autoscale.json"
    there = {"cluster_name": "c", "url": "http://127.0.0.1:1", "username": "u", "password": "p"}
    config.write_text(json.dumps(there), encoding="utf-8")
    config.chmod(0o600)
    for command, code in (
        ([environment / "bin" / "python", program], 0),
        ([environment / "bin" / "azscale", "connect", "-c", config], 1),
        ([environment / "bin" / "azscale", "config", "-c", config], 0),
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "RequestsDependencyWarning" not in done.stderr
        assert code == 0 or "no answer from CycleCloud" in done.stderr


def test_a_wheel_over_the_other_is_noticed(dist: Path, tmp_path: Path) -> None:
    """By whatever imports it first, a command or a program, in one sentence; doing what it says
    leaves room for one."""
    pip = an_environment(tmp_path)
    for name in (OURS, OTHER):
        succeeding(*pip, *installing(wheel_of(name, dist)))
    python = tmp_path / "bin" / "python"
    for door in ("hpc.autoscale", "hpc.autoscale.job.driver", "hpc.autoscale.clilib"):
        done = subprocess.run(
            [python, "-c", f"import {door}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
    command = [tmp_path / "bin" / "azscale", "--version"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stdout) == (1, "")
    for said in (done.stderr, asked.stderr):
        sentence = said.splitlines()[-1]
        for name in (OURS, OTHER):
            assert f"{name} {__version__} in {tmp_path}" in sentence
        advice = f"run {python} -m pip uninstall "
        assert f"one library under two names and overwrite each other: {advice}" in sentence
    named = sentence.partition(advice)[2].partition(",")[0].split()
    assert sorted(named) == sorted([OURS, OTHER])
    succeeding(*pip, "uninstall", "--yes", *named)
    assert not list((tmp_path / "lib").rglob("hpc"))
    succeeding(*pip, *installing(wheel_of(OTHER, dist)))
    subprocess.run([python, "-c", "import hpc.autoscale"], check=True)


def test_an_sdist_beside_the_other_is_refused(dist: Path, tmp_path: Path) -> None:
    """In words that say what is there, why that is a problem and what to do."""
    first, second = OTHER, OURS
    pip = an_environment(tmp_path)
    succeeding(*pip, *installing(wheel_of(first, dist)))
    done = run(*pip, "install", "--no-deps", sdist_of(second, dist), env=OFFLINE)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert f"{first} {__version__} is installed in {tmp_path}" in said
    assert "only one of them can be installed. First run: " in said
    assert f"-m pip uninstall {first}" in said
    assert installed(tmp_path) == {first: __version__}
    packed = ["download", "--no-deps", "--dest", tmp_path / "packages", sdist_of(second, dist)]
    succeeding(*pip, *packed, env=OFFLINE)  # who only packs it may have the other


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
    """Also by the first import; uninstalling both as it says makes room for one."""
    environment = tmp_path / "env"
    pip = an_environment(environment)
    succeeding(*pip, *installing(upstream_wheel(tmp_path)))
    succeeding(*pip, *installing(wheel_of(OURS, dist)))
    variables = {**os.environ, "PYTHONPATH": str(needed_beside(tmp_path))}
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


@pytest.mark.parametrize(
    "text",
    ["", 'name = "else"\nlicense-files = []\n"hpc.autoscale" = []\n', 'name = "hpc-autoscale"\n'],
)
def test_a_project_file_that_is_not_as_expected(text: str) -> None:
    """Is an error, rather than a distribution under the wrong name."""
    with pytest.raises(ValueError, match=r"pyproject\.toml: expected one line like"):
        tool.renamed(text)
