"""VM sizes that somebody named and nobody knows."""

import pytest

from hpc.autoscale.ccbindings.mock import MockClusterBinding
from hpc.autoscale.cli import ScaleLibCLI
from hpc.autoscale.cli.unknown import unknown_vm_sizes


def _resource(*sizes):
    return {"select": {"node.vm_size": list(sizes)}, "name": "a", "value": 1}


def test_a_service_says_it_once(capsys):
    """However many passes it makes, in one line for each size."""
    cluster = MockClusterBinding("clusty")
    cluster.add_nodearray("htc", {})
    cluster.add_bucket("htc", "Standard_F4s_v2", 1, 1)
    config = {
        "cluster_name": "clusty",
        "_mock_bindings": cluster,
        "default_resources": [_resource("Standard_F4s_v22", "Standard_F4s_v2"), _resource("New")],
    }
    cli = ScaleLibCLI()
    for _ in range(3):
        cli._node_mgr(config, force=True)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == [
        "default_resources[0].select.node.vm_size",
        "default_resources[1].select.node.vm_size",
    ]


@pytest.mark.parametrize(
    ("constraints", "found"),
    [
        ({"node.vm_size": "Standard_F4s_v2"}, []),
        ({"node.vm_size": "Standard_F*"}, []),
        ({"node.vm_size": None}, []),
        ({"ncpus": 1}, []),
        ([{"or": [{"node.vm_size": "No"}, {"ncpus": 1}]}], ["or[0].node.vm_size"]),
        ([{"ncpus": 1}, {"not": {"node.vm_size": ["No*"]}}], ["[1].not.node.vm_size"]),
    ],
)
def test_where_they_are(constraints, found):
    """Wherever in an expression; patterns that match a size are known, other values are none."""
    assert [said.partition(":")[0] for said in unknown_vm_sizes(constraints, "")] == found
