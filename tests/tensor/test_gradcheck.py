"""``gradcheck`` and ``gradgradcheck``: right derivatives pass, wrong ones are named, inputs are as before."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from tensor import Tensor, autograd, memory
from tensor.autograd import GradcheckError, gradcheck, gradgradcheck
from tensor.lowlevel import apply
from tensor.tape.recording import Rule

BOTH = pytest.mark.parametrize("checker", [gradcheck, gradgradcheck])


def leaf(*values: complex) -> Tensor:
    dtype = tensor.complex128 if isinstance(values[0], complex) else tensor.float64
    return tensor.tensor(list(values), dtype=dtype, requires_grad=True)


def squared_by(derivative: Callable[..., object]) -> Callable[[Tensor], Tensor]:
    """Return a square whose derivative is what is given."""
    rule = Rule("square", {"x": derivative})
    return lambda x: apply(rule, np.square, (x,))


def with_constant_slope(x: Tensor) -> Tensor:
    """The square; its first derivative is right, and knows nothing of x."""
    slope = 2 * x.detach().numpy().copy()
    return apply(Rule("square", {"x": lambda xp, g, slope: g * slope}), np.square, (x,), slope=slope)


SMOOTH = {
    "a product": (lambda x, y: x * y, [leaf(1.5, -2.0), leaf(0.5, 3.0)]),
    "broadcast": (
        lambda x, y: x / y,
        [leaf(1.5, -2.0), tensor.tensor(2.0, dtype="float64", requires_grad=True)],
    ),
    "a number": (lambda x: x.exp().sum(), [leaf(1.5, -2.0)]),
    "several outputs": (lambda x: (x.sin(), (x * x).sum()), [leaf(1.5, -2.0)]),
    "an output without an input": (lambda x, y: (x * x, y * y * x), [leaf(1.5), leaf(0.5)]),
    "an unused input": (lambda x, y: x * x, [leaf(1.5), leaf(0.5)]),
    "itself": (lambda x: x, [leaf(1.5)]),
    "a view of itself": (lambda x: x[::2].T, [leaf(1.5, 2.0, 3.0)]),
    "integers beside": (lambda x: (x * x, x.argmax()), [leaf(1.5, -2.0)]),
    "a constant input": (lambda x, y, n: (x * y) ** n, [leaf(1.5), tensor.tensor([2.0], dtype="float64"), 3]),
    "nothing": (lambda x: x * x, [tensor.zeros((0, 2), dtype="float64", requires_grad=True)]),
    "complex": (lambda z, w: z * w.conj() + z * z, [leaf(1 + 2j, 3j), leaf(0.5 - 1j, 2 + 0j)]),
    "real of complex": (lambda z: (z.abs(), z.real * z.imag), [leaf(1 + 2j, 3j)]),
    "complex of real": (lambda x: x * (2 + 1j) * x, [leaf(1.5, -2.0)]),
    "written in place": (lambda x: (x * 1).mul_(x).exp_(), [leaf(0.5, -1.0)]),
}


@BOTH
@pytest.mark.parametrize(("function", "inputs"), SMOOTH.values(), ids=SMOOTH)
def test_right_derivatives_pass(checker, function, inputs) -> None:
    assert checker(function, tuple(inputs)) is True


@BOTH
def test_one_input_needs_no_tuple(checker) -> None:
    assert checker(lambda x: x * x, leaf(1.0, 2.0))


def test_the_error_names_output_input_element_and_both_values() -> None:
    wrong = squared_by(lambda xp, g, x: g * 2 * x * xp.asarray([1, 1, 1.5]))
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda y, x: (y * y, wrong(x) * y), (leaf(2.0), leaf(1.0, 2.0, 3.0)))
    text = str(caught.value)
    assert "outputs[1] with respect to inputs[1] does not match the differences at 1 of 12 elements" in text
    assert (
        "outputs[1] at [2] with respect to inputs[1] at [2]: backward gives 18, differences give 12" in text
    )


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    place=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    error=st.floats(0.01, 100) | st.floats(-100, -0.01) | st.just(float("nan")) | st.just(float("inf")),
    unit=st.sampled_from([1, 1j]),
)
def test_one_wrong_element_is_found_wherever_it_is(shape, place, error, unit) -> None:
    place = tuple(i % n for i, n in zip(place, shape, strict=True))
    weights = np.ones(shape, np.complex128 if unit == 1j else np.float64)
    weights[place] += unit * error
    dtype = tensor.complex128 if unit == 1j else tensor.float64
    x = tensor.full(shape, 0.5, dtype=dtype, requires_grad=True)
    wrong = squared_by(lambda xp, g, x: g * 2 * x * xp.asarray(weights))
    with pytest.raises(
        GradcheckError, match=rf"with respect to inputs\[0\] at \[{place[0]}, {place[1]}\]: backward"
    ):
        gradcheck(wrong, x)
    assert not gradcheck(wrong, x, raise_exception=False)


def test_a_missing_conjugate_is_found() -> None:
    z = leaf(1 + 2j)
    assert gradcheck(squared_by(lambda xp, g, x: g * 2 * xp.conj(x)), z)
    assert not gradcheck(squared_by(lambda xp, g, x: g * 2 * x), z, raise_exception=False)
    with pytest.raises(GradcheckError, match="imaginary part of outputs"):
        gradcheck(squared_by(lambda xp, g, x: xp.real(g) * 2 * xp.conj(x)), z)


def test_the_tolerances_bound_the_difference_as_they_say() -> None:
    def off_by(error: float) -> Callable[[Tensor], Tensor]:
        return squared_by(lambda xp, g, x: g * (2 * x + error))

    x = leaf(1.0)  # slope 2
    assert gradcheck(off_by(9e-3), x, atol=1e-2, rtol=0)
    assert not gradcheck(off_by(1.1e-2), x, atol=1e-2, rtol=0, raise_exception=False)
    assert gradcheck(off_by(1.9e-2), x, atol=0, rtol=1e-2)
    assert not gradcheck(off_by(2.1e-2), x, atol=0, rtol=1e-2, raise_exception=False)


def test_a_detached_output_counts_as_a_constant() -> None:
    with pytest.raises(GradcheckError, match=r"backward gives 0, differences give 2\. .*no gradient history"):
        gradcheck(lambda x: (x * 2).detach(), leaf(1.0))
    assert gradcheck(lambda x: (x * 2, x.detach() * 0), leaf(1.0))


def test_a_derivative_that_forgets_its_gradient_is_found() -> None:
    with pytest.raises(GradcheckError, match=r"with a gradient of zeros, .* has the value 6\.0: .*multiply"):
        gradcheck(squared_by(lambda xp, g, x: 2 * x), leaf(3.0))


def test_a_function_or_a_backward_that_varies_is_found() -> None:
    rng = random.Random(0)
    with pytest.raises(GradcheckError, match=r"different gradients of inputs\[0\]. Seed"):
        gradcheck(lambda x: x * rng.random(), leaf(1.0))
    with pytest.raises(GradcheckError, match=r"different gradients of inputs\[0\]"):
        gradcheck(squared_by(lambda xp, g, x: g * x * (2 + 1e-9 * rng.random())), leaf(1.0))


def test_shapes_that_depend_on_values_are_named() -> None:
    with pytest.raises(GradcheckError, match="2 elements in total, but 1 when an input changes"):
        gradcheck(lambda x: x[x >= 1], leaf(1.0, 2.0))


X32 = tensor.tensor([1.0], requires_grad=True)


@BOTH
@pytest.mark.parametrize(
    ("function", "inputs", "error", "named"),
    [
        (lambda x: x * x, tensor.ones(2), ValueError, "none of the inputs requires grad"),
        (lambda x: x * x, leaf(1.0).expand(3), ValueError, r"elements of inputs\[0\] share memory.*clone"),
        (lambda x: 2, leaf(1.0), TypeError, r"outputs\[0\] is a int"),
        (lambda x: [x, None], leaf(1.0), TypeError, r"outputs\[1\] is a NoneType"),
        (lambda x: x > 0, leaf(1.0), ValueError, "no floating or complex tensor"),
    ],
)
def test_wrong_use_names_the_culprit(checker, function, inputs, error, named) -> None:
    with pytest.raises(error, match=named):
        checker(function, inputs, raise_exception=False)


@BOTH
def test_inputs_over_one_memory_are_refused_and_clones_are_not(checker) -> None:
    x = leaf(1.0, 2.0, 3.0)
    for other in (x.detach(), x.detach()[1:], x.detach()[::2].requires_grad_()):
        with pytest.raises(ValueError, match=r"inputs\[0\] and inputs\[1\] share memory.*Clone"):
            checker(lambda x, y: x.sum() * y, (x, other))
    assert checker(lambda x, y: x.sum() * y, (x, x.detach().clone().requires_grad_()))
    assert checker(lambda x, y: x.sum() * y, (x, x))
    even, odd = x.detach()[::2].requires_grad_(), x.detach()[1::2].requires_grad_()
    assert checker(lambda x, y: x.sum() * y, (even, odd))


@BOTH
def test_less_than_double_precision_is_warned_of(checker) -> None:
    with pytest.warns(UserWarning, match=r"inputs\[1\] \(float32\).*x\.double\(\)") as caught:
        checker(lambda x, y: x * y.double(), (leaf(1.0), X32), atol=1, rtol=1)
    assert [warning.filename for warning in caught] == [__file__]


def test_gradcheck_reports_a_kink_only_at_the_kink() -> None:
    with pytest.raises(GradcheckError, match=r"backward gives 0, differences give 0\.5.*a kink"):
        gradcheck(lambda x: x.relu(), leaf(-1.0, 0.0))
    assert gradcheck(lambda x: x.relu(), leaf(-1.0, 1.0))


def state(x: Tensor) -> tuple[object, ...]:
    return x.requires_grad, x.grad, x.grad_fn, x.detach().numpy().tobytes(), x.stride()


def figures(window) -> tuple[object, ...]:
    now = memory.statistics()
    return window().live_count, now.bytes_live, now.bytes_external, now.bytes_pinned


FAILING = {
    "right": lambda x, y: (x * y).exp(),
    "wrong": lambda x, y: (x * y).exp() * x.detach(),
    "raising": lambda x, y: (x * y).exp() if x.detach()[0, 0] == 0.1 else x.view(7),
}


@BOTH
@pytest.mark.parametrize("function", FAILING.values(), ids=FAILING)
def test_inputs_and_memory_are_as_before_whatever_happens(checker, function, window) -> None:
    given = np.asarray([[0.1, 0.2], [0.3, -0.0]]).T
    x = tensor.from_numpy(given).requires_grad_()
    y = tensor.tensor([0.3, np.pi], dtype="float64", requires_grad=True)
    (x * y).sum().backward()
    kept, seen = y.clone(), y.detach().numpy()
    checker(FAILING["right"], (x, y))  # what is made once is made
    before = state(x), state(y), seen.tobytes()
    memory_before = figures(window)
    try:
        checker(function, (x, y))
        error = None
    except (GradcheckError, ValueError, RuntimeError) as caught:
        error = caught
    assert (error is None) == (function is FAILING["right"])
    assert figures(window) == memory_before
    assert (state(x), state(y), seen.tobytes()) == before
    assert kept.tolist() == y.tolist()
    y.detach().fill_(1)
    assert seen.tolist() == [1, 1]
    assert kept.tolist() == [0.3, np.pi]


@BOTH
def test_inputs_may_be_results_of_a_computation(checker) -> None:
    x = leaf(0.5, 1.5)
    y = x.exp()
    assert checker(lambda y: y * y, y)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx(np.exp([0.5, 1.5]))


@BOTH
def test_the_function_may_reach_an_input_in_another_way(checker) -> None:
    w = leaf(0.5, 1.5)
    assert checker(lambda x, *_: x * w * w, (leaf(2.0, 3.0), w))
    assert not checker(lambda x, *_: x * (w * w).detach(), (leaf(2.0, 3.0), w), raise_exception=False)


@BOTH
def test_no_grad_around_it_changes_nothing(checker) -> None:
    with tensor.no_grad():
        assert checker(lambda x: x * x, leaf(2.0))
        assert not tensor.is_grad_enabled()


def test_a_right_derivative_that_can_not_be_derived_passes_once_and_fails_twice() -> None:
    x = leaf(1.0, 2.0)
    assert gradcheck(with_constant_slope, x)
    with pytest.raises(
        GradcheckError,
        match=r"the gradient of inputs\[0\] at \[1\] with respect to inputs\[0\] at \[1\]: backward gives 0",
    ):
        gradgradcheck(with_constant_slope, x)


def test_second_derivatives_are_checked_by_the_given_gradients() -> None:
    x = leaf(1.0, 2.0)
    constant = tensor.tensor([0.5, -1.0], dtype=tensor.float64)
    assert gradgradcheck(lambda x: x * x, x, constant)
    assert gradgradcheck(lambda x: (x * x, x.sum()), x, (constant, constant[0].clone().requires_grad_()))
    assert gradgradcheck(with_constant_slope, x, tensor.zeros(2, dtype=tensor.float64))
    with pytest.raises(GradcheckError):
        gradgradcheck(with_constant_slope, x, constant)


def test_grad_outputs_are_as_many_as_outputs_and_in_their_shape() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(ValueError, match="2 outputs need 2 grad_outputs, not 1"):
        gradgradcheck(lambda x: (x, x), x, x.detach())
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        gradgradcheck(lambda x: x * x, x, tensor.ones(3, dtype=tensor.float64))
    with pytest.raises(ValueError, match="no output of the function has gradient history"):
        gradgradcheck(lambda x: x.detach(), x)


@pytest.mark.parametrize("name", ["gradcheck", "gradgradcheck"])
def test_arguments_and_their_defaults_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = inspect.signature(getattr(torch.autograd, name)).parameters
    for parameter in inspect.signature(getattr(autograd, name)).parameters.values():
        assert parameter.kind == theirs[parameter.name].kind
        assert parameter.default == theirs[parameter.name].default


def test_gradcheck_passes_where_that_of_pytorch_does() -> None:
    torch = pytest.importorskip("torch")
    functions = [
        lambda x: x * x.exp(),
        lambda x: x * x.detach(),
        lambda x: x.abs() * 2,
        lambda x: (x.real * x.imag, x.conj() * x),
        lambda x: x.detach().exp() * x,
    ]
    for values in ([0.5 + 0.2j, -1.5 + 1j], [[0.3 - 0.1j]]):
        ours = tensor.tensor(values, dtype=tensor.complex128, requires_grad=True)
        theirs = torch.tensor(values, dtype=torch.complex128, requires_grad=True)
        for function in functions:
            for name in ("gradcheck", "gradgradcheck"):
                expected = getattr(torch.autograd, name)(function, theirs, raise_exception=False)
                got = getattr(autograd, name)(function, ours, raise_exception=False)
                assert got is expected, (name, function)
