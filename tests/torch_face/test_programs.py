"""What programs written for PyTorch do, on `tensor.torch`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn as ours
import tensor
import tensor.torch as torch
import tensor.torch.backends.cudnn as cudnn
import tensor.torch.nn.functional as F
from scopes import new_dispose_scope, statistics
from tensor import InvalidArgumentError
from tensor.torch import nn, optim
from tensor.torch.autograd import Function
from tensor.torch.distributions import Categorical, Normal
from tensor.torch.nn import init
from tensor.torch.nn.parameter import Parameter
from tensor.torch.optim import lr_scheduler
from tensor.torch.optim.lr_scheduler import StepLR
from tensor.torch.utils.checkpoint import checkpoint
from tensor.torch.utils.data import DataLoader, TensorDataset
from tests.torch_face.expressions import CALLS, assert_same, plain, recorded, values


@pytest.mark.parametrize("line", CALLS)
def test_each_line_gives_what_pytorch_gave_when_it_was_recorded(line: str) -> None:
    found = eval(line, {"torch": torch, "nn": nn, "F": F, **values(torch)})
    assert_same(plain(found), recorded()[line])


def test_modules_and_optimizers_are_those_of_nn() -> None:
    assert nn.Linear is ours.Linear
    assert nn.Parameter is Parameter is ours.Parameter
    assert F.relu is ours.functional.relu
    assert torch.nn.functional.relu is F.relu
    assert optim.Adam is ours.optim.Adam
    assert StepLR is lr_scheduler.StepLR is ours.optim.lr_scheduler.StepLR
    assert init.normal_ is ours.init.normal_
    assert DataLoader is ours.data.DataLoader
    assert Function is tensor.autograd.Function
    assert torch.Tensor is tensor.Tensor


def test_a_training_loop_runs_with_its_imports_changed() -> None:
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cudnn.benchmark = True
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=5, gamma=0.5)
    data = TensorDataset(torch.randn(12, 4), torch.randint(0, 3, (12,)))
    losses = []
    for _ in range(10):
        total = 0.0
        for x, y in DataLoader(data, batch_size=4):
            x, y = x.to(device, non_blocking=True), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        losses.append(total)
    assert losses[-1] < losses[0] / 2


def test_there_is_no_other_device() -> None:
    x = torch.ones(2)
    refused: list[Any] = [
        lambda: x.cuda(),
        lambda: x.cuda(0),
        lambda: x.to("cuda"),
        lambda: x.to(torch.device("mps")),
        lambda: torch.zeros(2, device="cuda"),
        lambda: torch.tensor([1], device="cuda:0"),
        lambda: torch.arange(3, device="cuda"),
        lambda: torch.full((2,), 1, device="cuda"),
        lambda: torch.randint(3, (2,), device="cuda"),
        lambda: x.new_zeros(2, device="cuda"),
        lambda: torch.as_tensor([1], device="cuda"),
        lambda: nn.Linear(2, 2).to("cuda"),
        lambda: nn.Linear(2, 2).cuda(),
    ]
    for ask in refused:
        with pytest.raises(InvalidArgumentError, match=r"device '.*' does not exist: .* or write 'cpu'"):
            ask()
    with pytest.raises(InvalidArgumentError, match="no accelerator"):
        torch.accelerator.set_device_index(0)
    for ask in (torch.cuda.current_device, torch.cuda.get_device_name, lambda: torch.cuda.set_device(0)):
        with pytest.raises(InvalidArgumentError, match="no CUDA device"):
            ask()
    torch.cuda.manual_seed_all(1)
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    assert not torch.cuda.is_initialized()


def test_modules_go_to_the_cpu_in_all_of_pytorchs_words() -> None:
    model = nn.Linear(2, 2)
    assert model.to("cpu") is model.to(torch.device("cpu")) is model.cpu() is model
    assert model.to(device="cpu", dtype=torch.double, non_blocking=True) is model
    assert model.weight.dtype == torch.double
    assert model.to(torch.ones(1)).weight.dtype == torch.float
    assert model.to("cpu", torch.half).weight.dtype == torch.half


def test_a_wrong_call_raises_an_error_that_says_what_the_function_takes() -> None:
    with pytest.raises(TypeError, match=r"sum\(\) takes a tensor first, not list: write torch.sum"):
        torch.sum([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"sum\(\) takes a tensor first"):
        torch.sum()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"zeros\(\) takes sizes"):
        torch.zeros()
    with pytest.raises(TypeError, match="takes sizes"):
        torch.Tensor([1], [2])
    with pytest.raises(TypeError, match=r"^cat takes a list or tuple of tensors, not int$"):
        torch.cat(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"randint takes a tuple of sizes, not 10"):
        torch.randint(0, 10)
    with pytest.raises(TypeError, match=r"^layout must be torch.strided, not sparse: all tensors are dense$"):
        torch.zeros(2, layout="sparse")
    with pytest.raises(TypeError) as caught:
        torch.sum(torch.ones(2), dims=0)  # type: ignore[call-arg]
    assert str(caught.value).count("It takes") == 1
    with pytest.raises(TypeError, match="out= must be a tuple of 2 tensors, not Tensor"):
        torch.sort(torch.ones(2), out=torch.ones(2))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="two values with it"):
        torch.where(torch.ones(2) > 0, torch.ones(2))


def test_a_result_is_written_to_out_in_its_dtype() -> None:
    out = torch.empty(2, dtype=torch.double)
    assert torch.sum(torch.ones(2, 3), dim=1, out=out) is out  # type: ignore[call-arg]
    assert (out.tolist(), out.dtype) == ([3.0, 3.0], torch.double)


def test_results_of_functions_belong_to_the_scope_and_leave_none_behind() -> None:
    before = statistics.live_count
    with new_dispose_scope():
        x = torch.rand(3, 3)
        torch.sum(x, dim=0, out=torch.empty(3))  # type: ignore[call-arg]
        torch.median(x), torch.quantile(x, 0.5), torch.diag(x), torch.addmm(x, x, x)
        Normal(x, x + 1).sample((2,))
        Categorical(x).sample((2,))
    assert statistics.live_count == before


def test_fillings_draw_in_place_from_the_generator_given() -> None:
    first = torch.empty(200).normal_(generator=torch.Generator().manual_seed(3))
    again = torch.empty(200).normal_(generator=torch.Generator().manual_seed(3))
    assert torch.equal(first, again)
    x = torch.empty(2000)
    assert x.normal_(5.0, 2.0) is x
    assert abs(x.mean().item() - 5) < 0.5
    assert abs(x.std().item() - 2) < 0.5
    assert (x.uniform_(-1, 1).abs() <= 1).all()
    assert set(x.random_(2, 5).tolist()) == {2.0, 3.0, 4.0}
    assert set(x.random_(2).tolist()) == {0.0, 1.0}
    assert set(x.bernoulli_(0.5).tolist()) == {0.0, 1.0}
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.1
    assert (torch.empty(50, dtype=torch.uint8).random_() <= 255).all()
    assert (torch.empty(50).random_() <= 2**24).all()
    assert set(torch.empty(100, dtype=torch.bool).random_().tolist()) == {False, True}
    for name in ("normal_", "uniform_", "exponential_"):
        with pytest.raises(TypeError, match=f"{name} fills floating tensors"):
            getattr(torch.ones(2, dtype=torch.long), name)()
    for fail in (
        lambda: x.bernoulli_(2.0),
        lambda: x.exponential_(0.0),
        lambda: x.uniform_(1, 0),
        lambda: x.random_(3, 3),
        lambda: x.normal_(0, -1),
    ):
        with pytest.raises(InvalidArgumentError):
            fail()


def test_fillings_of_a_leaf_need_no_grad_or_data() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x.normal_()
    x.data.fill_(2.0)
    with torch.no_grad():
        x.mul_(2)
    assert x.tolist() == [4.0, 4.0, 4.0]


def test_checkpoints_are_saved_and_loaded_with_pytorchs_options(tmp_path: Path) -> None:
    model, path = nn.Linear(2, 1), tmp_path / "model.pt"
    state = {"model": model.state_dict(), "epoch": 3}
    torch.save(state, path)
    for options in ({}, {"map_location": "cpu"}, {"map_location": torch.device("cpu"), "weights_only": True}):
        found = torch.load(path, **options)
        assert found["epoch"] == 3
        assert torch.equal(found["model"]["weight"], model.weight)
    torch.load(path, map_location=lambda storage, loc: storage, weights_only=False, mmap=True)
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        torch.load(path, map_location="cuda:0")


def test_the_state_of_the_generator_is_kept_and_set() -> None:
    generator = torch.manual_seed(5)
    assert torch.initial_seed() == 5 == generator.initial_seed()
    state = torch.get_rng_state()
    first = torch.randn(3)
    torch.set_rng_state(state)
    assert torch.equal(torch.randn(3), first)
    assert torch.seed() == torch.initial_seed()


def test_a_checkpoint_of_activations_gives_the_same_gradient() -> None:
    x = torch.ones(2, requires_grad=True)
    checkpoint(lambda y: (y * y).exp(), x, use_reentrant=False).sum().backward()
    checkpoint(lambda y, scale: y * scale, x, scale=0.0, preserve_rng_state=True).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx([2 * math.e] * 2)


def test_backward_with_inputs_computes_only_their_gradients() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    loss = (x * y).sum()
    loss.backward(inputs=[x], retain_graph=True)
    assert x.grad is not None
    assert y.grad is None
    loss.backward(inputs=x)
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="not a leaf"):
        (x * 2).sum().backward(inputs=[x * 2])
    torch.autograd.backward([(x * y).sum()], inputs=[y])
    assert y.grad is not None
    assert y.grad.tolist() == [1.0, 1.0]


def test_gradients_of_some_leaves_can_be_derived_again() -> None:
    x = torch.tensor([2.0], requires_grad=True)
    (x * x * x).sum().backward(inputs=[x], create_graph=True)
    assert x.grad is not None
    (second,) = torch.autograd.grad(x.grad.sum(), x)
    assert second is not None
    assert second.tolist() == [12.0]


def test_data_is_the_memory_without_history_and_takes_other_values() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    x.sum().backward()
    x.data += 1
    assert x.tolist() == [2.0, 3.0]
    values = torch.zeros(2)
    x.data = values
    assert x.data_ptr() == values.data_ptr()
    x.data.add_(1)
    assert values.tolist() == [0.0, 0.0]
    assert x.is_leaf
    assert x.requires_grad
    assert x.grad is not None
    x.data = torch.zeros(3)
    assert (x.shape, x.grad, x.requires_grad) == ((3,), None, True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(TypeError, match="takes a tensor"):
        x.data = [1.0]  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="can have gradients"):
        x.data = torch.ones(3, dtype=torch.long)
    with pytest.raises(RuntimeError, match="assigned to leaves"):
        (x * 2).data = torch.ones(3)


def test_a_state_dict_is_assigned_without_a_copy() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    weight = model[0].weight
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    state = {name: torch.full(x.shape, 2.0) for name, x in model.state_dict().items()}
    del state["1.weight"]
    state["1.weight"] = state["0.weight"]
    model.load_state_dict(state, assign=True)
    assert model[0].weight is model[1].weight is weight
    assert weight.data_ptr() == state["0.weight"].data_ptr()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert weight.tolist() != state["0.weight"].tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_load_state_dict_with_assign_takes_the_dtype_and_changes_all_or_none() -> None:
    model = nn.Linear(2, 1)
    before = model.weight.tolist()
    with pytest.raises(RuntimeError, match="has shape"):
        model.load_state_dict({"weight": torch.ones(1, 2), "bias": torch.ones(3)}, assign=True)
    with pytest.raises(TypeError, match="requires grad"):
        model.load_state_dict({"weight": torch.ones(1, 2), "bias": torch.tensor([1])}, assign=True)
    assert model.weight.tolist() == before
    array = np.array([[3.0, 4.0]])
    model.load_state_dict({"weight": array, "bias": torch.ones(1).double()}, assign=True)
    assert (model.weight.dtype, model.weight.tolist()) == (torch.double, [[3.0, 4.0]])
    array[0] = 0
    assert model.weight.tolist() == [[3.0, 4.0]]
    assert model(torch.ones(1, 2, dtype=torch.double)).item() == 8.0


def test_distributions_validate_unless_asked_not_to() -> None:
    assert Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    with pytest.raises(ValueError, match="probs= or logits="):
        Categorical()
    with pytest.raises(ValueError, match="at least one dimension"):
        Categorical(torch.tensor(1.0))
    with pytest.raises(ValueError, match="an index from 0 to 1"):
        Categorical(torch.ones(2)).log_prob(torch.tensor(2))
    with pytest.raises(NotImplementedError, match=r"write sample\(\)"):
        Categorical(torch.ones(2)).rsample()


def test_draws_of_rsample_carry_gradients_and_those_of_sample_none() -> None:
    mean, scale = torch.zeros(1000, requires_grad=True), torch.ones(1000, requires_grad=True)
    normal = Normal(mean, scale)
    normal.rsample().sum().backward()
    assert mean.grad is not None
    assert mean.grad.tolist() == [1.0] * 1000
    assert not normal.sample().requires_grad
    drawn = torch.distributions.Uniform(2.0, 3.0).sample((1000,))
    assert 2 <= drawn.min().item() < 2.1 < 2.9 < drawn.max().item() < 3


def test_draws_of_places_follow_their_weights() -> None:
    torch.manual_seed(0)
    drawn = Categorical(torch.tensor([[1.0, 3.0], [0.0, 1.0]])).sample((2000,))
    assert drawn.shape == (2000, 2)
    shares = drawn.float().mean(0)
    assert abs(shares[0].item() - 0.75) < 0.05
    assert shares[1].item() == 1.0
