"""docs/regions.md: every example works as it is written."""

import json
import re
import subprocess
import sys
from pathlib import Path

from hpc.autoscale.config import check_config
from hpc.autoscale.config.clusters import members_of
from hpc.autoscale.node.constraints import get_constraints
from hpc.autoscale.regions import configured_weights

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "regions.md").read_text(encoding="utf-8")
EXAMPLES = {
    name: (code, printed)
    for name, code, printed in re.findall(
        r"<!-- \w+: (\w+) -->\n```\w+\n(.*?)```(?:\n\nprints\n\n```text\n(.*?)```)?",
        PAGE,
        re.DOTALL,
    )
}


def test_the_clusters_of_the_page_are_a_configuration():
    """With what is said for all, and by each for itself."""
    config = json.loads(EXAMPLES["clusters"][0])
    check_config(config)
    (_, east), (_, west) = members_of(config)
    assert east["retry"] == west["retry"] == {"attempts": 2}
    assert ("timeout" in east, west["timeout"]["read"]) == (False, 30)


def test_the_weights_of_the_page_are_a_configuration():
    """And are those of the text."""
    config = json.loads(EXAMPLES["weights"][0])
    check_config(config)
    assert configured_weights(config) == {"eastus": 3, "westus3": 1, "northeurope": 0}


def test_the_constraint_of_the_page_is_one():
    """On the nodearrays of two clusters."""
    (constraint,) = get_constraints([json.loads(EXAMPLES["either"][0])])
    assert "east/htc" in str(constraint)


def test_the_program_prints_what_the_page_says(tmp_path):
    """As it stands."""
    program, printed = EXAMPLES["regions"]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_every_example_is_tried():
    """None is on the page that no test here has."""
    assert set(EXAMPLES) == {"clusters", "either", "weights", "regions"}
    assert PAGE.count("```json") + PAGE.count("```python") == len(EXAMPLES)
