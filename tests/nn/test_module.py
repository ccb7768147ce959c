import copy
import gc
import pickle
from types import SimpleNamespace

import pytest

import nn
import tensor
from scopes import current_dispose_scope, new_dispose_scope
from tensor import TensorDisposedError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.register_buffer("scale", tensor.ones((1,)))

    def forward(self, x):
        return self.second(self.first(x).relu()) * self.scale


def test_an_assigned_tensor_is_registered_and_leaves_its_scope(window):
    with new_dispose_scope() as scope:
        net = Net()
        assert len(scope) == 0
    assert window().detached_from_scope_count == 5
    assert net(tensor.ones((1, 3))).shape == (1, 2)


def test_an_attached_module_leaves_its_scope_when_another_takes_it():
    with new_dispose_scope() as scope:
        inner = scope.attach(nn.Linear(1, 1))
        scope.attach(inner.weight)
        outer = nn.Module()
        outer.inner = inner
        assert len(scope) == 0
    assert not inner.is_disposed
    assert not inner.weight.is_invalid


def test_assigning_before_super_init_is_an_error_that_teaches():
    class Hasty(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(tensor.ones((1,)))

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Hasty()


def test_a_plain_attribute_may_come_before_super_init():
    class Early(nn.Module):
        def __init__(self):
            self.size = 3
            super().__init__()

    assert Early().size == 3


def test_replacing_a_parameter_disposes_the_old_one(window):
    layer = nn.Linear(2, 2)
    old = layer.weight
    layer.weight = nn.Parameter(tensor.ones((2, 2)))
    assert old.is_invalid
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert window().live_count == 2


def test_replacing_by_none_disposes_the_old_one_and_keeps_the_name():
    layer = nn.Linear(2, 2)
    old = layer.bias
    layer.bias = None
    assert old.is_invalid
    assert layer.bias is None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    layer.bias = nn.Parameter(tensor.zeros((2,)))
    assert layer(tensor.ones((1, 2))).shape == (1, 2)


def test_assigning_the_same_object_again_changes_nothing():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    layer.weight = weight
    assert not weight.is_invalid


def test_a_parameter_made_of_the_old_one_takes_its_place():
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(layer.weight)
    assert not layer.weight.is_invalid


def test_replacing_a_module_disposes_it_whole():
    net = Net()
    old = net.first
    net.first = nn.Linear(3, 4)
    assert old.is_disposed
    assert old.weight.is_invalid


def test_replacing_a_buffer_disposes_the_old_one():
    net = Net()
    old = net.scale
    net.scale = tensor.zeros((1,))
    assert old.is_invalid
    assert dict(net.named_buffers()) == {"scale": net.scale}


def test_a_parameter_that_another_module_holds_survives_its_replacement():
    encoder, decoder = nn.Linear(2, 2), nn.Linear(2, 2)
    decoder.weight = encoder.weight
    decoder.weight = nn.Parameter(tensor.ones((2, 2)))
    assert not encoder.weight.is_invalid


def test_a_module_that_wraps_the_one_it_replaces_keeps_it_whole():
    net = Net()
    first = net.first
    net.first = nn.Sequential(first, nn.ReLU())
    assert not first.is_disposed
    assert net(tensor.ones((1, 3))).shape == (1, 2)


def test_replacing_a_module_does_not_dispose_parameters_that_others_share():
    net, other = Net(), nn.Module()
    other.kept = net.first.weight
    old = net.first
    net.first = nn.Linear(3, 4)
    assert not other.kept.is_invalid
    assert old.bias.is_invalid


def test_a_deleted_module_no_longer_protects_its_layers():
    layer = nn.Linear(2, 2)
    nn.Sequential(layer)
    holder = nn.Module()
    holder.layer = layer
    holder.layer = None
    assert layer.is_disposed


def test_deleting_an_attribute_unregisters_the_parameter_without_disposal():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    del layer.weight
    assert not weight.is_invalid
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    with pytest.raises(AttributeError, match="weight"):
        layer.weight  # noqa: B018


def test_a_plain_attribute_can_be_deleted():
    module = nn.Linear(2, 2)
    module.note = "kept"
    del module.note
    assert not hasattr(module, "note")
    with pytest.raises(AttributeError, match="note"):
        del module.note


def test_the_state_of_a_pickled_module_of_pytorch_is_refused_with_what_to_save_instead():
    module = nn.Linear.__new__(nn.Linear)
    with pytest.raises(
        pickle.UnpicklingError, match=r"PyTorch saved this Linear.*save model\.state_dict\(\)"
    ):
        module.__setstate__({"training": True, "_parameters": {}, "_buffers": {}, "_modules": {}})


def test_a_registered_name_takes_no_other_kind():
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"nn\.Parameter.*del module\.weight"):
        layer.weight = tensor.ones((2, 2))
    with pytest.raises(TypeError, match="buffer"):
        Net().scale = 3
    with pytest.raises(TypeError, match=r"nn\.Module"):
        Net().first = "layer"


@pytest.mark.parametrize("name", ["", "a.b"])
def test_names_without_text_or_with_dots_are_refused(name):
    with pytest.raises(ValueError, match="dot"):
        nn.Module().register_buffer(name, tensor.ones((1,)))


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(KeyError, match="forward"):
        nn.Module().add_module("forward", nn.ReLU())


def test_wrong_kinds_are_refused():
    with pytest.raises(TypeError, match=r"nn\.Parameter"):
        nn.Module().register_parameter("weight", tensor.ones((1,)))
    with pytest.raises(TypeError, match="tensor or None"):
        nn.Module().register_buffer("mean", 0.0)
    with pytest.raises(TypeError, match=r"nn\.Module"):
        nn.Module().add_module("act", len)


def test_a_module_can_not_hold_itself():
    outer, inner = nn.Module(), nn.Module()
    outer.inner = inner
    with pytest.raises(ValueError, match="contain itself"):
        inner.outer = outer


def test_disposed_things_can_not_be_registered():
    layer = nn.Linear(1, 1)
    layer.dispose()
    with pytest.raises(TensorDisposedError):
        nn.Sequential(layer)


def test_dispose_ends_all_that_is_registered_once(window):
    net = Net()
    (net(tensor.ones((1, 3))).sum()).backward()
    net.dispose()
    net.dispose()
    gc.collect()
    assert net.is_disposed
    assert net.first.is_disposed
    assert window().live_count == 0


def test_a_with_block_disposes_at_its_end():
    with nn.Linear(2, 2) as layer:
        assert layer(tensor.ones((1, 2))).shape == (1, 2)
    assert layer.weight.is_invalid


def test_a_scope_that_a_module_is_attached_to_disposes_it():
    with new_dispose_scope() as scope:
        net = scope.attach(Net())
    assert net.is_disposed


def test_one_failing_part_does_not_keep_the_others_alive():
    class Failing(nn.Module):
        def dispose(self):
            super().dispose()
            raise OSError("no")

    net = nn.Sequential(nn.Linear(1, 1), Failing(), nn.Linear(1, 1))
    first, _, last = net
    with pytest.raises(ExceptionGroup, match="1 error"):
        net.dispose()
    assert first.is_disposed
    assert last.is_disposed


def test_using_a_disposed_module_names_its_parameter():
    layer = nn.Linear(2, 2)
    layer.dispose()
    with pytest.raises(TensorDisposedError, match="Linear is disposed: its parameter 'weight'"):
        layer(tensor.ones((1, 2)))


def test_using_a_module_with_an_empty_parameter_names_it():
    net = Net()
    net.second.bias.dispose()
    with pytest.raises(TensorDisposedError, match="parameter 'bias' of Linear"):
        net(tensor.ones((1, 3)))


def test_scopes_find_what_a_module_holds():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = tensor.ones((1,))
            self.layer = nn.Linear(1, 1)

    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            holder = Holder()
            inner.attach(holder.layer.weight)
            inner.move_to_outer(holder)
        assert holder.plain in outer
        assert holder.layer.weight in outer
    assert holder.plain.is_invalid
    assert not holder.layer.bias.is_invalid


def test_dispose_everything_but_keeps_the_tensors_of_a_module():
    with new_dispose_scope() as scope:
        layer = nn.Linear(1, 1)
        scope.attach(layer.weight)
        other = tensor.ones((1,))
        scope.dispose_everything_but(layer)
        assert not layer.weight.is_invalid
        assert other.is_invalid


def test_a_plain_tensor_attribute_is_not_the_modules():
    module = nn.Module()
    module.mask = tensor.ones((1,))
    module.dispose()
    assert not module.mask.is_invalid
    assert list(module.named_buffers()) == []


@pytest.mark.parametrize("hold", [lambda x: [x], lambda x: {"deep": (x,)}, lambda x: SimpleNamespace(x=x)])
def test_tensors_in_containers_of_a_module_move_with_it(hold):
    module = nn.Module()
    module.stream = iter([1])  # passed over: a look would use it up
    with new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            x = tensor.ones((1,))
            module.cache = hold(x)
            assert inner.move_to_outer(module) is module
        assert x in outer
    assert list(module.stream) == [1]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_whole_and_in_no_scope(duplicate):
    net = Net()
    x = tensor.ones((1, 3))
    with new_dispose_scope():
        other = duplicate(net)
        assert other(x).tolist() == net(x).tolist()
    assert other.first.weight is not net.first.weight
    net.dispose()
    assert other(x).shape == (1, 2)
    assert current_dispose_scope() is None


def test_a_copy_has_the_same_shared_parameters_as_the_original():
    net = nn.Module()
    net.a, net.b = nn.Linear(1, 1), nn.Linear(1, 1)
    net.b.weight = net.a.weight
    other = copy.deepcopy(net)
    assert other.a.weight is other.b.weight
    other.b.weight = nn.Parameter(tensor.ones((1, 1)))
    assert not other.a.weight.is_invalid


def test_repr_is_pytorchs_tree():
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (second): Linear(in_features=4, out_features=2, bias=True)\n"
        ")"
    )
    assert repr(nn.Sequential(nn.Sequential(nn.ReLU()))) == (
        "Sequential(\n  (0): Sequential(\n    (0): ReLU()\n  )\n)"
    )


def test_a_module_without_forward_says_what_to_define():
    with pytest.raises(NotImplementedError, match="def forward"):
        nn.Module()()


def test_a_cycle_of_a_module_and_its_owner_is_no_leak(window):
    gc.disable()
    try:
        with new_dispose_scope() as scope:
            layer = scope.attach(nn.Linear(2, 2))
            layer.me = [layer]
            del layer
        assert window().live_count == 0
    finally:
        gc.enable()


def test_dispose_reaches_any_depth():
    innermost = net = nn.Module()
    for _ in range(5000):
        innermost.inner = nn.Module()
        innermost = innermost.inner
    innermost.scale = nn.Parameter(tensor.ones((1,)))
    net.dispose()
    assert innermost.is_disposed
    assert innermost.scale.is_invalid


def test_dispose_of_a_container_calls_dispose_of_a_nested_module():
    class Careful(nn.Linear):
        is_closed = False

        def dispose(self):
            self.is_closed = True
            super().dispose()

    inner = Careful(1, 1)
    nn.Sequential(nn.Sequential(inner)).dispose()
    assert inner.is_closed
    assert inner.weight.is_invalid
