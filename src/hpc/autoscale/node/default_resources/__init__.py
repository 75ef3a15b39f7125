"""Default resources: what nodes have without the cluster saying so, defined in the configuration or
by an integration.

A definition has a selection, a name, a value and perhaps one arithmetic step. `definition`: where
values come from, one definition, all of them in order, and the standard ones. `reading`: how they
are written. Called by the node manager.
"""

from hpc.autoscale.node.default_resources.definition import NODE_ID as NODE_ID
from hpc.autoscale.node.default_resources.definition import SYSTEM_DEFAULTS as SYSTEM_DEFAULTS
from hpc.autoscale.node.default_resources.definition import DefaultResource as DefaultResource
from hpc.autoscale.node.default_resources.definition import (
    DefaultResourceError as DefaultResourceError,
)
from hpc.autoscale.node.default_resources.definition import Defaults as Defaults
from hpc.autoscale.node.default_resources.definition import GetFromBaseNode as GetFromBaseNode
from hpc.autoscale.node.default_resources.definition import MemoryDefault as MemoryDefault
from hpc.autoscale.node.default_resources.reading import definition_from as definition_from
from hpc.autoscale.node.default_resources.reading import (
    definitions_from_config as definitions_from_config,
)
