"""Credentials and where they come from."""

import json

import pytest

from hpc.autoscale.config import Credentials, redact, resolve_secrets
from hpc.autoscale.config.secrets import exposed_passwords
from hpc.autoscale.errors import ConfigurationException

ALL = {"url": "https://cc", "username": "admin", "password": "hunter2"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """No credentials from outside of the test."""
    for name in ("URL", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"CYCLECLOUD_{name}", raising=False)


@pytest.fixture
def credentials_file(tmp_path):
    """Write a credentials file with a mode; returns its path."""

    def write(content, mode=0o600):
        path = tmp_path / "credentials.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(mode)
        return str(path)

    return write


def test_the_password_is_never_shown():
    """Neither repr nor str show it."""
    credentials = Credentials(**ALL)
    assert "hunter2" not in f"{credentials!r} {credentials} {[credentials]}"
    assert credentials.password == "hunter2"


def test_from_the_configuration():
    """Keys of the configuration come first, and the file is not even opened."""
    assert resolve_secrets(ALL | {"credentials_file": "/missing"}) == Credentials(**ALL)


def test_from_the_environment(monkeypatch):
    """The environment is asked for what the configuration does not say."""
    monkeypatch.setenv("CYCLECLOUD_PASSWORD", "hunter2")
    monkeypatch.setenv("CYCLECLOUD_USERNAME", "somebody else")
    config = {"url": "https://cc", "username": "admin", "password": ""}
    assert resolve_secrets(config) == Credentials(**ALL)


def test_from_the_file(monkeypatch, credentials_file):
    """The file is asked last, for each of the three by itself."""
    monkeypatch.setenv("CYCLECLOUD_USERNAME", "admin")
    path = credentials_file({"username": "nobody", "password": "hunter2", "url": "https://other"})
    assert resolve_secrets({"url": "https://cc", "credentials_file": path}) == Credentials(**ALL)


def test_from_the_home_directory(monkeypatch, credentials_file, tmp_path):
    """The path may begin with a tilde."""
    credentials_file(ALL)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_secrets({"credentials_file": "~/credentials.json"}) == Credentials(**ALL)


@pytest.mark.parametrize("missing", ALL)
def test_missing(missing):
    """The error says what is missing and the three places for it."""
    with pytest.raises(ConfigurationException) as e:
        resolve_secrets({k: v for k, v in ALL.items() if k != missing})
    for expected in (missing, f"CYCLECLOUD_{missing.upper()}", "credentials_file"):
        assert expected in str(e.value)
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_file_that_others_can_use(credentials_file, mode):
    """Such a file is refused, with the command that helps."""
    path = credentials_file(ALL, mode)
    with pytest.raises(ConfigurationException, match=f"mode {mode:04o}.*chmod 600") as e:
        resolve_secrets({"credentials_file": path})
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize(
    "content, expected",
    [
        ('{"password": "hunter2"', "is not JSON"),
        ('["hunter2"]', "expected a JSON object with url, username, password, found list"),
        ('{"password": ["hunter2"], "url": "u", "username": "n"}', "password: expected a text"),
    ],
)
def test_file_with_other_content(credentials_file, content, expected):
    """What is wrong is said, without the content."""
    with pytest.raises(ConfigurationException) as e:
        resolve_secrets({"credentials_file": credentials_file(content)})
    assert expected in str(e.value) and "hunter2" not in str(e.value)
    assert "hunter2" not in repr(e.value.__cause__)


def test_file_that_is_no_text(tmp_path):
    """Binary content is an error of the configuration as well."""
    path = tmp_path / "c"
    path.write_bytes(b"\xff\xfe")
    path.chmod(0o600)
    with pytest.raises(ConfigurationException, match="UTF-8"):
        resolve_secrets({"credentials_file": str(path)})


@pytest.mark.parametrize(
    "path, expected", [("/missing", "there is no such file"), (3, "expected a path")]
)
def test_file_that_is_not_there(path, expected):
    """The error says what is wrong with the path."""
    with pytest.raises(ConfigurationException, match=expected):
        resolve_secrets({"credentials_file": path})


@pytest.mark.parametrize("name, value", [("url", 3), ("password", 12345)])
def test_values_that_are_no_text(name, value):
    """Numbers are refused; that of a password is not shown."""
    with pytest.raises(ConfigurationException, match=f"{name}: expected a text") as e:
        resolve_secrets(ALL | {name: value})
    assert "12345" not in str(e.value)


def test_redact():
    """Secrets at any depth become stars in a copy, whatever they are."""
    binding = object()
    config = ALL | {
        "url": "https://admin:hunter2@cc/path?x=a:b@c",
        "credentials_file": "c.json",
        "pbspro": [{"Api-Key": 3, "auth_token": ["a"]}, ("x",)],
        "client_secret": None,
        "_mock_bindings": binding,
    }
    assert redact(config) == {
        "url": "https://admin:***@cc/path?x=a:b@c",
        "username": "admin",
        "password": "***",
        "credentials_file": "c.json",
        "pbspro": [{"Api-Key": "***", "auth_token": "***"}, ["x"]],
        "client_secret": None,
        "_mock_bindings": binding,
    }
    assert config["password"] == "hunter2"


def test_commands_that_are_advised_can_be_pasted(tmp_path):
    """A path with a space in it is one word of `chmod 600`."""
    path = tmp_path / "my site" / "autoscale.json"
    path.parent.mkdir()
    path.write_text('{"cluster_name": "c", "url": "u", "username": "u", "password": "p"}')
    path.chmod(0o644)
    (found,) = exposed_passwords(path)
    assert f"run chmod 600 '{path}', or" in found
    config = {"cluster_name": "c", "credentials_file": str(path)}
    with pytest.raises(ConfigurationException, match=f"`chmod 600 '{path}'`"):
        resolve_secrets(config)
