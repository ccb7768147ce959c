"""Lightning's trainer with a scope for each batch: the same figures to the bit, and no scope stays open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning")
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

import scopes
from scopes import current_dispose_scope
from scopes.integrations.lightning import ScopeCallback

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*num_workers:Warning"),
    pytest.mark.filterwarnings("ignore:.*log_every_n_steps:Warning"),
    pytest.mark.filterwarnings("ignore:.*Checkpoint directory .* exists and is not empty:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Model(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        self.losses: list[float] = []
        self.batch_ends: list[float] = []
        self.scope_names: set[str | None] = set()
        self.failing_at = -1

    def loss(self, batch: Any) -> Any:
        scope = current_dispose_scope()
        self.scope_names.add(None if scope is None else scope.name)
        x, y = batch
        hidden = self.net[0](x).relu()
        if scope is not None:
            assert hidden in scope
        return torch.nn.functional.mse_loss(self.net[2](hidden), y)

    def training_step(self, batch: Any, index: int) -> Any:
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.losses.append(loss.item())
        if len(self.losses) == self.failing_at:
            raise ZeroDivisionError
        return {"loss": loss, "double": loss.detach() * 2}

    def on_train_batch_end(self, outputs: Any, batch: Any, index: int) -> None:
        self.batch_ends += [outputs["double"].item(), batch[0].sum().item()]

    def validation_step(self, batch: Any, index: int) -> Any:
        loss = self.loss(batch)
        self.log("validation", loss, on_epoch=True)
        return loss

    def test_step(self, batch: Any, index: int) -> None:
        self.log("test", self.loss(batch))

    def predict_step(self, batch: Any, index: int) -> Any:
        return self.net(batch[0])

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


def loader(*, shuffle: bool = False) -> Any:
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(48, 8), torch.randn(48, 1))
    return DataLoader(data, 8, shuffle=shuffle)


def trainer(folder: Path, epochs: int, callbacks: list[Any]) -> Any:
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[*callbacks, ModelCheckpoint(folder, monitor="validation", save_last=True)],
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        gradient_clip_val=0.5,
    )


def figures(folder: Path, *, scoped: bool) -> list[Any]:
    """Train, resume from a checkpoint, test and predict."""
    found: list[Any] = []
    for epochs, checkpoint in ((2, None), (3, folder / "last.ckpt")):
        torch.manual_seed(0)
        model = Model()
        running = trainer(folder, epochs, [ScopeCallback()] if scoped else [])
        running.fit(model, loader(shuffle=True), loader(), ckpt_path=checkpoint)
        found += [model.losses, model.batch_ends]
        found.append({name: float(value) for name, value in sorted(running.callback_metrics.items())})
    found.append(running.test(model, loader(), verbose=False))
    found.append([prediction.tolist() for prediction in running.predict(model, loader())])
    names = {"training batch", "validation batch", "test batch"} if scoped else {None}
    assert model.scope_names == names
    assert current_dispose_scope() is None
    return found


def test_figures_are_the_same_to_the_bit(tmp_path: Path) -> None:
    assert figures(tmp_path / "scoped", scoped=True) == figures(tmp_path / "plain", scoped=False)


def test_a_batch_that_raises_ends_its_scope(tmp_path: Path) -> None:
    model = Model()
    model.failing_at = 4
    running = trainer(tmp_path, 1, [ScopeCallback()])
    with pytest.raises(ZeroDivisionError):
        running.fit(model, loader(), loader())
    assert current_dispose_scope() is None
    with scopes.new_dispose_scope() as scope:
        assert torch.ones(3) not in scope
