"""Start a job: a trainer of Ray Train with gradient exchange and reports."""

from __future__ import annotations

import os
import traceback
import uuid
from collections.abc import Callable
from typing import Any

from nn.parallel.errors import require
from nn.parallel.group import TIMEOUT
from nn.parallel.regions import remove
from nn.parallel.watching import Watch
from scopes._shared.naming import set_module


@set_module("nn.parallel")
class Trainer:
    """Trainer of Ray Train whose workers train replicas of one model.

    Ray places the workers, restarts them from the last checkpoint (``RunConfig(failure_config=...)``), shards
    the `datasets` and keeps checkpoints.

    Parameters
    ----------
    train_loop_per_worker
        The function that each worker runs. It may take ``train_loop_config`` as an argument.
    timeout
        The seconds that workers wait for each other before they raise `ExchangeTimeoutError`.
    track, trace
        As for `Watch`.
    **options
        Arguments of Ray's ``DataParallelTrainer``: ``train_loop_config``, ``scaling_config``, ``run_config``,
        ``datasets``, ``dataset_config``.

    Attributes
    ----------
    ray_trainer
        The trainer of Ray, for other libraries.

    Raises
    ------
    ModuleNotFoundError
        If Ray is not installed.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        timeout: float = TIMEOUT,
        track: bool = False,
        trace: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        require("ray.train")
        jobs = require("nn.parallel.jobs")
        self._watch = Watch(track=track, trace=trace)
        self._exchange = jobs.ExchangeConfig(timeout, _processors(options.get("scaling_config")))
        self.ray_trainer: Any = jobs.make_trainer(
            self._watch.loop(train_loop_per_worker), self._exchange, options
        )

    def fit(self) -> Any:
        """Run the job, and return Ray's ``Result``. Afterwards `statistics` returns the workers' reports.

        Raises
        ------
        ray.train.TrainingFailedError
            If a worker raised an error, or was lost more often than ``FailureConfig(max_failures=...)``
            allows.
        """
        with self._watch as watch:
            self._exchange.board = watch.board
            # Use a new name for each call, because copies of this trainer may run at the same time.
            self._exchange.job = uuid.uuid4().hex[:12]
            try:
                return self.ray_trainer.fit()
            except BaseException as error:
                # Ray's frames refer to objects of the store, which a stored error would keep alive.
                traceback.clear_frames(error.__traceback__)
                raise
            finally:
                self._exchange.board = None
                # Files remain if all workers of this machine were killed while they created shared memory.
                remove(f"{self._exchange.job}.")


def _processors(scaling: Any) -> int:
    """Return the number of threads of a worker: one for each of its processors, and at least one."""
    resources = getattr(scaling, "resources_per_worker", None) or {}
    return max(1, int(resources.get("CPU", 1)))
