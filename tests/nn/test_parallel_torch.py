"""Models of PyTorch on the workers of `nn.parallel`, by DistributedDataParallel. Needs PyTorch, not Ray."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from nn import parallel
from tests import workers

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="workers share memory by files and locks of POSIX"
)


@pytest.fixture(autouse=True)
def one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


def test_replicas_of_pytorch_learn_as_one_process_with_scopes_and_without() -> None:
    from tests.nn import parallel_torch as jobs

    alone_losses, alone = jobs.train({"steps": 40})
    plain, owning = [workers.run(2, jobs.train, {"steps": 40, "scopes": scopes}) for scopes in (False, True)]
    assert not [result for result in (*plain, *owning) if isinstance(result, str)], (plain, owning)
    # float64: two halves of a batch are added in another order than one whole batch.
    losses = np.mean([found for found, _ in plain], axis=0)
    np.testing.assert_allclose(losses, alone_losses, rtol=0, atol=1e-12)
    for name, values in alone.items():
        np.testing.assert_allclose(plain[0][1][name], values, rtol=0, atol=1e-12)
        assert plain[1][1][name].tobytes() == plain[0][1][name].tobytes()
    # Scopes change no bit.
    assert [found for found, _ in owning] == [found for found, _ in plain]
    for name in alone:
        assert owning[0][1][name].tobytes() == plain[0][1][name].tobytes()


def test_no_sync_accumulates_gradients_of_pytorch_on_each_worker() -> None:
    from tests.nn import parallel_torch as jobs

    first, second = workers.run(2, jobs.accumulate)
    assert first == ([2.0, 2.0], [3.0, 3.0])
    assert second == ([4.0, 4.0], [3.0, 3.0])


def test_a_killed_worker_of_pytorch_is_named() -> None:
    from tests.nn import parallel_torch as jobs

    told, nothing = workers.run(2, jobs.train_until_one_is_killed)
    assert nothing is None
    assert told.startswith("worker 1 has ended or was killed while the others exchanged gradients of PyTorch")


def test_a_program_alone_gets_its_model_of_pytorch_back() -> None:
    model: Any = torch.nn.Linear(2, 1)
    assert parallel.prepare(model) is model
