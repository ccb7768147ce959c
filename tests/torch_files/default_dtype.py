"""Another default dtype for a test file of PyTorch that sets one: test_nn.py compares derivatives in float64.

The default dtype of `tensor.torch` is float32. Here creation functions and layers get the other dtype as
their argument ``dtype``. Integers still become float32 in operations such as ``/``.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import tensor.torch as ours

if TYPE_CHECKING:
    from collections.abc import Callable

_CREATION = """
arange as_tensor empty eye full linspace logspace normal ones rand randn scalar_tensor tensor zeros
"""
# The dtype that the file has set, or None.
_default: Any = None


def of_file() -> Any:
    """Return the default dtype that the test file has set, or None."""
    return _default


def set_for_file(dtype: Any) -> None:
    """Make `dtype` the default of creation functions and layers."""
    global _default
    if dtype == ours.float32:
        return
    _default = dtype
    for name in _CREATION.split():
        if hasattr(ours, name):
            setattr(ours, name, _creating(getattr(ours, name)))
    for layer in vars(ours.nn).values():
        is_layer = isinstance(layer, type) and issubclass(layer, ours.nn.Module)
        if is_layer and "dtype" in inspect.signature(layer.__init__).parameters:
            layer.__init__ = _initializing(layer.__init__)


def _creating(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def call(*args: Any, **kwargs: Any) -> Any:
        state = ours.get_rng_state()
        made = create(*args, **kwargs)
        has_dtype = kwargs.get("dtype") is not None or kwargs.get("out") is not None
        if has_dtype or made.dtype != ours.float32 or any(hasattr(x, "dtype") for x in args):
            return made
        ours.set_rng_state(state)
        return create(*args, **{**kwargs, "dtype": _default})

    return call


def _initializing(init: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(init)

    @functools.wraps(init)
    def call(*args: Any, **kwargs: Any) -> None:
        if signature.bind(*args, **kwargs).arguments.get("dtype") is None:
            kwargs["dtype"] = _default
        init(*args, **kwargs)

    return call
