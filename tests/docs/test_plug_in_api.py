"""docs/plug-in-api.md: each example runs against a simulator, and comes to what the page says."""

import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

import hpc.autoscale.jetpack as autoscale
from hpc.autoscale import cli, clock
from hpc.autoscale.jetpack.__main__ import run
from hpc.autoscale.simulator import serve

PAGE = (Path(__file__).parents[2] / "docs" / "plug-in-api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- (example|shell|plug-in): (.*?) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
ERROR = re.findall(r"<!-- error -->\n```\w+\n(.*?)```\n\n```text\n(.*?)\n```", PAGE, re.DOTALL)
ARRAYS = {
    "execute": {"machine_types": ["Standard_F4s_v2"]},
    "gpu": {"machine_types": ["Standard_F8s_v2"]},
}


@pytest.fixture
def simulator(tmp_path, monkeypatch):
    """A cluster with a configuration in the working directory, at noon of a certain day."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    monkeypatch.delenv("AUTOSCALE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    clock.use_mock_clock().now = 1769860800.0
    clusters = {"demo": {"region": "westus2", "nodearrays": ARRAYS}}
    with serve({"clusters": clusters}) as running:
        path = tmp_path / "autoscale.json"
        path.write_text(json.dumps(running.connection("demo")))
        path.chmod(0o600)
        yield running


def nodes(simulator):
    """How many there are of each array, as the page writes it."""
    counts = Counter(
        node.get("Configuration", {}).get("autoscale", {}).get("dynamic_array", node["Template"])
        for node in simulator.cluster("demo").nodes()
    )
    return " ".join(f"{name}:{count}" for name, count in sorted(counts.items()))


def run_line(line):
    """One line of a shell, of those that the page has."""
    words = shlex.split(line)
    if words[0] == "echo":
        Path(words[3]).write_text(words[1])
    elif words[0] == "azscale":
        cli.main(words[1:])
    else:
        assert words[:3] == ["python", "-m", "hpc.autoscale.jetpack"]
        run(words[3:])


@pytest.mark.parametrize(("kind", "ends", "code"), EXAMPLES)
def test_an_example(simulator, capsys, kind, ends, code):
    """Comes to these nodes; a second time it changes nothing."""
    for _ in range(2):
        if kind == "plug-in":
            Path("myqueue.py").write_text(code)
            config = json.loads(Path("autoscale.json").read_text())
            Path("autoscale.json").write_text(json.dumps({**config, "driver": "myqueue:driver"}))
            cli.main(["autoscale", "-c", "autoscale.json"])
        elif kind == "shell":
            for line in code.splitlines():
                capsys.readouterr()
                run_line(line)
        else:
            exec(code, {"autoscale": autoscale})  # noqa: S102 - the page is ours
        assert nodes(simulator) == ends
    if "request list" in code:
        assert capsys.readouterr().out in PAGE


def test_a_mistake(simulator):
    """Is said as the page says it."""
    ((code, said),) = ERROR
    with pytest.raises(autoscale.RequestError) as error:
        exec(code, {"autoscale": autoscale})  # noqa: S102 - the page is ours
    assert str(error.value) == said


def test_there_are_examples():
    """Of all kinds."""
    assert Counter(kind for kind, _, _ in EXAMPLES) == {"example": 8, "shell": 3, "plug-in": 1}
