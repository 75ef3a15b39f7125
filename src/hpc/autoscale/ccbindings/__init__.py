"""The CycleCloud side of the library: everything that knows the server or its protocol.

`new_cluster_bindings` is the way in; the node manager calls it once for each pass. `interface` is
what it gets back. Three modules implement it: `legacy` over REST (with `selection`, `creation_sets`
and `dryrun`), `mock` in memory, and `reproduce` from saved replies. `several` puts any number of
them together (with `connecting` and `lastseen`).

`legacy` also works with other clients (`foreign`), among them CycleCloud's own (`installed`). Our
client is, from the top: `client` (made from `auth` and `settings`), `clusters` (one function for
each endpoint), `mutation` (changing things exactly once) with `recovery`, `session` (when to send
and send again) with `pacing` and `waits`, `replies`, and `transport` (one HTTP request). All of
them use `models` and `errors`; `evidence` decides whether a listing may be believed.
"""

from collections.abc import Mapping
from typing import Any

from hpc.autoscale.ccbindings.interface import ClusterBindingInterface

__all__ = ["ClusterBindingInterface", "new_cluster_bindings"]

MADE_BY = "_binding_made_by"
"""The entry of a configuration with a function that makes its binding, from the configuration
without this entry: one that stands around the binding which that asks for, or answers in its place.
"""


def new_cluster_bindings(config: Mapping[str, Any]) -> ClusterBindingInterface:
    """The binding that a configuration asks for; connects to nothing yet.

    `_mock_bindings` is a binding to use as it is, or describes saved replies (`{"name":
    "reproduce", ...}`; another name is an AssertionError). Otherwise the server is the one of
    `url`, `username` and `password`, the cluster `cluster_name`, and `read_only` makes it a dry
    run. The client is ours, unless `cyclecloud_client` chooses that of the package `cyclecloud`
    (see `installed`). With `clusters` all of these are for each of them (see `several`). `MADE_BY`
    goes before all of that. Raises ConfigurationException when a setting is missing or unusable.
    """
    if config.get(MADE_BY):
        made: ClusterBindingInterface = config[MADE_BY](
            {key: value for key, value in config.items() if key != MADE_BY}
        )
        return made
    if config.get("clusters"):
        from hpc.autoscale.ccbindings.connecting import connect_several

        return connect_several(config, new_cluster_bindings)
    given = config.get("_mock_bindings")
    if isinstance(given, Mapping) and given:
        from hpc.autoscale.ccbindings.reproduce import ReproduceFromResponse

        if given.get("name", "reproduce") != "reproduce":
            raise AssertionError(f"unsupported _mock_bindings: {given['name']!r}")
        return ReproduceFromResponse(given)
    if given:
        binding: ClusterBindingInterface = given
        return binding
    return _connected(config)


def _connected(config: Mapping[str, Any]) -> ClusterBindingInterface:
    """The binding to a real server.

    Its modules are imported here, because they take half of the time to import the library.
    """
    from hpc.autoscale.ccbindings import installed
    from hpc.autoscale.ccbindings.auth import resolve_credentials
    from hpc.autoscale.ccbindings.client import Client
    from hpc.autoscale.ccbindings.legacy import ClusterBinding

    credentials = resolve_credentials(config)
    read_only = bool(config.get("read_only", False))
    # made in any case: it checks every setting, and says what is wrong in our words
    own = Client(config, **vars(credentials))
    binding = ClusterBinding(config, own.session, own, read_only=read_only)
    theirs = installed.connect(config, credentials)
    if theirs is None:
        return binding
    known = {**config, **vars(credentials)}
    return ClusterBinding(known, **vars(theirs), read_only=read_only)
