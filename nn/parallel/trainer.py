"""What starts a job: a trainer of Ray Train with our exchange, watched."""

from __future__ import annotations

import traceback
import uuid
from typing import TYPE_CHECKING, Any

from nn.parallel.errors import require
from nn.parallel.group import TIMEOUT
from nn.parallel.regions import remove
from nn.parallel.watching import Watch

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


class Trainer:
    """A job of Ray Train whose workers train replicas of one model.

    Ray places the workers, restarts them from the last checkpoint (``RunConfig(failure_config=...)``), shards
    the `datasets` and keeps checkpoints.

    Parameters
    ----------
    train_loop_per_worker
        What each worker runs, with ``train_loop_config`` if it takes an argument.
    timeout
        How long workers wait for each other before they raise `ExchangeTimeoutError`, in seconds.
    track, trace
        As for `Watch`.
    **options
        What Ray's ``DataParallelTrainer`` takes: ``train_loop_config``, ``scaling_config``, ``run_config``,
        ``datasets``, ``dataset_config``.

    Attributes
    ----------
    ray_trainer
        Ray's trainer, for what else takes one.

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
        """Run the job, and return Ray's ``Result``; what the workers told is read by `statistics` afterwards.

        Raises
        ------
        ray.train.TrainingFailedError
            If a worker raised, or was lost more often than ``FailureConfig(max_failures=...)`` allows.
        """
        with self._watch as watch:
            self._exchange.board = watch.board
            # Of this call alone: copies of this trainer may run elsewhere at the same time.
            self._exchange.job = uuid.uuid4().hex[:12]
            try:
                return self.ray_trainer.fit()
            except BaseException as error:
                # Frames of Ray's refer to objects of the store: a stored error would keep these.
                traceback.clear_frames(error.__traceback__)
                raise
            finally:
                self._exchange.board = None
                # Where all workers of this machine were killed at once while they made shared memory.
                remove(f"{self._exchange.job}.")


def _processors(scaling: Any) -> int:
    """Return how many threads a worker may compute on: one for each of its processors, and at least one."""
    resources = getattr(scaling, "resources_per_worker", None) or {}
    return max(1, int(resources.get("CPU", 1)))
