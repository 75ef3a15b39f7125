"""What somebody meets who has just installed `azscale`: help, mistakes, and where the configuration
is found."""

import json
import re
import subprocess
import sys

import pytest

from hpc.autoscale import cli
from hpc.autoscale.cli import console
from hpc.autoscale.cli.overview import GROUPS
from hpc.autoscale.cli.parsing import commands_of
from hpc.autoscale.cli.scalelib import DriverCLI

EVERY = [name for name, _ in commands_of(DriverCLI())]


class Terminal:
    """An empty directory in which command lines are typed."""

    def __init__(self, home, capsys):
        self.home = home
        self.capsys = capsys
        self.err = ""

    def __call__(self, *args, code=0):
        """Run a command line; what it prints on stdout."""
        ended = 0
        try:
            cli.main(list(args), str(self.home / "installed" / "autoscale.json"))
        except SystemExit as end:
            ended = end.code
        said = self.capsys.readouterr()
        self.err = said.err
        assert ended == code, said
        return said.out

    def config(self, name, **config):
        """Write a configuration, which its directory tells apart."""
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"cluster_name": path.parent.name, **config}))
        path.chmod(0o600)
        return path

    def cluster(self, *args):
        """The cluster of the configuration that is used."""
        return json.loads(self("config", *args))["cluster_name"]


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Command lines that are typed in an empty directory."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.chdir(tmp_path)
    for name in ("AUTOSCALE_CONFIG", "AUTOSCALE_HOME", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return Terminal(tmp_path, capsys)


def listed(text):
    """The commands that a help lists."""
    return re.findall(r"^  ([a-z_]+) ", text, re.MULTILINE)


@pytest.mark.parametrize("config", [None, {}, {"driver": "no.such:Driver"}, {"driver": 5}])
def test_help_lists_every_command(typed, config):
    """Whatever the configuration says, or without one, in 80 columns."""
    if config is not None:
        typed.config("autoscale.json", **config)
    out = typed("--help")
    assert sorted(listed(out)) == EVERY
    assert max(map(len, out.splitlines())) <= 80
    assert typed.err == ""


def test_the_main_commands_come_first(typed):
    """In groups that name commands, each once."""
    named = [name for names in GROUPS.values() for name in names]
    assert len(set(named)) == len(named)
    assert set(named) <= set(EVERY)
    assert listed(typed("--help"))[: len(GROUPS["Main commands"])] == list(GROUPS["Main commands"])


@pytest.mark.parametrize("command", EVERY)
def test_help_of_a_command_needs_no_configuration(typed, command):
    """Nor a driver; and nothing of how the parser is made is in it."""
    out = typed(command, "--help")
    assert f"azscale {command}" in out
    assert "==" not in out


def test_help_can_be_asked_for_as_a_word(typed):
    """Of all commands, or of one."""
    assert typed("help") == typed("--help")
    assert typed("help", "plan") == typed("plan", "--help")
    typed("help", "plna", code=2)
    assert "there is no command 'plna'; did you mean 'plan'?" in typed.err


def test_a_bare_command_says_what_to_do_next(typed):
    """To make a configuration, or what can be done with the one that there is."""
    assert "azscale initconfig" in typed(code=1)
    typed.config("autoscale.json")
    out = typed(code=1)
    assert "The configuration is ./autoscale.json." in out
    for command in re.findall(r"azscale ([a-z]\w+)", out):
        assert command in EVERY


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("demnd", "there is no command 'demnd'; did you mean 'demand'?"),
        ("zzz", "there is no command 'zzz' (azscale --help lists them)"),
        ("--versoin", "there is no option '--versoin'; did you mean '--version'?"),
        ("-c x.json demand", "option '-c' goes behind the command"),
        ("demand --output-colums name", "'--output-colums'; did you mean '--output-columns'?"),
        ("demand --lonng=1", "there is no option '--lonng'; did you mean '--long'?"),
        ("demand x", "there is no place for 'x'"),
        ("demand -F jsn", "did you mean 'json'?"),
        ("analyze -c x.json", "error: these options are required: --job-id/-j\n"),
        ("completion", "error: expected bash, zsh or fish, found none\n"),
        ("apply", "error: expected PLAN (what `plan --out` has written; -: on stdin), found none"),
        (
            "initconfig --cluster-name a --username b --url c --default-resource {bad",
            '--default-resource: expected a resource as JSON, as in {"select": {}, "name":'
            ' "ncpus", "value": "node.vcpu_count"}, found \'{bad\': Expecting property name',
        ),
        ("initconfig --default-resource 5", "\"node.vcpu_count\"}, found '5'\n"),
        ("completion tcsh", "argument shell: expected bash, zsh or fish, found 'tcsh'\n"),
        ("completion fihs", "found 'fihs'; did you mean 'fish'?"),
        ("simulate x --nodes 5.5", "argument --nodes: expected a whole number, found '5.5'"),
        ("simulate x --start monday", "argument --start: expected a number, found 'monday'"),
        ("status --watch 0", "--watch/-w: expected 1 to 86400 seconds, found '0'\n"),
        ("status --watch nan", "--watch/-w: expected 1 to 86400 seconds, found 'nan'\n"),
        ("metrics --max-age 1h", "expected a number of seconds, 0 or more, found '1h'\n"),
        ("autoscale --interval 0", "expected a number of seconds from above 0 to 1e9, found '0'\n"),
        ("autoscale --interval 1e308", "seconds from above 0 to 1e9, found '1e308'\n"),
        ("initconfig --idle-timeout -5", "--idle-timeout: expected a whole number of 0 or more"),
        ("initconfig --boot-timeout -5", "--boot-timeout: expected a whole number of 0 or more"),
        (
            "request --corecount many",
            "--corecount: expected a whole number of 0 or more, found 'many'\n",
        ),
        ("demand --bogus", "there is no option '--bogus'\n"),
        ("request --expiry 9", "there is no option '--expiry'; did you mean '--expiration'?"),
        ("explain -- j -c f", "no place for '-c' behind --, where nothing is an option\n"),
    ],
)
def test_mistakes_are_one_line_with_a_guess(typed, line, said):
    """And exit code 2."""
    assert typed(*line.split(), code=2) == ""
    (error,) = typed.err.splitlines()
    assert error.startswith("azscale")
    assert said in f"{error}\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("explain", "expected a job, a node or a bucket to explain, or constraints (-C)"),
        ("explain x -C ncpus=1", "found both"),
        ("whatif", "as in --set idle_timeout=600"),
        ("whatif --set idle_timeout=3 --pass 2", "expected --journal with it"),
        ("request", "expected --corecount, --instancecount or --file"),
        ("requests drop", "expected --ids or --old, found neither"),
    ],
)
def test_command_lines_that_make_no_sense(typed, line, said):
    """Are mistakes like others, whatever the cluster is like: one line, and exit code 2."""
    typed.config("autoscale.json", url="http://none.invalid", username="u", password="p")
    assert typed(*line.split(), code=2) == ""
    (error,) = typed.err.splitlines()
    assert error.startswith(f"azscale {line.split()[0]}: error: ") and said in error


@pytest.mark.parametrize("command", [name for name in EVERY if name != "shell"])
def test_options_are_written_out(typed, command):
    """What an option begins with is none: nothing is begun on half a word."""
    options = set(re.findall(r"^  (--[a-z-]+)", typed(command, "--help"), re.MULTILINE))
    required = {"analyze": "-j 1", "apply": "p", "completion": "zsh", "journal": "show"}
    required |= {"simulate": "t", "initconfig": "--cluster-name c --username u --url x"}
    for half in {option[:-1] for option in options} - options:
        typed(command, *required.get(command, "").split(), half, code=2)
        assert f"there is no option {half!r}" in typed.err


def test_half_an_option_starts_no_loop(typed):
    """Nor does half of one before the command count."""
    typed.config("autoscale.json")
    typed("autoscale", "--interva", "5", code=2)
    said = "there is no option '--interva'; did you mean '--interval'?"
    assert typed.err == f"azscale autoscale: error: {said}\n"
    typed("--vers", code=2)
    assert typed.err == "azscale: error: there is no option '--vers'; did you mean '--version'?\n"


def test_help_is_not_too_wide_to_read(typed, monkeypatch):
    """On a screen of 200 characters as well."""
    monkeypatch.setenv("COLUMNS", "200")
    for command in ("--help", "simulate", "nodes"):
        words = [command] if command == "--help" else [command, "--help"]
        assert max(map(len, typed(*words).splitlines())) <= 100


def test_nothing_is_lost_where_nothing_is_printed(monkeypatch):
    """A closed stdout is no error of a command that has nothing to say."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr("hpc.autoscale.cli.scalelib.main", lambda: None)
    monkeypatch.setattr(sys, "argv", ["azscale", "autoscale"])
    console.console_main()
    sys.stdout.close()


def test_streams_that_are_closed(monkeypatch):
    """As by `azscale autoscale >&- 2>&-`: a command does what it does, and says it nowhere; the
    exit code says that output is lost."""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    for option in ("--version", "--help"):
        monkeypatch.setattr(sys, "argv", ["azscale", option])
        with pytest.raises(SystemExit) as ended:
            console.console_main()
        assert ended.value.code == 1
    monkeypatch.setattr(sys, "argv", ["azscale", "bogus"])
    with pytest.raises(SystemExit) as ended:
        console.console_main()
    assert ended.value.code == 2
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


def test_output_that_nobody_gets():
    """Is an error with one line, as on a full disk."""
    program = "from hpc.autoscale.cli.console import console_main; console_main()"
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-c", program, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "azscale: error: standard output is closed: nothing was printed\n"
    assert (done.stderr, done.returncode) == (said, 1)


def test_no_configuration(typed):
    """Says where it was looked for, and how to get one; also for a command of drivers."""
    for command in ("demand", "jobs"):
        typed(command, code=2)
        (error,) = typed.err.splitlines()
        assert "./autoscale.json" in error
        assert str(typed.home / "installed") in error
        assert "azscale initconfig" in error


def test_where_the_configuration_is_found(typed, monkeypatch):
    """By -c, AUTOSCALE_CONFIG, in the working directory, in AUTOSCALE_HOME, where it was
    installed; when two are about, the line on stderr says which."""
    typed.config("installed/autoscale.json")
    assert typed.cluster() == "installed"
    typed.config("home/autoscale.json")
    monkeypatch.setenv("AUTOSCALE_HOME", str(typed.home / "home"))
    assert typed.cluster() == "home"
    assert typed.err == ""
    here = typed.config("autoscale.json")
    assert typed.cluster() == here.parent.name
    assert "./autoscale.json is used, and not " in typed.err
    named = typed.config("named/some.json")
    monkeypatch.setenv("AUTOSCALE_CONFIG", str(named))
    assert typed.cluster() == "named"
    assert typed.err == ""
    assert typed.cluster("-c", str(typed.home / "home" / "autoscale.json")) == "home"
    assert typed.err == ""


def test_a_named_configuration_that_is_not_there(typed, monkeypatch):
    """Is not replaced by another one, which may be about another cluster."""
    typed.config("autoscale.json")
    monkeypatch.setenv("AUTOSCALE_CONFIG", "/no/such.json")
    typed("config", code=2)
    assert "/no/such.json, which AUTOSCALE_CONFIG names and which is not there" in typed.err


def test_a_configuration_that_a_stranger_may_have_put_there(typed):
    """Is not used by itself, since it can name code to run; who names it may use it."""
    typed.config("autoscale.json").chmod(0o602)
    typed("config", code=2)
    assert "./autoscale.json is not used" in typed.err
    assert typed.cluster("-c", "./autoscale.json") == typed.home.name


def test_a_file_that_is_called_like_a_command(typed):
    """Does not stand in the way of the command."""
    typed.config("autoscale.json")
    (typed.home / "config").write_text("")
    assert typed.cluster() == typed.home.name


@pytest.mark.parametrize(
    ("shell", "registers"),
    [
        ("bash", "complete -o nospace"),
        ("zsh", "compdef _python_argcomplete azscale"),
        ("fish", "complete --command azscale"),
    ],
)
def test_completion_of_each_shell(typed, shell, registers):
    """A script that asks azscale; bash accepts it, and zsh and fish where they are installed."""
    script = typed("completion", shell)
    assert registers in script
    try:
        checked = subprocess.run([shell, "-n"], input=script, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"no {shell} here")
    assert checked.returncode == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("journal", "error: expected show, diff or scrub, found none\n"),
        ("journal shw", "did you mean 'show'?"),
        ("requests --old drp -c x.json", "did you mean 'drop'?"),
        ("journal show --last 2 here there", "there is no place for 'there'"),
        ("journal show --last 2 here --bar", "there is no option '--bar'"),
        ("whatif --case a -c autoscale.json", "--set, --case: expected KEY=VALUE, found 'a'"),
    ],
)
def test_arguments_behind_options(typed, line, said):
    """What is wrong with them is said in one line."""
    typed.config("autoscale.json")
    typed(*line.split(), code=2)
    assert said in typed.err
    assert len(typed.err.splitlines()) == 1


def test_a_journal_behind_options(typed):
    """Is the same as one in front of them."""
    (typed.home / "j").mkdir()
    said = []
    for line in ("journal show j --last 2", "journal show --last 2 j", "journal --last 2 show j"):
        typed(*line.split(), code=1)
        said.append(typed.err)
    assert said == [said[0]] * 3
    assert "journal j: there is no file" in said[0]


def run_in(shell, script, home, environment):
    """A script in a shell, given by its command line. Skips where there is no such shell."""
    try:
        return subprocess.run(
            [*shell, "-c", script],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip(f"no {shell[0]} here")


ZSH = """
autoload is-at-least; compdef() {}; azscale() { COMMAND }
_describe() { shift; print -rl -- "${(@P)1}" }
compset() {}; _files() { print files }
BUFFER=LINE; CURSOR=${#BUFFER}; words=(azscale)
source ./azscale.zsh; _python_argcomplete
"""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("azscale limits -F ta", ["table", "table_headerless"]),
        ("azscale sta", ["status:Shows how the cluster stands on one screen"]),
        ("azscale nodes -C node.vm_s", ["node.vm_size="]),
        ("azscale nodes --lo", ["--long:print values whole where columns are cut"]),
        ("azscale report -c auto", ["files"]),
    ],
)
def test_what_zsh_is_told_of_each_word(typed, line, offered):
    """What it does, where there is anything to say; nothing otherwise, where zsh showed `--`, and
    commands are not None."""
    (typed.home / "azscale.zsh").write_text(typed("completion", "zsh"))
    command = f'{sys.executable} -m hpc.autoscale.cli "$@"'
    script = ZSH.replace("COMMAND", command).replace("LINE", f"'{line}'")
    # the file in the place of descriptor 8, which this process may have for something else
    environment = {"PATH": "/usr/bin:/bin", "ARGCOMPLETE_USE_TEMPFILES": "1"}
    done = run_in(["zsh", "-f"], script, typed.home, environment)
    found = done.stdout.splitlines()
    assert len(found) == len(offered), done
    assert all(map(str.startswith, found, offered)), found
    assert not [word for word in found if word.endswith((":", ":None"))]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("azscale limits -F ta", ["table", "table_headerless"]),
        ("azscale simulate one", ["one-day.swf"]),
        ("azscale report -c auto", ["autoscale.json"]),
        ("azscale explain zz", []),
    ],
)
def test_what_fish_offers(typed, line, offered):
    """Files where there is nothing else, as bash does, too."""
    typed.config("autoscale.json")
    (typed.home / "one-day.swf").write_text("")
    (typed.home / "azscale.fish").write_text(typed("completion", "fish"))
    program = typed.home / "azscale"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hpc.autoscale.cli "$@"\n')
    program.chmod(0o755)
    script = f"source azscale.fish; complete --do-complete '{line}'"
    environment = {"PATH": f"{typed.home}:/usr/bin:/bin", "HOME": str(typed.home)}
    done = run_in(["fish", "--no-config"], script, typed.home, environment)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == offered, done


BASH = """
compopt() { [ "$1" = +o ] || echo compopt "$@"; }; azscale() { COMMAND }
source ./azscale.bash
COMP_LINE='LINE'; COMP_POINT=${#COMP_LINE}; _python_argcomplete azscale; echo "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("azscale nodes -o na", ["compopt -o nospace", "name,"]),
        ("azscale nodes -C node.vm_s", ["compopt -o nospace", "node.vm_size="]),
        ("azscale limits -F table_h", ["table_headerless"]),
    ],
)
def test_bash_writes_no_space_where_a_word_goes_on(typed, line, said):
    (typed.home / "azscale.bash").write_text(typed("completion", "bash"))
    command = f'{sys.executable} -m hpc.autoscale.cli "$@";'
    script = BASH.replace("COMMAND", command).replace("LINE'", f"{line}'")
    environment = {"PATH": "/usr/bin:/bin", "ARGCOMPLETE_USE_TEMPFILES": "1"}
    done = run_in(["bash"], script, typed.home, environment)
    assert [line.strip() for line in done.stdout.splitlines()] == said, done


def completed(line, shell, home):
    """What is offered for a line as far as it is typed."""
    answer = home / "answer"
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SHELL": shell,
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    command = [sys.executable, "-m", "hpc.autoscale.cli"]
    subprocess.run(command, env=environment, cwd=home, check=False, timeout=60)
    # fish and zsh are told what each word means, behind a tab and a colon
    return [re.split("[\t:]", word)[0] for word in answer.read_text().split("\n")]


@pytest.mark.parametrize("path", ["'my site/a.json'", r"my\ site/a.json", '~/"my site"/a.json'])
@pytest.mark.parametrize("word", ["htc-", "'htc-"])
def test_completion_reads_a_path_as_the_shell_does(typed, path, word):
    """With quotation marks, backslashes and a tilde, also while a later word is not whole yet."""
    site = typed.home / "my site"
    site.mkdir()
    typed.config("my site/a.json", driver="hpc.autoscale.cli:GenericDriver")
    known = {"example-nodes": [], "node-names": ["htc-1"], "hostnames": []}
    (site / ".example_node_cache.json").write_text(json.dumps(known))
    line = f"azscale join_nodes -c {path} -N {word}"
    assert completed(line, "fish", typed.home) == ["htc-1,"]


def test_completion_says_what_commands_do(tmp_path):
    """Where the shell shows it."""
    completed("azscale ", "zsh", tmp_path)
    answer = (tmp_path / "answer").read_text()
    assert ":None" not in answer
    assert "\nautoscale:Runs the whole cycle, once or again and again: " in answer


def test_completion_knows_every_command(tmp_path):
    """Without a configuration, and the options of those that need a driver."""
    for shell in ("zsh", "fish"):
        assert set(EVERY) <= set(completed("azscale ", shell, tmp_path))
    assert "--include-permanent" in completed("azscale join_nodes --inc", "bash", tmp_path)[0]
