import copy
import tracemalloc

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope, statistics
from tensor import TensorDisposedError
from tests.interrupts import interrupted_at


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def values(module: nn.Module) -> dict[str, object]:
    return {name: x.tolist() for name, x in module.state_dict().items()}


def test_the_names_are_pytorchs():
    assert list(model().state_dict()) == [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
        "2.weight",
        "2.bias",
    ]
    assert list(nn.Linear(1, 1).state_dict(prefix="net.")) == ["net.weight", "net.bias"]


def test_values_share_memory_and_belong_to_the_current_scope():
    layer = nn.Linear(2, 2)
    with new_dispose_scope() as scope:
        state = layer.state_dict()
        assert state["weight"] in scope
        assert not state["weight"].requires_grad
        state["weight"].zero_()
    assert layer.weight.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_deep_copy_of_a_state_is_a_snapshot():
    layer = nn.Linear(2, 2)
    kept = copy.deepcopy(layer.state_dict())
    before = layer.weight.tolist()
    nn.init.zeros_(layer.weight)
    assert kept["weight"].tolist() == before
    layer.load_state_dict(kept)
    assert layer.weight.tolist() == before


def test_a_parameter_that_replaces_a_transient_buffer_is_in_the_state_dict():
    module = nn.Module()
    module.register_buffer("x", tensor.zeros((1,)), persistent=False)
    module.x = nn.Parameter(tensor.ones((1,)))
    assert list(module.state_dict()) == ["x"]


def test_transient_buffers_are_left_out():
    module = nn.Module()
    module.register_buffer("cache", tensor.ones((1,)), persistent=False)
    assert module.state_dict() == {}


def test_a_state_loads_into_another_model(window):
    first, second = model(), model()
    live = window().live_count
    assert repr(second.load_state_dict(first.state_dict())) == "<All keys matched successfully>"
    assert values(first) == values(second)
    assert window().live_count == live


def test_arrays_load_as_well():
    layer = nn.Linear(2, 1)
    layer.load_state_dict({"weight": np.array([[1.0, 2.0]]), "bias": np.array([3.0], "float32")})
    assert layer(tensor.ones((1, 2))).item() == 6.0
    assert layer.weight.dtype == tensor.float32


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (lambda s: s.pop("2.bias"), ValueError, r"Missing: \['2\.bias'\]"),
        (lambda s: s.update(extra=tensor.ones((1,))), ValueError, r"Unexpected: \['extra'\]"),
        (
            lambda s: s.update({"2.bias": tensor.ones((3,))}),
            ValueError,
            r"'2\.bias' has shape \(2,\).*\(3,\)",
        ),
        (
            lambda s: s.update({"2.bias": tensor.ones((2,), dtype="complex64")}),
            TypeError,
            r"'2\.bias'.*complex64",
        ),
        (lambda s: s.update({"1.num_batches_tracked": tensor.tensor(1.0)}), TypeError, "num_batches_tracked"),
        (lambda s: s.update({"2.bias": "no"}), TypeError, r"'2\.bias' must be .* not str"),
    ],
)
def test_an_entry_that_does_not_fit_is_named_and_nothing_changes(change, error, named):
    target = model()
    before = values(target)
    state = model().state_dict()
    change(state)
    with pytest.raises(error, match=named):
        target.load_state_dict(state)
    assert values(target) == before


def test_a_disposed_value_is_an_error_and_nothing_has_changed():
    target = model()
    before = values(target)
    state = model().state_dict()
    state["2.bias"].dispose()
    with pytest.raises(TensorDisposedError):
        target.load_state_dict(state)
    assert values(target) == before


def test_without_strict_matching_entries_are_loaded_and_the_others_returned():
    layer = nn.Linear(1, 1)
    found = layer.load_state_dict(
        {"weight": tensor.tensor([[5.0]]), "other": tensor.ones((1,))}, strict=False
    )
    assert layer.weight.item() == 5.0
    assert found == (["bias"], ["other"])


def test_without_strict_a_shape_that_does_not_fit_is_still_an_error():
    with pytest.raises(ValueError, match="shape"):
        nn.Linear(1, 1).load_state_dict({"weight": tensor.ones((2, 2))}, strict=False)


def test_two_parameters_can_trade_their_values():
    module = nn.Module()
    module.a, module.b = (nn.Parameter(tensor.full((2,), v)) for v in (1.0, 2.0))
    module.load_state_dict({"a": module.b.detach(), "b": module.a.detach()})
    assert values(module) == {"a": [2.0, 2.0], "b": [1.0, 1.0]}


def test_two_views_of_one_memory_can_trade_their_values():
    module, both = nn.Module(), tensor.tensor([1.0, 2.0])
    module.a, module.b = nn.Parameter(both[0:1]), nn.Parameter(both[1:2])
    module.load_state_dict({"a": module.b.detach(), "b": module.a.detach()})
    assert values(module) == {"a": [2.0], "b": [1.0]}


def test_loading_leaves_parameters_and_optimizers_in_their_places():
    layer = nn.Linear(2, 2)
    weight, alias = layer.weight, layer.weight.detach()
    layer.load_state_dict(nn.Linear(2, 2).state_dict())
    assert layer.weight is weight
    assert alias.tolist() == weight.tolist()


def test_loading_after_a_forward_leaves_its_gradients_right():
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 3.0)
    x = tensor.ones((1, 1), requires_grad=True)
    loss = layer(x).sum()
    layer.load_state_dict({"weight": tensor.zeros((1, 1))})
    loss.backward()
    assert x.grad.item() == 3.0


def test_a_load_that_is_interrupted_at_any_call_changes_all_values_or_none():
    first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    old, new = copy.deepcopy(second.state_dict()), first.state_dict()
    second.load_state_dict(new)
    second.load_state_dict(old)
    start = statistics.live_count, tensor.memory.statistics().bytes_live
    event = 1
    while interrupted_at(event, lambda: second.load_state_dict(new)):
        assert (statistics.live_count, tensor.memory.statistics().bytes_live) == start
        is_new = [bool((x == new[name]).all()) for name, x in second.state_dict().items()]
        assert is_new in ([True, True], [False, False])
        second.load_state_dict(old)
        event += 1
    assert event > 20


def test_loading_copies_only_values_that_it_would_overwrite() -> None:
    first, second = nn.Linear(300, 400), nn.Linear(300, 400)
    state = first.state_dict()
    second.load_state_dict(state)
    tracemalloc.start()
    try:
        second.load_state_dict(state)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < first.weight.nbytes / 4


def test_keep_vars_returns_the_parameters_themselves():
    layer = nn.Linear(2, 2)
    state = layer.state_dict(keep_vars=True)
    assert state["weight"] is layer.weight
    assert not layer.state_dict()["weight"].requires_grad


def test_a_name_that_is_no_str_is_an_error():
    with pytest.raises(TypeError, match="the name of a buffer must be a str, not 1: write '1'"):
        nn.Module().register_buffer(1, tensor.ones((1,)))


@pytest.mark.parametrize("assign", [False, True])
def test_buffers_of_integers_are_loaded(assign):
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", tensor.zeros((2,), dtype="int64"))
            self.weight = nn.Parameter(tensor.ones(2))

    module = Counter()
    state = {"count": tensor.tensor([3, 4]), "weight": tensor.tensor([5.0, 6.0])}
    module.load_state_dict(state, assign=assign)
    assert (module.count.tolist(), module.weight.tolist()) == ([3, 4], [5.0, 6.0])
    if assign:
        with pytest.raises(TypeError, match="'weight' requires grad, but is int64 in the state dict"):
            module.load_state_dict({**state, "weight": tensor.tensor([1, 2])}, assign=True)
