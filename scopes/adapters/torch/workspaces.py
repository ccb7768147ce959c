"""Memory that CPU kernels of PyTorch use while they run, computed from shapes.

An op's outputs are not all it needs. oneDNN's convolutions copy their operands into another layout, its LSTM
keeps a workspace for backward, and flash attention has buffers for each thread. PyTorch does not tell these
sizes before it runs a kernel. The formulas were found by counting the allocations of each kernel, with
PyTorch 2.13 on a processor with AVX-512. Other ops need little more than their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from scopes.adapters.torch.library import torch

_aten = torch.ops.aten
_PAGE = 4096
# oneDNN stores this many channels side by side.
_BLOCK = 16


def temporary_bytes(op: Any, args: Sequence[Any]) -> int:
    """Return the bytes that a kernel allocates above its outputs, at its peak."""
    find = _TEMPORARY.get(op)
    return 0 if find is None else max(0, find(args))


def flops_of(op: Any, args: Sequence[Any]) -> int | None:
    """Return the floating-point operations of ops that PyTorch's counter does not know, else None."""
    if op is _aten.mkldnn_rnn_layer.default:
        return _lstm_flops(args[0], args[1], args[2])
    if op is _aten.mkldnn_rnn_layer_backward.default:
        return 2 * _lstm_flops(args[0], args[1], args[2])
    return None


def lstm_workspace_bytes(x: Any, hidden_size: int) -> int:
    """Return the size of what oneDNN's LSTM keeps of a float32 input for backward."""
    if not torch.is_grad_enabled():
        return 0
    steps, batch, features = _lengths(x)
    states = 2 * (steps + 1) * batch
    row = _row(max(hidden_size, features))
    return _pages(
        steps * batch * _row(4 * hidden_size),  # gates
        states * row,  # hidden states
        states * hidden_size,  # cell states
        states * row,  # their gradients: of the layer, of the iteration, and of the cell
        states * row,
        states * hidden_size,
        steps * batch * _row(hidden_size),
    )


def _nbytes(x: Any) -> int:
    return x.numel() * x.element_size() if x is not None else 0


def _rounded(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _pages(*parts: int) -> int:
    """Return the bytes of float32 buffers with these numbers of elements, each of whole pages."""
    return sum(_rounded(4 * part, _PAGE) for part in parts)


def _row(elements: int) -> int:
    """Return the length of a row of oneDNN's RNN: whole cache lines, and no multiple of 1 KiB."""
    length = _rounded(elements, 16)
    return length + 16 if length % 256 == 0 else length


def _blocked(x: Any) -> int:
    """Return the bytes of the copy of an image in oneDNN's layout; 0 if it needs none."""
    channels = x.shape[1]
    if channels < _BLOCK or _is_channels_last(x):
        return 0
    return int(_nbytes(x) // channels * _rounded(channels, _BLOCK))


def _is_channels_last(x: Any) -> bool:
    return x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def _output_bytes(x: Any, weight: Any, args: Sequence[Any]) -> int:
    stride, padding, dilation = args[3], args[4], args[5]
    size = [x.shape[0], weight.shape[0]]
    for i, length in enumerate(x.shape[2:]):
        at = [each[i] if len(each) > 1 else each[0] for each in (stride, padding, dilation)]
        size.append((length + 2 * at[1] - at[2] * (weight.shape[i + 2] - 1) - 1) // at[0] + 1)
    return int(math.prod(size) * x.element_size())


def _uses_onednn(x: Any) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.float32 and bool(torch.backends.mkldnn.enabled)


def _convolution(args: Sequence[Any]) -> int:
    x, weight, transposed = args[0], args[1], args[6]
    if not _uses_onednn(x) or transposed:
        return 0
    weights = _nbytes(weight)
    if _is_channels_last(x) or _is_channels_last(weight):
        return weights
    y = _output_bytes(x, weight, args)
    # The result is computed in oneDNN's layout, then copied. The copies of the operands are freed before.
    return max(_blocked(x) + weights, y)


def _convolution_backward(args: Sequence[Any]) -> int:
    grad, x, weight, transposed, wanted = args[0], args[1], args[2], args[7], args[10]
    if not _uses_onednn(x) or transposed:
        return 0
    weights, image = _nbytes(weight), _nbytes(x) if wanted[0] else 0
    if _is_channels_last(x) or _is_channels_last(weight):
        return 2 * weights if wanted[1] else weights
    of_input = _blocked(grad) + weights + 2 * image if wanted[0] else 0
    of_weight = image + max(_blocked(x) + _blocked(grad) + weights, 2 * weights) if wanted[1] else 0
    outputs = image + (weights if wanted[1] else 0)
    return max(of_input, of_weight) - outputs


def _lstm_flops(x: Any, of_input: Any, of_hidden: Any) -> int:
    return int(2 * x.shape[0] * x.shape[1] * (of_input.numel() + of_hidden.numel()))


def _lengths(x: Any) -> tuple[int, int, int]:
    """Return the steps, the batch and the features of the input of an LSTM."""
    steps, batch, features = x.shape
    return steps, batch, features


def _lstm(args: Sequence[Any]) -> int:
    # Without gradients, oneDNN has another kernel. Both copy the weights into their own layout.
    hidden: int = args[10]
    steps, batch, features = _lengths(args[0])
    bias = 4 * hidden
    if not torch.is_grad_enabled():
        states = 2 * (steps + 1) * batch
        scratch = _pages(
            states * _row(max(hidden, features)),
            states * hidden,
            batch * _row(4 * hidden),
            batch * _row(hidden),
        )
        return 4 * (bias + 4 * (features + hidden) * _rounded(hidden, 32)) + scratch + _PAGE
    # oneDNN multiplies a large batch step by step.
    at_once = steps if batch < 128 else 1
    return 4 * (bias + (features + hidden) * _row(4 * hidden)) + _lstm_scratch(at_once, batch, hidden)


def _lstm_backward(args: Sequence[Any]) -> int:
    hidden: int = args[15]
    steps, batch, features = _lengths(args[0])
    # Copies of the weights with padded rows, and the gradients of the weights in another layout.
    weights = sum(4 * hidden * _row(length) for length in (features, hidden) if _row(length) != length)
    weights += (features + hidden) * _row(4 * hidden)
    biases = 2 * 4 * hidden
    # Gradients that are missing or not contiguous: of the output, of the last state, and of the last cell.
    grads = sum(
        _nbytes(of)
        for of, grad in zip(args[7:10], args[10:13], strict=True)
        if grad is None or not grad.is_contiguous()
    )
    return 4 * (weights + biases) + grads + _lstm_scratch(steps, batch, hidden)


def _lstm_scratch(steps: int, batch: int, hidden: int) -> int:
    """Return the bytes of oneDNN's LSTM for the gates of some steps, and for hidden states of one."""
    gates, states = steps * batch * _row(4 * hidden), batch * _row(hidden)
    return _pages(gates, states, states) + _PAGE


def _attention_blocks(q: Any, k: Any) -> tuple[int, int]:
    """Return how many queries and keys a thread of flash attention handles at once."""
    queries = 256 if q.shape[2] >= 768 else 64 if q.shape[2] >= 192 else 32
    return min(queries, q.shape[2]), min(512, k.shape[2])


def _attention(args: Sequence[Any]) -> int:
    q, k = args[0], args[1]
    queries, keys = _attention_blocks(q, k)
    return int(4 * torch.get_num_threads() * (queries * keys + 2 * queries + queries * q.shape[3]))


def _attention_backward(args: Sequence[Any]) -> int:
    q, k = args[1], args[2]
    queries, keys = _attention_blocks(q, k)
    return int(_nbytes(q) + 8 * torch.get_num_threads() * queries * keys)


def _dropout(args: Sequence[Any]) -> int:
    return _nbytes(args[0]) if args[2] is not False else 0


_TEMPORARY: dict[Any, Callable[[Sequence[Any]], int]] = {
    _aten.convolution.default: _convolution,
    _aten.convolution_backward.default: _convolution_backward,
    _aten.mkldnn_rnn_layer.default: _lstm,
    _aten.mkldnn_rnn_layer_backward.default: _lstm_backward,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention_backward,
    _aten.native_dropout.default: _dropout,
}
