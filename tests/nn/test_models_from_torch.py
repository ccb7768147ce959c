"""State dicts of PyTorch's models, from its own files and from safetensors, give PyTorch's outputs here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor
import tensor.torch

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # PyTorch's


def convolutional(nn: Any) -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2, groups=2, bias=False),
        nn.GroupNorm(4, 16),
        nn.GELU(),
        nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def recurrent(nn: Any) -> Any:
    class Tagger(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 12, padding_idx=0)
            self.lstm = nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True)
            self.out = nn.Linear(32, 4)

        def forward(self, x: Any) -> Any:
            return self.out(self.lstm(self.words(x))[0])

    return Tagger()


def transformer(nn: Any) -> Any:
    class Translator(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(20, 16), nn.Embedding(9, 16)
            self.transformer = nn.Transformer(16, 4, 2, 2, 32, batch_first=True)
            self.out = nn.Linear(16, 20)
            self.out.weight = self.words.weight  # tied

        def forward(self, x: Any) -> Any:
            read = self.words(x) + self.places.weight[: x.shape[1]]
            mask = self.transformer.generate_square_subsequent_mask(x.shape[1])
            return self.out(self.transformer(read, read, tgt_mask=mask))

    return Translator()


random = np.random.default_rng(3)
MODELS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a convolutional network": (convolutional, random.standard_normal((4, 3, 15, 17)).astype(np.float32)),
    "an LSTM": (recurrent, random.integers(0, 20, (5, 9))),
    "a transformer": (transformer, random.integers(0, 20, (5, 9))),
}


@pytest.mark.parametrize("how", ["torch.save", "safetensors"])
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_gives_pytorchs_outputs(name: str, how: str, tmp_path: Path) -> None:
    build, data = MODELS[name]
    torch.manual_seed(2)
    theirs, ours = build(torch.nn), build(tensor.torch.nn)
    if name == "a convolutional network":
        theirs(torch.from_numpy(data))  # running figures of their own
    if how == "torch.save":
        torch.save(theirs.state_dict(), tmp_path / "model.pt")
        state = tensor.torch.load(tmp_path / "model.pt")
    else:
        safetensors = pytest.importorskip("safetensors.torch")
        whole = {key: x.clone() for key, x in theirs.state_dict().items()}
        safetensors.save_file(whole, tmp_path / "model.safetensors")
        state = tensor.load_file(tmp_path / "model.safetensors")
    ours.load_state_dict(state)
    with torch.no_grad():
        expected = theirs.eval()(torch.from_numpy(data)).numpy()
    with tensor.no_grad():
        found = ours.eval()(tensor.from_numpy(data)).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
