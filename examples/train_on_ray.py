"""Train a classifier of handwritten digits by two workers on Ray, and print the memory of all workers.

    pip install '.[ray,examples]'
    python examples/train_on_ray.py
    python examples/train_on_ray.py --workers 4 --epochs 20 --trace job.json.gz

Without an address Ray starts its own cluster on this machine; with ``--address auto`` the same program trains
on a running cluster. If a worker is killed, Ray starts the group again from the last checkpoint: to try it,
kill one of the processes whose ids the program prints.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

import nn
import tensor
from nn import parallel
from nn.data import DataLoader, TensorDataset
from scopes import new_dispose_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

EXTRA_MISSING = "this example needs Ray and scikit-learn: pip install '.[ray,examples]'"
# The batch size of all workers together.
BATCH = 64


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return the images for training, and a fifth that is held out."""
    from sklearn.datasets import load_digits

    images, labels = map(np.asarray, load_digits(return_X_y=True))
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 16).astype(np.float32), labels[order]
    held_out = len(images) // 5
    parts = (slice(held_out, None), slice(held_out))
    train, test = (TensorDataset(tensor.from_numpy(images[p]), tensor.from_numpy(labels[p])) for p in parts)
    return train, test


def train(config: dict[str, Any]) -> None:
    """Train one replica: the function that each worker runs."""
    tensor.manual_seed(0)
    train_data, test_data = digits()
    model = parallel.prepare(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = nn.optim.Adam(model.parameters(), lr=config["lr"])
    size = BATCH // parallel.world_size()
    loader = parallel.prepare_data_loader(DataLoader(train_data, size, shuffle=True, generator=0))

    first = 0
    with new_dispose_scope("checkpoint"):
        state = parallel.checkpoint()
        if state is not None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            first = state["epoch"]
    loader.sampler.set_epoch(first)  # type: ignore[union-attr]  # the loader's own sampler
    print(f"worker {parallel.rank()} of {parallel.world_size()}: process {os.getpid()}, epoch {first + 1}")

    for epoch in range(first, config["epochs"]):
        for x, y in loader:
            with new_dispose_scope("step"):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()  # gradients are averaged over all workers here
                optimizer.step()
        with new_dispose_scope("test"), tensor.no_grad():
            x, y = test_data.tensors
            accuracy = (model(x).argmax(dim=1) == y).float().mean().item()
            done = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
            parallel.report({"epoch": epoch + 1, "accuracy": accuracy}, done)


def main(arguments: Sequence[str] | None = None) -> float:
    """Run the job, print the reports of the workers, and return the accuracy on held-out digits."""
    parser = argparse.ArgumentParser(description="Train on handwritten digits by several workers on Ray.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--address", help="the address of a running cluster; 'auto' finds one")
    parser.add_argument(
        "--storage",
        help="the folder for checkpoints; on a cluster a folder or bucket that all nodes can access",
    )
    parser.add_argument("--trace", help="a file for https://ui.perfetto.dev: the scopes of all workers")
    chosen = parser.parse_args(arguments)
    try:
        import ray
        import sklearn  # noqa: F401  # in the workers
        from ray import train as ray_train
    except ImportError:
        raise SystemExit(EXTRA_MISSING) from None

    if not ray.is_initialized():
        # As many processors as workers, so that the job starts on a machine with fewer, too.
        local = {"num_cpus": max(chosen.workers, os.cpu_count() or 1)} if chosen.address is None else {}
        ray.init(chosen.address or "local", include_dashboard=False, logging_level=logging.WARNING, **local)
    trainer = parallel.Trainer(
        train,
        train_loop_config={"epochs": chosen.epochs, "lr": chosen.lr},
        scaling_config=ray_train.ScalingConfig(num_workers=chosen.workers),
        run_config=ray_train.RunConfig(
            storage_path=chosen.storage or tempfile.mkdtemp(prefix="train_on_ray-"),
            failure_config=ray_train.FailureConfig(max_failures=3),
        ),
        track=True,
        trace=chosen.trace,
    )
    result = trainer.fit()
    accuracy = float(result.metrics["accuracy"])
    print(f"\nheld-out accuracy {accuracy:.2%} after {result.metrics['epoch']} epochs; {result.checkpoint}\n")
    print(parallel.statistics(), parallel.memory(), parallel.leaks(), sep="\n\n")
    return accuracy


if __name__ == "__main__":
    main()
