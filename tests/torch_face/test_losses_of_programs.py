"""Programs like PyTorch's examples give PyTorch's losses, to five digits, from the same weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor.torch

theirs = pytest.importorskip("torch")


def start(model: Any, torch: Any) -> Any:
    """Give the parameters of a model values that depend on their order and shapes alone."""
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for p in model.parameters():
            limit = 1 / math.sqrt(math.prod(p.shape[1:]) or 1)
            p.copy_(torch.from_numpy(rng.uniform(-limit, limit, tuple(p.shape)).astype(np.float32)))
    return model


def drawn(torch: Any, *shape: int, seed: int = 1) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def labels(torch: Any, most: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(2).integers(0, most, shape))


def convolutional(torch: Any) -> list[float]:
    """Digits: convolutions, pooling, Adadelta, a scheduler, a data loader."""
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super(Net, self).__init__()  # noqa: UP008 -- as these programs write it
            self.conv1 = nn.Conv2d(1, 8, 3, 1)
            self.conv2 = nn.Conv2d(8, 16, 3, 1)
            self.norm = nn.BatchNorm2d(16)
            self.fc1 = nn.Linear(400, 32)
            self.fc2 = nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.conv1(x))
            x = F.max_pool2d(F.relu(self.norm(self.conv2(x))), 2)
            x = torch.flatten(x, 1)
            return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = start(Net().to(device), torch)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    data = torch.utils.data.TensorDataset(drawn(torch, 40, 1, 14, 14), labels(torch, 10, 40))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    losses = []
    for _ in range(2):
        model.train()
        for x, target in loader:
            x, target = x.to(device), target.to(device)
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        model.eval()
        with torch.no_grad():
            losses.append(sum(F.nll_loss(model(x), y, reduction="sum").item() for x, y in loader))
    return losses


def adversarial(torch: Any) -> list[float]:
    """Images: transposed convolutions, two optimizers, ``apply``."""
    nn = torch.nn
    rng = np.random.default_rng(3)

    def weights_init(m: Any) -> None:
        if m.__class__.__name__.find("Conv") != -1:
            values = 0.1 * rng.standard_normal(tuple(m.weight.shape)).astype(np.float32)
            m.weight.data.copy_(torch.from_numpy(values))

    generator = nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    discriminator = nn.Sequential(
        nn.Conv2d(3, 8, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
    )
    generator.apply(weights_init)
    discriminator.apply(weights_init)
    criterion = nn.BCELoss()
    optimizers = [
        torch.optim.Adam(m.parameters(), lr=1e-3, betas=(0.5, 0.999)) for m in (discriminator, generator)
    ]
    losses = []
    for step in range(5):
        discriminator.zero_grad()
        label = torch.full((4,), 1.0)
        real = criterion(discriminator(drawn(torch, 4, 3, 8, 8, seed=step)).view(-1), label)
        real.backward()
        fake = generator(drawn(torch, 4, 6, 1, 1, seed=50 + step))
        label.fill_(0.0)
        false = criterion(discriminator(fake.detach()).view(-1), label)
        false.backward()
        optimizers[0].step()
        generator.zero_grad()
        label.fill_(1.0)
        taken = criterion(discriminator(fake).view(-1), label)
        taken.backward()
        optimizers[1].step()
        losses += [(real + false).item(), taken.item()]
    return losses


def language(torch: Any, kind: str) -> list[float]:
    """A language model: transformer encoder, or LSTM with a kept state. It updates parameters itself."""
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 16)
            if kind == "LSTM":
                self.body = nn.LSTM(16, 16, 2)
            else:
                layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0)
                self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.decode = nn.Linear(16, 20)

        def forward(self, x: Any, hidden: Any) -> Any:
            x = self.embed(x) * math.sqrt(16)
            if kind == "LSTM":
                x, hidden = self.body(x, hidden)
            else:
                mask = torch.log(torch.tril(torch.ones(len(x), len(x))))
                x = self.body(x, mask=mask)
            return F.log_softmax(self.decode(x), dim=-1), hidden

    model = start(Model(), torch)
    text = labels(torch, 20, 41, 3)
    hidden = (torch.zeros(2, 3, 16), torch.zeros(2, 3, 16))
    losses = []
    for i in range(0, 40, 8):
        model.zero_grad()
        hidden = tuple(h.detach() for h in hidden)
        out, hidden = model(text[i : i + 8], hidden)
        loss = nn.NLLLoss()(out.view(-1, 20), text[i + 1 : i + 9].view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-1.0)
        losses.append(loss.item())
    return losses


def translation(torch: Any) -> list[float]:
    """Pairs of sentences: an encoder and a decoder with masks of padding."""
    nn = torch.nn
    embed = start(nn.Embedding(12, 16), torch)
    model = start(nn.Transformer(16, 4, 2, 2, 24, dropout=0.0), torch)
    head = start(nn.Linear(16, 12), torch)
    parameters = [*embed.parameters(), *model.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    sentences = [labels(torch, 11, n) + 1 for n in (7, 4, 5)]
    source = torch.nn.utils.rnn.pad_sequence(sentences)
    target = source.flip([0])
    mask = (torch.triu(torch.ones((6, 6))) == 1).transpose(0, 1)
    mask = mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)
    padding = (source == 0).transpose(0, 1)
    losses = []
    for _ in range(5):
        given = (target[:-1] == 0).transpose(0, 1)
        given[:, 0] = False
        # Added to a mask of floats, so that PyTorch does not warn of two kinds.
        added = torch.zeros(given.shape).masked_fill(given, float("-inf"))
        out = model(
            embed(source),
            embed(target[:-1]),
            tgt_mask=mask,
            src_key_padding_mask=padding,
            tgt_key_padding_mask=added,
            memory_key_padding_mask=padding,
        )
        loss = nn.CrossEntropyLoss(ignore_index=0)(head(out).reshape(-1, 12), target[1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


PROGRAMS: dict[str, Callable[[Any], list[float]]] = {
    "digits by convolution": convolutional,
    "generator and discriminator": adversarial,
    "a language model of LSTMs": lambda torch: language(torch, "LSTM"),
    "a language model of transformers": lambda torch: language(torch, "Transformer"),
    "translation": translation,
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_pytorchs_to_five_digits(name: str) -> None:
    found = PROGRAMS[name](tensor.torch)
    assert all(math.isfinite(loss) for loss in found)
    np.testing.assert_allclose(found, PROGRAMS[name](theirs), rtol=1e-5)
