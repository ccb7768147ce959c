"""PyTorch's samples as samples of `tensor.torch`, and functions of PyTorch's data bases on its names."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

import tensor.torch as ours

if TYPE_CHECKING:
    from collections.abc import Callable


class NotConvertible(Exception):  # noqa: N818 -- a sample, not a mistake
    """A sample holds something that `tensor.torch` has no counterpart of: a sparse tensor, a dtype."""


def converted(x: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return a sample with our tensors; one tensor used twice stays one tensor."""
    memo = {} if memo is None else memo
    if isinstance(x, torch.Tensor):
        if id(x) not in memo:
            memo[id(x)] = _tensor(x)
        return memo[id(x)]
    if isinstance(x, torch.dtype):
        return _dtype(x)
    if isinstance(x, torch.device):
        return str(x)
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, (torch.layout, torch.memory_format)):
        return getattr(ours, str(x).removeprefix("torch."), x)
    if isinstance(x, (list, tuple)):
        items = [converted(item, memo) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if isinstance(x, dict):
        return {name: converted(item, memo) for name, item in x.items()}
    return x


def _dtype(x: torch.dtype) -> Any:
    name = str(x).removeprefix("torch.")
    found = getattr(ours, name, None)
    if found is None:
        raise NotConvertible(f"dtype {name}")
    return found


def _tensor(x: torch.Tensor) -> Any:
    if x.layout != torch.strided or x.is_quantized:
        raise NotConvertible(f"layout {x.layout}")
    dtype = _dtype(x.dtype)
    # A copy that keeps the order of the strides, so that samples that are not contiguous stay so.
    plain = x.detach().resolve_conj().resolve_neg()
    y = ours.from_numpy(array_of(plain).copy(order="K")).to(dtype)
    if isinstance(x, torch.nn.Parameter):
        return ours.nn.Parameter(y, requires_grad=x.requires_grad)
    return y.requires_grad_() if x.requires_grad else y


def array_of(x: torch.Tensor) -> Any:
    """Return the array of a tensor of PyTorch's; its own ``numpy()`` has no bfloat16."""
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ours.bfloat16)
    return x.numpy()


def copied(x: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return a sample with copies of PyTorch's tensors, for what writes in place."""
    memo = {} if memo is None else memo
    if isinstance(x, torch.Tensor):
        if id(x) not in memo:
            memo[id(x)] = x.detach().clone().requires_grad_(x.requires_grad)
        return memo[id(x)]
    if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        items = [copied(item, memo) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if isinstance(x, dict):
        return {name: copied(item, memo) for name, item in x.items()}
    return x


def cast_sample(x: Any, old: torch.dtype, new: torch.dtype) -> Any:
    """Return a sample or a result of PyTorch's with `new` for the dtype `old`."""
    if isinstance(x, torch.Tensor):
        return x.to(new) if x.dtype == old else x
    if isinstance(x, torch.dtype):
        return new if x == old else x
    if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        items = [cast_sample(item, old, new) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if isinstance(x, dict):
        return {name: cast_sample(item, old, new) for name, item in x.items()}
    return x


def tensors_of(x: Any) -> list[Any]:
    """Return the tensors in a sample or a result, of either library, in order."""
    if isinstance(x, (torch.Tensor, ours.Tensor)):
        return [x]
    if isinstance(x, (list, tuple)):
        return [y for item in x for y in tensors_of(item)]
    if isinstance(x, dict):
        return [y for item in x.values() for y in tensors_of(item)]
    return []


def function_of(op: Any) -> Callable[..., Any] | None:
    """Return what `tensor.torch` has for the function of an entry of ``op_db``; None where it has none."""
    if getattr(torch.Tensor, op.name, None) is op.op:
        return getattr(ours.Tensor, op.name, None)
    if isinstance(op.op, FunctionType) and op.op.__module__.startswith("torch.testing."):
        return with_ours(op.op)
    return named(op.name)


def named(name: str) -> Callable[..., Any] | None:
    """Return the function `name` of `tensor.torch`, or the method where PyTorch has only that."""
    found: Any = ours
    for part in name.removeprefix("torch.").split("."):
        found = getattr(found, part, None)
    if found is None and not _has(torch, name):
        found = getattr(ours.Tensor, name, None)
    return found


def _has(module: Any, name: str) -> bool:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module is not None


def with_ours(function: FunctionType) -> FunctionType:
    """Return a function that the data base wrote, such as a lambda, with `tensor.torch` for its ``torch``."""
    names = {**function.__globals__, "torch": ours, "wrapper_set_seed": _call}
    changed = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    changed.__kwdefaults__ = function.__kwdefaults__
    return changed


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    ours.manual_seed(42)
    return function(*args, **kwargs)
