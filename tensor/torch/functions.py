"""Functions of ``torch`` that are methods of their first argument.

Each public method of a family (`tensor.methods`) is a function with the same name, such as ``torch.add`` for
``Tensor.add``, unless `_NO_FUNCTIONS` lists it: names that PyTorch has only as methods, or not at all. The
build writes the types to ``functions.pyi`` (``.ci/write-stubs``).
"""

from __future__ import annotations

from inspect import isroutine

from tensor import Tensor
from tensor.torch.calling import function_named

# Methods without a function in PyTorch, or whose function has other arguments and is in another module.
_NO_FUNCTIONS = """
alias broadcast_to contiguous data_ptr dim donate element_size expand expand_as is_contiguous ndimension
nelement new_empty new_full new_ones new_tensor new_zeros polygamma repeat repeat_interleave reshape_as size
stride sum_to_size unfold untyped_storage vecdot view view_as where

absolute_ add_ addbmm_ addcdiv_ addcmul_ addmm_ addr_ arctan2_ atan2_ baddbmm_ bernoulli_ bitwise_and_
bitwise_left_shift_ bitwise_not_ bitwise_or_ bitwise_right_shift_ bitwise_xor_ cauchy_ copy_ copysign_
cumprod_ cumsum_ digamma_ div_ divide_ eq_ erfinv_ exponential_ fill_diagonal_ float_power_ floor_divide_
fmod_ ge_ geometric_ greater_ greater_equal_ gt_ heaviside_ hypot_ index_add_ index_copy_ index_fill_
index_reduce_ le_ lerp_ less_ less_equal_ lgamma_ log_normal_ logical_and_ logical_not_ logical_or_
logical_xor_ lt_ masked_fill_ masked_scatter_ mul_ multiply_ mvlgamma_ ne_ nextafter_ normal_ not_equal_
polygamma_ pow_ put_ random_ remainder_ renorm_ scatter_ scatter_add_ scatter_reduce_ sgn_ sign_ squeeze_
sub_ subtract_ swapaxes_ swapdims_ t_ transpose_ tril_ triu_ true_divide_ uniform_ unsqueeze_
"""
_METHODS_ONLY = frozenset(_NO_FUNCTIONS.split())
# Functions with another name than their method, or whose method is in another family, with that name.
# `spmm` is `mm`, because all tensors are dense.
_OTHER_NAMES = {"detach_": "detach_", "spmm": "mm"}


# Families of methods that are no functions in PyTorch.
_NO_FUNCTIONS_OF = ("Conversion", "Gradients")


def _has_functions(owner: type) -> bool:
    return owner.__module__.startswith("tensor.methods.") and owner.__name__ not in _NO_FUNCTIONS_OF


def _methods() -> dict[str, str]:
    """Return the names of the functions, sorted, each with the first name of its method."""
    names = dict(_OTHER_NAMES)
    for owner in filter(_has_functions, Tensor.__mro__):
        for name, value in vars(owner).items():
            if isroutine(value) and not name.startswith("_") and name not in _METHODS_ONLY:
                first = value.__name__
                names[name] = first if getattr(Tensor, first, None) is value else name
    return dict(sorted(names.items()))


METHODS = _methods()
__all__ = list(METHODS)
globals().update({name: function_named(name, getattr(Tensor, of)) for name, of in METHODS.items()})
