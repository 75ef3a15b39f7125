"""What machines cost: prices per hour, and what a cluster has used so far.

`azurecost` is the published way in; integrations' cost reports call it. Below it: `retail` asks
Azure's price service and keeps the answers in `cache`, `rates` picks the price among them, `report`
makes rows of a cluster's usage, `formats` are the rows. Nothing here decides where jobs run:
least-cost packing has its prices from `hpc.autoscale.node.vm_sizes`.
"""
