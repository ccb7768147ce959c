"""The compiled heart: what a scope may own, the scope, the current one, and what is counted."""

from scopes.core.containers import find
from scopes.core.counters import CountingThread, reset, total
from scopes.core.disposable import (
    Disposable,
    current,
    current_dispose_scope,
    ending_by,
    register,
    set_observer,
)
from scopes.core.errors import ScopeDisposedError, TensorDisposedError
from scopes.core.scope import (
    DisposeScope,
    dispose_each,
    may_be_owned,
    new_dispose_scope,
    owner_of,
    report_survivors_by,
)
from scopes.core.tracebacks import clear_frames_of, clear_library_frames, is_ours

__all__ = [
    "CountingThread",
    "DisposeScope",
    "Disposable",
    "ScopeDisposedError",
    "TensorDisposedError",
    "clear_frames_of",
    "clear_library_frames",
    "current",
    "current_dispose_scope",
    "dispose_each",
    "ending_by",
    "find",
    "is_ours",
    "may_be_owned",
    "new_dispose_scope",
    "owner_of",
    "register",
    "report_survivors_by",
    "reset",
    "set_observer",
    "total",
]
