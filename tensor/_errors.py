"""What tensors raise beside Python's own errors."""

from scopes import TensorDisposedError as TensorDisposedError
