"""A budget for what PyTorch's graphs save: same gradients to the bit, less memory, whole after faults."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import scopes.torch  # noqa: E402
from scopes import SpillError, TensorDisposedError, new_dispose_scope  # noqa: E402
from tests.interrupts import interrupt_at_random_moments, kill_when_it_spills  # noqa: E402

nn = torch.nn
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
PLACES = {"cpu": {"spill": True}, "cuda": {}, "cuda, pinned": {"host": 20_000, "spill": True}}


@pytest.fixture(params=[place if place == "cpu" else pytest.param(place, marks=CUDA) for place in PLACES])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def device(place: str) -> str:
    return place.partition(",")[0]


@pytest.fixture
def budget(place: str, tmp_path: Path) -> Callable[[int], scopes.torch.budget]:
    options = {name: tmp_path if name == "spill" else value for name, value in PLACES[place].items()}
    return lambda size: scopes.torch.budget(size, **options)


@pytest.fixture(autouse=True)
def no_file_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert list(tmp_path.iterdir()) == []


def network(seed: int, device: str = "cpu") -> nn.Module:
    """Return a network of random layers for images of 3 x 12 x 12."""
    torch.manual_seed(seed)
    choose = random.Random(seed)
    layers: list[nn.Module] = [nn.Conv2d(3, 8, 3, padding=1)]
    for _ in range(choose.randrange(3, 8)):
        kind = choose.choice(["conv", "norm", "relu", "gelu", "dropout", "sigmoid", "in place", "group"])
        layers.append(
            {
                "conv": lambda: nn.Conv2d(8, 8, 3, padding=1),
                "norm": lambda: nn.BatchNorm2d(8),
                "relu": nn.ReLU,
                "gelu": nn.GELU,
                "dropout": nn.Dropout,
                "sigmoid": nn.Sigmoid,
                "in place": lambda: nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU(inplace=True)),
                "group": lambda: nn.GroupNorm(2, 8),
            }[kind]()
        )
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 144, 5)).to(device)


def gradients(model: nn.Module, device: str = "cpu", seed: int = 0) -> list[torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(seed)
    x = torch.randn(4, 3, 12, 12, device=device)
    model(x).square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 100))]
)
def test_gradients_of_a_random_network_are_the_same_to_the_bit(
    seed: int, device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    model = network(seed, device)
    plain = gradients(model, device)
    with budget(2**30) as held:
        assert same(gradients(model, device), plain)
    figures = held.statistics()
    assert figures.spill_count == 0
    for part in (0, 0.3, 0.6):
        with budget(int(part * figures.peak_bytes)) as held:
            assert same(gradients(model, device), plain)
        assert held.statistics().spill_count > 0


def sines(x: torch.Tensor, count: int) -> torch.Tensor:
    for _ in range(count):
        x = x.sin()
    return x


def leaf(device: str = "cpu", count: int = 10_000) -> torch.Tensor:
    return torch.linspace(0, 1, count, device=device, requires_grad=True)


def test_only_the_copies_that_the_budget_demands_are_made(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    x = leaf(device)
    with budget(9 * 40_000) as held:
        sines(x, 10).sum().backward()  # the last nine outputs are saved; x is a leaf
        assert held.statistics().spill_count == 0
        y = sines(x, 12)
        figures = held.statistics()
        assert (figures.spill_count, figures.held_bytes) == (2, 9 * 40_000)
        y.sum().backward()
    figures = held.statistics()
    assert (figures.held_bytes, figures.peak_bytes) == (0, 9 * 40_000)
    assert (figures.return_count, figures.file_bytes, figures.host_bytes) == (2, 0, 0)
    assert device == "cpu" or figures.ahead_count > 0


def test_what_the_program_keeps_too_is_not_copied(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    x = leaf(device)
    with budget(0) as held:
        kept = [x]
        for _ in range(5):
            kept.append(kept[-1].sin())
        assert held.statistics().spill_count == 0
        del kept[:-1]
        (x * 2).sin()
        assert held.statistics().spill_count > 0


def test_peak_and_held_bytes_leave_out_what_the_program_keeps_too(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    with budget(2**30) as held:
        kept = [leaf(device)]
        for _ in range(6):
            kept.append(kept[-1].sin())
        figures = held.statistics()
        assert (figures.held_bytes, figures.peak_bytes) == (0, 0)
        del kept[1:-1]
        figures = held.statistics()
        assert (figures.held_bytes, figures.peak_bytes) == (5 * 40_000, 5 * 40_000)
        kept[-1].sum().backward()
    figures = held.statistics()
    assert (figures.held_bytes, figures.peak_bytes) == (0, 5 * 40_000)


def test_peak_includes_what_the_program_drops_before_backward(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    with budget(2**30) as held:
        kept = [leaf(device)]
        for _ in range(6):
            kept.append(kept[-1].sin())
        del kept[1:-1]
        kept[-1].sum().backward()
    assert held.statistics().peak_bytes == 5 * 40_000


def test_parameters_and_their_views_are_not_copied(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    weight = torch.ones(200, 200, device=device, requires_grad=True)
    with budget(0) as held:
        y = torch.ones(1, 200, device=device, requires_grad=True) @ weight.t()
        y.sum().backward()
    assert held.statistics().spill_count == 0


def test_memory_that_several_nodes_save_is_copied_once(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    x = leaf(device)
    with budget(0) as held:
        y = x.exp()
        z = y.view(100, 100).t()[:50].sin().sum() + y[10:].sin().sum() + y.sum()
        del y
        (x * 2).sin()
        # y, which four nodes save as views of one storage; and what two sines of x * 2 save
        assert held.statistics().file_bytes + held.statistics().host_bytes <= 3 * 40_960
        z.backward()
    wanted = x.detach().requires_grad_()
    y = wanted.exp()
    (y.view(100, 100).t()[:50].sin().sum() + y[10:].sin().sum() + y.sum()).backward()
    assert torch.equal(x.grad, wanted.grad)


def test_backward_may_run_twice_and_after_the_block(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    x = leaf(device)
    with budget(50_000):
        y = sines(x, 6).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    assert torch.equal(x.grad, 2 * first)
    x.grad = None
    sines(x, 6).sum().backward()
    assert torch.equal(x.grad, first)


def test_second_derivatives_are_the_same(device: str, budget: Callable[[int], scopes.torch.budget]) -> None:
    def second(x: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(sines(x, 5).sum(), x, create_graph=True)
        (result,) = torch.autograd.grad(first.square().sum(), x)
        return result

    x = leaf(device)
    with budget(50_000) as held:
        assert torch.equal(second(x), second(leaf(device)))
    assert torch.equal(second(x), second(leaf(device)))
    assert held.statistics().return_count > 0


def test_a_new_tensor_at_the_address_of_an_evicted_one_is_saved_itself(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    with budget(4 * 40_000):
        loss = sines(leaf(device), 8).sum()
        kept = [torch.full((10_000,), float(n), device=device) for n in range(100)]
        loss.backward(retain_graph=True)  # brings back what was evicted, to other addresses
        weight = leaf(device)
        sum((weight * x).sum() for x in kept).backward()
    assert torch.equal(weight.grad, torch.full_like(weight, sum(range(100))))


def test_a_change_in_place_is_found_out(device: str, budget: Callable[[int], scopes.torch.budget]) -> None:
    x = leaf(device)
    with budget(50_000):
        y = x * 2
        z = sines(y, 5)
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_it_works_with_checkpoints(
    use_reentrant: bool, device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    from torch.utils.checkpoint import checkpoint

    def gradient(x: torch.Tensor) -> torch.Tensor:
        y = sines(x, 3)
        for _ in range(3):
            y = checkpoint(sines, y, 3, use_reentrant=use_reentrant)
        y.sum().backward()
        return x.grad

    with budget(50_000) as held:
        inside = gradient(leaf(device))
    assert torch.equal(inside, gradient(leaf(device)))
    assert held.statistics().return_count > 0


def test_it_works_with_autocast(device: str, budget: Callable[[int], scopes.torch.budget]) -> None:
    model = network(3, device)

    def with_autocast() -> list[torch.Tensor]:
        with torch.autocast(device, dtype=torch.bfloat16):
            return gradients(model, device)

    with budget(0) as held:
        inside = with_autocast()
    assert same(inside, with_autocast())
    assert held.statistics().return_count > 0


def test_it_works_with_functions_of_ones_own(
    device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * 2)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            _, twice = ctx.saved_tensors
            return gradient * twice

    x = leaf(device)
    with budget(0) as held:
        sines(Twice.apply(x.sin()), 3).sum().backward()
    other = leaf(device)
    sines(Twice.apply(other.sin()), 3).sum().backward()
    assert torch.equal(x.grad, other.grad)
    assert held.statistics().return_count > 0


def test_sparse_and_complex_values_pass(device: str, budget: Callable[[int], scopes.torch.budget]) -> None:
    def gradient(x: torch.Tensor) -> torch.Tensor:
        y = torch.view_as_complex(x.sin().view(-1, 2))
        z = (y.conj() * y.exp()).real.sin().sum() + (y.conj().imag * y.real).sum()
        (
            torch.sparse.mm(torch.eye(100, device=device).to_sparse(), x.view(100, 100)).sin().sum() + z
        ).backward()
        return x.grad

    plain = gradient(leaf(device))
    with budget(0) as held:
        assert torch.equal(gradient(leaf(device)), plain)
    assert held.statistics().spill_count > 0


def test_tensors_without_memory_pass(budget: Callable[[int], scopes.torch.budget]) -> None:
    x = leaf("meta")
    with budget(0) as held:
        sines(x, 3).sum().backward()
    assert x.grad.shape == (10_000,)
    assert held.statistics().spill_count == 0


@pytest.mark.parametrize(("count", "spilled"), [(1023, 0), (1024, 2)])
def test_tensors_below_4_kib_stay(
    count: int, spilled: int, device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    with budget(0) as held:
        sines(leaf(device, count), 4).sum().backward()
    assert held.statistics().spill_count == spilled


@pytest.mark.parametrize("exact", [False, True])
def test_it_works_where_scopes_own_tensors(
    exact: bool, device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    model = network(5, device)
    plain = gradients(model, device)
    with scopes.torch.owning(exact=exact), budget(0) as held:
        for _ in range(2):
            with new_dispose_scope():
                y = sines(leaf(device), 4)
                assert same([x.clone() for x in gradients(model, device)], plain)
        with pytest.raises(TensorDisposedError):
            y.sum()
    with budget(0) as held, scopes.torch.owning(exact=exact):
        x = leaf(device)
        with new_dispose_scope() as scope:
            y = scope.move_to_outer(sines(x, 4))
        y.sum().backward()
    assert held.statistics().return_count > 0


PEAK = r"""
import re, sys, torch
from contextlib import nullcontext
from pathlib import Path
import scopes.torch

def highest():
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])

x = torch.ones(1_000_000, requires_grad=True)
def step(count):
    with scopes.torch.budget("20 MB", spill=sys.argv[1]) if sys.argv[2] == "budget" else nullcontext():
        y = x
        for _ in range(count):
            y = y.sin()
    y.sum().backward()
step(2)
before = highest()
step(40)
print(highest() - before)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the memory of a process is read from Linux"
)
def test_the_resident_size_falls(tmp_path: Path) -> None:

    def rise(mode: str) -> int:
        arguments = [sys.executable, "-c", PEAK, str(tmp_path), mode]
        return int(subprocess.run(arguments, capture_output=True, check=True, text=True).stdout)

    # 40 x 4 MB, against 20 MB and what is being computed
    assert rise("budget") < 0.4 * rise("plain")


def test_mistakes_say_what_to_write_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"a limit for pinned memory requires .* host='1 GiB', spill='/a/folder'"
    ):
        with_gpu(monkeypatch, lambda: scopes.torch.budget("1 MiB", host="1 GiB"))
    with_gpu(monkeypatch, lambda: scopes.torch.budget("1 MiB"))  # pinned memory without a limit
    with pytest.raises(ValueError, match="size: 'much' is not a size"):
        scopes.torch.budget("much", spill=tmp_path)
    with pytest.raises(SpillError, match="name a folder that exists"):
        scopes.torch.budget(0, spill=tmp_path / "missing")
    with scopes.torch.budget(0, spill=tmp_path) as held, pytest.raises(RuntimeError, match="is already open"):
        held.__enter__()
    with held:  # again, after its end
        pass
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"write scopes.torch.budget\('1 MiB', spill='/a/folder'\)"):
            scopes.torch.budget("1 MiB")


def with_gpu(monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(torch.cuda, "is_available", lambda: True)
        run()


def test_a_file_that_can_not_be_read_fails_backward_and_the_step_can_be_repeated(tmp_path: Path) -> None:
    model = network(1)
    plain = gradients(model)
    held = scopes.torch.budget(0, spill=tmp_path)
    with held:
        x = torch.randn(4, 3, 12, 12)
        loss = model(x).square().sum()
        (loss * 2).sin()  # what the program has let go of is in the file now
    held._file._file.truncate(0)
    with pytest.raises(SpillError, match="can't be read back"):
        loss.backward()
    del loss
    with held:
        assert same(gradients(model), plain)
    assert held.statistics().file_bytes == 0


FULL = """
import gc, resource, sys, torch
import scopes.torch
from scopes import SpillError

resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
x = torch.linspace(0, 1, 10_000, requires_grad=True)
def gradient(size):
    x.grad = None
    with scopes.torch.budget(size, spill=sys.argv[1]) as held:
        y = x
        for _ in range(20):
            y = y.sin()
        y.sum().backward()
    return x.grad, held
plain, _ = gradient("1 GB")
try:
    gradient(100_000)
except SpillError as error:
    assert "the disk is full, or the file reached a size limit" in str(error), error
    assert x.grad is None
else:
    sys.exit("it went on")
again, held = gradient(700_000)
assert torch.equal(again, plain)
assert held.statistics().spill_count == 2, held.statistics()
"""


def test_a_full_disk_fails_forward_and_leaves_all_whole(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="needs limits of processes")
    subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], check=True)


KILLED = """
import sys, torch
import scopes.torch

x = torch.ones(100_000, requires_grad=True)
with scopes.torch.budget(0, spill=sys.argv[1]) as held:
    while True:
        y = x
        for _ in range(20):
            y = y.sin()
        if held.statistics().file_bytes:
            print("spilling", flush=True)
        y.sum().backward()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("count", [1, pytest.param(200, marks=pytest.mark.soak)])
def test_a_killed_process_leaves_no_file(count: int, tmp_path: Path) -> None:
    for _ in range(count):
        kill_when_it_spills(KILLED, tmp_path)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an alarm")
# Python reports what is raised while an object ends, and drops it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.soak)])
def test_interrupts_at_random_moments_lose_nothing(
    count: int, device: str, budget: Callable[[int], scopes.torch.budget]
) -> None:
    model = network(2, device)
    plain = gradients(model, device)
    held = budget(20_000)

    def run() -> None:
        with held:
            gradients(model, device)

    def check() -> None:
        gc.collect()
        with held:
            assert same(gradients(model, device), plain)
        figures = held.statistics()
        assert (figures.held_bytes, figures.file_bytes, figures.host_bytes) == (0, 0, 0)

    interrupt_at_random_moments(count, run, check)
