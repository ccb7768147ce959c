"""The memory of PyTorch's tensors: statistics, measures and limits, with the names of ``tensor.memory``.

PyTorch itself has such figures for GPUs. These also count the CPU: each block of PyTorch's allocator, on all
threads, from the import of this module on. So import it before you create tensors.
"""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import public_names as _public_names
from scopes.adapters.torch.measuring import limit, measure
from scopes.adapters.torch.memory_figures import MemoryStatistics, reset_peak, statistics
from scopes.adapters.torch.out_of_memory import OutOfMemoryError

__all__ = _public_names(globals())

_clear_errors_of(globals(), __all__)
