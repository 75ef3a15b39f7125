"""Weights of regions that are kept: when they are asked for again, and what their file may do."""

import json
import sqlite3
import sys
import threading

import pytest

from hpc.autoscale import cli, clock
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.weights import WeightsError, current_weights
from hpc.autoscale.weights.providers import provider_named

CONFIG = {"weights": {"provider": "slow", "regions": ["eastus"]}}


@pytest.fixture(autouse=True)
def mock_clock():
    """Time passes where a test says so."""
    return clock.use_mock_clock()


def test_a_provider_that_takes_long_to_fail_is_left_alone_for_a_minute(tmp_path):
    """From when it failed: or else every pass would wait for it."""
    asked = []

    def slow(name, question):
        asked.append(name)
        clock.sleep(120)
        raise OSError("no answer")

    for after in (0, 59, 1):
        clock.sleep(after)
        assert current_weights(CONFIG, str(tmp_path), slow).problem == "slow: no answer"
    assert len(asked) == 2


def test_a_provider_that_would_end_the_process(tmp_path):
    """Has failed like any other, at once."""

    def ends(name, question):
        raise SystemExit(3)

    assert current_weights(CONFIG, str(tmp_path), ends).problem == "slow: it called sys.exit(3)"


def test_a_provider_that_hangs_is_left_alone(tmp_path):
    """The last good weights hold, and no second thread waits for it."""
    answers, asked = threading.Event(), []

    def hangs(name, question):
        asked.append(name)
        answers.wait(60)
        return {"eastus": 3}

    config = {"weights": {**CONFIG["weights"], "timeout": 0.05, "static": {"eastus": 7}}}

    def now():
        clock.sleep(1000)
        return current_weights(config, str(tmp_path), hangs)

    found = now()
    assert (found.weights, found.problem) == ({"eastus": 7}, "slow: no answer within 0.05 seconds")
    assert "still has not answered" in now().problem
    assert len(asked) == 1
    answers.set()
    config["weights"]["timeout"] = 60  # it has to come in time on a busy machine, too
    while (found := now()).problem:
        pass
    assert (found.weights, len(asked)) == ({"eastus": 3}, 2)


def test_a_file_that_cannot_be_written_keeps_nobody_from_the_weights(tmp_path, caplog):
    """As on a full disk, or for a user who may only read; there is a warning."""
    found = current_weights(CONFIG, str(tmp_path / "gone"), lambda name, question: {"eastus": 7})
    assert (found.weights, found.problem) == ({"eastus": 7}, "")
    assert "weights are not remembered" in caplog.text
    assert "there is no directory" in caplog.text


@pytest.mark.parametrize(("home", "more"), [("gone", {}), (".", {"read_only": True})])
def test_a_provider_is_asked_as_seldom_where_nothing_is_written(tmp_path, home, more):
    """By a loop on a full disk, or one that may only read: there is a quota of questions, and one
    that hangs is waited for."""
    asked = []

    def fails_once(name, question):
        asked.append(clock.time())
        if len(asked) == 1:
            raise OSError("no answer")
        return {"eastus": 7}

    for _ in range(40):
        found = current_weights({**CONFIG, **more}, str(tmp_path / home), fails_once)
        clock.sleep(30)
    assert asked == [1000.0, 1060.0, 1960.0]
    assert found.weights == {"eastus": 7}
    assert list(tmp_path.iterdir()) == []


def test_floats_that_were_made_whole_are_compared_with_no_whole_numbers(tmp_path):
    """A region keeps its ratio to the others also where these happen to be whole, as 2 and 1 are
    beside 1.5."""
    answers = iter([{"a": 2, "b": 1.5, "c": 1}, *[{"a": 2, "c": 1}] * 2])
    config = {"weights": {"provider": "mine", "regions": ["a", "b", "c"]}}
    found = []
    for answer in answers:
        clock.sleep(901)
        checked = {region: answer.get(region) for region in "abc"}
        said = current_weights(config, str(tmp_path), lambda *words, is_now=checked: is_now)
        found.append(list(said.weights.values()))
    assert found == [[1000, 750, 500]] * 3


def test_what_another_process_has_written_meanwhile_counts(tmp_path):
    """Where a process that may only read has asked before."""

    def weighs(weight):
        return lambda name, question: {"eastus": weight}

    reading = {**CONFIG, "read_only": True}
    assert current_weights(reading, str(tmp_path), weighs(1)).weights == {"eastus": 1}
    clock.sleep(10)
    assert current_weights(CONFIG, str(tmp_path), weighs(2)).weights == {"eastus": 1}
    clock.sleep(890)
    assert current_weights(CONFIG, str(tmp_path), weighs(3)).weights == {"eastus": 1}
    with sqlite3.connect(tmp_path / "weights.db") as db:
        (saved,) = db.execute("SELECT found FROM weights").fetchone()
        newer = {**json.loads(saved), "weights": {"eastus": 5}, "tried_at": clock.time() + 5}
        db.execute("UPDATE weights SET found = ?", (json.dumps(newer),))
    clock.sleep(10)
    assert current_weights(reading, str(tmp_path), weighs(4)).weights == {"eastus": 5}


GOOD = {"weights": {"eastus": 1}, "taken_at": 1.0, "tried_at": 1.0, "unknown": []}


@pytest.mark.parametrize(
    "saved",
    [
        "[]",
        "[" * 100_000,
        json.dumps({**GOOD, "tried_at": "now"}),
        json.dumps({**GOOD, "weights": ["eastus"]}),
        json.dumps({**GOOD, "weights": {"eastus": "1"}}),
        json.dumps({**GOOD, "weights": {"eastus": -1}}),
        json.dumps({**GOOD, "weights": {"eastus": 0}}),
        json.dumps({**GOOD, "weights": {}}),
    ],
    ids=range(8),
)
def test_weights_that_cannot_be_are_a_damaged_file(tmp_path, saved):
    """With what to do about it; they are not taken for weights while the provider fails."""

    def fail(name, question):
        raise OSError("no answer")

    current_weights(CONFIG, str(tmp_path), fail)
    with sqlite3.connect(tmp_path / "weights.db") as db:
        db.execute("UPDATE weights SET found = ?", (saved,))
    with pytest.raises(WeightsError, match=r"weights.db: it is damaged \(.*\): move it away"):
        current_weights(CONFIG, str(tmp_path), fail)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"provider": "spotscore"}, "found 'spotscore'; did you mean 'spot-score'?"),
        (
            {"provider": "blend", "blend": {"price": 1, "blend": 1}},
            "weights: expected a provider (static, spot-score, price), found 'blend'",
        ),
        (
            {"static": {"eastus": 1, "westsu": 1}},
            "weights.static: expected weights of weights.regions (eastus, westus), found 'westsu';"
            " did you mean 'westus'?",
        ),
        ({"regions": []}, "weights.regions: expected one region or more, found none"),
    ],
    ids=range(4),
)
def test_mistakes_are_found_when_a_configuration_is_checked(tmp_path, capsys, section, said):
    """And not only once a provider is to be asked."""
    path = tmp_path / "autoscale.json"
    section = {"regions": ["eastus", "westus"], **section}
    path.write_text(json.dumps({"cluster_name": "c", "weights": section}))
    with pytest.raises(SystemExit):
        cli.main(["config", "--check", "-c", str(path)])
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import os\nx = os.environ['ACME_NOT_SET']", "KeyError: 'ACME_NOT_SET'"),
        ("x = 5", "expected a function, found 5"),
    ],
)
def test_an_offered_provider_that_cannot_be_had_is_named(tmp_path, monkeypatch, module, said):
    """Whatever its module raises."""
    (tmp_path / "acme_weights.py").write_text(module)
    info = tmp_path / "acme_weights-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-weights\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hpc.autoscale.weights]\nacme = acme_weights:x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_weights", raising=False)
    named = r"weights: the provider 'acme' \(acme_weights:x\) cannot be had: "
    with pytest.raises(ConfigurationException, match=named + said):
        provider_named("acme")
