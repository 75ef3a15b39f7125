"""Everything that the simulator refuses, as errors.

`Refusal` and its kinds are answers to a caller over HTTP, with the status code that the protocol
gives them; the others end up on the terminal of whoever starts the simulator, as one line.
"""

from hpc.autoscale.errors import AutoscaleError


class DescriptionError(AutoscaleError):
    """A cluster description, a fault or a credentials file that cannot be used; one line that says
    where and why."""


class StartError(AutoscaleError):
    """The simulator cannot start: the address is taken, a certificate cannot be read, …"""


class Refusal(AutoscaleError):
    """A request that is not carried out. `status_code` is HTTP's, `code` a short word for
    programs."""

    status_code = 500
    code = "InternalError"


class BadRequest(Refusal):
    """What was sent is no valid request at all."""

    status_code = 400
    code = "BadRequest"


class NotFound(Refusal):
    """There is no such cluster, operation, node or path."""

    status_code = 404
    code = "NotFound"


class Conflict(Refusal):
    """A request that is understood and invalid, or one whose request id was used before."""

    status_code = 409
    code = "Conflict"
