"""One entry of ``optim_db`` against `tensor.torch.optim`: parameters after some steps, for each setting."""

from __future__ import annotations

import warnings
from typing import Any

import torch

import tensor.torch as ours
from tests.opinfo.comparison import difference
from tests.opinfo.refusals import is_refused
from tests.opinfo.results import Counts
from tests.opinfo.samples import NotConvertible, converted, copied, named

STEPS = 5


def run_optimizer(info: Any) -> Counts:
    """Return the counts of one entry: after each setting's steps all parameters are compared."""
    name = info.optim_cls.__name__
    counts = Counts(name)
    made = named(f"optim.{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in info.optim_inputs_func(device="cpu"):
            _run(info, made, sample, counts)
        if info.optim_error_inputs_func is not None and made is not None:
            _run_errors(info, made, counts)
    return counts


def _trained(library: Any, cls: Any, options: dict[str, Any], turn: Any) -> list[Any]:
    generator = torch.Generator().manual_seed(3)
    start = [
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((3, 4), (4,), (2, 3, 4))
    ]
    params = [library.nn.Parameter(turn(x)) for x in start]
    goals = [turn(torch.randn(x.shape, generator=generator, dtype=torch.float64)) for x in start]
    optimizer = cls(params[:1] if cls.__name__ == "Muon" else params, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum(((x - y) ** 2).sum() for x, y in zip(params, goals, strict=True))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    return params


def _run(info: Any, made: Any, sample: Any, counts: Counts) -> None:
    options = sample.kwargs
    what = f"{sample.desc}: {options}"
    try:
        expected = _trained(torch, info.optim_cls, copied(options), lambda x: x.clone())
    except Exception:  # noqa: BLE001 -- whatever PyTorch refuses is no sample
        return
    try:
        if made is None:
            raise TypeError("is absent")
        found = _trained(ours, made, converted(options), converted)
        told = difference(found, expected)
    except NotConvertible as error:
        counts.add("optimizer", "by rule", str(error))
    except Exception as error:  # noqa: BLE001 -- counted, whatever it is
        outcome = "by rule" if is_refused(f"optim.{counts.name}", "optimizer", (), options) else "refused"
        counts.add("optimizer", outcome, f"{what}: {type(error).__name__}: {error}")
    else:
        counts.add("optimizer", "equal" if told is None else "different", f"{what}: {told}" if told else "")


def _run_errors(info: Any, made: Any, counts: Counts) -> None:
    for wrong in info.optim_error_inputs_func("cpu", torch.float32):
        sample = wrong.optimizer_error_input

        def attempt(cls: Any, turn: Any, sample: Any = sample) -> None:
            optimizer = cls(turn(sample.params), **turn(sample.kwargs))
            optimizer.step()

        try:
            attempt(info.optim_cls, copied)
        except Exception:  # noqa: BLE001
            pass
        else:
            continue
        try:
            attempt(made, converted)
        except Exception:  # noqa: BLE001
            counts.add("error", "raised")
        else:
            counts.add(
                "error", "accepted", f"{sample.desc} {sample.kwargs}: PyTorch says {wrong.error_regex!r}"
            )
