"""For libraries that make disposables of their own: what ``tensor`` itself stands on.

A class whose objects scopes own weakly and statistics count derives from ``Scoped`` and calls
``register(self)`` once an object is complete.
"""

from scopes._current import current, register
from scopes._ownership import owner_of
from scopes._scoped import Scoped
from scopes._tallies import Account, Accounts, Tally, accounts_of, nowhere
from scopes._tracebacks import clear_frames_of, clear_library_frames

__all__ = [
    "Account",
    "Accounts",
    "Scoped",
    "Tally",
    "accounts_of",
    "clear_frames_of",
    "clear_library_frames",
    "current",
    "nowhere",
    "owner_of",
    "register",
]
