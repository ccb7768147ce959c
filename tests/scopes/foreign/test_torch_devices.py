"""On the CPU and on CUDA, a scope gives back its memory, and the numbers are those without scopes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from scopes import TensorDisposedError, new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.torch import memory  # noqa: E402
from tests.torch_programs import PROGRAMS, Program  # noqa: E402

on_cuda = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device: torch.cuda.is_available() is False here"
)
both = pytest.mark.parametrize("exact", [False, True], ids=["functions", "operators"])
STEPS = 4


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=on_cuda)])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """A device, on which factories of PyTorch make tensors during the test."""
    with torch.device(request.param):
        yield request.param


def allocated(device: str) -> int:
    """Return the bytes of all storages: on CUDA, PyTorch's own figure; on the CPU, those of all tensors."""
    gc.collect()
    if device == "cpu":
        tensors = [x for x in gc.get_objects() if torch.Tensor in type(x).__mro__]
        return sum(dict(map(memory.footprint, tensors)).values())
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # this looks at which streams are done
    return int(torch.cuda.memory_allocated())


@both
def test_a_scope_gives_back_its_memory_though_a_list_holds_the_tensors(device: str, exact: bool) -> None:
    kept = []
    with scopes.torch.owning(exact=exact):
        before = allocated(device)
        for _ in range(3):
            with new_dispose_scope("step"):
                x = torch.randn(1000, 100)
                kept += [x, (x * 2).sum(), x[:10]]
                assert allocated(device) >= before + 400_000
            assert allocated(device) == before
    with pytest.raises(TensorDisposedError, match="'step' ended"):
        kept[0] + 1


@both
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_has_equal_losses_and_the_same_memory_after_each_step(
    program: type[Program], device: str, exact: bool
) -> None:
    def train(*, scoped: bool) -> tuple[list[float], list[int]]:
        torch.manual_seed(0)
        made, losses, sizes = program(), [], []
        for _ in range(STEPS):
            with new_dispose_scope("step") if scoped else nullcontext() as scope:
                losses.append(made.step())
                if scope is not None:
                    scope.move_to_outer(made.state())
            sizes.append(allocated(device))
        return losses, sizes

    plain, _ = train(scoped=False)
    with scopes.torch.owning(exact=exact):
        losses, sizes = train(scoped=True)
    assert losses == plain
    # The first step makes the state of the optimizer.
    assert sizes[1:] == sizes[1:2] * (STEPS - 1)


@both
def test_mixed_precision_with_a_scaler_is_as_without_scopes(device: str, exact: bool) -> None:
    def train(*, scoped: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        scaler, losses = torch.amp.GradScaler(device), []
        for _ in range(STEPS):
            with new_dispose_scope("step") if scoped else nullcontext():
                with torch.autocast(device, dtype=torch.bfloat16):
                    loss = model(torch.randn(4, 8)).float().square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.item())
        return losses

    plain = train(scoped=False)
    with scopes.torch.owning(exact=exact):
        assert train(scoped=True) == plain


def test_the_report_by_device_has_the_bytes(device: str) -> None:
    with scopes.torch.owning(), new_dispose_scope() as scope:
        x = torch.ones(250)
        (row,) = scopes.torch.memory_by_device(scope).rows
        assert (row.device, row.count, row.nbytes) == (str(x.device), 1, 1000)
    assert (row.allocated_bytes is None) == (device == "cpu")


def _enter_by_context(stream: Any) -> Any:
    return torch.cuda.stream(stream)


@on_cuda
@both
@pytest.mark.parametrize(
    "enter", [_enter_by_context, lambda stream: stream], ids=["context", "stream itself"]
)
def test_a_tensor_that_a_side_stream_uses_is_not_given_back_before_that_stream_is_done(
    enter: Any, exact: bool
) -> None:
    n = 2**22
    side = torch.cuda.Stream()
    found = torch.empty(n, device="cuda")
    start = allocated("cuda")
    with scopes.torch.owning(exact=exact):
        with new_dispose_scope():
            x = torch.full((n,), 7.0, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with enter(side):
                torch.cuda._sleep(200_000_000)  # the stream uses `x` long after the scope has ended
                found.copy_(x)
        # On the main stream; without the record this is the memory of `x`.
        others = [torch.zeros(n, device="cuda") for _ in range(4)]
    torch.cuda.synchronize()
    assert found.eq(7.0).all()
    del others
    assert allocated("cuda") == start


@on_cuda
def test_a_scope_may_end_while_a_graph_is_captured() -> None:
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    found, source = torch.zeros(1000, device="cuda"), torch.ones(1000, device="cuda")
    with scopes.torch.owning():
        with torch.cuda.stream(side):
            source + 1  # first uses load kernels, which a capture refuses
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=side), new_dispose_scope():
            found.copy_(source + 1)
        graph.replay()
    torch.cuda.synchronize()
    assert found.eq(2.0).all()
