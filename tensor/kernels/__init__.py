"""For kernels of one's own: NumPy's functions, whose large results lie in the memory pool.

``empty``, ``zeros`` and ``copy`` give plain arrays, as do NumPy's own functions under their names. A kernel
that is written in operators gets its operands by ``enter``, and its result is what ``leave`` gives back: all
that is large between the two lies in the pool. ``xp`` is NumPy for plain arrays and for what ``enter`` gave.
``in_pieces`` computes on several threads.
"""

from tensor.kernels.placing import astype, copy, laid_out, matmul, of_two, take
from tensor.kernels.pooled import enter, leave, xp
from tensor.kernels.special import relu_of, sigmoid
from tensor.kernels.threads import in_pieces
from tensor.memory.pool import empty, zeros

__all__ = [
    "astype",
    "copy",
    "empty",
    "enter",
    "in_pieces",
    "laid_out",
    "leave",
    "matmul",
    "of_two",
    "relu_of",
    "sigmoid",
    "take",
    "xp",
    "zeros",
]
