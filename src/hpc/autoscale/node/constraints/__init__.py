"""The constraint language: what a job asks of the nodes it runs on.

`parse` reads JSON. `conditions`, `shared` and `composites` are the constraints; `pools` is what
shared ones draw on. `base` has the protocol that integrations subclass, the base of constraints
that are an expression of the engine, and what the engine is given of several; `declared` makes an
expression of classes that say what they read. Names are imported from here.
"""

from hpc.autoscale.node.constraints.base import AmbiguousChoice as AmbiguousChoice
from hpc.autoscale.node.constraints.base import BaseNodeConstraint as BaseNodeConstraint
from hpc.autoscale.node.constraints.base import Compiled as Compiled
from hpc.autoscale.node.constraints.base import Constraint as Constraint
from hpc.autoscale.node.constraints.base import ConstraintDict as ConstraintDict
from hpc.autoscale.node.constraints.base import InvalidAmount as InvalidAmount
from hpc.autoscale.node.constraints.base import LoweredConstraint as LoweredConstraint
from hpc.autoscale.node.constraints.base import MalformedConstraint as MalformedConstraint
from hpc.autoscale.node.constraints.base import NodeConstraint as NodeConstraint
from hpc.autoscale.node.constraints.base import NothingLeft as NothingLeft
from hpc.autoscale.node.constraints.base import UndefinedNodeProperty as UndefinedNodeProperty
from hpc.autoscale.node.constraints.base import compile_constraints as compile_constraints
from hpc.autoscale.node.constraints.composites import And as And
from hpc.autoscale.node.constraints.composites import Not as Not
from hpc.autoscale.node.constraints.composites import Or as Or
from hpc.autoscale.node.constraints.composites import XOr as XOr
from hpc.autoscale.node.constraints.conditions import (
    CapacityFailureBackoffConstraint as CapacityFailureBackoffConstraint,
)
from hpc.autoscale.node.constraints.conditions import ExclusiveNode as ExclusiveNode
from hpc.autoscale.node.constraints.conditions import InAPlacementGroup as InAPlacementGroup
from hpc.autoscale.node.constraints.conditions import MinResourcePerNode as MinResourcePerNode
from hpc.autoscale.node.constraints.conditions import Never as Never
from hpc.autoscale.node.constraints.conditions import (
    NodePropertyConstraint as NodePropertyConstraint,
)
from hpc.autoscale.node.constraints.conditions import (
    NodeResourceConstraint as NodeResourceConstraint,
)
from hpc.autoscale.node.constraints.conditions import NotAllocated as NotAllocated
from hpc.autoscale.node.constraints.conditions import ReadOnlyAlias as ReadOnlyAlias
from hpc.autoscale.node.constraints.declared import NotAsDeclared as NotAsDeclared
from hpc.autoscale.node.constraints.parse import compile_expressions as compile_expressions
from hpc.autoscale.node.constraints.parse import get_constraint as get_constraint
from hpc.autoscale.node.constraints.parse import get_constraints as get_constraints
from hpc.autoscale.node.constraints.parse import new_job_constraint as new_job_constraint
from hpc.autoscale.node.constraints.parse import register_parser as register_parser
from hpc.autoscale.node.constraints.pools import (
    SharedConsumableResource as SharedConsumableResource,
)
from hpc.autoscale.node.constraints.pools import (
    SharedNonConsumableResource as SharedNonConsumableResource,
)
from hpc.autoscale.node.constraints.pools import SharedResource as SharedResource
from hpc.autoscale.node.constraints.shared import SharedConstraint as SharedConstraint
from hpc.autoscale.node.constraints.shared import (
    SharedConsumableConstraint as SharedConsumableConstraint,
)
from hpc.autoscale.node.constraints.shared import (
    SharedNonConsumableConstraint as SharedNonConsumableConstraint,
)
from hpc.autoscale.node.constraints.shared import pool_room as pool_room
