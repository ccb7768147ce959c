"""For libraries that make disposables of their own: what ``tensor`` itself stands on.

A class whose objects scopes own weakly and statistics count derives from ``Scoped`` and calls
``register(self)`` once an object is complete.
"""

from scopes._tracebacks import clear_frames_of, clear_library_frames
from scopes.core.current import current, register
from scopes.core.ownership import owner_of
from scopes.core.scoped import Scoped
from scopes.core.tallies import Account, Accounts, Tally, accounts_of, count_as, nowhere
from scopes.tracking.meters import measure_peaks_by
from scopes.tracking.records import Listener, Record, ending_by
from scopes.tracking.sites import callers, site_here
from scopes.tracking.sizes import format_bytes, parse_size
from scopes.tracking.timeline import measure_memory_by
from scopes.tracking.tracking import current as tracking
from scopes.tracking.tracking import (
    note_created,
    note_ended,
    note_made_for,
    record_of,
    when_tracking_changes,
)

__all__ = [
    "Account",
    "Accounts",
    "Listener",
    "Record",
    "Scoped",
    "Tally",
    "accounts_of",
    "callers",
    "clear_frames_of",
    "clear_library_frames",
    "count_as",
    "current",
    "ending_by",
    "format_bytes",
    "measure_memory_by",
    "measure_peaks_by",
    "note_created",
    "note_ended",
    "note_made_for",
    "nowhere",
    "owner_of",
    "parse_size",
    "record_of",
    "register",
    "site_here",
    "tracking",
    "when_tracking_changes",
]
