"""``torch.version``: the version of PyTorch's API."""

from __future__ import annotations

__all__ = ["cuda", "debug", "hip"]

__version__: str = "2.13.0"
cuda: str | None = None
hip: str | None = None
debug: bool = False
