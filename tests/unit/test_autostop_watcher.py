"""What runs on a node, with commands of its own and a service that says what the test wants."""

import json

import pytest

from hpc.autoscale import clock
from hpc.autoscale.autostop.callback import ScheduledEvent, Told
from hpc.autoscale.autostop.watcher import NodeCommandError, Watcher, settings_of
from hpc.autoscale.errors import ConfigurationException

YES, NO, AWAY = Told(True, "yes"), Told(False, "no"), Told(None, "away")
AFTER, BEFORE = 300, 600


class Service:
    """Answers in turn, the last answer again and again."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    def ask(self, reason):
        """The next answer."""
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Events:
    """Events of Azure."""

    def __init__(self, *events):
        self.found = list(events)

    def events(self):
        """Those that there are now."""
        return self.found


class Node:
    """A node whose commands write down that they ran; `busy` is the exit code of the check."""

    def __init__(self, directory):
        self.directory = directory
        self.clock = clock.use_mock_clock()
        self.clock.now = 1_000_000.0
        self.service = Service(NO)
        self.events = None
        self.more = {}
        self.at_work(False)

    def at_work(self, is_busy):
        """Let the check say so from now on; None for no answer."""
        code = {True: 0, False: 1, None: 2}[is_busy]
        (self.directory / "busy").write_text(str(code))

    def command(self, name, code=0):
        """A command that notes that it ran."""
        return ["sh", "-c", f'echo "{name} $AUTOSTOP_EVENT" >> log; exit {code}']

    def look(self, after=60):
        """Let time pass, and look."""
        self.clock.now += after
        section = {
            "busy_command": ["sh", "-c", 'exit "$(cat busy)"'],
            "stop_command": self.command("stop"),
            "idle_time_after_jobs": AFTER,
            "idle_time_before_jobs": BEFORE,
            **self.more,
        }
        settings = settings_of({"autostop": section}, str(self.directory))
        return Watcher(settings, self.service, self.events).look()

    def idle(self, seconds):
        """Look once a minute for so long; the last thing said."""
        said = self.look()
        for _ in range(seconds // 60):
            said = self.look()
        return said

    @property
    def log(self):
        """What ran, in order."""
        path = self.directory / "log"
        return [line.strip() for line in path.read_text().splitlines()] if path.exists() else []

    def state(self):
        """The state file."""
        return json.loads((self.directory / "autostop-state.json").read_text())


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node that is idle."""
    monkeypatch.chdir(tmp_path)
    return Node(tmp_path)


def test_a_node_that_never_worked(node):
    """Asks after idle_time_before_jobs, not before, and stops on a yes."""
    node.service = Service(YES)
    assert node.idle(BEFORE - 60) == ("idle for 540 s (idle_time_before_jobs is 600)", False)
    assert (node.service.asked, node.log) == (0, [])
    said, stops = node.look()
    assert (stops, node.service.asked, node.log) == (True, 1, ["stop"])
    assert said.endswith("yes; stopping")


def test_a_node_that_has_worked(node):
    """Asks after idle_time_after_jobs."""
    node.service = Service(YES)
    node.at_work(True)
    assert node.look() == ("at work", False)
    node.at_work(False)
    assert node.idle(AFTER - 60)[1] is False
    assert node.look()[1] is True


def test_a_node_that_is_told_no(node):
    """Asks again at the next look, and stays until it is told yes."""
    node.service = Service(NO, NO, YES)
    assert node.idle(BEFORE)[1] is False
    assert [node.look()[1], node.look()[1]] == [False, True]
    assert (node.service.asked, node.log) == (3, ["stop"])


def test_a_service_that_is_away(node):
    """Is no yes, however long."""
    node.service = Service(AWAY)
    node.idle(BEFORE)
    assert not any(node.look()[1] for _ in range(50))
    assert node.log == []


def test_stop_unanswered_after(node):
    """Only where the configuration says so, and only when nobody answered all the time."""
    node.more = {"stop_unanswered_after": 180}
    node.service = Service(AWAY, AWAY, NO, AWAY, AWAY, AWAY, AWAY)
    node.idle(BEFORE)
    assert [node.look()[1] for _ in range(6)] == [False, False, False, False, False, True]


def test_no_answer_is_not_idle(node):
    """A check that fails, or that cannot be run, or takes too long."""
    node.idle(BEFORE - 120)
    node.at_work(None)
    assert node.look() == ("whether the node is at work is unknown", False)
    node.at_work(False)
    assert node.look()[0].startswith("idle for 0 s")
    node.more = {"busy_command": ["/no/such/program"]}
    assert node.look()[0] == "whether the node is at work is unknown"
    slow = ["sleep", "60"]
    node.more = {"busy_command": slow, "command_timeout": 0.2}
    assert node.look()[0] == "whether the node is at work is unknown"


def test_a_pause_in_watching(node):
    """Begins idle time anew."""
    node.service = Service(YES)
    node.idle(BEFORE - 60)
    assert node.look(after=10_000) == ("idle for 0 s (idle_time_before_jobs is 600)", False)


def test_a_damaged_state_file(node):
    """Begins it anew, too, and is written anew."""
    node.service = Service(YES)
    node.idle(BEFORE - 60)
    (node.directory / "autostop-state.json").write_text("{")
    assert node.look()[0].startswith("idle for 0 s")
    assert node.state()["idle_start_time"] == node.clock.now


# -- draining


def drained(node, code=0):
    """A node with commands to drain it."""
    node.more = {
        "drain_command": node.command("drain", code),
        "undrain_command": node.command("undrain"),
    }
    return node


def test_it_drains_before_it_asks(node):
    """And takes work again when it is told no."""
    drained(node).service = Service(NO, YES)
    node.idle(BEFORE)
    assert node.log == ["drain", "undrain"]
    assert node.look()[1] is True
    assert node.log == ["drain", "undrain", "drain", "stop"]


def test_a_node_that_cannot_be_drained(node):
    """Does not ask."""
    drained(node, code=3).service = Service(YES)
    assert node.idle(BEFORE)[0].endswith("it could not be drained")
    assert (node.service.asked, node.log) == (0, ["drain", "undrain"])


def test_work_that_begins_while_it_drains(node):
    """Keeps the node: it does not ask, and is idle no more."""
    drained(node).service = Service(YES)
    node.more["drain_command"] = ["sh", "-c", "echo 0 > busy; echo drain >> log"]
    assert node.idle(BEFORE) == (
        "idle for 600 s (idle_time_before_jobs is 600); then work began",
        False,
    )
    assert (node.service.asked, node.log) == (0, ["drain", "undrain"])
    assert node.state()["idle_start_time"] is None


def test_a_stop_that_fails(node):
    """Is an error, and is tried again with the next look."""
    node.service = Service(YES)
    node.more = {"stop_command": node.command("stop", 1)}
    with pytest.raises(NodeCommandError, match="stop_command failed"):
        node.idle(BEFORE)
    with pytest.raises(NodeCommandError, match="stop_command failed"):
        node.look()
    assert node.log == ["stop", "stop"]


def test_no_command_to_stop(node):
    """Leaves it to the service."""
    node.service = Service(YES)
    node.more = {"stop_command": []}
    assert node.idle(BEFORE)[1] is True
    assert node.log == []


# -- events of Azure


def test_an_event_is_handed_on_once(node):
    """With its kind; others are handed on as they come."""
    node.more = {"notice_command": node.command("notice")}
    node.events = Events(ScheduledEvent("1", "Reboot", "soon"))
    node.look()
    node.events.found.append(ScheduledEvent("2", "Preempt", "now"))
    node.look()
    node.look()
    assert node.log == ["notice Reboot", "notice Preempt"]


@pytest.mark.parametrize(("kind", "asks"), [("Preempt", 0), ("Terminate", 0), ("Freeze", 1)])
def test_a_machine_that_goes_anyway(node, kind, asks):
    """Needs no permission."""
    node.events = Events(ScheduledEvent("1", kind, "soon"))
    node.idle(BEFORE)
    assert node.service.asked == asks


# -- the configuration


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({}, "busy_command"),
        ({"busy_command": ["x"], "drain_command": ["y"]}, "undrain_command"),
    ],
)
def test_what_is_missing(section, said):
    """Is said, with where it goes."""
    with pytest.raises(ConfigurationException, match=f"autostop.{said}: expected"):
        settings_of({"autostop": section}, "/tmp")


def test_times_may_be_texts():
    """As everywhere in the configuration."""
    section = {"busy_command": ["x"], "idle_time_after_jobs": "90"}
    assert settings_of({"autostop": section}, "/tmp").idle_time_after_jobs == 90
