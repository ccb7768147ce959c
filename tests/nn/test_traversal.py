import pytest

import nn
import tensor


def tied() -> nn.Module:
    module = nn.Module()
    module.a = nn.Linear(2, 2)
    module.b = module.a
    module.c = nn.Linear(2, 2, bias=False)
    module.c.weight = module.a.weight
    return module


def test_shared_parameters_and_modules_appear_once():
    module = tied()
    assert [name for name, _ in module.named_parameters()] == ["a.weight", "a.bias"]
    assert [name for name, _ in module.named_modules()] == ["", "a", "c"]
    assert [name for name, _ in module.named_children()] == ["a", "c"]
    assert len(list(module.parameters())) == 2


def test_every_name_appears_without_remove_duplicate():
    names = [name for name, _ in tied().named_parameters(remove_duplicate=False)]
    assert names == ["a.weight", "a.bias", "b.weight", "b.bias", "c.weight"]


def test_named_parameters_puts_the_prefix_before_each_name():
    assert [name for name, _ in nn.Linear(1, 1).named_parameters("net")] == ["net.weight", "net.bias"]


def test_parameters_without_recurse_are_only_those_of_the_module():
    assert list(tied().parameters(recurse=False)) == []
    assert len(list(nn.Linear(1, 1).parameters(recurse=False))) == 2


def test_buffers_are_no_parameters():
    layer = nn.BatchNorm1d(2)
    assert [name for name, _ in layer.named_buffers()] == [
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert len(list(layer.buffers())) == 3


def test_train_and_eval_reach_all_modules():
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    assert not any(m.training for m in model.eval().modules())
    assert all(m.training for m in model.train().modules())
    with pytest.raises(TypeError, match="True or False"):
        model.train("yes")


def test_apply_calls_inner_modules_first():
    seen = []
    twice = nn.Sigmoid()
    model = nn.Sequential(nn.ReLU(), nn.ModuleList([twice, nn.Tanh()]), twice)
    assert model.apply(lambda module: seen.append(type(module).__name__)) is model
    assert seen == ["ReLU", "Sigmoid", "Tanh", "ModuleList", "Sequential"]


def test_requires_grad_freezes_all_parameters():
    model = nn.Sequential(nn.Linear(2, 2)).requires_grad_(False)
    assert not model(tensor.ones((1, 2))).requires_grad


def test_get_submodule_names_the_missing_module():
    model = nn.Sequential(nn.Sequential(nn.ReLU()))
    assert isinstance(model.get_submodule("0.0"), nn.ReLU)
    assert model.get_submodule("") is model
    with pytest.raises(AttributeError, match=r"'0\.1'.*'1'.*\['0'\]"):
        model.get_submodule("0.1")


def test_children_are_the_modules_own():
    model = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    assert [type(m).__name__ for m in model.children()] == ["Sequential", "Tanh"]
