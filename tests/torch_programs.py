"""Small PyTorch programs of the kinds that people write, each able to leak in five ways.

A line that makes what a leak keeps says so at its end: ``# makes loss``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

LEAKS = ("losses", "total", "outputs", "exception", "closure")


class Program:
    """Trains on batch after batch; what it plants is kept by `kept`, `errors`, `callbacks` and `total`."""

    def __init__(self, leak: str | None = None) -> None:
        torch.manual_seed(0)
        self.leak = leak
        self.total: Any = torch.zeros(())
        self.kept: list[Any] = []
        self.errors: list[Exception] = []
        self.callbacks: list[Callable[[], Any]] = []
        self.models = self.build()
        self.optimizers = [torch.optim.Adam(model.parameters(), lr=1e-2) for model in self.models]

    def build(self) -> list[Any]:
        raise NotImplementedError

    def outputs(self) -> tuple[Any, Any]:
        """Return the loss of a new batch, and what the network gave."""
        raise NotImplementedError

    def state(self) -> Any:
        """Return what the next step needs of this one's tensors."""
        return None

    def step(self) -> float:
        if self.leak == "total":
            held_out, _ = self.outputs()
            self.total = self.total + held_out  # makes total
        loss, outputs = self.outputs()
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        self.plant(loss, outputs)
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        return float(loss.item())

    def plant(self, loss: Any, outputs: Any) -> None:
        if self.leak == "losses":
            self.kept.append(loss)
        elif self.leak == "outputs":
            self.kept.append(outputs)
        elif self.leak == "exception":
            try:
                raise_unless_finite(outputs * math.nan)  # makes exception
            except ValueError as error:
                self.errors.append(error)
        elif self.leak == "closure":
            norms = outputs.detach().norm(dim=-1)  # makes closure
            self.callbacks.append(lambda: norms.mean())


def raise_unless_finite(x: Any) -> None:
    if not x.isfinite().all():
        raise ValueError("not finite")


class Convolutional(Program):
    """A classifier of images."""

    def build(self) -> list[Any]:
        return [
            nn.Sequential(
                nn.Conv2d(1, 8, 3),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Dropout(0.25),
                nn.Flatten(),
                nn.Linear(200, 10),
            )
        ]

    def outputs(self) -> tuple[Any, Any]:
        images, labels = torch.rand(4, 1, 12, 12), torch.randint(0, 10, (4,))
        logits = self.models[0](images)  # makes outputs
        return F.cross_entropy(logits, labels), logits  # makes losses


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(64, 32)
        self.mean, self.log_variance = nn.Linear(32, 4), nn.Linear(32, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())

    def forward(self, x: Any) -> tuple[Any, Any, Any]:
        hidden = F.relu(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        latent = mean + torch.randn_like(mean) * torch.exp(log_variance / 2)
        return self.decoder(latent), mean, log_variance  # makes outputs


class Variational(Program):
    """A variational autoencoder."""

    def build(self) -> list[Any]:
        return [Autoencoder()]

    def outputs(self) -> tuple[Any, Any]:
        x = torch.rand(8, 64)
        decoded, mean, log_variance = self.models[0](x)
        error = F.binary_cross_entropy(decoded, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return error + divergence, decoded  # makes losses


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 16, num_layers=2, dropout=0.1)
        self.decoder = nn.Linear(16, 20)

    def forward(self, tokens: Any, state: Any) -> tuple[Any, Any]:
        hidden, state = self.lstm(self.embedding(tokens), state)
        return self.decoder(hidden).view(-1, 20), state  # makes outputs


class Recurrent(Program):
    """A language model whose hidden state goes on from batch to batch."""

    def build(self) -> list[Any]:
        self.hidden: Any = (torch.zeros(2, 3, 16), torch.zeros(2, 3, 16))
        return [LanguageModel()]

    def outputs(self) -> tuple[Any, Any]:
        tokens = torch.randint(0, 20, (7, 3))
        state = tuple(part.detach() for part in self.hidden)
        logits, self.hidden = self.models[0](tokens[:-1], state)
        return F.cross_entropy(logits, tokens[1:].view(-1)), logits  # makes losses

    def state(self) -> Any:
        return self.hidden


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(4, 32), nn.Linear(32, 2), nn.Linear(32, 1)
        self.saved: list[tuple[Any, Any]] = []

    def forward(self, x: Any) -> tuple[Any, Any]:
        hidden = F.relu(self.body(x))
        return F.softmax(self.actor(hidden), dim=-1), self.critic(hidden)


class ActorCritic(Program):
    """Plays an episode of a game a step, and keeps what it did on the module until the episode's end."""

    def build(self) -> list[Any]:
        return [Policy()]

    def outputs(self) -> tuple[Any, Any]:
        (policy,) = self.models
        rewards = []
        observation = torch.randn(4)
        for _ in range(6):
            probabilities, value = policy(observation)
            choice = torch.distributions.Categorical(probabilities)
            action = choice.sample()
            policy.saved.append((choice.log_prob(action), value))
            rewards.append(1.0 if action.item() == 0 else -1.0)
            observation = torch.tanh(observation + torch.randn(4) + action)
        returns = torch.tensor([sum(rewards[i:]) for i in range(6)])
        losses = []
        for (log_probability, value), aim in zip(policy.saved, returns, strict=True):
            losses.append(-log_probability * (aim - value.item()) + F.smooth_l1_loss(value, aim.view(1)))
        policy.saved.clear()
        each = torch.stack(losses)  # makes outputs
        return each.sum(), each  # makes losses


class Block(nn.Module):
    """Attention and a network over it; the mask is made when it is first needed, and kept."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.queries_keys_values, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.mask: Any = None

    def forward(self, x: Any) -> Any:
        length, width = x.shape[1:]
        if self.mask is None or self.mask.size(0) != length:
            self.mask = torch.full((length, length), -math.inf).triu(1)
        query, key, value = self.queries_keys_values(self.first_norm(x)).split(width, dim=2)
        attention = F.softmax(query @ key.transpose(1, 2) / math.sqrt(width) + self.mask, dim=-1)
        x = x + self.projection(attention @ value)
        return x + self.network(self.second_norm(x))


class Transformer(Program):
    """A small GPT."""

    def build(self) -> list[Any]:
        self.positions = torch.arange(6)
        return [nn.ModuleDict({
            "tokens": nn.Embedding(20, 16),
            "positions": nn.Embedding(6, 16),
            "blocks": nn.Sequential(Block(16), Block(16)),
            "head": nn.Linear(16, 20, bias=False),
        })]  # fmt: skip

    def outputs(self) -> tuple[Any, Any]:
        (model,) = self.models
        tokens = torch.randint(0, 20, (4, 7))
        x = model["tokens"](tokens[:, :-1]) + model["positions"](self.positions)
        logits = model["head"](model["blocks"](x))  # makes outputs
        return F.cross_entropy(logits.view(-1, 20), tokens[:, 1:].reshape(-1)), logits  # makes losses


class Adversarial(Program):
    """A generator and a discriminator; the discriminator's step comes first, with its own backward."""

    def build(self) -> list[Any]:
        return [
            nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh()),
            nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 1), nn.Sigmoid()),
        ]

    def outputs(self) -> tuple[Any, Any]:
        generator, discriminator = self.models
        labels = torch.ones(8, 1)
        discriminator.zero_grad()
        F.binary_cross_entropy(discriminator(torch.randn(8, 16)), labels).backward()
        fake = generator(torch.randn(8, 4))  # makes outputs
        labels.fill_(0)
        F.binary_cross_entropy(discriminator(fake.detach()), labels).backward()
        self.optimizers[1].step()
        labels.fill_(1)
        return F.binary_cross_entropy(discriminator(fake), labels), fake  # makes losses


PROGRAMS: dict[str, type[Program]] = {
    "a convolutional network": Convolutional,
    "a variational autoencoder": Variational,
    "an LSTM language model": Recurrent,
    "actor and critic": ActorCritic,
    "a small GPT": Transformer,
    "a generator and a discriminator": Adversarial,
}
