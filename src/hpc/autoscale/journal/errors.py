"""What can be wrong with a journal."""

from hpc.autoscale.errors import AutoscaleError


class JournalError(AutoscaleError):
    """A journal cannot be read or written; the text names the file and the place in it."""


class NewerJournal(JournalError):
    """A journal was written by a newer version of this library."""


class GarbledRecord(JournalError):
    """A record of a journal is damaged; those after it up to the next whole one are lost too."""


class LostRecord(GarbledRecord):
    """A record of a journal builds on one that is damaged."""


class OddRecord(GarbledRecord):
    """A record of a journal has a value that cannot be. Those after it build on its lists, which
    can be read."""
