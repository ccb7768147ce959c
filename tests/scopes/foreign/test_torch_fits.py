"""What a training step needs is known before it runs, and the step leaves no trace."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint, checkpoint_sequential  # noqa: E402

import scopes.torch  # noqa: E402
from scopes.adapters.torch.fitting import search_largest  # noqa: E402

nn = torch.nn
functional = torch.nn.functional


def mlp(width: int = 256) -> Any:
    return nn.Sequential(
        nn.Sequential(nn.Linear(64, width), nn.ReLU()),
        nn.Sequential(nn.Linear(width, width), nn.ReLU()),
        nn.Sequential(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, 10),
    )


def convolutional() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.Flatten(),
        nn.Linear(32 * 64, 10),
    )


class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 96, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(96, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x.view(len(x), -1, 64))[0][:, -1])


def step_of(model: Any, optimizer: Any) -> Callable[..., object]:
    def step(x: Any, y: Any) -> None:
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def adam(model: Any) -> Any:
    return torch.optim.Adam(model.parameters())


def batch(size: int = 32) -> tuple[Any, Any]:
    return torch.randn(size, 64), torch.randint(0, 10, (size,))


def images(size: int = 16) -> tuple[Any, Any]:
    return torch.randn(size, 3, 8, 8), torch.randint(0, 10, (size,))


def sequences(size: int = 16) -> tuple[Any, Any]:
    return torch.randn(size, 12, 64), torch.randint(0, 10, (size,))


CASES = {"mlp": (mlp, batch), "convolutions": (convolutional, images), "lstm": (Recurrent, sequences)}


@pytest.mark.parametrize("make_optimizer", [sgd, adam])
@pytest.mark.parametrize("case", CASES)
def test_a_step_on_fake_tensors_needs_what_a_real_step_needs(
    case: str, make_optimizer: Callable[[Any], Any]
) -> None:
    make, data = CASES[case]
    model = make()
    optimizer = make_optimizer(model)
    step = step_of(model, optimizer)
    x, y = data()
    known = scopes.torch.fits(step, x, y)
    step(x, y)  # makes the optimizer's state
    measured = scopes.torch.fits(step, x, y, real=True)
    assert measured.is_measured
    assert known.peak_bytes == pytest.approx(measured.peak_bytes, rel=0.005)


def test_a_checkpointed_step_needs_what_it_really_needs() -> None:
    model = mlp()
    optimizer = sgd(model)

    def step(x: Any, y: Any) -> None:
        functional.cross_entropy(checkpoint_sequential(model, 3, x, use_reentrant=False), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    x, y = batch(512)
    known = scopes.torch.fits(step, x, y)
    step(x, y)
    assert known.peak_bytes == pytest.approx(scopes.torch.fits(step, x, y, real=True).peak_bytes, rel=0.01)


def allocated_bytes(step: Callable[..., object], *args: Any) -> int:
    """Return the most that PyTorch's allocator has given out at once during a step, above the start.

    oneDNN takes its buffers there too.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step(*args)
    events = [each for each in profile.profiler.kineto_results.events() if each.name() == "[memory]"]
    events.sort(key=lambda each: each.start_ns())
    changes: list[int] = [each.nbytes() for each in events]
    return max(accumulate(changes))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("size", [16, 48])
@pytest.mark.parametrize("is_checkpointed", [False, True])
@pytest.mark.parametrize("make_optimizer", [sgd, adam])
@pytest.mark.parametrize(("features", "hidden"), [(300, 100), (64, 256)], ids=["wide", "narrow"])
def test_an_lstm_needs_what_pytorch_allocates(
    features: int, hidden: int, make_optimizer: Callable[[Any], Any], is_checkpointed: bool, size: int
) -> None:
    lstm, head = nn.LSTM(features, hidden, batch_first=True), nn.Linear(hidden, 10)
    optimizer = make_optimizer(nn.ModuleList([lstm, head]))

    def step(x: Any, y: Any) -> None:
        out = checkpoint(lstm, x, use_reentrant=False)[0] if is_checkpointed else lstm(x)[0]
        functional.cross_entropy(head(out[:, -1]), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    x, y = torch.randn(size, 20, features), torch.randint(0, 10, (size,))
    known = scopes.torch.fits(step, x, y)
    step(x, y)  # makes the optimizer's state
    before = known.parts["parameters"] + known.parts["optimizer"] + x.nbytes + y.nbytes
    assert known.peak_bytes == pytest.approx(before + allocated_bytes(step, x, y), rel=0.01)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
def test_an_lstm_without_gradients_keeps_nothing_for_backward() -> None:
    lstm = nn.LSTM(64, 256)
    x = torch.randn(50, 32, 64)

    def outputs(x: Any) -> list[Any]:
        with torch.no_grad():
            return [lstm(x)[0] for _ in range(3)]

    known = scopes.torch.fits(outputs, x)
    outputs(x)
    before = known.parts["parameters"] + x.nbytes
    assert known.peak_bytes == pytest.approx(before + allocated_bytes(outputs, x), rel=0.05)


@pytest.mark.parametrize("has_stepped", [False, True])
@pytest.mark.parametrize("make_optimizer", [sgd, adam])
def test_model_optimizer_and_random_states_stay_as_they_are(
    has_stepped: bool, make_optimizer: Callable[[Any], Any]
) -> None:
    model = convolutional()
    optimizer = make_optimizer(model)
    step, (x, y) = step_of(model, optimizer), images()
    if has_stepped:
        step(x, y)
        functional.cross_entropy(model(x), y).backward()
    parameters = list(model.parameters())
    tensors = [*parameters, *model.buffers(), *[p.grad for p in parameters if p.grad is not None]]
    tensors += [
        v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)
    ]
    before = [(tensor, tensor.detach().clone()) for tensor in tensors]
    grads = [p.grad for p in parameters]
    states = {p: dict(state) for p, state in optimizer.state.items()}
    randoms = torch.get_rng_state(), random.getstate()

    scopes.torch.fits(step, x, y, memory="64 MiB")

    assert all(torch.equal(tensor, value) for tensor, value in before)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert all(p.grad is grad for p, grad in zip(parameters, grads, strict=True))
    assert {p: set(state) for p, state in optimizer.state.items()} == {p: set(s) for p, s in states.items()}
    assert all(optimizer.state[p][name] is value for p, s in states.items() for name, value in s.items())
    assert torch.equal(torch.get_rng_state(), randoms[0])
    assert random.getstate() == randoms[1]


def test_lists_and_attributes_that_the_step_changes_are_put_back() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = mlp()
            self.steps = 0
            self.losses: list[float] = []

        def step(self, x: Any) -> None:
            self.steps += 1
            self.losses.append(self.model(x).sum().item())
            self.last = x

    trainer = Trainer()
    report = scopes.torch.fits(trainer.step, torch.ones(4, 64))
    assert (trainer.steps, trainer.losses, hasattr(trainer, "last")) == (0, [], False)
    assert any("item()" in remark and "Trainer.step" in remark for remark in report.remarks)


def test_parts_add_up_to_the_peak_and_so_do_modules() -> None:
    model = mlp()
    report = scopes.torch.fits(step_of(model, adam(model)), *batch(256))
    assert sum(report.parts.values()) == report.peak_bytes
    assert report.parts["parameters"] == sum(p.nbytes for p in model.parameters())
    assert sum(row.nbytes for row in report.modules) == report.peak_bytes - report.parts["inputs"]
    assert report.parts["optimizer"] >= 2 * report.parts["parameters"]
    assert {"0.0", "1.0", "3"} <= {row.module for row in report.modules}


def test_the_line_that_creates_activations_is_named() -> None:
    model = mlp(16)
    optimizer = sgd(model)

    def step(x: Any) -> None:
        large = x.exp()
        model(large * large).sum().backward()
        optimizer.step()

    report = scopes.torch.fits(step, torch.ones(10_000, 64))
    largest = report.lines[0].site
    assert largest is not None
    assert "large" in largest.text


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    model = mlp()
    step = step_of(model, sgd(model))
    report = scopes.torch.fits(step, *batch(), memory="8 MiB")
    largest = report.largest_batch
    assert report.fits
    assert largest is not None
    step(*batch())  # makes the optimizer's state
    assert scopes.torch.fits(step, *batch(largest), real=True).peak_bytes <= 8 * 2**20
    assert scopes.torch.fits(step, *batch(int(1.1 * largest)), real=True).peak_bytes > 8 * 2**20


def test_a_step_that_does_not_fit_says_so() -> None:
    model = mlp()
    report = scopes.torch.fits(step_of(model, sgd(model)), *batch(), memory="100 KiB")
    assert report.fits is False
    assert report.largest_batch == 0
    assert "does not fit into 100 KiB; no batch does" in str(report)


def test_checkpointing_blocks_saves_memory_for_compute() -> None:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)) for _ in range(6)])
    report = scopes.torch.fits(step_of(model, sgd(model)), *batch(4096))
    row = report.checkpoints[0]
    assert row.modules == tuple("012345")
    assert row.saved_bytes > 0.2 * report.peak_bytes
    assert row.peak_bytes == report.peak_bytes - row.saved_bytes
    assert row.extra_compute is not None
    assert 0.1 < row.extra_compute < 0.5
    assert "forward" not in vars(model[0])


def test_a_step_that_does_not_run_with_a_checkpoint_is_named_in_a_remark() -> None:
    class Once(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            if torch._C._current_graph_task_id() != -1:
                raise RuntimeError("this module runs once")
            return x * 2

    model = nn.Sequential(*[nn.Sequential(Once(), nn.Linear(64, 64)) for _ in range(3)])
    report = scopes.torch.fits(step_of(model, sgd(model)), *batch())
    assert report.checkpoints == ()
    assert any("checkpoint of 0 to 2" in each and "runs once" in each for each in report.remarks)
    assert "this module runs once" in str(report)


def test_a_comparison_of_a_value_is_an_error_that_names_the_line() -> None:
    model = mlp()

    def step(x: Any) -> None:
        if model(x).sum().item() > 0:
            x.exp()

    with pytest.raises(scopes.torch.NotFakeError, match=r"test_torch_fits.*item\(\) > 0") as caught:
        scopes.torch.fits(step, torch.ones(4, 64))
    assert caught.value.site.function.endswith("step")


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: bool(x.sum()),
        lambda x: x.numpy(),
    ],
    ids=["nonzero", "mask", "bool", "numpy"],
)
def test_what_depends_on_values_is_an_error(use: Callable[[Any], object]) -> None:
    with pytest.raises(scopes.torch.NotFakeError, match="test_torch_fits"):
        scopes.torch.fits(lambda x: use(x.exp()), torch.ones(5))


def test_a_function_with_its_own_backward_leaves_no_gradient() -> None:
    class Double(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            ctx.save_for_backward(x, weight)
            return x * weight

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, weight = ctx.saved_tensors
            return grad * weight, grad * x

    weight = nn.Parameter(torch.ones(100))
    scopes.torch.fits(lambda x: Double.apply(x, weight).sum().backward(), torch.ones(100))
    assert weight.grad is None


@pytest.mark.parametrize(
    ("fixed", "slope", "limit"), [(1000, 7, 10_000), (0, 1, 1), (50, 3, 10), (10**8, 3 * 10**5, 10**9)]
)
def test_the_search_finds_the_largest_batch(fixed: int, slope: int, limit: int) -> None:
    search = search_largest(64, fixed + 64 * slope, limit)
    size = next(search)
    with pytest.raises(StopIteration) as end:
        while True:
            size = search.send(fixed + slope * size)
    largest = max(0, (limit - fixed) // slope)
    assert largest * 0.995 - 1 <= end.value.value <= largest


PROGRAM = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

def main():
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.randn(100, 64), torch.randint(0, 10, (100,)))
    for x, y in DataLoader(data, batch_size=20, shuffle=True, num_workers=2):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.3f}")
        #CHECK
    print("the end of the program")

if __name__ == "__main__":
    main()
"""


def run_command(tmp_path: Path, *arguments: str, source: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    (tmp_path / "train.py").write_text(source)
    command = [sys.executable, "-m", "disposescope", "fits", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=False, env=os.environ.copy()
    )


def test_the_command_tells_the_largest_batch_and_stops_the_program(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "--json", "train.py", "--memory", "4MiB")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    weights = 4 * (64 * 512 + 512 + 512 * 10 + 10)
    assert report["fits"]
    assert report["batch"] == 20
    assert report["largest_batch"] > 100
    assert report["parts"]["parameters"] == weights
    assert report["parts"]["optimizer"] >= 2 * weights
    assert "loss ?" in ran.stderr
    assert "the end of the program" not in ran.stderr


def test_the_command_exits_with_1_if_the_program_does_not_fit(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "--memory", "100KiB", "train.py")
    assert ran.returncode == 1, ran.stderr
    assert "does not fit into 100 KiB" in ran.stdout


def test_the_command_names_the_line_that_needs_a_value_and_offers_a_real_step(tmp_path: Path) -> None:
    source = PROGRAM.replace("#CHECK", "assert loss.item() < 1000")
    ran = run_command(tmp_path, "train.py", source=source)
    assert ran.returncode == 2
    assert "train.py:16" in ran.stderr
    assert "--real" in ran.stderr
    real = run_command(tmp_path, "--real", "--json", "train.py", source=source)
    assert real.returncode == 0, real.stderr
    assert json.loads(real.stdout)["peak_bytes"] > 0


def test_the_command_says_that_a_program_does_not_train(tmp_path: Path) -> None:
    ran = run_command(tmp_path, "train.py", source="import torch\ntorch.ones(3)\n")
    assert ran.returncode == 2
    assert "before its first optimizer step" in ran.stderr
