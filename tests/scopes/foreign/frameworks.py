"""Small training programs of frameworks, which return their losses.

Each takes `scoped`, which opens a scope as a user would: around a step, or around a call of a trainer. Models
are made from configurations and data at random, without a network.
``python -m tests.scopes.foreign.frameworks`` measures them, or those whose names it is given.
"""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import scopes.torch
from scopes import new_dispose_scope

ROOT = Path(__file__).resolve().parents[3]

Scoped = Callable[[], AbstractContextManager[Any]]
MODES = ("plain", "owning", "exact")


@contextmanager
def _in_a_scope(exact: bool):
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        yield scope


def scoped_by(mode: str) -> Scoped:
    if mode == "plain":
        return nullcontext
    return lambda: _in_a_scope(mode == "exact")


def hugging_face_trainer(scoped: Scoped) -> list[float]:
    """Train, evaluate, save, and resume from the checkpoint: a scope around each call of the trainer."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    losses: list[float] = []

    class Noting(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            losses.extend(v for k, v in logs.items() if k in ("loss", "eval_loss", "grad_norm"))

    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(0, 64, (12,), generator=generator).tolist() for _ in range(24)]
    data = [{"input_ids": row, "labels": row} for row in rows]

    def trainer(folder: str, steps: int) -> Any:
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2)
        given = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=4,
            logging_steps=1,
            save_steps=3,
            eval_steps=3,
            eval_strategy="steps",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        return Trainer(
            GPT2LMHeadModel(config), given, train_dataset=data, eval_dataset=data[:8], callbacks=[Noting()]
        )

    with tempfile.TemporaryDirectory() as folder:
        with scoped():
            first = trainer(folder, 6)
            first.train()
        with scoped():
            losses.append(first.evaluate()["eval_loss"])
        with scoped():
            second = trainer(folder, 9)
            second.train(resume_from_checkpoint=str(Path(folder, "checkpoint-6")))
    return losses


def lightning_trainer(scoped: Scoped) -> list[float]:
    """Fit with metrics and a checkpoint, then go on from it: a scope around each fit."""
    import lightning
    import torchmetrics
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch.utils.data import DataLoader, TensorDataset

    losses: list[float] = []

    class Classifier(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
            self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=3)
            self.auroc = torchmetrics.AUROC("multiclass", num_classes=3)

        def training_step(self, batch: Any, _: int) -> Any:
            x, y = batch
            logits = self.net(x)
            loss = F.cross_entropy(logits, y)
            self.accuracy(logits, y)
            self.log("accuracy", self.accuracy, on_epoch=True)
            self.log("loss", loss, on_epoch=True)
            losses.append(loss.item())
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            x, y = batch
            self.auroc.update(self.net(x).softmax(-1), y)
            self.log("auroc", self.auroc, on_epoch=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 8), torch.randint(0, 3, (48,)))

    def fit(folder: str, epochs: int, checkpoint: str | None = None) -> dict[str, Any]:
        torch.manual_seed(0)
        trainer = lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            callbacks=[ModelCheckpoint(folder, monitor="auroc", mode="max", save_last=True)],
            default_root_dir=folder,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
        )
        trainer.fit(
            Classifier(), DataLoader(data, 8, shuffle=True), DataLoader(data, 16), ckpt_path=checkpoint
        )
        return {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}

    with tempfile.TemporaryDirectory() as folder:
        with scoped():
            losses += fit(folder, 2).values()
        with scoped():
            losses += fit(folder, 3, str(Path(folder, "last.ckpt"))).values()
    return losses


def accelerate_accumulation(scoped: Scoped) -> list[float]:
    """Accumulate gradients over two batches: a scope around each batch."""
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    model: Any = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, 8, shuffle=True))
    losses = []
    for _ in range(3):
        batches = iter(loader)
        while True:
            with scoped():
                batch = next(batches, None)
                if batch is None:
                    break
                with accelerator.accumulate(model):
                    loss = F.mse_loss(model(batch[0]), batch[1])
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
                losses.append(accelerator.gather(loss).item())
    return losses


def adversarial(scoped: Scoped) -> list[float]:
    """A GAN: a scope around each step."""
    torch.manual_seed(0)
    generator = nn.Sequential(
        nn.Linear(8, 32), nn.BatchNorm1d(32), nn.LeakyReLU(0.2), nn.Linear(32, 16), nn.Tanh()
    )
    critic = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(32, 1))
    one = torch.optim.Adam(generator.parameters(), 2e-3, betas=(0.5, 0.999))
    other = torch.optim.Adam(critic.parameters(), 2e-3, betas=(0.5, 0.999))
    fixed = torch.randn(4, 8)
    losses = []
    for _ in range(40):
        with scoped():
            real, fake = torch.randn(16, 16).tanh(), generator(torch.randn(16, 8))
            wrong = F.binary_cross_entropy_with_logits(critic(real), torch.ones(16, 1))
            wrong = wrong + F.binary_cross_entropy_with_logits(critic(fake.detach()), torch.zeros(16, 1))
            other.zero_grad()
            wrong.backward()
            other.step()
            fooled = F.binary_cross_entropy_with_logits(critic(fake), torch.ones(16, 1))
            one.zero_grad()
            fooled.backward()
            one.step()
            with torch.no_grad():
                losses += [wrong.item(), fooled.item(), generator(fixed).mean().item()]
    return losses


class ReplayBuffer:
    """Keeps the newest transitions in lists of tensors."""

    def __init__(self, size: int) -> None:
        self.transitions: deque[tuple[Any, ...]] = deque(maxlen=size)

    def sample(self, count: int) -> list[Any]:
        chosen = torch.randint(0, len(self.transitions), (count,)).tolist()
        return [torch.stack(parts) for parts in zip(*[self.transitions[n] for n in chosen], strict=True)]


def proximal_policy(scoped: Scoped) -> list[float]:
    """PPO with a replay buffer, whose transitions are moved out of the scope of each round."""
    torch.manual_seed(0)
    policy, value = (nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, n)) for n in (2, 1))
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], 3e-3)
    buffer = ReplayBuffer(128)
    state, losses = torch.zeros(4), []
    for _ in range(12):
        with scoped() as scope:
            with torch.no_grad():
                for _ in range(16):
                    choice = torch.distributions.Categorical(logits=policy(state))
                    action = choice.sample()
                    after = (state * 0.9 + torch.randn(4) * 0.1 + (action.float() - 0.5) * 0.2).clamp(-1, 1)
                    reward = -after.square().sum()
                    step = (state, action, choice.log_prob(action), reward + 0.9 * value(after)[0])
                    buffer.transitions.append(step)
                    state = after
                if scope is not None:
                    scope.detach([list(buffer.transitions)[-16:], state])
        for _ in range(3):
            with scoped():
                states, actions, before, returns = buffer.sample(32)
                found = torch.distributions.Categorical(logits=policy(states))
                guess = value(states)[:, 0]
                ratio = (found.log_prob(actions) - before).exp()
                gain = returns - guess.detach()
                loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                loss = loss + 0.5 * F.mse_loss(guess, returns) - 0.01 * found.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimizer.step()
                losses.append(loss.item())
    return losses


def generation(scoped: Scoped) -> list[float]:
    """GPT-2 with a cache that is kept between calls: a scope around each call, the cache made outside."""
    from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2, eos_token_id=None, bos_token_id=0
    )
    model = GPT2LMHeadModel(config).eval()
    cache = DynamicCache(config=config)
    tokens, found = [1, 2, 3], []
    for _ in range(6):
        with scoped() as scope, torch.no_grad():
            ids = torch.tensor([tokens])
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=4,
                do_sample=False,
                past_key_values=cache,
                use_cache=True,
                output_scores=True,
                return_dict_in_generate=True,
                pad_token_id=0,
            )
            tokens = out.sequences[0].tolist()
            found += [score.max().item() for score in out.scores]
            if scope is not None:
                scope.detach(cache)
    return [*found, *map(float, tokens)]


def _train_rank(mode: str, folder: str) -> None:
    """Train in one of the processes of DDP; that of rank 0 writes the losses, and the time of the steps."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    scoped = scoped_by(mode)
    torch.manual_seed(dist.get_rank())
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    losses = []
    began = time.process_time()
    for _ in range(40):
        with scoped():
            loss = model(torch.randn(8, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            losses.append(mean.item())
    seconds = time.process_time() - began
    if dist.get_rank() == 0:
        Path(folder, "found").write_text(json.dumps({"losses": losses, "seconds": seconds}), encoding="utf-8")
    # Its threads end with the group, which the model holds. On Python 3.11 a C++ thread that asks for the
    # interpreter at the end of the process aborts the process.
    del model, net, optimizer, loss, mean
    gc.collect()
    dist.destroy_process_group()


def _of_rank(rank: int, mode: str, folder: str) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    _train_rank(mode, folder)


def start_ranks(mode: str, folder: str) -> None:
    """Run both ranks to their end."""
    torch.multiprocessing.start_processes(_of_rank, (mode, folder), nprocs=2, start_method="spawn")


def of_torchrun(mode: str, folder: str) -> None:
    """Train in a process that torchrun has started."""
    torch.distributed.init_process_group("gloo")
    _train_rank(mode, folder)


def _distribute(function: str, mode: str, *before: str) -> tuple[list[float], float]:
    """Call a function of this module in a process of its own; return losses and seconds of rank 0."""
    program = f"from tests.scopes.foreign import frameworks; frameworks.{function}({{!r}}, {{!r}})"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *before, "-c", program.format(mode, folder)]
        subprocess.run(command, cwd=ROOT, check=True)
        found = json.loads(Path(folder, "found").read_text(encoding="utf-8"))
    return found["losses"], found["seconds"]


def _spawned(mode: str) -> tuple[list[float], float]:
    """DDP over gloo with two processes: a scope around each step."""
    # From a process of its own: the start method spawn needs a whole `__main__`, which other tests replace.
    return _distribute("start_ranks", mode)


def _by_torchrun(mode: str) -> tuple[list[float], float]:
    """The same, in processes that torchrun starts."""
    torchrun = "-m torch.distributed.run --standalone --nproc-per-node=2 --no-python"
    return _distribute("of_torchrun", mode, *torchrun.split(), sys.executable)


# These take a mode, and return losses and seconds: their processes open the scopes.
_DISTRIBUTED = (_spawned, _by_torchrun)

#: By name: the program, and the packages that it needs beside PyTorch.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "Hugging Face Trainer": (hugging_face_trainer, ("transformers", "accelerate")),
    "Lightning Trainer": (lightning_trainer, ("lightning", "torchmetrics")),
    "accelerate, accumulation": (accelerate_accumulation, ("accelerate",)),
    "DDP, two processes": (_spawned, ()),
    "DDP by torchrun": (_by_torchrun, ()),
    "GAN": (adversarial, ()),
    "PPO, replay buffer": (proximal_policy, ()),
    "GPT-2 generate, cache kept": (generation, ("transformers",)),
}


def _timed(name: str, mode: str) -> tuple[list[float], float]:
    """Return what a program gives on one thread, and the seconds of processor time that it takes."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    program, _ = PROGRAMS[name]
    if program in _DISTRIBUTED:
        losses, seconds = program(mode)
    else:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            began = time.process_time()
            losses = program(scoped_by(mode))
            seconds = time.process_time() - began
        finally:
            torch.set_num_threads(threads)
    assert losses
    assert all(map(math.isfinite, losses))
    return losses, seconds


def run(name: str, mode: str) -> list[float]:
    """Return what a program gives."""
    return _timed(name, mode)[0]


def main() -> None:
    write = sys.stdout.write
    write("| program | plain | `owning()` | `exact=True` |\n|---|---|---|---|\n")
    for name in sys.argv[1:] or PROGRAMS:
        least = dict.fromkeys(MODES, math.inf)
        for _ in range(3):
            for mode in MODES:
                least[mode] = min(least[mode], _timed(name, mode)[1])
        plain = least["plain"]
        cells = [f"{least[mode]:.3f} s ({least[mode] / plain - 1:+.0%})" for mode in MODES[1:]]
        write(f"| {name} | {plain:.3f} s | {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
