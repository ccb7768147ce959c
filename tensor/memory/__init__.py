"""What the memory of tensors is doing, its limits, and the pool behind it.

All figures are of the whole process, over all threads, and exact: `bytes_live` counts the memory under
tensors and under the graph, each block once however many tensors share it, in the bytes that were asked for.
What only NumPy arrays and other outsiders still see is `bytes_pinned`, what the pool keeps for the next
tensors `bytes_cached`, what was borrowed from others `bytes_external`.
"""

from tensor.memory.limits import OutOfMemoryError
from tensor.memory.measuring import limit, measure
from tensor.memory.reporting import (
    Configuration,
    MemoryStatistics,
    configuration,
    configure,
    report,
    reset_peak,
    statistics,
    trim,
)

__all__ = [
    "Configuration",
    "MemoryStatistics",
    "OutOfMemoryError",
    "configuration",
    "configure",
    "limit",
    "measure",
    "report",
    "reset_peak",
    "statistics",
    "trim",
]
