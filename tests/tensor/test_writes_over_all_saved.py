"""Whatever is written over inputs, outputs, parameters and buffers before backward, no derivative sees it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nn
import tensor
from tests.tensor import samples, samples_shapes
from tests.tensor.gradients import Sample, values

SAMPLES = [
    *samples.ELEMENTWISE,
    *samples.REDUCTIONS,
    *samples.LINEAR_ALGEBRA,
    *[Sample(*sample) for sample in samples_shapes.SAMPLES],
    *samples.COMPLEX,
    *[Sample(*sample, dtype=np.complex128) for sample in samples_shapes.COMPLEX_SAMPLES],
]
WRITES: dict[str, Callable[[tensor.Tensor], object]] = {
    "fill_": lambda x: x.detach().fill_(np.nan),
    "numpy": lambda x: x.detach().numpy().fill(np.nan),
    "view": lambda x: x.detach().reshape(-1)[:1].fill_(np.nan),
}


def gradients(out: tensor.Tensor, inputs: list[tensor.Tensor]) -> list[np.ndarray]:
    weights = np.random.default_rng(1).uniform(0.5, 1.5, out.shape)
    out.backward(tensor.tensor(np.asarray(weights).astype(out.dtype)))
    return [np.array(x.grad) for x in inputs]


def is_expanded(x: tensor.Tensor) -> bool:
    """Tell whether several elements are in one place, where nothing may be written."""
    return 0 in x.detach().numpy().strides


@pytest.mark.parametrize("rule", sorted({sample.rule for sample in SAMPLES}))
def test_no_derivative_sees_writes_to_inputs_and_output_before_backward(rule):
    for seed, sample in enumerate(SAMPLES):
        if sample.rule != rule:
            continue
        rng = np.random.default_rng(seed)
        arrays = [values(shape, sample.domain, sample.dtype, rng) for shape in sample.shapes]
        undisturbed = [tensor.tensor(array, requires_grad=True) for array in arrays]
        expected = gradients(sample.function(*undisturbed), undisturbed)
        for write in WRITES.values():
            disturbed = [tensor.tensor(array, requires_grad=True) for array in arrays]
            out = sample.function(*disturbed)
            for x in (*disturbed, out):
                if not is_expanded(x):
                    write(x)
            assert all(np.isnan(x.detach().numpy()).any() for x in disturbed if x.size())
            for ours, right in zip(gradients(out, disturbed), expected, strict=True):
                np.testing.assert_array_equal(ours, right)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(4, 3),
    "layer norm": lambda: nn.LayerNorm(4),
    "rms norm": lambda: nn.RMSNorm(4),
    "batch norm": lambda: nn.BatchNorm1d(4),
    "batch norm, evaluating": lambda: nn.BatchNorm1d(4).eval(),
    "dropout": lambda: nn.Dropout(0.5),
    "softplus": nn.Softplus,
    "elu": nn.ELU,
    "silu in place": lambda: nn.Sequential(nn.Linear(4, 4), nn.SiLU(inplace=True)),
    "log softmax": lambda: nn.LogSoftmax(-1),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", LAYERS)
def test_no_layer_sees_writes_to_its_parameters_and_buffers_before_backward(name, write):
    model = LAYERS[name]()
    other = LAYERS[name]()
    other.load_state_dict(model.state_dict())
    data = np.random.default_rng(0).uniform(0.5, 2, (5, 4)).astype("float32")
    found = []
    for layer, is_disturbed in ((model, False), (other, True)):
        tensor.manual_seed(0)
        x = tensor.tensor(data, requires_grad=True)
        out = layer(x)
        if is_disturbed:
            for y in (x, out, *layer.parameters(), *layer.buffers()):
                if y.is_floating_point():
                    WRITES[write](y)
        found.append(gradients(out, [x, *layer.parameters()]))
    for ours, right in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, right)
