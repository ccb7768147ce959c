"""Training loops that run in Ray's workers, for the tests of `nn.parallel`."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
import scopes
import tensor
from nn import parallel
from nn.parallel.links import Link
from scopes import new_dispose_scope
from tests.nn import parallel_training as training
from tests.nn.parallel_cluster import wait_until

kept: list[Any] = []


def wait_for_ray() -> None:
    """Return when Ray looks after all workers; if one is lost earlier, Ray Train gives the job up.

    Ray takes reports when all loops have begun, and a second one waits until the first is taken.
    """
    for _ in range(2):
        parallel.report({})


def train(config: dict[str, Any]) -> None:
    """Train from the last checkpoint on; make one every few steps, and one in the end."""
    if config.get("what") == "kill":
        wait_for_ray()
    fault = Fault(config)
    tensor.manual_seed(parallel.rank())
    model = parallel.prepare(training.perceptron(), bucket_bytes=config.get("bucket_bytes", 4 << 20))
    optimizer = nn.optim.SGD(model.parameters(), lr=config.get("lr", 0.05), momentum=0.9)
    found = parallel.checkpoint()
    nodes = parallel.group.current().place.node_count
    first = 0
    if found is not None:
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        first = found["step"]
    for step in range(first, config["steps"]):
        with new_dispose_scope("step"):
            x, y = training.part_of_batch(step)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            fault.in_backward_of(step, model)
            loss.backward()
            optimizer.step()
            value = loss.item()
        if "pause" in config:
            time.sleep(config["pause"])
        fault.at(step)
        if (step + 1) % config.get("every", 50) == 0 or step + 1 == config["steps"]:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            parallel.report(
                {
                    "loss": value,
                    "step": step + 1,
                    "began_at": first,
                    "nodes": nodes,
                    "workers": parallel.world_size(),
                },
                state,
            )
            if "running" in config and step + 1 == 2 * config["every"]:
                Path(config["running"]).touch()
        if "running" in config and step + 1 == config["steps"] - 1:
            while nodes == config["nodes"]:  # until one of them is lost
                parallel.barrier()


class OutOfLuckError(RuntimeError):
    """Comes at a moment that has nothing to do with steps."""


class Fault:
    """What one worker does to itself: at a step, or some time after its loop has begun."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._is_due = False
        once = config.get("once")
        #: The file that says that it was done, if it is done once in a job.
        self._once = None if once is None else Path(once)
        self._timer: threading.Timer | None = None
        if not self._is_mine() or "after" not in config:
            return
        self._timer = threading.Timer(config["after"], self._strike, [threading.get_ident()])
        self._timer.daemon = True
        self._timer.start()

    def _is_mine(self) -> bool:
        is_done = self._once is not None and self._once.exists()
        return parallel.rank() == self._config.get("worker") and not is_done

    def _strike(self, thread: int) -> None:
        """Kill the process, or raise in the thread of the loop wherever it is."""
        assert self._once is not None
        self._once.touch()
        if self._config["what"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        self._is_due = True
        set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
        set_error(ctypes.c_ulong(thread), ctypes.py_object(OutOfLuckError))

    def in_backward_of(self, step: int, model: Any) -> None:
        """Kill the process in the middle of the backward of `step`: some buckets are there, others not."""
        if step != self._config.get("in_backward_of") or not self._is_mine():
            return
        assert self._once is not None
        self._once.touch()
        assert wait_until(lambda: step_on_board() > 0)
        model[2].weight.register_post_accumulate_grad_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))

    def at(self, step: int) -> None:
        """Do at `step` what the test asks for."""
        config = self._config
        if self._timer is not None and step + 1 == config["steps"]:
            self._timer.join()  # on a busy machine it may be late
        if self._is_due:  # the error came where Python only prints errors: in a finalizer, for example
            raise OutOfLuckError
        if step != config.get("at"):
            return
        if "patience" in config:
            # Not from the start on: on a busy machine workers may begin long after each other.
            parallel.barrier()
            be_impatient(config["patience"])
        if not self._is_mine():
            return
        if self._once is not None:
            self._once.touch()
        if config["what"] == "kill":
            # What was sent to the board arrives at some time.
            assert wait_until(lambda: step_on_board() > 0)
            os.kill(os.getpid(), signal.SIGKILL)
        if config["what"] == "sleep":
            # On a busy machine the others may have let this worker wait before.
            time.sleep(config["seconds"] + parallel.group.current().waited)
        if config["what"] == "raise":
            raise ValueError("this worker is out of patience")


def step_on_board() -> int:
    """Return the last step of this worker that the board knows, -1 if it knows nothing or is gone."""
    import ray

    board = parallel.group.current().board
    assert board is not None
    try:
        told = board.read().get(parallel.rank())
    except ray.exceptions.RayActorError:
        return -1
    return -1 if told is None else told.row[0]


def be_impatient(seconds: float) -> None:
    """Let this worker wait for others no longer than that, from now on."""
    group = parallel.group.current()
    group.timeout = seconds
    for region in tuple(group._regions):
        region.timeout = seconds


def train_long(config: dict[str, Any]) -> None:
    """Train, and report the figures of all workers every 500 steps, at the same point of a step."""
    model = parallel.prepare(training.perceptron())
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-4)
    marks = []
    for step in range(config["steps"]):
        with new_dispose_scope("step"):
            x, y = training.part_of_batch(step)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        if (step + 1) % 500 == 0:
            parallel.statistics()  # each writes its own, outside of the step
            parallel.barrier()
            marks.append({str(rank): figures_of(it) for rank, it in parallel.statistics().workers.items()})
            parallel.barrier()
    parallel.report({"marks": marks}, "done")


def figures_of(it: parallel.WorkerFigures) -> dict[str, int]:
    return {
        "alive": it.disposables.live_count,
        "live": it.memory.bytes_live,
        "process": it.bytes_of_process,
        "store": it.bytes_in_store,
    }


def tell_threads() -> None:
    """Report on how many threads tensors and NumPy's BLAS compute."""
    import threadpoolctl

    blas = [it["num_threads"] for it in threadpoolctl.threadpool_info() if it["user_api"] == "blas"]
    parallel.report({"threads": [tensor.get_num_threads(), *blas]}, "done")


def try_one(config: dict[str, Any]) -> None:
    """Run a job of two workers inside a trial of Ray Tune, and report what came of it."""
    from ray import train as ray_train
    from ray import tune

    result = parallel.Trainer(
        train,
        train_loop_config={"steps": 20, "lr": config["lr"]},
        scaling_config=ray_train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=ray_train.RunConfig(storage_path=config["folder"]),
    ).fit()
    alive = parallel.statistics().live_count
    tune.report({"loss": result.metrics["loss"], "step": result.metrics["step"], "alive": alive})


def lose_the_board(config: dict[str, Any]) -> None:
    """End the actor that keeps the figures for good, and then fail or return."""
    import ray

    board = parallel.group.current().board
    assert board is not None
    board.post(parallel.group.current().reports(), wait=True)
    board.stop()
    assert wait_until(lambda: step_on_board() < 0)  # Ray ends it some time after it was told to
    with pytest.raises(ray.exceptions.RayActorError):
        board.read()
    with pytest.warns(RuntimeWarning, match="reading the reports of the workers failed"):
        assert parallel.statistics().workers.keys() == {0}  # its own
    if config["fails"]:
        raise ValueError("the error of the loop itself")
    parallel.report({"step": 1}, "done")


def train_while_the_board_restarts(config: dict[str, Any]) -> None:
    """Train; the process of the board ends once, before the workers have the first values."""
    import ray

    board = parallel.group.current().board
    assert board is not None
    if parallel.rank() == 0 and not Path(config["ended"]).exists():
        Path(config["ended"]).touch()
        board.post(parallel.group.current().reports(), wait=True)
        ray.kill(board._actor, no_restart=False)
        # Ray ends it some time after it was told to; what is started again knows nothing.
        assert wait_until(lambda: step_on_board() < 0)
    train(config)


def sleep_where_nobody_else_is(config: dict[str, Any]) -> None:
    """Train on two machines with one worker alone on one of them; that one sleeps."""
    if parallel.group.current().place.local_world_size == 1:
        config["worker"] = parallel.rank()
        Path(config["folder"], "alone").write_text(str(parallel.rank()), encoding="utf-8")
    else:
        config["worker"] = None
    train(config)


def connect_to_nobody() -> str:
    """Return what a worker hears that waits for those of another machine, where there is none."""
    with pytest.raises(parallel.ExchangeTimeoutError) as caught:
        Link("nobody", 1, 2, 0.5)
    return str(caught.value)


def train_for_ever(config: dict[str, Any]) -> None:
    """Train until the job is ended, and say when it has begun to."""
    model = parallel.prepare(training.perceptron())
    optimizer = nn.optim.SGD(model.parameters(), lr=0.05)
    step = 0
    while True:
        with new_dispose_scope("step"):
            x, y = training.part_of_batch(step)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        step += 1
        if step % 50 == 0:
            parallel.report({"step": step}, {"model": model.state_dict()})
        Path(config["running"]).touch()


def leak(config: dict[str, Any]) -> None:
    """Train, and in one worker keep a tensor of each step."""
    model = parallel.prepare(training.perceptron())
    for step in range(config["steps"]):
        with new_dispose_scope("step") as scope:
            x, y = training.part_of_batch(step)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            if parallel.rank() == config["worker"]:
                kept.append(scope.move_to_outer(tensor.ones((1000,)) * step))


def read_shard(config: dict[str, Any]) -> None:
    """Add up what comes of a data set, in tensors over the object store."""
    import ray.train

    total, rows, pins = 0.0, 0, []
    held = []
    for batch in parallel.iter_batches(ray.train.get_dataset_shard("train"), batch_size=64):
        total += batch["x"].sum().item()
        rows += batch["x"].shape[0]
        pins.append(len(parallel.store_pins()))
        held.append(batch["x"])
    assert all(x.is_invalid for x in held)
    every = parallel.prepare(nn.Linear(1, 1))
    with tensor.no_grad():
        every.weight.fill_(0.0)
    every(tensor.tensor([[total]])).sum().backward()
    parallel.report(
        {"mean": every.weight.grad.item(), "rows": rows, "pins_after": len(parallel.store_pins())}, "done"
    )


def load_shard(config: dict[str, Any]) -> None:
    """Read a shard twice by a loader, each batch in its step's scope, and add up the gradients."""
    import ray.train

    shard = ray.train.get_dataset_shard("train")
    loader = nn.data.DataLoader(parallel.RayDataset(shard, ("x", "y")), batch_size=96)
    tensor.manual_seed(0)
    model = parallel.prepare(training.perceptron())
    held, pins, rows = [], [], 0
    for _ in range(2):
        batches = iter(loader)
        while True:
            with new_dispose_scope("step"):
                if (batch := next(batches, None)) is None:
                    break
                x, y = batch
                pins.append(len(parallel.store_pins()))
                rows += len(x)
                nn.functional.cross_entropy(model(x), y).backward()
                held.append(x)
    assert all(x.is_invalid for x in held)
    gradients = [p.grad.numpy().copy() for p in model.parameters()]
    parallel.report({"rows": rows, "pins": max(pins), "pins_after": len(parallel.store_pins())}, "done")
    if parallel.rank() == 0:
        np.savez(config["gradients"], *gradients)


def tell_places() -> None:
    """Report the average of a number of each worker, and what all see of each other."""
    model = parallel.prepare(nn.Linear(1, 1, bias=False))
    for _ in range(5):
        model.weight.grad = None
        model(tensor.tensor([[parallel.rank() + 1.0]])).sum().backward()
    parallel.barrier()
    group = parallel.statistics()
    parallel.report(
        {
            "gradient": model.weight.grad.item(),
            "workers": sorted(group.workers),
            "steps": [it.step for it in group.workers.values()],
            "nodes": parallel.group.current().place.node_count,
        },
        "done",
    )


def learn_with_torch(config: dict[str, Any]) -> None:
    """Train PyTorch's tensors under our scopes; keep some in one worker."""
    import torch

    import scopes.torch

    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with scopes.torch.owning():
        for step in range(config["steps"]):
            with new_dispose_scope("step") as scope:
                loss = model(torch.ones(4, 8)).sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if parallel.rank() == 1:
                    kept.append(scope.move_to_outer(torch.ones(1000) * step))


def values_in(result: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return the parameters of a job's last checkpoint."""
    with scopes.new_dispose_scope():
        state = parallel.load_checkpoint(result.checkpoint)
        return {name: x.numpy().copy() for name, x in state["model"].items()}
