"""One entry of ``op_db`` against `tensor.torch`: each sample in every form that PyTorch has."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import torch

import tensor.torch as ours
from tests.opinfo.comparison import difference
from tests.opinfo.refusals import ANY_INDEX, ANY_VALUE, NON_UNIQUE, OF_LARGER_MEMORY, TOLERANCE, is_refused
from tests.opinfo.results import Counts
from tests.opinfo.samples import (
    NotConvertible,
    cast_sample,
    converted,
    copied,
    function_of,
    named,
    tensors_of,
    with_ours,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DTYPES = (torch.float32, torch.int64, torch.bool)


def run_op(op: Any, limit: int | None = 10) -> Counts:
    """Return the counts of one entry; with `limit` at most so many samples of a dtype, evenly spaced."""
    counts = Counts(op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""))
    if counts.name in OF_LARGER_MEMORY:
        return counts
    function = function_of(op)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            if dtype in op.dtypes:
                for sample in chosen(op, dtype, False, limit):
                    _run_sample(op, function, sample, counts)
        if torch.bfloat16 in op.dtypes:
            narrow = Counts(counts.name)
            for sample in chosen(op, torch.bfloat16, False, limit):
                _run_sample(op, function, sample, narrow)
            counts.take_as("bfloat16", narrow)
        if op.supports_autograd and torch.float64 in op.dtypes:
            for sample in chosen(op, torch.float64, True, limit):
                _run_gradient(op, function, sample, counts)
        if op.error_inputs_func is not None and function is not None:
            _run_errors(op, function, counts)
    return counts


def chosen(op: Any, dtype: torch.dtype, requires_grad: bool, limit: int | None) -> list[Any]:
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad))
    if limit is None or len(samples) <= limit:
        return samples
    return [samples[i * len(samples) // limit] for i in range(limit)]


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    torch.manual_seed(0)
    ours.manual_seed(0)
    yield


def _run_sample(op: Any, function: Callable[..., Any] | None, sample: Any, counts: Counts) -> None:
    given = (sample.input, *sample.args)
    try:
        with _seeded():
            expected = op.op(*copied(given), **copied(sample.kwargs))
    except Exception:  # noqa: BLE001 -- whatever PyTorch refuses is no sample
        return
    forms: list[tuple[str, Callable[..., Any] | None]] = [("function", function)]
    if op.method_variant is not None and isinstance(sample.input, torch.Tensor):
        name = getattr(op.method_variant, "__name__", "<lambda>")
        forms.append(("method", getattr(ours.Tensor, op.name if name == "<lambda>" else name, None)))
    exact = _in_float32(op, sample) if _is_narrow(expected) else None
    for form, call in forms:
        _check(op, form, call, sample, expected, counts, exact)
    if op.inplace_variant is not None and not sample.broadcasts_input:
        _run_in_place(op, sample, counts, exact)
    if op.supports_out and function is not None:
        _run_out(op, function, sample, expected, counts, exact)


def _is_narrow(expected: Any) -> bool:
    return any(x.dtype == torch.bfloat16 for x in tensors_of(expected))


def _in_float32(op: Any, sample: Any) -> Any:
    """Return what PyTorch gives for a sample of bfloat16 in float32, rounded once; None if nothing."""
    given, kwargs = cast_sample(((sample.input, *sample.args), sample.kwargs), torch.bfloat16, torch.float32)
    try:
        with _seeded():
            return cast_sample(op.op(*copied(given), **copied(kwargs)), torch.float32, torch.bfloat16)
    except Exception:  # noqa: BLE001 -- of mixed dtypes, for example
        return None


def _check(
    op: Any,
    form: str,
    call: Callable[..., Any] | None,
    sample: Any,
    expected: Any,
    counts: Counts,
    exact: Any = None,
) -> None:
    given, kwargs = (sample.input, *sample.args), sample.kwargs
    # Eigenvectors and singular vectors have a sign, or a phase, of their own: the data base takes it away.
    process = (op.name in NON_UNIQUE and sample.output_process_fn_grad) or (lambda y: y)
    if call is None:
        outcome = "by rule" if is_refused(op.name, form, given, kwargs) else "refused"
        counts.add(form, outcome, "is absent")
        return
    try:
        args, options = converted((given, kwargs))
        with _seeded():
            found = call(*args, **options)
        told = _difference(op, process(found), process(expected), given, kwargs)
        if told is not None and exact is not None:
            # PyTorch rounds within some of its functions; in float32 it does not.
            told = _difference(op, process(found), process(exact), given, kwargs)
    except NotConvertible as error:
        counts.add(form, "by rule", str(error))
        return
    except Exception as error:  # noqa: BLE001 -- counted, whatever it is
        outcome = "by rule" if is_refused(op.name, form, given, kwargs) else "refused"
        counts.add(form, outcome, f"{_shown(given, kwargs)}: {type(error).__name__}: {error}")
        return
    line = f"{_shown(given, kwargs)}: {told}" if told else ""
    counts.add(form, "equal" if told is None else "different", line)


def _is_any_value(op: Any, given: Any, kwargs: Any) -> bool:
    # `dropout_p` is the tenth argument of multi-head attention.
    is_attention = op.name == "nn.functional.multi_head_attention_forward"
    drops = kwargs.get("dropout_p") or (is_attention and given[10] and kwargs.get("training", True))
    return op.name in ANY_VALUE or bool(drops)


def _difference(op: Any, found: Any, expected: Any, given: Any, kwargs: Any) -> str | None:
    if op.name in ANY_INDEX:
        found, expected = _values_of_sorted(found, expected)
    tolerance = TOLERANCE.get(op.name, 1)
    return difference(found, expected, values=not _is_any_value(op, given, kwargs), tolerance=tolerance)


def _values_of_sorted(found: Any, expected: Any) -> tuple[Any, Any]:
    """Return results without indices whose order is not defined."""
    if isinstance(expected, (list, tuple)):
        return list(found)[:1], list(expected)[:1]
    return [found.shape], [expected.shape]


def _run_in_place(op: Any, sample: Any, counts: Counts, exact: Any) -> None:
    # Of functions of `nn.functional` alone the form in place is a word: silu(x, inplace=True).
    name = getattr(op.inplace_variant, "__name__", "<lambda>")
    by_word = name == "<lambda>" or not name.endswith("_") or op.name.startswith("nn.functional.")
    try:
        target = sample.input.clone()
        with _seeded():
            expected = op.inplace_variant(target, *copied(sample.args), **copied(sample.kwargs))
    except Exception:  # noqa: BLE001
        return
    if expected is not target:
        return

    function = named(op.name) if by_word else getattr(ours.Tensor, name, None)

    def call(x: Any, *args: Any, **options: Any) -> Any:
        options = {**options, "inplace": True} if by_word else options
        y = function(x, *args, **options)  # type: ignore[misc]  # called where it is not None
        if y is not x:
            raise AssertionError("the result is not the tensor itself")
        return y

    _check(op, "in place", call if function is not None else None, sample, expected, counts, exact)


def _run_out(
    op: Any, function: Callable[..., Any], sample: Any, expected: Any, counts: Counts, exact: Any
) -> None:
    given, kwargs = (sample.input, *sample.args), sample.kwargs
    targets = tensors_of(expected)
    if not targets or "out" in kwargs:
        return
    several = isinstance(expected, (list, tuple))
    try:
        out: Any = [torch.empty_like(x) for x in targets] if several else torch.empty_like(expected)
        with _seeded():
            op.op(*copied(given), **copied(kwargs), out=tuple(out) if several else out)
    except Exception:  # noqa: BLE001
        return

    def call(*args: Any, **options: Any) -> Any:
        dtypes = [getattr(ours, str(x.dtype).removeprefix("torch.")) for x in targets]
        made = [ours.empty(tuple(x.shape), dtype=dtype) for x, dtype in zip(targets, dtypes, strict=True)]
        result = function(*args, **options, out=tuple(made) if several else made[0])
        if several:
            return tuple(made)
        if result is not made[0]:
            raise AssertionError("the result is not out")
        return result

    _check(op, "out=", call, sample, tuple(targets) if several else expected, counts, exact)


# --- Gradients ----------------------------------------------------------------------------------------------


def _run_gradient(op: Any, function: Callable[..., Any] | None, sample: Any, counts: Counts) -> None:
    given, kwargs = (sample.input, *sample.args), sample.kwargs
    process = sample.output_process_fn_grad or (lambda y: y)
    inputs = [x for x in tensors_of((given, kwargs)) if x.requires_grad]
    try:
        with _seeded():
            outputs = _derived(process(op.gradcheck_wrapper(op.op, *given, **kwargs)))
        if not outputs or any(y.is_complex() for y in outputs) or not inputs:
            return
        generator = torch.Generator().manual_seed(7)
        weights = [torch.randn(y.shape, generator=generator, dtype=y.dtype) for y in outputs]
        expected = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    except Exception:  # noqa: BLE001
        return
    if _is_any_value(op, given, kwargs):
        return
    try:
        if function is None:
            raise TypeError("is absent")
        args, options = converted((given, kwargs))
        with _seeded():
            # The wrapper makes Hermitian or triangular matrices of any, where the op takes only these.
            result = process(_wrapped(op, function, args, options, given, kwargs))
        ours_out = _derived(result)
        ours_in = [x for x in tensors_of((args, options)) if x.requires_grad]
        if not ours_out and not any(y is not None and y.any() for y in expected):
            told: str | None = None  # a constant, and a gradient of zeros
        elif len(ours_out) != len(outputs):
            told = f"{len(ours_out)} results require a gradient, not {len(outputs)}"
        else:
            found = ours.autograd.grad(ours_out, ours_in, converted(weights), allow_unused=True)
            told = _gradient_difference(op, found, expected)
    except NotConvertible as error:
        counts.add("gradient", "by rule", str(error))
        return
    except Exception as error:  # noqa: BLE001
        outcome = "by rule" if is_refused(op.name, "gradient", given, kwargs) else "refused"
        counts.add("gradient", outcome, f"{_shown(given, kwargs)}: {type(error).__name__}: {error}")
        return
    line = f"{_shown(given, kwargs)}: {told}" if told else ""
    counts.add("gradient", "equal" if told is None else "different", line)


def _wrapped(op: Any, function: Any, args: Any, options: Any, given: Any, kwargs: Any) -> Any:
    """Return what the function gives, after the data base's wrapper."""
    if "masked" in op.gradcheck_wrapper.__name__:
        # It sets what no mask keeps to 0, by a helper of PyTorch's own.
        found = function(*args, **options)
        if kwargs.get("input_mask") is not None:
            return ours.where(converted(kwargs["input_mask"] & kwargs["other_mask"]), found, 0)
        if kwargs.get("mask") is None:
            return found
        mask = torch.masked._ops._output_mask(op.op, *given, **kwargs)
        return ours.where(converted(mask), found, 0)
    return with_ours(op.gradcheck_wrapper)(function, *args, **options)


def _derived(result: Any) -> list[Any]:
    """Return the results that have elements and a gradient."""
    return [y for y in tensors_of(result) if y.requires_grad and y.numel()]


def _gradient_difference(op: Any, found: Any, expected: Any) -> str | None:
    for i, (x, y) in enumerate(zip(found, expected, strict=True)):
        # No gradient and a gradient of zeros are one answer.
        if x is None and (y is None or not y.any()):
            continue
        if y is None and not x.any():
            continue
        told = (
            "no gradient"
            if x is None
            else difference(
                x,
                torch.zeros(x.shape, dtype=torch.float64) if y is None else y,
                tolerance=TOLERANCE.get(op.name, 1),
            )
        )
        if told is not None:
            return f"by input {i}: {told}"
    return None


# --- Wrong inputs -------------------------------------------------------------------------------------------


def _run_errors(op: Any, function: Callable[..., Any], counts: Counts) -> None:
    torch.manual_seed(0)
    for wrong in op.error_inputs("cpu"):
        sample = wrong.sample_input
        given, kwargs = (sample.input, *sample.args), sample.kwargs
        try:
            op.op(*copied(given), **copied(kwargs))
        except Exception:  # noqa: BLE001
            pass
        else:
            continue
        try:
            args, options = converted((given, kwargs))
            function(*args, **options)
        except NotConvertible:
            continue
        except (AttributeError, KeyError, AssertionError, UnboundLocalError) as error:
            counts.add("error", "bare", f"{_shown(given, kwargs)}: {type(error).__name__}: {error}")
        except Exception:  # noqa: BLE001
            counts.add("error", "raised")
        else:
            outcome = "by rule" if is_refused(op.name, "error", given, kwargs) else "accepted"
            counts.add("error", outcome, f"{_shown(given, kwargs)}: PyTorch says {wrong.error_regex!r}")


def _shown(given: Any, kwargs: Any) -> str:
    def of(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
        if isinstance(x, (list, tuple)):
            return "(" + ", ".join(of(y) for y in x) + ")"
        return repr(x)

    return ", ".join([of(x) for x in given] + [f"{k}={of(v)}" for k, v in kwargs.items()])[:200]
