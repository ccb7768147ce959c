"""A budget for whole steps of PyTorch: the same bits in less memory, by computing saved values again."""

from __future__ import annotations

import copy
import gc
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import scopes.torch  # noqa: E402
from scopes import SpillError  # noqa: E402
from tests.interrupts import interrupt_at_random_moments  # noqa: E402

nn = torch.nn
WIDTH = 48


@pytest.fixture(autouse=True)
def no_file_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: several make small operations slow on a busy machine."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


class Residual(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, -1).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)


class Written(nn.Module):
    """Writes in place: into a part of a new tensor, and over values that nothing saves."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        y[:, 1:] = x[:, :-1] * 2
        y.add_(x).mul_(0.5)
        return y.clamp_(-3, 3)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.inner = kind(WIDTH, WIDTH, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0]


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x.transpose(1, 2))).transpose(1, 2)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "norm": lambda: nn.LayerNorm(WIDTH),
    "relu": nn.ReLU,
    "relu in place": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True)),
    "gelu": nn.GELU,
    "dropout": lambda: nn.Dropout(0.2),
    "softmax": lambda: nn.Softmax(-1),
    "written": Written,
    "attention": Attention,
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "conv": Convolved,
    "residual": lambda: Residual(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)),
    "prelu": nn.PReLU,
    "rrelu": nn.RReLU,
    "alpha dropout": lambda: nn.AlphaDropout(0.1),
}


def network(seed: int) -> nn.Module:
    """Return a network of random layers for sequences of vectors."""
    torch.manual_seed(seed)
    choose = random.Random(seed)
    layers = [LAYERS[name]() for name in choose.choices(list(LAYERS), k=choose.randrange(5, 14))]
    if choose.random() < 0.5:  # tied weights
        tied = [nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)]
        tied[1].weight = tied[0].weight
        layers += [tied[0], nn.Tanh(), tied[1]]
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers, nn.Linear(WIDTH, WIDTH))


def step(model: nn.Module, seed: int = 0, batch: int = 16) -> list[torch.Tensor]:
    """Return a loss, the gradients and the buffers after a step."""
    model.zero_grad()
    torch.manual_seed(seed)
    loss = model(torch.randn(batch, 16, WIDTH)).square().mean()
    loss.backward()
    found = [loss.detach()] + [p.grad.clone() for p in model.parameters()]
    return found + [buffer.clone() for buffer in model.buffers()] + [torch.rand(3)]


def reset(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.reset_running_stats()


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def check_parts(
    run: Callable[[], list[torch.Tensor]], folder: Path, parts: tuple[float, ...] = (0.9, 0.7, 0.5, 0.35)
) -> int:
    """Check `run` in budgets of parts of its peak, and return how many were kept."""
    plain = run()
    held = scopes.torch.budget(2**40, recompute=True)
    with held:
        assert same(run(), plain)
    peak, kept = held.statistics().peak_bytes, 0
    for part in parts:
        for options in ({}, {"spill": folder}, {"spill": folder, "spill_parameters": True}):
            held = scopes.torch.budget(int(part * peak), recompute=True, **options)
            try:
                with held:
                    assert same(run(), plain)
            except torch.OutOfMemoryError:
                assert part < 0.9
                continue
            figures = held.statistics()
            assert figures.peak_bytes <= part * peak
            assert figures.recompute_count + figures.spill_count > 0
            assert figures.file_bytes == 0
            kept += 1
    return kept


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(5, 100))]
)
def test_a_random_network_has_the_same_bits(seed: int, tmp_path: Path) -> None:
    model = network(seed)

    def run() -> list[torch.Tensor]:
        reset(model)
        return step(model)

    assert check_parts(run, tmp_path) >= 2


def stack(count: int = 8, width: int = 64) -> nn.Module:
    torch.manual_seed(1)
    layers = [layer for _ in range(count) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(width, width))


def test_training_with_an_optimizer_is_the_same_and_its_state_may_be_in_the_file(tmp_path: Path) -> None:
    def run() -> list[torch.Tensor]:
        model = stack(4, 128)
        optimizer = torch.optim.Adam(model.parameters())
        for seed in range(3):
            torch.manual_seed(seed)
            optimizer.zero_grad()
            model(torch.randn(32, 128)).square().mean().backward()
            optimizer.step()
        return [p.detach().clone() for p in model.parameters()]

    plain = run()
    held = scopes.torch.budget(2**40, recompute=True)
    with held:
        run()
    peak = held.statistics().peak_bytes
    # More than half of it are parameters, gradients and averages. They move to the file.
    with scopes.torch.budget(peak // 2, recompute=True, spill=tmp_path, spill_parameters=True) as held:
        found = run()
    assert same(found, plain)
    assert held.statistics().spill_count > 0
    with pytest.raises(torch.OutOfMemoryError), scopes.torch.budget(peak // 2, recompute=True):
        run()


def test_gradients_accumulate(tmp_path: Path) -> None:
    model = stack()

    def run() -> list[torch.Tensor]:
        model.zero_grad()
        torch.manual_seed(0)
        for _ in range(3):
            model(torch.randn(256, 64)).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    assert check_parts(run, tmp_path) >= 4


def test_autocast_is_replayed(tmp_path: Path) -> None:
    model = stack()

    def run() -> list[torch.Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.manual_seed(0)
            loss = model(torch.randn(512, 64)).square().mean()
        model.zero_grad()
        loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    assert check_parts(run, tmp_path) >= 4


def test_second_derivatives_are_the_same(tmp_path: Path) -> None:
    model = stack(4)

    def run() -> list[torch.Tensor]:
        torch.manual_seed(0)
        x = torch.randn(256, 64, requires_grad=True)
        (first,) = torch.autograd.grad(model(x).square().mean(), x, create_graph=True)
        model.zero_grad()
        first.square().sum().backward()
        return [x.grad] + [p.grad.clone() for p in model.parameters() if p.grad is not None]

    assert check_parts(run, tmp_path) >= 4


def test_hooks_run_once_and_see_the_same(tmp_path: Path) -> None:
    model = stack()
    calls: list[str] = []
    model[0].register_forward_hook(lambda *_: calls.append("forward"))
    model[2].register_full_backward_hook(lambda *_: calls.append("backward"))
    model[4].weight.register_hook(lambda gradient: gradient * 2)

    def run() -> list[torch.Tensor]:
        calls.clear()
        found = step_of(model)
        assert calls == ["forward", "backward"]
        return found

    assert check_parts(run, tmp_path) >= 4


def step_of(model: nn.Module, batch: int = 512) -> list[torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(0)
    model(torch.randn(batch, 64)).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()]


def test_it_works_with_checkpoints(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    model = stack()

    def run() -> list[torch.Tensor]:
        model.zero_grad()
        torch.manual_seed(0)
        x = checkpoint(model[:6], torch.randn(512, 64), use_reentrant=False)
        model[6:](x).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    assert check_parts(run, tmp_path) >= 2


def test_backward_may_run_twice_and_after_the_block(tmp_path: Path) -> None:
    model = stack()
    plain = step_of(model)
    half = peak_of(lambda: step_of(model)) // 2
    model.zero_grad()
    torch.manual_seed(0)
    with scopes.torch.budget(half, recompute=True) as held:
        loss = model(torch.randn(512, 64)).square().mean()
    loss.backward(retain_graph=True)
    assert same([p.grad for p in model.parameters()], plain)
    model.zero_grad()
    loss.backward()
    assert same([p.grad for p in model.parameters()], plain)
    assert held.statistics().recompute_count > 0


def peak_of(run: Callable[[], object]) -> int:
    with scopes.torch.budget(2**40, recompute=True) as held:
        run()
    return held.statistics().peak_bytes


def test_a_write_inside_the_block_to_what_dropped_values_need_changes_nothing(tmp_path: Path) -> None:
    def run() -> list[torch.Tensor]:
        torch.manual_seed(0)
        x, scale = torch.randn(64, 1024), torch.ones(1024)
        weight = torch.randn(1024, requires_grad=True)
        y = (x * scale).sigmoid() * weight
        for _ in range(6):
            y = y.sin()
        scale.mul_(3)  # no graph has saved it
        x.zero_()
        y.sum().backward()
        return [weight.grad]

    assert check_parts(run, tmp_path, (0.9, 0.6)) >= 3


def test_a_write_outside_the_block_is_found_out() -> None:
    x, weight = torch.randn(256, 1024), torch.randn(1024, requires_grad=True)

    def forward() -> torch.Tensor:
        y = x.sigmoid() * weight
        for _ in range(6):
            y = y.sin()
        return y.sum()

    with scopes.torch.budget(peak_of(forward) // 2, recompute=True):
        loss = forward()
    x.add_(1)
    with pytest.raises(RuntimeError, match="changed in place outside the block"):
        loss.backward()


def test_pytorchs_error_for_a_saved_tensor_that_was_changed_remains(tmp_path: Path) -> None:
    x = torch.randn(64, 1024, requires_grad=True)
    with scopes.torch.budget(2**30, recompute=True, spill=tmp_path):
        y = x.sin()
        z = y.exp().sin().sum()
        w = (y.sigmoid_() * 2).sum() + z
        w.backward()
        x.grad = None
        y = x.exp()
        z = y.sin().sum()
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()


def test_a_budget_that_is_too_small_says_how_much_is_needed(tmp_path: Path) -> None:
    model = stack()
    before = step_of(model)
    with (
        pytest.raises(torch.OutOfMemoryError, match=r"Write a budget of at least"),
        scopes.torch.budget(300_000, recompute=True, spill=tmp_path),
    ):
        step_of(model)
    assert same(step_of(model), before)


def test_code_that_reads_memory_without_an_operation_finds_it_there(tmp_path: Path) -> None:
    weights = [torch.full((64, 64), float(i), requires_grad=True) for i in range(20)]
    with scopes.torch.budget(20 * 2**14, recompute=True, spill=tmp_path, spill_parameters=True) as held:
        x = torch.ones(64, 64)
        for weight in weights:
            x = (x @ weight).clamp(-1, 1)
        for i, weight in enumerate(weights):
            assert weight.detach().numpy()[0, 0] == i
            assert weight.tolist()[3][5] == i
            assert f"{i}." in repr(weight)
            assert i > 0 or copy.deepcopy(weight)[1, 1] == i
        del x
    assert held.statistics().spill_count > 0
    assert all(weight.eq(i).all() for i, weight in enumerate(weights))


def test_data_parallel_training_is_the_same(tmp_path: Path) -> None:
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("needs a build of PyTorch with torch.distributed")
    with tempfile.TemporaryDirectory() as folder:
        distributed.init_process_group("gloo", init_method=f"file://{folder}/init", rank=0, world_size=1)
        try:
            model = nn.parallel.DistributedDataParallel(stack())
            assert check_parts(lambda: step_of(model), tmp_path) >= 2
        finally:
            distributed.destroy_process_group()


def test_tied_weights_get_the_sum_of_both_gradients(tmp_path: Path) -> None:
    model = stack()
    model[4].weight = model[0].weight
    assert check_parts(lambda: step_of(model), tmp_path) >= 4


def test_losses_that_are_kept_keep_nothing_else() -> None:
    model, losses = stack(), []
    held = scopes.torch.budget(peak_of(lambda: step_of(model)) // 2, recompute=True)
    sizes = []
    for _ in range(4):
        with held:
            model.zero_grad()
            loss = model(torch.randn(512, 64)).square().mean()
            loss.backward()
            losses.append(loss.detach())
            del loss
        sizes.append(held.statistics().held_bytes)
    assert sizes[3] - sizes[1] <= 16


def test_figures_count_all_tensors() -> None:
    gc.collect()
    with scopes.torch.budget(2**40, recompute=True) as held:
        before = held.statistics().held_bytes
        x = torch.ones(1000, 1000)
        y = x.view(-1)[5:]
        assert held.statistics().held_bytes - before == 4_000_000
        del x
        assert held.statistics().held_bytes - before == 4_000_000
        del y
        assert held.statistics().held_bytes == before
    assert held.statistics().peak_bytes - before == 4_000_000


def test_mistakes_say_what_to_write_instead() -> None:
    with pytest.raises(ValueError, match=r"recompute=True\) without host="):
        scopes.torch.budget("1 GiB", recompute=True, host="1 GiB")
    with pytest.raises(ValueError, match=r"spill_parameters=True requires a folder"):
        scopes.torch.budget("1 GiB", recompute=True, spill_parameters=True)
    with pytest.raises(ValueError, match=r"without recompute=True a budget is for saved tensors alone"):
        scopes.torch.budget("1 GiB", spill="/", spill_parameters=True)
    held = scopes.torch.budget("1 GiB", recompute=True)
    with held, pytest.raises(RuntimeError, match="is already open"):
        held.__enter__()


# --- Faults -------------------------------------------------------------------------------------------------


def test_a_file_that_can_not_be_read_or_written_fails_the_step_which_can_be_repeated(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(128, 128) for _ in range(20)))

    def step() -> list[torch.Tensor]:
        model.zero_grad()
        model(torch.ones(64, 128)).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    plain = step()
    half = peak_of(step) // 2  # most of it are parameters and gradients
    held = scopes.torch.budget(half, recompute=True, spill=tmp_path, spill_parameters=True)
    file: Any = held._steps.file
    failures = 0
    for name in ("_write_at", "_read_at"):
        real = getattr(file, name)
        for count in range(3):
            left = [count]

            def fail(block: Any, offset: int, real: Any = real, left: list[int] = left) -> int:
                left[0] -= 1
                if left[0] == -1:
                    raise OSError(5, "it failed")
                return int(real(block, offset))

            setattr(file, name, fail)
            try:
                with held:
                    step()
            except SpillError:
                failures += 1
            setattr(file, name, real)
            with held:
                assert same(step(), plain)
    assert failures > 0


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.soak)])
def test_errors_of_the_program_lose_nothing(count: int, tmp_path: Path) -> None:
    model = stack()
    plain = step_of(model)
    held = scopes.torch.budget(
        peak_of(lambda: step_of(model)) // 2, recompute=True, spill=tmp_path, spill_parameters=True
    )
    choose = random.Random(0)
    for _ in range(count):
        number, is_backward = choose.randrange(1, 17), choose.random() < 0.5

        def fail(*_: Any) -> None:
            raise ArithmeticError

        register = (
            model[number].register_full_backward_hook if is_backward else model[number].register_forward_hook
        )
        handle = register(fail)
        with pytest.raises(ArithmeticError), held:
            step_of(model)
        handle.remove()
        with held:
            assert same(step_of(model), plain)
    assert held.statistics().file_bytes == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.soak)])
def test_interrupts_at_random_moments_lose_nothing(count: int, tmp_path: Path) -> None:
    model = stack()
    plain = step_of(model)
    half = peak_of(lambda: step_of(model)) // 2
    held = scopes.torch.budget(half, recompute=True, spill=tmp_path, spill_parameters=True)

    def run() -> None:
        with held:
            step_of(model)

    def check() -> None:
        gc.collect()
        with held:
            assert same(step_of(model), plain)
        assert held.statistics().file_bytes == 0

    interrupt_at_random_moments(count, run, check)
