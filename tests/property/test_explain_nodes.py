"""What `explain` says of nodes is what the next pass does with them, and what autostop answers.

Sites are drawn as for the laws of plans. Each of their nodes is explained before each pass.
"""

import copy
import os

import pytest

from builders.plan_worlds import PlanWorld, done, truth
from hpc.autoscale.autostop.ledger import Ledger
from hpc.autoscale.autostop.service import StopService
from hpc.autoscale.cli.explaining import look
from hpc.autoscale.explaining.of_nodes import explain_node
from hpc.autoscale.node.guards import GUARDS
from hpc.autoscale.requestsets.store import RequestStore
from hpc.autoscale.statefiles import REQUEST_SETS, STOPS, path_of

SITES = int(os.environ.get("EXPLAIN_SITES", "4"))
"""So many sites are drawn; more with `EXPLAIN_SITES`."""

FIRST = int(os.environ.get("EXPLAIN_FIRST", "0"))
"""The seed of the first of them."""

PASSES = 9
GOING, COMING = ("delete", "stop_worker"), ("start", "start_worker")
LEAVING = ("start", "drain", "delete")
ASKED_OR_NOT = {"HasJobs", "KeepAlive", "ClusterAway", "NotManaged"}
"""What is said also of nodes about which no guard was asked. Of a machine that only the scheduler
knows the loop asks none: it wants nothing of it."""

GUARD_CODES = {guard.code for guard in GUARDS.values()} - ASKED_OR_NOT


def explained(world):
    """The codes of what is said of each node that there is, by name."""
    with world.time():
        scene = look(world.config, world.driver)
        there = [n for n in scene.nodes if n.exists or n.delayed_node_id.node_id or not n.managed]
        return {str(n.name): [c.code for c in explain_node(n, scene).causes] for n in there}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SITES))
def test_what_is_said_of_nodes_comes_true(home, seed):
    """A node goes in the next pass, or is started, where that is said, and no other is; a guard
    that is named is the guard that keeps it; and nothing is changed by asking."""
    world = PlanWorld(seed, home)
    for _ in range(PASSES):
        world.step()
        before = truth(world)
        said = explained(world)
        assert truth(world) == before
        summary = world.run()
        rows = done(before, truth(world))
        for code, actions in (("Goes", GOING), ("Comes", COMING)):
            seen = {name for action, name in rows if action in actions}
            assert {name for name, codes in said.items() if code in codes} == seen
        refused = {}
        for node, command, _, code, *_ in summary.refused:
            if command in LEAVING:
                refused.setdefault(str(node.name), set()).add(code)
        for name, codes in said.items():
            named = GUARD_CODES.intersection(codes)
            assert refused.get(name, set()) <= set(codes), name
            assert named <= refused.get(name, set()), name


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SITES))
def test_what_autostop_would_answer_is_what_it_answers(home, seed):
    """By word and sentence, for a ready node of each pass; asking beforehand reserves nothing."""
    world = PlanWorld(seed, home)
    world.settings["autostop"] = {}
    for _ in range(PASSES):
        world.step()
        with world.time():
            scene = look(world.config, world.driver)
            ready = [n for n in scene.nodes if n.managed and n.exists and n.state == "Ready"]
            node = world.rng.choice(ready) if ready else None
            files = world.keep_files()
            verdict = explain_node(node, scene) if node else None
        if node is not None:
            (said,) = (c for c in verdict.causes if c.code in ("MayStop", "MayNotStop"))
            answer = asked(copy.deepcopy(world), str(node.delayed_node_id.node_id))
            assert (said.code == "MayStop") == answer.accepted
            assert answer.text in said.text
            world.lay_out(files)
        world.run()


def asked(world, node_id):
    """What the service tells a node of a world."""
    config = world.config
    ledger, store = (path_of(file, config, str(world.home)) for file in (STOPS, REQUEST_SETS))
    service = StopService(config, world.driver, Ledger(ledger), RequestStore(store), True)
    with world.time():
        return service.ask(node_id)
