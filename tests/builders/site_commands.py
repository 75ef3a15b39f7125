"""azscale beside a site of `failing_cloud`: its configuration is the site's, and its scheduler has
the jobs that `site.new_jobs` makes, and the hosts that `site.new_hosts` makes."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.command_lines import at_home
from builders.failing_cloud import Site
from hpc.autoscale import cli

MODULE = "driver_of_a_site"
DRIVER = """
from hpc.autoscale.cli import GenericDriver

class Driver(GenericDriver):
    site = None

    def _read_jobs_and_nodes(self, config):
        return self.site.new_jobs(), self.site.new_hosts()
"""


class SiteCommand:
    """Runs commands; `errors` is what the last one printed on stderr, and `code` its exit code."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = home / "autoscale.json"
        self._capsys = capsys
        self.errors = ""
        self.code: object = 0

    def serve(self, site: Site, **config: Any) -> None:
        """Be the command of a site from now on, with these keys beside those of its
        configuration."""
        importlib.import_module(MODULE).Driver.site = site
        config = {**site.config, **config, "driver": f"{MODULE}:Driver"}
        self.path.write_text(json.dumps(config))
        self.path.chmod(0o600)

    def __call__(self, command: str, *words: str) -> str:
        """What a command prints on stdout, whatever its exit code is."""
        self.code = 0
        try:
            cli.main([command, "-c", str(self.path), *words])
        except SystemExit as end:
            self.code = end.code
        printed = self._capsys.readouterr()
        self.errors = printed.err
        return printed.out


@pytest.fixture
def site_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> SiteCommand:
    """azscale in a home of its own."""
    at_home(monkeypatch, tmp_path, **{MODULE: DRIVER})
    sys.path.insert(0, str(tmp_path))
    return SiteCommand(tmp_path, capsys)
