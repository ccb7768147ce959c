"""Run before a program: both libraries start from the same values and draw the same; losses are noted down.

The numbers come from NumPy, in the order in which the program asks for them.
"""

import atexit
import json
import os
import random
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data as data

RESULT, LIMIT = os.environ["PROGRAM_RESULT"], int(os.environ["PROGRAM_LIMIT"])
FOLDER, CHANGED = os.environ["PROGRAM_FOLDER"], float(os.environ["PROGRAM_CHANGED"])
drawn = np.random.RandomState(0)
random.seed(0)
losses = []


def as_tensor(array, dtype=None):
    x = torch.from_numpy(np.ascontiguousarray(array))
    return x if dtype is None else x.to(dtype)


def changed(array):
    return array * (1 + CHANGED * np.random.RandomState(9).standard_normal(array.shape))


def is_of_program(frame):
    return frame.f_code.co_filename.startswith(FOLDER)


# --- Draws --------------------------------------------------------------------------------------------------


def shape_of(sizes):
    if len(sizes) == 1 and not isinstance(sizes[0], (int, np.integer)):
        sizes = tuple(sizes[0])
    return tuple(int(size) for size in sizes)


def randn(*size, dtype=torch.float32, requires_grad=False, **options):
    x = as_tensor(changed(drawn.standard_normal(shape_of(size))).astype("float32"), dtype)
    return x.requires_grad_() if requires_grad else x


def rand(*size, dtype=torch.float32, **options):
    return as_tensor(drawn.random_sample(shape_of(size)).astype("float32"), dtype)


def randint(*bounds, size=None, low=0, high=None, **options):
    if size is None:
        *bounds, size = bounds
    bounds = bounds or ([low, high] if high is not None else [low])
    return as_tensor(drawn.randint(*bounds, size=tuple(size)))


def dropout(x, p=0.5, training=True, inplace=False):
    if not training or p == 0:
        return x
    return x * as_tensor((drawn.random_sample(tuple(x.shape)) >= p).astype("float32")) / (1 - p)


def dropout2d(x, p=0.5, training=True, inplace=False):
    if not training or p == 0:
        return x
    shape = tuple(x.shape[:2]) + (1,) * (x.dim() - 2)
    return x * as_tensor((drawn.random_sample(shape) >= p).astype("float32")) / (1 - p)


def places(probs):
    rows = np.array(probs.detach().numpy(), dtype="float64").reshape(-1, probs.shape[-1])
    at = [
        np.searchsorted(np.cumsum(row) / row.sum(), part)
        for row, part in zip(rows, drawn.random_sample(len(rows)), strict=True)
    ]
    return np.minimum(np.array(at, dtype="int64"), rows.shape[-1] - 1)


def order(sampler):
    count = len(sampler.data_source)
    return iter((drawn.randint(0, count, 5000) if sampler.replacement else drawn.permutation(count)).tolist())


def normal_(p, mean=0.0, std=1.0, generator=None):
    with torch.no_grad():
        p.copy_(as_tensor((mean + std * drawn.standard_normal(tuple(p.shape))).astype("float32")))
    return p


def like(draw):
    return lambda x, **options: draw(*x.shape, dtype=x.dtype)


torch.randn, torch.rand, torch.randint = randn, rand, randint
torch.randn_like, torch.rand_like = like(randn), like(rand)
torch.randperm = lambda n, **options: as_tensor(drawn.permutation(n))
torch.multinomial = lambda probs, num_samples=1, **options: as_tensor(places(probs)[:, None])
torch.distributions.Categorical.sample = lambda self, shape=(): as_tensor(
    places(self.probs).reshape(tuple(self.probs.shape[:-1]))
)
F.dropout, F.dropout2d = dropout, dropout2d
nn.Dropout.forward = lambda self, x: dropout(x, self.p, self.training)
nn.Dropout2d.forward = lambda self, x: dropout2d(x, self.p, self.training)
nn.init.normal_ = normal_
data.RandomSampler.__iter__ = order


# --- The weights of a module, when the program first moves it or asks for its parameters --------------------


def fill(module):
    if module.__dict__.get("_has_same_start"):
        return
    for each in module.modules():
        each.__dict__["_has_same_start"] = True
        # PyTorch's transformer draws these inside of fused functions.
        if type(module).__name__ == "TransformerModel" and isinstance(each, nn.Dropout):
            each.p = 0.0
        elif type(module).__name__ == "TransformerModel" and isinstance(each, nn.MultiheadAttention):
            each.dropout = 0.0
    with torch.no_grad():
        for _, p in sorted(module.named_parameters(), key=lambda item: item[0]):
            array = p.detach().numpy()
            if array.size > 1 and array.min() == array.max():
                continue
            most = 1 / np.sqrt(np.prod(array.shape[1:]) if array.ndim > 1 else array.shape[0])
            p.copy_(as_tensor(changed(drawn.uniform(-most, most, array.shape)).astype("float32"), p.dtype))


move, parameters_of, is_filling = nn.Module.to, nn.Module.parameters, []


def to(self, *args, **options):
    fill(self)
    return move(self, *args, **options)


def parameters(self, *args, **options):
    frame = sys._getframe(1)
    if not is_filling and is_of_program(frame) and frame.f_code.co_name not in ("_init_weights", "__init__"):
        is_filling.append(True)
        try:
            fill(self)
        finally:
            is_filling.pop()
    return parameters_of(self, *args, **options)


nn.Module.to, nn.Module.parameters = to, parameters


# --- The losses: of what backward is asked of, and what is read while nothing is recorded -------------------

backward_of, item_of = torch.Tensor.backward, torch.Tensor.item


def backward(self, *args, **options):
    losses.append(float(item_of(self.detach().sum())))
    result = backward_of(self, *args, **options)
    if len(losses) >= LIMIT:
        raise SystemExit(0)
    return result


def item(self):
    value = item_of(self)
    if isinstance(value, float) and not torch.is_grad_enabled() and is_of_program(sys._getframe(1)):
        losses.append(value)
    return value


torch.Tensor.backward, torch.Tensor.item = backward, item


@atexit.register
def write():
    Path(RESULT).write_text(json.dumps(losses), encoding="utf-8")
