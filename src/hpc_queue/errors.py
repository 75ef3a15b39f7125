"""What goes wrong with a queue and is the caller's to know."""

from hpc.autoscale.errors import AutoscaleError


class QueueError(AutoscaleError):
    """Something about a queue, a job or a broker is not as it has to be; the text says what was
    expected and what was found."""


class UnknownJob(QueueError):
    """There is no job of this id, or none any more."""


class UnmetDependency(QueueError):
    """A job cannot wait again, because another that it is after has ended without success."""


class BrokerUnreachable(QueueError):
    """The broker or the store does not answer, so it is unknown how much work there is."""
