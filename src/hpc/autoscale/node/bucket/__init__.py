"""The published `NodeBucket` and what belongs to it.

`bucket`: the bucket itself, and which buckets may serve some constraints. `definition`: what its
new nodes are, and are made from. What is kept of its nodes is in `node.state`.
"""

from hpc.autoscale.node.bucket.bucket import NodeBucket as NodeBucket
from hpc.autoscale.node.bucket.bucket import bucket_candidates as bucket_candidates
from hpc.autoscale.node.bucket.bucket import sift as sift
from hpc.autoscale.node.bucket.definition import NodeDefinition as NodeDefinition
from hpc.autoscale.node.bucket.definition import node_from_bucket as node_from_bucket
