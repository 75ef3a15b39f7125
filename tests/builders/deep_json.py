"""JSON that is nested too deeply to be read, and what Python says of it."""

import sys

DEEP = "[" * 100_000
TOO_DEEP = "Stack overflow" if sys.version_info >= (3, 14) else "maximum recursion depth exceeded"
