"""``torch.autograd.function``: what modules with custom functions import from it.

Examples
--------
>>> from tensor.torch.autograd.function import Function, once_differentiable
>>> class Double(Function):
...     @staticmethod
...     def forward(ctx, x):
...         return x * 2
...
...     @staticmethod
...     @once_differentiable
...     def backward(ctx, grad):
...         return grad * 2
"""

from __future__ import annotations

from tensor.autograd import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
