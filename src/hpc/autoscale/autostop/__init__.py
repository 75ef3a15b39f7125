"""Autostop: nodes that are idle ask whether they may stop, and stop when the answer is yes.

`decision` says who may, `surplus` what it is decided from, and `ledger` keeps every yes in a file
that all processes share. `service` and `web` answer nodes over HTTP, and `app` is that for other
WSGI servers. `idleness` and `watcher` are the side of the node, which `azscale autostop` runs.
"""
