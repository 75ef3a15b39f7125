"""docs/on-premises.md: its example is a configuration, and its table has every key."""

import json
import re
from pathlib import Path

from builders.nodes import an_htc_cluster
from hpc.autoscale.config import check_config
from hpc.autoscale.config.check import config_schema
from hpc.autoscale.node.nodemanager import new_node_manager
from hpc.autoscale.onpremises import hosts_of

PAGE = (Path(__file__).parents[2] / "docs" / "on-premises.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"<!-- json: three hosts -->\n```json\n(.*?)```", PAGE, re.DOTALL)


def test_the_example():
    """Three hosts, and how their workers are started."""
    config = json.loads(EXAMPLE)
    check_config(config)
    started = [host.start[-3:] for host in hosts_of(config)]
    assert started == [
        ("systemctl", "start", "celery@short.service"),
        ("/opt/site/worker", "start", "rack-2"),
        (),
    ]
    manager = new_node_manager({**config, "_mock_bindings": an_htc_cluster()})
    found = {str(node.name): str(node.nodearray) for node in manager.get_nodes()}
    assert found == {"rack-1": "on-premises", "rack-2": "on-premises", "rack-3": "htc"}


def test_every_key_is_explained():
    """In the table."""
    keys = config_schema()["properties"]["on_premises"]["items"]["properties"]
    assert [key for key in keys if f"`{key}`" not in PAGE] == []
