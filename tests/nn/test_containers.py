from collections import OrderedDict

import numpy as np
import pytest

import nn
import tensor


def test_a_sequential_passes_through_in_order():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert model(tensor.ones((5, 2))).shape == (5, 1)
    assert len(model) == 3
    assert model[-1].out_features == 1


def test_a_sequential_by_names():
    model = nn.Sequential({"first": nn.Linear(1, 1), "act": nn.ReLU()})
    assert list(model.state_dict()) == ["first.weight", "first.bias"]


def test_a_slice_shares_its_modules():
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Tanh())
    tail = model[1:]
    assert isinstance(tail, nn.Sequential)
    assert tail[0] is model[1]
    del tail
    assert not model[1].is_disposed


def test_places_are_filled_replaced_and_taken():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    first = layers[0]
    layers.append(nn.ReLU()).extend([nn.Tanh()]).insert(1, nn.Sigmoid())
    assert [type(m).__name__ for m in layers] == ["Linear", "Sigmoid", "ReLU", "Tanh"]
    layers[0] = nn.Linear(1, 2)
    assert first.is_disposed
    taken = layers.pop(0)
    assert not taken.is_disposed
    assert [name for name, _ in layers.named_children()] == ["0", "1", "2"]
    del layers[1:]
    assert len(layers) == 1
    assert taken not in layers


def test_a_value_that_is_not_a_module_is_refused():
    with pytest.raises(TypeError, match="argument 1 is the function"):
        nn.Sequential(nn.ReLU(), lambda x: x)
    with pytest.raises(TypeError, match=r"nn\.Module"):
        nn.ModuleList([3])
    with pytest.raises(TypeError, match=r"nn\.Module"):
        nn.ModuleList().insert(0, 3)


def test_index_out_of_range_of_a_module_list_raises_an_error():
    layers = nn.ModuleList([nn.ReLU()])
    with pytest.raises(IndexError, match=r"index 1 .* ModuleList of length 1"):
        layers[1]
    with pytest.raises(TypeError, match="str"):
        layers["0"]


def test_modules_by_name():
    heads = nn.ModuleDict({"a": nn.Linear(1, 1)})
    first = heads["a"]
    heads.update([("b", nn.ReLU())])
    assert list(heads) == ["a", "b"]
    assert "b" in heads
    heads["a"] = nn.Tanh()
    assert first.is_disposed
    assert isinstance(heads.pop("a"), nn.Tanh)
    assert [name for name, _ in heads.items()] == ["b"]
    heads.clear()
    assert len(heads) == 0
    with pytest.raises(KeyError, match="keys"):
        heads["keys"] = nn.ReLU()
    with pytest.raises(KeyError):
        heads["missing"]


def test_parameters_in_a_list():
    weights = nn.ParameterList([tensor.ones((2,)), nn.Parameter(tensor.zeros((1,)))])
    first = weights[0]
    weights.append(tensor.ones((3,)))
    assert [tuple(p.shape) for p in weights] == [(2,), (1,), (3,)]
    weights[0] = tensor.ones((4,))
    assert first.is_invalid
    assert len(list(weights.parameters())) == 3
    with pytest.raises(TypeError, match="list"):
        weights.append([1.0])
    with pytest.raises(IndexError, match=r"index 3 .* ParameterList of length 3"):
        weights[3]
    assert "(0): Parameter of float32[4]" in repr(weights)
    weights.dispose()
    assert "(0): Parameter, disposed" in repr(weights)


def test_parameters_by_name():
    gains = nn.ParameterDict({"a": tensor.ones((2,))})
    gains["b"] = tensor.zeros((1,))
    assert sorted(gains.keys()) == ["a", "b"]
    assert gains.pop("a").tolist() == [1.0, 1.0]
    assert dict(gains.items()) == {"b": gains["b"]}
    del gains["b"]
    assert len(gains) == 0
    with pytest.raises(KeyError):
        gains["a"]


def test_disposing_a_container_disposes_all(window):
    model = nn.ModuleDict({"a": nn.ModuleList([nn.Linear(1, 1)]), "b": nn.ParameterList([tensor.ones((1,))])})
    model.dispose()
    assert window().live_count == 0


def test_a_parameter_dict_has_the_order_of_pytorchs():
    torch = pytest.importorskip("torch")
    for library, ones in ((nn, tensor.ones), (torch.nn, torch.ones)):
        plain, ordered = ({"b": ones((1,)), "a": ones((2,))} for _ in range(2))
        gains = library.ParameterDict(plain)
        gains.update(OrderedDict((f"{name}2", value) for name, value in ordered.items()))
        gains.update([("d", ones((1,))), ("c", ones((1,)))])
        assert list(gains.state_dict()) == ["a", "b", "b2", "a2", "d", "c"]


def test_lists_and_sequences_add_others():
    layers, more = nn.ModuleList([nn.ReLU()]), [nn.Tanh(), nn.Linear(1, 1)]
    both = layers + more
    assert [type(layer).__name__ for layer in both] == ["ReLU", "Tanh", "Linear"]
    assert len(layers) == 1
    same = layers
    layers += more
    assert same is layers
    assert list(layers) == list(both)
    model = nn.Sequential(nn.Linear(1, 2)) + nn.Sequential(nn.Linear(2, 3))
    assert model(tensor.ones((1, 1))).shape == (1, 3)
    weights = nn.ParameterList([tensor.ones((1,))])
    weights += [tensor.ones((2,))]
    assert [tuple(weight.shape) for weight in weights] == [(1,), (2,)]


@pytest.mark.parametrize("index", [np.int64(1), tensor.tensor(1)])
def test_containers_take_integers_of_numpy_and_tensors_as_indices(index):
    layers = [nn.ReLU(), nn.Tanh()]
    assert nn.ModuleList(layers)[index] is layers[1]
    model = nn.Sequential(*layers)
    model[index] = nn.Sigmoid()
    assert isinstance(model[1], nn.Sigmoid)
    weights = nn.ParameterList([tensor.zeros((1,)), tensor.ones((1,))])
    assert weights[index].item() == 1.0
    with pytest.raises(TypeError, match="must be integers or slices, not str"):
        model["1"]


def test_a_sequential_can_be_multiplied():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.ReLU()) * 2
    assert [type(each).__name__ for each in model] == ["Linear", "ReLU"] * 2
    assert (3 * nn.Sequential(layer))[2] is layer
    model *= 2
    assert len(model) == 8
    with pytest.raises(ValueError, match="at least 1, not 0"):
        model * 0
    with pytest.raises(TypeError, match=r"by an integer, not 1\.5"):
        model * 1.5


def test_insert_checks_the_index_of_a_sequential():
    with pytest.raises(IndexError, match="index 2 is out of range for a Sequential of length 1"):
        nn.Sequential(nn.ReLU()).insert(2, nn.Tanh())
    assert len(nn.Sequential(nn.ReLU()).insert(-1, nn.Tanh())) == 2


def test_a_slice_of_parameters_is_a_list_of_the_same():
    weights = nn.ParameterList([tensor.zeros((1,)), tensor.ones((1,)), tensor.ones((2,))])
    tail = weights[1:]
    assert isinstance(tail, nn.ParameterList)
    assert [x is y for x, y in zip(tail, list(weights)[1:], strict=True)] == [True, True]
    assert list(reversed(nn.ParameterDict({"a": tail[0], "b": tail[1]}))) == ["b", "a"]
