"""Replicate a model on each worker, and average gradients while backward runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar, overload
from weakref import WeakKeyDictionary, ref

import numpy as np

from nn.module.module import Module
from nn.parallel.exchange import Exchange, Size
from nn.parallel.group import Group, current
from nn.parallel.initial import share_values
from nn.parallel.torch_models import is_model, replicate, replicated
from tensor import Tensor, zeros_like
from tensor._dtypes import Array, is_inexact
from tensor.core.tensor import TensorCore, snapshot, writing, writing_all
from tensor.tape.hooks import RemovableHandle
from tensor.tape.recording import Leaf

ModuleT = TypeVar("ModuleT", bound=Module)

# The size of the first bucket. It is small, so that its exchange begins early in backward.
_FIRST_BYTES = 1 << 18
_BUCKET_BYTES = 4 << 20


class _Part(NamedTuple):
    """The position of one tensor in a bucket."""

    x: ref[Tensor]
    name: str
    begin: int
    end: int


class _Bucket:
    """Tensors of one dtype whose gradients are exchanged together."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.parts: list[_Part] = []
        self.missing = 0

    @property
    def count(self) -> int:
        return self.parts[-1].end if self.parts else 0

    def add(self, x: Tensor, name: str) -> None:
        self.parts.append(_Part(ref(x), name, self.count, self.count + x.numel()))


class Replica:
    """The buckets of a prepared model and the hooks that fill them. It lives as long as the model."""

    def __init__(self, model: Module, group: Group, bucket_bytes: int, find_unused: bool) -> None:
        self._group = group
        self._find_unused = find_unused
        self.is_syncing = True
        trained = [(name, x) for name, x in model.named_parameters() if x.requires_grad]
        # From the last parameter to the first, which is nearly the order of backward.
        self._buckets = _buckets_of(trained[::-1], bucket_bytes)
        # Running statistics and other floating buffers, averaged at the end of backward.
        floats = [(name, x) for name, x in model.named_buffers() if is_inexact(x.dtype)]
        self._statistics = _buckets_of(floats, bucket_bytes)
        buckets = [*self._buckets, *self._statistics]
        self._exchange = Exchange(group, [Size(bucket.dtype, bucket.count) for bucket in buckets])
        self._slots = [self._exchange.slot(i) for i in range(len(buckets))]
        # The ids of the parts with a gradient in this backward.
        self._arrived: set[int] = set()
        self._count = len(trained)
        # Whether gradients were accumulated inside `no_sync`.
        self._has_gathered = False
        self._handles: list[RemovableHandle] = []
        weak_self = ref(self)
        for i, bucket in enumerate(self._buckets):
            for part in bucket.parts:
                x = part.x()
                assert x is not None
                self._handles.append(x.register_post_accumulate_grad_hook(_GradientHook(weak_self, i, part)))
        self._handles.append(model.register_forward_pre_hook(_BeforeForward(weak_self)))
        if find_unused:
            self._handles.append(model.register_forward_hook(_AfterForward(weak_self)))

    def add_gradient(self, i: int, part: _Part, x: Tensor) -> None:
        """Copy the gradient of one parameter to its bucket, and exchange the bucket when it is complete."""
        weight = self._group.weight
        if weight != 1 and (self._has_gathered or not self.is_syncing):
            raise RuntimeError(
                "no_sync() requires batches of the same size in all workers, but their parts of this batch "
                "differ in size: write DataLoader(..., drop_last=True), or make a step before the last batch "
                "of an epoch"
            )
        if not self.is_syncing:
            self._has_gathered = True
            return
        gradient = x.grad
        if gradient is not None:
            self._put(i, part, snapshot(gradient))

    def _put(self, i: int, part: _Part, values: Array | None) -> None:
        bucket = self._buckets[i]
        key = id(part)
        if key in self._arrived:
            raise RuntimeError(
                f"backward reached {part.name!r} twice, but did not reach {self._missing()}. Use all "
                "parameters in each backward, write parallel.prepare(model, find_unused_parameters=True), or "
                "run all but the last backward of a step inside `with parallel.no_sync():`"
            )
        if not self._arrived:
            for other in self._buckets:
                other.missing = len(other.parts)
        self._arrived.add(key)
        bucket.missing -= 1
        target = self._slots[i][part.begin : part.end]
        self._write(target, values)
        if bucket.missing == 0:
            self._exchange.publish(i)
        else:
            self._exchange.advance()
        if len(self._arrived) == self._count:
            self._finish()

    def _write(self, target: Array, values: Array | None) -> None:
        """Write `values` into a slot, times the weight of this worker; zeros for None."""
        weight = self._group.weight
        if values is None or weight == 0:
            target[...] = 0
        elif weight == 1:
            target.reshape(values.shape)[...] = values
        else:
            np.multiply(values, weight, out=target.reshape(values.shape), casting="same_kind")

    def _finish(self) -> None:
        """Set the gradients to the averages, at the end of backward."""
        first = len(self._buckets)
        for i, bucket in enumerate(self._statistics, first):
            for part in bucket.parts:
                x = part.x()
                if x is not None:
                    self._write(self._slots[i][part.begin : part.end], snapshot(x))
            self._exchange.publish(i)
        before = self._exchange.waited
        for i, bucket in enumerate(self._buckets):
            average = self._exchange.result(i)
            parts = [(part, _gradient_of(x)) for part in bucket.parts if (x := part.x()) is not None]
            with writing_all([gradient for _, gradient in parts]) as arrays:
                for (part, _), array in zip(parts, arrays, strict=True):
                    array[...] = average[part.begin : part.end].reshape(array.shape)
        for i, bucket in enumerate(self._statistics, first):
            average = self._exchange.result(i)
            for part in bucket.parts:
                x = part.x()
                if x is not None:
                    with writing(x) as array:
                        array[...] = average[part.begin : part.end].reshape(array.shape)
        self._arrived.clear()
        self._has_gathered = False
        self._group.note_step(self._exchange.waited - before)

    def check(self) -> None:
        """Raise an error if the last backward skipped parameters, so that gradients were not averaged."""
        if self._arrived and self.is_syncing:
            missing = self._missing()
            self._arrived.clear()
            raise RuntimeError(
                f"the last backward computed no gradient of {missing}, so gradients were not averaged, and "
                "the replicas may differ: write parallel.prepare(model, find_unused_parameters=True), or "
                "make the loss depend on all parameters"
            )

    def fill_unused(self, output: object) -> None:
        """Use zero gradients for parameters that backward from `output` does not reach."""
        if not self.is_syncing:
            return
        leaves = _leaves_behind(output)
        if not leaves:
            return
        for i, bucket in enumerate(self._buckets):
            for part in bucket.parts:
                x = part.x()
                if x is not None and x._node not in leaves and id(part) not in self._arrived:
                    self._put(i, part, None)

    def _missing(self) -> str:
        names = [
            part.name for bucket in self._buckets for part in bucket.parts if id(part) not in self._arrived
        ]
        return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


class _GradientHook:
    """Gradient hook of one parameter. It refers weakly to the replica, because the model owns the hook."""

    def __init__(self, replica: ref[Replica], i: int, part: _Part) -> None:
        self._replica = replica
        self._i = i
        self._part = part

    def __call__(self, x: Tensor) -> None:
        replica = self._replica()
        if replica is not None:
            replica.add_gradient(self._i, self._part, x)


class _BeforeForward:
    """Hook that runs before each forward."""

    def __init__(self, replica: ref[Replica]) -> None:
        self._replica = replica

    def __call__(self, module: Module, _: tuple[Any, ...]) -> None:
        replica = self._replica()
        if replica is not None and module.training:
            replica.check()


class _AfterForward:
    """Hook that runs after each forward."""

    def __init__(self, replica: ref[Replica]) -> None:
        self._replica = replica

    def __call__(self, module: Module, _: tuple[Any, ...], output: object) -> None:
        replica = self._replica()
        if replica is not None and module.training:
            replica.fill_unused(output)


_replicas: WeakKeyDictionary[Module, Replica] = WeakKeyDictionary()


class TorchModule(Protocol):
    """A ``torch.nn.Module``, for type checkers."""

    def share_memory(self) -> Any: ...
    def get_submodule(self, target: str) -> Any: ...


@overload
def prepare(
    model: ModuleT, *, bucket_bytes: int = _BUCKET_BYTES, find_unused_parameters: bool = False
) -> ModuleT: ...
@overload
def prepare(
    model: TorchModule, *, bucket_bytes: int = _BUCKET_BYTES, find_unused_parameters: bool = False
) -> Any: ...
def prepare(model: Any, *, bucket_bytes: int = _BUCKET_BYTES, find_unused_parameters: bool = False) -> Any:
    """Make `model` a replica for data-parallel training, and return it.

    All workers must call this at the same time with models of the same architecture. Parameters and buffers
    get the values of worker 0. From then on each backward averages gradients over the workers. A bucket is
    exchanged as soon as its gradients are complete, while backward continues. When backward returns, all
    workers have bit-identical averages, so ``optimizer.step()`` changes all replicas equally.

    With batches of equal size, the averages are the gradients of the mean loss over all batches. Up to
    rounding, one process with the whole batch computes the same gradients. BatchNorm normalizes by the
    worker's own batch, and its running statistics are averaged with the gradients. So replicas stay equal,
    but differ from one process with the whole batch.

    Outside of a job the model is returned unchanged.

    A PyTorch model is returned inside ``torch.nn.parallel.DistributedDataParallel``. The first call starts
    PyTorch's default process group with gloo, unless one exists.

    Parameters
    ----------
    model
        The module, which stays the same object: names in its ``state_dict()`` do not change. Or a module of
        PyTorch, on the CPU.
    bucket_bytes
        The size of a bucket in bytes.
    find_unused_parameters
        Search for unused parameters after each forward in training, for models that skip some. A worker that
        does not use a parameter contributes a zero gradient.

    Raises
    ------
    TypeError
        If `model` is not a module.
    ValueError
        If `bucket_bytes` is below 1, or the models of the workers differ in names, dtypes or shapes.
    WorkerLostError, ExchangeTimeoutError
        If another worker has ended or is late.

    Examples
    --------
    >>> import nn
    >>> from nn import parallel
    >>> model = parallel.prepare(nn.Linear(2, 1))
    >>> optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    """
    is_of_torch = is_model(model)
    if not is_of_torch and not isinstance(model, Module):
        raise TypeError(f"parallel.prepare() requires an nn.Module, not {type(model).__name__}")
    if type(bucket_bytes) is not int or bucket_bytes < 1:
        raise ValueError(f"bucket_bytes must be an integer of at least 1, not {bucket_bytes!r}")
    group = current()
    if group.place.world_size == 1:
        return model
    group.require_connected()
    if is_of_torch:
        return replicate(model, group, bucket_bytes, find_unused_parameters)
    share_values(model, group)
    _replicas[model] = Replica(model, group, bucket_bytes, find_unused_parameters)
    return model


@contextmanager
def no_sync(model: Any = None) -> Iterator[None]:
    """Return a context manager that accumulates gradients locally, for several backwards before one step.

    The first backward after the block averages the accumulated gradients. All workers must do the same. For
    models of PyTorch it enters their own ``no_sync()``, so the forward pass belongs in the block too.

    Parameters
    ----------
    model
        A model from `prepare`; None for all of them.

    Examples
    --------
    >>> import nn, tensor
    >>> from nn import parallel
    >>> model = parallel.prepare(nn.Linear(2, 1))
    >>> with parallel.no_sync():
    ...     model(tensor.ones((4, 2))).sum().backward()
    >>> model(tensor.ones((4, 2))).sum().backward()
    """
    replicas = list(_replicas.values()) if model is None else [r for m, r in _replicas.items() if m is model]
    before = [replica.is_syncing for replica in replicas]
    for replica in replicas:
        replica.is_syncing = False
    try:
        with ExitStack() as models_of_torch:
            for each in replicated(model):
                models_of_torch.enter_context(each.no_sync())
            yield
    finally:
        for replica, was_syncing in zip(replicas, before, strict=True):
            replica.is_syncing = was_syncing


def _buckets_of(named: Sequence[tuple[str, Tensor]], max_bytes: int) -> list[_Bucket]:
    """Distribute tensors over buckets in order, with one dtype for each bucket."""
    done: list[_Bucket] = []
    filling: dict[np.dtype[Any], _Bucket] = {}
    for name, x in named:
        dtype = snapshot(x).dtype
        bucket = filling.setdefault(dtype, _Bucket(dtype))
        bucket.add(x, name)
        if bucket.count * dtype.itemsize >= (max_bytes if done else min(max_bytes, _FIRST_BYTES)):
            done.append(filling.pop(dtype))
    return [*done, *filling.values()]


def _gradient_of(x: Tensor) -> Tensor:
    gradient = x.grad
    if gradient is None or gradient.is_invalid:  # not used in this worker, but in another one
        gradient = zeros_like(x.detach())
        gradient.detach_from_dispose_scope()
        x.grad = gradient
    return gradient


def _leaves_behind(output: object) -> set[Leaf]:
    """Return the leaves that a backward from the tensors in `output` reaches."""
    stack = [x._node for x in _tensors_in(output) if x._node is not None]
    seen = set(stack)
    while stack:
        for node in stack.pop().next:
            if node is not None and node not in seen:
                seen.add(node)
                stack.append(node)
    return {node for node in seen if isinstance(node, Leaf)}


def _tensors_in(output: object) -> Iterator[TensorCore]:
    if isinstance(output, TensorCore):
        yield output
    elif isinstance(output, (list, tuple)):
        for x in output:
            yield from _tensors_in(x)
    elif isinstance(output, dict):
        for x in output.values():
            yield from _tensors_in(x)
