"""Parts of PyTorch that run Python code of their own: the same numbers in scopes as without, to the bit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.scopes.foreign.frameworks import Scoped, scoped_by  # noqa: E402

F = torch.nn.functional
STEPS = 3


def _network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def _train(scoped: Scoped, loss_of: Callable[[Any, Any], Any], model: Any | None = None) -> list[float]:
    """Train with Adam and a scope around each step; return losses, and then all parameters."""
    model = _network() if model is None else model
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(STEPS):
        with scoped():
            loss = loss_of(model, torch.randn(4, 6))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses + torch.nn.utils.parameters_to_vector(model.parameters()).tolist()


def _compiled(backend: str) -> Callable[[Scoped], list[float]]:
    def run(scoped: Scoped) -> list[float]:
        torch.compiler.reset()
        model = _network()
        step = torch.compile(lambda x: model(x).square().mean(), backend=backend)
        return _train(scoped, lambda _, x: step(x), model)

    return run


def _mixed_precision(scoped: Scoped) -> list[float]:
    def loss_of(model: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.cross_entropy(model(x), torch.zeros(4, dtype=torch.long))

    return _train(scoped, loss_of)


def _mixed_precision_around(scoped: Scoped) -> list[float]:
    """The autocast block is longer than the scopes, and so is its cache of weights."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return _train(scoped, lambda model, x: model(x).float().square().mean())


def _checkpointed(*, reentrant: bool) -> Callable[[Scoped], list[float]]:
    def loss_of(model: Any, x: Any) -> Any:
        x.requires_grad_()
        body = torch.nn.Sequential(model[0], model[1], torch.nn.Dropout(0.5))
        x = torch.utils.checkpoint.checkpoint(body, x, use_reentrant=reentrant)
        return model[2](x).square().mean()

    return lambda scoped: _train(scoped, loss_of)


def _functional(scoped: Scoped) -> list[float]:
    """Gradients of each sample, a Jacobian, and a tangent; the gradients update the weights."""
    model = _network()
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}

    def loss_of(given: Any, x: Any) -> Any:
        return torch.func.functional_call(model, given, (x,)).square().mean()

    found = []
    for _ in range(STEPS):
        with scoped() as scope:
            x = torch.randn(4, 6)
            each = torch.func.vmap(torch.func.grad(loss_of), (None, 0))(weights, x)
            jacobian = torch.func.jacrev(lambda x: model(x).sum(0))(x)
            value, tangent = torch.func.jvp(lambda x: model(x).sum(), (x,), (torch.ones_like(x),))
            found += [loss_of(weights, x).item(), jacobian.norm().item(), value.item(), tangent.item()]
            weights = {name: value - 0.1 * each[name].mean(0) for name, value in weights.items()}
            if scope is not None:
                scope.detach(weights)
    return found + [value.sum().item() for value in weights.values()]


def _exported(scoped: Scoped) -> list[float]:
    """Export inside of a scope, and train the exported program in later ones."""
    with scoped():
        program = torch.export.export(_network(), (torch.randn(4, 6),))
        model = program.module()
    torch.manual_seed(1)
    return _train(scoped, lambda model, x: model(x).square().mean(), model)


class Halves(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Reads a size, which the tracer of torch.jit records."""

    def __init__(self) -> None:
        super().__init__()
        self.network = _network()

    def forward(self, x: Any) -> Any:
        return self.network(x).view(x.shape[0] // 2, -1).square().mean()


def _traced_before(scoped: Scoped) -> list[float]:
    """At its first call a traced function compares its constants, which a dispatch mode gets as numbers."""

    def shifted(x: Any) -> Any:
        return x.view(x.shape[0], -1).add(1.0).mul(-1.0).add(1.0)

    traced = torch.jit.trace(shifted, torch.randn(4, 6), check_trace=False)
    return _train(scoped, lambda model, x: model(traced(x)).square().mean())


def _traced(scoped: Scoped) -> list[float]:
    """Trace a module, and a function inside of a trained one."""
    with scoped():
        model = torch.jit.trace(Halves(), torch.randn(4, 6))
    doubled = torch.jit.trace(lambda x: x.view(x.shape[0], -1) * 2, torch.randn(4, 6))
    return _train(scoped, lambda model, x: model(doubled(x)), model)


class Squares(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Makes its samples when they are read."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        return torch.arange(6.0) * i / 10, torch.tensor(float(i * i))


def _loaded(workers: int) -> Callable[[Scoped], list[float]]:
    def run(scoped: Scoped) -> list[float]:
        model = _network()
        optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
        loader = torch.utils.data.DataLoader(
            Squares(), 4, shuffle=True, num_workers=workers, persistent_workers=workers > 0
        )
        losses = []
        for _ in range(2):
            batches = iter(loader)
            for _ in range(len(loader)):
                with scoped():
                    x, y = next(batches)
                    loss = F.mse_loss(model(x).sum(1), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
        return losses

    return run


def _moved_out_of_a_checkpoint(run: Callable[[Any, Any, Any], Any]) -> Callable[[Scoped], list[float]]:
    """Backward runs after the scope of the checkpoint. Then it computes the layers again."""

    def train(scoped: Scoped) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(0.5), torch.nn.Linear(6, 6))
        losses = []
        for _ in range(STEPS):
            with scoped() as scope:
                loss = run(model, torch.randn(4, 6), torch.rand(6)).square().mean()
                if scope is not None:
                    scope.detach(loss)
            loss.backward()
            losses.append(loss.item())
        return losses + model[0].weight.grad.flatten().tolist()

    return train


def _checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)


def _masked(model: Any, x: Any, masks: list[Any]) -> Any:
    return model(x) * masks[0]


def _save_products() -> Any:
    save = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]
    return torch.utils.checkpoint.create_selective_checkpoint_contexts(save)


FEATURES: dict[str, Callable[[Scoped], list[float]]] = {
    "torch.compile, eager": _compiled("eager"),
    "torch.compile, aot_eager": _compiled("aot_eager"),
    "autocast": _mixed_precision,
    "autocast around the scopes": _mixed_precision_around,
    "checkpoint": _checkpointed(reentrant=False),
    "checkpoint, reentrant": _checkpointed(reentrant=True),
    "checkpoint, moved out": _moved_out_of_a_checkpoint(lambda model, x, mask: _checkpoint(model, x) * mask),
    "checkpoint, moved out, arguments in a list": _moved_out_of_a_checkpoint(
        lambda model, x, mask: _checkpoint(_masked, model, x, [mask])
    ),
    "checkpoint, moved out, keywords": _moved_out_of_a_checkpoint(
        lambda model, x, mask: _checkpoint(_masked, model, x, masks=[mask])
    ),
    "checkpoint, moved out, partial": _moved_out_of_a_checkpoint(
        lambda model, x, mask: _checkpoint(functools.partial(_masked, masks=[mask]), model, x)
    ),
    "checkpoint, moved out, selective": _moved_out_of_a_checkpoint(
        lambda model, x, mask: _checkpoint(model, x, context_fn=_save_products) * mask
    ),
    "torch.func": _functional,
    "torch.export": _exported,
    "torch.jit.trace": _traced,
    "torch.jit.trace, before the scopes": _traced_before,
    "DataLoader": _loaded(0),
    "DataLoader, two workers": _loaded(2),
}


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning",
    "ignore::torch.jit.TracerWarning",
    "ignore:To copy construct:UserWarning",
    "ignore:.*fork:DeprecationWarning",
    "ignore:os.fork:RuntimeWarning",
    # On one core.
    "ignore:This DataLoader will create 2 worker processes:UserWarning",
)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_gives_the_same_numbers_in_scopes(feature: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        plain = FEATURES[feature](scoped_by("plain"))
        for mode in ("owning", "exact"):
            assert FEATURES[feature](scoped_by(mode)) == plain, mode
    finally:
        torch.set_num_threads(threads)
