"""What azscale says of a journal that is damaged, or that another program has compressed again."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from builders.command_lines import run_azscale
from builders.deep_json import DEEP, TOO_DEEP
from builders.journals import a_node_record, a_pass_record
from hpc.autoscale.cli.scalelib import main
from hpc.autoscale.clock import MockClock
from hpc.autoscale.journal import Journal, JournalWriter
from hpc.autoscale.journal.files import Directory, Keeping
from hpc.autoscale.journal.following import Follower
from hpc.autoscale.journal.frames import packed
from hpc.autoscale.journal.records import GAP
from hpc.autoscale.report.live import LivePage

NODES = [a_node_record(f"htc-{n}") for n in range(1, 4)]


@pytest.fixture
def azscale(tmp_path, capsys):
    """The exit code of azscale, and what it prints on stdout and on stderr."""
    config = tmp_path / "autoscale.json"
    config.write_text(json.dumps({"cluster_name": "c", "url": "http://none.invalid"}))
    config.chmod(0o600)

    return lambda *words: run_azscale(words, config, capsys)


@pytest.fixture
def journal(tmp_path):
    """Three passes."""
    path = tmp_path / "j"
    for number in (1, 2, 3):
        JournalWriter(path).write(a_pass_record(number, NODES[:number]))
    return path


def the_file(journal):
    """The one file of a journal."""
    (file,) = journal.glob("*.gz")
    return file


def compressed_again(journal, change=bytes):
    """The journal after `zcat | gzip`."""
    file = the_file(journal)
    file.write_bytes(gzip.compress(change(gzip.decompress(file.read_bytes()))))
    return file


def every_reader(journal, to):
    """The commands that need a pass of a journal, and get none of this one."""
    return (
        ("journal", "show", journal),
        ("journal", "show", journal, "-F", "json"),
        ("journal", "show", journal, "--pass", 1),
        ("journal", "diff", journal),
        ("journal", "diff", journal, "--of", 1, 2),
        ("journal", "scrub", journal, "--to", to / "scrubbed"),
        ("report", journal, "--out", to / "page.html"),
        ("whatif", "--journal", journal, "--set", "idle_timeout=600"),
        ("simulate", journal),
    )


def test_a_record_without_its_end_is_counted_as_left_out(journal, azscale):
    file = the_file(journal)
    file.write_bytes(file.read_bytes()[:-60])
    code, out, err = azscale("replay", journal)
    assert code == 3
    assert out.splitlines()[-1] == "3 passes: 0 the same, 0 different, 3 left out"
    assert err.count("record 3 at byte ") == err.count("its end is missing, it is left out") == 1


@pytest.mark.parametrize(
    ("damage", "said", "count"),
    [
        (lambda file: b"garbage!" * 100, "record 1 at byte 0: no record begins here", 1),
        (lambda file: file[:40], "record 1 at byte 0: its end is missing, it is left out", 1),
        (lambda file: b"", "it has 0 bytes, and so no record of a pass", 0),
    ],
)
def test_every_command_says_the_same_of_a_journal_without_a_pass(
    journal, tmp_path, azscale, damage, said, count
):
    """None prints an empty table, and none says that it is empty."""
    file = the_file(journal)
    file.write_bytes(damage(file.read_bytes()))
    line = f"journal {file}: {said}"
    for args in every_reader(journal, tmp_path):
        code, out, err = azscale(*args)
        assert (code, out, err.count(line)) == (1, "", 1), (args, out, err)
        assert "that can be read" in err and "empty" not in err
    assert not (tmp_path / "scrubbed").exists() and not (tmp_path / "page.html").exists()
    code, out, err = azscale("replay", journal)
    passes = "1 pass" if count else "0 passes"
    assert (code, out) == (3, f"{passes}: 0 the same, 0 different, {count} left out\n")
    assert line in err


def test_a_pass_that_may_have_been_left_out_is_missed_with_what_was(journal, azscale):
    file = the_file(journal)
    file.write_bytes(file.read_bytes()[:-60])
    for args in (("show", journal, "--pass", 3), ("diff", journal, "--of", 1, 3)):
        code, out, err = azscale("journal", *args)
        assert (code, out) == (1, "")
        assert "it has no pass 3 that can be read: " in err and "its end is missing" in err


def test_what_is_left_out_is_said_by_whatif_too(journal, azscale):
    """The pass before that is taken for the last one."""
    file = the_file(journal)
    file.write_bytes(file.read_bytes()[:-60])
    _, _, err = azscale("whatif", "--journal", journal, "--set", "idle_timeout=600")
    assert err.count("its end is missing, it is left out") == 1


def test_passes_are_asked_for_by_number_in_the_words_of_show(journal, azscale):
    for args in (("show", journal, "--pass", 99), ("diff", journal, "--of", 1, 99)):
        code, _, err = azscale("journal", *args)
        assert (
            code,
            err.splitlines()[-1].endswith(
                f"journal {journal}: it has no pass 99: the last is pass 3"
            ),
        ) == (
            1,
            True,
        )


# -- compressed again by another program


def test_a_journal_that_was_compressed_again_is_read_like_the_first(journal, azscale):
    """As a directory and as a file, whatever its name."""
    _, out, _ = azscale("journal", "show", journal, "-F", "json")
    file = compressed_again(journal)
    other = shutil.copy(file, journal.parent / "other.gz")
    for path in (journal, file, other):
        assert azscale("journal", "show", path, "-F", "json") == (0, out, "")
        code, said, err = azscale("simulate", path)
        assert (code, said) == (1, "") and "expected jobs that ran, found none" in err


def test_a_newer_version_is_refused_after_it_was_compressed_again(journal, tmp_path, azscale):
    compressed_again(journal, lambda text: text.replace(b'"version":1', b'"version":2'))
    for args in (*every_reader(journal, tmp_path), ("replay", journal)):
        code, _, err = azscale(*args)
        assert code == 1
        assert "expected a journal of version 1 or older, found version 2: read it with" in err


def test_what_is_damaged_of_a_file_that_was_compressed_again_is_left_out(journal, azscale):
    """A line that is none, a file without its end, and one whose checksum is wrong."""
    file = compressed_again(journal, lambda text: text.replace(b"}\n", b"\n", 1))
    code, _, err = azscale("replay", file)
    assert code == 3 and "record 1 at byte 0 of the text: it is no record of a journal" in err
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    code, _, err = azscale("replay", file)
    assert code == 3 and "of the text: its end is missing, it is left out" in err
    file.write_bytes(whole[:-8] + b"\0" * 8)
    code, _, err = azscale("replay", file)
    assert code == 3 and "it cannot be unpacked: CRC check failed" in err
    file.write_bytes(whole + b"junk")
    code, _, err = azscale("replay", file)
    assert code == 3 and "what is behind the compressed data is none itself" in err


def test_files_that_are_not_there_are_missed_between_others(journal, azscale):
    """By name, and a replay is not one of all passes; the oldest go by themselves."""
    content = the_file(journal).read_bytes()
    for number in (2, 3, 5, 9):
        (journal / f"journal-{number:06}.jsonl.gz").write_bytes(content)
    (journal / "journal-000001.jsonl.gz").unlink()
    _, _, err = azscale("journal", "show", journal)
    assert "journal-000004.jsonl.gz: not there, nor are its passes" in err
    assert "journal-000006.jsonl.gz to journal-000008.jsonl.gz: not there" in err
    assert "000001" not in err
    code, _, err = azscale("replay", journal)
    assert code == 3 and "journal-000004.jsonl.gz: not there" in err


def test_old_files_go_oldest_first(journal, monkeypatch):
    """So whoever reads meanwhile finds no gap."""
    content = the_file(journal).read_bytes()
    for number in (2, 3, 4):
        (journal / f"journal-{number:06}.jsonl.gz").write_bytes(content)
    gone, unlink = [], Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path: (gone.append(path.name), unlink(path)))
    Directory(journal, Keeping(size=1)).forget_old(0)
    assert gone == [f"journal-00000{number}.jsonl.gz" for number in (1, 2, 3)]


def test_a_writer_leaves_a_file_that_was_compressed_again_as_it_is(journal):
    """And goes on in another one."""
    content = compressed_again(journal).read_bytes()
    JournalWriter(journal).write(a_pass_record(4, NODES))
    first, second = sorted(journal.glob("*.gz"))
    assert first.read_bytes() == content and second.name == "journal-000002.jsonl.gz"
    assert [record.number for record in Journal(journal)] == [1, 2, 3, 4]


def test_who_follows_a_file_that_was_compressed_again_reads_each_pass_once(journal):
    """While it is copied to its place, and when records of ours come behind."""
    file = compressed_again(journal)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    follower, numbers = Follower(journal), []
    for content in (whole[:-10], whole, whole + packed(b'{"version": 1, "at": 9, "whole": true}')):
        file.write_bytes(content)
        follower.poll(lambda record: numbers.append(record.number), numbers.clear)
    assert numbers == [1, 2, 3, 4] and follower.problems == []


def test_metrics_and_the_live_page_say_what_was_left_out(journal, tmp_path, capsys):
    """Neither says that there is no pass yet."""
    file = the_file(journal)
    file.write_bytes(file.read_bytes()[:40])
    config = {"cluster_name": "c", "url": "http://none.invalid", "journal": {}}
    config["journal"] = {"directory": str(journal)}
    path = tmp_path / "with-journal.json"
    path.write_text(json.dumps(config))
    with pytest.raises(SystemExit):
        main(["metrics", "-c", str(path)])
    said = "record 1 at byte 0: its end is missing, it is left out"
    assert f"it has no pass that can be read: journal {file}: {said}" in capsys.readouterr().err
    shown = LivePage(str(journal), MockClock(0.0)).whole()
    assert "There is no pass in this journal that can be read." in shown and said in shown


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("did", "[1]", "did: expected an object"),
        ("read", "[1]", "read: expected an object"),
        ("lists", '"x"', "lists: expected an object"),
        ("config", "7", "config: expected an object"),
        ("decided", '"x"', "decided: expected a list of objects"),
        ("decided", "[1]", "decided: expected a list of objects"),
        ("more", DEEP, f"it is no record of a journal: {TOO_DEEP}"),
    ],
)
def test_a_record_whose_parts_have_another_form_is_named_by_every_reader(
    journal, tmp_path, azscale, key, value, said
):
    """And the others are shown."""
    made = f'{{"version": 1, "at": 5e8, "whole": true, "{key}": {value}}}\n'
    compressed_again(journal, lambda text: text + made.encode())
    for words in every_reader(journal, tmp_path):
        if words[0] != "simulate" and "--pass" not in words and "--of" not in words:
            code, _, err = azscale(*words)
            assert code == 0 and "record 4 at byte " in err and said in err, words
    code, out, err = azscale("replay", journal)
    assert code == 3 and out.splitlines()[-1].startswith("4 passes: ") and said in err


def test_a_job_that_wants_more_than_there_can_be(journal):
    """Is read as it was written."""
    rows = [["a", {**DUMMY, "missing": 10**30}]]
    made = {"version": 1, "at": 5e8, "lists": {"unsatisfied": {"set": rows}}}
    compressed_again(journal, lambda text: text + json.dumps(made).encode() + b"\n")
    found = Journal(journal)
    assert (list(found)[-1].did["unsatisfied"][0]["missing"], found.problems) == (10**30, [])


def test_what_is_null_in_a_record_is_not_there(journal, azscale):
    nulls = '{"version": 1, "at": 5e8, "whole": true, "did": null, "read": null, "decided": null}'
    compressed_again(journal, lambda text: text + nulls.encode() + b"\n")
    code, out, err = azscale("journal", "show", journal)
    assert (code, err) == (0, "") and out.splitlines()[-1].startswith("4 ")


# -- one value that cannot be


DUMMY = {"job": "a", "missing": 1, "unit": "slots"}
NO_RECORD_OF_IT = ("whatif", "simulate")
ODD = [
    ({"did": {"duration": "x"}}, "did.duration: expected a number, found 'x'"),
    ({"did": {"duration": float("nan")}}, "did.duration: expected a number, found nan"),
    ({"did": {"jobs": {}}}, "did.jobs: expected a whole number of 0 or more, found {}"),
    ({"did": {"notes": 7}}, "did.notes: expected a list, found 7"),
    ({"did": {"refused": [{"node": "a"}]}}, "did.refused[0]: it has no command"),
    ({"did": {"refused": 7}}, "did.refused: expected a list, found 7"),
    ({"did": {"set_aside": [7]}}, "did.set_aside[0]: expected an object, found 7"),
    ({"did": {"steps": {"read": "x"}}}, "did.steps.read: expected a number, found 'x'"),
    ({"decided": [{"count": "x"}]}, "decided[0].count: expected a whole number of 0 or more"),
    ({"decided": [{"price_per_hour": []}]}, "decided[0].price_per_hour: expected a number"),
    ({"decided": [{"jobs": [7]}]}, "decided[0].jobs[0]: expected a text, found 7"),
    ({"doors": {"calls": [{}]}}, "doors.calls[0]: it has no door"),
    ({"doors": {"calls": [{"door": "hook", "name": []}]}}, "doors.calls[0].name: expected a text"),
    (
        {"doors": {"calls": [{"door": "command", "call": "create_nodes", "id": []}]}},
        "doors.calls[0].id: expected a text, a number, true, false or null, found []",
    ),
    (
        {"doors": {"calls": [{"door": "command", "call": "create_nodes", "answer": "x"}]}},
        "doors.calls[0].answer: expected an object, found 'x'",
    ),
    (
        {"doors": {"calls": [{"door": "nodes", "nodes": {"set": [[5, {}]]}}]}},
        "doors.calls[0].nodes: a key: expected a text, found 5",
    ),
    ({"doors": {"clock": ["x"]}}, "doors.clock[0]: expected a number, found 'x'"),
    ({"doors": {"senders": ["x"]}}, "doors.senders[0]: expected a host, a process"),
]
"""What a record without lists has, and what is said of it."""


@pytest.mark.parametrize(("value", "said"), ODD)
def test_a_value_that_cannot_be_is_named_by_every_reader(journal, tmp_path, azscale, value, said):
    """The other passes are shown, those after it too, whose lists build on those of it."""
    made = [{"at": 5e8, **value}, {"at": 6e8}]
    text = "".join(json.dumps({"version": 1, **each}) + "\n" for each in made)
    compressed_again(journal, lambda before: before + text.encode())
    for words in every_reader(journal, tmp_path):
        if words[0] not in NO_RECORD_OF_IT and "--pass" not in words and "--of" not in words:
            code, _, err = azscale(*words)
            assert code == 0 and "record 4 at byte " in err and said in err, words
            assert "builds on a record" not in err
    last = list(Journal(journal, skip_garbled=True))[-1]
    assert (last.at, [node["Name"] for node in last.nodes]) == (6e8, ["htc-1", "htc-2", "htc-3"])
    code, out, err = azscale("replay", journal)
    assert code == 3 and out.splitlines()[-1].startswith("5 passes: ") and said in err


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"read": {"jobs": {"set": [["7", 7]]}}}, "read.jobs: 7: expected an object, found 7"),
        ({"read": {"nodes": {"set": [[7, {}]]}}}, "read.nodes: a key: expected a text, found 7"),
        (
            {"read": {"nodes": {"gone": ["x"]}}},
            "what was there before: it names the row 'x', which is not there",
        ),
        (
            {"read": {"nodes": {"set": 7}}},
            "expected an object with rows as [key, row] under all or set, and keys and places under"
            " gone, at and order, found {'set': 7}",
        ),
        (
            {"read": {"hosts": {"set": [["a", {"hostname": "a", "job-ids": 7}]]}}},
            "read.hosts: a.job-ids: expected a list, found 7",
        ),
        (
            {"read": {"status": {"set": [["array\x1e\x1ehtc", {"nodearray": 7}]]}}},
            "nodearray: expected an object, found 7",
        ),
        (
            {"read": {"status": {"all": [["bucket\x1e\x1ehtc\x1e1", {}]]}}},
            "read.status: its rows do not belong together",
        ),
        (
            {"lists": {"unsatisfied": {"set": [["a", {**DUMMY, "unit": 5}]]}}},
            "lists.unsatisfied: a.unit: expected a text, found 5",
        ),
        (
            {"lists": {"unsatisfied": {"set": [["a", {**DUMMY, "limit": {"a": 1}}]]}}},
            "lists.unsatisfied: a.limit: expected a text, found {'a': 1}",
        ),
        ({"config": {"clusters": [7]}}, "config.clusters[0]: expected an object, found 7"),
        ({"config": {"autoscale": -1}}, "config.autoscale: expected an object, found -1"),
        ({"config": {"on_premises": [7]}}, "config.on_premises[0]: expected an object, found 7"),
    ],
)
def test_what_later_passes_build_on_takes_them_with_it(journal, tmp_path, azscale, value, said):
    """Up to the next record that stands by itself."""
    made = [{"at": 5e8, **value}, {"at": 6e8}, {"at": 7e8, "whole": True}]
    text = "".join(json.dumps({"version": 1, **each}) + "\n" for each in made)
    compressed_again(journal, lambda before: before + text.encode())
    for words in (("journal", "show"), ("journal", "diff"), ("report", "--out", tmp_path / "p")):
        code, _, err = azscale(*words, journal)
        assert code == 0 and said in err.replace("\\x1e", "") and "record 5 at byte" in err
    assert [record.at for record in Journal(journal, skip_garbled=True)][3:] == [7e8]


def test_a_replay_does_not_go_on_behind_a_pass_that_was_left_out(journal):
    """What the one after it remembered is not known."""
    text = "".join(
        json.dumps({"version": 1, "at": at, "did": {"duration": took}}) + "\n"
        for at, took in ((5e8, "x"), (6e8, 1), (7e8, 1))
    )
    compressed_again(journal, lambda before: before + text.encode())
    passes = list(Journal(journal, skip_garbled=True))
    assert [GAP in each.doors for each in passes] == [False, False, False, True, False]
