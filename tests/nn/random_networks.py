"""Random small networks, drawn by a seed, that build and run in our library and in PyTorch alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import nn
import tensor

Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


class Library(NamedTuple):
    """One of the two: its namespaces, and the dtype to compute in."""

    lib: Any
    nn: Any
    dtype: Any

    def tensor(self, array: Any) -> Any:
        array = np.asarray(array)
        return self.lib.asarray(array, dtype=self.dtype if array.dtype.kind == "f" else None)


def ours(dtype: str) -> Library:
    return Library(tensor, nn, getattr(tensor, dtype))


class Part(NamedTuple):
    """One layer: what module it has, how it runs, and the shape that comes out."""

    name: str
    make: Callable[[Library], Any]
    run: Callable[[Library, Any, Any], Any]
    shape: Shape


Draw = Callable[[np.random.Generator, Shape], Part | None]


def module(name: str, shape: Shape, *args: Any, parameters: bool = True, **options: Any) -> Part:
    """Return a part that is a module of `nn` alone."""

    def make(to: Library) -> Any:
        dtype = {"dtype": to.dtype} if parameters else {}
        return getattr(to.nn, name)(*args, **options, **dtype)

    return Part(f"{name}{args or ''}{options or ''}", make, lambda to, layer, h: layer(h), shape)


def op(name: str, shape: Shape, run: Callable[[Any], Any]) -> Part:
    """Return a part without parameters: a function of the tensor."""
    return Part(name, lambda to: to.nn.Identity(), lambda to, layer, h: run(h), shape)


def pick(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def some_linear(rng: np.random.Generator, shape: Shape) -> Part:
    out = int(rng.integers(2, 6))
    return module("Linear", (*shape[:-1], out), shape[-1], out, bias=bool(rng.integers(2)))


def some_activation(rng: np.random.Generator, shape: Shape) -> Part:
    name, options = pick(
        rng,
        ("ReLU", {}), ("ReLU", {"inplace": True}), ("LeakyReLU", {"negative_slope": 0.2}),
        ("LeakyReLU", {"inplace": True}), ("ELU", {"alpha": 0.7}), ("ELU", {"inplace": True}), ("GELU", {}),
        ("GELU", {"approximate": "tanh"}), ("SiLU", {}), ("SiLU", {"inplace": True}), ("Sigmoid", {}),
        ("Tanh", {}), ("Softplus", {"beta": 2.0, "threshold": 1.5}), ("Softplus", {}),
        ("Softmax", {"dim": -1}), ("Softmax", {"dim": 1}), ("LogSoftmax", {"dim": -1}),
    )  # fmt: skip
    part = module(name, shape, parameters=False, **options)
    # A copy: PyTorch refuses to write over what the layer before has saved.
    return part._replace(run=lambda to, layer, h: layer(h * 1)) if "inplace" in options else part


def some_normalisation(rng: np.random.Generator, shape: Shape) -> Part:
    name = pick(rng, "LayerNorm", "LayerNorm", "RMSNorm", "BatchNorm1d", "BatchNorm1d, evaluating")
    affine = bool(rng.integers(2))
    if name == "LayerNorm":
        sizes = shape[-int(rng.integers(1, len(shape))) :]
        return module("LayerNorm", shape, sizes, elementwise_affine=affine)
    if name == "RMSNorm":
        return module("RMSNorm", shape, shape[-1], eps=1e-5, elementwise_affine=affine)
    part = module("BatchNorm1d", shape, shape[1], affine=affine)
    if name == "BatchNorm1d":
        return part
    return part._replace(name=name, run=lambda to, layer, h: layer.eval()(h))


def some_dropout(rng: np.random.Generator, shape: Shape) -> Part:
    part = module("Dropout", shape, 0.5, parameters=False)
    return part._replace(name="Dropout, off", run=lambda to, layer, h: layer.eval()(h))


def some_residual(rng: np.random.Generator, shape: Shape) -> Part:
    part = module("Linear", shape, shape[-1], shape[-1])
    return part._replace(name="residual", run=lambda to, layer, h: h + layer(h).tanh())


def some_concatenation(rng: np.random.Generator, shape: Shape) -> Part:
    part = module("Linear", (*shape[:-1], shape[-1] + 2), shape[-1], 2)
    return part._replace(name="concatenation", run=lambda to, layer, h: to.lib.cat([h, layer(h)], -1))


def some_stack(rng: np.random.Generator, shape: Shape) -> Part:
    def run(to: Library, layer: Any, h: Any) -> Any:
        return to.lib.stack([h, h * 2, h.sin()]).sum(dim=0)

    return Part("stack", lambda to: to.nn.Identity(), run, shape)


def some_reduction(rng: np.random.Generator, shape: Shape) -> Part:
    dim = pick(rng, *[dim for dim in (-1, 1, 0) if shape[dim] > 1])
    runs: dict[str, Callable[[Any], Any]] = {
        "sum": lambda h: h - 0.1 * h.sum(dim=dim, keepdim=True),
        "sum of all": lambda h: h + 0.1 * h.sum(),
        "mean": lambda h: h - h.mean(dim=dim, keepdim=True),
        "mean of two": lambda h: h - h.mean(dim=(0, 1), keepdim=True),
        "var": lambda h: h * h.var(dim=dim, keepdim=True).tanh(),
        "std": lambda h: h / (1 + h.std(dim=dim, keepdim=True)),
        "amax": lambda h: h - h.amax(dim=dim, keepdim=True),
        "amin": lambda h: h - h.amin(dim=dim, keepdim=True),
        "prod": lambda h: h + h.tanh().prod(dim=dim, keepdim=True),
        "norm": lambda h: h / (1 + h.norm(dim=dim, keepdim=True)),
        "logsumexp": lambda h: h - h.logsumexp(dim=dim, keepdim=True),
        "cumsum": lambda h: h.tanh().cumsum(dim=dim),
        "cumprod": lambda h: h.tanh().cumprod(dim=dim),
        "max": lambda h: h - h.max(dim=dim, keepdim=True)[0],
    }
    name = pick(rng, *runs)
    return op(f"{name} over {dim}", shape, runs[name])


def some_product(rng: np.random.Generator, shape: Shape) -> Part:
    if len(shape) == 2:
        runs: dict[str, Callable[[Any], Any]] = {
            "outer product": lambda h: (h.unsqueeze(2) @ h.tanh().unsqueeze(1)) @ h.unsqueeze(-1),
            "batch by batch": lambda h: (h @ h.T).tanh().unsqueeze(-1) * h.mean(),
        }
        name = pick(rng, *runs)
        return op(name, (*shape, 1) if name == "outer product" else (shape[0], shape[0], 1), runs[name])

    def attend(h: Any) -> Any:
        return ((h @ h.transpose(-2, -1)) * 0.3).softmax(-1) @ h

    def of_einsum(to: Library, layer: Any, h: Any) -> Any:
        return to.lib.einsum("bij,bkj->bik", h, h.tanh())

    if rng.integers(3) == 0:
        return Part("einsum", lambda to: to.nn.Identity(), of_einsum, (shape[0], shape[1], shape[1]))
    return op("attention", shape, attend)


def some_selection(rng: np.random.Generator, shape: Shape) -> Part:
    last = shape[-1]
    places = rng.integers(0, last, 4)
    runs: dict[str, tuple[Callable[[Any], Any], int]] = {
        "h[..., 1:]": (lambda h: h[..., 1:], last - 1),
        "h[..., ::2]": (lambda h: h[..., ::2], (last + 1) // 2),
        "h[..., -1:]": (lambda h: h[..., -1:], 1),
        "flip": (lambda h: h.flip(-1), last),
        "roll": (lambda h: h.roll(1, -1), last),
        "where": (lambda h: h.where(h > 0.1, h * h), last),
        "masked_fill": (lambda h: h.masked_fill(h > 0.5, 0.25), last),
        "clamp": (lambda h: h.clamp(-0.6, 0.7), last),
        "narrowed sum": (lambda h: h[..., :1] + h[..., 1:], last - 1),
    }
    if last < 3:
        runs = {name: runs[name] for name in ("flip", "roll", "where", "masked_fill", "clamp")}
    name = pick(rng, "h[..., places]", *runs)
    if name == "h[..., places]":
        return Part(
            name,
            lambda to: to.nn.Identity(),
            lambda to, layer, h: h[..., to.tensor(places)],
            (*shape[:-1], 4),
        )
    run, size = runs[name]
    return op(name, (*shape[:-1], size), run)


def some_shape(rng: np.random.Generator, shape: Shape) -> Part:
    if len(shape) == 2:
        return op("transposed twice", shape, lambda h: (h.T * 2).sin().T)
    b, t, d = shape
    runs: dict[str, tuple[Callable[[Any], Any], Shape]] = {
        "flatten": (lambda h: h.flatten(1), (b, t * d)),
        "permute": (lambda h: h.permute(0, 2, 1), (b, d, t)),
        "reshape": (lambda h: h.reshape(b, d, t), (b, d, t)),
        "mean over dim 1": (lambda h: h.mean(dim=1), (b, d)),
        "select": (lambda h: h[:, -1], (b, d)),
        "expand": (lambda h: h[:, :1].expand(-1, t, -1) * h, (b, t, d)),
    }
    name = pick(rng, *runs)
    return op(name, runs[name][1], runs[name][0])


def some_arithmetic(rng: np.random.Generator, shape: Shape) -> Part:
    runs: dict[str, Callable[[Any], Any]] = {
        "h / (1 + h * h)": lambda h: h / (1 + h * h),
        "rows times columns": lambda h: h * h[:1] + h[..., :1],
        "sqrt": lambda h: (h * h + 0.5).sqrt() - 1,
        "exp": lambda h: (-h.square()).exp(),
        "log1p": lambda h: h.square().log1p(),
        "pow": lambda h: (h.abs() + 0.5) ** 1.7,
        "power of": lambda h: 1.5 ** h.tanh(),
        "sin and cos": lambda h: h.sin() * h.cos(),
        "atan": lambda h: h.atan() + h.sinh().asinh(),
        "rsqrt": lambda h: (h.abs() + 1).rsqrt(),
        "reciprocal": lambda h: 1 / (h.abs() + 0.7),
        "remainder": lambda h: h + (h * 3).remainder(0.8),
        "erf": lambda h: h.erf(),
    }
    name = pick(rng, *runs)
    return op(name, shape, runs[name])


def some_writes(rng: np.random.Generator, shape: Shape) -> Part:
    def products(h: Any) -> Any:
        y = h * 1
        y.mul_(h).add_(1).tanh_()
        return y

    def items(h: Any) -> Any:
        y = h.tanh() * 1  # PyTorch refuses a write to what tanh has saved
        y[..., 0] = y[..., -1] * 2
        y[:1] += h[-1:]
        return y

    def views(h: Any) -> Any:
        y = h * 2
        y[..., -1:].mul_(0.5)
        y[0].sigmoid_()
        return y.sin()

    def saved(h: Any) -> Any:
        y = h.exp().clamp(max=5.0)
        z = y * 1
        z.sub_(y).add_(h, alpha=0.5)
        z.copy_(h[:1] + 0 * z)
        return z * y

    runs = {"products": products, "items": items, "views": views, "copy_": saved}
    name = pick(rng, *runs)
    return op(f"in place: {name}", shape, runs[name])


PARTS: list[Draw] = [
    some_linear, some_linear, some_activation, some_activation, some_normalisation, some_normalisation,
    some_dropout, some_residual, some_concatenation, some_stack, some_reduction, some_reduction,
    some_product, some_selection, some_shape, some_arithmetic, some_arithmetic, some_writes,
]  # fmt: skip


class Network(NamedTuple):
    """What a seed has drawn: parts, data, and a loss of the result."""

    parts: list[Part]
    data: Array
    loss: str
    run_loss: Callable[[Library, Any], Any]

    def __repr__(self) -> str:
        return " > ".join(
            [f"{self.data.dtype}{list(self.data.shape)}", *[p.name for p in self.parts], self.loss]
        )

    def build(self, to: Library, seed: int) -> Any:
        """Return the modules of all parts in `to`; the same seed gives the same values in each library."""
        model = to.nn.ModuleList([part.make(to) for part in self.parts])
        rng = np.random.default_rng(seed)
        with to.lib.no_grad():
            for name, x in (*model.named_parameters(), *model.named_buffers()):
                if x.is_floating_point():
                    low = 0.5 if name.endswith("running_var") else -1
                    x.copy_(to.tensor(rng.uniform(low, 1.5, tuple(x.shape))))
        return model

    def forward(self, to: Library, model: Any, x: Any) -> Any:
        """Return the loss of the data `x`."""
        h = x
        for part, layer in zip(self.parts, model, strict=True):
            h = part.run(to, layer, h)
            assert tuple(h.shape) == part.shape, part.name
        return self.run_loss(to, h)


def draw(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    shape: Shape = (4, 3) if rng.integers(2) else (3, 2, 4)
    parts: list[Part] = []
    if rng.integers(5) == 0:
        data = rng.integers(0, 6, shape[:2])
        parts.append(module("Embedding", (*shape[:2], 3), 6, 3, padding_idx=pick(rng, None, 0)))
        shape = parts[0].shape
    else:
        data = rng.standard_normal(shape)
    for _ in range(rng.integers(1, 7)):
        part = pick(rng, *PARTS)(rng, shape)
        parts.append(part)
        shape = part.shape
    name, run_loss = draw_loss(rng, shape)
    return Network(parts, data, name, run_loss)


def draw_loss(rng: np.random.Generator, shape: Shape) -> tuple[str, Callable[[Library, Any], Any]]:
    """Return a loss of a result of `shape`, by name and as a function: one number."""
    rows = int(np.prod(shape[:-1]))
    classes = shape[-1]
    reduction = pick(rng, "mean", "sum", "none")
    target = rng.uniform(0.1, 0.9, (rows, classes))
    chances = target / target.sum(axis=1, keepdims=True)
    labels = rng.integers(0, classes, rows)
    ignoring = np.where(np.arange(rows) == 1, -100, labels)
    weight = rng.uniform(0.5, 1.5, classes)
    share = rng.uniform(0.5, 1.5, rows)

    def of(function: str, wanted: Array, prepare: Callable[[Any], Any] = lambda h: h, **options: Any) -> Any:
        def run(to: Library, h: Any) -> Any:
            given = {k: to.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
            loss = getattr(to.nn.functional, function)(
                prepare(h.reshape(rows, classes)), to.tensor(wanted), reduction=reduction, **given
            )
            if reduction != "none":
                return loss
            return (loss * to.tensor(share if loss.ndim == 1 else share[:, None])).sum()

        return run

    def chance(h: Any) -> Any:
        return h.tanh().sigmoid()  # near 1, what PyTorch computes is not exact

    losses = {
        "cross_entropy": of("cross_entropy", labels),
        "cross_entropy, weighted": of("cross_entropy", ignoring, weight=weight, label_smoothing=0.1),
        "cross_entropy of chances": of("cross_entropy", chances, weight=weight, label_smoothing=0.2),
        "nll_loss": of("nll_loss", ignoring, lambda h: h.log_softmax(-1), weight=weight),
        "mse_loss": of("mse_loss", target),
        "l1_loss": of("l1_loss", target),
        "smooth_l1_loss": of("smooth_l1_loss", target, beta=0.4),
        "huber_loss": of("huber_loss", target, delta=0.6),
        "binary_cross_entropy": of("binary_cross_entropy", target, chance, weight=weight),
        "with_logits": of("binary_cross_entropy_with_logits", target, pos_weight=weight),
    }
    # One class alone is certain: its cross entropy is 0, whatever the network says.
    name = pick(rng, *[name for name in losses if classes > 1 or not name.startswith(("cross", "nll"))])
    return f"{name} ({reduction})", losses[name]
