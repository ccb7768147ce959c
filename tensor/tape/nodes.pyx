"""Nodes of the tape, and the derivative rules of ops."""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t

from tensor.core.storage cimport StorageReference, array_of, is_empty
from tensor.memory.allocator cimport report_overhead_by
from tensor.memory.buffer cimport collector_header

from weakref import ref

from tensor.tape.hooks import NodeHooks

cnp.import_array()

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
