"""``torch.onnx``: not supported."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["export"]


def export(*args: object, **options: object) -> NoReturn:
    """Raise an error: export to ONNX is not supported.

    Examples
    --------
    >>> import tensor.torch.onnx
    >>> tensor.torch.onnx.export(None, (), "model.onnx")
    Traceback (most recent call last):
    NotImplementedError: there is no export to ONNX here: save the state_dict(), load it into ... PyTorch...
    """
    del args, options
    raise NotImplementedError(
        "there is no export to ONNX here: save the state_dict(), load it into the same model of PyTorch, and "
        "export that"
    )
