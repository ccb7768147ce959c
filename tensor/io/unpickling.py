"""A safe unpickler: it builds plain data, and calls only functions of a table.

Python's unpickler calls anything that a pickle names, and a few bytes can make it allocate unlimited memory.
This one iterates over the opcodes (`pickletools.genops`), builds plain containers, and calls only functions
in the given table. Time and memory are limited by the size of the pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

from scopes._shared.naming import set_module
from tensor._errors import shown

T = TypeVar("T")


@set_module("tensor")
class CheckpointError(ValueError):
    """A file is not a checkpoint, is broken, or would run code if it were loaded.

    The message has the name of the file, the expected value, and the value found.

    Examples
    --------
    >>> import io, pickle, tensor
    >>> tensor.load(io.BytesIO(pickle.dumps([1, 2, 3])))
    Traceback (most recent call last):
        ...
    tensor.CheckpointError: the file given is a plain pickle, which may run code ...
    """


class Builder(NamedTuple):
    """A function that a pickle may call, with arguments from the pickle."""

    build: Callable[..., object]


class Vocabulary(Protocol):
    """The interface for the names, persistent ids and states in a pickle."""

    def named(self, name: str, /) -> object:
        """Return the object for ``"module.name"``: a constant or a `Builder`. Raise an error for others."""

    def persistent(self, given: object, /) -> object:
        """Return the object for a persistent id."""

    def call(self, function: object, arguments: tuple[object, ...], is_new: bool, /) -> object:
        """Call `function`, which is not a `Builder`. With `is_new`, call ``__new__`` of the class."""

    def set_state(self, x: object, state: object, /) -> None:
        """Set the state of `x`, which the pickle has just built."""


def unpickle(data: bytes, vocabulary: Vocabulary) -> object:
    """Return the object in the pickle `data`, which may have any protocol.

    Raises
    ------
    CheckpointError
        If the pickle is truncated or broken, or uses names that are not in the `vocabulary`.
    """
    import pickletools  # imported here, because it makes `import tensor` slower

    machine = _Machine(vocabulary)
    try:
        for opcode, argument, _ in pickletools.genops(data):
            machine.step(opcode.name, argument)
    except CheckpointError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        # Truncated data, opcodes that do not match the stack, or arguments that a builder does not accept.
        _fail(f"the pickle in it is broken: {type(error).__name__}, {shown(str(error))}")
    return machine.result()


_CONSTANTS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
# The types of dict keys and set members. Hashing nested tuples can take exponential time, and a long tuple or
# integer is hashed again each time the pickle uses it.
_HASHED = (str, bytes, int, float, complex, bool, type(None))
_MAX_PARTS, _MAX_BITS = 256, 16_384


class _Machine:
    """The stack machine that runs a pickle's opcodes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._stack: list[Any] = []
        # The stacks below each mark.
        self._below: list[list[Any]] = []
        self._memo: dict[int, object] = {}

    def result(self) -> object:
        if len(self._stack) != 1 or self._below:
            _fail(f"it ends with {len(self._stack)} objects instead of one")
        return self._stack[0]

    def step(self, opcode: str, argument: Any) -> None:
        """Run one opcode, named as in `pickletools`."""
        stack = self._stack
        match opcode:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "NONE":
                stack.append(None)
            case "NEWTRUE" | "NEWFALSE":
                stack.append(opcode == "NEWTRUE")
            case _ if opcode in _CONSTANTS:
                stack.append(argument)
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_TUPLE":
                stack.append(())
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_SET":
                stack.append(set())
            case "MARK":
                self._below.append(stack)
                self._stack = []
            case "LIST":
                self._push(self._since_mark())
            case "TUPLE":
                self._push(tuple(self._since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = int(opcode[-1])
                if len(stack) < size:
                    _fail(f"{opcode} on {len(stack)} objects")
                stack[-size:] = [tuple(stack[-size:])]
            case "DICT":
                values = self._since_mark()
                self._stack.append({})
                _set_items(self._stack[-1], values)
            case "FROZENSET":
                self._push(frozenset(keys_of(self._since_mark())))
            case "APPEND":
                value = stack.pop()
                _require(stack[-1], list).append(value)
            case "APPENDS":
                values = self._since_mark()
                _require(self._stack[-1], list).extend(values)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                _set_items(stack[-1], [key, value])
            case "SETITEMS":
                values = self._since_mark()
                _set_items(self._stack[-1], values)
            case "ADDITEMS":
                values = self._since_mark()
                _require(self._stack[-1], set).update(keys_of(values))
            case "POP":
                stack.pop()
            case "POP_MARK":
                self._since_mark()
            case "DUP":
                stack.append(stack[-1])
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "GLOBAL":
                stack.append(self._vocabulary.named(argument.replace(" ", ".", 1)))
            case "STACK_GLOBAL":
                name, module = stack.pop(), stack.pop()
                stack.append(self._vocabulary.named(f"{_require(module, str)}.{_require(name, str)}"))
            case "REDUCE" | "NEWOBJ":
                arguments, function = _require(stack.pop(), tuple), stack.pop()
                if isinstance(function, Builder):
                    stack.append(function.build(*arguments))
                else:
                    stack.append(self._vocabulary.call(function, arguments, opcode == "NEWOBJ"))
            case "BUILD":
                state = stack.pop()
                self._vocabulary.set_state(stack[-1], state)
            case "BINPERSID":
                stack.append(self._vocabulary.persistent(stack.pop()))
            case _:
                _fail(f"it has the opcode {opcode}, which checkpoints do not need")

    def _since_mark(self) -> list[Any]:
        values, self._stack = self._stack, self._below.pop()
        return values

    def _push(self, x: object) -> None:
        self._stack.append(x)


def _fail(what: str) -> NoReturn:
    raise CheckpointError(what) from None


def _require(x: object, kind: type[T]) -> T:
    if not isinstance(x, kind):
        _fail(f"the pickle in it is broken: {type(x).__name__} instead of {kind.__name__}")
    return x


def _set_items(target: object, values: Sequence[Any]) -> None:
    items = _require(target, dict)
    for key, value in zip(keys_of(values[::2]), values[1::2], strict=True):
        items[key] = value


def keys_of(values: Iterable[object]) -> list[Any]:
    """Return `values` as keys or set members. Raise an error unless they are constants or tuples of them."""
    found = list(values)
    if {str}.issuperset(map(type, found)):  # names, in almost every file
        return found
    for x in found:
        parts = x if type(x) is tuple else (x,)
        if len(parts) > _MAX_PARTS or not all(_is_hashed_quickly(part) for part in parts):
            _fail(
                f"a key in it is {shown(x)}: keys must be numbers, strings, or tuples of at most "
                f"{_MAX_PARTS} of them"
            )
    return found


def _is_hashed_quickly(x: object) -> bool:
    return type(x) in _HASHED and (type(x) is not int or x.bit_length() <= _MAX_BITS)
