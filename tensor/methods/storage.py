"""Attributes of the layout, and methods that copy, share and create tensors.

The functions that create tensors are in `tensor.creation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._devices import CPU, Device, require_cpu
from tensor._dtypes import Array, is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of, named_sizes, sizes_of
from tensor.core.tensor import TensorCore, detached, donate, wrap_snapshot
from tensor.core.untyped_storage import UntypedStorage
from tensor.creation.from_data import empty, full, tensor, zeros
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import over, with_history
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor import _numeric_limits
    from tensor._dtypes import Array, DtypeLike
    from tensor._tensor import Tensor
    from tensor.creation import generators, random, sampling
    from tensor.creation.generators import Generator
else:
    random = ModuleOnDemand("tensor.creation.random")
    sampling = ModuleOnDemand("tensor.creation.sampling")
    generators = ModuleOnDemand("tensor.creation.generators")
    _numeric_limits = ModuleOnDemand("tensor._numeric_limits")

_ALIAS = RULES["alias"]
_CLONE = RULES["clone"]
T = TypeVar("T", bound=TensorCore)


class Storage(TensorCore):
    """Attributes of the layout, and methods that copy, share and create tensors."""

    __slots__ = ()

    # --- Layout ---------------------------------------------------------------------------------------------

    @overload
    def size(self, dim: None = None) -> tuple[int, ...]: ...

    @overload
    def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Return the shape, or the size of dimension `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).size(), tensor.zeros((2, 3)).size(-1)
        ((2, 3), 3)
        """
        shape: tuple[int, ...] = self._whole().shape
        return shape if dim is None else shape[dim_of("size", dim, len(shape))]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._whole().ndim

    def dim(self) -> int:
        """Return the number of dimensions.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).dim()
        2
        """
        return self._whole().ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).numel()
        6
        """
        return self._whole().size

    nelement = numel

    @property
    def itemsize(self) -> int:
        """The size of one element in bytes."""
        return self._whole().itemsize

    def element_size(self) -> int:
        """Return the size of one element in bytes.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).element_size()
        4
        """
        return self._whole().itemsize

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes. Views and clones may share this memory."""
        return self._whole().nbytes

    @property
    def device(self) -> Device:
        """The device of the memory: ``"cpu"``, with PyTorch's ``device.type``."""
        self._raise_if_disposed()
        return CPU

    def data_ptr(self) -> int:
        """Return the address of the first element. A write may move the memory.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2, 3))
        >>> x[1].data_ptr() - x.data_ptr()
        12
        """
        address: int = self._whole().__array_interface__["data"][0]
        return address

    def untyped_storage(self) -> UntypedStorage:
        """Return the block of memory of the tensor and its views, to read its size, address and bytes.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2, 3))
        >>> x[1].untyped_storage().nbytes()
        24
        """
        self._raise_if_disposed()
        return UntypedStorage(self)

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...

    @overload
    def stride(self, dim: int) -> int: ...

    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Return the strides in elements, or the stride of dimension `dim`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).stride(), tensor.zeros((2, 3)).T.stride()
        ((3, 1), (1, 3))
        """
        array = self._whole()
        strides = tuple([n // array.itemsize for n in array.strides])
        return strides if dim is None else strides[dim_of("stride", dim, array.ndim)]

    def is_contiguous(self) -> bool:
        """Return whether the elements are contiguous in memory, in C order.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 3)).is_contiguous(), tensor.zeros((2, 3)).T.is_contiguous()
        (True, False)
        """
        return self._whole().flags.c_contiguous

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a floating point dtype.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).is_floating_point()
        True
        """
        return is_floating(self._whole().dtype)

    def is_complex(self) -> bool:
        """Return whether the dtype is complex.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).is_complex()
        False
        """
        return self._whole().dtype.kind == "c"

    def _whole(self) -> Array:
        array = self._array
        if array is None:
            self._raise_disposed()
        return array

    # --- Copies that share memory ---------------------------------------------------------------------------

    def alias(self) -> Tensor:
        """Return another tensor on the same storage: a write to one changes both.

        Disposing one does not affect the other. The memory is freed with the last tensor on the storage.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2,))
        >>> y = x.alias()
        >>> x[0] = 3
        >>> x.dispose()
        >>> y.tolist()
        [3.0, 0.0]
        """
        array = self._array
        if array is None:
            self._raise_disposed()
        return over(self, array, array, _ALIAS)

    def clone(self, *, memory_format: object = None) -> Tensor:
        """Return a tensor with the same values and its own storage. O(1): the first write copies.

        Expanded views, and memory that an exported NumPy array uses, are copied immediately. So is a view
        that covers less than half of its memory: the clone of a row does not keep the batch.

        Gradients flow to the original tensor. `memory_format` has no effect.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((2,))
        >>> y = x.clone()
        >>> x[0] = 3
        >>> y.tolist()
        [0.0, 0.0]
        """
        del memory_format  # all tensors are in row-major order
        self._raise_if_disposed()
        return with_history(wrap_snapshot(self), _CLONE, self)

    def detach(self) -> Tensor:
        """Return a new leaf on the same storage, without gradient history.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,), requires_grad=True)
        >>> (x * 2).detach().requires_grad
        False
        """
        self._raise_if_disposed()
        return detached(self)

    def donate(self) -> Tensor:
        """Move the memory to a new tensor. The next op may write its result to that memory.

        The op reuses the memory if the result has the same shape and dtype, and if no view, alias, clone,
        exported array or derivative uses the memory. If not, the op allocates, and still frees the donated
        memory. The result is the same in both cases. ``memory.statistics()`` counts both cases. This tensor
        can't be used afterwards. The new tensor replaces it in its scope, and has its gradient history.

        Elementwise functions and operators reuse donated memory, and so do ``softmax``, ``cumsum``,
        ``masked_fill`` and similar ops. All other ops free it.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((100, 100))
        >>> before = tensor.memory.statistics()
        >>> y = x.donate() * 2 + 1
        >>> (tensor.memory.statistics() - before).donation_reuse_count
        1
        >>> x.is_invalid
        True
        """
        return donate(self)

    # --- New tensors and random values ----------------------------------------------------------------------

    def new_tensor(
        self,
        data: object,
        *,
        dtype: DtypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Return a new tensor with a copy of `data`. The default dtype is that of this tensor.

        Examples
        --------
        >>> import tensor
        >>> str(tensor.zeros((1,), dtype="float64").new_tensor([1, 2]).dtype)
        'float64'
        """
        require_cpu(device)
        return tensor(data, dtype=_dtype_of(self, dtype), requires_grad=requires_grad)

    def new_zeros(
        self,
        *sizes: int | Sequence[int],
        size: int | Sequence[int] | None = None,
        dtype: DtypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Return a new tensor of zeros. The default dtype is that of this tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).new_zeros(2, 3).shape
        (2, 3)
        """
        require_cpu(device)
        return zeros(
            sizes_of("new_zeros", named_sizes("new_zeros", sizes, size)),
            dtype=_dtype_of(self, dtype),
            requires_grad=requires_grad,
        )

    def new_ones(
        self,
        *sizes: int | Sequence[int],
        size: int | Sequence[int] | None = None,
        dtype: DtypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Return a new tensor of ones. The default dtype is that of this tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1,)).new_ones((2,)).tolist()
        [1.0, 1.0]
        """
        require_cpu(device)
        shape = sizes_of("new_ones", named_sizes("new_ones", sizes, size))
        return full(shape, 1, dtype=_dtype_of(self, dtype), requires_grad=requires_grad)

    def new_empty(
        self,
        *sizes: int | Sequence[int],
        size: int | Sequence[int] | None = None,
        dtype: DtypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Return a new uninitialized tensor. The default dtype is that of this tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1,)).new_empty(2, 3).shape
        (2, 3)
        """
        require_cpu(device)
        return empty(
            sizes_of("new_empty", named_sizes("new_empty", sizes, size)),
            dtype=_dtype_of(self, dtype),
            requires_grad=requires_grad,
        )

    def new_full(
        self,
        size: int | Sequence[int],
        fill_value: complex,
        *,
        dtype: DtypeLike | None = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Return a new tensor filled with `fill_value`. The default dtype is that of this tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1,)).new_full((2,), 3).tolist()
        [3.0, 3.0]
        """
        require_cpu(device)
        sizes = sizes_of("new_full", (size,))
        return full(sizes, fill_value, dtype=_dtype_of(self, dtype), requires_grad=requires_grad)

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with numbers from the normal distribution with the given mean and standard deviation.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).normal_(3.0, 0.0).tolist()
        [3.0, 3.0]
        """
        if not std >= 0:
            raise InvalidArgumentError(f"normal_: the standard deviation must be at least 0, not {std}")
        return _filled(
            "normal_", self, lambda x: random.normal_array(x.shape, x.dtype, generator) * std + mean
        )

    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with numbers from the uniform distribution from `from_` to `to`.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.zeros((100,)).uniform_(2.0, 3.0)
        >>> 2 <= x.min().item() <= x.max().item() <= 3
        True
        """
        if not from_ <= to:
            raise InvalidArgumentError(
                f"uniform_: from_ must be at most to, but from_ = {from_} and to = {to}"
            )
        dtype = as_tensor(self).dtype
        if is_floating(dtype):
            largest = _numeric_limits.finfo(dtype).max
            if not max(abs(from_), abs(to), to - from_) <= largest:
                raise InvalidArgumentError(
                    f"uniform_: from_, to and to - from_ must be at most {largest}, the largest number of "
                    f"{dtype}, but from_ = {from_} and to = {to}"
                )
        return _filled(
            "uniform_",
            self,
            lambda x: random.uniform_array(x.shape, x.dtype, generator) * (to - from_) + from_,
        )

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with numbers from the exponential distribution with rate `lambd`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((100,)).exponential_().min().item() >= 0
        True
        """
        if not lambd > 0:
            raise InvalidArgumentError(f"exponential_: the rate lambd must be above 0, not {lambd}")
        return _filled(
            "exponential_",
            self,
            lambda x: generators.numbers_of(generator).standard_exponential(x.shape) / lambd,
        )

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with numbers from the Cauchy distribution with this median and scale.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).cauchy_().shape
        (3,)
        """
        if not sigma > 0:
            raise InvalidArgumentError(f"cauchy_: sigma must be above 0, not {sigma}")
        return _filled(
            "cauchy_",
            self,
            lambda x: generators.numbers_of(generator).standard_cauchy(x.shape) * sigma + median,
        )

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Self:
        """Fill with the numbers of trials until a success with probability `p` (geometric distribution).

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).geometric_(1.0).tolist()
        [1.0, 1.0, 1.0]
        """
        if not 0 < p <= 1:
            raise InvalidArgumentError(f"geometric_: p must be above 0 and at most 1, not {p}")
        return _filled("geometric_", self, lambda x: generators.numbers_of(generator).geometric(p, x.shape))

    def log_normal_(self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Self:
        """Fill with numbers from the log-normal distribution. `mean` and `std` are of the logarithms.

        Examples
        --------
        >>> import tensor
        >>> (tensor.zeros((3,)).log_normal_() > 0).tolist()
        [True, True, True]
        """
        if not std > 0:
            raise InvalidArgumentError(f"log_normal_: std must be above 0, not {std}")
        return _filled(
            "log_normal_", self, lambda x: generators.numbers_of(generator).lognormal(mean, std, x.shape)
        )

    def random_(
        self,
        from_: int = 0,
        to: int | EllipsisType | None = ...,
        *,
        generator: Generator | None = None,
    ) -> Self:
        """Fill with uniform random integers below `from_`, or from `from_` to `to` (excluded).

        With ``to=None``, the range is from `from_` to the largest integer of the default range.

        The default range is from 0 to the largest integer of the dtype. For floating dtypes, it is from 0 to
        the largest integer up to which all integers are exact, such as 2**24 for float32.

        Raises
        ------
        InvalidArgumentError
            If the range is empty, or the dtype can't represent it.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((3,)).random_(5, 6).tolist(), tensor.ones((2,)).random_(1).tolist()
        ([5.0, 5.0, 5.0], [0.0, 0.0])
        """

        def draw(x: Tensor) -> Array:
            if to is ...:
                low, high = 0, from_ or _first_not_exact(x.dtype)
            else:
                low, high = from_, _first_not_exact(x.dtype) if to is None else to
            return random.integer_array("random_", low, high, x.shape, x.dtype, generator)

        return _filled("random_", self, draw, floating=False)

    def bernoulli(self, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
        """Return 1 or 0 for each element, which is the probability of 1 unless `p` is given.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0, 1.0]).bernoulli().tolist()
        [0.0, 1.0]
        """
        x = as_tensor(self)
        if p is not None:
            return x.new_empty(x.shape).bernoulli_(p, generator=generator)
        return sampling.bernoulli(x, generator=generator)

    def bernoulli_(self, p: float = 0.5, *, generator: Generator | None = None) -> Self:
        """Fill with 1 with probability `p`, else 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).bernoulli_(1.0).tolist()
        [1.0, 1.0]
        """
        if not 0 <= p <= 1:
            raise InvalidArgumentError(f"bernoulli_: p must be from 0 to 1, not {p}")
        return _filled(
            "bernoulli_", self, lambda x: generators.numbers_of(generator).random(x.shape) < p, floating=False
        )

    def multinomial(
        self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Return the indices of `num_samples` draws from each row, in proportion to its weights.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0, 5.0]).multinomial(1).tolist()
        [1]
        """
        return sampling.multinomial(as_tensor(self), num_samples, replacement, generator=generator)


def _dtype_of(x: TensorCore, dtype: DtypeLike | None) -> DtypeLike:
    return as_tensor(x).dtype if dtype is None else dtype


def _first_not_exact(dtype: np.dtype[Any]) -> int:
    """Return the default upper bound of ``random_`` for `dtype` (excluded)."""
    if is_floating(dtype):
        return int(2 / _numeric_limits.finfo(dtype).eps) + 1
    return random.integers_of(dtype)[1] + 1


def _filled(name: str, x: T, draw: Callable[[Tensor], Array], *, floating: bool = True) -> T:
    """Write the result of ``draw(x)`` to the tensor `x`, and return `x`."""
    target = as_tensor(x)
    if target.dtype.kind == "c" or (floating and not is_floating(target.dtype)):
        raise TypeError(f"{name} fills floating tensors, not {target.dtype}: convert it with x.float()")
    target.copy_(run_kernel(draw, target))
    return x
