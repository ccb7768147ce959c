"""One entry of ``module_db`` against `tensor.torch.nn`: outputs and gradients, in training and evaluation."""

from __future__ import annotations

import warnings
from typing import Any

import torch

import tensor.torch as ours
from tests.opinfo.comparison import difference
from tests.opinfo.refusals import RANDOM_MODULES, is_refused
from tests.opinfo.results import Counts
from tests.opinfo.samples import NotConvertible, converted, copied, named, tensors_of


def run_module(info: Any) -> Counts:
    """Return the counts of one entry, of float32 outputs and float64 gradients."""
    counts = Counts(info.name)
    made = named(f"nn.{info.module_cls.__name__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in (torch.float32, torch.float64):
            for training in (True, False) if info.train_and_eval_differ else (True,):
                torch.manual_seed(0)
                samples = info.module_inputs_func(
                    info, "cpu", dtype, requires_grad=dtype == torch.float64, training=training
                )
                for sample in samples:
                    _run(info, made, sample, dtype, training, counts)
        if info.module_error_inputs_func is not None and made is not None:
            _run_errors(info, made, counts)
    return counts


def _run(info: Any, made: Any, sample: Any, dtype: torch.dtype, training: bool, counts: Counts) -> None:
    built, given = sample.constructor_input, sample.forward_input
    what = f"{sample.desc or 'sample'} {built.args} {built.kwargs} training={training}"[:160]
    torch.manual_seed(0)
    theirs = info.module_cls(*built.args, **built.kwargs).to(dtype).train(training)
    try:
        if info.is_lazy:
            theirs(*copied(given.args), **copied(given.kwargs))
        state = {name: x.detach().clone() for name, x in theirs.state_dict().items()}
        expected = theirs(*given.args, **given.kwargs)
    except Exception:  # noqa: BLE001 -- whatever PyTorch refuses is no sample
        return
    exact = not (training and info.name in RANDOM_MODULES)
    try:
        if made is None:
            raise TypeError("is absent")
        module = made(*converted(built.args), **converted(built.kwargs))
        module = module.to(converted(dtype)).train(training)
        args, kwargs = converted((given.args, given.kwargs))
        if info.is_lazy:
            module(*converted(given.args), **converted(given.kwargs))
        module.load_state_dict(converted(state))
        found = module(*args, **kwargs)
        told = difference(found, expected, values=exact, tolerance=5)
        if told is None and exact and dtype == torch.float64:
            told = _gradients(theirs, module, (given.args, given.kwargs), (args, kwargs), expected, found)
    except NotConvertible as error:
        counts.add("module", "by rule", str(error))
    except Exception as error:  # noqa: BLE001 -- counted, whatever it is
        outcome = (
            "by rule"
            if is_refused(info.name, "module", (*given.args, *built.args), built.kwargs)
            else "refused"
        )
        counts.add("module", outcome, f"{what}: {type(error).__name__}: {error}")
    else:
        counts.add("module", "equal" if told is None else "different", f"{what}: {told}" if told else "")


def _gradients(theirs: Any, module: Any, given: Any, args: Any, expected: Any, found: Any) -> str | None:
    outputs = [y for y in tensors_of(expected) if y.requires_grad]
    mine = [y for y in tensors_of(found) if y.requires_grad]
    if len(outputs) != len(mine):
        return f"{len(mine)} outputs require a gradient, not {len(outputs)}"
    if not outputs or any(y.is_complex() for y in outputs):
        return None
    weights = [
        torch.randn(y.shape, generator=torch.Generator().manual_seed(7), dtype=y.dtype) for y in outputs
    ]
    inputs = [*[x for x in tensors_of(given) if x.requires_grad], *theirs.parameters()]
    own = [*[x for x in tensors_of(args) if x.requires_grad], *module.parameters()]
    if not inputs:
        return None
    wanted = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    grads = ours.autograd.grad(mine, own, converted(weights), allow_unused=True)
    for i, (x, y) in enumerate(zip(grads, wanted, strict=True)):
        if y is None and (x is None or not x.any()):
            continue
        if x is None and not y.any():
            continue
        told = "none" if x is None else difference(x, y, tolerance=5)
        if told is not None:
            return f"gradient {i}: {told}"
    return None


def _run_errors(info: Any, made: Any, counts: Counts) -> None:
    torch.manual_seed(0)
    for wrong in info.module_error_inputs_func(
        info, "cpu", torch.float32, requires_grad=False, training=True
    ):
        sample = wrong.module_error_input
        built, given = sample.constructor_input, sample.forward_input

        def attempt(cls: Any, turn: Any, built: Any = built, given: Any = given) -> None:
            module = cls(*turn(built.args), **turn(built.kwargs))
            if given is not None:
                module(*turn(given.args), **turn(given.kwargs))

        try:
            attempt(info.module_cls, copied)
        except Exception:  # noqa: BLE001
            pass
        else:
            continue
        try:
            attempt(made, converted)
        except Exception:  # noqa: BLE001
            counts.add("error", "raised")
        else:
            counts.add("error", "accepted", f"{built.args}: PyTorch says {wrong.error_regex!r}")
