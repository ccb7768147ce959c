# cython: language_level=3, auto_pickle=False
"""Calls with their own scope, scopes of generators, and calls whose errors hold no memory.

This module is compiled. So no interrupt can arrive between the beginning of a scope and the block that ends
it, and tracebacks have no frame of the call itself.
"""

from functools import WRAPPER_ASSIGNMENTS as _COPIED
from types import FunctionType as _FunctionType

from scopes.core.advice import explain_call
from scopes.core.tracebacks import clear_library_frames

from scopes.core.disposable cimport MemberList, current_scope, make_current, outer_of
from scopes.core.scope cimport DisposeScope


def call_in_scope(name, function, tuple args, dict kwargs):
    """Call `function` in a new scope, and move its result to the current scope."""
    with DisposeScope(name) as scope:
        return scope._hand_out(function(*args, **kwargs))


cdef object _named_as(function, wrapper):
    """Do the same as ``functools.update_wrapper``, but faster: `import tensor` calls it 700 times."""
    cdef dict attributes = wrapper.__dict__
    for name in _COPIED:
        try:
            value = getattr(function, name)
        except AttributeError:
            continue
        setattr(wrapper, name, value)
    attributes.update(getattr(function, "__dict__", ()))
    attributes["__wrapped__"] = function
    return wrapper


def clearing(function):
    """Wrap `function` so that the tracebacks of its errors hold no operands and no partial results.

    The frames of this library in the traceback are cleared; users' frames keep their locals. If the arguments
    do not fit the parameters, the error says what to write.
    """
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if type(error) is TypeError:
                explain_call(error, call, function, args, kwargs)
            clear_library_frames(error)
            raise

    cleared = _named_as(function, call)
    cleared.clears_errors = True
    return cleared


def without_frames(function):
    """Wrap a function that the library returns to its user, so that its stored errors keep no tensor alive.

    An error keeps the frames of its traceback alive, and a frame keeps its locals. The wrapper clears the
    frames of libraries, as ``clear_errors_of`` does for the functions of a module. Users' frames keep their
    locals. The wrapper is freed with its last reference.

    Examples
    --------
    >>> from scopes.lowlevel import without_frames
    >>> without_frames(lambda x: x / 2)(8)
    4.0
    """
    # Unlike the wrapper in `clearing`, this one does not refer to itself: it is in no reference cycle.
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            clear_library_frames(error)
            raise

    return _named_as(function, call)


cdef object _CompiledFunction = type(clearing)
# Methods that are not wrapped. The interpreter calls them to create classes and objects and to read
# attributes. The `__call__` of a module calls `forward`, and clears frames itself.
cdef set _AS_THEY_ARE = {"__new__", "__init_subclass__", "__class_getitem__", "__getattr__", "forward"}


def may_keep_frames(x):
    """Return whether `x` is a function that runs Python code, also inside of compiled wrappers."""
    if isinstance(x, _CompiledFunction) and not hasattr(x, "clears_errors"):
        while isinstance(x, _CompiledFunction):
            x = getattr(x, "__wrapped__", None)
    return isinstance(x, _FunctionType)


def clear_errors_of_methods(cls):
    """Replace the public methods of `cls` that may keep frames, and such setters of properties.

    This is compiled, because `import tensor` calls it for 40 classes with 1,300 members.
    """
    cdef dict compiled = {}  # two names of one method share one wrapper
    cdef str name
    for name, member in list(vars(cls).items()):
        if isinstance(member, property):
            if member.fset is not None:
                setattr(cls, name, member.setter(clearing(member.fset)))
            continue
        if name in _AS_THEY_ARE or (name.startswith("_") and not name.endswith("__")):
            continue
        if not may_keep_frames(member):
            continue
        if isinstance(member, _FunctionType):
            setattr(cls, name, clearing(member))
            continue
        if member not in compiled:
            compiled[member] = clearing(member)
        setattr(cls, name, compiled[member])


cdef class SuspendableScope(DisposeScope):
    """Scope of a generator, which is current only while the generator runs, not while its consumer runs."""

    # The generator's current scope at the last yield; None if that was this scope or the consumer's.
    cdef MemberList innermost

    def suspend(self, item):
        """Leave the generator: move `item` to the consumer's scope, and make that scope current."""
        cdef MemberList _before = self.innermost  # see `outer_of`
        cdef MemberList outer = outer_of(self)
        cdef MemberList scope = current_scope()
        self.innermost = None if scope is self or scope is outer else scope
        while scope is not None and scope is not outer:
            scope.move((item,), outer, False, False)
            scope = outer_of(scope)
        make_current(outer)

    def resume(self):
        """Enter the generator again. The consumer may be in another scope, task or thread now."""
        cdef MemberList _before = self.outer  # see `outer_of`
        self.outer = current_scope()
        make_current(self if self.innermost is None else self.innermost)

    def __exit__(self, kind, error, traceback):
        try:
            DisposeScope.__exit__(self, kind, error, traceback)
        finally:
            # Restore the consumer's scope even if the generator left scopes open: the garbage collector may
            # close the generator at any ``yield``.
            make_current(outer_of(self))
