"""What azscale prints of a journal: passes in rows and in words, what changed, and where a replay
comes to something else."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builders.command_lines import run_azscale
from builders.fake_scheduler import cluster, now, run, scheduler
from builders.journals import a_node_record, a_pass_record, a_status, a_waiting_job
from hpc.autoscale.journal import Journal, JournalWriter
from hpc.autoscale.journal.frames import packed
from hpc.autoscale.testing import a_host, a_job

__all__ = ["cluster", "now", "run", "scheduler"]  # fixtures


@pytest.fixture
def azscale(tmp_path, capsys):
    """The exit code of azscale, and what it prints on both."""
    config = tmp_path / "autoscale.json"
    config.write_text(json.dumps({"cluster_name": "c", "url": "http://none.invalid"}))

    def call(*args):
        ended = run_azscale(args, config, capsys)
        return ended.code, ended.out + ended.err

    return call


def written(path, *records):
    """A journal of these passes."""
    writer = JournalWriter(path)
    for record in records:
        writer.write(record)
    return path


NODES = [a_node_record("htc-1"), a_node_record("htc-2", ready=False)]
REFUSED = {"command": "delete", "node": "htc-1", "code": "MinimumLifetime", "reason": "too young"}


@pytest.fixture
def journal(tmp_path):
    """Passes on which much goes wrong."""
    waiting = [a_waiting_job(f"job-{n}", "quota is used up") for n in range(7)]
    waiting.append(a_waiting_job("job-8", reason=None))
    deleting = {"action": "delete", "bucket": "htc/F4s", "count": 1, "nodes": ["htc-1"]}
    second = a_pass_record(
        2,
        [{**NODES[0], "Status": "Failed"}],
        waiting,
        duration=1.25,
        errors=["creating nodes: no", "joining: no"],
        notes=["one host is missing"],
        refused=[REFUSED],
    )
    second.decided = [
        {**deleting, "node": "htc-1", "reason": "idle", "price_per_hour": -0.2},
        {**deleting, "action": "drain", "node": "htc-1", "price_per_hour": 0.0},
        {"action": "start_worker", "bucket": "on-premises", "node": "rack-1", "nodes": ["rack-1"]},
    ]
    second.config = {"cluster_name": "demo", "idle_timeout": 600, "note": "x" * 200}
    third = replace(a_pass_record(3, [], created=3), did={"ended_by": "no answer"})
    return written(tmp_path / "j", a_pass_record(1, NODES, waiting[:1]), second, third)


def test_what_is_wrong_with_a_pass_is_on_its_line(journal, azscale):
    """In few words."""
    code, printed = azscale("journal", "show", journal)
    lines = printed.splitlines()
    assert (code, len(lines)) == (0, 4)
    assert lines[2].split()[-4:] == ["2", "errors,", "1", "note"]
    assert lines[3].split()[-1] == "failed"


def test_a_pass_in_words_says_which_nodes_have_joined(tmp_path, azscale):
    """Those that had not in the pass before: a loop hands all over in each."""
    passes = [a_pass_record(n, NODES) for n in (1, 2, 3)]
    for record, joined in zip(passes, (["htc-1"], ["htc-1", "htc-2"], ["htc-1"]), strict=True):
        record.did["joined"] = joined
    path = written(tmp_path / "j", *passes)
    said = []
    for number in (1, 2, 3):
        lines = azscale("journal", "show", path, "--pass", number)[1].splitlines()
        said.append([line for line in lines if line.startswith("joined")])
    assert said == [["joined: 1 node (htc-1)"], ["joined: 1 node (htc-2)"], []]


def test_a_pass_in_words_has_all_that_went_wrong(journal, azscale):
    """Each kind under its own head, and long lists cut short."""
    _, printed = azscale("journal", "show", journal, "--pass", 2)
    lines = printed.splitlines()
    assert ", 1.2 s" in lines[0] or ", 1.3 s" in lines[0]
    for line in (
        "  - delete htc-1 of htc/F4s, $0.20/h (idle)",
        "  ~ drain htc-1 of htc/F4s",
        "  + start_worker rack-1 of on-premises",
        "  7 jobs (job-0, job-1, job-2, …) wait: quota is used up",
        "  1 job (job-8) waits: not worked out",
        "  creating nodes: no",
        "  one host is missing",
        "  delete htc-1: MinimumLifetime, too young",
    ):
        assert line in lines, line
    _, printed = azscale("journal", "show", journal, "--pass", 3)
    assert "ended by: no answer" in printed
    _, printed = azscale("journal", "show", journal, "--pass", 2, "-F", "json")
    assert json.loads(printed)["did"]["refused"] == [REFUSED]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "--of", 1, 2], "--of: expected it with diff, found show"),
        (["show", "--to", "x"], "--to: expected it with scrub, found show"),
        (["show", "--pass", 1, "--last", 2], "expected either --pass or --last, found both"),
        (["diff", "--last", 2], "--last: expected it with show or scrub, found diff"),
        (["diff", "--pass", 2], "--pass: expected it with show, found diff"),
        (["scrub", "--to", "x", "--pass", 2], "--pass: expected it with show, found scrub"),
    ],
)
def test_options_that_go_with_another_action_are_refused(journal, azscale, words, said):
    """They would have no effect."""
    action, *options = words
    code, printed = azscale("journal", action, journal, *options)
    assert (code, printed) == (2, f"azscale journal: error: {said}\n")


def test_what_changed_has_configuration_and_rows(journal, azscale):
    """What is new, what is gone, and what is another one, with both values."""
    _, printed = azscale("journal", "diff", journal, "--of", 1, 2)
    lines = printed.splitlines()
    assert "config idle_timeout: null -> 600" in lines
    assert any(line.startswith("config note: null -> ") and " … " in line for line in lines)
    assert '~ nodes htc-1: Status "Ready" -> "Failed"' in lines
    assert "- nodes htc-2" in lines
    assert "+ waiting job-1" in lines and "  … and 2 more" in lines
    _, printed = azscale("journal", "diff", journal, "--of", 2, 1)
    assert "decided then:\n  - delete htc-1" in printed
    assert printed.endswith("decided later: nothing\n")
    _, said = azscale("journal", "diff", journal, "--of", 2, 1, "-F", "json")
    assert json.loads(said) == {"passes": [2, 1], "differences": printed.splitlines()[1:]}


def test_buckets_are_called_by_nodearray_and_size(tmp_path, azscale):
    """Not by their ids, and why a job waits is in the words of people."""
    noted = "InsufficientResource: NodeBucket(nodearray=htc, vm_size=F4) has 4 of 'ncpus', and"
    passes = [
        replace(
            a_pass_record(n, [], [a_waiting_job("7", f"{noted} {n}00 is needed")]), status=known
        )
        for n, known in ((1, a_status(used=4)), (2, a_status(used=8)))
    ]
    for record in passes:
        (bucket,) = record.status["nodearrays"][0]["buckets"]
        bucket["bucketId"] = "4e8b078a-954a-44db-add4-25b1617daa71"
    path = written(tmp_path / "j", *passes)
    _, printed = azscale("journal", "diff", path)
    assert "~ waiting 7: \n" not in printed
    assert "~ status bucket htc/Standard_F4s_v2: activeCount 1 -> 2" in printed
    assert "4e8b" not in printed and "NodeBucket" not in printed
    _, printed = azscale("journal", "show", path, "--pass", 2)
    said = "1 job (7) can never run: the job needs 200 ncpus on one node, and the largest has 4"
    assert f"waiting:\n  {said}\n" in printed


def test_a_journal_of_a_newer_version_is_refused_by_every_command(tmp_path, azscale):
    """In one line, which says what to read it with."""
    path = tmp_path / "one.jsonl.gz"
    path.write_bytes(packed(b'{"version": 2, "at": 1, "whole": true}'))
    for args in (
        ("journal", "show", path),
        ("journal", "diff", path),
        ("journal", "scrub", path, "--to", tmp_path / "to"),
        ("replay", path),
    ):
        code, printed = azscale(*args)
        assert code == 1
        (line,) = printed.strip().splitlines()
        assert "expected a journal of version 1 or older, found version 2: read it with" in line
    assert not (tmp_path / "to").exists()


def test_a_file_that_is_no_journal_is_refused_by_every_command(tmp_path, azscale):
    """In one line; no page is made of it, and nothing is served."""
    path, page = tmp_path / "other.json", tmp_path / "page.html"
    path.write_text(json.dumps({"cluster_name": "c"}))
    for args in (
        ("journal", "show", path),
        ("journal", "diff", path),
        ("journal", "scrub", path, "--to", tmp_path / "to"),
        ("replay", path),
        ("report", path, "--out", page),
        ("serve", path, "--port", 0),
        ("whatif", "--journal", path, "--set", "idle_timeout=600"),
    ):
        code, printed = azscale(*args)
        (line,) = [each for each in printed.splitlines() if "can be read by everybody" not in each]
        assert (code, line.count(f"{path}: expected a journal")) == (1, 1), args
        assert "found a file that has no record of a pass; a configuration is given with -c" in line
    assert not page.exists() and not (tmp_path / "to").exists()


def test_a_page_can_go_to_stdout(tmp_path, azscale, monkeypatch):
    """It is the same as in a file; no file is made."""
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "journal", a_pass_record(1))
    azscale("report", path, "--out", "page.html")
    code, printed = azscale("report", path, "--out", "-")
    page = (tmp_path / "page.html").read_text()
    assert code == 0 and page in printed
    assert not Path("-").exists()


def test_no_page_is_made_of_no_pass(tmp_path, azscale):
    """Of the first record of a journal, say, that was cut off."""
    path, page = tmp_path / "journal-000001.jsonl.gz", tmp_path / "page.html"
    path.write_bytes(packed(b"{}")[:20])
    code, printed = azscale("report", path, "--out", page)
    assert (code, page.exists()) == (1, False)
    assert "it has no pass that can be read: " in printed


def test_a_small_cost_is_not_said_to_be_nothing(tmp_path, azscale):
    """In the report of two passes that were ten seconds apart."""
    first = a_pass_record(1, NODES)
    path, page = written(tmp_path / "j", first, replace(first, at=first.at + 10)), tmp_path / "p"
    assert azscale("report", path, "--out", page)[0] == 0
    assert "<dt>US$ in all</dt><dd>&lt; 0.01</dd>" in page.read_text()
    azscale("report", written(tmp_path / "one", first), "--out", page)
    assert "<dt>US$ in all</dt><dd>0.00</dd>" in page.read_text()


def test_differences_are_folded_on_a_terminal(journal, azscale, monkeypatch):
    """And whole in a pipe."""
    _, whole = azscale("journal", "diff", journal, "--of", 1, 2)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _, folded = azscale("journal", "diff", journal, "--of", 1, 2)
    assert max(map(len, whole.splitlines())) > 60 >= max(map(len, folded.splitlines()))
    assert "".join(folded.split()) == "".join(whole.split())
    assert "\n  … and 2 more" in folded
    monkeypatch.undo()
    _, whole = azscale("journal", "show", journal, "--pass", 2)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _, folded = azscale("journal", "show", journal, "--pass", 2)
    assert max(map(len, whole.splitlines())) > 40 >= max(map(len, folded.splitlines()))
    assert "".join(folded.split()) == "".join(whole.split())


def test_what_commands_expect(journal, tmp_path, azscale):
    """Said in a line; nothing is written."""
    for args, said in (
        (("scrub", journal), "expected --to with the directory of the new journal"),
        (("scrub", journal, "--to", journal), "expected a directory that is not there yet"),
        (("show", journal, "--last", "0"), "expected a whole number above 0, found '0'"),
        (("diff", journal, "--of", 1, 9), "it has no pass 9: the last is pass 3"),
    ):
        code, printed = azscale("journal", *args)
        assert (code in (1, 2), said in printed) == (True, True), printed


def test_what_was_scrubbed_is_said_in_json_too(journal, tmp_path, azscale):
    to = str(tmp_path / "to")
    code, printed = azscale("journal", "scrub", journal, "--to", to, "-F", "json")
    assert (code, json.loads(printed)) == (0, {"journal": to, "records": 3})


def test_a_journal_that_is_written_while_it_is_sent_on(journal, tmp_path, azscale, monkeypatch):
    """What comes later is not in what is sent, as its names were not looked at."""
    from hpc.autoscale.journal.scrubbing import Aliases

    settle = Aliases.settle

    def meanwhile(names):
        settle(names)
        late = a_pass_record(9, [a_node_record("htc-9", Hostname="alices-box")])
        JournalWriter(journal).write(late)

    monkeypatch.setattr(Aliases, "settle", meanwhile)
    azscale("journal", "scrub", journal, "--to", tmp_path / "to")
    assert len(list(Journal(tmp_path / "to"))) == 3
    assert len(list(Journal(journal))) == 4


# -- where a replay comes to something else


@pytest.fixture
def recorded(run, cluster, scheduler, now, tmp_path):
    """Two passes of a loop: nodes are joined, and others created."""
    for number in (1, 2):
        cluster.add_node(f"htc-{number}", "htc", state="Ready", hostname=f"host-{number}")
    scheduler.jobs = [a_job("7", tasks=20)]
    scheduler.hosts = [a_host("host-1", "running")]
    for _ in range(2):
        run(journal={})
        now.sleep(60)
    return tmp_path / "journal"


def doors(record, **changes):
    """The record with other doors."""
    return replace(record, doors={**record.doors, **changes})


def without(record, door):
    """The record without the calls of a door."""
    return doors(record, calls=[c for c in record.doors["calls"] if c["door"] != door])


def answered(record, **answer):
    """The record with another answer to the create."""
    calls = [
        {**c, "answer": answer} if c["door"] == "command" else c for c in record.doors["calls"]
    ]
    return doors(record, calls=calls)


def given(record, names):
    """The record with other nodes that were joined."""
    return doors(record, lists={**record.doors["lists"], "given:add_nodes_to_cluster": names})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: doors(r, ids=[], clock=r.doors["clock"][:2]), "asks for the time more often"),
        (lambda r: doors(r, ids=[], clock=[*r.doors["clock"], 7.0] * 2), "the time less often"),
        (lambda r: doors(r, ids=[]), "it draws more ids for requests than the recorded pass did"),
        (lambda r: without(r, "nodes"), "it asks for nodes, which the recorded pass did not"),
        (lambda r: without(r, "command"), "it asks for command create_nodes"),
        (
            lambda r: doors(r, calls=[*r.doors["calls"], {"door": "listing", "id": "x"}]),
            "it does not ask for listing x, which the recorded pass did",
        ),
        (
            lambda r: answered(r, operationId=7, sets="x"),
            "starting nodes: NodeCreationResult: operationId: expected a string, found 7 (int);"
            " sets: expected a list, found 'x' (str)",
        ),
        (lambda r: given(r, ["a", "b", "c", "d"]), "more and a, b, c and 1 others less"),
        (lambda r: given(r, []), "and no node less"),
        (
            lambda r: given(r, list(reversed(r.doors["lists"]["given:add_nodes_to_cluster"]))),
            "add_nodes_to_cluster is called with the nodes in another order",
        ),
        (
            lambda r: replace(r, decided=[{**d, "jobs": ["x" * 300]} for d in r.decided]),
            " … ",
        ),
        (lambda r: replace(r, did={**r.did, "errors": ["x"]}), 'did.errors: expected ["x"]'),
    ],
)
def test_where_a_pass_goes_another_way(recorded, tmp_path, azscale, change, said):
    """The first record was changed by somebody: the pass says at which door it differs."""
    first, second = Journal(recorded)
    code, printed = azscale("replay", written(tmp_path / "other", change(first), second))
    assert code == 2
    assert any(line.startswith("pass 1 of ") and said in line for line in printed.splitlines())


@pytest.mark.parametrize("times", [lambda clock: clock[:2], lambda clock: [*clock, clock[-1]]])
def test_how_often_a_version_asks_for_the_time_is_no_decision(recorded, tmp_path, azscale, times):
    """A journal of before an upgrade is the same where all that was decided is."""
    first, second = Journal(recorded)
    other = doors(first, clock=times(first.doors["clock"]))
    code, printed = azscale("replay", written(tmp_path / "other", other, second))
    assert (code, printed) == (0, "2 passes: 2 the same, 0 different, 0 left out\n")


def test_many_differences_are_cut_short(recorded, tmp_path, azscale):
    """Ten lines for a pass, and a count of the others."""
    first, second = Journal(recorded)
    other = replace(first, did={**first.did, **{f"key{n}": n for n in range(30)}})
    code, printed = azscale("replay", written(tmp_path / "other", other, second))
    assert code == 2
    assert "and 20 more differences" in printed


def test_state_that_cannot_be_used_leaves_a_pass_out(recorded, tmp_path, azscale):
    """Up to one that has its own."""
    first, second = Journal(recorded)
    other = doors(first, state={"nodehistory.db": "no base64 of anything"})
    code, printed = azscale("replay", written(tmp_path / "other", other, second))
    assert code == 3
    assert "left out: its state cannot be used" in printed
    assert "2 passes: 0 the same, 0 different, 2 left out" in printed


def test_nodes_that_joined_are_counted_once(azscale, tmp_path):
    """Until they were gone for a pass: a loop hands them over in each; also where the pass before
    is not shown."""
    joined = (["a", "b"], ["a", "b"], ["a", "b", "c"], ["c"], ["a", "c"])
    records = [a_pass_record(number, joined=names) for number, names in enumerate(joined, 1)]
    path = written(tmp_path / "journal", *records)

    def column(*args):
        _, printed = azscale("journal", "show", path, *args, "-F", "table")
        head, *rows = printed.splitlines()
        at = head.split().index("JOIN")
        return [row.split()[at] for row in rows]

    assert column() == ["2", "0", "1", "0", "1"]
    assert column("--last", "2") == ["0", "1"]
