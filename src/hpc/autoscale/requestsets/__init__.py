"""Request sets: how many nodes of which nodearrays reporters want, until they say otherwise.

A reporter is a script or service without a scheduler driver; its request set is its complete wish.
`definitions` understands nodearray definitions, `extending` completes those of dynamic arrays,
`store` keeps request sets in a file, `recording` checks a wish and puts it there, and `demand`
makes jobs of what stands there. Passes call `demand`; `hpc.autoscale.jetpack` and the command line
call `recording`. `dynamic` lets the node manager show dynamic arrays as nodearrays. Nothing here
changes the cluster by itself.
"""
