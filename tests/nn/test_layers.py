import math

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope


def test_linear_starts_within_its_bounds():
    layer = nn.Linear(16, 200)
    for x in layer.parameters():
        values = x.detach().numpy()
        assert abs(values).max() <= 0.25
        assert abs(values).max() > 0.2


def test_linear_repeats_with_a_seed():
    tensor.manual_seed(1)
    first = nn.Linear(3, 3).weight.tolist()
    tensor.manual_seed(1)
    assert nn.Linear(3, 3).weight.tolist() == first


def test_linear_without_bias_has_one_parameter():
    layer = nn.Linear(2, 3, bias=False)
    assert layer.bias is None
    assert list(layer.state_dict()) == ["weight"]


def test_a_dtype_is_that_of_all_parameters():
    for layer in (
        nn.Linear(2, 2, dtype="float64"),
        nn.LayerNorm(2, dtype="float64"),
        nn.BatchNorm1d(2, dtype="float64"),
        nn.Embedding(2, 2, dtype="float64"),
        nn.RMSNorm(2, dtype="float64"),
    ):
        assert {str(p.dtype) for p in layer.parameters()} == {"float64"}


@pytest.mark.parametrize("size", [-1, 2.0, "3"])
def test_sizes_are_integers_of_at_least_0(size):
    with pytest.raises(ValueError, match="in_features"):
        nn.Linear(size, 2)


def test_making_a_layer_leaves_its_parameters_alone_alive(window):
    with new_dispose_scope() as scope:
        nn.Linear(4, 4)
        layer = nn.BatchNorm1d(3)
        assert len(scope) == 0
        assert window().live_count == 5
    assert layer.weight.tolist() == [1.0, 1.0, 1.0]


def test_embedding_has_a_row_of_zeros_for_padding():
    words = nn.Embedding(5, 3, padding_idx=-1)
    assert words.padding_idx == 4
    assert words.weight[4].tolist() == [0.0, 0.0, 0.0]
    assert words(tensor.tensor([[0, 4]])).shape == (1, 2, 3)


def test_embedding_from_pretrained_shares_and_freezes():
    rows = tensor.ones((4, 2))
    words = nn.Embedding.from_pretrained(rows)
    rows[0] = 5
    assert words(tensor.tensor([0])).tolist() == [[5.0, 5.0]]
    assert not words.weight.requires_grad
    assert nn.Embedding.from_pretrained(rows, freeze=False).weight.requires_grad


def test_dropout_is_off_in_evaluation():
    layer, x = nn.Dropout(0.5), tensor.ones((100,))
    assert 0.0 in layer(x).tolist()
    assert layer.eval()(x) is x


def test_flatten_and_unflatten_undo_each_other():
    x = tensor.rand(2, 3, 4)
    flat = nn.Flatten()(x)
    assert flat.shape == (2, 12)
    assert nn.Unflatten(1, (3, 4))(flat).tolist() == x.tolist()
    assert nn.Flatten(0, 1)(x).shape == (6, 4)
    assert nn.Unflatten(-1, (2, -1))(x).shape == (2, 3, 2, 2)
    with pytest.raises(IndexError, match="dim is 5"):
        nn.Unflatten(5, (1,))(x)


def test_batch_norm_learns_in_training_and_uses_it_in_evaluation():
    layer = nn.BatchNorm1d(2)
    x = tensor.tensor([[1.0, 2.0], [3.0, 6.0]])
    layer(x)
    np.testing.assert_allclose(layer.running_mean.numpy(), [0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), [0.9 + 0.2, 0.9 + 0.8], rtol=1e-6)
    layer.eval()
    expected = (np.array([[1, 2], [3, 6]]) - [0.2, 0.4]) / np.sqrt(np.array([1.1, 1.7]) + 1e-5)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-5)
    assert layer.num_batches_tracked.item() == 1


def test_batch_norm_without_momentum_averages_all_batches():
    layer = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 2.0, 6.0):
        layer(tensor.tensor([[value - 1], [value + 1]]))
    assert layer.running_mean.item() == pytest.approx(3.0)


def test_batch_norm_without_running_figures_uses_the_batch():
    layer = nn.BatchNorm1d(1, track_running_stats=False).eval()
    assert layer(tensor.tensor([[1.0], [3.0]])).mean().item() == pytest.approx(0.0)
    assert list(layer.buffers()) == []


def test_batch_norm_names_the_shape_it_needs():
    with pytest.raises(ValueError, match=r"\(batch, 3\).*\(4, 2\)"):
        nn.BatchNorm1d(3)(tensor.ones((4, 2)))


def test_a_failed_batch_changes_no_running_figure():
    layer = nn.BatchNorm1d(1)
    with pytest.raises(ValueError, match="more than one value"):
        layer(tensor.ones((1, 1)))
    assert layer.num_batches_tracked.item() == 0
    assert layer.running_mean.item() == 0.0


def test_layer_norm_without_bias_or_affine():
    assert nn.LayerNorm(3, bias=False).bias is None
    assert list(nn.LayerNorm((2, 3), elementwise_affine=False).parameters()) == []
    assert nn.LayerNorm((2, 3))(tensor.rand(4, 2, 3)).shape == (4, 2, 3)


def test_activations_are_their_functions():
    x = tensor.tensor([-2.0, 0.5])
    expected = {
        nn.ReLU(): [0.0, 0.5],
        nn.LeakyReLU(): [-0.02, 0.5],
        nn.ELU(): [math.expm1(-2), 0.5],
        nn.SiLU(): [-2 / (1 + math.exp(2)), 0.5 / (1 + math.exp(-0.5))],
        nn.GELU(): [-1 - math.erf(-math.sqrt(2)) * 1, 0.25 * (1 + math.erf(0.5 / math.sqrt(2)))],
        nn.Sigmoid(): [1 / (1 + math.exp(2)), 1 / (1 + math.exp(-0.5))],
        nn.Tanh(): [math.tanh(-2), math.tanh(0.5)],
        nn.Softplus(): [math.log1p(math.exp(-2)), math.log1p(math.exp(0.5))],
        nn.Softmax(dim=0): [1 / (1 + math.exp(2.5)), 1 / (1 + math.exp(-2.5))],
        nn.LogSoftmax(dim=0): [-math.log1p(math.exp(2.5)), -math.log1p(math.exp(-2.5))],
        nn.Identity(): [-2.0, 0.5],
    }
    for layer, values in expected.items():
        np.testing.assert_allclose(layer(x).numpy(), values, rtol=2e-6, atol=1e-7, err_msg=repr(layer))


def test_an_activation_in_place_writes_over_its_input():
    x = tensor.tensor([-1.0, 1.0])
    assert nn.ReLU(inplace=True)(x) is x
    assert x.tolist() == [0.0, 1.0]


def test_reprs_are_pytorchs():
    reprs = {
        nn.Linear(2, 3, bias=False): "Linear(in_features=2, out_features=3, bias=False)",
        nn.Embedding(3, 4, padding_idx=-1): "Embedding(3, 4, padding_idx=2)",
        nn.Dropout(0.2): "Dropout(p=0.2, inplace=False)",
        nn.Flatten(): "Flatten(start_dim=1, end_dim=-1)",
        nn.Unflatten(1, (2, 3)): "Unflatten(dim=1, unflattened_size=(2, 3))",
        nn.LayerNorm(3): "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)",
        nn.RMSNorm(3): "RMSNorm((3,), eps=None, elementwise_affine=True)",
        nn.Softmax(dim=1): "Softmax(dim=1)",
        nn.GELU(): "GELU(approximate='none')",
        nn.ELU(): "ELU(alpha=1.0)",
        nn.LeakyReLU(): "LeakyReLU(negative_slope=0.01)",
        nn.Softplus(): "Softplus(beta=1.0, threshold=20.0)",
        nn.ReLU(inplace=True): "ReLU(inplace=True)",
        nn.CrossEntropyLoss(): "CrossEntropyLoss()",
    }
    assert [repr(layer) for layer in reprs] == list(reprs.values())


def test_losses_take_weights_as_buffers_out_of_their_scope():
    with new_dispose_scope():
        criterion = nn.CrossEntropyLoss(weight=tensor.ones((3,)))
    assert criterion(tensor.rand(4, 3), tensor.tensor([0, 1, 2, 0])).item() > 0
    with pytest.raises(ValueError, match="MSELoss: reduction"):
        nn.MSELoss(reduction="average")
