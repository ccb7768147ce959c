"""The core of a tensor: its storage reference, the creation of tensors, and moves of their memory."""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject

from scopes.core.disposable cimport hand_over_place, register_new, register_unowned
from tensor.core cimport storage
from tensor.core.inline_values cimport take_values
from tensor.core.storage cimport (
    StorageReference,
    array_of,
    described_kind,
    is_small_view,
    take_snapshot_to_write,
    is_empty,
    join_ring,
    attach_buffer,
    move_storage,
)
from tensor.memory.buffer cimport Buffer, Share, array_at, new_buffer, new_external, root_of
from tensor.memory.buffer cimport copy as copy_array

from scopes.lowlevel import ending_by, note_created, note_ended, record_of
from tensor._errors import TensorDisposedError

cnp.import_array()

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject* kind, object arguments, PyObject* names)

cdef str _MOVED = "its handle was moved by move_handle()"
# The class of the tensors that ops create.
cdef PyObject* tensor_type = NULL
cdef long _last_group = 0


cdef class TensorCore(StorageReference):
    """The base of `Tensor`, which adds the operations."""

    def __init__(self, *arguments, **options):
        # Tensors are complete, and registered, after __new__.
        pass

    def __enter__(self):
        self._raise_if_disposed()
        return self

    def __exit__(self, *error):
        self.dispose()

    def move_handle(self) -> Handle:
        """Return the tensor's reference to its memory as a `Handle`, and leave the tensor empty.

        The gradient and the history move too. A backward pass accumulates the gradient in the handle, and
        calls no post-accumulate hook, because a hook takes a tensor. No counter changes. The emptied tensor
        keeps its place in its scope until another one replaces it (``DisposeScope.replace_with``).

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,))
        >>> y = tensor.Tensor.from_handle(x.move_handle())
        >>> x.is_invalid, y.tolist()
        (True, [1.0, 1.0])
        """
        cdef Handle handle = Handle.__new__(Handle)
        if is_empty(self):
            self._raise_disposed()
        move_storage(self, handle, _MOVED)
        note_ended(self, _MOVED)
        return handle

    @classmethod
    def from_handle(cls, Handle handle not None):
        """Return a tensor with the memory of `handle`, and leave `handle` empty. No scope owns the tensor.

        No counter changes: the new tensor replaces the one that the handle came from.

        Examples
        --------
        >>> import tensor
        >>> tensor.Tensor.from_handle(tensor.ones((1,)).move_handle()).item()
        1.0
        """
        cdef TensorCore x = TensorCore.__new__(cls)
        move_storage(handle, x, "a tensor took it")
        note_created(x, None)
        return x

    def _replace(self, StorageReference giver not None, str ending) -> None:
        """Take over the memory of `giver` and its place in its scope. Errors about `giver` give `ending`."""
        move_storage(giver, self, ending)
        hand_over_place(giver, self)

    def _raise_if_not_donatable(self) -> None:
        """Raise an error if this tensor is empty, or is a parameter, which belongs to its module."""
        if is_empty(self):
            self._raise_disposed()
        if type_of(self) != tensor_type:
            raise TypeError(
                f"can't donate a {type(self).__name__}, because it belongs to its module: pass its values as "
                "a plain tensor (x.detach().clone()), or write to it in place under no_grad()"
            )

    def _transferred(self, str ending not None) -> TensorCore:
        """Move everything, including the place in the scope, to a new tensor. `ending` is for later errors.

        If views, aliases or exported arrays share the memory, return a clone, so that writes to the clone do
        not change them.
        """
        cdef TensorCore taker
        self._raise_if_not_donatable()
        if self.next_in_storage != NULL or _is_seen_outside(self):
            taker = self.clone()
            self.ending = ending
            self.dispose()
            return taker
        taker = new_tensor()
        move_storage(self, taker, ending)
        hand_over_place(self, taker)
        return taker

    def _set_memory(self, cnp.ndarray array not None) -> None:
        """Replace the memory with that of the new `array`, and drop the history."""
        cdef Buffer buffer = new_buffer(array)
        if is_empty(self):  # creating the buffer may have run the garbage collector
            self._raise_disposed()
        self.release_memory()
        self._is_view = False
        attach_buffer(self, array, buffer)
        self.forget_history()

    @property
    def _is_small_view(self):
        """Whether this covers less than half of its memory, so that its copies copy at once."""
        return is_small_view(self)

    def _leave_larger_memory(self) -> None:
        """If this covers less than half of its memory, copy its values to memory of their own."""
        cdef Buffer buffer
        cdef cnp.ndarray array
        if is_small_view(self):
            array = copy_array(array_of(self))
            buffer = new_buffer(array)
            if is_empty(self):  # creating the buffer may have run the garbage collector
                self._raise_disposed()
            self.release_memory()
            attach_buffer(self, array, buffer)

    def _set_layout_of(self, TensorCore y not None) -> None:
        """Take the shape, strides and history of `y`, a view of this tensor. Copy no element."""
        cdef cnp.ndarray array = array_of(y)
        if is_empty(self):
            self._raise_disposed()
        if array is None or self.buffer == NULL or self.buffer != y.buffer:
            raise ValueError("a tensor can only take the shape of a view of its own memory")
        self.stored = array
        self._node = y._node

    def _share_values_of(self, TensorCore giver not None) -> None:
        """Share the values of `giver` until the first write, which copies them. Drop the history."""
        cdef Share share = take_snapshot_to_write(giver)
        if is_empty(self):
            self._raise_disposed()
        self.release_memory()
        self._is_view = False
        attach_buffer(self, share.array, share.buffer)
        self.forget_history()

    def _raise_if_disposed(self) -> None:
        if is_empty(self):
            self._raise_disposed()

    def _raise_disposed(self):
        scope = self._ended_scope
        if self.ending is not None:
            why = self.ending
            if "donated" in why:
                cure = "Use the result instead, or donate a copy: x.clone()"
            else:
                cure = "Use the object that took the handle, or pass x.clone() to it"
        elif scope is not None:
            why = ending_by(scope)
            cure = (
                "Move it out before the scope ends: scope.move_to_outer(x) or scope.detach(x), where x may "
                "also be an object that holds it (a list, a module, an estimator). Or return it from a "
                "function decorated with @disposing"
            )
        else:
            why = "it was disposed by dispose()"
            cure = "Dispose it after its last use, or keep x.clone() or x.alias()"
        record = record_of(self)
        where = "" if record is None else f". It was created by {record.site}"
        if record is not None and record.ended_at is not None:
            where += f", and ended by {record.ended_at}"
        raise TensorDisposedError(f"this {described_kind(self)} is empty: {why}{where}. {cure}")


cdef class Handle(StorageReference):
    """A reference to a tensor's storage, to move it to another tensor. If freed unused, it frees the memory.

    Examples
    --------
    >>> import tensor
    >>> handle = tensor.ones((2,)).move_handle()
    >>> handle.is_invalid
    False
    >>> handle.dispose()
    >>> handle.is_invalid
    True
    """

    def __init__(self):
        raise TypeError("a Handle has no constructor: write x.move_handle()")

    def _raise_if_disposed(self) -> None:
        if is_empty(self):
            self._raise_disposed()

    def _raise_disposed(self):
        raise TensorDisposedError(
            "this handle is empty: it was disposed, or a tensor took it before. Take a handle once, with "
            "x.move_handle()"
        )


cdef bint _is_seen_outside(StorageReference x) noexcept:
    """Return whether exported arrays, or the owner of borrowed memory, share the memory."""
    return x.buffer != NULL and ((<Buffer>x.buffer).exports > 0 or (<Buffer>x.buffer).is_borrowed)


# --- New tensors --------------------------------------------------------------------------------------------


def use_tensor_type(kind: type) -> None:
    """Set the class of the tensors that ops create."""
    global tensor_type
    Py_INCREF(kind)  # never freed
    tensor_type = <PyObject*>kind


cdef TensorCore new_tensor():
    storage.tensors_made += 1
    # Bypass Tensor.__new__, which raises an error with advice for users.
    return <TensorCore>(<PyTypeObject*>TensorCore).tp_new(<PyTypeObject*>tensor_type, (), NULL)


cpdef TensorCore wrap(cnp.ndarray array):
    """Return a tensor over the new `array`, counted and registered with the current scope.

    A small tensor copies the values and drops the array, so no other code may use the array.
    """
    cdef TensorCore x = new_tensor()
    if not take_values(&x.inlined, array):
        attach_buffer(x, array, new_buffer(array))
    register_new(x)
    return x


cpdef TensorCore wrap_unowned(cnp.ndarray array):
    """Return a tensor over the new `array`, owned by no scope: for gradients and the state of optimizers."""
    cdef Buffer buffer = new_buffer(array)
    cdef TensorCore x = new_tensor()
    attach_buffer(x, array, buffer)
    register_unowned(x)
    return x


cpdef TensorCore wrap_share(Share share):
    """Return a new tensor with the values of `share`."""
    cdef TensorCore x = new_tensor()
    attach_buffer(x, share.array, share.buffer)
    register_new(x)
    return x


cpdef TensorCore wrap_share_unowned(Share share):
    """Return a new tensor with the values of `share`, owned by no scope."""
    cdef TensorCore x = new_tensor()
    attach_buffer(x, share.array, share.buffer)
    register_unowned(x)
    return x


def wrap_borrowed(cnp.ndarray array not None) -> TensorCore:
    """Return a tensor over the external memory of `array`. Writes change that memory; clones copy at once.

    The base of the root array of `array` is an `External`.
    """
    return _wrap_external(array, True)


def wrap_mapped(cnp.ndarray array not None) -> TensorCore:
    """Return a tensor over the read-only external memory of `array`, which must not change.

    Clones share the memory, and the first write copies it.
    """
    return _wrap_external(array, False)


cdef TensorCore _wrap_external(cnp.ndarray array, bint is_borrowed):
    cdef Buffer buffer = new_external(array, is_borrowed)
    cdef TensorCore x = new_tensor()
    attach_buffer(x, array, buffer)
    register_new(x)
    return x


def wrap_snapshot(TensorCore x not None) -> TensorCore:
    """Return a new tensor with the values of `x`, without history. The first write to either copies them."""
    return wrap_share(take_snapshot_to_write(x))


def wrap_snapshot_unowned(TensorCore x not None) -> TensorCore:
    """Return a new tensor with the values of `x`, without history, owned by no scope."""
    return wrap_share_unowned(take_snapshot_to_write(x))


cpdef TensorCore view_of(TensorCore x, cnp.ndarray array, cnp.ndarray out):
    """Return a tensor over `out`, which NumPy computed from `array`, the array of `x`: a view or a copy."""
    cdef TensorCore y = new_tensor()
    cdef cnp.ndarray now
    cdef Buffer buffer
    while x.stored is not array:
        now = array_of(x)
        if now is None:
            x._raise_disposed()
        if now is array:
            continue  # the values were in a file, and `x` has its array back
        # A write on another thread moved `x` to new memory in the meantime.
        out = _found_again(now, array, out)
        array = now
    if array is None:
        x._raise_disposed()
    buffer = <Buffer>x.buffer
    if not buffer.contains(out):
        return wrap(out)
    Py_INCREF(buffer)
    y.buffer = x.buffer
    y.stored = out
    y.history_group = x.history_group
    y._is_view = True
    join_ring(y, x)
    register_new(y)
    return y


cdef cnp.ndarray _found_again(cnp.ndarray array, cnp.ndarray before, cnp.ndarray out):
    """Return the view of `array` that matches `out`, a view of `before`, which a write copied to `array`."""
    cdef cnp.ndarray root = root_of(array)
    cdef Py_ssize_t offset
    if root_of(out) is not root_of(before):
        return out  # NumPy made a copy
    if (<object>array).strides != (<object>before).strides:
        return copy_array(out)  # the move removed gaps between elements, so `out` has no counterpart
    offset = <char*>cnp.PyArray_DATA(out) - <char*>cnp.PyArray_DATA(before)
    return array_at(root, <char*>cnp.PyArray_DATA(array) - <char*>cnp.PyArray_DATA(root) + offset, out)


def detached(TensorCore x not None) -> TensorCore:
    """Return a new leaf on the storage of `x`, with its own history."""
    global _last_group
    cdef cnp.ndarray array = array_of(x)
    cdef TensorCore y = view_of(x, array, array)
    _last_group += 1
    y.history_group = _last_group
    y._is_view = False
    return y


# --- Donation -----------------------------------------------------------------------------------------------


def donate(TensorCore x not None) -> TensorCore:
    """Move `x` and its place in its scope to a new tensor whose memory the next op may write over."""
    cdef TensorCore donated
    if is_empty(x):
        x._raise_disposed()
    donated = new_tensor()
    move_storage(x, donated, "its memory was donated by donate()")
    donated.is_donated = True
    hand_over_place(x, donated)
    return donated
