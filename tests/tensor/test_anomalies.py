"""detect_anomaly: the line of the forward pass whose gradient goes wrong."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nn
import scopes
import tensor
from tensor import Tensor, autograd
from tests.tensor.graphs import leaf, leaving_nothing
from tests.threads import NEW_THREADS_INHERIT_CONTEXT

# Where its sources are.
LIBRARY = [Path(package.__file__).parent for package in (nn, scopes, tensor)]


@pytest.fixture(autouse=True)
def numpy_is_silent() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def line_of(function: object, text: str) -> str:
    """Return what a traceback says of the one line of `function` that holds `text`."""
    lines, first = inspect.getsourcelines(function)
    (place,) = [i for i, line in enumerate(lines) if text in line]
    return f'File "{__file__}", line {first + place}, in {function.__name__}\n    {lines[place].strip()}'


def root_of_nothing(x: Tensor) -> Tensor:
    y = x * 0
    root = y.sqrt()
    return root * 0


def assert_found(error: BaseException, op: str, *lines: str) -> None:
    """Hold that `error` names the op, and these lines of the forward pass in this order."""
    text = str(error)
    assert text.startswith(f"{op} has a gradient of nan for its input 0. It was recorded by\n")
    assert not hasattr(error, "__notes__")  # all is said
    places = [text.index(line) for line in lines]
    assert places == sorted(places)
    assert text.endswith(lines[-1])


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_first_gradient_of_nan_names_its_op_and_the_users_line(create_graph):
    x = leaf(1.0)
    with autograd.detect_anomaly():
        y = root_of_nothing(x)
        with pytest.raises(RuntimeError) as caught:
            y.backward(create_graph=create_graph)
    assert_found(caught.value, "SqrtBackward", line_of(root_of_nothing, "y.sqrt()"))
    assert x.grad is None


def test_autograd_grad_looks_too():
    x = leaf(1.0)
    with autograd.detect_anomaly():
        y = root_of_nothing(x)
        with pytest.raises(RuntimeError, match="SqrtBackward has a gradient of nan"):
            autograd.grad(y, x)


def test_without_detection_nan_is_passed_on():
    x = leaf(1.0)
    root_of_nothing(x).backward()
    assert str(x.grad.tolist()) == "[nan]"


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 2), Root())

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 0).sqrt() * 0


def test_the_lines_lead_through_the_user_s_modules_and_show_no_library_line():
    def compute(model: nn.Module) -> Tensor:
        return model(tensor.ones((1, 2))).sum()

    with autograd.detect_anomaly():
        loss = compute(Model())
        with pytest.raises(RuntimeError) as caught:
            loss.backward()
    lines = [line_of(compute, "model("), line_of(Model.forward, "layers"), line_of(Root.forward, "sqrt()")]
    assert_found(caught.value, "SqrtBackward", *lines)
    shown = [line for line in str(caught.value).splitlines() if line.startswith('  File "')]
    assert shown
    assert [line for line in shown if line.startswith(tuple(f'  File "{folder}' for folder in LIBRARY))] == []


def nan_in(kind: str, x: Tensor) -> Tensor:
    if kind == "operator":
        return ((x * 0) / (x * 0)) * 1
    if kind == "in place":
        return (x * 0).sqrt_() * 0
    if kind == "functional":
        return nn.functional.mse_loss((x * 0).sqrt() * 0, x)
    return tensor.where(x > 5, (x * 0).log() * 0, x)


@pytest.mark.parametrize("kind", ["operator", "in place", "functional", "where"])
def test_each_kind_of_op_has_its_line(kind):
    x = leaf(1.0, 2.0)
    with autograd.detect_anomaly():
        y = nan_in(kind, x).sum()
        with pytest.raises(RuntimeError, match="has a gradient of nan") as caught:
            y.backward()
    assert f"in nan_in\n    return {'tensor.' if kind == 'where' else ''}" in str(caught.value)


def test_anomaly_in_a_graph_recorded_outside_asks_for_the_forward_pass_inside():
    y = root_of_nothing(leaf(1.0))
    with (
        autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match=r"SqrtBackward .*run the forward pass in"),
    ):
        y.backward()


def test_outside_of_the_block_nothing_is_recorded_or_checked():
    x = leaf(1.0)
    with autograd.detect_anomaly():
        noted = root_of_nothing(x)
    plain = root_of_nothing(x)
    assert noted.grad_fn.site is not None
    assert plain.grad_fn.site is None
    noted.backward()
    plain.backward()


def test_without_the_check_nan_is_let_through_and_errors_still_name_the_line():
    x = leaf(1.0)
    with autograd.detect_anomaly(check_nan=False):
        y = root_of_nothing(x)
        y.backward()
        with pytest.raises(RuntimeError, match="already freed") as caught:
            y.backward()
    assert str(x.grad.tolist()) == "[nan]"
    (note,) = caught.value.__notes__
    assert line_of(root_of_nothing, "y.sqrt()") in note  # `* 0` saves nothing that could be freed


def test_errors_in_backward_name_the_line_that_recorded_their_op():
    def use(x):
        freed = (x * x).exp()
        freed.backward()
        return freed

    x = leaf(1.0)
    with autograd.detect_anomaly():
        freed = use(x)
        total = freed + x
        with pytest.raises(RuntimeError, match="already freed") as caught:
            total.backward()
    (note,) = caught.value.__notes__
    assert line_of(use, "exp()") in note


def test_infinities_are_no_anomaly():
    x = leaf(0.0)
    with autograd.detect_anomaly():
        x.sqrt().backward()
    assert x.grad.tolist() == [float("inf")]


def test_a_sum_of_infinities_that_is_nan_is_found_at_its_next_use():
    x = leaf(0.0)
    with autograd.detect_anomaly():
        y = x * 1
        z = y.sqrt() - y.sqrt()
        with pytest.raises(RuntimeError, match="MultiplyBackward has a gradient of nan for its input 0"):
            z.backward()


def test_complex_and_expanded_gradients_are_looked_at():
    x = tensor.tensor([0j], requires_grad=True)
    with autograd.detect_anomaly(), pytest.raises(RuntimeError, match="has a gradient of nan"):
        (x.sqrt() * 0).abs().expand(3, 1).sum().backward()


def test_it_decorates_functions_and_nests():
    @autograd.detect_anomaly()
    def step(x):
        root_of_nothing(x).backward()

    with pytest.raises(RuntimeError, match="nan"):
        step(leaf(1.0))
    with autograd.detect_anomaly(), autograd.detect_anomaly(check_nan=False):
        step_without = root_of_nothing(leaf(1.0))
        step_without.backward()
    with autograd.detect_anomaly(check_nan=False), autograd.detect_anomaly():
        y = root_of_nothing(leaf(1.0))
        assert y.grad_fn.site.count("in root_of_nothing") == 1
        with pytest.raises(RuntimeError, match="nan"):
            y.backward()
    root_of_nothing(leaf(1.0)).backward()


def test_detect_anomaly_works_for_backward_inside_of_no_grad():
    x = leaf(1.0)
    with autograd.detect_anomaly():
        with tensor.no_grad():
            assert not root_of_nothing(x).requires_grad
            with tensor.enable_grad():
                y = root_of_nothing(x)
            with pytest.raises(RuntimeError, match="nan"):
                y.backward()
        z = root_of_nothing(x)
    assert line_of(root_of_nothing, "root * 0") in z.grad_fn.site
    with tensor.no_grad(), autograd.detect_anomaly():
        assert not root_of_nothing(x).requires_grad


@pytest.mark.parametrize("where", ["outside", "inside", "both"])
def test_in_a_checkpoint_the_line_is_that_of_the_first_run(where):
    def function(a):
        if where == "outside":
            return root_of_nothing(a)
        with autograd.detect_anomaly():
            return root_of_nothing(a)

    x = leaf(1.0)
    if where == "inside":
        y = autograd.checkpoint(function, x)
        site = y.grad_fn.site
        y.backward()  # outside of the block nothing is looked at
        assert line_of(root_of_nothing, "root * 0") in site
        return
    with autograd.detect_anomaly():
        y = autograd.checkpoint(function, x)
        with pytest.raises(RuntimeError) as caught:
            y.backward()
    assert_found(caught.value, "SqrtBackward", line_of(root_of_nothing, "y.sqrt()"))


def test_the_error_of_a_second_run_has_its_note_and_the_line():
    runs = []

    def function(a):
        runs.append(1)
        if len(runs) == 2:
            raise KeyError("gone")
        return a.exp()

    x = leaf(1.0)
    with autograd.detect_anomaly():
        y = autograd.checkpoint(function, x)
        with pytest.raises(KeyError) as caught:
            y.backward()
    notes = "\n".join(caught.value.__notes__)
    assert "ran the function of a checkpoint again" in notes
    assert "It was recorded by" in notes


def test_derivatives_of_derivatives_name_the_line_of_backward():
    def slope(x):
        (dx,) = autograd.grad(x.sqrt(), x, create_graph=True)
        return dx

    x = leaf(0.0)
    with autograd.detect_anomaly():
        dx = slope(x)
        with pytest.raises(RuntimeError, match="nan") as caught:
            (dx * 0).backward()
    assert line_of(slope, "autograd.grad(") in str(caught.value)


def test_other_threads_and_tasks_are_not_looked_at():
    seen = []

    def note() -> None:
        seen.append(root_of_nothing(leaf(1.0)).grad_fn.site is not None)

    async def other() -> None:
        await asyncio.sleep(0)
        note()

    async def main() -> None:
        task = asyncio.create_task(other())
        with autograd.detect_anomaly():
            await asyncio.sleep(0)
            await task
            note()

    with autograd.detect_anomaly():
        thread = threading.Thread(target=note)
        thread.start()
        thread.join()
    asyncio.run(main())
    assert seen == [NEW_THREADS_INHERIT_CONTEXT, False, True]


def test_an_anomaly_changes_no_gradient_and_leaves_nothing():
    def use() -> None:
        x = leaf(1.0)
        (x * 2).backward()
        with autograd.detect_anomaly():
            y = root_of_nothing(x)
            with pytest.raises(RuntimeError):
                y.backward()
        assert x.grad.tolist() == [2.0]

    use()
    with leaving_nothing():
        use()
