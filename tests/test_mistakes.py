"""The mistakes of a first hour, made by those who know PyTorch and NumPy: each error says what to write."""

from __future__ import annotations

import numpy as np
import pytest

import nn
import nn.functional as F
import scopes
import tensor
import tensor.torch
from nn.data import DataLoader, TensorDataset
from scopes import new_dispose_scope
from scopes.testing import assert_dispose_counts

MISTAKES = {
    # Words of the other dialect
    "tensor.sum(x, dim=0)": "got an unexpected keyword argument 'dim': write tensor.sum(x, axis=0)",
    "tensor.mean(x, dim=1, keepdim=True)": "write tensor.mean(x, axis=1, keepdims=True)",
    "tensor.softmax(x, dim=-1)": "write tensor.softmax(x, axis=-1)",
    "tensor.stack([x, x], dim=1)": "write tensor.stack([x, y], axis=1)",
    "tensor.cat([x, x], axis=0)": "write tensor.cat([x, y], dim=0)",
    "x.sum(axis=0)": "Tensor.sum() got an unexpected keyword argument 'axis': write x.sum(dim=0)",
    "x.mean(axis=0, keepdims=True)": "write x.mean(dim=0, keepdim=True)",
    "x.max(axis=0)": "write x.max(dim=0)",
    "F.softmax(x, axis=1)": "write nn.functional.softmax(x, dim=1)",
    "tensor.sum(x, 0)": "write tensor.sum(x, axis=0)",
    "tensor.max(x, 0)": "write tensor.max(x, axis=0)",
    "tensor.flip(x, 0)": "write tensor.flip(x, axis=0)",
    "tensor.linspace(0, 1, steps=5)": "write num= instead of steps=",
    "x.view(tensor.int32)": "not of the dtype int32. To reinterpret the bytes as that dtype, write ",
    "tensor.std(x, unbiased=False)": "correction=0 for unbiased=False",
    "tensor.add(x, x, alpha=2)": "write tensor.add(x, alpha * y), or x.add(y, alpha=alpha)",
    "tensor.relu(x, inplace=True)": "write x.relu_()",
    "F.dropout(x, 0.5, train=True)": "write training= instead of train=",
    "F.dropout(x, probability=0.5)": "It takes (input, p=0.5, training=True",
    # Sizes and lists
    "tensor.ones(2, 3)": "the sizes must be one tuple: write tensor.ones((2, 3))",
    "tensor.zeros(2, 3)": "write tensor.zeros((2, 3))",
    "tensor.full(2, 3, 1.5)": "write tensor.full((2, 3), 1.5)",
    "tensor.reshape(x, 3, 2)": "write tensor.reshape(x, (3, 2))",
    "tensor.permute_dims(x, 1, 0)": "write tensor.permute_dims(x, (1, 0))",
    "tensor.tensor(1, 2, 3)": "write tensor.tensor([1, 2, 3])",
    "tensor.stack(x, x)": "write tensor.stack([x, y])",
    "tensor.concat(x, x)": "write tensor.concat([x, y])",
    "tensor.cat(x, x)": "write cat([x, y])",
    "nn.ModuleList(model, model)": "write ModuleList([a, b])",
    "nn.Sequential([model, model])": "nn.Sequential(*list_of_modules)",
    "nn.Sequential(nn.Linear)": "create a module, with Linear(...)",
    "nn.Sequential(model, F.relu)": "nn.ReLU() instead of nn.functional.relu",
    # Devices and dtypes
    "x.cuda()": "Omit .cuda() and device=, or write 'cpu'",
    "x.to('cuda')": "or write 'cpu'",
    "x.to(device='cuda:0')": "or write 'cpu'",
    "model.cuda()": "or write 'cpu'",
    "model.to('cuda')": "or write 'cpu'",
    "x.to('gpu')": "the one device is 'cpu'",
    "model.to('flaot32')": "write x.to(tensor.float64) or x.to('float64')",
    "tensor.cuda.is_available()": "`tensor.torch` has cuda.is_available(), which returns False",
    "tensor.float": "write tensor.float32",
    "tensor.long": "write tensor.int64",
    "tensor.set_default_dtype(tensor.float64)": "pass dtype=tensor.float64 when you create a tensor",
    # Names of other libraries
    "tensor.array([1])": "write tensor.tensor(data)",
    "tensor.mm(x, x)": "write x.mm(...), because it is a method",
    "tensor.unsqueeze(x, 0)": "write x.unsqueeze(...)",
    "tensor.onse((2, 3))": "module 'tensor' has no attribute 'onse': did you mean 'ones'?",
    "scopes.NewDisposeScope()": "did you mean 'new_dispose_scope'?",
    "scopes.DisposeScopeManager": "write scopes.statistics, or scopes.current_dispose_scope()",
    "tensor.torch.NewDisposeScope()": "write scopes.new_dispose_scope()",
    "tensor.torch.MatMul": "did you mean 'matmul'?",
    "tensor.CurrentDisposeScope": "write scopes.current_dispose_scope()",
    "model.Dispose()": "Linear has no attribute 'Dispose': did you mean 'dispose'?",
    "model.Forward(x)": "did you mean 'forward'?",
    "scopes.new_scope": "did you mean 'new_dispose_scope'?",
    "nn.Liner": "did you mean 'Linear'?",
    "nn.functional.crossentropy": "did you mean 'cross_entropy'?",
    "tensor.is_tensor(x)": "write isinstance(x, tensor.Tensor)",
    "tensor.nn": "write import nn",
    "nn.DataLoader": "write nn.data.DataLoader",
    "nn.Adam": "write nn.optim.Adam",
    "nn.relu": "write nn.functional.relu",
    "model.save('model.bin')": "write tensor.save(module.state_dict(), path)",
    "model.load('model.bin')": "write module.load_state_dict(tensor.load(path))",
    "model.RegisterComponents()": "write self.register_buffer(name, x) for other tensors",
    "model.weights": "did you mean 'weight'?",
    # Scopes
    "scopes.new_dispose_scope(len)": "write @scopes.disposing above it",
    "assert_dispose_counts(live=0)": "has no live=: did you mean live_count? The counts are",
    "assert_dispose_counts(qqqq=0)": "has no qqqq=: The counts are live_count, created_",
    "scopes.new_dispose_scope(7)": "the name of a scope must be a str, not int: write str(name)",
    # Modes
    "tensor.no_grad(len)": "write @tensor.no_grad() above a def, with parentheses",
    "tensor.enable_grad(len)": "write @tensor.enable_grad() above a def",
    "tensor.inference_mode(len)": "write @tensor.inference_mode() above a def",
    "tensor.set_grad_enabled(len)": "write @tensor.set_grad_enabled(False) above a def",
    # Networks
    "nn.optim.Adam(model)": "write Adam(model.parameters(), ...)",
    "nn.optim.SGD(model, lr=0.1)": "write SGD(model.parameters(), ...)",
    "nn.optim.SGD([{'params': model}], lr=0.1)": "write SGD(model.parameters(), ...)",
    "nn.optim.Adam(model.named_parameters())": "write model.parameters()",
    "nn.optim.Adam(lr=0.1)": "It takes (params, lr=0.001",
    "nn.utils.clip_grad_norm_(model, 1.0)": "write model.parameters()",
    "nn.Linear(3)": "It takes (in_features, out_features, bias=True",
    "nn.ReLU(x)": "write nn.ReLU()(x), or nn.functional.relu(x)",
    "nn.CrossEntropyLoss(x, x)": "write criterion = nn.CrossEntropyLoss()",
    "nn.MSELoss(x)": "write criterion = nn.MSELoss()",
    "model.load_state_dict('model.pt')": "write load_state_dict(tensor.load('model.pt'))",
    "model(np.ones((2, 3)))": "write tensor.tensor(input)",
    "nn.Parameter([1.0])": "write nn.Parameter(tensor.tensor(data))",
    "nn.Softmax()(x)": "write dim=-1",
    "tensor.softmax(x, axis=None)": "not None: it normalizes along one dimension",
    "x.log_softmax((0, 1))": "not (0, 1): it normalizes along one dimension",
    "F.cross_entropy(x, [0, 1])": "write tensor.tensor(target)",
    "tensor.save(model, 'model.st')": "save its state_dict()",
    "DataLoader(iter([1]))": "pass TensorDataset(inputs, targets), or a list",
    "TensorDataset([1, 2])": "write tensor.tensor(data)",
    "x.broadcast_to(2, 3)": "write x.broadcast_to((2, 3))",
    "x.view(3, 2, size=(3, 2))": "write x.view(2, 3), or one keyword",
    "x.permute(1, 0, dims=(1, 0))": "permute takes its sizes once",
    "x.hsplit(3, sections=3)": "write x.hsplit(sections=2)",
    "x.std(axis=1, ddof=1)": "write x.std(dim=1, correction=1)",
    "x.relu(inplace=True)": "Tensor.relu() got an unexpected keyword argument 'inplace': write x.relu_()",
    "tensor.arange(start=0, end=5)": "write stop= instead of end=",
    "tensor.multiply(x, x, alpha=2)": "omit alpha=",
    # Values
    "x.hsplit(2)": "write x.tensor_split(2, dim=1)",
    "x.dsplit(2)": "takes a tensor of at least 3 dimensions, not shape (2, 3)",
    "x.unsqueeze(9)": "dimension 9 is out of range: it must be from -3 to 2",
    "x.narrow(0, 1.5, 1)": "start must be an integer",
    "tensor.full((2,), [1, 2])": "fill_value must be one number, not values of shape (2,)",
    "tensor.ones((0,)).item()": "check x.numel() first",
    "format(x, '.2f')": "format one element, x[0, 0], or x.mean()",
    "x.donate() + x": "donate a copy: x.clone()",
    "float(x)": "select one (x[0, 0]), reduce the tensor",
    "bool(x > 0)": "x.any(), x.all()",
    "model(x).numpy()": "Use x.detach().numpy()",
    "model(x).backward()": "reduce the tensor first",
    "x.backward()": "Create the inputs with requires_grad=True",
    "x[1.5]": "an index must be an integer",
    "x @ x": "transpose a matrix (x.mT)",
    "tensor.tensor([[1, 2], [3]])": "pad the shorter ones",
    "tensor.tensor([1, 2], requires_grad=True)": "Pass dtype=tensor.float32",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_error_says_what_to_write(mistake: str) -> None:
    with new_dispose_scope():
        names = {
            "x": tensor.ones((2, 3)),
            "model": nn.Linear(3, 2),
            "scopes": scopes,
            "tensor": tensor,
            "nn": nn,
            "F": F,
            "np": np,
            "assert_dispose_counts": assert_dispose_counts,
            "DataLoader": DataLoader,
            "TensorDataset": TensorDataset,
        }
        with pytest.raises((TypeError, ValueError, RuntimeError, AttributeError, IndexError)) as caught:
            eval(mistake, names)
    assert MISTAKES[mistake] in str(caught.value)


@pytest.mark.parametrize(
    ("mistake", "wrong_advice"),
    [
        ("tensor.finfo(bool)", "iinfo"),
        ("tensor.iinfo(bool)", "finfo()"),
        ("x @ tensor.ones((4,))", "transpose"),
        ("tensor.where(x, x, 0)", "x.to(dtype)"),
        ("tensor.ones((2,)).H", "mH"),
        ("tensor.ones((2,)).norm('nuc')", "dim="),
        ("tensor.add(x, x, out=tensor.empty((3,)))", "view"),
    ],
)
def test_no_error_advises_what_fails_too(mistake: str, wrong_advice: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        eval(mistake, {"x": tensor.ones((2, 3)), "tensor": tensor})
    advice = str(caught.value).partition(": ")[2]
    assert wrong_advice not in advice


def test_a_name_that_is_similar_to_none_gets_no_suggestion() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = tensor.qqqq
    assert str(caught.value) == "module 'tensor' has no attribute 'qqqq'"
    assert caught.value.name == "qqqq"


def test_a_module_that_is_not_imported_is_named() -> None:
    with pytest.raises(AttributeError, match=r"before it is imported: write import scopes\.torch"):
        scopes.__getattr__("torch")


def test_a_type_error_from_inside_a_call_that_fits_stays_as_it_is() -> None:
    def refuse(grad: tensor.Tensor) -> tensor.Tensor:
        raise TypeError("write something else")

    x = tensor.ones((1,), requires_grad=True)
    x.register_hook(refuse)
    with pytest.raises(TypeError) as caught:
        x.sum().backward()
    assert str(caught.value) == "write something else"


def test_names_that_a_namespace_lacks_raise_an_attribute_error() -> None:
    assert not hasattr(tensor, "mm")
    assert not hasattr(nn, "DataLoader")
    with pytest.raises(ImportError):
        exec("from tensor import unsqueeze")
