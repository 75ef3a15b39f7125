"""One slot after another until nothing takes any more, then more room, then again: as the naive
packer does each time."""

from unittest.mock import patch

from builders.engine_world import Machine, World
from builders.oracle_facts import machine_resources
from builders.oracle_reading import add_machines
from builders.oracle_world import NaiveWorld
from builders.queues import QueueMaker, queue
from builders.scenario_laws import for_scenarios, tell
from hpc.autoscale.job.job import Job
from hpc.autoscale.packing import cursor

MOST = 120
"""Slots that are placed in a row at most: some machines never fill."""

WAYS = ("machines", "group", "release", "write", "offer", "nothing")


def filled(seed):
    """A cluster, two shapes of one slot that take turns, and how room is made in between."""
    maker = QueueMaker(seed)
    specs = [{**maker.spec(), "how": "job-slots", "units": 1} for _ in range(2)]
    return {
        "cluster": {**queue(seed)["cluster"], "max_cores": maker.up_to(60, 8)},
        "events": [
            {"specs": specs, "then": maker.of(*WAYS), "at": maker.up_to(12)} for _ in range(3)
        ],
        "seed": seed,
        "report": maker.one_in(2),
    }


def kinds(scenario):
    """How room is made."""
    yield from (f"then {event['then']}" for event in scenario["events"])


def fill_up(worlds, specs, name, report):
    """Place one slot of each of the shapes in turn, by both, until neither is placed."""
    world, naive = worlds
    for number in range(MOST):
        placed = False
        for kind, spec in enumerate(specs):
            job = f"{name}.{number}.{kind}"
            expected = naive.request(spec, job)
            ask = world.reported if report else world.request
            total, nodes = ask(spec, job)
            assert total == len(expected)
            assert [n[0] if report else n for n in nodes] == [node for node, _ in expected]
            placed = placed or bool(expected)
        if not placed:
            return


def make_room(worlds, event, number):
    """The same to both."""
    world, naive = worlds
    if event["then"] == "machines":
        machines = [(4, f"late{number}"), (2, f"late{number}")]
        first = 100 * (number + 1)
        world.calculator.update_scheduler_nodes(
            [Machine(first + i, machine) for i, machine in enumerate(machines)]
        )
        add_machines(
            naive.cluster,
            [(f"onprem{first + i}", machine_resources(m)) for i, m in enumerate(machines)],
        )
    elif event["then"] != "nothing":
        happens = {
            "group": {"do": "group", "bucket": event["at"], "name": "pg9"},
            "release": {"do": "release", "node": event["at"]},
            "write": {"do": "write", "node": event["at"], "resource": "ncpus", "quarters": 4},
            "offer": {"do": "offer", "bucket": event["at"], "lic": 6},
        }[event["then"]]
        about = naive.named(happens)
        naive.happen(happens, about)
        world.happen(happens, about)


@for_scenarios(times=2, make=filled, kinds=kinds)
def test_what_fills_up_is_used_again_when_there_is_room(scenario):
    """Nothing that was learnt while it was full stands in the way later."""
    fill_up_again(scenario)


@for_scenarios(make=filled, kinds=kinds)
def test_what_fills_up_is_used_again_where_new_nodes_are_looked_up(scenario):
    """As nodes are of which thousands are added before an expression is asked again."""
    with patch.object(cursor, "_NEAR", 1):
        fill_up_again(scenario)


def fill_up_again(scenario):
    """Fill, make room and fill, in the engine and in the naive packer."""
    world = World(scenario["cluster"])
    worlds = world, NaiveWorld(world, scenario["cluster"])
    for number, event in enumerate(scenario["events"]):
        fill_up(worlds, event["specs"], f"job{number}", scenario["report"])
        tell(scenario, f"{number} filled")
        make_room(worlds, event, number)
        assert worlds[0].picture() == worlds[1].picture()
    fill_up(worlds, scenario["events"][0]["specs"] if scenario["events"] else [], "last", False)
    assert worlds[0].picture() == worlds[1].picture()


@for_scenarios(make=filled, kinds=kinds)
def test_jobs_of_one_slot_in_one_call(scenario):
    """As many at once as were placed one by one, with one that finds no place: the same."""
    world, other = World(scenario["cluster"]), World(scenario["cluster"])
    for number, event in enumerate(scenario["events"]):
        specs = [(f"job{number}.{i}", spec) for i in range(MOST // 2) for spec in event["specs"]]
        jobs = [
            [Job(name, each.express(each, spec["constraints"])) for name, spec in specs]
            for each in (world, other)
        ]
        world.calculator.add_jobs(jobs[0])
        for job in jobs[1]:
            other.calculator.add_job(job)
        assert [j.iterations_remaining for j in jobs[0]] == [
            j.iterations_remaining for j in jobs[1]
        ]
        assert world.picture() == other.picture()
