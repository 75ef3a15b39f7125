"""The published `NodeBucket` and what belongs to it.

`definition`: what a new node would be. `mould`: what it is made from. `facts`: what can be read of a bucket. `handle`:
the bucket itself, between the engine and the nodes that integrations hold. `candidates`: which buckets may serve some
constraints.
"""

from hpc.autoscale.node.bucket.candidates import bucket_candidates as bucket_candidates
from hpc.autoscale.node.bucket.candidates import sift as sift
from hpc.autoscale.node.bucket.definition import NodeDefinition as NodeDefinition
from hpc.autoscale.node.bucket.definition import node_from_bucket as node_from_bucket
from hpc.autoscale.node.bucket.handle import NodeBucket as NodeBucket
