"""What the documentation says of the simulator is so."""

from pathlib import Path

import pytest

from hpc.autoscale.simulator import load_description
from hpc.autoscale.simulator.lifecycle import render_table

DOCS = Path(__file__).parents[2] / "docs"


def test_the_life_cycle_is_documented_as_it_is():
    """docs/lifecycle.md has the table that the simulator follows; `make docs` renders it."""
    assert render_table() in (DOCS / "lifecycle.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [DOCS / "examples" / "cluster.json", DOCS / "first-cluster.json"])
def test_the_example_descriptions_can_be_used(path):
    """Without a change."""
    assert load_description(path).clusters
