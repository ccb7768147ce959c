"""valid(): a copy that shares memory and records nothing."""

import numpy as np

import nn
import tensor
from scopes import new_dispose_scope
from tensor import memory


def model():
    return nn.Sequential(nn.Linear(30, 20), nn.BatchNorm1d(20), nn.Dropout(0.5), nn.Linear(20, 2))


def test_it_takes_no_memory_and_records_nothing():
    net = model()
    before = memory.statistics().bytes_live
    frozen = net.valid()
    assert memory.statistics().bytes_live == before
    with new_dispose_scope():
        assert not frozen(tensor.ones((4, 30))).requires_grad
    assert not any(module.training for module in frozen.modules())
    assert net.training
    assert all(x.requires_grad for x in net.parameters())


def test_it_keeps_its_values_while_training_continues():
    net = model()
    with new_dispose_scope():
        frozen = net.valid()
        x = tensor.randn(8, 30)
        expected = frozen(x).tolist()
        optimizer = nn.optim.SGD(net.parameters(), lr=0.1)
        net(x).sum().backward()
        optimizer.step()
        assert frozen(x).tolist() == expected
        assert net.valid()(x).tolist() != expected


def test_a_write_to_one_side_copies_only_the_written_tensor():
    net = nn.Linear(30, 20)
    frozen = net.valid()
    before = memory.statistics().bytes_live
    with tensor.no_grad():
        net.bias.add_(1.0)
    assert memory.statistics().bytes_live - before == 80
    assert np.allclose(net.bias.detach().numpy() - frozen.bias.numpy(), 1.0)


def test_train_makes_the_same_parameters_trainable_again():
    net = model()
    net[0].requires_grad_(False)
    frozen = net.valid()
    assert not any(x.requires_grad for x in frozen.parameters())
    assert frozen.train() is frozen
    assert [x.requires_grad for x in frozen.parameters()] == [x.requires_grad for x in net.parameters()]
    assert all(module.training for module in frozen.modules())


def test_eval_and_train_of_other_modules_touch_no_trainability():
    net = model()
    net[0].requires_grad_(False)
    net.eval().train()
    assert not net[0].weight.requires_grad


def test_each_side_is_disposed_alone():
    net = nn.Linear(3, 2)
    frozen = net.valid()
    net.dispose()
    with new_dispose_scope():
        assert frozen(tensor.ones((1, 3))).shape == (1, 2)
    frozen.dispose()
    assert frozen.weight.is_invalid


def test_it_has_no_gradients():
    net = nn.Linear(3, 1)
    with new_dispose_scope():
        net(tensor.ones((1, 3))).sum().backward()
    assert net.valid().weight.grad is None
    assert net.weight.grad is not None
