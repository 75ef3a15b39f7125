"""The verdict where nothing could be looked at.

The cluster or the scheduler does not answer, or the cluster offers nothing.
"""

from __future__ import annotations

from hpc.autoscale.autoscaler.faults import HookError
from hpc.autoscale.ccbindings.errors import (
    AccessDenied,
    AuthenticationFailed,
    InconsistentStatus,
)
from hpc.autoscale.errors import (
    AutoscaleError,
    ConfigurationException,
    CycleCloudError,
    one_line_and_where,
)
from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.plaintext import in_words
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict

_LONGEST = 300


def verdict_on_trouble(kind: str, name: str, error: Exception) -> Verdict:
    """What keeps anybody from telling anything of what has a name. `kind`: `job`, `node` or
    `bucket`; empty where nobody has said it. Without a name it is about constraints."""
    code, how = _code_of(error)
    # jobs need an offer; nodes and buckets are there without one
    runs = CODES[code].stand is Stand.NEVER and kind in ("", "job")
    about = f"{kind or ('job' if runs else 'job, node or bucket')} {name}" if name else "this"
    said = one_line_and_where(error, "reading the scheduler")
    text = f"{how}: {in_words(said, _LONGEST)}"
    cause = Cause(code, text, nearness=CODES[code].nearness)
    stand = Stand.NEVER if runs else Stand.UNKNOWN
    waits = "can never run:" if runs else ": nobody can tell, because"
    line = f"{about[:1].upper()}{about[1:]} {waits} {text}".replace(" :", ":", 1)
    return Verdict(about, stand, code, line, (cause,))


def _code_of(error: Exception) -> tuple[str, str]:
    if isinstance(error, (AuthenticationFailed, AccessDenied)):
        return "Credentials", "CycleCloud refuses the credentials"
    if isinstance(error, InconsistentStatus):
        return "Contradiction", "CycleCloud contradicts itself"
    if isinstance(error, CycleCloudError):
        return "ServerAway", "CycleCloud does not answer as it should"
    if isinstance(error, ConfigurationException):
        return "Error", "the configuration cannot be used"
    if type(error) is AutoscaleError and str(error).startswith("cluster "):
        return "NothingOffered", "the cluster offers no nodes"
    if isinstance(error, AutoscaleError) and not isinstance(error, HookError):
        return "Error", "it cannot be looked at"
    return "DriverDown", "the scheduler cannot be asked"
