"""Functions for libraries with their own disposables.

Derive a class from ``scopes.Disposable``, or in Cython from the class in ``scopes.core.scope``. Then
scopes own its objects without keeping them alive, and statistics count them.
"""

from scopes._shared.clearing import clear_errors_of
from scopes._shared.sizes import format_bytes, parse_size
from scopes._shared.tracebacks import clear_frames_of
from scopes.core.keepers import add_keeper, forget_keeper, note_held
from scopes.core.scope import Compound, ending_by, owner_of, register
from scopes.tracking.members import show_members
from scopes.tracking.meters import measure_memory_by, measure_peaks_by

__all__ = [
    "Compound",
    "add_keeper",
    "clear_errors_of",
    "clear_frames_of",
    "ending_by",
    "forget_keeper",
    "format_bytes",
    "measure_memory_by",
    "measure_peaks_by",
    "note_held",
    "owner_of",
    "parse_size",
    "register",
    "show_members",
]
