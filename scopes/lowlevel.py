"""Functions for libraries with their own disposables; ``tensor`` uses them too.

A class whose objects scopes own weakly and statistics count derives from
``scopes.Disposable``, in C from ``scopes.core.disposable``.
"""

from typing import TYPE_CHECKING

from scopes._clearing import clear_errors_of
from scopes._on_demand import ModuleOnDemand, names_on_demand, origins_of, when_imported
from scopes.core.advice import advise_calls_of
from scopes.core.compound import Compound
from scopes.core.disposable import current, ending_by, register
from scopes.core.guard import Guard
from scopes.core.resources import owner_of
from scopes.core.tables import figures_to_html
from scopes.core.tracebacks import clear_frames_of, clear_library_frames
from scopes.tracking.call_site import call_site
from scopes.tracking.listeners import Listener
from scopes.tracking.meters import measure_memory_by, measure_peaks_by
from scopes.tracking.records import Record
from scopes.tracking.sites import callers
from scopes.tracking.sizes import format_bytes, parse_size
from scopes.tracking.tracking import note_created, note_ended, note_made_for, note_written, record_of

if TYPE_CHECKING:
    from scopes._spill import Spilled, SpillError, SpillFile, SpillStatistics
    from scopes.tracking.history import History
    from scopes.tracking.pages import Curve, chart_of, page, write_page
    from scopes.tracking.reports import Cell, Table, as_html
    from scopes.tracking.runs import Outcome

__all__ = [
    "Cell",
    "Compound",
    "Curve",
    "Guard",
    "History",
    "Listener",
    "ModuleOnDemand",
    "Outcome",
    "Record",
    "SpillError",
    "SpillFile",
    "SpillStatistics",
    "Spilled",
    "Table",
    "advise_calls_of",
    "as_html",
    "call_site",
    "callers",
    "chart_of",
    "clear_errors_of",
    "clear_frames_of",
    "clear_library_frames",
    "current",
    "ending_by",
    "figures_to_html",
    "format_bytes",
    "measure_memory_by",
    "measure_peaks_by",
    "names_on_demand",
    "note_created",
    "note_ended",
    "note_made_for",
    "note_written",
    "origins_of",
    "owner_of",
    "page",
    "parse_size",
    "record_of",
    "register",
    "when_imported",
    "write_page",
]

# Loaded on demand: spilling needs `tempfile`, which takes 7 ms to load, and reports take long too.
_ON_DEMAND = {
    **dict.fromkeys(("SpillError", "SpillFile", "SpillStatistics", "Spilled"), "scopes._spill"),
    "History": "scopes.tracking.history",
    **dict.fromkeys(("Curve", "chart_of", "page", "write_page"), "scopes.tracking.pages"),
    **dict.fromkeys(("Cell", "Table", "as_html"), "scopes.tracking.reports"),
    "Outcome": "scopes.tracking.runs",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = names_on_demand(globals(), _ON_DEMAND)
