"""docs/metrics.md: it lists every figure there is, and its configuration is one."""

import json
import re
from pathlib import Path

from hpc.autoscale.config.check import check_config
from hpc.autoscale.journal import PassRecord
from hpc.autoscale.metrics import Health, of_record

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]+) \|$", PAGE, re.MULTILINE)


def test_every_figure_is_on_the_page():
    """With its kind and what it says."""
    families = of_record(PassRecord(), Health())
    found = {f.name: (f.kind, f.meaning) for f in families}
    assert {name: (kind, meaning) for name, kind, _, meaning in ROWS} == found


def test_the_configuration_of_the_page_is_one():
    """Both files."""
    block = re.search(r'^    "metrics": \{.*?^    \}', PAGE, re.DOTALL | re.MULTILINE)
    assert block
    check_config(json.loads("{" + block[0] + "}"))


def test_alerts_that_serve_has_no_figures_for_are_named():
    """Those that go by counters, which azscale serve leaves out."""
    counters = [name for name, kind, _, _ in ROWS if kind == "counter"]
    rules = (ROOT / "examples" / "metrics" / "alerts.yml").read_text(encoding="utf-8")
    by_counts = [
        rule.split()[0]
        for rule in rules.split("- alert:")[1:]
        if any(re.search(rf"\b{name}\b", rule) for name in counters)
    ]
    assert f"`{'` and `'.join(by_counts)}` go by counts" in PAGE
