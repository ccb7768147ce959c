"""Copy the initial values of worker 0's model to all workers."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from nn.parallel.exchange import Exchange, Size
from nn.parallel.regions import Layout
from nn.parallel.store import over_store
from scopes import DisposeScope
from scopes.tracking.records import call_site
from tensor import Tensor
from tensor._errors import InvalidArgumentError
from tensor.autograd.gradients import take_values
from tensor.core.tensor import snapshot, writing

if TYPE_CHECKING:
    from nn.module.module import Module
    from nn.parallel.group import Group


def share_values(model: Module, group: Group) -> None:
    """Set parameters and buffers of `model` to the values of worker 0.

    In a job on Ray, the other workers' tensors share one object of the store until the first write.

    Raises
    ------
    ValueError
        If the models of the workers differ in names, dtypes or shapes.
    """
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    _require_same(named, group)
    if group.board is None:
        _copy(list(named.values()), group)
        return
    key = group.next_key()
    if group.place.rank == 0:
        group.board.send(key, [snapshot(x) for x in named.values()], group.place.world_size - 1)
        return
    site = call_site()
    with DisposeScope("parallel.prepare"):
        for x, array in zip(named.values(), group.board.receive(key, group.timeout), strict=True):
            take_values(x, over_store(array, site))


def _require_same(named: dict[str, Tensor], group: Group) -> None:
    text = "; ".join(f"{name} {x.dtype}{list(x.shape)}" for name, x in named.items())
    # Use integers that are exact in float64, even after multiplication by the number of workers.
    own = np.frombuffer(sha256(text.encode()).digest(), np.uint32).astype(np.float64)
    exchange = Exchange(group, [Size(own.dtype, own.size), Size(own.dtype, 1)])
    try:
        exchange.slot(0)[...] = own if group.place.rank == 0 else 0
        exchange.publish(0)
        first = np.rint(exchange.result(0) * group.place.world_size)
        is_other = not np.array_equal(first, own)
        exchange.slot(1)[...] = is_other
        exchange.publish(1)
        if exchange.result(1)[0] > 0:
            raise InvalidArgumentError(
                "parallel.prepare: the models of the workers differ in names, dtypes or shapes. Worker "
                f"{group.place.rank}{', unlike worker 0,' if is_other else ''} has {text[:1000]}. Create the "
                "same model in each worker"
            )
    finally:
        exchange.close()


def _copy(values: list[Tensor], group: Group) -> None:
    """Copy worker 0's values to `values`, through shared memory of one machine."""
    layout = Layout()
    arrived = layout.add(8 * group.place.local_world_size)
    arrays = [snapshot(x) for x in values]
    places = [layout.add(array.nbytes) for array in arrays]
    region = group.new_region(layout)
    shared = [
        region.array_at(at, a.dtype, a.size).reshape(a.shape) for at, a in zip(places, arrays, strict=True)
    ]
    if group.place.rank == 0:
        for to, array in zip(shared, arrays, strict=True):
            to[...] = array
    del arrays
    region.flags.set(region.flags_at(arrived) + group.place.local_rank, 1)
    region.wait(region.flags_at(arrived), 1, "to send the first values")
    if group.place.rank != 0:
        for x, values_of_first in zip(values, shared, strict=True):
            with writing(x) as array:
                array[...] = values_of_first
    region.close()
