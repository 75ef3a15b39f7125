"""Where the command `azscale` begins. `--version` is answered here, before anything else is
imported."""

import io
import os
import sys

from hpc.autoscale._version import __version__


def version_line() -> str:
    """What `azscale --version` prints."""
    return f"azscale {__version__}"


def console_main() -> None:
    """`azscale`."""
    _open_what_is_closed()
    _write_what_can_be_written()
    try:
        try:
            if sys.argv[1:] == ["--version"]:
                print(version_line())
            else:
                from hpc.autoscale.cli.scalelib import main

                main()
        finally:  # help ends the process by itself
            sys.stdout.flush()
        _check_what_was_written()
    except SystemExit as end:
        if not end.code:
            _check_what_was_written()
        raise
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OSError as problem:
        from hpc.autoscale.output import given_up

        said = given_up(sys.stdout, problem)
        if not isinstance(problem, BrokenPipeError):  # a reader that has seen enough
            print(f"azscale: error: {said}", file=sys.stderr)
        raise SystemExit(1) from None


def _write_what_can_be_written() -> None:
    """Let characters that the caller's encoding has not be shown as escapes, and not end a
    command: names of jobs, and the mark of what is cut."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_what_is_closed() -> None:
    """Let what is written to a stream that the caller has closed go nowhere, as in `azscale
    autoscale >&-`: a pass is not lost for it, and its exit code says that its output is."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, _Nowhere(open(os.devnull, "wb"), encoding="utf-8"))  # noqa: SIM115


class _Nowhere(io.TextIOWrapper):
    """A stream that the caller has closed. `lost`: something was written to it."""

    lost = False

    def write(self, text: str, /) -> int:
        self.lost = self.lost or bool(text)
        return super().write(text)


def _check_what_was_written() -> None:
    """End with exit code 1 where a command that went well was to print something, and stdout is
    closed."""
    if isinstance(sys.stdout, _Nowhere) and sys.stdout.lost:
        print("azscale: error: standard output is closed: nothing was printed", file=sys.stderr)
        raise SystemExit(1)
