"""Scopes own new PyTorch tensors by themselves, and never what belongs to somebody else."""

from __future__ import annotations

import copy
import gc
import importlib
import os
import pickle
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scopes
from scopes import DisposeStatistics, TensorDisposedError, current_dispose_scope, disposing, new_dispose_scope

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from scopes.adapters.foreign import is_adopted  # noqa: E402
from scopes.adapters.patches import Patches  # noqa: E402
from scopes.adapters.torch import owning  # noqa: E402
from scopes.lowlevel import owner_of  # noqa: E402

Window = Callable[[], DisposeStatistics]
both = pytest.mark.parametrize("exact", [False, True], ids=["functions", "operators"])


MAKERS: dict[str, Callable[[], Any]] = {
    "ones": lambda: torch.ones(2),
    "tensor": lambda: torch.tensor([1.0, 2.0]),
    "rand": lambda: torch.rand(2),
    "arange": lambda: torch.arange(2),
    "a method": lambda: torch.ones(2).exp(),
    "an operator": lambda: torch.ones(2) + 1,
    "a function": lambda: torch.nn.functional.softmax(torch.ones(2), dim=0),
    "a view": lambda: torch.ones(2, 2)[0],
    "new_zeros": lambda: torch.ones(2).new_zeros(2),
    "as_tensor": lambda: torch.as_tensor([1.0]),
    "asarray of NumPy": lambda: torch.asarray(np.ones(2)),
    "from_numpy": lambda: torch.from_numpy(np.ones(2)),
    "frombuffer": lambda: torch.frombuffer(bytearray(8), dtype=torch.float32),
    "from_dlpack": lambda: torch.from_dlpack(np.ones(2)),
    "the constructor": lambda: torch.Tensor([1.0, 2.0]),
    "data": lambda: torch.ones(2).data,
    "clone": lambda: torch.ones(2).clone(),
    "to": lambda: torch.ones(2).to(torch.float64),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "complex": lambda: torch.ones(2, dtype=torch.complex64) * 1j,
    "deepcopy": lambda: copy.deepcopy(torch.ones(2)),
    "unpickled": lambda: pickle.loads(PICKLED),
    "autograd.grad": lambda: torch.autograd.grad(LEAF.sum(), LEAF)[0],
    "a module": lambda: MODULE(torch.ones(1, 2)),
    "a custom function": lambda: Twice.apply(torch.ones(2)),
    "einsum": lambda: torch.einsum("i,i->", torch.ones(2), torch.ones(2)),
    "fft": lambda: torch.fft.fft(torch.ones(2)),
    "linalg": lambda: torch.linalg.inv(torch.eye(2)),
    "vmap": lambda: torch.func.vmap(lambda x: x * 2)(torch.ones(2)),
    "func.grad": lambda: torch.func.grad(lambda x: (x * x).sum())(torch.ones(2)),
}
PICKLED = pickle.dumps(torch.ones(2))
LEAF = torch.ones(2, requires_grad=True)
MODULE = torch.nn.Linear(2, 2)


class Twice(torch.autograd.Function):  # type: ignore[misc, name-defined]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or not torch.__version__.startswith("2.13."),
    reason="this Python or this PyTorch is not the one where births are known to be noted",
)
@pytest.mark.skipif("DISPOSESCOPE_TORCH_NOTES" in os.environ, reason="this environment chooses the way")
def test_births_are_noted_where_they_are_known_to_be() -> None:
    # Otherwise a mode stands in for them, and their own tests are skipped.
    assert owning.can_note


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("maker", MAKERS)
def test_a_new_tensor_belongs_to_the_current_scope(maker: str) -> None:
    with scopes.torch.owning(), new_dispose_scope() as scope:
        x = MAKERS[maker]()
        assert x in scope
    with pytest.raises(TensorDisposedError):
        x + 1


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("maker", MAKERS)
def test_operators_are_noticed_exactly(maker: str) -> None:
    with scopes.torch.owning(exact=True), new_dispose_scope() as scope:
        assert MAKERS[maker]() in scope


def test_nothing_is_noticed_outside_of_the_block() -> None:
    before = torch.from_numpy, torch.Tensor.__new__, torch.nn.Module._apply
    with scopes.torch.owning():
        assert torch.from_numpy is not before[0]
    assert (torch.from_numpy, torch.Tensor.__new__, torch.nn.Module._apply) == before
    with new_dispose_scope() as scope:
        assert torch.ones(2) not in scope
        assert torch.Tensor([1.0]) not in scope
        assert torch.from_numpy(np.ones(2)) not in scope


def test_blocks_nest_and_a_tensor_is_owned_once(window: Window) -> None:
    with scopes.torch.owning(), scopes.torch.owning(exact=True), new_dispose_scope() as scope:
        x = torch.ones(2)
        assert x in scope
        assert len(scope) == 1
    assert window().live_count == 0


def test_an_exact_block_inside_of_a_tracked_one_leaves_no_mode() -> None:
    with scopes.track(), scopes.torch.owning():
        with scopes.torch.owning(exact=True):
            torch.ones(2)
        with new_dispose_scope() as scope:
            assert torch.ones(2) in scope
    assert torch._C._len_torch_function_stack() == 0
    assert torch._C._len_torch_dispatch_stack() == 0


def test_enable_notices_until_disable() -> None:
    scopes.torch.enable()
    try:
        with new_dispose_scope() as scope:
            assert torch.ones(2) in scope
        scopes.torch.enable(exact=True)
        with new_dispose_scope() as scope:
            assert torch.ones(2) in scope
    finally:
        scopes.torch.disable()
    with new_dispose_scope() as scope:
        assert torch.ones(2) not in scope


@both
def test_a_block_that_cannot_begin_leaves_nothing_behind(
    exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPOSESCOPE_NO_TORCH", "1")  # tracking alone does not intercept calls
    from_numpy, block = torch.from_numpy, scopes.torch.owning(exact=exact)
    with monkeypatch.context() as patched:
        patched.setattr(owning._Functions, "__enter__", lambda mode: 1 / 0)
        with scopes.track(), pytest.raises(ZeroDivisionError):  # a tracker must see each call
            block.__enter__()
    assert torch.from_numpy is from_numpy
    with new_dispose_scope() as scope:
        x = torch.ones(2)
        assert x not in scope
        with block:  # it is not open: a second try may be made
            assert torch.ones(2) is not x
            assert scope.disposables_count == 0
            y = torch.ones(2)
            assert y in scope


def test_functions_are_put_back_when_hooks_cannot_be_registered() -> None:
    library = types.ModuleType("library")
    library.make = list

    def register() -> list[Any]:
        raise OSError("no hooks")

    patches = Patches({(library, "make"): lambda make: lambda: make()}, register)
    for _ in range(2):
        with pytest.raises(OSError, match="no hooks"):
            patches.begin()
        assert library.make is list


def test_a_block_is_entered_once() -> None:
    block = scopes.torch.owning()
    with block, pytest.raises(RuntimeError, match="already open"):
        block.__enter__()


@both
def test_a_scope_keeps_no_tensor_alive(exact: bool, window: Window) -> None:
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        x = torch.ones(2)
        for _ in range(100):
            x = x + 1
        assert len(scope) == 1
    assert window().live_count == 0


@both
def test_results_in_place_stay_where_they_were(exact: bool) -> None:
    x = torch.ones(2)
    out = torch.zeros(2)
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        assert x.add_(1) is x
        assert torch.add(x, 1, out=out) is out
        x += 1
        x[0] = 5
        torch._foreach_add_([x], 1)
        assert x.requires_grad_(False) is x
        assert x.to(torch.float32) is x
        assert x.contiguous() is x
        assert torch.as_tensor(x) is x
        assert len(torch.broadcast_tensors(x, x)) == 2
        assert x not in scope
        assert out not in scope
    assert x.tolist() == [6.0, 4.0]


@both
def test_gradients_belong_to_their_tensor(exact: bool) -> None:
    weight = torch.ones(2, requires_grad=True)
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        (weight * 2).sum().backward()
        assert weight.grad not in scope
        (weight * 2).sum().backward()
    assert weight.grad.tolist() == [4.0, 4.0]
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        weight.grad = weight.grad.clone()
        assert weight.grad not in scope or exact
    if not exact:
        assert weight.grad.tolist() == [4.0, 4.0]


@both
def test_gradients_of_gradients_may_be_taken(exact: bool) -> None:
    weight = torch.ones(2, requires_grad=True)
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        (first,) = torch.autograd.grad((weight**3).sum(), weight, create_graph=True)
        first.sum().backward()
    assert weight.grad.tolist() == [6.0, 6.0]


@both
def test_a_hook_may_keep_what_it_moves_out(exact: bool) -> None:
    kept = []
    model = torch.nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, output: kept.append(output))
    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        model(torch.ones(1, 2))
        assert kept[0] in scope
        scope.detach(kept)
    assert kept[0].isfinite().all()


@both
def test_a_module_made_in_a_scope_outlives_it(exact: bool) -> None:
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        model.register_buffer("mask", torch.ones(2))
        copied = copy.deepcopy(model)
        again = pickle.loads(pickle.dumps(model))
        model.to(torch.float64)
        copied.half().float()
        loaded = torch.nn.BatchNorm1d(2)
        loaded.load_state_dict({k: v.clone() for k, v in loaded.state_dict().items()}, assign=True)
    for made, dtype in ((model, torch.float64), (copied, torch.float32), (again, torch.float32)):
        assert made(torch.ones(4, 2, dtype=dtype)).isfinite().all()
        assert made.mask.sum().item() == 2
    assert loaded(torch.ones(4, 2)).isfinite().all()


class Caching(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Makes what it needs at its first call, and keeps its last result."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.mask: Any = None

    def forward(self, x: Any) -> Any:
        if self.mask is None:
            self.mask = torch.ones(3)
            self.tables = {"sine": [torch.zeros(3)]}
        self.last = self.layer(x) * self.mask + self.tables["sine"][0]
        return self.last


@both
def test_a_module_keeps_the_constants_that_its_code_made_and_no_graph(exact: bool) -> None:
    module = Caching()
    with scopes.torch.owning(exact=exact):
        for _ in range(3):
            with new_dispose_scope():
                module(torch.ones(2, 3)).sum().backward()
    assert module.mask.tolist() == [1.0, 1.0, 1.0]
    assert module.tables["sine"][0].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(TensorDisposedError):
        module.last.sum()


def test_a_disposed_tensor_may_be_an_attribute_of_a_module() -> None:
    module = torch.nn.Module()
    with scopes.torch.owning():
        with new_dispose_scope():
            x = torch.ones(3)
        module.x = x
    with pytest.raises(TensorDisposedError):
        module.x.sum()


def test_a_module_that_assigns_its_attributes_can_be_compiled() -> None:
    module = Caching()
    plain = module(torch.ones(2, 3)).tolist()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    with scopes.torch.owning(), new_dispose_scope():
        assert compiled(torch.ones(2, 3)).tolist() == plain


@both
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS", "NAdam", "ASGD"])
def test_the_state_of_an_optimizer_outlives_the_scope_of_its_step(name: str, exact: bool) -> None:
    def train(*, owned: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01, **options)
        data = torch.randn(8, 3)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (model(data) ** 2).mean()
            loss.backward()
            return loss

        losses = []
        for _ in range(4):
            if owned:
                with scopes.torch.owning(exact=exact), new_dispose_scope():
                    losses.append(optimizer.step(closure).item())
            else:
                losses.append(optimizer.step(closure).item())
        state = copy.deepcopy(optimizer.state_dict())
        optimizer.load_state_dict(state)
        losses.append(optimizer.step(closure).item())
        return losses

    assert train(owned=True) == train(owned=False)


def test_a_loaded_state_outlives_the_scope_that_it_was_loaded_in() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    with scopes.torch.owning(), new_dispose_scope():
        optimizer.load_state_dict(state)
    optimizer.step()


@both
def test_a_gradient_scaler_outlives_the_scope_of_its_first_step(exact: bool) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(3):
        with scopes.torch.owning(exact=exact), new_dispose_scope():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(torch.ones(4, 2)).float().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    assert scaler.get_scale() > 0


@both
def test_autocast_runs_as_without_scopes(exact: bool) -> None:
    def run(*, owned: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        found = []
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for _ in range(3):
                if owned:
                    with scopes.torch.owning(exact=exact), new_dispose_scope():
                        found.append(model(torch.ones(2, 4)).sum().item())
                else:
                    found.append(model(torch.ones(2, 4)).sum().item())
        return found

    assert run(owned=True) == run(owned=False)


def test_a_weight_that_the_cache_of_autocast_made_may_be_taken_from_its_scope() -> None:
    model = torch.nn.Linear(4, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with scopes.torch.owning(exact=True), new_dispose_scope() as scope:
            model(torch.ones(2, 4))
            kept = scope.detach([x for x in scope.disposables_view if x.dtype is torch.bfloat16])
        # PyTorch alone held them before.
        torch.clear_autocast_cache()
    assert len(kept) >= 2
    assert all(x.isfinite().all() for x in kept)


class Numbers(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        return torch.full((3,), float(i))


@pytest.mark.filterwarnings(
    "ignore:.*fork:DeprecationWarning",
    "ignore:os.fork:RuntimeWarning",
    # On one core.
    "ignore:This DataLoader will create 2 worker processes:UserWarning",
)
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_a_loader_prefetched_live_until_their_own_step(workers: int) -> None:
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=workers)
    seen = []
    with scopes.torch.owning():
        batches = iter(loader)
        for _ in range(6):
            with new_dispose_scope() as scope:
                batch = next(batches)
                assert batch in scope
                seen += batch[:, 0].tolist()
            with pytest.raises(TensorDisposedError):
                batch + 1
    assert seen == list(range(12))


def test_owning_applies_only_to_threads_that_enter_it() -> None:
    found: list[bool] = []

    def work() -> None:
        with new_dispose_scope() as scope:
            found.append(torch.ones(2) in scope)
            with scopes.torch.owning():
                found.append(torch.ones(2) in scope)

    with scopes.torch.owning(), new_dispose_scope():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [False, True]


def test_threads_may_run_replicas_inside_of_a_scope() -> None:
    model = torch.nn.Linear(2, 2)
    outputs: list[Any] = [None, None]

    def run(i: int, x: Any) -> None:
        outputs[i] = model(x)

    with scopes.torch.owning(), new_dispose_scope() as scope:
        threads = [threading.Thread(target=run, args=(i, torch.ones(1, 2))) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        joined = torch.cat(outputs)
        assert joined in scope
        joined.sum().backward()
    assert outputs[0].isfinite().all()
    assert model.weight.grad is not None


@both
def test_compiled_functions_are_left_alone_and_their_results_can_be_attached(exact: bool) -> None:
    @torch.compile(backend="eager")
    def compiled(x: Any) -> Any:
        return (x * 2).sum()

    with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
        x = torch.ones(3)
        y = scope.attach(compiled(x))
        assert y.item() == 6.0
    with pytest.raises(TensorDisposedError):
        y + 1
    with scopes.torch.owning(exact=exact), new_dispose_scope():
        assert compiled(torch.ones(3)).item() == 6.0


def test_wrappers_of_torch_func_are_not_owned() -> None:
    inside = []

    def loss(x: Any) -> Any:
        y = x * 2
        inside.append(is_adopted(y))
        return y.sum()

    with scopes.torch.owning(), new_dispose_scope():
        gradients = torch.func.vmap(torch.func.grad(loss))(torch.ones(3, 2))
        assert gradients.tolist() == [[2.0, 2.0]] * 3
    assert inside == [False]


def test_checkpoints_run_as_without_scopes() -> None:
    layer = torch.nn.Linear(3, 3)
    with scopes.torch.owning(), new_dispose_scope():
        x = torch.ones(2, 3)
        torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
    first = layer.weight.grad.clone()
    layer.zero_grad()
    layer(torch.ones(2, 3)).sum().backward()
    assert torch.equal(first, layer.weight.grad)


def test_saved_tensor_hooks_run_as_without_scopes() -> None:
    weight = torch.ones(3, requires_grad=True)
    with scopes.torch.owning(), new_dispose_scope() as outer:
        with new_dispose_scope() as inner, torch.autograd.graph.save_on_cpu():
            loss = inner.move_to_outer((weight.exp() * weight).sum())
        assert loss in outer
        loss.backward()
    assert weight.grad.isfinite().all()


@both
def test_a_pack_hook_gets_the_tensor_that_is_saved_and_may_return_it(exact: bool) -> None:
    def run(*, owned: bool) -> tuple[list[tuple[bool, bool]], list[float]]:
        weight = torch.ones(3, requires_grad=True)
        seen = []

        def pack(x: Any) -> Any:
            seen.append((x is weight, x.grad_fn is None))
            return x

        if not owned:
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
                loss = (weight.exp() * weight).sum()
        else:
            with scopes.torch.owning(exact=exact), new_dispose_scope() as scope:
                with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
                    loss = scope.detach((weight.exp() * weight).sum())
        loss.backward()
        return seen, weight.grad.tolist()

    assert run(owned=True) == run(owned=False)


@both
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions_are_compiled_as_without_scopes(exact: bool, backend: str) -> None:
    counter = importlib.import_module("torch._dynamo.testing").CompileCounterWithBackend(backend)
    weight = torch.ones(3, requires_grad=True)
    compiled = torch.compile(lambda x: (x * 2).sum(), backend=counter)
    for _ in range(2):
        with scopes.torch.owning(exact=exact), new_dispose_scope():
            compiled(weight).backward()
    assert counter.frame_count == 1
    assert weight.grad.tolist() == [4.0, 4.0, 4.0]


def test_a_loss_moved_out_can_be_used_for_backward_after_its_scope() -> None:
    weight = torch.ones(3, requires_grad=True)

    @disposing
    def loss() -> Any:
        hidden = weight * weight
        return (hidden * hidden).sum()

    with scopes.torch.owning(), new_dispose_scope():
        loss().backward()
    assert weight.grad.tolist() == [4.0, 4.0, 4.0]


def test_a_held_exception_holds_no_memory() -> None:
    memory: list[Callable[[], bool]] = []

    def fail() -> None:
        x = torch.ones(1000)
        memory.append(torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage()).expired)
        raise ValueError("no")

    kept = None
    with scopes.torch.owning():
        try:
            with new_dispose_scope():
                fail()
        except ValueError as error:
            kept = error
    assert memory[0]()
    assert kept is not None


def test_a_stored_error_of_pytorchs_holds_no_operand() -> None:
    memory: list[Callable[[], bool]] = []

    def ones(*shape: int) -> Any:
        x = torch.ones(shape)
        memory.append(torch.multiprocessing.reductions.StorageWeakRef(x.untyped_storage()).expired)
        return x

    with scopes.torch.owning():
        with pytest.raises(RuntimeError) as plain:
            ones(100, 100) @ ones(3, 7)
        with pytest.raises(RuntimeError) as named:
            torch.add(ones(100, 100), other=ones(3, 7))
    assert [is_back() for is_back in memory] == [True] * 4
    assert plain.value.__traceback__ is not None
    assert named.value.__traceback__ is not None


def test_our_errors_hold_no_local_variable() -> None:
    with pytest.raises(AttributeError) as caught:
        scopes.torch.memory_by_device("no scope")  # type: ignore[arg-type]
    traceback = caught.value.__traceback__
    inside = []
    while traceback is not None:
        if traceback.tb_frame.f_globals["__name__"].startswith("scopes."):
            inside.append(traceback.tb_frame.f_locals)
        traceback = traceback.tb_next
    assert inside
    assert not any(inside)


def test_a_cycle_gives_its_memory_back_without_the_collector() -> None:
    class Node:
        pass

    gc.disable()
    try:
        with scopes.torch.owning(), new_dispose_scope():
            node = Node()
            node.me, node.x = node, torch.ones(1000)  # type: ignore[attr-defined]
            expired = torch.multiprocessing.reductions.StorageWeakRef(node.x.untyped_storage()).expired  # type: ignore[attr-defined]
            del node
            assert not expired()
        assert expired()
    finally:
        gc.enable()


def test_a_training_loop_under_scopes_gives_the_same_losses_and_a_flat_count(window: Window) -> None:
    def train(*, owned: bool) -> tuple[list[float], list[int]]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(144, 10),
        )
        optimizer = torch.optim.Adam(model.parameters())
        losses, counts = [], []
        for _ in range(5):
            if owned:
                with new_dispose_scope():
                    losses.append(step(model, optimizer))
                counts.append(window().live_count)
            else:
                losses.append(step(model, optimizer))
        return losses, counts

    def step(model: Any, optimizer: Any) -> float:
        x, y = torch.randn(8, 1, 8, 8), torch.randint(0, 10, (8,))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.item())

    plain, _ = train(owned=False)
    with scopes.torch.owning():
        owned, counts = train(owned=True)
    assert owned == plain
    assert len(set(counts)) == 1


def test_random_numbers_and_types_of_results_are_those_of_torch() -> None:
    torch.manual_seed(3)
    plain = torch.rand(3)
    with scopes.torch.owning(), new_dispose_scope():
        torch.manual_seed(3)
        x = torch.rand(3)
        assert torch.equal(x, plain)
        assert type(x) is torch.Tensor
        assert x.__dict__ == {}
    assert current_dispose_scope() is None
    assert owner_of(plain) is None
