"""The harness of the benchmarks: what it measures with, and what it makes of it. Not how fast
anything is."""

import json
import sys

import pytest

import calibration
import compare
import figures
import fresh
import report
import run
import summary
import workloads

LIBRARY = fresh.library_of(fresh.ROOT)


def a_task(**more):
    """A small pass, with a short calibration."""
    return {"kind": "pass", "workload": "W2", "scale": {"n": 20}, "turns": 10_000, **more}


def measured(figure, *ratios, **more):
    """A figure with runs that took so many calibration loops."""
    found = summary.Measured(figure)
    found.runs = [{"cpu": {"total": r * 0.5}, "loop": 0.5, **more} for r in ratios]
    return found


def test_pass_is_measured_in_a_fresh_process():
    """Every part of a pass has its time, and what came of it is told."""
    told = fresh.measured(a_task(again=True), LIBRARY)
    parts = {"manager", "jobs", "add_jobs", "get_demand"}
    assert told["cpu"].keys() == told["cpu_again"].keys() == {*parts, "total"}
    assert told["cpu"]["total"] == pytest.approx(sum(told["cpu"][part] for part in parts))
    assert told["counts"]["unplaced"] == 0 < told["counts"]["new"]
    assert told["memory_mb"]["peak"] >= told["memory_mb"]["before"] > 1


def test_ways_to_write_a_rule_agree():
    """Site rules give the same right plan in every way, and another one than no rules."""
    ways = ("builtin", "lowered", "declared", "opaque")
    told = [fresh.measured(a_task(rules=way, check=True), LIBRARY) for way in ways]
    assert [each["violations"] for each in told] == [[], [], [], []]
    plans = {each["plan"] for each in told}
    assert len(plans) == 1
    assert fresh.measured(a_task(), LIBRARY)["plan"] not in plans


def test_results_are_kept_on_demand():
    """With a handler there is at least one result for each job."""
    assert fresh.measured(a_task(keep_results=True), LIBRARY)["counts"]["results"] >= 20


def test_import_and_startup_are_measured():
    """The other kinds of figures."""
    task = {"kind": "import", "module": figures.CALCULATOR, "turns": 10_000}
    assert fresh.measured(task, LIBRARY)["cpu"]["total"] > 0
    told = fresh.measured(a_task(kind="startup", workload="W4", scheduler_nodes=True), LIBRARY)
    assert told["cpu"].keys() == {"manager", "total"}


@pytest.mark.parametrize("arrays", ["real", "dynamic"])
def test_request_sets_are_measured(arrays):
    """All that they want is planned, and wanted no more once it is there."""
    task = {"kind": "requests", "arrays": arrays, "turns": 10_000, "part": 20}
    told = fresh.measured(task, LIBRARY)
    assert told["counts"] == {"new": 209, "unplaced": 0}
    assert told["cpu"]["total"] > 0 < told["cpu_again"]["total"]


def test_failed_measurement_says_why():
    """The last line of the process is the message."""
    with pytest.raises(fresh.MeasurementFailed, match="KeyError: 'W9'"):
        fresh.measured(a_task(workload="W9"), LIBRARY)


def test_measured_library_is_the_one_asked_for(tmp_path):
    """Not the one that is installed."""
    place = tmp_path / "src" / "hpc" / "autoscale"
    place.mkdir(parents=True)
    (place.parent / "__init__.py").write_text("")
    (place / "__init__.py").write_text("raise RuntimeError('the other one')")
    library = fresh.library_of(tmp_path)
    with pytest.raises(fresh.MeasurementFailed, match="the other one"):
        fresh.measured({"kind": "import", "module": "hpc.autoscale", "turns": 1000}, library)


def test_no_checkout_is_refused(tmp_path):
    """A directory without the library is none."""
    with pytest.raises(FileNotFoundError, match="src/hpc/autoscale"):
        fresh.library_of(tmp_path)


def test_names_are_unique():
    """Every figure can be told from the others, and what it is compared to is among them."""
    found = figures.all_figures()
    names = [figure.name for figure in found]
    assert len(set(names)) == len(names)
    assert {figure.than for figure in found} - {""} <= set(names)


def test_only_chooses_workloads_and_groups():
    """In any letter case, with what the chosen ones are compared to."""
    found = figures.all_figures()
    assert {f.name for f in figures.chosen(found, ["EXPLAIN"])} == {"W2", "W2, results kept"}
    assert {f.workload for f in figures.chosen(found, ["w3"])} == {"W3"}
    assert figures.chosen(found, []) == found
    with pytest.raises(ValueError, match="found W9"):
        figures.chosen(found, ["W1", "W9"])


def test_seed_goes_to_every_workload():
    """And to nothing else."""
    for figure in figures.all_figures(seed=5):
        given = figure.task.get("scale", {}).get("seed")
        assert given == (5 if figure.workload else None)


def test_quick_sweeps_are_not_judged():
    """They are too small for it."""
    quick = figures.all_figures(quick=True)
    assert {f.at_most_exponent for f in quick} == {None}
    assert [f.size for f in quick if f.sweep == "W1 by jobs"] == [500, 1000, 2000, 4000]


@pytest.mark.parametrize("power", [0.0, 1.0, 1.1, 2.0])
def test_exponent(power):
    """The exponent of a power is found, whatever it is multiplied by."""
    sizes = (100, 200, 400, 800)
    assert summary.exponent(sizes, [3 * n**power for n in sizes]) == pytest.approx(power)


def test_exponent_needs_two_sizes():
    """One point has no slope."""
    with pytest.raises(ValueError, match="two at least"):
        summary.exponent([5, 5], [1, 2])


def test_calibration_loop_runs_each_time():
    """Each time it is asked for, with as many turns as asked, and it is put in terms of all
    turns."""
    assert calibration.loop_seconds(1_000) > 0
    first = sys.modules["loop"]
    assert first.i == 999
    calibration.loop_seconds(2_000)
    assert sys.modules["loop"] is not first
    assert sys.modules["loop"].i == 1_999


def test_run_in_the_middle_counts():
    """Neither the best nor the worst; scaled to the reference machine."""
    found = measured(figures.Figure("f", "pass", {}), 1.0, 9.0, 2.0)
    assert found.scaled_ms == pytest.approx(2000 * calibration.REFERENCE_SECONDS)
    assert found.cpu_ms == pytest.approx(1000)


def test_a_run_beside_an_unsteady_loop_does_not_count():
    """As long as another one does; the loop may be a tenth slower after the run than before it, or
    before than after."""
    found = measured(figures.Figure("f", "pass", {}, at_most_ms=1), 1.0, 9.0, loops=[0.5, 0.54])
    found.runs[0]["loops"] = [0.5, 0.56]
    found.runs.append({**found.runs[0], "loops": [0.56, 0.5]})
    assert found.scaled_ms == pytest.approx(9000 * calibration.REFERENCE_SECONDS)
    assert found.cpu_ms == pytest.approx(4500)
    assert summary.withheld([found]) == []


def test_a_figure_without_a_steady_run_is_withheld():
    """Its raw figures are told, and nothing is judged by it: no target, no ratio, no growth."""
    targets = {"at_most_ms": 1, "than": "base", "at_most_ratio": 2}
    unsteady = measured(figures.Figure("f", "pass", {}, **targets), 1.0, loops=[0.5, 0.6])
    base = measured(figures.Figure("base", "pass", {}), 1.0)
    point = figures.Figure("s1", "growth", {}, sweep="s", size=1, at_most_exponent=1.1)
    other = figures.Figure("s2", "growth", {}, sweep="s", size=2, at_most_exponent=1.1)
    found = [base, unsteady, measured(point, 1.0), measured(other, 9.0, loops=[0.5, 0.6])]
    assert summary.verdicts(found) == []
    assert summary.withheld(found) == ["f", "s2"]
    said = report.text(found)
    assert "500.0" in said
    assert "withheld" in said
    assert "not steady: f; s2" in said


def test_calibration_stands_on_both_sides_of_a_run():
    """In every kind of measurement."""
    for task in (a_task(), {"kind": "import", "module": figures.CALCULATOR, "turns": 10_000}):
        told = fresh.measured(task, LIBRARY)
        assert len(told["loops"]) == 2
        assert told["loop"] == pytest.approx(sum(told["loops"]) / 2)


def test_targets_are_judged():
    """Times, memory, ratios and exponents, each against its own target."""
    slow = figures.Figure(
        "slow", "pass", {}, at_most_ms=1, at_most_mb=50, than="base", at_most_ratio=2
    )
    points = [
        figures.Figure(f"s{n}", "growth", {}, sweep="s", size=n, at_most_exponent=1.1)
        for n in (1, 2, 4)
    ]
    found = [
        measured(figures.Figure("base", "pass", {}), 1.0),
        measured(slow, 1.5, memory_mb={"peak": 40.0}),
        *(measured(point, point.size**2) for point in points),
    ]
    judged = {(v.name, v.what): v.holds for v in summary.verdicts(found)}
    assert judged == {
        ("slow", "CPU ms"): False,
        ("slow", "peak MB"): True,
        ("slow", "times"): True,
        ("s", "exponent"): False,
    }


def test_figure_that_failed_is_told_apart():
    """It has no verdict, and the report says why."""
    failed = summary.Measured(figures.Figure("f", "pass", {}, at_most_ms=5), failure="no luck")
    assert summary.verdicts([failed]) == []
    assert "f: no luck" in report.text([failed])


def test_differing_plans_are_told():
    """Between the runs of a figure, and between a figure and what it is compared to."""
    base = measured(figures.Figure("base", "pass", {}), 1.0, plan="a")
    other = measured(figures.Figure("other", "pass", {}, than="base"), 1.0, plan="b")
    other.runs.append({**other.runs[0], "plan": "c"})
    said = report.text([base, other])
    assert "Different plans in different runs: other" in said
    assert "Another plan than what it is compared to: other" in said


def test_plan_of_every_workload_is_checked():
    """Once at least, and in every group but the sweeps."""
    found = [figure for figure in figures.all_figures() if figure.task.get("check")]
    assert {figure.workload for figure in found} == workloads.MAKERS.keys()
    assert {figure.group for figure in found} == {
        "pass",
        "explain",
        "loop",
        "hard",
        "custom",
        "cost",
        "big",
    }


def test_wrong_plans_are_told(monkeypatch, tmp_path, capsys):
    """In the table, by what is wrong, and by the exit status when it is asked for."""
    right = measured(figures.Figure("right", "pass", {}), 1.0, violations=[])
    wrong = measured(figures.Figure("wrong", "pass", {}), 1.0, violations=["n1: overfilled"])
    assert "plan checked: ok, all 1" in report.text([right])
    said = report.text([right, wrong])
    assert "1 WRONG" in said
    assert "wrong: n1: overfilled" in said
    assert "plan checked: violations in 1 of 2" in said
    given = ["--only", "import", "--out", str(tmp_path / "out.json")]
    for found, options, status in (
        ([wrong], ["--check"], 1),
        ([right], ["--check"], 0),
        ([wrong], [], 0),
    ):
        monkeypatch.setattr(run, "measure_all", lambda figures, runs, library, f=found: f)
        assert run.main([*given, *options]) == status
    assert "WRONG" in capsys.readouterr().out


def test_ratios_of_pairs():
    """Each run of the new one is held against the run of the old one beside it."""
    pair = compare.Pairs(figures.Figure("f", "pass", {}))
    pair.old = measured(pair.figure, 1.0, 2.0, 4.0, plan="a")
    pair.new = measured(pair.figure, 2.0, 2.0, 2.0, plan="b")
    assert pair.ratios == [0.5, 1.0, 2.0]
    assert pair.same_plan == "NO"
    assert "1.00    0.50     2.00" in compare.text([pair])


@pytest.fixture
def two_imports(monkeypatch):
    """Only the imports, with a short calibration."""
    shortened = [
        figures.Figure(
            "one", "import", {"kind": "import", "module": "hpc.autoscale", "turns": 1000}, 1e9
        ),
        figures.Figure(
            "none", "import", {"kind": "import", "module": "hpc.autoscale.no", "turns": 1000}
        ),
    ]
    for module in (run, compare):
        monkeypatch.setattr(module, "all_figures", lambda quick, seed: shortened)


def test_run_prints_and_writes(monkeypatch, two_imports, tmp_path, capsys):
    """A figure that cannot be had keeps none of the others away; the exit status tells."""
    monkeypatch.setattr(summary, "STRAYS_AT_MOST", float("inf"))  # however busy the machine is
    out = tmp_path / "new" / "report.json"
    assert run.main(["--runs", "2", "--out", str(out)]) == 1
    written = json.loads(out.read_text())
    assert [len(figure["runs"]) for figure in written["figures"]] == [2, 0]
    assert written["machine"]["python"] == sys.version.split()[0]
    assert "1 of 1 targets are met" in capsys.readouterr().out


def test_compare_prints_ratios(two_imports, tmp_path, capsys):
    """Both checkouts are measured, and what fails is told with the side on which it did."""
    here, out = str(fresh.ROOT), tmp_path / "pairs.json"
    assert compare.main([here, here, "--only", "import", "--rounds", "2", "--out", str(out)]) == 1
    assert len(json.loads(out.read_text())["ratios"]["one"]) == 2
    assert "none: old: ModuleNotFoundError" in capsys.readouterr().out


@pytest.mark.parametrize("given", [["--runs", "0"], ["--only", "W9"]])
def test_wrong_arguments_are_refused(given, capsys):
    """With what was expected, and exit status 2."""
    with pytest.raises(SystemExit, match="2"):
        run.main(given)
    assert "expected" in capsys.readouterr().err


def test_a_layer_of_speed_can_be_left_out():
    """Every figure is then measured without it; a name that is none is refused, and the names are
    said."""
    _, chosen = run.parse(["--quick", "--without", "one-slot, groups"])
    assert all(figure.task["without"] == ["one-slot", "groups"] for figure in chosen)
    with pytest.raises(SystemExit):
        run.parse(["--without", "one-slott"])
