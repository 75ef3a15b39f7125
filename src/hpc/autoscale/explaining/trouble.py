"""The verdict where nothing could be looked at: the cluster or the scheduler does not answer."""

from __future__ import annotations

from hpc.autoscale.ccbindings.errors import (
    AccessDenied,
    AuthenticationFailed,
    InconsistentStatus,
)
from hpc.autoscale.errors import ConfigurationException, CycleCloudError, one_line
from hpc.autoscale.explaining.codes import CODES
from hpc.autoscale.plaintext import in_words
from hpc.autoscale.results.verdicts import Cause, Stand, Verdict

_LONGEST = 300


def verdict_on_trouble(about: str, error: Exception) -> Verdict:
    """What keeps anybody from telling anything of something, such as `job 17`."""
    code, how = _code_of(error)
    text = f"{how}: {in_words(one_line(error), _LONGEST)}"
    cause = Cause(code, text, nearness=CODES[code].nearness)
    line = f"{about[:1].upper()}{about[1:]}: nobody can tell, because {text}"
    return Verdict(about, Stand.UNKNOWN, code, line, (cause,))


def _code_of(error: Exception) -> tuple[str, str]:
    if isinstance(error, (AuthenticationFailed, AccessDenied)):
        return "Credentials", "CycleCloud refuses the credentials"
    if isinstance(error, InconsistentStatus):
        return "Contradiction", "CycleCloud contradicts itself"
    if isinstance(error, CycleCloudError):
        return "ServerAway", "CycleCloud does not answer as it should"
    if isinstance(error, ConfigurationException):
        return "Error", "the configuration cannot be used"
    return "DriverDown", "the scheduler cannot be asked"
