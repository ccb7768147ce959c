"""The interface for libraries that build on tensors. ``nn`` itself uses it.

It gives access to arrays of tensors (``snapshot``, ``writing``, ``wrap``, ``wrap_unowned``), custom ops
(``apply``, ``overwrite``, ``record``, with derivatives registered by ``define``), and checks of arguments.
Do not write to the array of ``snapshot``. To write, use ``with writing(x) as array:``, and do not keep the
array after the block.
"""

from scopes.lowlevel import names_on_demand as _names_on_demand
from scopes.lowlevel import origins_of as _origins_of
from scopes.lowlevel import public_names as _public_names
from tensor._advice import call_advice
from tensor._devices import require_cpu
from tensor._dtypes import (
    Array,
    Dtype,
    DtypeLike,
    as_dtype,
    fits,
    is_floating,
    is_inexact,
    require_supported,
)
from tensor._errors import InvalidArgumentError, shown
from tensor.autograd.engine import clear_gradients
from tensor.autograd.gradients import take_values
from tensor.core.dims import sizes_of
from tensor.core.tensor import (
    TensorCore,
    composite,
    last_use,
    snapshot,
    widening,
    wrap,
    wrap_snapshot,
    wrap_snapshot_unowned,
    wrap_unowned,
    writing,
    writing_all,
)
from tensor.core.untyped_storage import UntypedStorage
from tensor.kernels.running import configure_threads, run_kernel
from tensor.memory.buffer import owner_of
from tensor.ops.casts import dtype_asked
from tensor.ops.dispatch import apply, apply_affine, apply_affine_then, apply_into, overwrite
from tensor.ops.gamma import bessel_i, erfcx, log_ndtr
from tensor.ops.indexing import Key
from tensor.ops.messages import Operand, explain
from tensor.ops.rare.factoring import factor_lu, solve_lu, solve_triangular
from tensor.tape.hooks import HookTable, RemovableHandle
from tensor.tape.modes import is_recording
from tensor.tape.recording import Leaf, become_leaf, record, remember, wrap_recorded
from tensor.tape.rules import RULES
from tensor.tape.rules.table import define

# Only files, optimizers, some layers and PyTorch's names need these.
_ON_DEMAND = _origins_of(
    {
        "tensor.autograd.checkpointing": "is_recomputing",
        "tensor.autograd.nesting": "map_nested",
        "tensor.creation.generators": "default_generator numbers_of",
        "tensor.creation.legacy": "legacy_tensor",
        "tensor.io.checkpoints": "load_with",
        "tensor.io.torch_files": "Reading",
        "tensor.io.torch_writing": "global_name write_torch_file",
        "tensor.kernels.updates": "Step",
        "tensor.ops.rare.complex_views": "view_as_complex view_as_real",
        "tensor.ops.rare.lu": "plu unpack_plu",
        "tensor.ops.results": "LUFactor LUFactorEx",
    }
)

__all__ = _public_names(globals(), _ON_DEMAND)

__getattr__, __dir__ = _names_on_demand(globals(), _ON_DEMAND)
