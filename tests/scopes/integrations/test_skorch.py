"""Nets of skorch with a scope for each batch: the same figures to the bit, and no scope stays open."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("skorch")
import numpy as np
import torch
from sklearn.base import clone
from skorch import NeuralNetClassifier
from skorch.callbacks import Checkpoint, EpochScoring, GradientNormClipping, LoadInitState

import scopes
from scopes import current_dispose_scope
from scopes.integrations.skorch import ScopesMixin


class Classifier(ScopesMixin, NeuralNetClassifier):  # type: ignore[misc]
    pass


names: set[str | None] = set()


class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    failing_at = -1
    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        Net.calls += 1
        scope = current_dispose_scope()
        names.add(None if scope is None else scope.name)
        if Net.calls == Net.failing_at:
            raise ZeroDivisionError
        hidden = self.hidden(x).relu()
        if scope is not None:
            assert hidden in scope
        return self.out(hidden).softmax(-1)


def data() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.normal(size=(60, 8)).astype(np.float32), random.integers(0, 3, 60)


def net_of(kind: type, folder: Path) -> Any:
    saver = Checkpoint(dirname=str(folder), monitor=None)
    scoring = EpochScoring("accuracy", name="train_accuracy", on_train=True)
    callbacks = [LoadInitState(saver), saver, scoring, GradientNormClipping(1.0)]
    options = {"max_epochs": 3, "lr": 0.1, "batch_size": 8, "verbose": 0, "iterator_train__shuffle": True}
    return clone(kind(Net, callbacks=callbacks, **options))


def figures(kind: type, folder: Path) -> list[Any]:
    """Train with validation and checkpoints, go on from one, predict, and predict with a pickled copy."""
    found: list[Any] = []
    names.clear()
    x, y = data()
    for _ in range(2):
        torch.manual_seed(0)
        net = net_of(kind, folder).fit(x, y)
        keys = ("epoch", "train_loss", "valid_loss", "valid_acc", "train_accuracy")
        found += [net.history[:, keys], net.history[:, "batches", :, "train_loss"]]
    found += [net.predict_proba(x).tolist(), pickle.loads(pickle.dumps(net)).predict(x).tolist()]
    assert current_dispose_scope() is None
    return found


def test_figures_are_the_same_to_the_bit(tmp_path: Path) -> None:
    plain = figures(NeuralNetClassifier, tmp_path / "plain")
    assert names == {None}
    assert figures(Classifier, tmp_path / "scoped") == plain
    assert names == {"training batch", "validation batch", "evaluation batch"}


def test_a_batch_that_raises_ends_its_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Net, "failing_at", Net.calls + 3)
    net = Classifier(Net, verbose=0, batch_size=8)
    with pytest.raises(ZeroDivisionError):
        net.fit(*data())
    assert current_dispose_scope() is None
    with scopes.new_dispose_scope() as scope:
        assert torch.ones(3) not in scope
