"""Record ops: create their nodes."""

cimport numpy as cnp
from cpython.ref cimport Py_DECREF, PyObject

from scopes.core.disposable cimport register_new
from tensor.core.inline_values cimport InlineValues, count_inline, dtype_of, shape_of
from tensor.core.storage cimport StorageReference, attach_buffer, is_empty, share_of, take_snapshot
from tensor.core.tensor cimport TensorCore, is_tensor, new_tensor, wrap
from tensor.core.bfloat16 cimport is_inexact as _is_inexact
from tensor.memory.buffer cimport Buffer, Share, new_buffer, new_share
from tensor.memory.buffer cimport copy as copy_array
from tensor.tape.nodes cimport Node, Plan, Rule, ticks

from tensor.tape.growth import check_growth
from tensor.tape.modes import grad_enabled

cnp.import_array()

cdef extern from "Python.h":
    int PyContextVar_Get(object variable, PyObject* default, PyObject** value) except -1

cdef object _grad_enabled = grad_enabled


cdef object recorder():
    cdef PyObject* found = NULL
    PyContextVar_Get(_grad_enabled, NULL, &found)
    mode = <object>found
    Py_DECREF(mode)  # PyContextVar_Get returns a new reference
    return mode


cdef inline object _node_of(object x):
    return (<TensorCore>x)._node if is_tensor(x) else None


cdef int _save(object x, object array, list saved, list holds) except -1:
    """Append the value of the operand `x` to `saved`, and its share (or None) to `holds`."""
    cdef Share share
    if is_tensor(x):
        share = take_snapshot(<TensorCore>x)
    elif isinstance(array, cnp.ndarray):
        # Copy the user's array, because the user may write to it.
        share = share_of(copy_array(<cnp.ndarray>array))
    else:
        saved.append(array)
        holds.append(None)
        return 0
    saved.append(share.array)
    holds.append(share)
    return 0


cdef Node _new_node(
    Rule rule, Plan plan, tuple nexts, list saved, list holds, cnp.ndarray out, object mode
):
    cdef Node node = Node.__new__(Node)
    node.rule = rule
    node.plan = plan
    node.next = nexts
    if saved is not None:
        node.saved = tuple(saved)
        node.holds = tuple(holds)
    return _complete(node, out, mode)


cdef Node _complete(Node node, cnp.ndarray out, object mode):
    return _counted(node, (<object>out).shape, (<object>out).dtype, mode)


cdef Node _counted(Node node, object shape, object dtype, object mode):
    node.shape = shape
    node.dtype = dtype
    node.count_tuples()
    ticks.left -= 1
    if ticks.left < 0:
        check_growth(node)
    if mode is not True:
        mode.record(node)
    return node


def complete(Node node not None, cnp.ndarray out not None, mode) -> Node:
    """Set the output's shape and dtype of the new `node`, count it, and pass it to the recorder."""
    return _complete(node, out, mode)


cpdef Node record(Rule rule, object inputs, cnp.ndarray out, dict parameters):
    """Return the node of an op with `inputs` (tensors, arrays, numbers), or None if none is needed.

    The node takes over parameters that are arrays. If other code may write to a parameter, pass it as a
    tensor.
    """
    cdef list nodes, wanted, saved, holds
    cdef Plan plan
    cdef Py_ssize_t count
    cdef bint is_wanted = False
    mode = recorder()
    if not mode or not rule.is_differentiable or not _is_inexact(out):
        return None
    nodes, wanted = [], []
    # Loops, because in list comprehensions Cython 3.3 frees an item twice if memory is short.
    for x in inputs:
        node = _node_of(x)
        nodes.append(node)
        wanted.append(node is not None)
        is_wanted = is_wanted or node is not None
    if not is_wanted:
        return None
    count = len(nodes)
    plan = rule.plan(tuple(wanted))
    if not plan.saves:
        return _new_node(rule, plan, tuple(nodes), None, None, out, mode)
    saved, holds = [], []
    for source in plan.saves:
        if isinstance(source, str):
            if source not in parameters:
                raise rule.unknown(source)
            value = parameters[source]
            if isinstance(value, TensorCore):
                _save(value, None, saved, holds)
            else:
                saved.append(value)
                holds.append(share_of(<cnp.ndarray>value) if isinstance(value, cnp.ndarray) else None)
        elif source == count:
            saved.append(out)  # `wrap_recorded` adds the share
            holds.append(None)
        else:
            value = inputs[source]
            _save(value, value, saved, holds)
    return _new_node(rule, plan, tuple(nodes), saved, holds, out, mode)


cdef inline Plan _unary_plan(Rule rule):
    return rule.unary_plan if rule.unary_plan is not None else rule.plan((True,))


cdef inline Plan _binary_plan(Rule rule, object before1, object before2):
    cdef Plan plan
    plan = rule.first_plan if before2 is None else rule.second_plan if before1 is None else rule.both_plan
    return plan if plan is not None else rule.plan((before1 is not None, before2 is not None))


cdef Node _saving(
    Rule rule, Plan plan, tuple nexts, object x1, object x2, object a, object b, cnp.ndarray out
):
    """Return a node with the operands and the output that `plan` saves.

    If `out` is None, ``save_output`` saves it later.
    """
    cdef Node node = Node.__new__(Node)
    cdef list saved, holds
    node.rule = rule
    node.plan = plan
    node.next = nexts
    if plan.saves:
        saved, holds = [], []
        for source in plan.saves:
            if source == len(nexts):
                saved.append(out)
                holds.append(None)
            elif source == 0:
                _save(x1, a, saved, holds)
            else:
                _save(x2, b, saved, holds)
        node.saved = tuple(saved)
        node.holds = tuple(holds)
    return node


cdef Node record_unary(Rule rule, object x, object a, cnp.ndarray out):
    cdef object before = _node_of(x)
    if before is None or not rule.is_differentiable:
        return None
    mode = recorder()
    if not mode or not _is_inexact(out):
        return None
    return _complete(_saving(rule, _unary_plan(rule), (before,), x, None, a, None, out), out, mode)


cdef Node record_binary(Rule rule, object x1, object x2, object a, object b, cnp.ndarray out):
    cdef object before1 = _node_of(x1), before2 = _node_of(x2)
    cdef Plan plan
    if (before1 is None and before2 is None) or not rule.is_differentiable:
        return None
    mode = recorder()
    if not mode or not _is_inexact(out):
        return None
    plan = _binary_plan(rule, before1, before2)
    return _complete(_saving(rule, plan, (before1, before2), x1, x2, a, b, out), out, mode)


cdef Node record_inline_unary(Rule rule, object x, InlineValues* out):
    cdef object before = _node_of(x)
    if before is None or not rule.is_differentiable:
        return None
    mode = recorder()
    if not mode:
        return None
    node = _saving(rule, _unary_plan(rule), (before,), x, None, None, None, None)
    return _counted(node, shape_of(out), dtype_of(out), mode)


cdef Node record_inline_binary(Rule rule, object x1, object x2, InlineValues* out):
    cdef object before1 = _node_of(x1), before2 = _node_of(x2)
    if (before1 is None and before2 is None) or not rule.is_differentiable:
        return None
    mode = recorder()
    if not mode:
        return None
    node = _saving(rule, _binary_plan(rule, before1, before2), (before1, before2), x1, x2, x1, x2, None)
    return _counted(node, shape_of(out), dtype_of(out), mode)


cdef Node record_view(Rule rule, TensorCore x, cnp.ndarray out, tuple saved):
    cdef Node node
    cdef Plan plan
    if x._node is None:
        return None
    mode = recorder()
    if not mode:
        return None
    plan = rule.unary_plan
    if plan is None:
        plan = rule.plan((True,))
    node = Node.__new__(Node)
    node.rule = rule
    node.plan = plan
    node.next = (x._node,)
    node.saved = saved
    node.holds = (None,) * len(saved)
    return _complete(node, out, mode)


cdef Node record_after(Rule rule, object before, cnp.ndarray input, cnp.ndarray out):
    cdef list saved = [], holds = []
    cdef Plan plan
    if before is None:
        return None
    mode = recorder()
    if not mode:
        return None
    plan = rule.plan((True,))
    for source in plan.saves:
        saved.append(input if source == 0 else out)
        holds.append(share_of(input) if source == 0 else None)
    return _new_node(rule, plan, (before,), saved, holds, out, mode)


def record_places(
    Rule rule not None, tuple nexts not None, cnp.ndarray out not None, dict places not None
) -> Node:
    """Return the node of a tensor whose elements have the histories `nexts`, where None has none.

    `out` has its shape and dtype. `places` are the parameters of the derivative. Recording must be on.
    """
    cdef list saved = []
    cdef Plan plan = rule.plan(tuple([before is not None for before in nexts]))
    for name in plan.saves:
        saved.append(places[name])
    return _new_node(rule, plan, nexts, saved, [None] * len(saved), out, recorder())


cpdef int set_histories(dict histories) except -1:
    """Set the next histories of tensors, all or none. `histories` has pairs of a tensor and its next node."""
    cdef StorageReference x
    for known, node in histories.values():
        x = known
        if not is_empty(x):  # another thread may have disposed it
            x._node = node
    return 0


cpdef int remember(Node node, object kernel, object inputs, dict parameters=None) except -1:
    """In a budget, record in the new `node` that ``kernel(*arrays)`` of `inputs` computes its output again.

    The kernel must return the same bits, have no side effects, and depend on no data that other code may
    change, except for tensors among the `parameters` of the op.
    """
    if node is not None and node.recipe is not None:
        node.recipe.remember(node, kernel, inputs, parameters)
    return 0


cpdef TensorCore wrap_recorded(cnp.ndarray out, Node node):
    """Return a new tensor over the new array `out` with the history `node`, which may be None."""
    cdef TensorCore x
    cdef Buffer buffer
    if node is None:
        return wrap(out)
    # Create the buffer now: backward and the next ops need the array.
    buffer = new_buffer(out)
    x = new_tensor()
    attach_buffer(x, out, buffer)
    if node.plan.saves_out:
        node.save_output(out, new_share(buffer, out))
    x._node = node
    register_new(x)
    return x


cdef TensorCore wrap_inline(InlineValues* values, Node node):
    cdef TensorCore x = new_tensor()
    cdef Share share
    count_inline(values.nbytes)
    x.inlined = values[0]
    if node is not None:
        if node.plan.saves_out:
            share = take_snapshot(x)
            node.save_output(share.array, share)
        x._node = node
    register_new(x)
    return x
