"""Ends the jobs of a worker that was killed: run as a process of its own, beside each worker.

It waits until the worker has closed its end of a pipe, which the kernel does however a worker ends,
and then ends each process that has the worker's name in its environment. So what is lost is not run
a second time while it still runs. It imports nothing of ours and is started by its file name.
"""

import os
import signal
import sys
import time

ROUNDS = 50


def processes_of(mark: bytes) -> list[int]:
    """The processes of this machine with a mark in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue  # it has ended, or is another user's
    return found


def main(variable: str) -> int:
    """Wait for the end of standard input, then end what has the variable, as `NAME=value`."""
    # what ends the worker's group is not for this process
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    for _ in range(ROUNDS):
        found = processes_of(variable.encode())
        if not found:
            return 0
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.02)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
