"""The interface for libraries that build on tensors.

It gives access to arrays of tensors (``snapshot``, ``writing``, ``wrap``, ``wrap_unowned``) and custom ops
(``apply``, ``overwrite``, ``record``, with derivatives registered by ``define``). Do not write to the array
of ``snapshot``. To write, use ``with writing(x) as array:``, and do not keep the array after the block.
"""

from tensor.core.tensor import TensorCore, snapshot, wrap, wrap_unowned, writing, writing_all
from tensor.kernels.running import configure_threads, run_kernel
from tensor.ops.dispatch import apply, apply_into, overwrite
from tensor.tape.modes import is_recording
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules.table import define

__all__ = [
    "TensorCore",
    "apply",
    "apply_into",
    "configure_threads",
    "define",
    "is_recording",
    "overwrite",
    "record",
    "run_kernel",
    "snapshot",
    "wrap",
    "wrap_recorded",
    "wrap_unowned",
    "writing",
    "writing_all",
]
