"""Backward: walk the tape from the outputs to the leaves, visiting each node once, without recursion.

A pending gradient, the sum of the gradients of a node so far, is an array
(`tensor.autograd.pending_gradients`). If backward itself is recorded, it is a tensor
(`tensor.autograd.tensor_gradients`). Derivatives run in kernel contexts (`tensor.kernels.context`). User code
(hooks, functions, checkpoints) runs outside of these contexts, in the caller's scope, without recording.
"""

cimport numpy as cnp
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

from tensor.autograd.pending_gradients cimport (
    PendingGradient,
    add_array,
    compact_copy,
    contiguous_copy,
    clear,
    keep,
    may_be_written,
    moved,
    new_pending,
    tensor_of,
    with_history,
)
from tensor.autograd.fitting cimport fitting
from tensor.autograd.leaves cimport accumulate
from tensor.core.storage cimport take_snapshot, is_expanded
from tensor.core.tensor cimport TensorCore, wrap, wrap_share
from tensor.core.bfloat16 cimport is_bfloat16, widened
from tensor.kernels.context cimport enter, leave
from tensor.memory.allocator cimport has_relief, is_worth_pooling
from tensor.memory.buffer cimport Share, new_share, root_of
from tensor.tape.blocks cimport set_recording
from tensor.tape.nodes cimport Leaf, Node
from tensor.tape.recording cimport recorder

from numpy import dtype as _dtype

from scopes.lowlevel import ModuleOnDemand as _ModuleOnDemand
from tensor.core.tensor import wrap_snapshot
from tensor.kernels.namespace import xp, xp_over
from tensor.memory.limits import OutOfMemoryError, out_of_memory
from tensor.tape.blocks import when_enabled as _when_enabled
from tensor.tape.modes import recomputing as _recomputing
from tensor.tape.nodes import Deferred

cnp.import_array()

cdef object _detection = _ModuleOnDemand("tensor.autograd.anomalies")

cdef extern from "Python.h":
    object PyObject_Vectorcall(object function, PyObject** arguments, size_t count, PyObject* names)
    # Returns the items of a list or tuple.
    PyObject** PySequence_Fast_ITEMS(object items) noexcept

cdef enum:
    # The most arguments after `space` and `g` that a derivative has, except for an einsum of many operands.
    _MAX_ARGUMENTS = 13

_SECOND_BACKWARD = (
    "backward through a graph whose saved values are already freed: backward frees them after use. Call the "
    "first backward with retain_graph=True, or compute the output again"
)

_CONSTANTS = frozenset({bool, int, float, complex, str, slice, type(None), type(Ellipsis)})


def restore(Node node not None) -> Deferred | None:
    """Compute or read the saved values of `node` if necessary. Return the argument for `put_back`."""
    node.is_in_use = True
    packed = None
    saved = node.saved
    try:
        while isinstance(saved, Deferred):  # a checkpoint may be inside another one
            saved.restore(node)
            if saved.is_put_back:
                packed = saved
            saved = node.saved
    except BaseException:
        node.is_in_use = False
        raise
    if saved is None:
        raise RuntimeError(f"{node.name()}: {_SECOND_BACKWARD}")
    return packed


def put_back(Node node not None, packed) -> None:
    """After the use of saved values, let the hooks that restored them keep them again."""
    if packed is not None and node.saved is not None:
        node.saved = packed
        node.holds = ()


cpdef bint holds_memory(object saved) except -1:
    """Return whether a saved value is more than a constant of the op, such as a number, a shape or an index.

    Backward frees such values. It keeps those of other nodes: a second backward needs no ``retain_graph``.
    """
    for value in saved:
        if isinstance(value, tuple):
            if holds_memory(value):
                return True
        elif type(value) not in _CONSTANTS and not isinstance(value, _dtype):
            return True
    return False


cdef class Backward:
    """One backward pass. Its results have no history; those of `RecordedBackward` do.

    Parameters
    ----------
    retain_graph
        Keep the saved values of nodes for another backward pass.
    only
        The nodes whose gradients ``gradients()`` returns. None: accumulate gradients in all leaves.
    is_recorded
        Record backward itself, with tensors as gradients. For subclasses.
    into_leaves
        The nodes in `only` are leaves: accumulate their gradients.
    """

    cdef readonly bint is_recorded
    cdef readonly bint retain_graph
    # The anomaly detector, or None.
    cdef readonly object anomalies
    cdef object only
    # Whether gradients are accumulated in leaves.
    cdef bint into_leaves
    # The nodes from which one of `only` can be reached.
    cdef set ancestors
    # The pending gradient of each reachable node.
    cdef dict pending
    # The gradients of leaves, or of `only`, in the order of their completion.
    cdef list found
    # The open kernel context, or None.
    cdef object context
    cdef bint is_pooled
    # While a node with hooks is evaluated: the gradient of each of its inputs, which the hooks get first.
    cdef list received
    # Whether user code is running. Its memory errors are not converted to OutOfMemoryError.
    cdef bint is_outside

    def __init__(self, bint retain_graph, only=None, bint is_recorded=False, bint into_leaves=False):
        self.is_recorded = is_recorded
        # A backward pass in a checkpoint's second run must not free the values that this run saves.
        self.retain_graph = retain_graph or _recomputing.get() > 0
        self.anomalies = None if _when_enabled.get() is True else _detection.anomalies()
        self.only = only
        self.into_leaves = into_leaves or only is None
        self.pending = {}
        self.found = []

    def run(self, list roots not None) -> None:
        """Walk from `roots`: triples of a node, its gradient (tensor or array), and the `Share` of an array.

        After an error, the ``grad`` of each leaf without a post-accumulate hook is unchanged.
        """
        before = recorder() if self.is_recorded else None
        try:
            if self.is_recorded:
                set_recording(_when_enabled.get())
            self._walk(roots)
            if self.into_leaves:
                self.leave_kernels()
                accumulate(self.found)
        except OutOfMemoryError:
            raise
        except MemoryError:
            if self.is_outside:
                raise
            raise out_of_memory() from None
        finally:
            self.leave_kernels()
            self.pending = {}
            if before is not None:
                set_recording(before)

    def gradients(self) -> dict:
        """Return the gradient of each reached node of `only`, as a tensor with its own memory."""
        cdef PendingGradient pending
        made = {}
        first = {}
        for pending in self.found:
            made[pending.node] = tensor_of(pending, first, False)
        return made

    # --- The walk ------------------------------------------------------------------------------------------

    cdef int _walk(self, list roots) except -1:
        cdef list ready = []
        cdef PendingGradient pending, next_pending
        cdef Node node, next_node
        cdef PyObject* known
        cdef bint is_passed_on
        self._count_users(roots)
        for node, value, share in roots:
            pending = <PendingGradient>self.pending[node]
            self._accumulate(pending, value, share, False)
            if pending.users == 0 and pending not in ready:
                ready.append(pending)
        if self.only is not None:
            self.ancestors = self._ancestors_of(self.only)
        while ready:
            pending = <PendingGradient>ready.pop()
            node = pending.node
            if pending.value is not None:
                if node.hooks is not None:
                    self._run_hooks(node, pending)
                if self.only is None:
                    is_passed_on = not isinstance(node, Leaf)
                    if not is_passed_on:
                        self._finish_leaf(node, pending)
                else:
                    if node in self.only:
                        if self.into_leaves:
                            self._finish_leaf(node, pending)
                        else:
                            self._capture(pending)
                    is_passed_on = node in self.ancestors
                if is_passed_on:
                    self._evaluate(node, pending)
                    clear(pending)  # the next gradient may use its memory
            elif node.hooks is not None and (self.only is None or node in self.ancestors):
                self._run_node_hooks(node, pending)
            for x in node.next:
                if x is None:
                    continue
                next_node = <Node>x
                known = PyDict_GetItem(self.pending, next_node)
                next_pending = <PendingGradient>known
                next_pending.users -= 1
                if next_pending.users > 0:
                    continue
                if self.only is None and type(next_node) is Leaf and next_node.hooks is None:
                    # A shortcut for plain leaves: a small network has as many leaves as ops.
                    if next_pending.value is not None:
                        self._complete(next_pending)
                else:
                    ready.append(next_pending)
        return 0

    cdef int _finish_leaf(self, Node node, PendingGradient pending) except -1:
        if node.hooks is not None and (node.hooks.after or node.hooks.are_on_node):
            return self._accumulate_now(node, moved(pending))
        return self._complete(pending)

    cdef int _complete(self, PendingGradient pending) except -1:
        """Store the gradient of a leaf until the gradients of all leaves are complete."""
        if has_relief() and not self.is_recorded:
            self.leave_kernels()
            keep(pending)
        self.found.append(pending)
        return 0

    cdef int _count_users(self, list roots) except -1:
        """Collect the reachable nodes, and count the edges to each."""
        cdef list stack = []
        cdef PyObject* known
        cdef Node node, after
        for node, _, _ in roots:
            if node not in self.pending:
                self.pending[node] = new_pending(node, 0)
                stack.append(node)
        while stack:
            node = <Node>stack.pop()
            for x in node.next:
                if x is None:
                    continue
                after = <Node>x
                known = PyDict_GetItem(self.pending, after)
                if known != NULL:
                    (<PendingGradient>known).users += 1
                    continue
                self.pending[after] = new_pending(after, 1)
                if after.next:
                    stack.append(after)
        return 0

    cdef set _ancestors_of(self, targets):
        """Return the nodes from which a target can be reached."""
        cdef Node node
        users = {}
        for node in self.pending:
            for after in node.next:
                if after is not None:
                    users.setdefault(after, []).append(node)
        ancestors = set()
        stack = list(targets)
        while stack:
            for user in users.get(stack.pop(), ()):
                if user not in ancestors:
                    ancestors.add(user)
                    stack.append(user)
        return ancestors

    cdef int _capture(self, PendingGradient pending) except -1:
        """Keep the gradient for the user, so that later steps do not write over it."""
        cdef PendingGradient kept = new_pending(pending.node, 0)
        kept.value = pending.value
        if pending.share is not None:
            kept.share = new_share(pending.share.buffer, pending.value)
        kept.is_owned = pending.is_owned
        pending.is_owned = False
        self.found.append(kept)
        return 0

    cdef int _evaluate(self, Node node, PendingGradient pending) except -1:
        try:
            if node.hooks is not None and node.hooks.are_on_node:
                self._run_node_hooks(node, pending)
            elif type(node) is not Node:
                self._outside(node.step, pending, self)  # a node of a user's function
            else:
                self.step(node, pending)
        except Exception as error:
            if self.anomalies is not None:
                site = _detection.recorded_at(node)
                if site not in "\n".join([str(error), *getattr(error, "__notes__", ())]):
                    error.add_note(site)
            raise
        return 0

    # --- Kernel contexts and user code ----------------------------------------------------------------------

    cdef int enter_kernels(self, bint pooled) except -1:
        """Enter a kernel context; `pooled` if the kernel may create large arrays."""
        if self.context is not None:
            if self.is_pooled == pooled:
                return 0
            self.leave_kernels()
        self.context = enter(pooled)
        self.is_pooled = pooled
        return 0

    cdef int leave_kernels(self) except -1:
        context = self.context
        if context is not None:
            self.context = None
            leave(context, self.is_pooled)
        return 0

    cdef object _outside(self, function, one, two):
        """Return ``function(one, two)`` of user code. Record its ops only if backward is recorded."""
        self.leave_kernels()
        before = recorder()
        is_switched = not self.is_recorded and before is not False
        if is_switched:
            set_recording(False)
        self.is_outside = True
        try:
            result = function(one, two)
            self.is_outside = False
            return result
        finally:
            if is_switched:
                set_recording(before)

    # --- One node -------------------------------------------------------------------------------------------

    cpdef object step(self, Node node, PendingGradient pending):
        """Compute the gradients of the op's inputs from the gradient of its output. Free the saved values."""
        cdef PyObject* arguments[_MAX_ARGUMENTS + 3]
        cdef cnp.ndarray g = pending.value
        cdef cnp.ndarray root
        cdef tuple steps, places
        cdef tuple nexts = node.next
        # A tuple; or a list, to free each value as soon as no later step needs it.
        cdef object saved
        cdef list holds = None
        cdef PyObject** values
        cdef Node after
        cdef Py_ssize_t count, i, left
        cdef bint is_free, is_sole, is_large
        if type(node.saved) is not tuple:
            return self._restore_and_step(node, pending)
        node.is_in_use = True
        saved = node.saved
        if is_bfloat16(g):
            # Compute in float32, and round each gradient once.
            g = pending.value = widened(g)
            pending.share = None
            pending.is_owned = True
            saved = _widened(saved)
        root = root_of(g)
        steps = node.plan.steps  # read after the saved values: restoring a checkpoint sets the plan
        left = len(steps)
        # Whether the last step may write over `g`: not if an earlier step has passed `g` itself on.
        is_free = may_be_written(g, pending.share, pending.is_owned)
        is_large = _is_large(g, <tuple?>saved, nexts)
        self.enter_kernels(is_large)
        if node.plan.together is not None:
            self._evaluate_together(node, g, pending, root, <tuple>saved, is_free)
            steps = ()
        elif is_large and left > 1 and not self.retain_graph and holds_memory(saved):
            holds = list(node.holds) if len(node.holds) == len(saved) else [None] * len(saved)
            saved = list(saved)
            node.saved = None
            node.holds = ()
        values = PySequence_Fast_ITEMS(saved)
        for number, function, places in steps:
            left -= 1
            i = number
            if nexts[i] is None:
                continue
            after = <Node>nexts[i]
            shape = after.shape
            is_sole = is_free and left == 0
            space = xp_over if is_sole else xp
            arguments[1] = <PyObject*>space
            arguments[2] = <PyObject*>g
            count = 2
            if len(places) <= _MAX_ARGUMENTS:
                for place in places:
                    count += 1
                    if place >= 0:
                        arguments[count] = values[<Py_ssize_t>place]
                    else:
                        arguments[count] = <PyObject*>number if place == -1 else <PyObject*>shape
                # The callee may use the slot before the first argument (vectorcall protocol).
                found = PyObject_Vectorcall(
                    function, arguments + 1, <size_t>count | (<size_t>1 << (8 * sizeof(size_t) - 1)), NULL
                )
            else:
                many = [space, g]
                for place in places:
                    many.append(saved[<Py_ssize_t>place] if place >= 0 else number if place == -1 else shape)
                found = function(*many)
            if found is not None:
                found = fitting(found, after)
                is_free = is_free and root_of(<cnp.ndarray>found) is not root
                self._add_gradient(after, <cnp.ndarray>found, pending, root, is_sole, saved, node, i)
                found = None
            if holds is not None:
                for place in <tuple>node.plan.done[len(steps) - 1 - left]:
                    (<list>saved)[<Py_ssize_t>place] = holds[<Py_ssize_t>place] = None
        node.is_in_use = False
        if not self.retain_graph:
            node.recipe = None
            if holds_memory(saved):
                node.saved = None
                node.holds = ()

    cdef object _restore_and_step(self, Node node, PendingGradient pending):
        packed = self._outside(_restore, node, None)
        try:
            self.step(node, pending)
        finally:
            put_back(node, packed)

    cdef int _evaluate_together(
        self, Node node, cnp.ndarray g, PendingGradient pending, cnp.ndarray root, tuple saved, bint is_free
    ) except -1:
        """Compute the gradients of all inputs with one function, and add each to its node."""
        cdef Py_ssize_t i
        cdef Node after
        cdef list given
        cdef bint is_over = False
        function, wanted, places = node.plan.together
        given = [g, wanted]
        for place in <tuple>places:
            if place < 0:
                is_over = is_free  # the function writes at most one gradient over `g`
                given.append(is_free)
            else:
                given.append(saved[<Py_ssize_t>place])
        found = function(*given)
        for i in range(len(node.next)):
            if node.next[i] is not None and found[i] is not None:
                after = <Node>node.next[i]
                self._add_gradient(after, fitting(found[i], after), pending, root, is_over, saved, node, i)
        return 0

    cdef int _add_gradient(
        self, Node after, cnp.ndarray out, PendingGradient of, cnp.ndarray root, bint is_sole, object saved,
        Node node,
        Py_ssize_t i,
    ) except -1:
        """Add `out` to the gradient of `after`. `node` computed it from its own gradient `of` with `root`."""
        cdef cnp.ndarray own = root_of(out)
        cdef Share share = None
        cdef bint is_owned = _is_writable(out)
        if own is root:
            is_owned = is_owned and is_sole and of.is_owned
            share = None if of.share is None else new_share(of.share.buffer, out)
        else:
            for value in saved:
                if isinstance(value, cnp.ndarray) and root_of(<cnp.ndarray>value) is own:
                    # Other code may write to the saved value after the node releases it.
                    out = contiguous_copy(out)
                    is_owned = True
                    break
        if self.anomalies is not None:
            self.anomalies.check(out, node, i)
        self._accumulate(self._sum_for(after, i), out, share, is_owned)
        return 0

    cdef PendingGradient _sum_for(self, Node after, Py_ssize_t i):
        """Return the sum to which the gradient of input `i` of a node is added."""
        return <PendingGradient>(self.pending[after] if self.received is None else self.received[i])

    cdef int _accumulate(self, PendingGradient to, object g, Share share, bint is_owned) except -1:
        """Add `g` to the sum, in place if no other code uses its memory."""
        cdef cnp.ndarray new
        if to.value is None:
            to.value = g
            to.share = share
            to.is_owned = is_owned
            return 0
        if self.is_recorded:
            to.value = to.value + g
            return 0
        new = g
        self.enter_kernels(is_worth_pooling(cnp.PyArray_NBYTES(new)))
        add_array(to, new, share, is_owned)
        return 0

    def add(self, Node to not None, TensorCore x not None, Node node not None, Py_ssize_t i) -> None:
        """Add the values of `x`, the gradient of input `i` of `node`, to the sum of `to`."""
        cdef cnp.ndarray out
        cdef Share share
        if self.is_recorded:
            if self.anomalies is not None:
                self.anomalies.check(x, node, i)
            self._accumulate(self._sum_for(to, i), x, None, False)
            return
        share = take_snapshot(x)
        self.enter_kernels(is_worth_pooling(cnp.PyArray_NBYTES(share.array)))
        try:
            out = fitting(share.array, to)
            if self.anomalies is not None:
                self.anomalies.check(out, node, i)
            if root_of(out) is root_of(share.array):
                self._accumulate(self._sum_for(to, i), out, share, False)
            else:
                self._accumulate(self._sum_for(to, i), out, None, _is_writable(out))
        except MemoryError:
            self.is_outside = False
            raise
        finally:
            self.leave_kernels()  # user code called this

    def put(
        self, Node call not None, Py_ssize_t place, Py_ssize_t count, PendingGradient pending not None
    ) -> None:
        """Set or add to the gradient of output number `place` (of `count`) of `call`."""
        cdef PendingGradient to = <PendingGradient>self.pending[call]
        cdef PendingGradient before
        if to.value is None:
            to.value = [None] * count
        before = to.value[place]
        if before is None:
            to.value[place] = moved(pending)
            return
        # Two threads that read an output at the same time may have created two nodes for it.
        self._accumulate(before, pending.value, pending.share, pending.is_owned)
        self.leave_kernels()

    def as_tensor(self, PendingGradient pending not None, bint compact=False) -> TensorCore:
        """Return the sum as a tensor for user code, and leave `pending` empty.

        With `compact`, an expanded array is not copied in full. Then the tensor can't be written to.
        """
        cdef PendingGradient own = moved(pending)
        cdef cnp.ndarray array
        if self.is_recorded:
            # Copy-on-write, because the user may write to the tensor, and other nodes use it.
            return with_history(wrap_snapshot(own.value), own.value)
        array = own.value
        if own.is_owned:
            return wrap(array)
        if own.share is not None and not is_expanded(array):
            return wrap_share(new_share(own.share.buffer, array))
        return wrap(compact_copy(array) if compact else contiguous_copy(array))

    cdef int _run_hooks(self, Node node, PendingGradient pending) except -1:
        """Replace the gradient with the result of the hooks of the tensor of `node`."""
        if node.hooks.before or node.hooks.keeper is not None:
            self.leave_kernels()
            self._replace(
                pending, self._outside(node.hooks.pass_through, node, self.as_tensor(pending))
            )
        return 0

    cdef int _replace(self, PendingGradient pending, given) except -1:
        """Set the gradient to the tensor `given`, which other code may use too, or to None."""
        cdef Share share
        clear(pending)
        if self.is_recorded or given is None:
            pending.value = given
            return 0
        share = take_snapshot(<TensorCore?>given)
        pending.value = share.array
        pending.share = share
        return 0

    cdef int _run_node_hooks(self, Node node, PendingGradient pending) except -1:
        """Evaluate `node` between its prehooks and its hooks, and pass on the gradients that these return."""
        cdef list received = []
        cdef list tensors = []
        cdef PendingGradient one
        places = node.input_places()
        outputs = self._run_prehooks(node, pending)
        for x in node.next:
            received.append(None if x is None else new_pending(x, 0))
        if pending.value is not None:
            self.received = received
            try:
                if type(node) is not Node:
                    self._outside(node.step, pending, self)
                else:
                    self.step(node, pending)
            finally:
                self.received = None
            self.leave_kernels()
        for place in places:
            one = received[place]
            tensors.append(None if one is None or one.value is None else self.as_tensor(one))
        given = self._outside(node.hooks.after_node, tuple(tensors), outputs)
        for place, x in zip(places, given):
            if x is not None:
                one = received[place]
                self._replace(one, x)
                self._accumulate(<PendingGradient>self.pending[one.node], one.value, one.share, False)
        return 0

    cdef tuple _run_prehooks(self, Node node, PendingGradient pending):
        """Replace the gradients of the outputs with the result of the prehooks. Return them as tensors."""
        cdef list sums = pending.value if isinstance(pending.value, list) else [pending]
        cdef list tensors = []
        cdef PendingGradient one
        if pending.value is None:
            sums = [None] * node.count_outputs()
        self.leave_kernels()
        for one in sums:
            tensors.append(None if one is None else self.as_tensor(one))
        outputs = self._outside(_call_prehooks, node, tuple(tensors))
        for i, x in enumerate(<tuple>outputs):
            one = sums[i]
            if one is not None:
                self._replace(one, x)
                if x is None and one is not pending:
                    sums[i] = None
        return outputs

    # --- Leaves ---------------------------------------------------------------------------------------------

    cdef int _accumulate_now(self, Node node, PendingGradient pending) except -1:
        """Accumulate the gradient of one leaf now, and call its post-accumulate hooks."""
        hooks = node.hooks
        self.leave_kernels()
        outputs = self._run_prehooks(node, pending) if hooks.are_on_node else ()
        if pending.value is not None:
            accumulate([pending])
            clear(pending)
            x = node.tensor()
            if isinstance(x, TensorCore):
                self._outside(_call_each, list(hooks.after.values()), x)
        self._outside(hooks.after_node, (), outputs)
        return 0


cdef tuple _widened(tuple saved):
    wide = []
    for value in saved or ():
        wide.append(widened(value))
    return tuple(wide)


def _restore(node, _):
    return restore(node)


def _call_prehooks(node, outputs):
    return node.hooks.before_node(outputs)


def _call_each(functions, x):
    for function in functions:
        function(x)


cdef inline bint _is_writable(cnp.ndarray array) noexcept:
    return cnp.PyArray_ISWRITEABLE(array) and not is_expanded(array)


cdef bint _is_large(cnp.ndarray g, tuple saved, tuple nexts) except -1:
    """Return whether results may be large enough for the pool."""
    cdef Py_ssize_t size
    cdef Node after
    if is_worth_pooling(cnp.PyArray_NBYTES(g)):
        return True
    for x in saved:
        if isinstance(x, cnp.ndarray) and is_worth_pooling(cnp.PyArray_NBYTES(<cnp.ndarray>x)):
            return True
    for y in nexts:
        if y is not None:
            after = <Node>y
            size = cnp.PyArray_ITEMSIZE(g)
            for n in <tuple>after.shape or ():
                size *= <Py_ssize_t>n
            if is_worth_pooling(size):
                return True
    return False
