"""The journal: what every pass read, decided and did, in files that can be sent to others.

`records` says what is known of one pass, `writing` writes it, `reader` reads it, and `following`
goes on reading while it grows. On the disk each pass is one line of JSON, compressed (`frames`), in
the files of a directory (`files`); a line has only what has changed since the line before
(`changes`).
"""

from hpc.autoscale.journal.errors import JournalError as JournalError
from hpc.autoscale.journal.files import Keeping as Keeping
from hpc.autoscale.journal.reader import Journal as Journal
from hpc.autoscale.journal.records import PassRecord as PassRecord
from hpc.autoscale.journal.writing import JournalWriter as JournalWriter

__all__ = ["Journal", "JournalError", "JournalWriter", "Keeping", "PassRecord"]
