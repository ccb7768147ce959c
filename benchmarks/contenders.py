"""The contenders, and the functions that benchmarks use of each: one program runs on all of them.

A contender is imported at its first use. So a process for one contender loads no other, and runs of only our
library need no PyTorch.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

OURS = "ours"
NUMPY = "numpy"
TORCH = "torch"
CONTENDERS = (OURS, NUMPY, TORCH)

THREADS = 2
"""How many threads each contender may use."""


class MissingContenderError(RuntimeError):
    """PyTorch is requested, but not installed."""


@dataclass(frozen=True)
class Library:
    """The functions that benchmarks use of one contender.

    Attributes
    ----------
    name
        One of `CONTENDERS`.
    xp
        The namespace of its arrays.
    array
        Creates an array as a copy of a NumPy array. Takes ``requires_grad`` if the contender has gradients.
    scope
        Returns the context manager of a step of the user's program.
    inference
        Returns the fastest context manager that records nothing.
    nn
        Its modules, ``nn.functional`` among them; none for NumPy.
    optim
        Its optimizers.
    """

    name: str
    xp: Any
    array: Callable[..., Any]
    scope: Callable[[], AbstractContextManager[object]] = nullcontext
    inference: Callable[[], AbstractContextManager[object]] = nullcontext
    nn: Any = None
    optim: Any = None


@cache
def library(name: str) -> Library:
    """Import one contender and set its threads."""
    if name == OURS:
        import nn
        import tensor
        from scopes import new_dispose_scope

        tensor.set_num_threads(THREADS)
        return Library(OURS, tensor, tensor.tensor, new_dispose_scope, tensor.no_grad, nn, nn.optim)
    if name == TORCH:
        if not has_torch():
            raise MissingContenderError(
                "PyTorch is not installed. Install it: python -m pip install --group bench; or leave it out: "
                "python -m benchmarks --only-ours"
            )
        import torch

        torch.set_num_threads(THREADS)
        return Library(
            TORCH,
            torch,
            torch.tensor,
            inference=torch.inference_mode,
            nn=torch.nn,
            optim=torch.optim,
        )
    return Library(NUMPY, np, np.array)


def has_torch() -> bool:
    """Return whether PyTorch is installed."""
    return find_spec("torch") is not None
