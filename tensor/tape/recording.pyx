"""The tape: modes of recording, nodes with their derivative rules, and the functions that record ops."""

cimport cython
cimport numpy as cnp
from cpython.ref cimport PyObject, Py_DECREF
from libc.stdint cimport int64_t

from scopes.core.scope cimport register_new
from tensor.core.promotion cimport is_inexact
from tensor.core.tensor cimport (
    InlineValues,
    StorageReference,
    TensorCore,
    array_of,
    attach_buffer,
    count_inline,
    dtype_of,
    is_empty,
    is_tensor,
    new_tensor,
    shape_of,
    share_of,
    take_snapshot,
    wrap,
)
from tensor.memory.allocator cimport report_overhead_by
from tensor.memory.buffer cimport Buffer, Share, collector_header, new_buffer, new_share
from tensor.memory.buffer cimport copy as copy_array

from contextvars import ContextVar
from weakref import ref

from tensor.tape.hooks import NodeHooks

cnp.import_array()


# --- Modes of recording -------------------------------------------------------------------------------------
#
# Gradient modes as ``with`` blocks. Entry and exit are atomic: no interrupt can split them.

cdef extern from "Python.h":
    int PyContextVar_Get(object variable, PyObject* default, PyObject** value) except -1

cdef extern from "scopes/_shared/contexts.h" namespace "scopes":
    object set_context_variable(object variable, object value)

# Whether ops are recorded: False, True or a Recorder.
cdef object _grad_enabled = ContextVar("grad_enabled", default=True)
# The value that ``enable_grad`` sets `grad_enabled` to.
cdef object _when_enabled = ContextVar("when_enabled", default=True)
# The open blocks as a linked list, the innermost first, each with the modes before it.
cdef object _opened = ContextVar("opened", default=None)

grad_enabled = _grad_enabled
when_enabled = _when_enabled


cdef object _get(object variable):
    cdef PyObject* found = NULL
    PyContextVar_Get(variable, NULL, &found)
    value = <object>found
    Py_DECREF(value)  # PyContextVar_Get returns a new reference
    return value


cdef int _set(object variable, object value) except -1:
    """Set `variable`. If memory is short, try again, because the first try may have freed some."""
    try:
        set_context_variable(variable, value)
    except MemoryError:
        set_context_variable(variable, value)
    return 0


cdef int set_recording(object mode) except -1:
    return _set(_grad_enabled, mode)


cdef tuple _modes():
    """Return the values of `grad_enabled` and `when_enabled`."""
    return _get(_grad_enabled), _get(_when_enabled)


cdef int _set_modes(tuple modes) except -1:
    # Skip values that do not change, because setting one takes as long as an op on one element.
    if _get(_grad_enabled) is not modes[0]:
        _set(_grad_enabled, modes[0])
    if _get(_when_enabled) is not modes[1]:
        _set(_when_enabled, modes[1])
    return 0


def set_modes(tuple modes not None) -> tuple:
    """Set `grad_enabled` and `when_enabled` to `modes`, and return their former values."""
    before = _modes()
    _set_modes(modes)
    return before


cdef class Block:
    """A mode for a ``with`` block. It can be entered several times, by any task, and inside itself."""

    def _inside(self):
        """Return the values of `grad_enabled` and `when_enabled` inside."""
        raise NotImplementedError

    def _restore_modes(self):
        """Undo the change of modes that the constructor made. Called before the block is entered."""

    def __enter__(self):
        self._restore_modes()
        before, opened = _modes(), _get(_opened)
        inside = self._inside()
        try:
            _set(_opened, (self, before, opened))
            _set_modes(inside)
        except BaseException:
            _set_modes(before)
            _set(_opened, opened)
            raise
        return self

    def __exit__(self, *error):
        opened = _get(_opened)
        while opened is not None:
            block, before, opened = opened
            if block is self:
                _set_modes(before)
                _set(_opened, opened)
                return
        # Not found: another context entered the block, for example in a generator that a finalizer closes.


cdef class GradMode(Block):
    """Switches recording on or off."""

    cdef bint _enabled

    def __init__(self, bint enabled):
        self._enabled = enabled

    def _inside(self):
        recorder = _get(_when_enabled)
        return recorder if self._enabled else False, recorder


cdef class Steps:
    """The mode of a decorated generator or async generator, while its body runs.

    Each step of the generator is a ``with`` block. While its callers run, their own modes apply.
    """

    cdef Block block
    # The modes at the end of the last step; None before the first.
    cdef tuple inside
    cdef tuple outside

    def __init__(self, Block block not None):
        self.block = block

    def __enter__(self):
        outside = _modes()
        inside = self.block._inside() if self.inside is None else self.inside
        try:
            _set_modes(inside)
        except BaseException:
            _set_modes(outside)
            raise
        self.outside = outside

    def __exit__(self, *error):
        self.inside = _modes()
        _set_modes(self.outside)


# --- Nodes and rules ----------------------------------------------------------------------------------------
#
# Nodes of the tape, and the derivative rules of ops.

# Parameters of derivatives that need no saved value: the index of an input, and its shape.
_FREE = {"i": -1, "to_shape": -2}
# The parameter of a `together` function: whether it may write over `g`.
_MAY_OVERWRITE = "may_overwrite"


cdef int64_t _nodes_alive = 0
# The bytes of the tuples of all nodes.
cdef int64_t _bytes_of_tuples = 0


cdef class Plan:
    """The values that an op saves and its derivatives, for a given set of inputs that require gradients."""

    def __init__(self, Rule rule, tuple wanted):
        names = [*rule.input_names(len(wanted)), "out"]
        needed = {}
        steps = []
        # The last input comes first. A layer computes the gradients of its bias and weight, and releases the
        # saved input, before it takes memory for the gradient of the input.
        for i, function in reversed(list(rule.wanted(wanted))):
            places = []
            for name in _arguments(function):
                if name not in _FREE:
                    needed.setdefault(name, len(needed))
                places.append(_FREE[name] if name in _FREE else needed[name])
            steps.append((i, function, tuple(places)))
        if rule.together is not None:
            places = []
            for name in _arguments(rule.together):
                is_free = name == _MAY_OVERWRITE
                places.append(-1 if is_free else needed.setdefault(name, len(needed)))
            self.together = (rule.together, wanted, tuple(places))
        _add_derived_names(rule, wanted, needed)
        saves = []
        for name in needed:
            saves.append(names.index(name) if name in names else name)
        self.saves = tuple(saves)
        self.saves_out = len(wanted) in self.saves
        self.steps = tuple(steps)
        self.done = _done_after(steps)

    def without_saves(self) -> Plan:
        """Return the plan of a node whose saved values are deferred: it saves nothing."""
        cdef Plan plan
        if self._without_saves is None:
            plan = Plan.__new__(Plan)
            plan.saves = ()
            plan.steps = self.steps
            plan.done = self.done
            plan.together = self.together
            self._without_saves = plan
        return self._without_saves


def _done_after(list steps):
    """Return for each of `steps` the indices of saved values that no later step uses."""
    cdef list done = []
    later = set()
    for _, _, places in reversed(steps):
        asked = {place for place in places if place >= 0}
        done.append(tuple(sorted(asked - later)))
        later |= asked
    return tuple(reversed(done))


def _arguments(function):
    """Return the names of a derivative's parameters after ``xp`` and ``g``, or those in its ``needs``."""
    needs = getattr(function, "needs", None)
    if needs is not None:
        return needs
    code = function.__code__
    return code.co_varnames[2 : code.co_argcount]


def _add_derived_names(Rule rule, tuple wanted, dict needed):
    """Add the values that derivatives of the parameters in `needed` require (``Rule.derived``)."""
    waiting = []
    for name in needed:
        if name in rule.derived:
            waiting.append(name)
    for parameter in waiting:
        for _, function in rule.derived[parameter].wanted(wanted):
            for name in _arguments(function):
                if name not in _FREE and name not in needed and name != "out":
                    needed[name] = len(needed)
                    if name in rule.derived:
                        waiting.append(name)


cdef class Rule:
    """The derivatives of one op: for each input a function ``(xp, g, ...) -> gradient``.

    `xp` is a namespace of array functions, `g` the gradient of the output. Further parameters name the values
    that the function needs: inputs by their names, ``out``, and parameters of the op. The tape saves only
    these values, and only for inputs that require gradients. ``to_shape``, the shape of the input, needs no
    saved value. An op with any number of inputs has one function, ``each``, which may have a parameter `i`,
    the index of the input.

    Higher derivatives treat parameters of the op as constants, except those in `derived`. Each of these has
    its own rule, as an op with the same inputs whose output is that parameter.

    `together` computes several gradients in one pass over the arrays. ``together(g, wanted, ...)`` returns a
    gradient for each input, or None for an input that `wanted` excludes. It only handles plain arrays. A
    recorded backward uses `functions`.
    """

    def __init__(self, str name, functions, dict derived=None, together=None):
        self.name = name
        self.together = together
        self.functions = functions
        self.derived = {} if derived is None else derived
        self.is_differentiable = not {None}.issuperset(functions.values())
        self.plans = {}

    def input_names(self, count: int) -> list[str]:
        """Return the names of the first `count` inputs."""
        if "each" not in self.functions:
            return list(self.functions)
        names = []
        for i in range(count):
            names.append(f"_{i}")
        return names

    def wanted(self, wanted: tuple) -> list:
        """Return the indices of the `wanted` inputs, with their functions."""
        each = self.functions.get("each")
        listed = list(self.functions.values())
        if each is None and len(listed) < len(wanted):
            raise NotImplementedError(
                f"the op {self.name!r} has {len(wanted)} inputs, but its entry in the table of derivatives "
                f"has {len(listed)} ({', '.join(self.functions)}). Add a function for each input there, "
                "or None"
            )
        found = []
        for i, is_wanted in enumerate(wanted):
            if is_wanted:
                found.append((i, each or listed[i] or _no_gradient))
        return found

    def require_no_parameters(self) -> None:
        """Raise an error if a derivative needs anything but inputs and the output of the op."""
        for function in self.functions.values():
            for name in () if function is None else _arguments(function):
                if name != "out" and name not in _FREE and name not in self.functions:
                    raise self.unknown(name)

    def unknown(self, str name) -> NotImplementedError:
        """Return the error for a derivative with an unknown parameter `name`."""
        return NotImplementedError(
            f"a derivative of the op {self.name!r} has a parameter {name!r}, which is neither an input nor a "
            f"parameter of the op. It may use {', '.join([*self.functions, 'out'])}. Pass other values as "
            f"parameters to apply(rule, kernel, inputs, {name}=...)"
        )

    cpdef Plan plan(self, tuple wanted):
        """Return the plan for the case that the `wanted` inputs require gradients."""
        plan = self.plans.get(wanted)
        if plan is None:
            plan = self.plans[wanted] = Plan(self, wanted)
        if wanted == (True,):
            self.unary_plan = plan
        elif wanted == (True, False):
            self.first_plan = plan
        elif wanted == (False, True):
            self.second_plan = plan
        elif wanted == (True, True):
            self.both_plan = plan
        return plan


def _no_gradient(_xp, _g):
    """Return None, for an input without a derivative."""


cdef object _hooks_of(Node node):
    if node.hooks is None:
        node.hooks = NodeHooks()
    return node.hooks


@cython.trashcan(True)  # a graph can be a very long chain of nodes
cdef class Node:
    """One recorded op. It holds arrays and the nodes of its inputs, never tensors."""

    # False for nodes that only lead to the node of an op, such as the outputs of a user's function.
    is_op = True

    def __cinit__(self):
        global _nodes_alive
        _nodes_alive += 1
        self.next = ()
        self.saved = ()
        self.holds = ()

    def __dealloc__(self):
        global _nodes_alive, _bytes_of_tuples
        _nodes_alive -= 1
        _bytes_of_tuples -= self.bytes_of_tuples

    cdef void count_tuples(self) noexcept:
        """Count the bytes of the tuples of this node."""
        global _bytes_of_tuples
        cdef int64_t count = _bytes_of(self.next) + _bytes_of(self.saved) + _bytes_of(self.holds)
        count += _bytes_of(self.shape)
        _bytes_of_tuples += count - self.bytes_of_tuples
        self.bytes_of_tuples = count

    def shares(self) -> list:
        """Return the shares of the arrays that are saved for backward."""
        saved = self.saved
        if isinstance(saved, Deferred):
            return saved.shares()
        kept = []
        for share in self.holds:
            if share is not None:
                kept.append(share)
        for value in saved or ():
            kept += getattr(value, "holds", ())  # the shares of the arrays in an index
        return kept

    cpdef int save_output(self, object array, object share) except -1:
        """Save the output and its share at the index that the plan gives."""
        cdef Py_ssize_t place
        if type(self.saved) is not tuple:
            self.saved.save_output(self, share)
            return 0
        place = self.plan.saves.index(len(self.next))
        self.saved = (*self.saved[:place], array, *self.saved[place + 1 :])
        self.holds = (*self.holds[:place], share, *self.holds[place + 1 :])
        return 0

    def source_of(self, Py_ssize_t place) -> object:
        """Return the node that is the history of the saved value at `place`, or None if it has none."""
        source = self.plan.saves[place] if place < len(self.plan.saves) else None
        if isinstance(source, str) or source is None:
            return None
        return self if source == len(self.next) else self.next[source]

    # --- Hooks ----------------------------------------------------------------------------------------------

    def register_hook(self, hook):
        """Call ``hook(grad_inputs, grad_outputs)`` in each backward, after this node is evaluated.

        `grad_inputs` has the gradient of each input, in the order of ``next_functions``, and `grad_outputs`
        that of each output. Both are tuples, with None for an input or output without a gradient. The hook
        may return a tuple that replaces `grad_inputs`. Hooks are called in the order of their registration,
        each with the result of the one before. They belong to the node, and are freed with it. The current
        scope owns the gradients: move them out to keep them longer.

        On the node of a leaf, ``AccumulateGrad``, `grad_inputs` is empty, and the hook is called after the
        gradient was added to ``grad``.

        Raises
        ------
        TypeError
            In backward, if the hook returns anything but None or a tuple of tensors and None.
        RuntimeError
            In backward, if the tuple has another length, or a tensor has another shape or dtype than the
            gradient, or replaces None.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,), requires_grad=True)
        >>> y = x * 3
        >>> handle = y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (grad_outputs[0] * 10, None))
        >>> y.sum().backward()
        >>> x.grad.tolist()
        [10.0, 10.0]
        >>> handle.remove()
        """
        return _hooks_of(self).posthooks.register(hook)

    def register_prehook(self, hook):
        """Call ``hook(grad_outputs)`` in each backward, before this node is evaluated.

        `grad_outputs` is a tuple with the gradient of each output, or None. The hook may return a tuple that
        replaces it. Hooks of the tensor are called before. The rest is as for ``register_hook``.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,), requires_grad=True)
        >>> y = x * 3
        >>> handle = y.grad_fn.register_prehook(lambda grad_outputs: (grad_outputs[0] * 10,))
        >>> y.sum().backward()
        >>> x.grad.tolist()
        [30.0, 30.0]
        """
        return _hooks_of(self).prehooks.register(hook)

    @property
    def next_functions(self) -> tuple:
        """The nodes of the inputs: a tuple of pairs ``(node, 0)``, and ``(None, 0)`` without a gradient."""
        found = []
        for i in self.input_places():
            found.append((self.next[i], 0))
        return tuple(found)

    def input_places(self):
        """Return the indices in ``next`` of the inputs that can have gradients."""
        return range(len(self.next))

    def count_outputs(self) -> int:
        """Return the number of outputs."""
        return 1

    def moved_to(self, x: StorageReference) -> None:
        """Update the node after the tensor with this history moved its values and history to `x`."""

    def name(self) -> str:
        """Return the op's name, as in ``MultiplyBackward``."""
        return "".join(map(str.capitalize, self.rule.name.split("_"))) + "Backward"

    def __repr__(self):
        return f"<{self.name()}>"


cdef class Leaf(Node):
    """The end of the graph at a leaf tensor. It refers to the tensor weakly, to avoid a cycle."""

    def __init__(self, StorageReference x not None):
        array = <object>array_of(x)
        self.shape = array.shape
        self.dtype = array.dtype
        self.home = ref(x)

    def tensor(self):
        """Return the tensor or `Handle` that accumulates the gradient.

        Return None if it was freed or is no longer a leaf.
        """
        x = self.home()
        return x if x is not None and x._node is self else None

    def moved_to(self, x: StorageReference) -> None:
        """Accumulate gradients for `x` from now on."""
        self.home = ref(x)

    def name(self) -> str:
        """Return ``AccumulateGrad``."""
        return "AccumulateGrad"


class Deferred:
    """Replaces the saved values of a node until backward needs and restores them."""

    __slots__ = ()

    # Whether the node gets this object back after a backward that keeps the graph.
    is_put_back = False

    def restore(self, node: Node) -> None:
        """Compute or read the values, and store them in `node`."""
        raise NotImplementedError

    def save_output(self, node: Node, share: object) -> None:
        """Save the share of the output, which is None before an in-place op writes it."""
        raise NotImplementedError

    def shares(self) -> list:
        """Return the shares of the arrays that it keeps."""
        raise NotImplementedError


cdef class Ticks:
    """The ops left until the next check for growing graphs, which is due when ``left`` is below 0."""


ticks = Ticks()


def tick_counter() -> Ticks:
    """Return the counter that decreases with each recorded op."""
    return ticks


def nodes_alive() -> int:
    """Return the number of nodes in the process."""
    return _nodes_alive


def become_leaf(StorageReference x not None) -> None:
    """Make `x` a leaf that accumulates gradients."""
    if is_empty(x):
        x._raise_disposed()
    x.gradient = None
    x._node = Leaf(x)


cdef int64_t _size_of_node = Node.__basicsize__ + collector_header
cdef int64_t _size_of_tuple = tuple.__basicsize__ + collector_header
cdef int64_t _size_of_item = tuple.__itemsize__


cdef int64_t _bytes_of(object held) noexcept:
    """Return the size of the tuple `held` as Python's allocator rounds it; 0 for other objects and ()."""
    if type(held) is not tuple or len(<tuple>held) == 0:
        return 0
    return (_size_of_tuple + len(<tuple>held) * _size_of_item + 15) // 16 * 16


cdef int64_t _overhead() noexcept nogil:
    return _nodes_alive * _size_of_node + _bytes_of_tuples


report_overhead_by(_overhead)


# --- Recording ----------------------------------------------------------------------------------------------
#
# Record ops: create their nodes.

cdef object recorder():
    return _get(_grad_enabled)


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
    if ticks.left < 0 and ticks.check is not None:
        ticks.check(node)
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
    if not mode or not rule.is_differentiable or not is_inexact(out):
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
    if not mode or not is_inexact(out):
        return None
    return _complete(_saving(rule, _unary_plan(rule), (before,), x, None, a, None, out), out, mode)


cdef Node record_binary(Rule rule, object x1, object x2, object a, object b, cnp.ndarray out):
    cdef object before1 = _node_of(x1), before2 = _node_of(x2)
    cdef Plan plan
    if (before1 is None and before2 is None) or not rule.is_differentiable:
        return None
    mode = recorder()
    if not mode or not is_inexact(out):
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
