"""Programs of one line, written for PyTorch, with the values they are run on."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# What PyTorch gives for each of `CALLS`. `python -m tests.torch_face.expressions` writes it, with PyTorch.
RECORDED = Path(__file__).with_name("expressions.json")

# Each is evaluated with `torch`, `nn`, `F` and the values below; what it gives is compared.
CALLS = """
torch.masked.prod(torch.tensor([3, 2], dtype=torch.uint8))
torch.linspace(0, 1j, 3)
torch.logspace(0, 1j, 3)
torch.logspace(1 + 1j, 2, 3, dtype=torch.complex128)
torch.repeat_interleave(torch.tensor([2, 0, 1]))
torch.repeat_interleave(torch.tensor([2, 0, 1], dtype=torch.int32), output_size=3)
torch.repeat_interleave(x, 2, dim=0)
torch.block_diag()
torch.cat([torch.empty(0), torch.empty(0)], 1)
torch.fft.fftn(x, s=2, dim=0)
torch.fft.fft(x, axis=0)
torch.fft.fftfreq(4, out=torch.empty(4))
torch.linalg.norm(x, axis=1, keepdims=True)
torch.linalg.norm(x, dtype=torch.double)
torch.linalg.vector_norm(x.half(), 3, dtype=torch.float)
torch.linalg.matrix_norm(x, "nuc", dtype=torch.double)
torch.linalg.tensorsolve(torch.empty(0, 0, 1, 2, 3, 0), torch.empty(0, 0))
x.type()
[torch.ones(1, dtype=getattr(torch, d)).type() for d in ("int8", "uint16", "bfloat16", "complex64", "bool")]
x.type("torch.DoubleTensor")
(torch.zeros(100).random_(5, None) >= 5).all()
(torch.zeros(100, dtype=torch.int8).random_(100, None) >= 100).all()
torch.zeros(2, 3)
torch.zeros((2, 3), dtype=torch.long)
torch.zeros([2, 3], device="cpu", requires_grad=True)
torch.ones(size=(2, 3))
torch.ones(3, dtype=torch.double)
torch.full((2, 2), 7.0)
torch.full((2,), 3, device=torch.device("cpu"), dtype=torch.float)
torch.empty(size=(2, 3)).shape
torch.eye(3)
torch.eye(2, 3, device="cpu")
torch.arange(5)
torch.arange(1, 9, 2, dtype=torch.float, device="cpu")
torch.arange(0.0, 1.0, 0.25)
torch.arange(start=1, end=4)
torch.linspace(0, 1, steps=5)
torch.linspace(0, 1, 5, dtype=torch.double)
torch.logspace(0, 3, 4)
torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="cpu", dtype=torch.double)
torch.tensor([1, 2], pin_memory=False)
torch.as_tensor(array)
torch.as_tensor([1, 2], dtype=torch.float)
torch.from_numpy(array)
torch.zeros_like(x, device="cpu")
torch.ones_like(x, dtype=torch.int)
torch.full_like(x, 5)
torch.empty_like(x, dtype=torch.half).dtype.itemsize
torch.randn(2, 3, device="cpu").shape
torch.rand((2, 3), requires_grad=True).shape
torch.randn(2, 3, generator=torch.Generator().manual_seed(0)).shape
torch.randint(5, (3,)).shape
torch.randint(0, 5, size=(3, 2), device="cpu").shape
torch.randint(3, 4, (2,))
torch.randperm(4).sort().values
torch.normal(0.0, 0.0, size=(2,))
torch.randn_like(x).shape
torch.complex(x, x).real
torch.scalar_tensor(3.0)
torch.LongTensor([1, 2])
torch.FloatTensor([1, 2])
torch.FloatTensor(array)
torch.DoubleTensor([[1], [2]])
torch.LongTensor(3).shape
torch.Tensor(2, 3).shape
torch.Tensor([1, 2])
torch.Tensor([[1.5]])
torch.Tensor(x)
torch.ByteTensor([1]).dtype.itemsize
isinstance(i, torch.LongTensor)
isinstance(x, torch.LongTensor)
isinstance(x, torch.FloatTensor)
isinstance(x, torch.Tensor)
torch.is_tensor(x)
torch.is_tensor(3)
torch.sum(x)
torch.sum(x, dim=1)
torch.sum(x, 1, True)
torch.sum(input=x, dim=(0, 1), keepdim=True)
torch.sum(x, axis=0)
torch.sum(i)
torch.sum(b)
torch.mean(x, dim=0)
torch.mean(x, 0, keepdim=True)
torch.mean(x, dim=0, dtype=torch.double)
torch.std(x)
torch.std(x, dim=1)
torch.std(x, 1, False)
torch.std(x, dim=0, unbiased=False, keepdim=True)
torch.std(x, correction=0)
torch.var(x, 0)
torch.std(x, False)
x.std(0, True)
torch.std_mean(x, dim=1)
torch.var_mean(x)
torch.prod(x, 1)
torch.max(x)
torch.max(x, 1)
torch.max(x, dim=1, keepdim=True)
torch.max(x, dim=1).indices
torch.max(x, dim=1)[1]
torch.max(x, -x)
torch.min(x, dim=0)
torch.amax(x, dim=(0, 1))
torch.argmax(x)
torch.argmax(x, dim=1, keepdim=True)
torch.argmin(x, 0)
torch.all(b)
torch.any(b, dim=0)
torch.count_nonzero(x, dim=1)
torch.cumsum(x, dim=1)
torch.cumprod(x, 1)
torch.logsumexp(x, dim=1, keepdim=True)
torch.softmax(x, dim=1)
torch.log_softmax(x, 1)
torch.softmax(x, dim=-1, dtype=torch.double)
torch.norm(x)
torch.norm(x, p=1)
torch.norm(x, 2, 1)
torch.norm(x, dim=1, keepdim=True)
torch.median(x)
torch.median(x, dim=1)
torch.median(torch.tensor([1.0, float("nan"), 3.0]))
torch.median(torch.tensor([[1.0, float("nan"), 3.0]]), 1)
torch.kthvalue(x, 2, dim=1)
torch.kthvalue(x, k=1)
torch.quantile(x, 0.3)
torch.quantile(x, torch.tensor([0.25, 0.9]), dim=1)
torch.quantile(x, 0.5, dim=0, keepdim=True)
torch.quantile(x, 0.6, interpolation="nearest")
torch.quantile(x, 0.6, dim=1, interpolation="lower")
torch.quantile(torch.arange(6.0), torch.tensor([0.1, 0.9]), interpolation="nearest")
torch.quantile(torch.tensor([1.0, float("inf")]), 0.5, interpolation="lower")
torch.quantile(torch.tensor([-float("inf"), 1.0]), 0.5, interpolation="higher")
torch.quantile(torch.tensor(2.0), 0.3, dim=0, keepdim=True)
torch.logit(torch.tensor([3, 255], dtype=torch.uint8))
torch.chunk(torch.zeros(0, 3), 2)
torch.tensor(2.0).squeeze(-1)
torch.index_select(x, 1, torch.tensor(2))
F.glu(torch.zeros(0, 4), 0)
F.softshrink(torch.tensor(2.0))
F.prelu(torch.tensor(-2.0), torch.tensor([0.25]))
torch.nansum(torch.tensor([1.0, float("nan")]))
torch.nanmean(torch.tensor([1.0, float("nan"), 2.0]))
torch.sort(x, dim=1)
torch.sort(x, descending=True)
torch.sort(x, 0, True).indices
torch.argsort(x, dim=1, descending=True)
torch.topk(x, 2)
torch.topk(x, k=1, dim=0)
torch.topk(x, 2, largest=False).values
torch.unique(i)
torch.unique(i, return_inverse=True)
torch.unique(i, return_counts=True)
torch.msort(x)
torch.cat((x, x))
torch.cat([x, x], dim=1)
torch.cat([x, x], -1)
torch.cat([torch.tensor([]), x])
torch.concat([x, x], 0)
torch.stack([x, x])
torch.stack([x, x], 1)
torch.stack((x, x), dim=-1)
torch.hstack([x, x])
torch.hstack([x[0], x[1]])
torch.vstack([x, x[0]])
torch.dstack([x, x])
torch.chunk(x, 2, dim=1)
torch.chunk(x, chunks=3)
torch.split(x, 2, dim=1)
torch.split(x, [1, 2], dim=1)
torch.split(x, split_size_or_sections=1)
torch.unbind(x, dim=1)
torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
torch.where(x > 0, x, -x)
torch.where(x > 0, x, 0.0)
torch.where(x > 0)
torch.gather(x, 1, i)
torch.gather(x, dim=1, index=i)
torch.index_select(x, 1, torch.tensor([0, 2]))
torch.masked_select(x, b)
torch.masked_fill(x, b, -1.0)
torch.take(x, torch.tensor([0, 3]))
torch.take_along_dim(x, i, dim=1)
torch.scatter(x, 1, i, 5.0)
torch.scatter_add(x, 1, i, torch.ones_like(x))
torch.index_add(x, 0, torch.tensor([0]), torch.ones(1, 3))
torch.index_fill(x, 1, torch.tensor([0, 2]), 9.0)
torch.index_copy(x, 1, torch.tensor([1]), torch.zeros(2, 1))
torch.index_put(x, (torch.tensor([0, 0]), torch.tensor([1, 1])), torch.ones(2), accumulate=True)
torch.nonzero(x > 0)
torch.nonzero(x > 0, as_tuple=True)
torch.argwhere(x > 0)
torch.mm(x, x.t())
torch.bmm(x.view(1, 2, 3), x.view(1, 3, 2))
torch.matmul(x, x.T)
torch.mv(x, x[0])
torch.dot(x[0], x[1])
torch.outer(x[0], x[1])
torch.ger(x[0], x[1])
torch.inner(x, x)
torch.vdot(x[0], x[1])
torch.addmm(x, x, torch.eye(3), beta=0.5, alpha=2.0)
torch.addmv(x[0], torch.eye(3), x[1])
torch.addr(torch.zeros(2, 3), x[:, 0], x[0])
torch.baddbmm(torch.ones(1), x.view(1, 2, 3), x.view(1, 3, 2), alpha=3)
torch.einsum("ij,kj->ik", x, x)
torch.einsum("ij,kj->ik", [x, x])
torch.tensordot(x, x, dims=([1], [1]))
torch.trace(torch.eye(3))
torch.cross(x, x + 1, dim=1)
torch.dist(x, -x)
torch.dist(x, -x, 1)
torch.diag(x[0])
torch.diag(torch.eye(3), 1)
torch.diag(x[0], diagonal=-1)
torch.diag_embed(x)
torch.diag_embed(x, offset=1, dim1=0, dim2=2)
torch.diagonal(torch.eye(3))
torch.tril(torch.ones(3, 3))
torch.triu(torch.ones(3, 3), diagonal=1)
torch.triu(torch.ones(3, 3), 1)
torch.reshape(x, (3, 2))
torch.reshape(x, (-1,))
torch.flatten(x)
torch.flatten(x.view(1, 2, 3), 1)
torch.flatten(x, start_dim=0)
torch.unflatten(x, 1, (3, 1))
torch.permute(x, (1, 0))
torch.transpose(x, 0, 1)
torch.t(x)
torch.movedim(x, 0, 1)
torch.squeeze(x.view(1, 2, 3))
torch.squeeze(x.view(1, 2, 3), 0)
torch.unsqueeze(x, 1)
torch.unsqueeze(x, dim=-1)
torch.tile(x, (2, 1))
torch.flip(x, dims=(1,))
torch.flip(x, [0])
torch.fliplr(x)
torch.flipud(x)
torch.permute(x, dims=(1, 0))
torch.reshape(x, shape=(3, 2))
torch.tile(x, dims=(2, 1))
torch.roll(x, 1, 0)
torch.roll(x, shifts=1, dims=1)
torch.repeat_interleave(x, 2, dim=1)
torch.narrow(x, 1, 0, 2)
torch.select(x, 1, 2)
torch.broadcast_to(x, (2, 2, 3))
torch.broadcast_tensors(x, x[0])
torch.atleast_2d(x[0])
torch.numel(x)
torch.clone(x)
torch.abs(x)
torch.add(x, 1)
torch.add(x, x, alpha=2)
torch.sub(x, 1)
torch.mul(x, 2)
torch.div(x, 2)
torch.div(x, 2, rounding_mode="floor")
torch.true_divide(x, 2)
torch.pow(x, 2)
torch.pow(2, x)
torch.sqrt(x.abs())
torch.exp(x)
torch.log(x.abs())
torch.log1p(x.abs())
torch.sin(x)
torch.arctan2(x, x + 3)
torch.clamp(x, min=0)
torch.clamp(x, -0.5, 0.5)
torch.clamp(input=x, max=0.0)
torch.round(x)
torch.round(x, decimals=1)
torch.fmod(x * 3, 0.7)
torch.remainder(x * 3, 0.7)
torch.sigmoid(x)
torch.tanh(x)
torch.relu(x)
torch.erf(x)
torch.maximum(x, -x)
torch.lerp(x, -x, 0.3)
torch.addcmul(x, x, x, value=0.5)
torch.addcdiv(x, x, x.abs() + 1, value=0.5)
torch.nan_to_num(torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0]))
torch.nan_to_num(torch.tensor([float("nan"), float("inf")]), nan=2.0, posinf=3.0)
torch.logit(torch.tensor([0.2, 0.7]))
torch.logit(torch.tensor([0.0, 0.7]), eps=1e-3)
torch.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0]))
torch.eq(x, x)
torch.ne(i, 1)
torch.gt(x, 0)
torch.greater_equal(x, 0)
torch.equal(x, x)
torch.equal(x, x[0])
torch.allclose(x, x + 1e-9)
torch.isclose(x, x)
torch.isnan(x)
torch.logical_and(b, b)
torch.logical_not(b)
torch.bitwise_and(i, 1)
torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 9]))
torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 9]), right=True)
torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([[3], [9]]), side="right", out_int32=True)
torch.searchsorted(torch.tensor([[1, 3, 5], [2, 4, 6]]), torch.tensor([[3, 9], [4, 1]]))
torch.searchsorted(torch.tensor([[1, 3, 5], [2, 4, 6]]), torch.tensor([[3], [4]]), right=True)
torch.searchsorted(torch.tensor([[3, 1]]), torch.tensor([[2]]), sorter=torch.tensor([[1, 0]]))
torch.searchsorted(torch.zeros(2, 0), torch.ones(2, 3))
torch.searchsorted(torch.ones(2, 3), torch.ones(2, 0))
torch.conj(torch.tensor([True, False]))
torch.conj(torch.tensor(True))
torch.tensor(2.0).topk(1, 0)
torch.tensor(2.0).topk(1)
torch.tensor(2.0).flip(0)
torch.tensor(2.0).flip((-1,))
torch.tensor(2.0).transpose(0, -1)
torch.tensor(2.0).swapaxes(-1, 0)
torch.tensor(2.0).movedim(0, -1)
torch.tensor(2.0).movedim((0,), (0,))
torch.tensor(2.0).squeeze((0,))
torch.tensor(2.0).index_select(0, torch.tensor([0]))
torch.tensor(2.0).index_select(-1, torch.tensor(0))
torch.tensor(2.0).gather(0, torch.tensor(0))
torch.tensor(2.0).gather(-1, torch.tensor([0, 0]))
torch.tensor([1.0, 2.0]).gather(0, torch.tensor(1))
torch.tensor(2.0).scatter(0, torch.tensor(0), torch.tensor(3.0))
torch.tensor(2.0).scatter(-1, torch.tensor([0]), 3.0)
torch.tensor([1.0, 2.0]).scatter(0, torch.tensor(1), torch.tensor(3.0))
torch.tensor(2.0).scatter_add(0, torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
torch.tensor(2.0).scatter_add_(0, torch.tensor(0), torch.tensor(1.0))
torch.tensor(2.0).index_add(0, torch.tensor(0), torch.tensor(3.0), alpha=2)
torch.tensor(2.0).index_fill(0, torch.tensor(0), 3.0)
torch.tensor(2.0).index_copy(-1, torch.tensor(0), torch.tensor(3.0))
torch.tensor(2.0).sum((0,))
torch.tensor(2.0).mean((-1,), keepdim=True)
torch.tensor(2.0).amax((0,))
torch.tensor(2.0).logsumexp((0,))
torch.tensor(2.0).var((0,), correction=0)
torch.tensor(2.0).norm(2, (0,))
torch.tensor(True).all((0,))
torch.tensor(2.0).sort(0)
torch.tensor(2.0).argsort(-1)
F.linear(x, torch.tensor([1.0, 2.0, 3.0]))
F.linear(x[0], torch.tensor([1.0, 2.0, 3.0]), torch.tensor(4.0))
F.linear(torch.ones(2, 2, 3), torch.tensor([1.0, 2.0, 3.0]))
F.instance_norm(torch.ones(2, 0, 5))
F.batch_norm(torch.ones(2, 0, 5), None, None, training=True)
torch.multinomial(torch.tensor([0.0, 1.0]), num_samples=1)
torch.bernoulli(torch.ones(3))
torch.exp(x, out=torch.empty(2, 3))
torch.sum(x, dim=1, out=torch.empty(2))
torch.sum(x, dim=1, out=torch.empty(0))
torch.sort(x, out=(torch.empty(2, 3), torch.empty(2, 3, dtype=torch.long)))
torch.zeros(2, out=torch.ones(2))
x.new_tensor([1, 2])
x.new_zeros(2, 3)
x.new_zeros((2,), dtype=torch.long)
x.new_ones(2, device="cpu")
x.new_full((2,), 3.0)
x.new_empty(2, 3).shape
i.new_tensor([1, 2])
x.to("cpu", non_blocking=True)
x.to(device=torch.device("cpu"), dtype=torch.double)
x.to(torch.device("cpu"))
x.type(torch.long)
x.type_as(i)
x.cpu()
x.device.type
str(x.device)
x.device == torch.device("cpu")
torch.device("cuda:1").index
repr(torch.device("cuda", 1))
x.is_cuda
x.is_cpu
x.is_sparse
x.get_device()
x.is_pinned()
x.data
x.data.requires_grad
x.clone().normal_(2.0, 0.0)
x.clone().uniform_(3.0, 3.0)
x.clone().random_(1)
x.clone().random_(4, 5)
x.clone().bernoulli_(1.0)
x.clone().fill_diagonal_(7)
x.clone().index_fill_(1, torch.tensor([0]), 2.0)
x.clone().index_copy_(0, torch.tensor([1]), torch.zeros(1, 3))
x.clone().clamp_min_(0)
x.clone().clamp_max_(0)
x.clone().true_divide_(2)
x.expand(2, 2, 3)
x.expand_as(torch.zeros(2, 2, 3))
x.masked_fill(b, float("-inf"))
x.view(3, -1).size(0)
x.view(-1).topk(2)
x.max(1)[1]
x.max(1, keepdim=True)[1]
x.pow(2).sum(1, keepdim=True)
x.squeeze(0).unsqueeze(0)
x.contiguous().view(-1)
x.t().contiguous()
x.argmax(dim=1).eq(torch.tensor([1, 0])).sum().item()
x.diag() if x.dim() == 1 else x.mm(x.t()).diag()
x.mH
x.H
x.inner(x)
x.fix()
x.arctan()
x.less_equal(0)
x.multinomial(1).shape if (x >= 0).all() else 0
x.element_size()
x.nelement()
torch.accelerator.is_available()
torch.accelerator.current_accelerator()
torch.cuda.is_available()
torch.cuda.device_count()
torch.cuda.memory_allocated()
torch.cuda.max_memory_allocated()
torch.cuda.memory_reserved()
torch.vander(torch.tensor([1, 2, 3]))
torch.vander(torch.tensor([1.5, 0.0]), 3, increasing=True)
torch.einsum(torch.ones(2, 3), [..., 0], torch.ones(2, 3), [..., 0])
torch.einsum(torch.ones(2, 3), [0, 1], torch.ones(2, 3), [0, 1], [1])
torch.backends.mps.is_available()
torch.backends.cudnn.is_available()
torch.is_grad_enabled()
torch.finfo(torch.float32).eps
torch.iinfo(torch.long).max
torch.long is torch.int64
torch.float is torch.float32
torch.double is torch.float64
torch.int is torch.int32
torch.half is torch.float16
torch.short is torch.int16
torch.is_floating_point(x)
torch.inf
torch.pi
F.softmax(x, dim=1)
F.log_softmax(x, dim=1)
F.relu(x)
F.one_hot(i, 4)
F.cross_entropy(x, torch.tensor([0, 2]))
F.nll_loss(F.log_softmax(x, dim=1), torch.tensor([0, 2]), reduction="sum")
F.mse_loss(x, -x)
F.smooth_l1_loss(x, -x)
F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(-x), reduction="sum")
F.linear(x, x)
F.dropout(x, 0.5, training=False)
nn.Linear(3, 2)(x).shape
nn.CrossEntropyLoss(ignore_index=-1)(x, torch.tensor([0, -1]))
nn.init.calculate_gain("relu")
torch.distributions.Normal(x, x.abs()).log_prob(x + 0.5)
torch.distributions.Normal(0.0, 2.0).entropy()
torch.distributions.Normal(x, 1.0).cdf(x + 0.5)
torch.distributions.Normal(x, 1.0).icdf(torch.tensor(0.3))
torch.distributions.Normal(x, x.abs()).variance
torch.distributions.Categorical(torch.softmax(x, 1)).log_prob(torch.tensor([0, 2]))
torch.distributions.Categorical(logits=x).entropy()
torch.distributions.Categorical(logits=x).probs
torch.distributions.Categorical(torch.tensor([1.0, 3.0])).log_prob(torch.tensor([[0], [1]]))
torch.distributions.Categorical(x.abs()).sample((4,)).shape
torch.distributions.Categorical(torch.tensor([0.0, 3.0])).sample()
torch.distributions.Bernoulli(torch.tensor([0.2, 0.7])).log_prob(torch.tensor([1.0, 0.0]))
torch.distributions.Bernoulli(logits=x).entropy()
torch.distributions.Bernoulli(logits=x).variance
torch.distributions.Bernoulli(torch.tensor([0.0, 1.0])).sample((2,))
torch.distributions.Uniform(x, x + 2).log_prob(x + 1)
torch.distributions.Uniform(0.0, 2.0).entropy()
torch.distributions.Uniform(x, x + 2).variance
torch.distributions.Uniform(x, x + 2).rsample((3,)).shape
torch.distributions.Normal(x, 1.0).sample((3, 1)).shape
""".strip().split("\n")

# Their errors are of a class that PyTorch's users catch.
ERRORS = """
torch.linalg.norm(x, dtype=torch.complex64)
torch.linalg.lu_solve(torch.eye(2), torch.tensor([0, 2], dtype=torch.int32), torch.ones(2, 1))
torch.linalg.lu_solve(torch.eye(2), torch.tensor([3, 2], dtype=torch.int32), torch.ones(2, 1))
torch.lu_unpack(torch.eye(2), torch.tensor([0, 2], dtype=torch.int32))
torch.tensor([1 + 2j], requires_grad=True).backward()
torch.autograd.grad((x[0, 0].clone().requires_grad_() * 1j), x)
torch.cross(torch.ones(2, 2), torch.ones(2, 2))
torch.linspace(0, 1j, 3, dtype=torch.float)
torch.linspace(0, 1, -1, dtype=torch.int8)
torch.logspace(0, 1j, 3, dtype=torch.double)
torch.logspace(0, 1, -1)
torch.zeros(3).uniform_(0, float("inf"))
torch.zeros(3).uniform_(-3e38, 3e38)
torch.zeros(3, dtype=torch.half).uniform_(0, 1e5)
torch.addr(torch.ones(2, 2).int(), torch.ones(2).int(), torch.ones(2).int(), beta=1.5)
torch.addr(torch.ones(2, 2).int(), torch.ones(2).int(), torch.ones(2).int(), alpha=1.5)
torch.linalg.norm(torch.ones(2, 3, 4), 2)
torch.linalg.norm(x.double(), dtype=torch.float)
torch.linalg.norm(torch.complex(x, x), dtype=torch.double)
F.linear(x, torch.ones(3), torch.ones(2))
torch.tensor(2.0).sort(1)
torch.tensor(2.0).argsort(-2)
torch.tensor(2.0).kthvalue(1, 1)
torch.tensor(2.0).median(1)
torch.tensor(2.0).topk(1, 1)
torch.tensor(2.0).flip(1)
torch.tensor(2.0).transpose(0, 1)
torch.tensor(2.0).gather(1, torch.tensor(0))
x + torch.ones(4)
x @ x
x.view(4)
x.reshape(5)
torch.mm(x, x)
torch.cat([x, torch.ones(2)])
torch.stack([x, torch.ones(2)])
torch.zeros(2, 3).copy_(torch.ones(4))
x.expand(3, 3)
torch.addmm(x, x, x)
F.linear(x, torch.ones(2, 2))
F.cross_entropy(x, torch.tensor([0]))
nn.Linear(2, 2)(x)
nn.Linear(2, 2).load_state_dict({})
torch.kthvalue(x, 9)
torch.quantile(x, 2.0)
torch.ones(1).normal_(0, -1)
torch.ones(1).uniform_(1, 0)
torch.ones(1).random_(3, 3)
torch.device("not a device")
x.squeeze(5)
torch.sum(x, dim=3)
torch.sum(3)
torch.mm(3, x)
x.backward()
torch.distributions.Normal(0.0, -1.0)
torch.distributions.Categorical(torch.tensor([-1.0, 2.0]))
torch.distributions.Bernoulli(torch.tensor([2.0]))
torch.distributions.Uniform(1.0, 0.0)
torch.distributions.Bernoulli()
""".strip().split("\n")

# Functions of a matrix of floating numbers whose gradients are compared.
DIFFERENTIABLE = """
F.linear(x, x[1])
F.linear(x[0], x[1], x.sum())
x.sum().flip(0)
x.sum().transpose(0, -1)
x.sum().topk(1).values
x.sum().index_select(0, torch.tensor([0]))
x.sum().gather(0, torch.tensor([0, 0]))
x.sum().scatter(0, torch.tensor(0), x.prod())
x.sum().scatter_add(0, torch.tensor([0, 0]), x[0, :2])
x.sum().index_add(0, torch.tensor(0), x.prod(), alpha=3)
x.sum().clone().index_copy_(0, torch.tensor(0), x.prod())
torch.addmm(x, x, torch.eye(3, dtype=x.dtype), alpha=2.0)
torch.addmv(x[0], torch.eye(3, dtype=x.dtype), x[1])
torch.addr(x, x[:, 0], x[0])
torch.baddbmm(x[:, :2], x.view(1, 2, 3), x.view(1, 3, 2), beta=0.5)
torch.inner(x, x)
torch.dist(x, 2 * x + 1)
torch.diag(x[0], 1)
torch.diag_embed(x, 1)
torch.diag(x, -1)
x.clone().fill_diagonal_(2.0)
torch.kthvalue(x, 2, dim=1).values
torch.median(x)
torch.median(x, dim=0).values
torch.quantile(x, torch.tensor([0.3, 0.8], dtype=x.dtype), dim=1)
torch.nansum(x)
torch.nanmean(x, 1)
torch.nan_to_num(x)
torch.fmod(x * 5, 0.7)
torch.logit(torch.sigmoid(x))
torch.xlogy(x, x.abs() + 1)
torch.index_fill(x, 1, torch.tensor([0]), 2.0)
torch.index_copy(x, 1, torch.tensor([1]), x[:, :1])
torch.index_put(x, (torch.tensor([0, 0]), torch.tensor([1, 1])), x[0, :2], accumulate=True)
torch.std(x, dim=1, unbiased=False)
torch.where(x > 0, x, 2 * x)
torch.flip(x, [1]).fliplr()
torch.hstack([x, x])
torch.distributions.Normal(x, x.abs()).log_prob(2 * x)
torch.distributions.Categorical(logits=x).log_prob(torch.tensor([0, 2]))
torch.distributions.Categorical(torch.softmax(x, 1)).entropy()
torch.distributions.Bernoulli(torch.sigmoid(x)).log_prob((x > 0).to(x.dtype))
torch.distributions.Bernoulli(logits=x).entropy()
torch.distributions.Uniform(x, 2 * x.abs() + 1).entropy()
torch.where(x > 0, x * 2, x)
""".strip().split("\n")


def values(torch: Any) -> dict[str, Any]:
    """Return the values that the lines name, as tensors of `torch`."""
    array = np.array([[0.5, -1.25, 2.0], [-0.75, 0.1, 1.5]], np.float32)
    return {
        "array": array,
        "x": torch.from_numpy(array.copy()),
        "i": torch.from_numpy(np.array([[0, 2, 1], [1, 0, 0]])),
        "b": torch.from_numpy(np.array([[True, False, True], [False, False, True]])),
    }


def plain(found: Any) -> Any:
    """Return a result of either library as plain data and arrays, with dtypes and the names of fields."""
    if hasattr(found, "detach"):
        array = found.detach().numpy()
        return (str(array.dtype), array)
    if hasattr(found, "_fields") or type(found).__module__ == "torch.return_types":
        return {name: plain(getattr(found, name)) for name in ("values", "indices")}
    if isinstance(found, (tuple, list)):
        return [plain(part) for part in found]
    return found


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple) and len(expected) == 2 and isinstance(expected[1], np.ndarray):
        assert found[0] == expected[0]
        assert found[1].shape == expected[1].shape
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_same(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5)
    else:
        assert found == expected


@cache
def recorded() -> dict[str, Any]:
    """Return what PyTorch gives for each of `CALLS`, as `plain` does."""
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"), object_hook=_from_json)
    return found


def _to_json(array: Any) -> dict[str, Any]:
    numbers = array.ravel().view(array.real.dtype)  # JSON has no complex ones
    return {"dtype": str(array.dtype), "shape": list(array.shape), "numbers": numbers.tolist()}


def _from_json(found: dict[str, Any]) -> Any:
    if found.keys() != {"dtype", "shape", "numbers"}:
        return found
    dtype = np.dtype(found["dtype"])
    numbers = np.array(found["numbers"], np.empty(0, dtype).real.dtype)
    return (found["dtype"], numbers.view(dtype).reshape(found["shape"]))


def _record() -> None:
    import torch

    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    found = {line: plain(eval(line, {**names, **values(torch)})) for line in CALLS}
    lines = [f"{json.dumps(line)}: {json.dumps(_arrays_as_json(found[line]))}" for line in CALLS]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _arrays_as_json(found: Any) -> Any:
    if isinstance(found, tuple):
        return _to_json(found[1])
    if isinstance(found, list):
        return [_arrays_as_json(part) for part in found]
    if isinstance(found, dict):
        return {name: _arrays_as_json(part) for name, part in found.items()}
    return found


if __name__ == "__main__":
    _record()
