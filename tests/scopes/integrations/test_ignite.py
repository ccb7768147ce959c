"""Engines of Ignite with a scope for each iteration: the same figures to the bit, and no scope stays open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ignite")
import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver, EMAHandler
from ignite.metrics import Loss, RunningAverage

import scopes
from scopes import current_dispose_scope
from scopes.integrations.ignite import scope_iterations

SIZE = 8


def data() -> list[Any]:
    torch.manual_seed(1)
    return [(torch.randn(4, SIZE), torch.randn(4, 1)) for _ in range(6)]


def figures(attach: Callable[[Any], Any], folder: Path) -> list[Any]:
    """Train with metrics, evaluation and checkpoints, then go on from one."""
    found: list[Any] = []
    criterion = torch.nn.MSELoss()
    for epochs in (2, 4):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(SIZE, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        trainer = attach(
            create_supervised_trainer(
                model, optimizer, criterion, output_transform=lambda x, y, y_pred, loss: (loss, y_pred)
            )
        )
        evaluator = attach(create_supervised_evaluator(model, {"loss": Loss(criterion)}))
        RunningAverage(output_transform=lambda output: output[0]).attach(trainer, "average")
        EMAHandler(model, momentum=0.01).attach(trainer, name="momentum", event=Events.ITERATION_COMPLETED)

        def note(engine: Any) -> None:
            loss, prediction = engine.state.output
            found.append((loss.item(), prediction.sum().item(), float(engine.state.metrics["average"])))

        def evaluate(engine: Any, evaluator: Any = evaluator) -> None:
            found.append(evaluator.run(data()).metrics["loss"])

        trainer.add_event_handler(Events.ITERATION_COMPLETED, note)
        trainer.add_event_handler(Events.EPOCH_COMPLETED, evaluate)
        parts = {"model": model, "optimizer": optimizer, "trainer": trainer}
        saver = Checkpoint(parts, DiskSaver(str(folder), require_empty=False), n_saved=1)
        trainer.add_event_handler(Events.EPOCH_COMPLETED, saver)
        if epochs == 4:
            (path,) = folder.glob("checkpoint_*.pt")
            Checkpoint.load_objects(parts, torch.load(path))
        trainer.run(data(), epochs)
        found.append([parameter.tolist() for parameter in model.parameters()])
    assert current_dispose_scope() is None
    return found


def test_figures_are_the_same_to_the_bit(tmp_path: Path) -> None:
    assert figures(scope_iterations, tmp_path / "scoped") == figures(
        lambda engine: engine, tmp_path / "plain"
    )


def test_an_iteration_owns_its_tensors_and_moves_its_output_out() -> None:
    made = []

    def update(engine: Any, batch: float) -> Any:
        scope = current_dispose_scope()
        assert scope is not None
        assert scope.name == "update"
        made.append(torch.full((3,), batch))
        assert made[-1] in scope
        return made[-1] * 2

    engine = scope_iterations(Engine(update), "update")
    assert engine.run([1.0, 2.0]).output.tolist() == [4.0, 4.0, 4.0]
    assert [x.is_invalid for x in made] == [True, True]


def test_an_iteration_that_raises_ends_its_scope() -> None:
    def update(engine: Any, batch: float) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scope_iterations(Engine(update)).run([1.0])
    assert current_dispose_scope() is None
    with scopes.new_dispose_scope() as scope:
        assert torch.ones(3) not in scope


def test_what_is_no_engine_is_an_error() -> None:
    with pytest.raises(TypeError, match="takes an engine of Ignite, not int"):
        scope_iterations(3)
