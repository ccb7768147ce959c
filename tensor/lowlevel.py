"""For libraries that build on tensors: what ``nn`` itself stands on.

Arrays in and out of tensors (``claim``, ``writable``, ``wrap``, ``wrap_unowned``), ops of one's own
(``apply``, ``overwrite``, ``record``, with derivatives entered by ``define``), and the checks that go with
them. Read the array from ``claim``, write the one from ``writable``, and let go of both.
"""

from tensor._books import owner_of
from tensor._checkpoint import is_recomputing
from tensor._core import TensorCore, gradient_of, wrap, wrap_claim, wrap_claim_unowned, wrap_unowned
from tensor._derivatives import RULES
from tensor._derivatives._table import define
from tensor._dispatch import apply, explain, overwrite, record, record_after
from tensor._dtypes import Dtype, DtypeLike, as_dtype, is_inexact, require_supported
from tensor._graph import Leaf
from tensor._hooks import HookTable, RemovableHandle
from tensor._indexing import Key
from tensor._modes import is_recording
from tensor._random import default_generator, numbers_of
from tensor._splitting import configure_threads
from tensor._storage import Array, claim, writable

__all__ = [
    "RULES",
    "Array",
    "Dtype",
    "DtypeLike",
    "HookTable",
    "Key",
    "Leaf",
    "RemovableHandle",
    "TensorCore",
    "apply",
    "as_dtype",
    "claim",
    "configure_threads",
    "default_generator",
    "define",
    "explain",
    "gradient_of",
    "is_inexact",
    "is_recomputing",
    "is_recording",
    "numbers_of",
    "overwrite",
    "owner_of",
    "record",
    "record_after",
    "require_supported",
    "wrap",
    "wrap_claim",
    "wrap_claim_unowned",
    "wrap_unowned",
    "writable",
]
