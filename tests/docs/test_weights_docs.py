"""docs/weights.md: its configuration is one, its provider is asked, and its table has them all."""

import json
import re
from pathlib import Path

from hpc.autoscale.config import check_config
from hpc.autoscale.weights import current_weights
from hpc.autoscale.weights.providers import BLEND, BUILT_IN

PAGE = (Path(__file__).parents[2] / "docs" / "weights.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- \w+: (.*?) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))


def test_the_configuration():
    """Is right."""
    check_config(json.loads(EXAMPLES["spot-score"]))


def test_every_provider_is_in_the_table():
    """By its name."""
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE) == [*BUILT_IN, BLEND]


class Offered:
    """An entry point of the page's package."""

    def load(self):
        names = {}
        exec(EXAMPLES["site_weights.py"], names)  # noqa: S102  the page is ours
        return names["close_first"]


class EntryPoints(dict):
    """What is installed."""

    @property
    def names(self):
        return set(self)


def test_a_provider_of_ones_own(monkeypatch, tmp_path):
    """Is found by its name, and asked."""
    assert 'close-first = "site_weights:close_first"' in EXAMPLES["pyproject.toml"]
    offered = EntryPoints({"close-first": Offered()})
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: offered)
    section = {
        "provider": "close-first",
        "regions": ["eastus", "westus3", "mars"],
        "options": {"milliseconds": {"eastus": 10, "westus3": 40}},
    }
    found = current_weights({"weights": section}, str(tmp_path))
    assert found.weights == {"eastus": 1000, "westus3": 250, "mars": 625}
    assert found.unknown == ("mars",)
