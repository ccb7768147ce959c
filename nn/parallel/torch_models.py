"""Replicate PyTorch models on the workers of a job, with ``DistributedDataParallel`` and gloo."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from nn.parallel.errors import WorkerLostError, require
from nn.parallel.exchange import agree
from tensor import get_num_threads

if TYPE_CHECKING:
    from nn.parallel.group import Group

# The models that `replicate` has returned and that exchange gradients.
_replicated: WeakSet[Any] = WeakSet()
# How long the system may take to release the locks of a process whose connections it has closed, in seconds.
_LOCK_RELEASE_TIMEOUT = 5.0


def is_model(x: object) -> bool:
    """Return whether `x` is a module of PyTorch, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.nn.Module)


def replicate(model: Any, group: Group, bucket_bytes: int, find_unused: bool) -> Any:
    """Return `model` inside ``DistributedDataParallel``; all workers call this at the same time."""
    if any(parameter.requires_grad for parameter in model.parameters()):
        _start(group)
        ddp = require("torch.nn.parallel").DistributedDataParallel
        replica = ddp(model, find_unused_parameters=find_unused, bucket_cap_mb=bucket_bytes / 2**20)
        _replicated.add(replica)
        return replica
    return model  # DistributedDataParallel raises an error for models without trained parameters


def replicated(model: Any) -> list[Any]:
    """Return `model` if it is a result of `replicate` that exchanges gradients; for None, all of them."""
    return [each for each in _replicated if model is None or each is model]


def _start(group: Group) -> None:
    """Connect the workers with a process group of PyTorch, unless one exists."""
    distributed = require("torch.distributed")
    if distributed.is_initialized():
        return
    torch = require("torch")
    # Ray Train makes PyTorch use twice as many threads as the worker has processors.
    torch.set_num_threads(min(torch.get_num_threads(), get_num_threads()))
    timeout = timedelta(seconds=group.timeout)
    place = group.place
    host = _address_of_first(group)
    if place.rank == 0:
        store = distributed.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=timeout)
        agree(group, store.port)
    else:
        store = distributed.TCPStore(host, agree(group, 0), is_master=False, timeout=timeout)
    distributed.init_process_group(
        "gloo", store=store, rank=place.rank, world_size=place.world_size, timeout=timeout
    )
    hook = require("torch.optim.optimizer").register_optimizer_step_post_hook(lambda *_: group.note_step(0.0))

    def stop() -> None:
        hook.remove()
        with suppress(RuntimeError):  # the connection broke because another worker died
            distributed.destroy_process_group()

    group.at_close(stop)


def _address_of_first(group: Group) -> str:
    """Return the address of worker 0, which the others can reach."""
    if group.place.node_count == 1:
        return "127.0.0.1"
    assert group.board is not None
    key = group.next_key()
    if group.place.rank != 0:
        (address,) = group.board.receive(key, group.timeout)
        return str(address)
    address = require("ray.util").get_node_ip_address()
    group.board.send(key, [address], group.place.world_size - 1)
    return str(address)


def lost_worker(error: RuntimeError, group: Group) -> WorkerLostError | None:
    """Return the error for a worker that has ended, if `error` is gloo's error for a broken connection."""
    if "gloo" not in str(error).lower():
        return None
    end = time.monotonic() + _LOCK_RELEASE_TIMEOUT
    ranks: list[int] = []
    while not ranks and time.monotonic() < end and group.place.local_world_size > 1:
        ranks = [rank for rank, (_, lost) in group.rows().items() if lost]
        time.sleep(0.05)
    if not ranks and group.place.node_count == 1:
        return None
    workers = f"worker {', '.join(map(str, ranks))}" if ranks else "a worker on another machine"
    return WorkerLostError(
        f"{workers} has ended or was killed while the others exchanged gradients of PyTorch. The error of "
        f"gloo is {str(error)[:300]!r}. parallel.statistics() returns the last figures"
    )
