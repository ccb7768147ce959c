"""Small modules of PyTorch's face: amp, testing, profiler, and older names."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import pickle

import numpy as np
import pytest

import tensor.torch as torch
from tensor import autograd


def test_detection_of_anomalies_is_a_switch_and_a_block() -> None:
    assert not autograd.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(True)
    try:
        assert autograd.is_anomaly_enabled()
        assert autograd.is_anomaly_check_nan_enabled()
        with torch.autograd.set_detect_anomaly(False):
            assert not autograd.is_anomaly_enabled()
        x = torch.zeros(1, requires_grad=True)
        with pytest.raises(RuntimeError, match="SqrtBackward has a gradient of nan"):
            (x.sqrt() * 0).sum().backward()
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert not autograd.is_anomaly_enabled()


def test_detection_can_be_off_inside_detection_and_is_on_after_it() -> None:
    with autograd.detect_anomaly():
        with autograd.set_detect_anomaly(False):
            assert not autograd.is_anomaly_enabled()
        assert autograd.is_anomaly_enabled()


def test_modules_have_the_names_of_nn_and_so_do_their_files() -> None:
    import nn
    from tensor.torch.nn.modules import Linear, Module

    assert (Linear, Module) == (nn.Linear, nn.Module)
    assert torch.nn.modules.BatchNorm1d is torch.nn.modules.batchnorm.BatchNorm1d is nn.BatchNorm1d


def test_functions_of_networks_and_of_linalg_are_functions_of_torch_too() -> None:
    assert torch.conv2d is torch.nn.functional.conv2d
    assert torch.layer_norm is torch.nn.functional.layer_norm
    assert torch.det is torch.linalg.det
    assert {"conv1d", "cosine_similarity", "max_pool3d", "slogdet"} <= set(dir(torch))
    assert torch.det(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).item() == 6.0


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_windows_of_torch_are_periodic_by_default(name: str, size: int) -> None:
    window, of_signal = getattr(torch, f"{name}_window"), getattr(torch.signal.windows, name)
    assert torch.allclose(window(size), of_signal(size, sym=False))
    symmetric = window(size, periodic=False, dtype=torch.float64)
    assert torch.allclose(symmetric, of_signal(size, dtype=torch.float64))


def test_windows_of_torch_take_their_parameters() -> None:
    assert torch.hamming_window(3, False, 0.75, 0.25).tolist() == [0.5, 1.0, 0.5]
    assert torch.kaiser_window(5, beta=2.0).equal(torch.signal.windows.kaiser(5, beta=2.0, sym=False))


def test_a_variable_is_a_tensor() -> None:
    x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    assert type(x) is torch.Tensor
    assert isinstance(x, torch.autograd.Variable)
    assert not isinstance(2.0, torch.autograd.Variable)


def test_a_training_step_with_autocast_and_a_scaler_is_one_without() -> None:
    def train(scaled: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler()
        with torch.autocast("cpu", dtype=torch.float16, enabled=scaled):
            loss = model(torch.ones(2, 3)).square().mean()
        if scaled:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        return model.weight.tolist()

    assert train(True) == train(False)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (torch.ones(2), torch.ones(3), "'shape' do not match"),
        (torch.ones(2), torch.ones(2).double(), "'dtype' do not match"),
        (torch.ones(2), torch.tensor([1.0, 1.1]), r"1 / 2 \(50.0%\)"),
        ([torch.ones(1), torch.zeros(1)], [torch.ones(1), torch.ones(1)], r"for item \[1\]"),
        ({"a": torch.ones(1)}, {"b": torch.ones(1)}, "keys of the mappings"),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), "not close"),
        (torch.tensor([2**62]), torch.tensor([2**62 + 1]), "difference: 1 at"),
        (2**53, 2**53 + 1, "difference: 1 at"),
    ],
)
def test_assert_close_describes_the_elements_that_differ(actual, expected, message) -> None:
    with pytest.raises(AssertionError, match=message):
        torch.testing.assert_close(actual, expected)


def test_assert_close_allows_the_rounding_of_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    one = torch.tensor([1.0]).to(torch.bfloat16)
    torch.testing.assert_close(one * 1.0078125, one)
    with pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_close(one * 1.03125, one)


def test_make_tensor_draws_integers_from_minus_9_to_9() -> None:
    assert set(torch.testing.make_tensor(4000, dtype=torch.int64).tolist()) == set(range(-9, 10))
    assert set(torch.testing.make_tensor(4000, dtype=torch.uint8).tolist()) == set(range(10))


@pytest.mark.parametrize(
    ("split", "least", "shape"), [("hsplit", 1, ()), ("vsplit", 2, (3,)), ("dsplit", 3, (2, 2))]
)
def test_a_split_names_the_least_number_of_dimensions(split, least, shape) -> None:
    with pytest.raises(ValueError, match=rf"{split} takes a tensor of at least {least} dimensions"):
        getattr(torch.zeros(shape), split)(1)


def test_tolerances_are_those_of_pytorch() -> None:
    theirs = pytest.importorskip("torch")
    for dtype in ("float16", "float32", "float64"):
        for factor in (0.5, 2.0):
            for library in (torch, theirs):
                rtol = {"float16": 1e-3, "float32": 1.3e-6, "float64": 1e-7}[dtype]
                one = library.tensor([1e4], dtype=getattr(library, dtype))
                other = one * (1 + rtol * factor)
                if dtype != "float16" and factor > 1:
                    with pytest.raises(AssertionError):
                        library.testing.assert_close(other, one)
                elif factor < 1:
                    library.testing.assert_close(other, one)


def test_a_profile_writes_a_trace_and_counts_functions(tmp_path) -> None:
    steps = torch.profiler.schedule(wait=1, warmup=0, active=2, repeat=1)
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    with torch.profiler.profile(schedule=steps, on_trace_ready=handler) as found:
        for _ in range(5):
            with torch.profiler.record_function("forward"):
                torch.ones(10) * 2
            found.step()
    (row,) = found.key_averages()
    assert (row.key, row.count) == ("forward", 2)
    assert "forward" in found.key_averages().table(sort_by="cpu_time_total", row_limit=5)
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text(encoding="utf-8"))["traceEvents"]


def test_a_distributed_module_outside_of_a_job_trains_alone() -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    with model.no_sync():
        model(torch.ones(3, 2)).sum().backward()
    np.testing.assert_array_equal(model.module.weight.grad.tolist(), [[3.0, 3.0]])


def test_sparse_adam_says_what_to_write() -> None:
    with pytest.raises(NotImplementedError, match=r"torch\.optim\.Adam"):
        torch.optim.SparseAdam([torch.nn.Parameter(torch.ones(1))])


def test_settings_that_choose_how_pytorch_works_change_nothing() -> None:
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.set_default_dtype(torch.float32)
    assert torch.get_default_dtype() == torch.float32
    assert isinstance(torch.ones(2, 3).shape, torch.Size)
    assert torch.ones(2, layout=torch.strided, memory_format=torch.preserve_format).tolist() == [1.0, 1.0]
    assert torch.version.cuda is None
    model = torch.nn.Linear(2, 1)
    assert torch.compile(model, mode="max-autotune") is model
    assert isinstance(torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.optimizer.Optimizer)
    with pytest.raises(ValueError, match=r"module\.double\(\)"):
        torch.set_default_dtype(torch.float64)


def test_sequential_accepts_layers_of_einops() -> None:
    layers = pytest.importorskip("einops.layers.torch")
    rearrange = layers.Rearrange("b (h w) -> b h w", h=2)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), rearrange).append(layers.Reduce("b h w -> b h", "sum"))
    x = torch.ones(5, 3, requires_grad=True)
    model(x).sum().backward()
    assert model(x).shape == (5, 2)
    assert x.grad is not None
    assert "Rearrange" in repr(model)


@pytest.mark.parametrize("form", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_normal_vectors_have_the_figures_of_pytorch(form: str) -> None:
    theirs = pytest.importorskip("torch")
    found = []
    for library in (torch, theirs):
        factor = library.tensor([[1.5, 0.0], [0.4, 0.8]])
        matrix = factor if form == "scale_tril" else factor @ factor.T
        normal = library.distributions.MultivariateNormal(library.tensor([[0.5, -1.0]] * 3), **{form: matrix})
        value = library.tensor([[0.1, 0.2], [1.0, -1.0], [3.0, 2.0]])
        assert tuple(normal.sample((4,)).shape) == (4, 3, 2)
        found.append([normal.log_prob(value).tolist(), normal.entropy().tolist(), normal.variance.tolist()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    with pytest.raises(ValueError, match="takes one of"):
        torch.distributions.MultivariateNormal(torch.zeros(2))


# A compiled function of another module, and a second name that PyTorch has for another backend.
NOT_PICKLED = {"is_grad_enabled", "native_channel_shuffle"}


@pytest.mark.parametrize(
    "name", ["", ".nn.functional", ".nn.init", ".linalg", ".fft", ".special", ".autograd", ".masked"]
)
def test_functions_can_be_pickled(name: str) -> None:
    module = importlib.import_module(f"tensor.torch{name}")
    functions = {each for each in dir(module) if inspect.isroutine(getattr(module, each))}
    public = {each for each in functions if not each.startswith("_")} - NOT_PICKLED
    wrong = []
    for each in sorted(public):
        function = getattr(module, each)
        try:
            is_same = pickle.loads(pickle.dumps(function)) is function
        except pickle.PicklingError:
            is_same = False
        if not is_same:
            wrong.append(each)
    assert wrong == []


def test_a_model_with_a_function_of_torch_as_its_activation_can_be_saved() -> None:
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, activation=torch.nn.functional.gelu)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.activation is torch.nn.functional.gelu
