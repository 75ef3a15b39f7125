"""`azscale doctor`: each check is broken, over HTTP where the product speaks HTTP, and says so."""

import errno
import fcntl
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from socket import gethostname
from tempfile import TemporaryDirectory

import pytest
import requests
import trustme

from builders.command_lines import at_home
from builders.scripted_server import Answer, serving, serving_tls
from hpc.autoscale import cli, clock
from hpc.autoscale.cli.checkup import CHECKS
from hpc.autoscale.simulator import serve
from hpc.autoscale.util import SingletonFileLock

SIZE = "Standard_F4s_v2"
DRIVER = """
from hpc.autoscale.cli import GenericDriver
from hpc.autoscale.errors import ConfigurationException
from hpc.autoscale.util import NullSingletonLock

class Driver(GenericDriver):
    pass

class Down(GenericDriver):
    def _read_jobs_and_nodes(self, config):
        raise RuntimeError("qstat: cannot connect to server")

class Picky(GenericDriver):
    def preprocess_config(self, config):
        raise ConfigurationException("filequeue: expected {...}, found None")

class Locking(GenericDriver):
    def new_singleton_lock(self, config):
        return NullSingletonLock()

class Failing(GenericDriver):
    def __init__(self):
        raise KeyError("x")

class Broken(GenericDriver):
    def preprocess_config(self, config):
        return config["filequeue"]["path"]
"""
STATUS = {"maxCount": 1, "maxCoreCount": 1, "nodearrays": []}


@pytest.fixture(scope="module")
def simulator():
    """A cluster, one in a region without any quota for its only family, and one with a quota for
    one node."""
    arrays = {"htc": {"machine_types": [SIZE]}}
    two_sizes = [SIZE, "Standard_F8s_v2"]
    clusters = {
        "demo": {"region": "westus2", "nodearrays": arrays},
        "poor": {"region": "eastus", "nodearrays": arrays},
        "full": {"region": "northeurope", "nodearrays": {"htc": {"machine_types": two_sizes}}},
    }
    regions = {
        "eastus": {"family_quotas": {"standardFSv2Family": 0}},
        "northeurope": {"family_quotas": {"standardFSv2Family": 4}},
    }
    with serve({"clusters": clusters, "regions": regions}) as running:
        yield running


class Doctor:
    """Runs `azscale doctor` with a configuration."""

    def __init__(self, home, simulator, capsys):
        self.home = home
        self.simulator = simulator
        self.capsys = capsys
        self.path = home / "autoscale.json"
        self.remedies = {}

    def __call__(self, code=0, text=None, mode=0o600, form="json", **config):
        """What is found: verdict and text by check, the worst of several; or what is printed."""
        config = {**self.simulator.connection("demo"), "driver": "sitedriver:Driver", **config}
        self.path.write_text(json.dumps(config) if text is None else text)
        self.path.chmod(mode)
        ended = 0
        try:
            cli.main(["doctor", "-c", str(self.path), "-F", form])
        except SystemExit as end:
            ended = end.code
        said = self.capsys.readouterr()
        assert ended == code, said
        if form != "json":
            return said.out
        rows = json.loads(said.out)
        order = ["skipped", "ok", "warning", "failed"]
        rows.sort(key=lambda row: order.index(row["verdict"]))
        for row in rows:
            assert not row["remedy"] or row["verdict"] in ("warning", "failed")
        self.remedies = {row["check"]: row["remedy"] for row in rows}
        return {row["check"]: (row["verdict"], row["found"]) for row in rows}


@pytest.fixture
def doctor(simulator, tmp_path, monkeypatch, capsys):
    """The command, in a directory of its own."""
    at_home(monkeypatch, tmp_path, sitedriver=DRIVER)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    return Doctor(tmp_path, simulator, capsys)


def test_all_is_well(doctor):
    """A line for each check, in 80 columns, exit code 0, and nothing is written."""
    before = set(doctor.home.iterdir()) | {doctor.path}
    lines = doctor(form="table").splitlines()
    heads = [line.split()[:2] for line in lines if not line.startswith(" ")]
    assert heads == [["ok", check.name] for check in CHECKS]
    assert max(map(len, lines)) <= 80
    assert {p for p in doctor.home.iterdir() if p.name != "__pycache__"} == before
    assert {verdict for verdict, _ in doctor().values()} == {"ok"}


@contextmanager
def a_page():
    """A web server that is no CycleCloud."""
    with serving() as server:
        server.on("GET", "/clusters/demo/status", Answer(body=b"<html>welcome</html>"))
        yield {"url": server.url}


@contextmanager
def a_health_file(**known):
    """That of a loop that made its last pass five minutes ago and has ended since."""
    with subprocess.Popen(["true"]) as ended:
        loop = {"host": gethostname(), "pid": ended.pid}
    began = time.time() - 300
    health = {"last_pass": began, "last_good_pass": began, "next_pass_in": 60, "loop": loop}
    with TemporaryDirectory() as directory:
        path = os.path.join(directory, "health.json")
        with open(path, "w") as file:
            json.dump({**health, **known}, file)
        yield {"metrics": {"health_file": path}}


@contextmanager
def an_unknown_issuer():
    """CycleCloud behind a certificate that nobody here knows."""
    with serving_tls(trustme.CA()) as server:
        server.on("GET", "/clusters/demo/status", Answer(body=STATUS))
        yield {"url": server.url}


@contextmanager
def forbidden():
    """A user that may not read the cluster."""
    with serving() as server:
        server.on("GET", "/clusters/demo/status", Answer(403, {"Message": "no access"}))
        yield {"url": server.url}


@contextmanager
def a_clock_that_is_wrong():
    """By two minutes."""
    clock.use_clock(clock.MockClock(time.time() + 120))
    yield {}


@contextmanager
def a_full_disk(free=2**20):
    """Next to nothing is free."""
    with pytest.MonkeyPatch.context() as patch:
        usage = type("Usage", (), {"free": free})
        patch.setattr("hpc.autoscale.cli.checkup.shutil.disk_usage", lambda _: usage)
        yield {}


@contextmanager
def without_the_solver():
    """What the least-cost mode needs is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "highspy", None)
        yield {"packing": {"objective": "cost"}}


@contextmanager
def a_driver_that_raises(error):
    """When its module is imported."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(directory)
        with open(os.path.join(directory, "raising.py"), "w") as file:
            file.write(f"raise {error}")
        yield {"driver": "raising:Driver"}


@contextmanager
def a_damaged_file(key):
    """What a key names is no database."""
    with TemporaryDirectory() as directory:
        path = os.path.join(directory, "state.db")
        with open(path, "w") as file:
            file.write("no database" * 100)
        yield {key: path}


NO_PROPERTY = {"select": {}, "name": "slots", "value": "node.vcpu_cnt"}
FAILURES = [
    ("configuration", {"idle_timout": 3}, "did you mean 'idle_timeout'"),
    ("configuration", {"text": "{"}, "line 1 column"),
    ("configuration", {"packing": {"policy": "cheepest"}}, "did you mean 'cheapest'?"),
    ("configuration", {"logging": {"config_file": os.devnull}}, "cannot be used: KeyError"),
    ("versions", without_the_solver, "needs the extra [optimize]"),
    ("files", {"nodehistorydb": "/no/such/place/x.db"}, "no directory /no/such/place"),
    ("files", {"requests_file": "/"}, "is a directory"),
    ("disk", a_full_disk, "1 MB free"),
    ("files", {"lock_file": "/tmp"}, "lock_file: /tmp is a directory"),
    ("state", lambda: a_damaged_file("requests_file"), "move it away when no create is under way"),
    ("server", {"url": "http://127.0.0.1:9"}, "no answer from CycleCloud"),
    ("server", {"url": "127.0.0.1:8081"}, "url: expected https://host[:port]"),
    ("server", {"url": None}, "url of the CycleCloud server is not set"),
    ("certificate", {"ca_file": "/no/such/ca.pem"}, "found no '/no/such/ca.pem'"),
    ("server", a_page, "an HTML page"),
    ("certificate", an_unknown_issuer, "certificate verify failed"),
    ("credentials", {"password": "wrong"}, "HTTP 401"),
    ("credentials", {"password": None}, "password"),
    ("permissions", {"cluster_name": "nowhere"}, "'nowhere'"),
    ("permissions", forbidden, "HTTP 403"),
    ("clock", a_clock_that_is_wrong, "s behind ours"),
    ("driver", {"driver": "sitedriver:Drivr"}, "did you mean 'Driver'"),
    ("driver", lambda: a_driver_that_raises("KeyError('x')"), "importing raising: KeyError: 'x'"),
    (
        "driver",
        lambda: a_driver_that_raises("OSError('x')"),
        "driver: importing raising: OSError: x",
    ),
    ("driver", {"driver": "sitedriver:Failing"}, "making sitedriver:Failing: KeyError: 'x'"),
    ("scheduler", {"driver": "sitedriver:Down"}, "cannot connect to server"),
    ("names", {"default_resources": [NO_PROPERTY]}, "did you mean 'vcpu_count'"),
]
WARNINGS = [
    ("configuration", {"mode": 0o644}, "can be read by everybody"),
    ("configuration", {"site": {"token": "ab"}}, "site.token: it has fewer than 4 letters"),
    ("configuration", {"logging": {"config_file": "/no/such.conf"}}, "there is no such file"),
    ("lock", {"lock_file": None}, "lock_file is null"),
    ("files", {"metrics": {"file": "/no/such/x.prom"}}, "metrics.file: there is no directory"),
    ("files", {"metrics": {"health_file": "/no/such/x.json"}}, "metrics.health_file: there is"),
    ("files", {"journal": {"directory": "/no/such/journal"}}, "journal.directory: there is no"),
    ("disk", lambda: a_full_disk(100 * 2**20), "100 MB free"),
    ("state", lambda: a_damaged_file("nodehistorydb"), "the next pass moves it aside"),
    ("state", lambda: a_damaged_file("backoffdb"), "what failed before is forgotten"),
    ("state", lambda: a_damaged_file("gangsdb"), "for which gangs nodes were asked for"),
    ("certificate", {"url": "http://cyclecloud.invalid"}, "in the clear"),
    ("quotas", {"cluster_name": "poor"}, "is 0, so nothing can be started of htc Standard_F4s_v2"),
    ("names", {"idle_timeout": {"htcc": 60, "default": 60}}, "no nodearray 'htcc'"),
    ("passes", lambda: a_health_file(), "its loop has ended"),
]


@contextmanager
def broken(how):
    """The configuration that breaks something, while it is broken."""
    with how() if callable(how) else contextmanager(lambda: (yield how))() as config:
        yield config


@pytest.mark.parametrize(("check", "how", "said"), FAILURES)
def test_what_fails(doctor, check, how, said):
    """Exit code 1; the check says what is wrong, none before it is blamed, and what depends on it
    is skipped."""
    with broken(how) as config:
        found = doctor(code=1, **config)
    assert said in found[check][1]
    names = [each.name for each in CHECKS]
    failed = [name for name in names if found.get(name, ("ok",))[0] == "failed"]
    assert failed == [check]
    needing = [each.name for each in CHECKS if check in each.needs]
    assert {found[name][0] for name in needing} <= {"skipped"}


@pytest.mark.parametrize(("check", "how", "said"), WARNINGS)
def test_what_may_be_wrong(doctor, check, how, said):
    """A warning with what to do; by itself it is no failure."""
    with broken(how) as config:
        found = doctor(code=1 if "url" in config else 0, **config)
    assert found[check][0] == "warning"
    assert said in found[check][1]


def test_every_check_has_been_broken():
    """Each row of the table, by one of the two tests above."""
    assert {check.name for check in CHECKS} == {row[0] for row in (*FAILURES, *WARNINGS)}


OF_ITS_OWN = [
    ("server", {"url": "127.0.0.1:8081"}, "write url as https://host or https://host:port"),
    ("server", {"url": "http://127.0.0.1:9"}, "check url, name resolution"),
    ("credentials", {"password": "wrong"}, "set username and password"),
    ("certificate", an_unknown_issuer, "name the issuer's certificate with ca_file"),
    ("certificate", {"url": "http://cyclecloud.invalid"}, "write https:// in url"),
    ("certificate", {"ca_file": "/no/such/ca.pem"}, "name a file with ca_file that is there"),
    ("driver", {"driver": "sitedriver:Drivr"}, "name it as package.module:Class"),
    ("driver", {"driver": "sitedriver:Picky"}, "the driver was found: correct what it says"),
    ("driver", {"driver": "sitedriver:Broken"}, "the driver was found: correct what it says"),
    ("driver", {"driver": "sitedriver:Failing"}, "the driver was found: correct its code"),
    ("driver", lambda: a_driver_that_raises("OSError('x')"), "the driver was found: correct its c"),
    ("files", {"lock_file": "/tmp"}, "name a file with lock_file"),
    ("files", {"nodehistorydb": "/no/such/place/x.db"}, "create the directory"),
    ("configuration", {"text": "{"}, "correct the keys that are named"),
]


@pytest.mark.parametrize(("check", "how", "remedy"), OF_ITS_OWN)
def test_what_to_do_is_about_what_was_found(doctor, check, how, remedy):
    """Also where a check can find several things."""
    with broken(how) as config:
        assert doctor(code=1, **config)[check][0] in ("warning", "failed")
    assert doctor.remedies[check].startswith(remedy)


@pytest.mark.parametrize("name", ["requests.db", "requests.json"])
def test_damaged_request_ids_beside_the_history(doctor, name):
    """Which no key names, end each pass: that fails, and nothing is moved or taken over."""
    (doctor.home / name).write_text("{" * 100)
    verdict, text = doctor(code=1)["state"]
    assert verdict == "failed" and f"{doctor.home / name}: " in text
    assert text.endswith("so look at the nodes of the cluster first")
    assert doctor.remedies["state"] is None
    assert (doctor.home / name).read_text() == "{" * 100
    assert not (doctor.home / "requests.db").exists() or name == "requests.db"


def test_request_ids_of_an_earlier_version(doctor):
    """Are fine, and stay where they are."""
    (doctor.home / "requests.json").write_text('["a", "b"]')
    assert doctor()["state"] == ("ok", "nothing is remembered yet")
    assert not (doctor.home / "requests.db").exists()


def test_a_damaged_file_is_one_thing_to_mend(doctor):
    """Checks that come upon the same file add no other remedy, such as for names."""
    (doctor.home / "requestsets.db").write_text("no database")
    said = doctor(code=1, form="table")
    assert "let every reporter report again" in " ".join(said.split())
    assert "What to do" not in said


def test_a_file_of_a_later_version(doctor):
    """Is not called damaged; what to do is said where it is found, as of one that is none."""
    with closing(sqlite3.connect(doctor.home / "requests.db")) as db:
        db.execute("PRAGMA user_version = 99")
        db.commit()
    newer = (
        "of version 4, found version 99, as a newer hpc-autoscale writes it: use that one, or move"
    )
    assert newer in doctor(code=1)["state"][1] and doctor.remedies["state"] is None
    with closing(sqlite3.connect(doctor.home / "requests.db")) as db:
        db.execute("PRAGMA user_version = 0")
        db.execute("CREATE TABLE x (y)")
    assert "of version 4, found another: move it away" in doctor(code=1)["state"][1]


def test_a_file_in_the_place_of_a_directory(doctor):
    """Is no directory that is to be created."""
    verdict, text = doctor(journal={"directory": os.devnull})["files"]
    assert verdict == "warning" and text.startswith("journal.directory: /dev/null is no directory")
    assert doctor.remedies["files"].startswith("move that away, or name a directory with journal.d")


def test_a_file_in_the_place_of_the_journal(doctor):
    """Is found where no directory is named, too."""
    (doctor.home / "journal").write_text("in the way")
    verdict, text = doctor(journal={})["files"]
    said = f"journal: {doctor.home}/journal is no directory; passes go on, and it is not written"
    assert (verdict, text) == ("warning", said)
    assert doctor(journal=False)["files"][0] == "ok"


def test_a_journal_that_another_user_wrote_last(doctor, monkeypatch):
    """As when somebody makes a pass by hand as root: no record is added to that file."""
    (doctor.home / "journal").mkdir()
    file = doctor.home / "journal" / "journal-000003.jsonl.gz"
    file.touch()
    assert doctor(journal={})["files"][0] == "ok"
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(file) and may(path, mode))
    verdict, text = doctor(journal={})["files"]
    assert verdict == "warning" and text.startswith(f"journal: this user cannot write {file}; ")
    assert doctor.remedies["files"] == "give it to the user that runs azscale"
    closed = (str(file.parent), os.R_OK)
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != closed and may(path, mode))
    verdict, text = doctor(journal={})["files"]
    assert verdict == "warning" and f"journal: this user cannot look into {file.parent}; " in text


@pytest.mark.parametrize(("name", "code"), [("backoff.db", 0), ("on-premises.db", 1)])
def test_what_is_remembered_in_a_file_of_another_user(doctor, monkeypatch, name, code):
    """No pass can write it. Without that of hosts on premises it starts no worker."""
    file = doctor.home / name
    file.touch()
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(file) and may(path, mode))
    rack = {"name": "rack-1", "resources": {"ncpus": 4}}
    verdict, text = doctor(code=code, on_premises=[rack])["state"]
    assert verdict == ("failed" if code else "warning")
    assert text.endswith(f"{file}: this user cannot write it")
    assert doctor.remedies["state"].startswith("let the user that runs azscale read and write the")


def test_a_directory_in_the_place_of_figures(doctor):
    """Is no place for them."""
    verdict, text = doctor(metrics={"health_file": str(doctor.home)})["files"]
    assert verdict == "warning" and f"metrics.health_file: {doctor.home} is a directory" in text


@pytest.mark.parametrize("name", ["nodehistory.db", "requests.db", "figures.prom"])
def test_a_link_to_a_place_that_is_not_there(doctor, tmp_path, name):
    """As one to a disk that is not mounted."""
    (doctor.home / name).symlink_to(tmp_path / "away" / name)
    is_needed = name != "figures.prom"
    figures = {"file": str(doctor.home / "figures.prom")}
    verdict, text = doctor(code=int(is_needed), metrics=figures)["files"]
    assert verdict == ("failed" if is_needed else "warning")
    assert f": there is no directory {tmp_path / 'away'}" in text


def test_https_where_there_is_none(doctor, simulator):
    """Has nothing to do with who has issued a certificate."""
    url = simulator.connection("demo")["url"].replace("http:", "https:")
    assert "WRONG_VERSION_NUMBER" in doctor(code=1, url=url)["certificate"][1]
    assert doctor.remedies["certificate"].startswith("the server speaks plain HTTP at this port")


def test_a_certificate_for_another_name(doctor):
    """Is not mended by another issuer."""
    authority = trustme.CA()
    ca_file = doctor.home / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    with serving_tls(authority, "other.example") as server:
        assert doctor(code=1, url=server.url, ca_file=str(ca_file))["certificate"][0] == "failed"
    assert doctor.remedies["certificate"].startswith("write the name in url")


def test_nothing_is_added_where_the_finding_says_what_to_do(doctor):
    """A file with a password, a secret that is short."""
    found = doctor(mode=0o644)["configuration"]
    assert (found[0], doctor.remedies["configuration"]) == ("warning", None)
    assert "run chmod 600" in found[1]
    assert "What to do" not in doctor(mode=0o644, form="table")
    doctor(site={"token": "ab"})
    assert doctor.remedies["configuration"] is None


def test_a_configuration_that_is_not_there(doctor, capsys, monkeypatch):
    """Or cannot be read: no key is to be corrected."""
    refused = doctor.home / "refused.json"

    def opened(path, *args, **more):
        if str(path) == str(refused):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return open(path, *args, **more)

    monkeypatch.setattr("hpc.autoscale.config.load.open", opened, raising=False)
    for path, remedy in (
        (doctor.home / "none.json", "name the file that is meant with -c"),
        (doctor.home, "name the file that is meant with -c"),
        (refused, "let the user that runs azscale read the file"),
    ):
        with pytest.raises(SystemExit, match="1"):
            cli.main(["doctor", "-c", str(path), "-F", "json"])
        (row,) = [r for r in json.loads(capsys.readouterr().out) if r["verdict"] == "failed"]
        assert row["check"] == "configuration" and row["remedy"].startswith(remedy)


def test_it_only_reads(doctor, simulator):
    """Nothing is sent that could create a node; whether one may is found out by trying, as the
    finding says."""
    user = {"username": "reader", "password": "x", "driver": None}
    known = simulator.connection("demo")
    login = (known["username"], known["password"])
    status = requests.get(f"{known['url']}/clusters/demo/status", auth=login, timeout=30).json()
    with serving() as server:
        server.on("GET", "/clusters/demo/status", Answer(body=status))
        server.on("GET", "/clusters/demo/nodes", Answer(body={"nodes": []}))
        server.on("POST", "/clusters/demo/nodes/create", Answer(403, {"Message": "read only"}))
        _, said = doctor(url=server.url, **user)["permissions"]
        assert {request.method for request in server.requests} == {"GET"}
        assert "whether reader may create nodes in it, only a create tells" in said
        (tried,) = re.findall("`azscale (.*)`", said)
        with pytest.raises(SystemExit, match="1"):
            cli.main([*tried.split(), "-c", str(doctor.path)])
    assert "HTTP 403: read only" in doctor.capsys.readouterr().err


def test_a_quota_that_is_used_up_is_not_zero(doctor):
    """A full cluster is no mistake."""
    doctor(cluster_name="full")
    cli.main(["create_nodes", "-c", str(doctor.path), "-v", SIZE])
    doctor.capsys.readouterr()
    assert doctor(cluster_name="full")["quotas"][0] == "ok"


def test_hosts_on_premises_have_no_quota(doctor):
    """They are not warned of as a quota of 0, with the advice to raise it in Azure."""
    hosts = [{"name": "rack-1", "resources": {"ncpus": 4}}]
    assert doctor(on_premises=hosts)["quotas"] == doctor()["quotas"]


def test_what_to_do_is_said_once(doctor):
    """Below the findings, in 80 columns; what was skipped is one line."""
    out = doctor(code=1, form="table", password="wrong")
    assert max(map(len, out.splitlines())) <= 80
    remedy = next(check.remedy for check in CHECKS if check.name == "credentials")
    assert " ".join(out.split()).count(remedy) == 1
    assert "skipped  3 checks" in out


def test_who_holds_the_lock(doctor, simulator):
    """Is no fault: a loop that runs holds it."""
    config = simulator.connection("demo")
    lock = SingletonFileLock(str(doctor.home / "lock.file")).hold_cluster(config)
    try:
        assert doctor()["lock"][1].startswith("held by process ")
    finally:
        lock.unlock()
    assert doctor()["lock"] == ("ok", "free")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells who has a lock")
def test_a_lock_that_is_held_by_somebody_else(doctor, capsys):
    """As `azscale autoscale` says it; looking leaves the file alone."""
    path = doctor.home / "lock.file"
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        who = f"process {os.getpid()} of user {os.getuid()}"
        assert doctor()["lock"] == ("ok", f"held by {who}")
        with pytest.raises(SystemExit, match="3"):
            cli.main(["autoscale", "-c", str(doctor.path)])
        assert "is held by another process" in capsys.readouterr().err
        assert path.read_text() == ""
    assert doctor()["lock"] == ("ok", "free")


@pytest.mark.parametrize("lock_file", ["/no/such/place/lock", "/tmp"])
def test_a_lock_that_nobody_can_take(doctor, lock_file):
    """Is not free; what to do is said of the file."""
    verdict, text = doctor(code=1, lock_file=lock_file)["lock"]
    assert verdict == "warning" and text.startswith("not known: ")
    assert text.endswith("so it cannot be taken")
    assert doctor.remedies["lock"].startswith("name a file with lock_file")


def test_a_lock_of_the_driver(doctor):
    """Nobody knows whether it is free."""
    found = doctor(driver="sitedriver:Locking")["lock"]
    assert found == ("warning", "not known: the driver has a lock of its own")
    assert doctor.remedies["lock"].startswith("look whether a loop runs")


def test_a_pass_that_failed_is_warned_of_until_one_goes_well(doctor, capsys):
    """Also where all that the other checks look at is well."""
    assert doctor(journal={})["passes"] == ("ok", "none is known of")
    config = json.loads(doctor.path.read_text())
    doctor.path.write_text(json.dumps({**config, "driver": "sitedriver:Down"}))
    with pytest.raises(SystemExit):
        cli.main(["autoscale", "-c", str(doctor.path)])
    capsys.readouterr()
    verdict, text = doctor(journal={})["passes"]
    assert (verdict, text.startswith("last pass 0 s ago: failed after ")) == ("warning", True)
    assert "qstat: cannot connect to server" in text
    assert "azscale status" in doctor.remedies["passes"]
    cli.main(["autoscale", "-c", str(doctor.path)])
    capsys.readouterr()
    assert doctor(journal={})["passes"][0] == "ok"


def test_a_loop_that_is_gone_or_late_is_warned_of(doctor):
    """Nothing scales then, however well all is."""
    with a_health_file() as config:
        assert doctor(**config)["passes"][1] == "last pass 5 min ago: ok; its loop has ended"
    assert doctor.remedies["passes"].startswith("start the loop again")
    with a_health_file(loop=None) as config:
        verdict, text = doctor(**config)["passes"]
        assert (verdict, text.rpartition(", ")[2]) == ("warning", "4 min late")


def test_a_certificate_that_is_trusted(doctor):
    """Says when it ends, and warns in good time."""
    authority = trustme.CA()
    ca_file = doctor.home / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    with serving_tls(authority) as server:
        server.on("GET", "/clusters/demo/status", Answer(body=STATUS))
        config = {"url": server.url, "ca_file": str(ca_file)}
        verdict, text = doctor(code=1, **config)["certificate"]
        assert verdict == "ok"
        days = int(text.split()[-2])
        clock.use_clock(clock.MockClock(time.time() + (days - 7) * 86400))
        assert doctor(code=1, **config)["certificate"][0] == "warning"
        unverified = {"url": server.url, "verify_certificates": False}
        assert doctor(code=1, **unverified)["certificate"][0] == "warning"


def test_each_of_several_clusters_is_looked_at(doctor, simulator):
    """And named; one that is wrong does not hide the others."""
    clusters = [
        {"name": "east", **simulator.connection("demo")},
        {"name": "west", **simulator.connection("poor"), "password": "wrong"},
    ]
    out = doctor(code=1, form="table", text=json.dumps({"clusters": clusters}))
    said = [line.split(None, 3) for line in out.splitlines() if " credentials " in line]
    assert [(words[0], words[2]) for words in said[:2]] == [("ok", "east:"), ("failed", "west:")]


def test_no_configuration(tmp_path, monkeypatch, capsys):
    """Is what fails, with what to do about it."""
    monkeypatch.setattr("hpc.autoscale.hpclogging._initialized", True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOSCALE_CONFIG", raising=False)
    monkeypatch.setenv("AUTOSCALE_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor"])
    out = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 1
    assert "failed configuration none found: looked for" in out
    assert "`azscale initconfig` makes a first one" in out


def test_no_driver(doctor, tmp_path):
    """No jobs are known of then, which is not the same as that there are none; unless requests are
    reported."""
    found = doctor(driver=None)
    assert found["driver"][0] == "warning"
    assert "nobody has reported a request to" in found["driver"][1]
    assert "in the key driver" in doctor.remedies["driver"]
    assert found["scheduler"] == ("ok", "none is asked, as there is no driver")
    (tmp_path / "requestsets.db").touch()
    verdict, said = doctor(driver=None)["driver"]
    assert (verdict, said.startswith("none: the requests that were reported")) == ("ok", True)
