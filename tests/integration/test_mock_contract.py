"""The mock cluster keeps the promises of a binding."""

import pytest

from builders.binding_contract import ROOM, BindingContract
from hpc.autoscale.ccbindings.mock import MockClusterBinding


class TestMockContract(BindingContract):
    """All of them."""

    @pytest.fixture
    def binding(self) -> MockClusterBinding:
        mock = MockClusterBinding()
        mock.add_nodearray("htc", {})
        mock.add_bucket("htc", "Standard_F4", ROOM, ROOM)
        return mock
