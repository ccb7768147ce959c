"""What frameworks keep in their own ways outlives a scope around each step or call."""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scopes import TensorDisposedError, current_dispose_scope, new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.torch import keepers  # noqa: E402

both = pytest.mark.parametrize("exact", [False, True], ids=["functions", "operators"])

FULLY_SHARDED = """
import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import scopes.torch
from scopes import new_dispose_scope


def train(owned):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=init_device_mesh("cpu", (1,)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        with scopes.torch.owning(), new_dispose_scope() as scope:
            loss = net(torch.randn(4, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if not owned:
                scope.detach(scope.disposables_view)
    return losses


dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
print(json.dumps([train(True), train(False)]))
dist.destroy_process_group()
"""


def test_a_fully_sharded_model_trains_with_a_scope_around_each_step(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FULLY_SHARDED, str(tmp_path / "meeting")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    owned, plain = json.loads(done.stdout.splitlines()[-1])
    assert owned == plain


def small_gpt2() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1
    )
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(config).eval()


def small_tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    # The library makes texts of all words behind "abcdef", so this must be a word.
    words = {"abcdef": 0, **{f"w{n}": n for n in range(1, 64)}}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="abcdef"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="abcdef", pad_token="w1")


@both
@pytest.mark.filterwarnings("ignore")
def test_the_global_of_generate_keeps_what_stops_it(exact: bool) -> None:
    model, tokenizer = small_gpt2(), small_tokenizer()
    found = []
    for _ in range(3):
        with scopes.torch.owning(exact=exact), new_dispose_scope():
            ids = torch.tensor([[2, 3, 4]])
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=4,
                stop_strings=["w9"],
                tokenizer=tokenizer,
                pad_token_id=1,
            )
            found.append(out.tolist())
    assert found[0] == found[1] == found[2]


def trainer_with(folder: Path, steps: int, *callbacks: Any, model: Any = None) -> Any:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    data = [{"input_ids": [n, 2, 3, 4], "labels": [n, 2, 3, 4]} for n in range(16)]
    given = transformers.TrainingArguments(
        str(folder),
        max_steps=steps,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        logging_steps=1,
        save_steps=2,
        eval_steps=2,
        eval_strategy="steps",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    return transformers.Trainer(
        model or small_gpt2(), given, train_dataset=data, eval_dataset=data[:4], callbacks=list(callbacks)
    )


def scope_per_step() -> Any:
    """Return a user's callback that opens a scope when a step begins, and closes it when the step ends."""
    transformers = pytest.importorskip("transformers")

    class ScopePerStep(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.scope = new_dispose_scope("step")

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.scope.dispose()

    return ScopePerStep()


def figures_of_training(folder: Path, *callbacks: Any) -> list[Any]:
    """Train with logging, evaluation and checkpoints, evaluate, resume from one, and return all figures."""
    first = trainer_with(folder, 4, *callbacks)
    first.train()
    found = [first.evaluate()["eval_loss"]]
    second = trainer_with(folder, 7, *callbacks)
    second.train(resume_from_checkpoint=str(folder / "checkpoint-4"))
    found.append([parameter.tolist() for parameter in second.model.parameters()])
    for each in (first, second):
        found += [
            [row[key] for key in ("loss", "grad_norm", "eval_loss") if key in row]
            for row in each.state.log_history
        ]
    return found


@both
@pytest.mark.filterwarnings("ignore")
def test_a_callback_may_open_a_scope_for_each_step_of_a_trainer(tmp_path: Path, exact: bool) -> None:
    plain = figures_of_training(tmp_path / "plain")
    with scopes.torch.owning(exact=exact):
        assert figures_of_training(tmp_path / "owned", scope_per_step()) == plain
        assert current_dispose_scope() is None
    assert len(plain) > 12


@pytest.mark.filterwarnings("ignore")
def test_the_next_scope_reports_one_that_a_callback_left_open_because_a_step_raised(tmp_path: Path) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    def train() -> None:
        trainer = trainer_with(tmp_path, 2, scope_per_step())
        trainer.model.register_forward_pre_hook(fail)
        with pytest.raises(ZeroDivisionError):
            trainer.train()  # it calls no callback when a step raises

    with scopes.torch.owning():
        train()
        assert "'step'" in str(current_dispose_scope())
        gc.collect()  # the trainer, its callback and the callback's scope
        with pytest.warns(ResourceWarning, match="'step'.* was never ended, and no variable refers to it"):
            new_dispose_scope().dispose()
        scope = current_dispose_scope()
        assert scope is not None
        scope.dispose()
        assert current_dispose_scope() is None


MODELS = """
import torch


class Strategy:
    def __init__(self, inputs, weight):
        self.mean = (inputs * weight).sum()


class ExactModel(torch.nn.Module):
    # It keeps what its first prediction computes, with a graph.

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.strategy = None

    def __call__(self, inputs):
        if self.strategy is None:
            self.strategy = Strategy(inputs, self.weight)
        return super().__call__(inputs) + self.strategy.mean
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "exact_models.py").write_text(MODELS)
    monkeypatch.setattr(keepers, "_INSTALLED", (*keepers._INSTALLED, f"{tmp_path}{os.sep}"))
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("exact_models")
    del sys.modules["exact_models"]


@both
def test_the_base_class_of_a_users_model_keeps_what_it_sets(exact: bool, models: Any) -> None:
    class Model(models.ExactModel):  # type: ignore[misc, name-defined]
        def forward(self, inputs: Any) -> Any:
            self.last = inputs * self.weight
            return self.last

    model = Model()
    for _ in range(2):
        with scopes.torch.owning(exact=exact), new_dispose_scope():
            assert model(torch.ones(2)).tolist() == [3.0, 3.0]
    assert model.strategy.mean.item() == 2.0
    assert getattr(model.last, "is_invalid", False)  # the user's class set it, and it has a graph


def test_the_error_in_a_package_that_may_be_a_library_says_how_to_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "from_a_checkout.py").write_text("LAST = []\n\n\ndef total():\n    return LAST[0].sum()\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("from_a_checkout")
    with scopes.torch.owning(), new_dispose_scope():
        module.LAST.append(torch.ones(2))
    with pytest.raises(TensorDisposedError, match="DISPOSESCOPE_TORCH_LIBRARIES=from_a_checkout"):
        module.total()
    with pytest.raises(TensorDisposedError) as caught:
        module.LAST[0].sum()
    assert "DISPOSESCOPE_TORCH_LIBRARIES" not in str(caught.value)
