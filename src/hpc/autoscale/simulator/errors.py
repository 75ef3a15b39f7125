"""The errors for everything that the simulator refuses.

`RequestRefused` and its subclasses are answers to a caller over HTTP, with the status code that the
protocol gives them; the others are printed, as one line, for whoever starts the simulator.
"""

from hpc.autoscale.errors import AutoscaleError


class DescriptionError(AutoscaleError):
    """A cluster description, a fault or a credentials file that cannot be used; one line that says
    where and why."""


class StartError(AutoscaleError):
    """The simulator cannot start, for example because the address is taken."""


class RequestRefused(AutoscaleError):
    """A request that is not carried out. `status_code` is HTTP's, `code` a short word for
    programs."""

    status_code = 500
    code = "InternalError"


class BadRequest(RequestRefused):
    """The request is malformed (400)."""

    status_code = 400
    code = "BadRequest"


class NotFound(RequestRefused):
    """There is no such cluster, operation, node or path."""

    status_code = 404
    code = "NotFound"


class Conflict(RequestRefused):
    """The request is invalid, or its request id was used before (409)."""

    status_code = 409
    code = "Conflict"
