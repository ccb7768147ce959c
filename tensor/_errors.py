"""What tensors raise beside Python's own errors, and how errors show what they were given."""

from reprlib import Repr

from scopes import TensorDisposedError as TensorDisposedError


def _shortening() -> Repr:
    short = Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 200, 200
    return short


# What a user gave, for an error: however long or deep it is, and whether or not it contains itself.
shown = _shortening().repr
