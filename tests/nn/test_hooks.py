import gc

import pytest

import nn
import tensor


def test_a_pre_hook_may_replace_the_arguments():
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda module, args: args[0] * 2)
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    assert layer(tensor.ones((1,))).item() == 3.0


def test_a_hook_may_replace_the_output():
    layer = nn.Identity()
    seen = []
    layer.register_forward_hook(lambda module, args, output: seen.append(module))
    layer.register_forward_hook(lambda module, args, output: output * 5)
    assert layer(tensor.ones((1,))).item() == 5.0
    assert seen == [layer]


def test_a_removed_hook_no_longer_runs():
    layer = nn.Identity()
    handle = layer.register_forward_hook(lambda module, args, output: output * 5)
    handle.remove()
    handle.remove()
    assert layer(tensor.ones((1,))).item() == 1.0


def test_a_handle_does_not_keep_its_module(window):
    handle = nn.Linear(2, 2).register_forward_hook(lambda module, args, output: None)
    gc.collect()
    assert window().live_count == 0
    handle.remove()


def test_a_hook_is_a_function():
    with pytest.raises(TypeError, match="int"):
        nn.ReLU().register_forward_hook(3)
