"""What is known of Azure's VM sizes: memory, cores, GPUs, RDMA, family and price, by location.

The facts come with the package (`vm_sizes.json`, `vm_prices.json.gz` in the folder above) and are
read when somebody first asks; a user's own file wins over them. Nodes and buckets ask here for what
CycleCloud does not report, the command line for completions, the cost side for prices. Nothing here
knows nodes, buckets or quotas.
"""

from hpc.autoscale.node.vm_sizes.catalogue import RESOURCE_FILE as RESOURCE_FILE
from hpc.autoscale.node.vm_sizes.catalogue import VM_SIZES as VM_SIZES
from hpc.autoscale.node.vm_sizes.catalogue import SizeTable as SizeTable
from hpc.autoscale.node.vm_sizes.info import AuxVMSizeInfo as AuxVMSizeInfo
from hpc.autoscale.node.vm_sizes.info import _inititialize_impl as _inititialize_impl
from hpc.autoscale.node.vm_sizes.info import all_possible_locations as all_possible_locations
from hpc.autoscale.node.vm_sizes.info import all_possible_vm_families as all_possible_vm_families
from hpc.autoscale.node.vm_sizes.info import all_possible_vm_sizes as all_possible_vm_sizes
from hpc.autoscale.node.vm_sizes.info import configure as configure
from hpc.autoscale.node.vm_sizes.info import get_aux_vm_size_info as get_aux_vm_size_info
from hpc.autoscale.node.vm_sizes.info import gpu_count as gpu_count
from hpc.autoscale.node.vm_sizes.info import quota_family as quota_family
from hpc.autoscale.node.vm_sizes.info import suggest_vm_size as suggest_vm_size
from hpc.autoscale.node.vm_sizes.info import use_override as use_override
from hpc.autoscale.node.vm_sizes.prices import PRICE_FILE as PRICE_FILE
from hpc.autoscale.node.vm_sizes.prices import price_per_hour as price_per_hour
from hpc.autoscale.node.vm_sizes.prices import use_price_override as use_price_override
