"""Recurrent layers and cells: values, gradients and forms; PyTorch's where that is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.functional.recurrent import Recurrent, composed
from nn.utils.rnn import PackedSequence, pack_sequence, unpack_sequence
from scopes import new_dispose_scope
from tensor import autograd, memory
from tests.simd import printed_at_each_level

KINDS = ["RNN", "RNN relu", "LSTM", "GRU"]
Array = np.ndarray[Any, Any]


def layer_of(library: Any, kind: str, *sizes: int, **options: Any) -> Any:
    name, *nonlinearity = kind.split()
    if nonlinearity:
        options["nonlinearity"] = nonlinearity[0]
    return getattr(library, name)(*sizes, **options)


def torch_s(kind: str, *sizes: int, **options: Any) -> tuple[Any, Any, Any]:
    """Return PyTorch, its layer and ours with the same weights, all of double numbers."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    theirs = layer_of(torch.nn, kind, *sizes, dtype=torch.float64, **options)
    ours = layer_of(nn, kind, *sizes, dtype="float64", **options)
    ours.load_state_dict({key: tensor.tensor(x.numpy()) for key, x in theirs.state_dict().items()})
    return torch, theirs, ours


def leaves(*values: Any) -> list[Any]:
    """Return what is nested in `values`, without None."""
    found: list[Any] = []
    for x in values:
        if hasattr(x, "batch_sizes"):  # PyTorch's is a tuple
            found.append(x.data)
        elif isinstance(x, (tuple, list)):
            found += leaves(*x)
        elif x is not None:
            found.append(x)
    return found


def assert_same(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert tuple(x.shape) == tuple(y.shape)
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-9, atol=1e-11)


def compare(torch: Any, theirs: Any, ours: Any, arrays: list[Array | None], call: Any) -> None:
    """Hold that outputs are equal, and the gradients of inputs and weights, with all outputs in the loss."""
    xs = [None if a is None else tensor.tensor(a, requires_grad=True) for a in arrays]
    ys = [None if a is None else torch.tensor(a, requires_grad=True) for a in arrays]
    found, expected = leaves(call(nn.utils.rnn, ours, *xs)), leaves(call(torch.nn.utils.rnn, theirs, *ys))
    assert_same(found, expected)
    for values in (found, expected):
        sum(((i + 1) * x * (x + 1)).sum() for i, x in enumerate(values)).backward()
    assert_same([x.grad for x in leaves(xs)], [y.grad for y in leaves(ys)])
    assert_same([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])


def arrays_for(layer: Any, x_shape: tuple[int, ...], batch: tuple[int, ...]) -> list[Array | None]:
    """Return an input, and initial states: one for what is no LSTM."""
    numbers = np.random.default_rng(2)
    places = layer.num_layers * (1 + layer.bidirectional)
    h = numbers.normal(size=(places, *batch, layer.proj_size or layer.hidden_size))
    c = numbers.normal(size=(places, *batch, layer.hidden_size)) if layer.mode.lower() == "lstm" else None
    return [numbers.normal(size=x_shape), h, c]


def called(layer: Any, x: Any, h: Any, c: Any) -> Any:
    return layer(x) if h is None else layer(x, h if c is None else (h, c))


OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2},
    {"bidirectional": True},
    {"num_layers": 3, "bidirectional": True, "bias": False},
    {"batch_first": True, "num_layers": 2},
]


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_batch_gives_what_pytorch_gives(
    kind: str, options: dict[str, Any], with_states: bool
) -> None:
    torch, theirs, ours = torch_s(kind, 3, 5, **options)
    shape = (2, 7, 3) if options.get("batch_first") else (7, 2, 3)
    x, h, c = arrays_for(theirs, shape, (2,))
    states = [h, c] if with_states else [None, None]
    compare(torch, theirs, ours, [x, *states], lambda _, layer, *xs: called(layer, *xs))


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("options", OPTIONS[:4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_batch_gives_what_pytorch_gives(
    kind: str, options: dict[str, Any], with_states: bool
) -> None:
    torch, theirs, ours = torch_s(kind, 3, 5, **options)
    x, h, c = arrays_for(theirs, (4, 6, 3), (4,))
    states = [h, c] if with_states else [None, None]

    def call(rnn: Any, layer: Any, x: Any, h: Any, c: Any) -> Any:
        packed = rnn.pack_padded_sequence(x, [2, 6, 1, 2], batch_first=True, enforce_sorted=False)
        output, *rest = called(layer, packed, h, c)
        return rnn.pad_packed_sequence(output)[0], rest

    compare(torch, theirs, ours, [x, *states], call)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("options", OPTIONS[:4])
def test_projections_are_pytorchs(options: dict[str, Any], is_packed: bool) -> None:
    torch, theirs, ours = torch_s("LSTM", 3, 5, proj_size=2, **options)

    def call(rnn: Any, layer: Any, x: Any, h: Any, c: Any) -> Any:
        return called(layer, rnn.pack_padded_sequence(x, [5, 5, 2]) if is_packed else x, h, c)

    compare(torch, theirs, ours, arrays_for(theirs, (5, 3, 3), (3,)), call)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_without_a_batch_gives_what_pytorch_gives(kind: str) -> None:
    torch, theirs, ours = torch_s(kind, 3, 5, num_layers=2, bidirectional=True, batch_first=True)
    compare(torch, theirs, ours, arrays_for(theirs, (7, 3), ()), lambda _, layer, *xs: called(layer, *xs))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1, 3), (4, 0, 3), (1, 9, 3), (33, 17, 3)])
def test_odd_sizes_give_what_pytorch_gives(kind: str, shape: tuple[int, ...]) -> None:
    torch, theirs, ours = torch_s(kind, 3, 33)
    compare(
        torch, theirs, ours, arrays_for(theirs, shape, shape[1:2]), lambda _, layer, *xs: called(layer, *xs)
    )


@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_output_alone_has_its_gradient(place: int) -> None:
    torch, theirs, ours = torch_s("LSTM", 3, 5, proj_size=2)
    compare(
        torch,
        theirs,
        ours,
        arrays_for(theirs, (5, 3, 3), (3,)),
        lambda _, layer, *xs: leaves(called(layer, *xs))[place],
    )


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (3,), (0, 3)])
@pytest.mark.parametrize("kind", ["RNNCell", "RNNCell relu", "LSTMCell", "GRUCell"])
def test_cells_are_pytorchs(kind: str, shape: tuple[int, ...], with_states: bool) -> None:
    torch, theirs, ours = torch_s(kind, 3, 5)
    numbers = np.random.default_rng(2)
    state = (*shape[:-1], 5)
    h = numbers.normal(size=state) if with_states else None
    c = numbers.normal(size=state) if with_states and "LSTM" in kind else None
    compare(torch, theirs, ours, [numbers.normal(size=shape), h, c], lambda _, layer, *xs: called(layer, *xs))


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("RNN", (3, 5), {"nonlinearity": "relu", "bias": False}),
        ("LSTM", (3, 5, 2), {"bidirectional": True, "dropout": 0.5, "batch_first": True, "proj_size": 4}),
        ("LSTM", (3, 5, 2, False), {}),
        ("GRU", (3, 5, 3), {"bidirectional": True}),
        ("RNNCell", (3, 5), {"nonlinearity": "relu"}),
        ("RNNCell", (3, 5, False), {}),
        ("LSTMCell", (3, 5), {"bias": False}),
        ("GRUCell", (3, 5), {}),
    ],
)
def test_names_shapes_and_repr_are_pytorch_s(name: str, arguments: Any, options: Any) -> None:
    torch = pytest.importorskip("torch")
    theirs, ours = getattr(torch.nn, name)(*arguments, **options), getattr(nn, name)(*arguments, **options)
    assert repr(ours) == repr(theirs)
    assert [(k, x.shape) for k, x in ours.state_dict().items()] == [
        (k, tuple(x.shape)) for k, x in theirs.state_dict().items()
    ]
    if hasattr(theirs, "all_weights"):
        assert [[x.shape for x in each] for each in ours.all_weights] == [
            [tuple(x.shape) for x in each] for each in theirs.all_weights
        ]


@pytest.mark.parametrize("kind", ["LSTM", "GRUCell"])
def test_parameters_start_within_the_root_of_the_hidden_size(kind: str) -> None:
    layer = layer_of(nn, kind, 40, 25)
    for x in layer.parameters():
        assert 0.15 < abs(x.detach().numpy()).max() <= 0.2


AT_EACH_LEVEL = """
import nn, tensor
tensor.manual_seed(0)
for layer in nn.RNN(3, 37), nn.RNN(3, 37, nonlinearity="relu"), nn.LSTM(3, 37), nn.GRU(3, 37):
    x = tensor.randn(5, 2, 3, requires_grad=True)
    output, _ = layer(x)
    output.square().sum().backward()
    for values in output, x.grad, layer.weight_hh_l0.grad:
        print(*values.detach().reshape(-1).tolist())
"""


def test_each_instruction_set_computes_the_same() -> None:
    printed = printed_at_each_level(AT_EACH_LEVEL)
    numbers = {level: np.array(text.split(), float) for level, text in printed.items()}
    for found in numbers.values():
        np.testing.assert_allclose(found, numbers["baseline"], rtol=1e-4, atol=1e-5)


# --- Without PyTorch ----------------------------------------------------------------------------------------


def inputs_of(cell: str, sizes: tuple[int, ...], projected: bool) -> list[Any]:
    numbers, blocks = np.random.default_rng(3), {"lstm": 4, "gru": 3}.get(cell, 1)
    width, hidden, rows = 2 if projected else 3, 3, blocks * 3
    shapes = [
        (sum(sizes), 2),
        (sizes[0], width),
        (sizes[0], hidden) if cell == "lstm" else None,
        (rows, 2),
        (rows, width),
        (width, hidden) if projected else None,
        (rows,),
        (rows,),
    ]
    return [None if s is None else tensor.tensor(numbers.normal(size=s), requires_grad=True) for s in shapes]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 2, 1), (1,)])
@pytest.mark.parametrize("cell", ["tanh", "relu", "lstm", "gru", "lstm projected"])
def test_the_kernel_computes_the_same_as_single_ops(
    cell: str, sizes: tuple[int, ...], is_reversed: bool
) -> None:
    cell, *projected = cell.split()
    xs = inputs_of(cell, sizes, bool(projected))
    found = [Recurrent.apply(cell, sizes, is_reversed, *xs), composed(cell, sizes, is_reversed, *xs)]
    gradients = []
    for results in found:
        loss = sum(((i + 1) * y * (y + 1)).sum() for i, y in enumerate(results))
        gradients.append(autograd.grad(loss, leaves(xs)))
    assert_same(*found)
    assert_same(*gradients)


@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru", "lstm projected"])
def test_second_derivatives_equal_finite_differences(cell: str) -> None:
    cell, *projected = cell.split()
    xs = inputs_of(cell, (2, 1), bool(projected))
    places = [i for i, x in enumerate(xs) if x is not None]

    def call(*given: Any) -> Any:
        filled: list[Any] = [None] * len(xs)
        for i, x in zip(places, given, strict=True):
            filled[i] = x
        return Recurrent.apply(cell, (2, 1), False, *filled)

    assert autograd.gradcheck(call, tuple(leaves(xs)))
    assert autograd.gradgradcheck(call, tuple(leaves(xs)))


def test_one_tensor_in_two_places_has_both_gradients() -> None:
    x = tensor.tensor(np.random.default_rng(0).normal(size=(2, 3)), requires_grad=True)
    cell = nn.GRUCell(3, 3, dtype="float64")
    assert autograd.gradcheck(lambda x: cell(x, x), (x,))
    assert autograd.gradgradcheck(lambda x: cell(x, x), (x,))


def test_steps_of_a_cell_are_a_layer() -> None:
    tensor.manual_seed(0)
    layer, cell = nn.LSTM(3, 5), nn.LSTMCell(3, 5)
    cell.load_state_dict({k.removesuffix("_l0"): x for k, x in layer.state_dict().items()})
    x, state = tensor.randn(6, 2, 3), None
    output, (h, c) = layer(x)
    for t in range(6):
        state = cell(x[t], state)
        np.testing.assert_allclose(
            state[0].detach().numpy(), output[t].detach().numpy(), rtol=1e-5, atol=1e-6
        )
    np.testing.assert_allclose(state[0].detach().numpy(), h[0].detach().numpy(), rtol=1e-5, atol=1e-6)  # type: ignore[index]
    np.testing.assert_allclose(state[1].detach().numpy(), c[0].detach().numpy(), rtol=1e-5, atol=1e-6)  # type: ignore[index]


def test_packed_output_belongs_to_the_scope_and_keeps_the_order() -> None:
    gru = nn.GRU(2, 3)
    xs = [tensor.randn(2, 2), tensor.randn(4, 2)]
    with new_dispose_scope() as scope:
        packed = pack_sequence(xs, enforce_sorted=False)
        output, last = gru(packed)
        assert isinstance(output, PackedSequence)
        assert output in scope
        packed.dispose()
        for x, y, z in zip(xs, unpack_sequence(output), last[0], strict=True):
            alone, _ = gru(x)
            np.testing.assert_allclose(y.detach().numpy(), alone.detach().numpy(), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(z.detach().numpy(), alone[-1].detach().numpy(), rtol=1e-5, atol=1e-6)
    assert output.data.is_invalid


def test_dropout_between_recurrent_layers_applies_only_in_training() -> None:
    tensor.manual_seed(0)
    lstm = nn.LSTM(2, 8, num_layers=2, dropout=0.9)
    x = tensor.randn(3, 2, 2)
    assert lstm(x)[0].tolist() != lstm(x)[0].tolist()
    lstm.eval()
    assert lstm(x)[0].tolist() == lstm(x)[0].tolist()


def test_half_precision_is_computed_in_single() -> None:
    gru = nn.GRU(2, 3)
    half = nn.GRU(2, 3, dtype="float16")
    half.load_state_dict(gru.state_dict())
    x = tensor.randn(4, 2, 2)
    output, _ = half(x.half())
    assert output.dtype == np.float16
    np.testing.assert_allclose(output.detach().numpy(), gru(x)[0].detach().numpy(), atol=5e-3)
    output.float().sum().backward()
    assert half.weight_ih_l0.grad.dtype == np.float16


def test_recurrent_layers_propagate_nan_and_infinity_by_their_formulas() -> None:
    lstm = nn.LSTM(1, 40)
    output, _ = lstm(tensor.tensor([[[float("nan")], [1.0]]]))
    assert np.isnan(output[0, 0].detach().numpy()).all()
    assert np.isfinite(output[0, 1].detach().numpy()).all()
    far, _ = nn.RNN(1, 40)(tensor.tensor([[[float("inf")]]]))
    assert (abs(far.detach().numpy()) == 1).all()


def test_memory_that_a_layer_keeps_is_freed_with_the_graph() -> None:
    lstm = nn.LSTM(8, 16, num_layers=2)
    x = tensor.randn(20, 4, 8)
    lstm(x)[0].sum().backward()  # gradients
    before = memory.statistics().bytes_live
    with memory.measure() as measured:
        for _ in range(3):
            output, _ = lstm(x)
            del output, _
        output, _ = lstm(x)
        output.sum().backward()
        del output, _
    assert measured.live_bytes_change == 0
    kept = 2 * 80 * 16 * (4 + 1 + 1) * 4  # gates, cells, outputs
    assert measured.peak_bytes - before < 2 * kept


def test_nothing_is_kept_where_nothing_is_recorded() -> None:
    lstm = nn.LSTM(8, 16)
    x = tensor.randn(20, 4, 8)
    with tensor.no_grad(), memory.measure() as measured:
        result = lstm(x)
    assert measured.live_bytes_change <= (80 * 16 + 2 * 2 * 4 * 16) * 4
    assert not result[0].requires_grad


def test_a_disposed_input_and_weights_that_change_do_not_disturb_backward() -> None:
    gru = nn.GRU(2, 3)
    x = tensor.randn(4, 2, 2, requires_grad=True)
    expected = autograd.grad(gru(x)[0].sum(), x)[0].tolist()
    moved = x * 1
    output, _ = gru(moved)
    moved.dispose()
    with tensor.no_grad():
        gru.weight_hh_l0.fill_(9.0)
    assert autograd.grad(output.sum(), x)[0].tolist() == expected


def test_a_model_for_inference_shares_the_weights() -> None:
    lstm = nn.LSTM(2, 3, num_layers=2, dropout=0.5)
    model = lstm.valid()
    x = tensor.randn(4, 2, 2)
    assert model(x)[0].tolist() == lstm.eval()(x)[0].tolist()
    assert not model(x)[0].requires_grad


def test_wrong_sizes_are_refused_with_words() -> None:
    for make, message in (
        (lambda: nn.LSTM(0, 5), "input_size must be an integer of at least 1, not 0"),
        (lambda: nn.LSTM(3, 0), "hidden_size must be an integer of at least 1, not 0"),
        (lambda: nn.LSTM(3, 5, 0), "num_layers must be an integer of at least 1, not 0"),
        (
            lambda: nn.LSTM(3, 5, proj_size=5),
            r"proj_size must be at least 0 and less than hidden_size",
        ),
        (lambda: nn.RNN(3, 5, nonlinearity="sin"), "nonlinearity must be 'tanh' or 'relu', not 'sin'"),
        (lambda: nn.GRU(3, 5, 2, dropout=2), "dropout must be from 0 to 1"),
        (lambda: nn.GRU(3, 5)(tensor.ones((4, 2, 2))), r"GRU: input must have shape \(length, batch, 3\)"),
        (lambda: nn.GRU(3, 5)(tensor.ones((0, 2, 3))), "at least one step"),
        (
            lambda: nn.GRU(3, 5)(tensor.ones((4, 2, 3), dtype="float64")),
            r"not float64 and float32: write input.to\(tensor.float32\) or model.to\(tensor.float64\)",
        ),
        (
            lambda: nn.GRU(3, 5)(pack_sequence([tensor.ones((4, 3), dtype="float64")])),
            "input and weights must have the same dtype, not float64 and float32",
        ),
        (lambda: nn.GRU(3, 5)(pack_sequence([tensor.ones((4, 2))])), r"the data has shape \(4, 2\)"),
        (
            lambda: nn.LSTM(3, 5)(tensor.ones((4, 2, 3)), (tensor.ones((1, 2, 5)), tensor.ones((1, 3, 5)))),
            r"c_0 must have shape \(1, 2, 5\), not \(1, 3, 5\)",
        ),
        (lambda: nn.GRU(3, 5)(tensor.ones((4, 3)), tensor.ones((1, 1, 5))), r"h_0 must have shape \(1, 5\)"),
        (lambda: nn.GRUCell(3, 5)(tensor.ones((4, 2))), r"GRUCell: input must have shape \(batch, 3\) or"),
        (lambda: nn.GRUCell(3, 5)(tensor.ones((4, 3)), tensor.ones((5,))), r"h must have shape \(4, 5\)"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    for make, message in (
        (lambda: nn.LSTM(3, 5)(tensor.ones((4, 3)), tensor.ones((1, 5))), r"a pair \(h_0, c_0\), not Tensor"),
        (lambda: nn.LSTM(3, 5, 1, "relu"), "bias must be True or False, not 'relu'"),
        (lambda: nn.GRU(3, 5, batch_first=1), "batch_first must be True or False, not 1"),
        (lambda: nn.LSTM(3, 5)([1.0]), "input must be a tensor, not list"),
        (lambda: nn.GRU(3, 5)(tensor.ones((4, 3), dtype="int64")), "input must be floating, not int64"),
    ):
        with pytest.raises(TypeError, match=message):
            make()


def test_a_disposed_packed_sequence_is_refused() -> None:
    packed = pack_sequence([tensor.ones((4, 3))])
    packed.dispose()
    with pytest.raises(tensor.TensorDisposedError, match="PackedSequence is empty"):
        nn.GRU(3, 5)(packed)


def test_dropout_of_a_single_layer_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="has no effect with num_layers=1"):
        nn.LSTM(3, 5, dropout=0.5)


@pytest.mark.parametrize("sizes", [[3, 500_000], [1, 2], [4, -1], [2, 2], [2, 0]])
def test_batch_sizes_that_are_written_to_are_refused(sizes: list[int]) -> None:
    packed = PackedSequence(tensor.ones((3, 2)), tensor.tensor([2, 1]))
    packed.batch_sizes.numpy()[...] = sizes
    with pytest.raises(
        ValueError, match="must not increase, and must sum to 3, the number of elements of all"
    ):
        nn.GRU(2, 4)(packed)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        (
            "weight_hh_l0",
            (400, 100),
            r"weight_hh of shape \(400, 100\), weight_ih must have shape \(400, 2\)",
        ),
        (
            "weight_hh_l0",
            (16, 400),
            r"weight_hh must have shape \(4 \* hidden_size, hidden_size\), not \(16, 400\)",
        ),
        ("weight_ih_l0", (16, 3), r"weight_ih must have shape \(16, 2\), not \(16, 3\)"),
        ("bias_ih_l0", (400,), r"bias_ih must have shape \(16,\), not \(400,\)"),
        ("bias_hh_l0", (1,), r"bias_hh must have shape \(16,\), not \(1,\)"),
    ],
)
def test_a_weight_that_fits_no_other_is_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    layer = nn.LSTM(2, 4)
    setattr(layer, name, nn.Parameter(tensor.ones(shape)))
    with pytest.raises(ValueError, match=message):
        layer(tensor.ones((3, 1, 2)))


def test_a_projection_that_fits_no_other_weight_is_refused() -> None:
    layer = nn.LSTM(2, 4, proj_size=3)
    layer.weight_hr_l0 = nn.Parameter(tensor.ones((3, 40)))
    with pytest.raises(ValueError, match=r"weight_hr must have shape \(3, 4\), not \(3, 40\)"):
        layer(tensor.ones((3, 1, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_sequences_gives_none_and_gradients_of_zeros(kind: str) -> None:
    layer, x = layer_of(nn, kind, 3, 4, bidirectional=True), tensor.ones((5, 0, 3), requires_grad=True)
    out = layer(x)[0]
    assert out.shape == (5, 0, 8)
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert all((p.grad == 0).all() for p in layer.parameters())
