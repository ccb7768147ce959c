"""Functions for libraries with their own disposables; ``tensor`` uses them too.

Derive a class from ``scopes.Disposable``, or in Cython from the class in ``scopes.core.scope``. Then
scopes own its objects without keeping them alive, and statistics count them.
"""

from scopes._shared.advice import advise_calls_of
from scopes._shared.clearing import clear_errors_of, without_frames
from scopes._shared.extras import how_to_install
from scopes._shared.guard import Closing, Guard
from scopes._shared.on_demand import ModuleOnDemand, names_on_demand, origins_of, public_names, when_imported
from scopes._shared.sizes import format_bytes, parse_size
from scopes._shared.tracebacks import clear_frames_of, clear_library_frames
from scopes.core.keeping import add_keeper, forget_keeper, note_held
from scopes.core.scope import Compound, current, ending_by, owner_of, register
from scopes.tracking.listeners import Listener
from scopes.tracking.members import show_members
from scopes.tracking.meters import measure_memory_by, measure_peaks_by
from scopes.tracking.records import Record, call_site
from scopes.tracking.sites import callers
from scopes.tracking.tracking import (
    largest_lines,
    note_created,
    note_ended,
    note_made_for,
    note_written,
    record_of,
)

# Loaded on demand: spilling needs `tempfile`, which takes 7 ms to load, and reports take long too.
_ON_DEMAND = origins_of(
    {
        "scopes._shared.spill": "SpillError SpillFile SpillStatistics Spilled",
        "scopes._shared.html": "figures_to_html",
        "scopes.reports.history": "History",
        "scopes.reports.pages": "Curve chart_of page write_page",
        "scopes.reports.tables": "Cell Table as_html",
        "scopes.reports.runs": "Outcome",
    }
)

__all__ = public_names(globals(), _ON_DEMAND)

__getattr__, __dir__ = names_on_demand(globals(), _ON_DEMAND)
