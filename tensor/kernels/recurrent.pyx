"""Recurrent layers of plain arrays, and their gradients: one product for all inputs, then step by step.

A step is one product with the state, and one pass over the gates (`recurrent.cpp`). Sequences may have
different lengths: ``sizes`` has the number of sequences at each step, which never increases, and elements are
ordered by steps, ``(sum of sizes, features)``. Arrays have one dtype, float32 or float64, and are
C-contiguous. Call the functions inside a kernel context.
"""

cimport numpy as cnp

from tensor.kernels.axes cimport Kernel, kind_of, new_array
from tensor.kernels.products cimport product
from tensor.kernels.simd cimport simd_level
from tensor.kernels.threads cimport parallel_for

import numpy as np

cnp.import_array()

cdef extern from "tensor/kernels/recurrent.h" namespace "disposescope::kernels" nogil:
    cdef struct RecurrentWork:
        Py_ssize_t hidden
        Py_ssize_t from_previous
        const void* previous
        const void* initial
        void* gates
        const void* recurrent
        const void* bias
        void* cell
        void* out
        const void* gradient
        Py_ssize_t gradient_stride
        const void* carried
        Py_ssize_t carried_stride
        void* state_gradient
        void* gates_gradient
        void* recurrent_gradient
    cdef struct Recurrent:
        Kernel forward[4][2]
        Kernel backward[4][2]
    const Recurrent* recurrent_kernels_of(int level)

cdef const Recurrent* _kernels = recurrent_kernels_of(simd_level)

cdef enum:
    RNN_TANH
    RNN_RELU
    LSTM
    GRU

cdef dict _CELLS = {"tanh": RNN_TANH, "relu": RNN_RELU, "lstm": LSTM, "gru": GRU}
cdef Py_ssize_t[4] _BLOCKS = [1, 1, 4, 3]

# The number of state values in one task of a thread, which takes about 10 us.
cdef Py_ssize_t _VALUES_PER_TASK = 1 << 12


cdef int _run(Kernel kernel, RecurrentWork* work, Py_ssize_t rows) except -1:
    cdef Py_ssize_t grain = max(_VALUES_PER_TASK // max(work.hidden, 1), 1)
    if rows <= grain:
        kernel(work, 0, rows)
        return 0
    with nogil:  # the caller keeps the arrays alive
        parallel_for(rows, grain, kernel, work)
    return 0


cdef inline void* _data(cnp.ndarray a) noexcept:
    return NULL if a is None else cnp.PyArray_DATA(a)


cdef inline cnp.ndarray _transposed(cnp.ndarray a):
    return cnp.PyArray_SwapAxes(a, 0, 1)


cdef inline void* _row(cnp.ndarray a, Py_ssize_t row) noexcept:
    return <char*>cnp.PyArray_DATA(a) + row * cnp.PyArray_STRIDE(a, 0)


cdef cnp.ndarray _matrix(Py_ssize_t rows, Py_ssize_t columns, cnp.ndarray like):
    cdef cnp.npy_intp[2] shape = [rows, columns]
    return new_array(2, shape, cnp.PyArray_TYPE(like))


cdef cnp.ndarray _zeros(Py_ssize_t rows, Py_ssize_t columns, cnp.ndarray like):
    return np.zeros((rows, columns), like.dtype)


cdef cnp.ndarray _all_biases(int cell, Py_ssize_t hidden, cnp.ndarray like, b_ih, b_hh):
    """Return one row with the sum of the biases of input and state; see `RecurrentWork.bias`."""
    cdef Py_ssize_t blocks = _BLOCKS[cell]
    row = np.zeros((4 if cell == GRU else blocks) * hidden, like.dtype)
    if b_ih is not None:
        row[:blocks * hidden] = b_ih
    if b_hh is not None and cell == GRU:
        row[:2 * hidden] += b_hh[:2 * hidden]
        row[3 * hidden:] = b_hh[2 * hidden:]
    elif b_hh is not None:
        row += b_hh
    return row


cdef tuple _starts(tuple sizes, Py_ssize_t elements):
    """Return the index of the first element of each step. Raise a ValueError if `sizes` do not match.

    They may come from a tensor that has changed since it was checked.
    """
    cdef list starts = []
    cdef Py_ssize_t start = 0
    most = sizes[0]
    for size in sizes:
        if not 0 <= size <= most or size > elements - start:
            break
        starts.append(start)
        start += <Py_ssize_t>size
        most = size
    if len(starts) < len(sizes) or start < elements:
        raise ValueError(
            f"recurrent layer: batch_sizes must not increase, and must sum to {elements}, the number of "
            "elements of all sequences: the tensor batch_sizes of the packed sequence was changed"
        )
    return tuple(starts)


cdef int _check_shapes(
    Py_ssize_t blocks, Py_ssize_t count, cnp.ndarray x, h0, c0, w_ih, cnp.ndarray w_hh, w_hr, b_ih, b_hh
) except -1:
    """Raise a ValueError unless all shapes match `w_hh`: users can assign weights of any shape to a layer."""
    shape = (<object>w_hh).shape
    if len(shape) != 2 or shape[0] % blocks or (w_hr is None and shape[1] * blocks != shape[0]):
        raise ValueError(
            "recurrent layer: weight_hh must have shape "
            f"({'' if blocks == 1 else f'{blocks} * '}hidden_size, "
            f"{'hidden_size' if w_hr is None else 'proj_size'}), not {shape}"
        )
    rows, width, hidden = shape[0], shape[1], shape[0] // blocks
    for name, a, expected in (
        ("weight_ih", w_ih, (rows, cnp.PyArray_DIM(x, 1))),
        ("weight_hr", w_hr, (width, hidden)), ("bias_ih", b_ih, (rows,)), ("bias_hh", b_hh, (rows,)),
        ("h0", h0, (count, width)), ("c0", c0, (count, hidden)),
    ):
        if a is not None and a.shape != expected:
            raise ValueError(
                f"recurrent layer: with weight_hh of shape {shape}, {name} must have shape {expected}, not "
                f"{a.shape}"
            )
    return 0


cdef inline Py_ssize_t _continuing(sizes, Py_ssize_t t, Py_ssize_t before) except -1:
    """Return how many sequences of step `t` are also in step `before`, which may not exist."""
    return 0 if before < 0 or before >= len(sizes) else min(<Py_ssize_t>sizes[t], <Py_ssize_t>sizes[before])


cdef cnp.ndarray _state_before(
    cnp.ndarray out, cnp.ndarray initial, Py_ssize_t start, Py_ssize_t continuing, Py_ssize_t size,
    cnp.ndarray space,
):
    """Return the state before a step: rows of `out` from `start` on, and initial states of new sequences."""
    if continuing == size:
        return out[start:start + size]
    if continuing == 0:
        return initial[:size]
    space[:continuing] = out[start:start + continuing]
    space[continuing:size] = initial[continuing:size]
    return space[:size]


def recurrent_forward(
    cell, sizes, bint is_reversed, cnp.ndarray x not None, cnp.ndarray h0, cnp.ndarray c0,
    cnp.ndarray w_ih not None, cnp.ndarray w_hh not None, cnp.ndarray w_hr, b_ih, b_hh,
):
    """Return the output of all steps, the last states, the last cell states or None, and data for backward.

    Initial states may be None, for zeros. `w_hr` projects the state of an LSTM.
    """
    cdef RecurrentWork work
    cdef int code = _CELLS[cell]
    cdef Py_ssize_t steps = len(sizes), count = sizes[0], blocks = _BLOCKS[code]
    cdef Py_ssize_t hidden = cnp.PyArray_DIM(w_hh, 0) // blocks, width = cnp.PyArray_DIM(w_hh, 1)
    cdef Py_ssize_t step, t, before, size, start, continuing, rows = cnp.PyArray_DIM(x, 0)
    cdef tuple starts = _starts(sizes, rows)
    _check_shapes(blocks, count, x, h0, c0, w_ih, w_hh, w_hr, b_ih, b_hh)
    cdef cnp.ndarray gates = product(x, _transposed(w_ih))
    cdef cnp.ndarray by_state = _transposed(w_hh)
    cdef cnp.ndarray by_output = None if w_hr is None else _transposed(w_hr)
    cdef cnp.ndarray bias = _all_biases(code, hidden, x, b_ih, b_hh)
    cdef cnp.ndarray recurrent = _matrix(count, blocks * hidden, x), space = _matrix(count, width, x)
    cdef cnp.ndarray cells = None, states, out, last, last_cells = None, initial, state
    cdef Kernel kernel = _kernels.forward[code][kind_of(x)]
    if h0 is None:
        h0 = _zeros(count, width, x)
    if code == LSTM and c0 is None:
        c0 = _zeros(count, hidden, x)
    initial = c0 if code == LSTM else h0
    if code == LSTM or code == GRU:
        cells = _matrix(rows, hidden, x)
        states = _matrix(rows, hidden, x)
    else:
        states = gates
    out = states if w_hr is None else _matrix(rows, width, x)
    # The array with the states that the gates use: for an LSTM, `cells`.
    cdef cnp.ndarray previous_states = cells if code == LSTM else out
    work.hidden = hidden
    work.initial = _data(initial)
    work.recurrent = _data(recurrent)
    work.bias = _data(bias)
    for step in range(steps):
        t = steps - 1 - step if is_reversed else step
        before = t + 1 if is_reversed else t - 1
        size, start = sizes[t], starts[t]
        continuing = _continuing(sizes, t, before)
        state = _state_before(out, h0, starts[before] if continuing else 0, continuing, size, space)
        product(state, by_state, recurrent[:size])
        work.from_previous = continuing
        work.previous = _row(previous_states, starts[before]) if continuing else NULL
        work.gates = _row(gates, start)
        work.cell = NULL if cells is None else _row(cells, start)
        work.out = _row(states, start)
        _run(kernel, &work, size)
        if w_hr is not None:
            product(states[start:start + size], by_output, out[start:start + size])
    last = _last_of(out, sizes, starts, is_reversed)
    if code == LSTM:
        last_cells = _last_of(cells, sizes, starts, is_reversed)
    if states is gates:
        return out, last, None, (None, None, None)
    return out, last, last_cells, (gates, cells, None if w_hr is None else states)


cdef cnp.ndarray _last_of(cnp.ndarray values, sizes, tuple starts, bint is_reversed):
    """Return a new array with the last values of each sequence."""
    cdef Py_ssize_t t, size, longer = 0
    cdef cnp.ndarray last = _matrix(sizes[0], cnp.PyArray_DIM(values, 1), values)
    if is_reversed:
        last[...] = values[:sizes[0]]
        return last
    for t in range(len(sizes) - 1, -1, -1):
        size = sizes[t]
        if size > longer:
            last[longer:size] = values[<Py_ssize_t>starts[t] + longer:<Py_ssize_t>starts[t] + size]
            longer = size
    return last


def recurrent_backward(
    cell, sizes, bint is_reversed, wanted, cnp.ndarray x not None, cnp.ndarray h0, cnp.ndarray c0,
    cnp.ndarray w_ih not None, cnp.ndarray w_hh not None, cnp.ndarray w_hr, cnp.ndarray out not None, kept,
    cnp.ndarray d_out, cnp.ndarray d_h, cnp.ndarray d_c,
):
    """Return the gradients for x, h0, c0, w_ih, w_hh, w_hr, b_ih and b_hh; None for those not `wanted`.

    `out` and `kept` are from the forward pass. The gradients of its results may be None, for zeros.
    """
    cdef RecurrentWork work
    cdef int code = _CELLS[cell]
    cdef Py_ssize_t steps = len(sizes), count = sizes[0], blocks = _BLOCKS[code]
    cdef Py_ssize_t hidden = cnp.PyArray_DIM(w_hh, 0) // blocks, width = cnp.PyArray_DIM(w_hh, 1)
    cdef Py_ssize_t step, t, before, size, start, continuing, rows = cnp.PyArray_DIM(x, 0)
    cdef tuple starts = _starts(sizes, rows)
    cdef cnp.ndarray gates = kept[0], cells = kept[1], states = kept[2]
    cdef cnp.ndarray nothing = np.zeros(max(hidden, width), x.dtype), initial
    cdef cnp.ndarray carried, past = None, d_gates, d_recurrent, projected = None, d_states = None, d
    cdef cnp.ndarray previous_states = cells if code == LSTM else out
    cdef Kernel kernel = _kernels.backward[code][kind_of(x)]
    wants_x, wants_h0, wants_c0, wants_w_ih, wants_w_hh, wants_w_hr, wants_b_ih, wants_b_hh = wanted
    if gates is None:
        gates = out
    if code == LSTM:
        initial = _zeros(count, hidden, x) if c0 is None else c0
        past = _zeros(count, hidden, x) if d_c is None else d_c.copy()
        carried = _zeros(count, width, x) if d_h is None else d_h.copy()
    elif code == GRU:
        initial = _zeros(count, hidden, x) if h0 is None else h0
        past = _zeros(count, hidden, x) if d_h is None else d_h.copy()
        carried = _zeros(count, width, x)
    else:
        initial = None
        carried = _zeros(count, width, x) if d_h is None else d_h.copy()
    d_gates = _matrix(rows, blocks * hidden, x)
    d_recurrent = _matrix(rows, blocks * hidden, x) if code == GRU else d_gates
    if w_hr is not None:
        projected = _matrix(rows, width, x)
        d_states = _matrix(count, hidden, x)
    work.hidden = hidden
    work.initial = _data(initial)
    work.state_gradient = _data(past)
    work.gradient = _data(nothing)
    work.gradient_stride = 0
    work.carried = _data(carried)
    work.carried_stride = width
    if w_hr is not None:
        work.gradient = _data(d_states)
        work.gradient_stride = hidden
        work.carried = _data(nothing)
        work.carried_stride = 0
    elif d_out is not None:
        work.gradient_stride = width
    for step in range(steps):
        t = step if is_reversed else steps - 1 - step
        before = t + 1 if is_reversed else t - 1
        size, start = sizes[t], starts[t]
        continuing = _continuing(sizes, t, before)
        if w_hr is not None:
            d = projected[start:start + size]
            if d_out is None:
                d[...] = carried[:size]
            else:
                np.add(d_out[start:start + size], carried[:size], d)
            product(d, w_hr, d_states[:size])
        elif d_out is not None:
            work.gradient = _row(d_out, start)
        work.from_previous = continuing
        work.previous = _row(previous_states, starts[before]) if continuing else NULL
        work.gates = _row(gates, start)
        work.cell = NULL if cells is None else _row(cells, start)
        work.gates_gradient = _row(d_gates, start)
        work.recurrent_gradient = _row(d_recurrent, start)
        _run(kernel, &work, size)
        if continuing or wants_h0:
            product(d_recurrent[start:start + size], w_hh, carried[:size])
    d_w_hr = product(_transposed(projected), states) if wants_w_hr else None
    projected = None
    d_w_hh = _by_state(d_recurrent, sizes, starts, is_reversed, out, h0, width) if wants_w_hh else None
    d_b_hh = d_recurrent.sum(0) if wants_b_hh else None
    d_recurrent = None
    d_w_ih = product(_transposed(d_gates), x) if wants_w_ih else None
    d_b_ih = None
    if wants_b_ih:
        d_b_ih = d_b_hh.copy() if wants_b_hh and code != GRU else d_gates.sum(0)
    d_x = product(d_gates, w_ih) if wants_x else None
    if wants_h0 and code == GRU:
        carried += past
    d_h0 = carried if wants_h0 else None
    d_c0 = past if wants_c0 and code == LSTM else None
    return d_x, d_h0, d_c0, d_w_ih, d_w_hh, d_w_hr, d_b_ih, d_b_hh


cdef object _by_state(
    cnp.ndarray d, sizes, tuple starts, bint is_reversed, cnp.ndarray out, cnp.ndarray h0, Py_ssize_t width
):
    """Return the gradient of the weight that multiplies states; `d` is the gradient of the products."""
    cdef Py_ssize_t steps = len(sizes), count = sizes[0], t, before, size, start, continuing
    cdef cnp.ndarray states, by
    if steps > 1 and sizes[steps - 1] == count:  # equal lengths: no copy of the states
        if is_reversed:
            by = product(_transposed(d[:-count]), out[count:])
        else:
            by = product(_transposed(d[count:]), out[:-count])
        if h0 is not None:
            by += product(_transposed(d[-count:] if is_reversed else d[:count]), h0)
        return by
    if h0 is None:
        h0 = _zeros(count, width, d)
    states = _matrix(cnp.PyArray_DIM(d, 0), width, d)
    for t in range(steps):
        before = t + 1 if is_reversed else t - 1
        size, start = sizes[t], starts[t]
        continuing = _continuing(sizes, t, before)
        if continuing:
            states[start:start + continuing] = out[starts[before]:<Py_ssize_t>starts[before] + continuing]
        states[start + continuing:start + size] = h0[continuing:size]
    return product(_transposed(d), states)
