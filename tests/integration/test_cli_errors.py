"""What can go wrong with `azscale`: one clear line, an exit code that is not 0, and no stack trace
unless asked for."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest

from hpc.autoscale.simulator import serve
from hpc.autoscale.util import SingletonFileLock

DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.job.job import Job

class Driver(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        return [Job("1", {"ncpus": 1}, iterations=4)], []
"""


@pytest.fixture(scope="module")
def simulator():
    """Two clusters: one with a usable nodearray and one whose sizes cannot be used, and one with no
    buckets at all."""
    size = "Standard_F4s_v2"
    off = {"name": size, "invalid_reason": "NotActivated"}
    clusters = {
        "demo": {
            "region": "westus2",
            "nodearrays": {"htc": {"machine_types": [size]}, "off": {"machine_types": [off]}},
        },
        "hollow": {"region": "westus2", "nodearrays": {"empty": {"machine_types": [off]}}},
    }
    with serve({"clusters": clusters}) as running:
        yield running


@pytest.fixture
def azscale(simulator, forked, tmp_path):
    """Run azscale in a process of its own with a configuration; its result."""
    path = tmp_path / "autoscale.json"

    def run(
        *args,
        text=None,
        env=None,
        cluster="demo",
        stdout=None,
        mode=0o600,
        code=DRIVER,
        **config,
    ):
        (tmp_path / "mydriver.py").write_text(code)
        config = {**simulator.connection(cluster), **config}
        path.write_text(json.dumps(config) if text is None else text)
        path.chmod(mode)
        args = [args[0], "-c", str(path), *args[1:]]
        # an interpreter that has begun does not look at these any more
        is_late = any(name.startswith("PYTHON") for name in env or {})
        env = {**os.environ, **(env or {})}
        if stdout is None and not is_late:
            return forked.run(args, tmp_path, env)
        return subprocess.run(
            [sys.executable, "-m", "hpc.autoscale.cli", *args],
            stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=env,
            timeout=60,
            check=False,
        )

    return run


def the_line(result, code=1, is_odd=False):
    """The one line on stderr; everything else about it is as it should be. `is_odd`: a stack trace
    is offered, which tells more."""
    assert result.returncode == code, result
    (line,) = result.stderr.splitlines()
    assert re.match(r"azscale [a-z_]+: error: ", line)
    assert "--debug" not in line or is_odd
    assert "Traceback" not in (result.stdout or "") + result.stderr
    assert "None" not in line
    return line


def test_all_is_well(azscale):
    """The cluster can be reached: nothing is said."""
    result = azscale("connect")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_no_such_file(azscale, tmp_path):
    """The path is named, and that there is none."""
    path = tmp_path / "nowhere.json"
    result = azscale("config", "-c", str(path))
    line = the_line(result)
    assert line == f"azscale config: error: configuration {path}: there is no such file"


@pytest.mark.parametrize("command", ["serve", "serve-autostop"])
@pytest.mark.parametrize("port", ["70000", "-1", "http", "\u00b2", "9" * 5000])
def test_a_port_that_there_is_not(azscale, command, port):
    """Is a mistake of the command line, before anything is read."""
    said = azscale(command, f"--port={port}").stderr
    assert f"argument --port: expected a port from 0 to 65535, found '{port[:9]}" in said
    assert azscale(command, f"--port={port}").returncode == 2


@pytest.mark.parametrize("command", ["buckets", "nodes", "explain", "validate_constraint"])
def test_a_property_that_no_node_has(azscale, command):
    """Is named with a guess, and without a name of what is inside."""
    line = the_line(azscale(command, "-C", "node.vmsize=x"), code=2)
    assert line == (
        f"azscale {command}: error: node.vmsize: expected a property of nodes that can be asked"
        " for, found 'vmsize'; did you mean 'vm_size'?"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nodes -o nam", "column 'nam'"),
        ("buckets -C ngpsu=1", "no node has a resource 'ngpsu'"),
        ("buckets -C nodearray=htcc", "did you mean 'htc'?"),
        ("buckets -C ncpus=-1", "ncpus: expected"),
        ("buckets -C node.vm_size=Standard_F4x", "found 'Standard_F4x'; did you mean"),
        ("buckets -C 5", "expected a constraint as a JSON object, found 5"),
        ("create_nodes -a htcc", "did you mean 'htc'?"),
        ("create_nodes -v Standard_F4", "did you mean 'Standard_F4s_v2'?"),
        ("create_nodes -n 0", "--nodes: expected 1 or more, found 0"),
        ("create_nodes -n 1 -s 1", "expected either --nodes or --slots, found both"),
        ("create_nodes -C ncpus=-1", "ncpus: expected"),
        ("create_nodes -p bad!", "expected letters, digits, _ and - in a placement group"),
        ("create_nodes -S []", "--software-configuration: expected an object, found []"),
        ('create_nodes -O {"CoreCount":"x"}', "attributes of the nodes: CoreCount: expected"),
        ("explain -C ncpus=-1", "ncpus: expected"),
        ("delete_nodes", "expected host names (-H) or node names (-N), found neither"),
        ("delete_nodes -H ,", "expected a host name, found an empty one"),
        ("default_output_columns -d nodse", "did you mean 'nodes'?"),
        ("cost --start monday", "--start: expected a time in ISO-8601, found 'monday'"),
        ("whatif --set packing.policy=cheap", "expected an order policy"),
    ],
)
def test_words_that_make_no_sense(azscale, line, said):
    """They are mistakes of the command line, whose exit code is 2, also where only the cluster
    knows what there is."""
    assert said in the_line(azscale(*line.split(), driver="mydriver:Driver"), code=2)


BUCKETS = "no bucket has"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("buckets -C ncpus=abc", f"{BUCKETS} ncpus 'abc', but 4"),
        ("buckets -C ncpus=64", f"{BUCKETS} 64 of ncpus"),
        (
            "buckets -C node.vm_size=Standard_F4",
            f"{BUCKETS} node.vm_size 'Standard_F4'; did you mean 'Standard_F4s_v2'?",
        ),
        ("buckets -C node.location=westu2", f"{BUCKETS} node.location 'westu2'; did you mean"),
        ("buckets -C node.vm_size=Standard_F4,Standard_F2", "'Standard_F4' or 'Standard_F2'; did"),
        ('buckets -C {"not":{"ncpus":2}}', 'no bucket satisfies {"not": {"ncpus": 2}}'),
    ],
)
def test_constraints_that_match_nothing(azscale, line, said):
    """Are told on stderr, with a guess; what is printed on stdout is as it was."""
    result = azscale(*line.split())
    (told,) = result.stderr.splitlines()
    assert told.startswith("nothing matches: ") and said in told
    assert result.returncode == 0 and len(result.stdout.splitlines()) == 1
    result = azscale(*line.split(), "-F", "json")
    assert (result.stdout.strip(), result.stderr.strip()) == ("[]", told)


def test_constraints_that_match_no_node(azscale):
    """A node is told of as it is now; what matches is printed without a word. Where there is no
    node at all, nothing is mistyped."""
    assert azscale("nodes", "-C", "node.state=Ready").stderr == ""
    assert azscale("create_nodes").returncode == 0
    result = azscale("nodes", "-C", "node.vm_size=Standard_F4s_v2", "-C", "ncpus=4")
    assert (len(result.stdout.splitlines()), result.stderr) == (2, "")
    state = json.loads(azscale("nodes", "-F", "json", "-o", "state").stdout)[0]["state"]
    result = azscale("nodes", "-C", f"node.state={state}x")
    assert f"no node has node.state '{state}x'; did you mean {state!r}?" in result.stderr
    result = azscale("nodes", "-C", "ncpus=100")
    assert result.stderr == "nothing matches: no node has 100 of ncpus left\n"


@pytest.mark.parametrize(
    ("given", "guess"),
    [
        ("ncpus>=2", "; did you mean 'ncpus=2'?"),
        ("ncpus==2", "; did you mean 'ncpus=2'?"),
        ("ncpus >= 2", "; did you mean 'ncpus=2'?"),
        ("ncpus<=2", ""),
        ("node.state!=Ready", ""),
        ("ncpus>2", ""),
    ],
)
def test_a_constraint_with_another_operator(azscale, given, guess):
    """Is none; a name of a resource does not end with one."""
    assert the_line(azscale("buckets", "-C", given), code=2).endswith(
        "expected a constraint as JSON or as name=value[,value...], found" f" {given!r}{guess}"
    )
    assert azscale("buckets", "-C", f'{{"{given}": 1}}').returncode == 2  # there is no such name


def test_no_constraint_to_validate(azscale):
    """What is expected; command lines of integrations print an empty list, as ever."""
    line = the_line(azscale("validate_constraint"), code=2)
    assert line.endswith("expected a constraint (-C), as JSON or as name=value, found none")


MISSING = "there is no such file"
A_DIRECTORY = "it cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("args", "config", "said"),
    [
        (["connect"], {"include": ["nope.json"]}, f"nope.json (included by {{}}): {MISSING}"),
        (["connect"], {"password": None, "credentials_file": "nope"}, f"'nope': {MISSING}"),
        (["connect"], {"password": None, "credentials_file": "."}, f"'.': {A_DIRECTORY}"),
        (["connect"], {"vm_sizes": {"prices": "nope"}}, f"VM price override nope: {MISSING}"),
        (["connect"], {"vm_sizes": {"override": "."}}, f"VM size override .: {A_DIRECTORY}"),
        (["create_nodes"], {"requests_file": "dir"}, "request ids dir: it is a directory"),
        (
            ["create_nodes"],
            {"requests_file": "no/x"},
            "request ids no/x: there is no directory",
        ),
        (["shell", "-s", "nope.py"], {}, f"script nope.py: {MISSING}"),
        (["nodes", "--cluster-response", "nope"], {}, f"cluster_response 'nope': {MISSING}"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_files_that_cannot_be_used(azscale, tmp_path, args, config, said):
    """Which, and why."""
    (tmp_path / "dir").mkdir()
    env = {"AZURE_HPC_DEV": "1"}
    result = azscale(*args, env=env, driver="mydriver:Driver", **config)
    assert said.format(tmp_path / "autoscale.json") in the_line(result)


@pytest.mark.parametrize(
    ("given", "said"), [("nope.json", f"{MISSING}, and"), (".", f".: {A_DIRECTORY}")]
)
def test_a_json_file_on_the_command_line_that_cannot_be_used(azscale, given, said):
    """Which, and why."""
    result = azscale("create_nodes", "-S", given)
    assert result.returncode == 2
    assert said in result.stderr.splitlines()[-1]


def test_a_logging_configuration_that_cannot_be_used(azscale):
    """Which, and why; the command is carried out."""
    result = azscale("connect", logging={"config_file": "nope.conf"})
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("logging.config_file 'nope.conf' cannot be used")
    assert line.endswith(MISSING)


needs_dev_full = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="no device that is always full"
)
NO_SPACE = "cannot be written: No space left on device"


@needs_dev_full
@pytest.mark.parametrize("command", ["config", "limits", "nodes"])
def test_stdout_on_a_full_disk(azscale, command):
    """Is what the line names; a table that is not all there is an error."""
    with open("/dev/full", "w") as full:
        line = the_line(azscale(command, stdout=full))
    assert f"standard output {NO_SPACE}" in line


@needs_dev_full
@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["plan", "--help"], ["config", "--schema"]]
)
def test_help_on_a_full_disk(words):
    """Is no success, and one line says so."""
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "hpc.autoscale.cli", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    (line,) = result.stderr.splitlines()
    assert result.returncode == 1 and f"error: standard output {NO_SPACE}" in line


@needs_dev_full
def test_a_log_on_a_full_disk(azscale):
    """Is named once, however much there is to log; the command is carried out."""
    handlers = {"file": {"class": "logging.FileHandler", "filename": "/dev/full"}}
    root = {"level": "DEBUG", "handlers": ["file"]}
    result = azscale(
        "connect", logging={"config": {"version": 1, "handlers": handlers, "root": root}}
    )
    assert result.stderr.splitlines() == [f"log file '/dev/full' {NO_SPACE}"]
    assert result.returncode == 0


def test_a_configuration_that_is_no_json(azscale):
    """The file, the line and the column."""
    line = the_line(azscale("connect", text='{"cluster_name": "demo",}'))
    assert "autoscale.json" in line
    assert "line 1 column" in line


def test_a_typo_in_a_key(azscale):
    """The key, and what was meant."""
    line = the_line(azscale("connect", idle_timout=300))
    assert "idle_timout" in line
    assert "did you mean 'idle_timeout'" in line


def test_a_value_of_the_wrong_kind(azscale):
    """The key, what was expected and what was found."""
    line = the_line(azscale("connect", autoscale={"max_new_nodes_per_pass": "many"}))
    assert "autoscale.max_new_nodes_per_pass" in line
    assert "expected a whole number" in line
    assert "many" in line


DOUBTS = [
    ({"idle_timeout": {"htcc": 60, "default": 60}}, "idle_timeout.htcc"),
    ({"boot_timeout": {"htcc": 60, "off": 60}}, "boot_timeout.htcc"),
    ({"nodearrays": {"htcc": {}, "htc": {}}}, "nodearrays.htcc"),
    (
        {
            "default_resources": [
                {
                    "select": {"not": {"node.nodearray": ["h?c", "htcc"]}},
                    "name": "scratch",
                    "value": 1,
                }
            ]
        },
        "default_resources[0].select.not.node.nodearray",
    ),
]


@pytest.mark.parametrize(("config", "where"), DOUBTS, ids=[where for _, where in DOUBTS])
def test_a_nodearray_that_the_cluster_does_not_have(azscale, config, where):
    """Is one line with its place and a guess, and no error; one without buckets is there."""
    result = azscale("demand", driver="mydriver:Driver", **config)
    doubt, *rest = result.stderr.splitlines()
    assert doubt == f"{where}: the cluster has no nodearray 'htcc'; did you mean 'htc'?"
    assert rest[0].startswith("dry run: ")
    assert "htcc" not in "".join(rest)
    assert result.returncode == 0


def test_columns_for_a_command_that_is_none(azscale):
    """One line with a guess: another command line may have it, and read the same file."""
    columns = {"node": ["name"], "autoscale": ["name"], "_why": ["x"]}
    result = azscale("connect", **{"output-columns": columns})
    assert (
        result.stderr == "output-columns.node: there is no command 'node'; did you mean 'nodes'?\n"
    )
    assert result.returncode == 0


def test_a_key_that_stands_twice(azscale):
    """Which, and where: nobody knows which of the two was meant."""
    line = the_line(azscale("connect", text='{"idle_timeout": 3, "url": "x", "idle_timeout": 9}'))
    assert "expected each key once, found 'idle_timeout' twice beside 'url'" in line


def test_a_password_that_everybody_can_read(azscale, tmp_path, simulator):
    """Is warned of once, with the file that it is in; one that only a group can read is not."""
    path = tmp_path / "autoscale.json"
    assert azscale("connect", mode=0o640).stderr == ""
    result = azscale("connect", mode=0o644)
    (line,) = result.stderr.splitlines()
    assert f"{path} has a password in it and can be read by everybody (mode 0644)" in line
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"password": simulator.connection("demo")["password"]}))
    secret.chmod(0o600)
    hidden = {"password": None, "include": ["secret.json"]}
    assert azscale("connect", mode=0o644, **hidden).stderr == ""
    secret.chmod(0o604)
    assert f"{secret} has a password" in azscale("connect", mode=0o644, **hidden).stderr


@pytest.mark.parametrize("user", [None, ""])
def test_no_user(azscale, user):
    """Is not set, and where it could be."""
    line = the_line(azscale("connect", username=user))
    assert "username of the CycleCloud server is not set: expected it in" in line


def test_a_cluster_that_is_not_there(azscale):
    """The name of the cluster."""
    assert "'nowhere'" in the_line(azscale("connect", cluster_name="nowhere"))


@pytest.mark.parametrize(
    "command", ["connect", "buckets", "limits", "nodes", "demand", "create_nodes", "jobs"]
)
def test_an_unknown_vm_size_in_the_configuration(azscale, command):
    """It may be newer than the catalogue: it selects nothing, and one line says where it is and
    what may be meant."""
    resource = {"select": {"node.vm_size": "Standard_F4s_v22"}, "name": "a", "value": 1}
    known = {"select": {}, "name": "b", "value": 2}
    result = azscale(command, driver="mydriver:Driver", default_resources=[resource, known])
    assert result.returncode == 0, result
    lines = [line for line in result.stderr.splitlines() if "Standard_F4s_v22" in line]
    assert len(lines) == (0 if command == "jobs" else 1)  # which asks the scheduler alone
    for line in lines:
        assert line.startswith("default_resources[0].select.node.vm_size: expected a VM size")
        assert "did you mean 'Standard_F4s_v2'" in line


def test_what_an_unknown_vm_size_selects(azscale):
    """Nothing; the entry after it defines the resource."""
    defaults = [
        {"select": {"node.vm_size": size}, "name": "a", "value": value}
        for size, value in (("Standard_F4s_v22", 1), ("Standard_F4s_v2", 2))
    ]
    result = azscale("buckets", "-o", "a", "-F", "json", default_resources=defaults)
    assert {bucket["a"] for bucket in json.loads(result.stdout)} == {2}


def test_an_unknown_vm_size_is_a_constraint(azscale):
    """It is printed as understood, with a word of warning on stderr."""
    result = azscale("validate_constraint", "-C", "node.vm_size=Standard_F4s_v22")
    assert (result.returncode, json.loads(result.stdout)) == (
        0,
        {"node.vm_size": "Standard_F4s_v22"},
    )
    assert "did you mean 'Standard_F4s_v2'" in result.stderr.splitlines()[0]


@pytest.mark.parametrize("args", [("create_nodes", "-v"), ("buckets", "-C")])
def test_an_unknown_vm_size_on_the_command_line(azscale, args):
    """What was meant."""
    size = "Standard_F4s_v22"
    result = azscale(*args, size if args[1] == "-v" else f"node.vm_size={size}")
    line = the_line(result, code=2)
    assert size in line
    assert "did you mean" in line


@pytest.mark.parametrize("command", [["connect"], ["buckets"], ["demand"], ["create_nodes"]])
def test_a_cluster_without_buckets(azscale, command):
    """Says what the cluster lacks."""
    line = the_line(azscale(*command, cluster="hollow", driver="mydriver:Driver"))
    assert "hollow" in line or "empty" in line


def test_a_nodearray_without_buckets(azscale):
    """Names it, and the reason that CycleCloud gives."""
    line = the_line(azscale("create_nodes", "-a", "off"))
    assert "nodearray off" in line


def test_a_nodearray_that_does_not_exist(azscale):
    """What there is, and what was meant."""
    line = the_line(azscale("create_nodes", "-a", "htcc"), code=2)
    assert "expected one of htc" in line
    assert "did you mean 'htc'" in line


def test_wrong_credentials(azscale, simulator):
    """The URL and the user's name help; the password is not shown."""
    line = the_line(azscale("connect", password="wrong-secret"))
    assert simulator.url in line
    assert "401" in line
    assert "wrong-secret" not in line


def test_no_credentials(azscale):
    """Where they could be."""
    assert "password" in the_line(azscale("connect", password=None))


def test_a_server_that_cannot_be_reached(azscale):
    """The URL, and what the network said. Not one line for each attempt."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        line = the_line(azscale("connect", url=url, retry={"attempts": 2}))
    assert url in line
    assert "refused" in line


def test_something_that_is_no_cyclecloud(azscale, tmp_path):
    """A web server that answers with a page."""
    code = (
        "import http.server as h, sys\n"
        "class P(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.send_header('Content-Type', 'text/html')\n"
        "        self.end_headers(); self.wfile.write(b'<html>welcome</html>')\n"
        "s = h.HTTPServer(('127.0.0.1', 0), P); print(s.server_port, flush=True); "
        "s.serve_forever()\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        assert "HTML" in the_line(azscale("connect", url=url))
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_commands_that_need_a_driver(azscale, tmp_path):
    """Say how to name one, and where."""
    line = the_line(azscale("jobs"))
    assert '"driver": "package.module:Class"' in line
    assert str(tmp_path / "autoscale.json") in line


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ("mydriver", "expected package.module:Class"),
        ("nowhere:Driver", "No module named 'nowhere'"),
        ("mydriver:Drivr", "did you mean 'Driver'"),
        ("mydriver:Job", "expected mydriver:Job to make a SchedulerDriver"),
    ],
)
def test_a_driver_that_cannot_be_had(azscale, driver, said):
    """What is wrong with it."""
    assert said in the_line(azscale("demand", driver=driver))


def test_the_lock_is_held(azscale, tmp_path):
    """By whom, and an exit code of its own."""
    path = str(tmp_path / "lock")
    lock = SingletonFileLock(path)
    result = azscale("autoscale", driver="mydriver:Driver", lock_file=path)
    lock.unlock()
    assert f"held by process {os.getpid()}" in the_line(result, code=3)


def test_a_history_that_cannot_be_opened(azscale):
    """The pass is made, and says which, and why; the exit code says that something failed."""
    result = azscale("autoscale", driver="mydriver:Driver", nodehistorydb=".")
    assert result.returncode == 1
    assert "cannot open the node history .: it is a directory" in result.stderr


def test_a_lock_that_cannot_be_opened(azscale):
    """It is not one that is held, and has an exit code of its own."""
    result = azscale("autoscale", driver="mydriver:Driver", lock_file=".")
    assert "lock file '.' cannot be opened: Is a directory" in the_line(result, code=4)


def test_a_lock_without_a_place(azscale):
    """What to do about it."""
    result = azscale("autoscale", driver="mydriver:Driver", lock_file="/no/such/place/lock")
    assert "create /no/such/place" in the_line(result)


@pytest.mark.parametrize("asked", [["--debug"], []])
def test_a_stack_trace_for_those_who_want_one(azscale, asked):
    """By an option, or by the environment."""
    env = {} if asked else {"SCALELIB_DEBUG": "1"}
    result = azscale("connect", *asked, env=env, cluster_name="nowhere")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("azscale connect: error: ")


def test_where_a_stack_trace_is_offered(azscale):
    """Where something has failed that nobody foresaw, as a driver can."""
    broken = (
        "class Broken(Driver):\n    def _read_jobs_and_nodes(self, config):\n        {}['queue']"
    )
    result = azscale("jobs", driver="mydriver:Broken", code=DRIVER + broken)
    line = the_line(result, is_odd=True)
    assert line.endswith("'queue' (azscale --debug shows more)")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("{}['queue']", "reading the scheduler: KeyError: 'queue' (azscale --debug shows more)"),
        ("raise RuntimeError('qstat: gone')", "qstat: gone (azscale --debug shows more)"),
        (
            "open('qstat')",
            "reading the scheduler: [Errno 2] No such file or directory: 'qstat' (azscale --debug"
            " shows more)",
        ),
    ],
)
@pytest.mark.parametrize("command", ["jobs", "plan", "demand", "nodes", "status"])
def test_a_driver_that_fails(azscale, command, raised, said):
    """What was being done, where the error itself says nothing of that."""
    broken = f"class Broken(Driver):\n    def _read_jobs_and_nodes(self, config):\n        {raised}"
    result = azscale(command, driver="mydriver:Broken", code=DRIVER + broken)
    assert the_line(result, is_odd=True) == f"azscale {command}: error: {said}"


@pytest.mark.parametrize("kind", ["job", "node", "bucket"])
def test_a_kind_without_a_name(azscale, kind):
    """Is not the name of a job."""
    result = azscale("explain", f"{kind}:")
    assert f"expected the name of a {kind} behind '{kind}:'" in the_line(result, code=2)


@pytest.mark.parametrize("command", ["nodes", "buckets"])
def test_a_property_that_is_taken_for_a_resource(azscale, command):
    """Gets a guess, as it does where a job is explained."""
    said = "no node has a resource 'vm_size'; did you mean 'node.vm_size'?"
    assert said in the_line(azscale(command, "-C", "vm_size=Standard_F4s_v2"), code=2)
    assert said in azscale("explain", "-C", "vm_size=Standard_F4s_v2").stdout


def test_an_encoding_that_has_not_all_characters(azscale):
    """What it has not is shown as an escape."""
    env = {"PYTHONIOENCODING": "ascii"}
    result = azscale("explain", "j\u00f6b", env=env, driver="mydriver:Driver")
    assert "No job, node or bucket is called 'j\\xf6b'" in result.stdout
    assert result.stderr == ""
    result = azscale("buckets", "--help", env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert "name=value[,value...]" in result.stdout


def test_a_check_says_nothing_but_what_it_finds(azscale):
    """Nothing is logged on stderr where the server is away, and a full disk is told of."""
    closed = "http://127.0.0.1:1"
    result = azscale("config", "--check", url=closed)
    assert result.stderr == ""
    assert result.stdout.startswith("warning: not held against the cluster: http://127.0.0.1:1/")
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = azscale("config", "--check", url=closed, stdout=full)
    assert "standard output cannot be written: No space left on device" in the_line(result)


def test_a_log_file_gets_the_stack_trace(azscale, tmp_path):
    """When the configuration has one."""
    log = tmp_path / "log"
    handlers = {"file": {"class": "logging.FileHandler", "filename": str(log)}}
    root = {"level": "DEBUG", "handlers": ["file"]}
    logging = {"config": {"version": 1, "handlers": handlers, "root": root}}
    the_line(azscale("connect", cluster_name="nowhere", logging=logging))
    assert "Traceback" in log.read_text()


def test_a_command_that_does_not_exist(azscale):
    """Argparse says so."""
    result = azscale("demnd")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "demnd" in result.stderr.splitlines()[-1]


def test_a_reader_that_has_seen_enough(simulator, tmp_path):
    """As in `azscale limits | head -1`: quiet, whatever was left to print. The exit code is 1: not
    all that was asked for was printed."""
    path = tmp_path / "autoscale.json"
    path.write_text(json.dumps(simulator.connection("demo")))
    path.chmod(0o600)
    read, write = os.pipe()
    os.close(read)
    result = subprocess.run(
        [sys.executable, "-m", "hpc.autoscale.cli", "buckets", "-c", str(path)],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert (result.returncode, result.stderr) == (1, "")


def exits_in(method):
    """A driver of which a method calls `sys.exit`."""
    return f"{DRIVER}\n    def {method}:\n        raise SystemExit(3)\n"


@pytest.mark.parametrize(
    ("code", "doing"),
    [
        ("import sys\nsys.exit(3)\n" + DRIVER, "driver: importing mydriver"),
        (exits_in("__init__(self)"), "driver: making mydriver:Driver"),
        (exits_in("initialize(self)"), "Driver(scalelib).initialize"),
        (exits_in("_read_jobs_and_nodes(self, config)"), ".read_jobs_and_nodes"),
        (exits_in("wanted_arrays(self, config)"), "Driver(scalelib).wanted_arrays"),
    ],
    ids=["import", "constructor", "initialize", "reading", "wishes"],
)
def test_a_driver_cannot_end_the_command(azscale, code, doing):
    """By `sys.exit`: that is told as another error is, and not with the exit code for a lock that
    is held."""
    line = the_line(azscale("autoscale", code=code, driver="mydriver:Driver"), is_odd=True)
    assert f"{doing}: it called sys.exit(3)" in line
