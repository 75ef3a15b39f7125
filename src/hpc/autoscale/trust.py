"""Which files may be read without anybody having named them.

A logging configuration and the driver of an autoscale.json run code, so one that merely lies about
is used only when no stranger can have put it there. Called by `hpclogging` and the command line.
"""

import os
import sys


def is_trusted(path: str) -> bool:
    """Whether a file is there, belongs to root or to the user of this process, and cannot be
    written by everybody."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    if sys.platform == "win32":
        return True
    return status.st_uid in (0, os.getuid()) and not status.st_mode & 0o002
