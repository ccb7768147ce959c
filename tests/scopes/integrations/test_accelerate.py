"""A loop with Accelerate and a scope for each step: the same figures to the bit, and no scope stays open."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("accelerate")
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import scopes
from scopes import current_dispose_scope
from scopes.integrations.accelerate import accumulate


def figures(folder: Path, *, scoped: bool) -> list[Any]:
    """Train with accumulated gradients, save the state, load it into a second loop, and go on."""
    found: list[Any] = []
    for epoch in range(2):
        torch.manual_seed(0)
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        data = TensorDataset(torch.randn(48, 8), torch.randn(48, 1))
        net: Any = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        optimizer: Any = torch.optim.AdamW(net.parameters(), lr=1e-2)
        schedule: Any = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.9)
        model, optimizer, loader, schedule = accelerator.prepare(
            net, optimizer, DataLoader(data, 8), schedule
        )
        if epoch == 1:
            accelerator.load_state(str(folder))
        for x, y in loader:
            step: AbstractContextManager[Any]
            step = accumulate(accelerator, model) if scoped else accelerator.accumulate(model)
            with step as scope:
                hidden = model[:2](x)
                loss = torch.nn.functional.mse_loss(model[2](hidden), y)
                if scoped:
                    assert hidden in scope
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    found.append(float(accelerator.clip_grad_norm_(model.parameters(), 1.0)))
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                found.append(accelerator.gather(loss).item())
            assert not scoped or hidden.is_invalid
        accelerator.save_state(str(folder))
        found.append([parameter.tolist() for parameter in model.parameters()])
    assert current_dispose_scope() is None
    return found


def test_figures_are_the_same_to_the_bit(tmp_path: Path) -> None:
    assert figures(tmp_path / "scoped", scoped=True) == figures(tmp_path / "plain", scoped=False)


def test_a_step_that_raises_ends_its_scope() -> None:
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(torch.nn.Linear(2, 1))
    with pytest.raises(ZeroDivisionError), accumulate(accelerator, model, name="failing") as scope:
        assert scope.name == "failing"
        raise ZeroDivisionError
    assert scope.is_disposed
    assert current_dispose_scope() is None
    with scopes.new_dispose_scope() as other:
        assert torch.ones(3) not in other
