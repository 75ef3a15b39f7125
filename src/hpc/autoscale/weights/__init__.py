"""Weights of regions that are worked out while the autoscaler runs: from spot placement scores,
from prices, or from both.

`current_weights` gives those of a configuration with the section `weights`; providers of installed
distributions are known by their entry points in `hpc.autoscale.weights`.
"""

from hpc.autoscale.weights.current import CurrentWeights, current_weights
from hpc.autoscale.weights.providers import WeightProvider, WeightQuestion, WeightsError

__all__ = ["CurrentWeights", "WeightQuestion", "WeightProvider", "WeightsError", "current_weights"]
