"""Runs `azscale` in processes of their own that need not import the library first.

One process imports it, and forks for each command. What a command sees is as if it had been
started as `python -m hpc.autoscale.cli`: its arguments, directory, environment and files. Started
so it takes a third of a second of processor time, and hundreds of tests run one.
"""

import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

MODULE = "hpc.autoscale.cli"

IMPORTED = (f"{MODULE}.scalelib", "hpc.autoscale.ccbindings.client", "requests")
"""What nearly every command imports, some of it when it asks the server first."""

LONGEST = 60
"""Seconds after which a command is killed."""


class Forks:
    """Runs commands one after the other. `directory` gets what they print."""

    def __init__(self, server: subprocess.Popen[str], directory: Path) -> None:
        self._server = server
        self._printed = directory / "stdout", directory / "stderr"

    def run(
        self, args: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """What `azscale` does with these arguments."""
        files = list(map(str, self._printed))
        request = {"args": list(args), "cwd": str(cwd), "env": dict(env), "files": files}
        code = int(self._ask(json.dumps(request)))
        stdout, stderr = (path.read_text() for path in self._printed)
        return subprocess.CompletedProcess(args, code, stdout, stderr)

    def _ask(self, line: str) -> str:
        requests, answers = self._server.stdin, self._server.stdout
        if requests is None or answers is None:
            raise ValueError("expected a server with pipes")
        print(line, file=requests, flush=True)
        return answers.readline()


@contextmanager
def forks(directory: Path) -> Iterator[Forks]:
    """Start the process that imports the library."""
    command = [sys.executable, __file__]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
        yield Forks(server, directory)
        server.communicate()


def _serve(requests: IO[str]) -> None:
    """Fork for each line, and print how that process has ended."""
    for line in requests:
        child = os.fork()
        if not child:
            _run(json.loads(line))
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request: Mapping[str, Any]) -> None:
    """Become the process that runs a command."""
    signal.alarm(LONGEST)
    for number, name in enumerate([os.devnull, *request["files"]]):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    sys.argv[1:] = request["args"]
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for each in IMPORTED:
        importlib.import_module(each)
    _serve(sys.stdin)
