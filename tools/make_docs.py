"""Write the tables of README.md and docs/ anew from the code: `python tools/make_docs.py`.

With `--check` they are only compared. A table stands between `<!-- begin: NAME -->` and `<!-- end:
NAME -->`; everything else in those files is written by hand. Each function of `TABLES` returns the
text of one table. Called by people, by `make docs`, and by a test.
"""

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_type_hints

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "README.md",
    "docs/configuration.md",
    "docs/commands.md",
    "docs/doctor.md",
    "docs/guards.md",
    "docs/lifecycle.md",
    "docs/writing-an-integration.md",
    "docs/compatibility.md",
    "docs/performance.md",
    "docs/troubleshooting.md",
    "docs/explain.md",
    "docs/metrics.md",
)
FIGURES = ROOT / "docs" / "figures.json"
CAUSES = ROOT / "tests" / "integration" / "causes" / "causes.json"
DIFFERENCES = ROOT / "tests" / "conformance" / "differences.json"

# Properties that are plain attributes of a node, and so have no docstring of their own.
_ATTRIBUTES = {
    "state": (
        "str",
        "What CycleCloud says it is doing: Off, Acquiring, Preparing, Ready, Failed, …",
    ),
    "exists": ("bool", "It has been asked for; false for a node that is only planned."),
    "instance_id": ("str, null", "The VM's id, once there is a VM."),
    "create_time_unix": ("float", "When it was first seen, or at rest last, in unix seconds."),
    "last_match_time_unix": ("float", "When work last needed it, in unix seconds."),
    "delete_time_unix": (
        "float",
        "When it was last found gone, in unix seconds; 0 or null when it is not.",
    ),
}


def node_properties() -> str:
    """The properties that a constraint may name as `node.<property>`."""
    from hpc.autoscale.node.node import QUERYABLE_PROPERTIES, Node

    rows = []
    for name in sorted(QUERYABLE_PROPERTIES):
        found = inspect.getattr_static(Node, name, None)
        if isinstance(found, property):
            kind, meaning = _kind(found), _sentence(found)
        else:
            kind, meaning = _ATTRIBUTES[name]
        rows.append((f"`node.{name}`", kind, meaning))
    return table(("property", "type", "meaning"), rows)


def constraint_keywords() -> str:
    """The keys of a constraint that are neither a resource nor a node property."""
    from hpc.autoscale.node.constraints.parse import KEYWORDS

    rows = [(f"`{name}`", keyword.meaning) for name, keyword in sorted(KEYWORDS.items())]
    return table(("keyword", "value and meaning"), rows)


def _kind(prop: property) -> str:
    """The type of a property in JSON's words."""
    from hpc.autoscale.node.node.contents import Reads

    # the library imports this one for type checkers only
    if isinstance(prop, Reads):
        hint: Any = prop.kind
    else:
        hint = get_type_hints(prop.fget, localns={"datetime": datetime}).get("return")
    options = getattr(hint, "__args__", None) or (hint,)
    return ", ".join(_type_name(option) for option in options)


def _type_name(hint: Any) -> str:
    base = getattr(hint, "__supertype__", hint)
    return "null" if base is type(None) else str(base.__name__)


def _sentence(documented: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def configuration_keys() -> str:
    """The keys of autoscale.json that this library reads."""
    from hpc.autoscale.config.check import config_schema

    schema = config_schema()
    rows = [
        (f"`{path}`", _default_of(section), _meaning(section, schema["$defs"]))
        for path, section in schema_keys(schema)
    ]
    return table(("key", "default", "meaning"), rows)


def schema_keys(
    schema: Mapping[str, Any], path: str = "", definitions: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The keys that a JSON Schema describes, as dotted paths with their definitions.

    In a path `*` stands for any name and `[]` for any item.
    """
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    schema = {**definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], {}), **schema}
    for part in (schema, schema.get("then") or {}):
        for key, section in part.get("properties", {}).items():
            yield f"{path}{key}", section
            yield from schema_keys(section, f"{path}{key}.", definitions)
        for key, inner in (("*", part.get("additionalProperties")), ("[]", part.get("items"))):
            if isinstance(inner, Mapping):
                yield from schema_keys(inner, f"{path}{key}.".replace(".[]", "[]"), definitions)


def _meaning(section: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """What a key is for, or else what type of value is expected."""
    kind = definitions.get(str(section.get("$ref", "")).rpartition("/")[2], {})
    expected = section.get("expected") or kind.get("expected", "")
    return str(section.get("description") or expected[:1].upper() + expected[1:]).replace(
        "<", "&lt;"
    )


def _default_of(section: Mapping[str, Any]) -> str:
    return f"`{json.dumps(section['default'])}`" if "default" in section else ""


def commands() -> str:
    """The sub-commands of azscale with a driver. The page says which of them an integration's own
    command line does not have."""
    from hpc.autoscale.cli import DriverCLI, ScaleLibCLI
    from hpc.autoscale.cli.parsing import commands_of

    without = {name for name, _ in commands_of(ScaleLibCLI())}
    rows = [
        (f"`{name}`", "" if name in without else "yes", _sentence(function))
        for name, function in commands_of(DriverCLI())
    ]
    return table(("command", "needs a driver", "what it does"), rows)


def checks() -> str:
    """What `azscale doctor` looks at, in its order."""
    from hpc.autoscale.cli.checkup import CHECKS

    rows = [(f"`{check.name}`", check.what, check.remedy) for check in CHECKS]
    return table(("check", "what is looked at", "what to do"), rows)


def guards() -> str:
    """What must hold before a command is sent, in the order in which it is asked."""
    from hpc.autoscale.node.guards import GUARDS

    rows = [
        (
            f"`{guard.name}`",
            f"`{guard.code}`",
            ", ".join(guard.commands),
            ", ".join(asker.value for asker in guard.askers),
            guard.meaning,
        )
        for guard in sorted(GUARDS.values(), key=lambda guard: guard.is_ration)
    ]
    return table(("guard", "code", "commands", "asked on behalf of", "what must hold"), rows)


def drain_states() -> str:
    """The changes between the states of nodes that are on their way out."""
    from hpc.autoscale.node.nodehistory.draining import TRANSITIONS

    rows = [
        (" or ".join(each.before), f"{each.after}", each.cause, each.evidence)
        for each in TRANSITIONS
    ]
    return table(("from", "to", "who causes it, and when", "what has to be known"), rows)


def lifecycle() -> str:
    """The life of a simulated node."""
    from hpc.autoscale.simulator.lifecycle import render_table

    return render_table().rstrip("\n")


def promises() -> str:
    """What a driver promises: the checks of the conformance class, in the order in which they are
    written."""
    from hpc.autoscale.testing.conformance import DriverConformance

    rows = [
        (f"`{name}`", _sentence(check))
        for part in DriverConformance.__bases__
        for name, check in vars(part).items()
        if name.startswith("test_")
    ]
    return table(("check", "what is promised"), rows)


def _differences(kept: bool) -> str:
    entries = json.loads(DIFFERENCES.read_text(encoding="utf-8"))
    rows = [
        (d["id"], d["what"], d["upstream"], d["here"], d["why"], _tests(d["test"]))
        for d in entries
        if bool(d.get("kept")) == kept
    ]
    return table(("", "what", "upstream", "here", "why", "pinned by"), rows)


def _tests(paths: list[str]) -> str:
    """The first test that pins a difference, and the number of the others."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"`{paths[0]}`{more}"


def differences() -> str:
    """The table of deliberate differences from upstream."""
    return _differences(kept=False)


def kept_behaviour() -> str:
    """The table of upstream behaviour that was examined and kept."""
    return _differences(kept=True)


def figures() -> str:
    """The table of what the benchmarks measured last; `--figures` keeps it."""
    kept = json.loads(FIGURES.read_text(encoding="utf-8"))
    rows = [
        (
            each["name"],
            _amount(each["cpu_ms"]),
            _amount(each["scaled_ms"]),
            _amount(each["at_most_ms"]),
            _amount(each["peak_mb"]),
        )
        for each in kept["figures"]
    ]
    plans = [
        (
            each["name"],
            f"{each['price']:,.2f}",
            f"{each['bound']:,.2f}",
            f"{100 * each['gap']:.4f}",
            "" if each["at_most_gap"] is None else f"{100 * each['at_most_gap']:g}",
            _amount(each["cpu_ms"]),
        )
        for each in kept["cost"]
    ]
    grown = [(g["name"], f"{g['exponent']:.2f}", f"{g['at_most']:g}") for g in kept["growth"]]
    machine = f"{kept['cores']} cores, Python {kept['python']}, the loop in {kept['loop_s']:.3f} s"
    parts = [
        f"On {machine}.",
        table(("", "CPU ms", "scaled", "at most", "peak MB"), rows),
        "The least-cost mode: dollars per hour of the new nodes, the lower bound, and by how many"
        " percent the plan may be "
        "above the least; greedy alone has a weaker bound.",
        table(("", "price", "bound", "gap %", "at most", "CPU ms"), plans),
        "Growth over three doublings:",
        table(("growth", "exponent", "at most"), grown),
    ]
    return "\n\n".join(parts)


def _amount(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def keep_figures(path: Path) -> None:
    """Keep the figures in a JSON file of the benchmarks, without the single runs."""
    measured = json.loads(path.read_text(encoding="utf-8"))
    names = ("name", "cpu_ms", "scaled_ms", "at_most_ms", "peak_mb")
    done = [f for f in measured["figures"] if "cpu_ms" in f and not f["sweep"]]
    told = [f for f in done if f["group"] != "cost"]
    loops = sorted(each["loop_s"] for each in told)
    kept = {
        "python": measured["machine"]["python"],
        "cores": measured["machine"]["cores"],
        "loop_s": loops[len(loops) // 2],
        "figures": [{name: each[name] for name in names} for each in told],
        "cost": [
            {**f["runs"][0]["cost"], **{n: f[n] for n in ("name", "at_most_gap", "cpu_ms")}}
            for f in done
            if f["group"] == "cost"
        ],
        "growth": [
            {name: each[name] for name in ("name", "exponent", "at_most")}
            for each in measured["growth"]
        ],
    }
    FIGURES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def causes() -> str:
    """What `azscale explain` says in its first line, and what to do, group by group."""
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for row in json.loads(CAUSES.read_text(encoding="utf-8")):
        line = " ".join(row["line"].replace("*", "…").split())
        groups.setdefault(row["group"], []).append((row["name"], f"`{line}`", row["do"]))
    head = ("cause", "what you see", "what to do")
    return "\n\n".join(f"### {name}\n\n{table(head, rows)}" for name, rows in groups.items())


def cause_codes() -> str:
    """The codes of causes, those that are lifted first at the top."""
    from hpc.autoscale.explaining.codes import CODES

    rows = sorted(CODES.items(), key=lambda row: row[1].nearness)
    return table(
        ("code", "a job with it alone", "meaning"),
        [(f"`{name}`", str(code.stand), code.meaning) for name, code in rows],
    )


def spans() -> str:
    """The steps of a pass, which are the spans below that of the pass."""
    from hpc.autoscale.autoscaler.steps import STEPS
    from hpc.autoscale.autoscaler.telemetry import NAME, SAID_OF_A_PASS

    def named(counts: Sequence[str]) -> str:
        return ", ".join(f"`{name}`" for name in counts)

    counts = ("cluster", "scheduler", *SAID_OF_A_PASS)
    rows = [(f"`{NAME}.pass`", "The whole pass.", named(counts))]
    rows += [(f"`{NAME}.{s.name}`", s.meaning, named(s.counts)) for s in STEPS.values()]
    return table(("span", "what is done in it", f"attributes, each after `{NAME}.`"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "node-properties": node_properties,
    "constraint-keywords": constraint_keywords,
    "configuration-keys": configuration_keys,
    "commands": commands,
    "checks": checks,
    "lifecycle": lifecycle,
    "promises": promises,
    "differences": differences,
    "guards": guards,
    "drain-states": drain_states,
    "kept": kept_behaviour,
    "figures": figures,
    "causes": causes,
    "cause-codes": cause_codes,
    "spans": spans,
}


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = (head, tuple("---" for _ in head), *rows)
    cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def rendered(text: str, where: str) -> str:
    """The document with its tables made anew. SystemExit when a marker has no table, or no end."""
    for line in text.splitlines():
        if not line.startswith("<!-- begin: "):
            continue
        name = line.removeprefix("<!-- begin: ").removesuffix(" -->")
        end = f"<!-- end: {name} -->"
        if name not in TABLES or end not in text:
            raise SystemExit(
                f"{where}: {line}: no such table (known: {', '.join(TABLES)}), or no {end}"
            )
        before, rest = text.split(line, 1)
        text = f"{before}{line}\n\n{TABLES[name]()}\n\n{end}{rest.split(end, 1)[1]}"
    return text


def main(arguments: list[str]) -> int:
    """Write, or with --check only compare; the exit code is 1 when something differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail on differences")
    parser.add_argument(
        "--figures",
        metavar="FILE",
        type=Path,
        help="take over what this run of the benchmarks says",
    )
    options = parser.parse_args(arguments)
    check = options.check
    if options.figures:
        keep_figures(options.figures)
    stale = []
    for name in DOCUMENTS:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        new = rendered(text, name)
        if new != text:
            stale.append(name)
            if not check:
                path.write_text(new, encoding="utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run `make docs`", file=sys.stderr)
        return 1
    print(f"{'written' if stale else 'up to date'}: {', '.join(stale or DOCUMENTS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
