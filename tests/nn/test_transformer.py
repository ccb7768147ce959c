"""Attention of several heads, and transformers: values, gradients, names; PyTorch's where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import functional as F
from scopes import new_dispose_scope, statistics

Array = np.ndarray[Any, Any]
random = np.random.default_rng(7)

# PyTorch's own.
pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
    pytest.mark.filterwarnings("ignore:Support for mismatched"),
]


def drawn(*shape: int) -> Array:
    return random.standard_normal(shape)


def hidden(*shape: int) -> Array:
    """Return a mask that hides some keys, but never the first."""
    mask = random.random(shape) < 0.4
    mask[..., 0] = False
    return mask


def torch_s(name: str, *sizes: Any, **options: Any) -> tuple[Any, Any, Any]:
    """Return PyTorch, its module and ours with the same weights, of double numbers."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    theirs = getattr(torch.nn, name)(*sizes, dtype=torch.float64, **options)
    ours = getattr(nn, name)(*sizes, dtype="float64", **options)
    ours.load_state_dict({key: tensor.tensor(x.numpy()) for key, x in theirs.state_dict().items()})
    return torch, theirs, ours


def outcome(library: Any, module: Any, arrays: list[Array], call: Any) -> list[Array]:
    """Return the outputs, and the gradients of inputs and parameters."""
    module.zero_grad()
    inputs = [library.tensor(x, requires_grad=True) for x in arrays]
    given = call(module, library.tensor, *inputs)
    outputs = [x for x in (given if isinstance(given, tuple) else (given,)) if x is not None]
    sum((x * x).sum() for x in outputs).backward()
    return [x.detach().numpy() for x in (*outputs, *(x.grad for x in (*inputs, *module.parameters())))]


def assert_pytorch_s(torch: Any, theirs: Any, ours: Any, arrays: list[Array], call: Any) -> None:
    found, expected = outcome(tensor, ours, arrays, call), outcome(torch, theirs, arrays, call)
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)


def mask_or_none(make: Any, mask: Array | None) -> Any:
    return None if mask is None else make(mask)


# --- Attention of several heads -----------------------------------------------------------------------------

FORMS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 5, "vdim": 7},
    {"add_bias_kv": True, "add_zero_attn": True, "kdim": 5, "vdim": 7},
]
MASKS: list[tuple[Array | None, Array | None]] = [
    (None, None),
    (hidden(4, 5), None),
    (hidden(6, 4, 5), None),
    (None, hidden(2, 5)),
    (hidden(4, 5), hidden(2, 5)),
    (drawn(4, 5), None),
    (drawn(4, 5), drawn(2, 5)),
    (hidden(6, 4, 5), hidden(2, 5)),
]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("options", FORMS)
def test_several_heads_are_pytorch_s(options: dict[str, Any], batch_first: bool) -> None:
    torch, theirs, ours = torch_s("MultiheadAttention", 6, 3, batch_first=batch_first, **options)

    def placed(length: int, features: int) -> Array:
        return drawn(2, length, features) if batch_first else drawn(length, 2, features)

    arrays = [placed(4, 6), placed(5, options.get("kdim", 6)), placed(5, options.get("vdim", 6))]
    for attn_mask, padding in MASKS:
        for need_weights in (False, True):

            def call(
                module: Any,
                make: Any,
                *inputs: Any,
                attn_mask: Any = attn_mask,
                padding: Any = padding,
                need_weights: bool = need_weights,
            ) -> Any:
                return module(
                    *inputs,
                    key_padding_mask=mask_or_none(make, padding),
                    need_weights=need_weights,
                    attn_mask=mask_or_none(make, attn_mask),
                    average_attn_weights=attn_mask is None,
                )

            assert_pytorch_s(torch, theirs, ours, arrays, call)


@pytest.mark.parametrize("batch_first", [False, True])
def test_one_sequence_may_be_query_key_and_value(batch_first: bool) -> None:
    torch, theirs, ours = torch_s("MultiheadAttention", 6, 2, batch_first=batch_first)
    for shape in ((4, 3, 6), (1, 1, 6), (5, 6)):
        for need_weights in (False, True):

            def call(module: Any, _: Any, x: Any, need_weights: bool = need_weights) -> Any:
                return module(x, x, x, need_weights=need_weights)

            assert_pytorch_s(torch, theirs, ours, [drawn(*shape)], call)
    both = [drawn(3, 4, 6), drawn(3, 4, 6)]
    assert_pytorch_s(torch, theirs, ours, both, lambda module, _, x, y: module(x, y, y))


def test_a_causal_mask_need_not_be_looked_at() -> None:
    layer = nn.MultiheadAttention(4, 2)
    x = tensor.tensor(drawn(5, 1, 4).astype(np.float32))
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    told = layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]
    seen = layer(x, x, x, attn_mask=mask)[0]
    np.testing.assert_allclose(told.detach().numpy(), seen.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_dropout_of_weights_is_for_training_alone() -> None:
    layer = nn.MultiheadAttention(4, 2, dropout=0.5)
    x = tensor.tensor(drawn(9, 1, 4).astype(np.float32))
    for need_weights in (False, True):
        first, second = (layer(x, x, x, need_weights=need_weights)[0].tolist() for _ in range(2))
        assert first != second
    layer.eval()
    assert layer(x, x, x)[0].tolist() == layer(x, x, x)[0].tolist()


def test_projections_start_as_in_pytorch() -> None:
    layer = nn.MultiheadAttention(64, 2, add_bias_kv=True)
    bound = (6 / (64 + 3 * 64)) ** 0.5
    values = layer.in_proj_weight.detach().numpy()
    assert 0.95 * bound < values.max() <= bound
    assert (layer.in_proj_bias == 0).all()
    assert (layer.out_proj.bias == 0).all()
    assert 0 < layer.bias_k.std().item() < 0.5
    apart = nn.MultiheadAttention(64, 2, kdim=8)
    assert abs(apart.k_proj_weight).max().item() <= (6 / (64 + 8)) ** 0.5


def test_the_function_is_the_layer() -> None:
    layer = nn.MultiheadAttention(4, 2)
    x = tensor.tensor(drawn(3, 2, 4).astype(np.float32))
    weights = layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0
    found, _ = F.multi_head_attention_forward(
        x, x, x, 4, 2, *weights, layer.out_proj.weight, layer.out_proj.bias
    )
    assert found.tolist() == layer(x, x, x)[0].tolist()


# --- Layers and stacks --------------------------------------------------------------------------------------

STYLES: list[dict[str, Any]] = [
    {},
    {"norm_first": True, "activation": "gelu"},
    {"bias": False, "layer_norm_eps": 1e-3, "activation": F.relu},
]


def stacked(name: str, options: dict[str, Any], *sizes: int) -> tuple[Any, Any, Any]:
    given = dict(options)
    if "activation" in given and not isinstance(given["activation"], str):
        del given["activation"]  # ReLU, the default
    return torch_s(name, *sizes, dim_feedforward=7, dropout=0.0, **given)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("options", STYLES)
def test_layers_are_pytorch_s(options: dict[str, Any], batch_first: bool) -> None:
    options = {**options, "batch_first": batch_first}
    torch, theirs, ours = stacked("TransformerEncoderLayer", options, 4, 2)
    padding = hidden(*((3, 5) if batch_first else (5, 3)))

    def encode(module: Any, make: Any, x: Any) -> Any:
        return module(x, src_key_padding_mask=make(padding))

    assert_pytorch_s(torch, theirs, ours, [drawn(3, 5, 4)], encode)
    assert_pytorch_s(torch, theirs, ours, [drawn(5, 4)], lambda module, _, x: module(x))
    torch, theirs, ours = stacked("TransformerDecoderLayer", options, 4, 2)
    shapes = ((2, 3, 4), (2, 5, 4)) if batch_first else ((3, 2, 4), (5, 2, 4))
    later = np.triu(np.ones((3, 3), np.bool_), 1)

    def decode(module: Any, make: Any, x: Any, memory: Any) -> Any:
        seen = make(hidden_from_memory)
        return module(x, memory, tgt_mask=make(later), tgt_is_causal=True, memory_mask=seen)

    hidden_from_memory = hidden(3, 5)
    assert_pytorch_s(torch, theirs, ours, [drawn(*shape) for shape in shapes], decode)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("options", STYLES)
def test_transformers_are_pytorch_s(options: dict[str, Any], batch_first: bool) -> None:
    options = {**options, "batch_first": batch_first}
    torch, theirs, ours = stacked("Transformer", options, 4, 2, 2, 2)
    shapes = ((2, 5, 4), (2, 3, 4)) if batch_first else ((5, 2, 4), (3, 2, 4))
    arrays = [drawn(*shape) for shape in shapes]
    source, target = hidden(2, 5), hidden(2, 3)

    def plain(module: Any, _: Any, x: Any, y: Any) -> Any:
        return module(x, y)

    def causal(module: Any, make: Any, x: Any, y: Any) -> Any:
        mask = module.generate_square_subsequent_mask(3, dtype=y.dtype)
        return module(x, y, tgt_mask=mask)

    def padded(module: Any, make: Any, x: Any, y: Any) -> Any:
        later = make(np.triu(np.ones((3, 3), np.bool_), 1))
        padding = make(source)
        return module(x, y, None, later, None, padding, make(target), padding)

    for call in (plain, causal, padded):
        assert_pytorch_s(torch, theirs, ours, arrays, call)
    assert_pytorch_s(torch, theirs, ours, [drawn(5, 4), drawn(3, 4)], plain)


@pytest.mark.parametrize(
    ("name", "sizes", "options"),
    [
        ("MultiheadAttention", (6, 2), {}),
        ("MultiheadAttention", (6, 2), {"kdim": 3, "bias": False, "add_bias_kv": True}),
        ("TransformerEncoderLayer", (4, 2, 3), {"activation": "gelu"}),
        ("TransformerDecoderLayer", (4, 2, 3), {"bias": False}),
        ("Transformer", (4, 2, 2, 3, 3), {}),
    ],
)
def test_names_shapes_and_repr_are_pytorch_s(name: str, sizes: Any, options: Any) -> None:
    torch, theirs, ours = torch_s(name, *sizes, **options)
    shapes = [(key, tuple(x.shape)) for key, x in theirs.state_dict().items()]
    assert [(key, x.shape) for key, x in ours.state_dict().items()] == shapes
    assert repr(ours) == repr(theirs)
    layers = torch.nn.ReLU(), nn.ReLU()
    if name == "TransformerEncoderLayer":
        with_module = [
            repr(library.TransformerEncoderLayer(4, 2, 3, activation=module))
            for library, module in zip((torch.nn, nn), layers, strict=True)
        ]
        assert with_module[0] == with_module[1]


def test_matrices_of_a_transformer_start_evenly_and_layers_of_a_stack_alike() -> None:
    model = nn.Transformer(8, 2, 1, 1, dim_feedforward=64)
    bound = (6 / (8 + 64)) ** 0.5
    values = model.encoder.layers[0].linear1.weight.detach().numpy()
    assert 0.9 * bound < abs(values).max() <= bound
    with nn.TransformerEncoderLayer(8, 2, 16) as layer:
        encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=True)
    first, second = encoder.layers
    assert first.linear1.weight.tolist() == second.linear1.weight.tolist()
    assert first.linear1.weight is not second.linear1.weight


def test_a_stack_finds_out_that_its_mask_is_causal() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 2)
    x = tensor.tensor(drawn(3, 2, 4).astype(np.float32))
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    expected = encoder(x, mask, is_causal=False).detach().numpy()
    for given in (mask, mask.bool()):
        np.testing.assert_allclose(encoder(x, given).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    other = tensor.zeros((3, 3))
    assert abs(encoder(x, other).detach().numpy() - expected).max() > 1e-3


def test_an_empty_batch_has_an_empty_output() -> None:
    model = nn.Transformer(4, 2, 1, 1, 8, batch_first=True)
    out = model(tensor.zeros((0, 5, 4)), tensor.zeros((0, 3, 4)))
    assert out.shape == (0, 3, 4)
    out.sum().backward()


def test_a_step_of_training_leaves_nothing_behind() -> None:
    model = nn.Transformer(8, 2, 1, 1, 16)
    optimizer = nn.optim.Adam(model.parameters())
    lives = []
    for _ in range(4):
        with new_dispose_scope():
            source, target = (tensor.randn(n, 2, 8) for n in (5, 3))
            mask = model.generate_square_subsequent_mask(3)
            optimizer.zero_grad()
            model(source, target, tgt_mask=mask).square().mean().backward()
            optimizer.step()
        lives.append(statistics.live_count)
    assert len(set(lives[1:])) == 1
    model.dispose()


def test_a_model_for_inference_shares_the_weights() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)
    valid = model.valid()
    x = tensor.tensor(drawn(3, 2, 4).astype(np.float32))
    assert valid(x).tolist() == model.eval()(x).tolist()
    assert not valid(x).requires_grad


def test_second_derivatives_go_through_the_layer() -> None:
    tensor.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, dtype="float64")
    x = tensor.tensor(drawn(3, 1, 4), requires_grad=True)
    for need_weights in (False, True):
        assert tensor.autograd.gradgradcheck(
            lambda x, weights=need_weights: layer(x, x, x, need_weights=weights)[0].tanh(), (x,)
        )


def test_arguments_that_do_not_fit_raise_an_error_that_explains() -> None:
    layer = nn.MultiheadAttention(4, 2)
    x = tensor.ones((3, 2, 4))
    for make, message in (
        (lambda: nn.MultiheadAttention(5, 2), r"embed_dim \(5\) must be divisible by num_heads \(2\)"),
        (lambda: nn.MultiheadAttention(0, 2), "embed_dim must be an integer of at least 1, not 0"),
        (lambda: nn.MultiheadAttention(4, 2, dropout=3), "dropout must be from 0 to 1"),
        (lambda: layer(x, x[0], x[0]), "all three shapes must be"),
        (lambda: layer(x, x[:, :1], x[:, :1]), "and all three the same batch size"),
        (lambda: layer(x, x[:2], x), "key and value must have the same length"),
        (lambda: layer(x[..., :3], x, x), "query must have embed_dim=4 features"),
        (lambda: layer(x, x, x, is_causal=True), "requires attn_mask"),
        (lambda: layer(x, x, x, attn_mask=tensor.ones((3, 2))), r"attn_mask must have shape \(3, 3\) or"),
        (lambda: layer(x, x, x, tensor.ones((3, 3))), r"key_padding_mask must have shape \(2, 3\)"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="tanh"), "activation must be 'relu', 'gelu'"),
        (lambda: nn.TransformerEncoder(nn.Identity(), -1), "the number of layers must be an integer"),
        (lambda: nn.Transformer(4, 2, 1, 1, 8)(x, x[:, :1]), "src and tgt must have the same batch size"),
        (lambda: nn.Transformer(4, 2, 1, 1, 8)(x, x[..., :2]), "must have d_model=4 features"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="masks must be boolean or floating, not int64"):
        layer(x, x, x, attn_mask=tensor.ones((3, 3), dtype="int64"))
