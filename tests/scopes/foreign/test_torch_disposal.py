"""PyTorch's tensors end with their scope: memory back, each later use an error, gradients as they were."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scopes
from scopes import DisposeStatistics, TensorDisposedError, dispose, new_dispose_scope, statistics

torch = pytest.importorskip("torch")
from torch.testing._internal.generated.annotated_fn_args import annotated_args  # noqa: E402

import scopes.torch  # noqa: E402
from scopes.adapters.torch.memory import SHOWS_SAVED  # noqa: E402

Window = Callable[[], DisposeStatistics]


def memory_of(x: Any) -> Callable[[], bool]:
    """Return what tells whether the memory of `x` is back."""
    reference = torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage())
    return reference.expired


def disposed(x: Any) -> Any:
    dispose(x)
    return x


def test_disposed_tensor_frees_its_memory_even_if_a_reference_exists() -> None:
    with new_dispose_scope() as scope:
        x = scope.attach(torch.ones(1000))
        is_back = memory_of(x)
        assert not is_back()
    assert is_back()
    assert x is not None


def test_the_error_names_shape_dtype_and_scope() -> None:
    with new_dispose_scope("step") as scope:
        x = scope.attach(torch.ones(2, 3, dtype=torch.float64))
    with pytest.raises(
        TensorDisposedError,
        match=r"this torch tensor \(shape \(2, 3\), dtype torch\.float64\) is empty: its dispose scope "
        r"'step' ended\. Move it out before that scope ends",
    ):
        x.sum()


def test_with_tracking_the_error_names_the_lines_of_creation_and_end() -> None:
    with scopes.track(), scopes.torch.owning():
        with new_dispose_scope():
            x = torch.ones(2)
        with pytest.raises(TensorDisposedError, match=r"created by \S*test_torch_disposal\.py:\d+ in test_w"):
            x + 1


USES: dict[str, Callable[[Any], object]] = {
    "arithmetic": lambda x: x + 1,
    "arithmetic, reflected": lambda x: 1 + x,
    "another's arithmetic": lambda x: torch.ones(2) * x,
    "in place": lambda x: torch.ones(2).add_(x),
    "out": lambda x: torch.add(torch.ones(2), 1, out=x),
    "matrix product": lambda x: x @ x,
    "index": lambda x: x[0],
    "as an index": lambda x: torch.ones(2)[x],
    "assignment": lambda x: x.__setitem__(0, 1.0),
    "comparison": lambda x: x == x,
    "truth": bool,
    "length": len,
    "iteration": list,
    "float": float,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "shape": lambda x: x.shape,
    "dtype": lambda x: x.dtype,
    "device": lambda x: x.device,
    "size": lambda x: x.size(),
    "data": lambda x: x.data,
    "grad": lambda x: x.grad,
    "requires_grad": lambda x: x.requires_grad,
    "setting requires_grad": lambda x: setattr(x, "requires_grad", True),
    "setting data": lambda x: setattr(x, "data", torch.ones(2)),
    "data of another": lambda x: setattr(torch.ones(2), "data", x),
    "grad of another": lambda x: setattr(torch.ones(2), "grad", x),
    "backward": lambda x: x.backward(),
    "autograd.grad": lambda x: torch.autograd.grad(x, x),
    "detach": lambda x: x.detach(),
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(torch.float64),
    "numpy": lambda x: x.numpy(),
    "numpy.asarray": np.asarray,
    "dlpack": lambda x: x.__dlpack__(),
    "from_dlpack": torch.from_dlpack,
    "storage": lambda x: x.untyped_storage(),
    "data_ptr": lambda x: x.data_ptr(),
    "stack": lambda x: torch.stack([x, x]),
    "cat": lambda x: torch.cat([torch.ones(2), x]),
    "torch.tensor": torch.tensor,
    "torch.tensor of a list": lambda x: torch.tensor([x]),
    "functional": lambda x: torch.nn.functional.relu(x),
    "a module": lambda x: torch.nn.Linear(2, 2)(x),
    "Parameter": lambda x: torch.nn.Parameter(x),
    "einsum": lambda x: torch.einsum("i,i->", x, x),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "save": lambda x: torch.save(x, io.BytesIO()),
    "format": lambda x: f"{x:.2f}",
    "a subclass's constructor": lambda x: torch.Tensor._make_subclass(torch.Tensor, x),
    "an operator": lambda x: torch.ops.aten.add.Tensor(x, x),
    "vmap": lambda x: torch.func.vmap(lambda y: y + 1)(x),
    "foreach": lambda x: torch._foreach_add([x], 1),
    "clip_grad": lambda x: torch.nn.utils.parameters_to_vector([x]),
    "set_": lambda x: torch.empty(0).set_(x),
    "share_memory_": lambda x: x.share_memory_(),
    "register_hook": lambda x: x.register_hook(print),
    "swap": lambda x: torch.utils.swap_tensors(x, torch.ones(2)),
}


# These ask no `__torch_function__` of what is assigned: the error is PyTorch's, about the device "meta";
# or about weak references to the tensor.
BY_TORCH = {"data of another", "grad of another", "swap"}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("use", USES)
def test_each_use_of_a_disposed_tensor_is_an_error(use: str) -> None:
    x = disposed(torch.ones(2))
    if use in BY_TORCH:
        with pytest.raises(RuntimeError):
            USES[use](x)
    else:
        with pytest.raises(TensorDisposedError, match=r"shape \(2,\)"):
            USES[use](x)


# One argument of each type in PyTorch's signatures.
ARGUMENTS: dict[str, object] = {
    "Tensor": torch.ones(2),
    "c10::List<::std::optional<Tensor>>": [torch.zeros(1, dtype=torch.long)],
    "Scalar": 1.0,
    "double": 1.0,
    "int64_t": 0,
    "SymInt": 0,
    "IntArrayRef": (0,),
    "SymIntArrayRef": (0,),
    "bool": True,
    "c10::string_view": "mean",
    "ScalarType": torch.float32,
}
# Of methods without a signature there, or with one that leaves out the names of keywords.
CALLS: dict[str, Callable[[Any], object]] = {
    "_make_subclass": lambda x: x._make_subclass(torch.Tensor, x),
    "_reduce_ex_internal": lambda x: x._reduce_ex_internal(2),
    "apply_": lambda x: x.apply_(abs),
    "argsort": lambda x: x.argsort(stable=True),
    "as_subclass": lambda x: x.as_subclass(torch.Tensor),
    "copy_": lambda x: x.copy_(torch.ones(2)),
    "div": lambda x: x.div(2.0, rounding_mode="floor"),
    "div_": lambda x: x.div_(2.0, rounding_mode="floor"),
    "divide": lambda x: x.divide(2.0, rounding_mode="floor"),
    "divide_": lambda x: x.divide_(2.0, rounding_mode="floor"),
    "map2_": lambda x: x.map2_(torch.ones(2), torch.ones(2), max),
    "map_": lambda x: x.map_(torch.ones(2), max),
    "module_load": lambda x: x.module_load(torch.ones(2)),
    "nonzero_static": lambda x: x.nonzero_static(size=2),
    "index": lambda x: x.index([0], [0]),
    "record_stream": lambda x: x.record_stream(torch.Stream()),
    "register_post_accumulate_grad_hook": lambda x: x.register_post_accumulate_grad_hook(print),
    "register_hook": lambda x: x.register_hook(print),
    "resize_as": lambda x: x.resize_as(torch.ones(2)),
    "scatter": lambda x: x.scatter(0, torch.tensor([0]), 1.0, reduce="add"),
    "sort": lambda x: x.sort(stable=True),
}
# PyTorch's own, which say nothing of the values; constructors; and what PyTorch no longer has.
OTHER = {"_fix_weakref", "_has_symbolic_sizes_strides", "_python_dispatch", "_use_count", "is_invalid"}
OTHER |= {"_rev_view_func_unsafe", "_view_func", "_view_func_unsafe"}
OTHER |= {"_dtensor__new__", "_make_wrapper_subclass", "eig", "lstsq", "reinforce", "solve", "symeig"}


def call(x: Any, name: str) -> object:
    """Call the method `name` of `x` with arguments that it takes, or get the attribute."""
    if name in CALLS:
        return CALLS[name](x)
    method = getattr(torch.Tensor, name)
    signature = annotated_args.get(method, []) if callable(method) else []
    arguments = [
        ARGUMENTS[each["simple_type"].removesuffix("?")] for each in signature if each["name"] != "self"
    ]
    found = getattr(x, name)
    return found(*arguments) if callable(found) else found


@pytest.mark.filterwarnings("ignore")  # deprecated names
@pytest.mark.parametrize("name", [n for n in dir(torch.Tensor) if not n.startswith("__") and n not in OTHER])
def test_every_method_of_a_disposed_tensor_raises(name: str) -> None:
    x = disposed(torch.ones(2))
    with pytest.raises(TensorDisposedError, match=r"shape \(2,\)"):
        call(x, name)


def test_a_disposed_tensor_can_be_printed_hashed_compared_by_identity_and_asked() -> None:
    x = torch.ones(2)
    number = hash(x)
    dispose(x)
    assert repr(x).startswith("<disposed: this torch tensor (shape (2,), dtype torch.float32) is empty")
    assert hash(x) == number
    assert x.is_invalid
    assert isinstance(x, torch.Tensor)


def test_gradients_after_a_disposal_equal_those_without_it() -> None:
    def step(*, ends: bool) -> list[Any]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        x = torch.randn(5, 4)
        hidden = model[1](model[0](x))
        loss = (model[2](hidden) ** 2).mean()
        if ends:
            dispose(x, hidden)
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters())]

    for with_end, without in zip(step(ends=True), step(ends=False), strict=True):
        assert torch.equal(with_end, without)


def test_a_custom_function_gets_its_saved_values_unchanged_in_backward() -> None:
    class Square(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            assert type(x) is torch.Tensor
            return 2 * x * gradient

    weight = torch.ones(3, requires_grad=True)
    x = weight * 3
    loss = Square.apply(x).sum()
    dispose(x)
    loss.backward()
    assert weight.grad.tolist() == [18.0, 18.0, 18.0]


def test_memory_that_a_graph_needs_is_freed_with_the_graph() -> None:
    weight = torch.ones(1000, requires_grad=True)
    with scopes.track(), new_dispose_scope("step") as scope:
        x = scope.attach(weight.exp())
        loss = (x * x).sum()
        is_back = memory_of(x)
        scope.dispose()
        assert not is_back()
        (row,) = scopes.torch.still_held().rows
        assert (row.nbytes, row.device, row.by) == (4000, "cpu", "a graph, for backward")
    loss.backward()
    assert is_back()
    assert scopes.torch.still_held().rows == ()
    assert str(scopes.torch.still_held()) == "all memory of disposed torch tensors is free"


@pytest.mark.skipif(not SHOWS_SAVED, reason="this version shows what a graph keeps only after its hooks")
def test_the_report_names_the_line_of_the_tensor_whose_graph_holds_memory() -> None:
    weight = torch.ones(1000, requires_grad=True)
    with scopes.track(), scopes.torch.owning():
        with new_dispose_scope("step") as scope:
            hidden = weight * 2
            loss = scope.detach((hidden * hidden).sum())
        (row,) = scopes.torch.still_held().rows
        assert (row.nbytes, row.by) == (4000, "a graph, for backward")
        assert row.site.text == "hidden = weight * 2"
        assert row.holder is not None
        assert row.holder.text == "loss = scope.detach((hidden * hidden).sum())"
        assert f"a graph, for backward: {row.holder}" in str(scopes.torch.still_held())
    del loss
    assert scopes.torch.still_held().rows == ()


def test_the_report_names_the_line_of_the_view_that_holds_memory() -> None:
    with scopes.track(), scopes.torch.owning():
        with new_dispose_scope("step") as scope:
            whole = torch.arange(1000.0)
            first = scope.detach(whole[:10])
        (row,) = scopes.torch.still_held().rows
        assert (row.nbytes, row.by, row.scope) == (4000, "a view or a detached tensor", ("step",))
        assert row.holder is not None
        assert row.holder.text == "first = scope.detach(whole[:10])"
    assert first.sum().item() == 45.0


def test_the_report_says_export_where_no_tensor_is_over_the_memory() -> None:
    with scopes.track(), scopes.torch.owning():
        with new_dispose_scope():
            x = torch.arange(5.0)
            array = x.numpy()
        (row,) = scopes.torch.still_held().rows
        assert (row.by, row.holder) == ("a view, a detached tensor, NumPy or another export", None)
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_view_keeps_the_memory_and_lives_on() -> None:
    with scopes.track(), new_dispose_scope() as scope:
        x = scope.attach(torch.arange(1000.0))
        is_back = memory_of(x)
        view = x[:10]
        scope.dispose()
        assert view.sum().item() == 45.0
        assert not is_back()
        report = scopes.torch.still_held()
        assert report.nbytes == 4000
        assert "test_torch_disposal.py" in str(report)
    del view
    assert is_back()


@pytest.mark.parametrize("exact", [False, True])
def test_an_array_of_numpy_keeps_the_memory_and_stays_valid(exact: bool) -> None:
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        x = torch.arange(5.0)
        is_back = memory_of(x)
        array = x.numpy()
        others = [np.asarray(x), x.detach().numpy(), x[1:].numpy(), x.numpy(force=True)]
    gc.collect()
    assert not is_back()
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    del array, others
    assert is_back()


def test_a_capsule_of_dlpack_keeps_the_memory_and_stays_valid() -> None:
    x = torch.arange(5.0)
    other = torch.from_dlpack(x)
    array = np.from_dlpack(x)
    dispose(x)
    gc.collect()
    assert other.tolist() == array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_retain_grad_keeps_the_memory_and_the_tensor_is_still_disposed() -> None:
    weight = torch.ones(1000, requires_grad=True)
    with scopes.track(), new_dispose_scope() as scope:
        x = scope.attach(weight * 2)
        x.retain_grad()
        loss = x.sum()
        scope.dispose()
        with pytest.raises(TensorDisposedError):
            x + 1
        assert scopes.torch.still_held().rows[0].by.startswith("PyTorch (retain_grad")
    loss.backward()
    assert weight.grad.sum().item() == 2000.0


def test_the_autocast_cache_is_cleared_where_it_would_keep_tensors() -> None:
    weight = torch.ones(4, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.ones(4, 4) @ weight
        is_back = memory_of(y)
        dispose(weight, y)
        assert is_back()
        with pytest.raises(TensorDisposedError):
            torch.ones(4, 4) @ weight


def test_a_scope_that_ends_on_another_thread_takes_the_class_alone() -> None:
    scope = new_dispose_scope()
    x = scope.attach(torch.ones(1000))
    is_back = memory_of(x)
    thread = threading.Thread(target=scope.dispose)
    thread.start()
    thread.join()
    with pytest.raises(TensorDisposedError):
        x + 1
    assert not is_back()
    del x
    assert is_back()


class Square(torch.autograd.Function):  # type: ignore[misc, name-defined]
    """Saves its argument, and uses it in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def test_backward_may_use_a_tensor_whose_class_alone_is_disposed() -> None:
    scope = new_dispose_scope()
    x = scope.attach(torch.tensor([1.0, 2.0], requires_grad=True))
    loss = Square.apply(x).sum()
    thread = threading.Thread(target=scope.dispose)
    thread.start()
    thread.join()
    with pytest.raises(TensorDisposedError):
        x + 1
    weight = torch.tensor([3.0], requires_grad=True)
    (loss * weight).sum().backward()
    assert weight.grad.tolist() == [5.0]
    with pytest.raises(TensorDisposedError):
        x + 1


def test_backward_may_use_a_tensor_with_a_retained_gradient_under_a_mode() -> None:
    weight = torch.ones(3, requires_grad=True)
    with scopes.torch.owning(exact=True):
        with new_dispose_scope() as scope:
            x = weight * 2
            x.retain_grad()
            loss = scope.detach(Square.apply(x).sum())
        loss.backward()
    assert weight.grad.tolist() == [8.0] * 3


class Tagged(torch.Tensor):  # type: ignore[misc, name-defined]
    """A user's own tensor."""


class Slotted(torch.Tensor):  # type: ignore[misc, name-defined]
    __slots__ = ("tag",)


KINDS: dict[str, Callable[[], Any]] = {
    "float": lambda: torch.ones(10),
    "complex": lambda: torch.ones(10, dtype=torch.complex64),
    "bool": lambda: torch.ones(10, dtype=torch.bool),
    "float8": lambda: torch.ones(10).to(torch.float8_e4m3fn),
    "empty": lambda: torch.ones(0),
    "no dimension": lambda: torch.tensor(1.0),
    "expanded": lambda: torch.ones(1).expand(10),
    "view": lambda: torch.ones(10)[2:5],
    "sparse coo": lambda: torch.eye(3).to_sparse(),
    "sparse csr": lambda: torch.eye(3).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "nested jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "meta": lambda: torch.ones(10, device="meta"),
    "parameter": lambda: torch.nn.Parameter(torch.ones(10)),
    "buffer": lambda: torch.nn.Buffer(torch.ones(10)),
    "subclass": lambda: torch.ones(10).as_subclass(Tagged),
    "subclass with slots": lambda: torch.ones(10).as_subclass(Slotted),
    "inference": lambda: _in_inference_mode(),
    "shared": lambda: torch.ones(10).share_memory_(),
    "leaf with gradient": lambda: _with_gradient(),
    "recorded": lambda: torch.ones(10, requires_grad=True) * 2,
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(10), 0.1, 0, torch.quint8),
    "mkldnn": lambda: torch.ones(10).to_mkldnn(),
    "conjugated": lambda: torch.ones(10, dtype=torch.complex64).conj(),
}


def _in_inference_mode() -> Any:
    with torch.inference_mode():
        return torch.ones(10)


def _with_gradient() -> Any:
    x = torch.ones(10, requires_grad=True)
    x.sum().backward()
    return x


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_every_kind_can_be_owned_and_disposed(kind: str, window: Window) -> None:
    with new_dispose_scope() as scope:
        x = scope.attach(KINDS[kind]())
        assert x in scope
        assert scope.nbytes >= 0
    for use in ("arithmetic", "shape", "deepcopy"):
        with pytest.raises(TensorDisposedError):
            USES[use](x)
    del x
    assert window().live_count == 0


def test_an_attribute_of_a_users_own_does_not_keep_memory_but_where_a_graph_needs_it() -> None:
    x = torch.ones(10).as_subclass(Tagged)
    x.label = torch.ones(1000)
    is_back = memory_of(x.label)
    dispose(x)
    assert is_back()


def test_modules_optimizers_and_dict_like_outputs_are_looked_through() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    model.extra = torch.ones(3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    with new_dispose_scope() as scope:
        scope.attach(model, optimizer)
        state = [x for each in optimizer.state.values() for x in each.values() if isinstance(x, torch.Tensor)]
        for x in (*model.parameters(), *model.buffers(), model.extra, *state):
            assert x in scope
        scope.detach(model)
    with pytest.raises(TensorDisposedError):
        state[0] + 1
    assert model(torch.ones(4, 2)).isfinite().all()


def test_a_named_tuple_of_torch_moves_out_whole() -> None:
    with scopes.torch.owning(), new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            found = inner.move_to_outer(torch.ones(2, 3).max(dim=1))
        assert found.values.tolist() == [1.0, 1.0]
        assert found.indices in outer


def test_statistics_count_tensors_of_pytorch(window: Window) -> None:
    before = statistics.of(torch.Tensor).snapshot()
    with new_dispose_scope() as scope, scopes.torch.owning():
        x = torch.ones(2)
        y = scope.detach(x * 2)
    change = statistics.of(torch.Tensor).snapshot() - before
    assert (change.created_in_scope_count, change.disposed_in_scope_count) == (2, 1)
    assert (change.detached_from_scope_count, change.live_count) == (1, 1)
    del x, y
    assert window().live_count == 0


def test_ownership_is_nowhere_in_the_tensor() -> None:
    with new_dispose_scope() as scope:
        x = scope.attach(torch.ones(2))
        assert vars(x) == {}
        y = copy.deepcopy(x)
        z = pickle.loads(pickle.dumps(x))
        assert y not in scope
        assert z not in scope
    assert y.tolist() == z.tolist() == [1.0, 1.0]


def test_tied_storages_count_once_and_end_apart() -> None:
    with new_dispose_scope() as scope:
        x = scope.attach(torch.ones(1000))
        y = scope.attach(x.view(10, 100))
        assert scope.nbytes == 4000
        dispose(x)
        assert y.sum().item() == 1000.0


def test_during_profiling_a_disposed_tensor_raises_and_its_memory_is_freed() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True):
        with new_dispose_scope() as scope:
            x = scope.attach(torch.ones(1000))
            is_back = memory_of(x)
        with pytest.raises(TensorDisposedError):
            x + 1
    del x
    gc.collect()
    assert is_back()


def test_tied_parameters_end_together_and_each_module_says_so() -> None:
    encoder = torch.nn.Linear(3, 3, bias=False)
    decoder = torch.nn.Linear(3, 3, bias=False)
    decoder.weight = encoder.weight
    with new_dispose_scope() as scope:
        scope.attach(encoder, decoder)
        assert len(scope) == 1
    for module in (encoder, decoder):
        with pytest.raises(TensorDisposedError):
            module(torch.ones(1, 3))


def add_one(pipe: Any) -> None:
    x = pipe.recv()
    pipe.send("taken")
    pipe.recv()
    pipe.send((x + 1).tolist())


def test_another_process_keeps_memory_that_it_shares() -> None:
    context = torch.multiprocessing.get_context("spawn")
    pipe, far_end = context.Pipe()
    child = context.Process(target=add_one, args=(far_end,))
    child.start()
    far_end.close()  # a child that fails ends the wait
    try:
        with new_dispose_scope() as scope:
            x = scope.attach(torch.ones(3).share_memory_())
            pipe.send(x)
            assert pipe.poll(600)
            assert pipe.recv() == "taken"
        with pytest.raises(TensorDisposedError):
            x + 1
        pipe.send("go on")
        assert pipe.poll(600)
        assert pipe.recv() == [2.0, 2.0, 2.0]
    finally:
        child.join(600)
    assert child.exitcode == 0


def test_memory_that_is_still_held_is_reported_by_scope() -> None:
    arrays, tensors = [], []
    with scopes.track(), scopes.torch.owning(), new_dispose_scope("epoch") as epoch:
        for name in ("train", "validate", None):
            with new_dispose_scope(name) as scope:
                x = torch.ones(1000)
                arrays.append(x.numpy())
                tensors.append(x)
        assert [row.scope for row in scopes.torch.still_held("train").rows] == [("epoch", "train")]
        assert len(scopes.torch.still_held("epoch").rows) == len(scopes.torch.still_held(epoch).rows) == 3
        assert len(scopes.torch.still_held(scope).rows) == 1  # without a name
        assert scopes.torch.still_held("test").rows == ()
    arrays.clear()
