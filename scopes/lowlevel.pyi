# Written by .ci/write-stubs.
from scopes._clearing import clear_errors_of as clear_errors_of
from scopes._on_demand import ModuleOnDemand as ModuleOnDemand
from scopes._on_demand import names_on_demand as names_on_demand
from scopes._on_demand import origins_of as origins_of
from scopes._on_demand import public_names as public_names
from scopes._on_demand import when_imported as when_imported
from scopes.core.advice import advise_calls_of as advise_calls_of
from scopes.core.calls import without_frames as without_frames
from scopes.core.disposable import current as current
from scopes.core.disposable import ending_by as ending_by
from scopes.core.disposable import register as register
from scopes.core.guard import Closing as Closing
from scopes.core.guard import Guard as Guard
from scopes.core.keeping import add_keeper as add_keeper
from scopes.core.keeping import forget_keeper as forget_keeper
from scopes.core.keeping import note_held as note_held
from scopes.core.resources import owner_of as owner_of
from scopes.core.tracebacks import clear_frames_of as clear_frames_of
from scopes.core.tracebacks import clear_library_frames as clear_library_frames
from scopes.tracking.call_site import call_site as call_site
from scopes.tracking.listeners import Listener as Listener
from scopes.tracking.members import show_members as show_members
from scopes.tracking.meters import measure_memory_by as measure_memory_by
from scopes.tracking.meters import measure_peaks_by as measure_peaks_by
from scopes.tracking.records import Record as Record
from scopes.tracking.sites import callers as callers
from scopes.tracking.sizes import format_bytes as format_bytes
from scopes.tracking.sizes import parse_size as parse_size
from scopes.tracking.tracking import largest_lines as largest_lines
from scopes.tracking.tracking import note_created as note_created
from scopes.tracking.tracking import note_ended as note_ended
from scopes.tracking.tracking import note_made_for as note_made_for
from scopes.tracking.tracking import note_written as note_written
from scopes.tracking.tracking import record_of as record_of
from scopes._spill import SpillError as SpillError
from scopes._spill import SpillFile as SpillFile
from scopes._spill import SpillStatistics as SpillStatistics
from scopes._spill import Spilled as Spilled
from scopes.core.compound import Compound as Compound
from scopes.core.tables import figures_to_html as figures_to_html
from scopes.tracking.history import History as History
from scopes.tracking.pages import Curve as Curve
from scopes.tracking.pages import chart_of as chart_of
from scopes.tracking.pages import page as page
from scopes.tracking.pages import write_page as write_page
from scopes.tracking.reports import Cell as Cell
from scopes.tracking.reports import Table as Table
from scopes.tracking.reports import as_html as as_html
from scopes.tracking.runs import Outcome as Outcome

__all__ = [
    "Cell",
    "Closing",
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
    "add_keeper",
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
    "forget_keeper",
    "format_bytes",
    "largest_lines",
    "measure_memory_by",
    "measure_peaks_by",
    "names_on_demand",
    "note_created",
    "note_ended",
    "note_held",
    "note_made_for",
    "note_written",
    "origins_of",
    "owner_of",
    "page",
    "parse_size",
    "public_names",
    "record_of",
    "register",
    "show_members",
    "when_imported",
    "without_frames",
    "write_page",
]
