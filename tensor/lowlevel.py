"""For libraries that build on tensors: what ``nn`` itself stands on.

Arrays in and out of tensors (``claim``, ``writable``, ``wrap``, ``wrap_unowned``), ops of one's own
(``apply``, ``overwrite``, ``record``, with derivatives entered by ``define``), and the checks that go with
them. Read the array from ``claim``, write the one from ``writable``, and let go of both.
"""

from tensor._dtypes import Dtype, DtypeLike, as_dtype, is_inexact, require_supported
from tensor._errors import shown
from tensor.autograd.checkpointing import is_recomputing
from tensor.core.storage import Array, claim, writable
from tensor.core.tensor_core import (
    TensorCore,
    gradient_of,
    wrap,
    wrap_claim,
    wrap_claim_unowned,
    wrap_unowned,
)
from tensor.creation.random import default_generator, numbers_of
from tensor.kernels.splitting import configure_threads
from tensor.memory.books import owner_of
from tensor.ops.dispatch import apply, explain, overwrite, record, record_after
from tensor.ops.indexing import Key
from tensor.tape.hooks import HookTable, RemovableHandle
from tensor.tape.modes import is_recording
from tensor.tape.nodes import Leaf
from tensor.tape.rules import RULES
from tensor.tape.rules.table import define

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
    "shown",
    "wrap",
    "wrap_claim",
    "wrap_claim_unowned",
    "wrap_unowned",
    "writable",
]
