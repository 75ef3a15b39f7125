"""Which nodes are of a gang, held against a list that each gang keeps of all that were there."""

from hypothesis import given
from hypothesis import strategies as st

from builders.nodes import a_planned_node, a_running_node
from hpc.autoscale.gangs.file import Gathering, Place
from hpc.autoscale.gangs.members import Members, id_of

PLACES = [Place("htc", "F4", "westus2", False), Place("htc", "F4", "westus2", False, "pg0")]
JOBS = ["a", "b"]
place = st.sampled_from(PLACES)
some = st.sets(st.integers(0, 7), min_size=1, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), place, st.integers(1, 4)),
        st.tuples(st.just("go"), some),
        st.tuples(st.just("fail"), some),
        st.tuples(st.just("work"), some, st.sets(st.sampled_from(JOBS), min_size=1)),
        st.tuples(st.just("rest"), some, st.just(())),
        st.tuples(st.just("ask"), place, st.sampled_from(JOBS), some),
        st.tuples(st.just("plan"), place),
    ),
    min_size=10,
    max_size=30,
)


class World:
    """Nodes by number, with their place, state and jobs; the gangs under way, with all the nodes
    that were there before and are not theirs."""

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[Place, str, frozenset[str]]] = {}
        self.planned: list[Place] = []
        self.numbers: dict[str, int] = {}
        self.gatherings: list[tuple[Gathering, set[str]]] = []

    def members(self) -> Members:
        """The nodes as a pass reads them."""
        made = [
            a_running_node(name=f"htc-{n}", id=f"id-{n}", state=state, **_where(there))
            for n, (there, state, _) in self.nodes.items()
        ]
        for node, (_, _, jobs) in zip(made, self.nodes.values(), strict=True):
            for job in jobs:
                node.assign(job)
        self.now = [*made, *(a_planned_node(name="new", **_where(p)) for p in self.planned)]
        return Members(self.now, self.numbers)

    def expected(self, gathering: Gathering, others: set[str]) -> list[str]:
        """What each gang would find by itself."""
        return [
            f"id-{n}"
            for n, (there, state, jobs) in self.nodes.items()
            if there == gathering.place and state != "Failed" and f"id-{n}" not in others
            if jobs <= {gathering.job}
        ]

    def ask(self, there: Place, job: str, own: set[int], number: int) -> None:
        """Nodes are asked for for a gang, which has some already."""
        members = self.members()
        members.number(there, number)
        self.numbers = members.numbers
        mine = {f"id-{n}" for n in own if self.nodes.get(n, (None,))[0] == there}
        there_now = {f"id-{n}" for n, (at, *_) in self.nodes.items() if at == there}
        asked = Gathering(job, there, 8, 8, 0.0, 9.0, 0.0, number, tuple(mine))
        self.gatherings.append((asked, there_now - mine))
        self.check(members)

    def check(self, members: Members) -> None:
        for gathering, others in self.gatherings:
            expected = self.expected(gathering, others)
            assert [id_of(node) for node in members.of(gathering)] == expected
            assert members.has_some(gathering) == bool(expected)


def _where(there: Place) -> dict[str, str | None]:
    return {"nodearray": there.nodearray, "vm_size": "F4", "placement_group": there.group or None}


@given(steps)
def test_each_gang_has_what_came_since_it_was_asked_for_and_what_it_had(happened):
    """Whoever else gathers there, and whatever comes, goes, fails or gets work."""
    world, at = World(), 0
    for number, (what, *about) in enumerate(happened, 1):
        if what == "come":
            for _ in range(about[1]):
                world.nodes[at] = (about[0], "Ready", frozenset())
                at += 1
        elif what == "plan":
            world.planned.append(about[0])
        elif what == "ask":
            world.ask(*about, number)
        else:
            for n in about[0] & world.nodes.keys():
                there, state, jobs = world.nodes.pop(n)
                if what == "fail":
                    state = "Ready" if state == "Failed" else "Failed"
                if what in ("work", "rest"):
                    jobs = frozenset(about[1])
                if what != "go":
                    world.nodes[n] = (there, state, jobs)
        world.check(world.members())


def test_numbers_are_kept_of_nodes_that_are_there():
    """However many gangs gather: one number for each node."""
    world = World()
    for number in range(1, 50):
        world.nodes = {n: (PLACES[0], "Ready", frozenset()) for n in range(number, number + 10)}
        world.ask(PLACES[0], "a", set(), number)
    assert len(world.numbers) == 10
