"""Hugging Face's trainer with a scope for each step: the same figures to the bit, and no scope stays open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import scopes
from scopes import current_dispose_scope
from scopes.integrations.transformers import ScopedTrainer

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

names: set[str | None] = set()


class Model(GPT2LMHeadModel):  # type: ignore[misc]
    failing_at = -1
    calls = 0

    def forward(self, input_ids: Any = None, labels: Any = None, **kwargs: Any) -> Any:
        self.calls += 1
        scope = current_dispose_scope()
        names.add(None if scope is None else scope.name)
        if self.calls == self.failing_at:
            raise ZeroDivisionError
        out = super().forward(input_ids, labels=labels, **kwargs)
        if scope is not None:
            assert out.logits in scope
        return out


def trainer(kind: type, folder: Path, steps: int) -> Any:
    torch.manual_seed(0)
    rows = [torch.randint(0, 64, (12,)).tolist() for _ in range(24)]
    data = [{"input_ids": row, "labels": row} for row in rows]
    given = TrainingArguments(
        str(folder),
        max_steps=steps,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        logging_steps=1,
        save_steps=2,
        eval_steps=2,
        eval_strategy="steps",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    sizes = {"vocab_size": 64, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    return kind(Model(config), given, train_dataset=data, eval_dataset=data[:8])


TIMES = ("runtime", "per_second")


def logged(trainer: Any) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in entry.items() if not key.endswith(TIMES)}
        for entry in trainer.state.log_history
    ]


def figures(kind: type, folder: Path) -> list[Any]:
    """Train with evaluation and checkpoints, resume from one, evaluate and predict."""
    names.clear()
    first = trainer(kind, folder, 4)
    first.train()
    found: list[Any] = [logged(first), first.evaluate()["eval_loss"]]
    second = trainer(kind, folder, 6)
    second.train(resume_from_checkpoint=str(folder / "checkpoint-4"))
    found += [logged(second), second.predict(second.eval_dataset).predictions.tolist()]
    found.append([parameter.tolist() for parameter in second.model.parameters()])
    assert current_dispose_scope() is None
    return found


def test_figures_are_the_same_to_the_bit(tmp_path: Path) -> None:
    plain = figures(Trainer, tmp_path / "plain")
    assert names == {None}
    assert [entry["grad_norm"] for entry in plain[0] if "grad_norm" in entry]
    assert figures(ScopedTrainer, tmp_path / "scoped") == plain
    assert names == {"training step", "prediction step"}


def test_a_step_that_raises_ends_its_scope(tmp_path: Path) -> None:
    running = trainer(ScopedTrainer, tmp_path, 4)
    running.model.failing_at = 3
    with pytest.raises(ZeroDivisionError):
        running.train()
    assert current_dispose_scope() is None
    with scopes.new_dispose_scope() as scope:
        assert torch.ones(3) not in scope
