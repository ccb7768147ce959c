"""Optimizer steps: one call updates many parameters, each in one pass over its memory."""

cimport cython
cimport numpy as cnp
from cpython.dict cimport PyDict_Check
from cpython.object cimport PyObject
from libcpp.vector cimport vector

from tensor.core.tensor cimport TensorCore, array_of, begin_write, end_write, is_empty
from tensor.kernels.running cimport enter, leave, parallel_for, simd_level
from tensor.memory.buffer cimport Buffer

from tensor.core.tensor import exchange_filed_values

cnp.import_array()

cdef extern from "tensor/kernels/updates.h" namespace "disposescope::kernels" nogil:
    enum:
        most_state
        most_numbers
    struct UpdateRow:
        void* parameter
        const void* gradient
        void** state
        Py_ssize_t start
    struct UpdateRows:
        const UpdateRow* rows
        Py_ssize_t count
        int state_count
        double* numbers
    ctypedef void (*Update)(void* rows, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    struct Updates:
        Update sgd_single, sgd_double
        Update adam_single, adam_double
        Update rmsprop_single, rmsprop_double
    const Updates* updates_kernels_of(int level)

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL

cdef const Updates* _kernels = updates_kernels_of(simd_level)

# The number of elements that a thread processes at a time: 5 to 15 us. For fewer, keep the GIL.
cdef Py_ssize_t _AT_ONCE = 1 << 14


@cython.final
cdef class _Batch:
    """Parameters of one dtype and one number of steps, so that the same numbers update them."""

    cdef int number
    cdef Py_ssize_t steps
    cdef object next_steps
    cdef tuple numbers
    # Rows of `width` items: a parameter, its gradient, and the tensors of its state. After `begin`, `arrays`
    # and `buffers` have the array and the buffer of each.
    cdef list tensors
    cdef list arrays
    cdef list buffers
    cdef Py_ssize_t width
    # The dicts in which to store the number of steps, and the key of that number.
    cdef list counted
    cdef str counter
    # The rows for the compiled loop, which `arrays` keeps alive. Rows for the plain formula have other
    # layouts or dtypes, or memory that other tensors share.
    cdef vector[UpdateRow] rows
    cdef list plain

    def __cinit__(self):
        self.tensors = []
        self.arrays = []
        self.buffers = []
        self.counted = []
        self.plain = []

    cdef int begin(self) except -1:
        """Begin all writes, and copy memory that clones share."""
        cdef Py_ssize_t i, count = len(self.tensors)
        cdef TensorCore x
        self.arrays = [None] * count
        self.buffers = [None] * count
        for i in range(count):
            x = <TensorCore>self.tensors[i]
            # Read the array now: another thread may dispose this tensor while others are prepared.
            if i % self.width == 1:  # a gradient, which is only read
                if array_of(x) is None:
                    x._raise_disposed()
                self.buffers[i] = <Buffer>x.buffer
            else:
                self.buffers[i] = begin_write(x)
            self.arrays[i] = x.stored
        return 0

    cdef void end(self) noexcept:
        """End the writes that were begun."""
        cdef Py_ssize_t i
        for i in range(len(self.buffers)):
            if i % self.width != 1 and self.buffers[i] is not None:
                end_write(<Buffer>self.buffers[i])

    cdef int arrange(self, bint has_loop) except -1:
        """Divide the rows into those for the compiled loop, and others."""
        cdef Py_ssize_t i, j, size, total = 0
        cdef UpdateRow row
        cdef cnp.ndarray p
        for i in range(0, len(self.tensors), self.width):
            p = <cnp.ndarray>self.arrays[i]
            size = cnp.PyArray_SIZE(p) * (2 if cnp.PyArray_ISCOMPLEX(p) else 1)
            if size == 0:
                continue
            if not has_loop or not self._is_looped(i):
                self.plain.append(self.arrays[i:i + self.width])
                continue
            row.parameter = cnp.PyArray_DATA(p)
            row.gradient = cnp.PyArray_DATA(<cnp.ndarray>self.arrays[i + 1])
            for j in range(2, self.width):
                row.state[j - 2] = cnp.PyArray_DATA(<cnp.ndarray>self.arrays[i + j])
            row.start = total
            total += size
            self.rows.push_back(row)
        if total > 0:  # the last row marks the end
            row.start = total
            self.rows.push_back(row)
        return 0

    cdef bint _is_looped(self, Py_ssize_t i) noexcept:
        """Return whether the compiled loop supports the row of the parameter at `i`."""
        cdef cnp.ndarray p = <cnp.ndarray>self.arrays[i]
        cdef cnp.ndarray array
        cdef TensorCore x
        cdef Buffer buffer
        cdef Py_ssize_t j
        cdef bint is_c = True, is_f = True
        if self.number != cnp.NPY_FLOAT and self.number != cnp.NPY_DOUBLE:
            if self.number != cnp.NPY_CFLOAT and self.number != cnp.NPY_CDOUBLE:
                return False
        for j in range(i, i + self.width):
            x = <TensorCore>self.tensors[j]
            array = <cnp.ndarray>self.arrays[j]
            buffer = <Buffer>self.buffers[j]
            # Other code, such as another row of this step, may use the memory.
            if x.next_in_storage != NULL or buffer.is_borrowed or buffer.writers != (0 if j == i + 1 else 1):
                return False
            if x.buffer != <PyObject*>buffer:
                return False  # the gradient has moved to a file since `begin`
            if cnp.PyArray_TYPE(array) != self.number or not cnp.PyArray_SAMESHAPE(array, p):
                return False
            if not cnp.PyArray_ISBEHAVED_RO(array):
                return False
            is_c = is_c and cnp.PyArray_IS_C_CONTIGUOUS(array)
            is_f = is_f and cnp.PyArray_IS_F_CONTIGUOUS(array)
        return is_c or is_f

    cdef int run(self, Update single, Update double) except -1:
        """Update the rows of the compiled loop."""
        cdef UpdateRows all
        cdef Update update = double
        cdef Py_ssize_t i, total
        if self.rows.empty():
            return 0
        if self.number == cnp.NPY_FLOAT or self.number == cnp.NPY_CFLOAT:
            update = single
        all.rows = self.rows.data()
        all.count = <Py_ssize_t>self.rows.size() - 1
        all.state_count = <int>self.width - 2
        for i in range(most_numbers):
            all.numbers[i] = <double>self.numbers[i] if i < len(self.numbers) else 0
        total = self.rows.back().start
        if total <= _AT_ONCE:
            update(&all, 0, total)
            return 0
        with nogil:  # `arrays` keeps the memory alive, and no other tensor shares it during the write
            parallel_for(total, _AT_ONCE, update, &all)
        return 0


cdef class Step:
    """One step of an optimizer: ``gather`` the parameters of each group, then ``run``.

    Operations that may fail run first, for all parameters. Only the plain formula, which handles float16,
    memory with gaps, and shared memory, can fail or be interrupted after ``run`` begins to write.

    Parameters
    ----------
    rule
        ``"sgd"``, ``"adam"`` or ``"rmsprop"``. None uses the plain formula only.
    """

    cdef Update single
    cdef Update double
    cdef list batches
    # New state: the dict of states to add it to, the parameter, and the new dict.
    cdef list fresh
    # What `exchange` adds: new values of tensors in files, and new numbers of steps.
    cdef list exchanges
    cdef list counted

    def __init__(self, str rule):
        self.batches = []
        self.fresh = []
        self.exchanges = []
        self.counted = []
        if rule is None:
            self.single = self.double = NULL
        elif rule == "sgd":
            self.single, self.double = _kernels.sgd_single, _kernels.sgd_double
        elif rule == "adam":
            self.single, self.double = _kernels.adam_single, _kernels.adam_double
        elif rule == "rmsprop":
            self.single, self.double = _kernels.rmsprop_single, _kernels.rmsprop_double
        else:
            raise ValueError(f"there is no compiled rule {rule!r}")

    def gather(
        self, list params not None, states, tuple names not None, str counter, new_state, numbers
    ):
        """Add the parameters in `params` that have a gradient.

        Parameters
        ----------
        params
            Leaf tensors.
        states
            The optimizer's state: a dict for each parameter.
        names
            The tensors that each such dict must have. ``new_state(x, name)`` creates missing ones.
        counter
            The key of the number of steps in the dict, or None.
        numbers
            A function of the number of steps that returns the rule's numbers. Without `counter`, its argument
            is 0 if some of the state is new, else 1.
        """
        cdef TensorCore x, grad
        cdef cnp.ndarray array
        cdef _Batch batch = None
        cdef int number
        cdef Py_ssize_t steps
        found = {}
        if len(names) > most_state:
            raise ValueError(f"a rule supports at most {most_state} state tensors, not {len(names)}")
        for each in params:
            x = <TensorCore?>each
            if is_empty(x):
                x._raise_disposed()
            if x._node is None or x.gradient is None:
                continue
            grad = <TensorCore?>x.gradient
            if is_empty(grad) or grad.counters is None:
                continue
            row = [x, grad]
            state, made, steps = None, None, 1
            if names or counter is not None:
                state = _found_in(states, x)
            for name in names:
                held = None if state is None else _found_in(state, name)
                if held is None:
                    if made is None:
                        made = {}
                    held = made[name] = new_state(x, name)
                row.append(<TensorCore?>held)
            if counter is None:
                steps = 0 if made is not None else 1
            elif state is None:
                steps, made = 0, {} if made is None else made
            else:
                steps = int(state.setdefault(counter, 0))  # creates the key now, while an error is harmless
            array = array_of(x)
            number = -1 if array is None else cnp.PyArray_TYPE(array)
            if batch is None or batch.number != number or batch.steps != steps:
                key = number, steps
                batch = found.get(key)
                if batch is None:
                    batch = found[key] = _Batch()
                    batch.number = number
                    batch.steps = steps
                    batch.next_steps = steps + 1
                    batch.width = len(row)
                    batch.numbers = numbers(steps)
                    self.batches.append(batch)
            batch.tensors += row
            if made is not None:
                if counter is not None:
                    made[counter] = batch.next_steps
                self.fresh.append((states, x, made))
            elif counter is not None:
                batch.counted.append(state)
                batch.counter = counter

    def exchange(self, list exchanges not None, list fresh not None, list counted not None):
        """Add parameters whose new values are in a file already: ``run`` exchanges them.

        Parameters
        ----------
        exchanges
            As for ``exchange_filed_values``: a tensor, its values, and its new values.
        fresh
            New state: the dict of states, the parameter, and the new dict.
        counted
            A dict of state, the key of the number of steps, and the new number.
        """
        self.exchanges += exchanges
        self.fresh += fresh
        self.counted += counted

    def run(self, formula):
        """Update all gathered parameters.

        ``formula(numbers, arrays)`` updates a parameter that the compiled rule does not support. `arrays` has
        its values, its gradient and its state.
        """
        cdef _Batch batch
        try:
            for batch in self.batches:
                batch.begin()
            for batch in self.batches:
                batch.arrange(self.single != NULL)
            _enter(self.fresh)
            if self.exchanges and not exchange_filed_values(self.exchanges):
                _leave(self.fresh)
                raise RuntimeError(
                    "another thread has used parameters or state of this optimizer during its step. Nothing "
                    "has changed: repeat the step"
                )
            # From here on only a plain formula can fail.
            for state, key, steps in self.counted:
                state[key] = steps
            for batch in self.batches:
                for state in batch.counted:
                    state[batch.counter] = batch.next_steps
                batch.run(self.single, self.double)
            for batch in self.batches:
                if batch.plain:
                    _run_plainly(formula, batch)
        finally:
            for batch in self.batches:
                batch.end()


cdef inline object _found_in(object mapping, object key):
    """Return ``mapping.get(key)``. A defaultdict does not create its default."""
    cdef PyObject* found
    if not PyDict_Check(mapping):
        return mapping.get(key)
    found = PyDict_GetItemWithError(mapping, key)
    return None if found == NULL else <object>found


cdef int _enter(list fresh) except -1:
    """Add new state to the optimizer, all of it or none."""
    cdef Py_ssize_t done = 0
    try:
        for states, x, made in fresh:
            state = _found_in(states, x)
            if state is None:
                states[x] = made
            else:
                state.update(made)
            done += 1
    except BaseException:
        _leave(fresh[:done + 1])
        raise
    return 0


cdef int _leave(list fresh) except -1:
    """Remove new state from the optimizer."""
    for states, x, made in fresh:
        state = _found_in(states, x)
        if state is made:
            del states[x]
        elif state is not None:
            for name in made:
                state.pop(name, None)
    return 0


cdef int _run_plainly(object formula, _Batch batch) except -1:
    # Use a kernel context without the pool, so that no limit refuses temporary arrays.
    context = enter(False)
    try:
        for arrays in batch.plain:
            formula(batch.numbers, arrays)
    finally:
        leave(context, False)
    return 0
