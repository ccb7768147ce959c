"""Models as people write them in PyTorch: the same lines on both libraries give the same losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor.torch
from tests.torch_face.test_losses_of_programs import drawn, labels, start

theirs = pytest.importorskip("torch")


def train(torch: Any, model: Any, loss_of: Callable[[int], Any], steps: int = 5) -> list[float]:
    """Return the losses of some steps of AdamW, with clipped gradients."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    losses = []
    model.train()
    for step in range(steps):
        loss = loss_of(step)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


def vector_quantized_autoencoder(torch: Any) -> list[float]:
    """VQ-VAE: a codebook, straight-through gradients, a commitment loss, moving averages of codes."""
    nn, F = torch.nn, torch.nn.functional

    class VectorQuantizer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, n_codes: int, dim: int, beta: float = 0.25) -> None:
            super().__init__()
            self.n_codes, self.beta = n_codes, beta
            self.codebook = nn.Embedding(n_codes, dim)
            nn.init.uniform_(self.codebook.weight, -1 / n_codes, 1 / n_codes)
            self.register_buffer("usage", torch.zeros(n_codes))

        def forward(self, z: Any) -> Any:
            z = z.permute(0, 2, 3, 1).contiguous()
            flat = z.view(-1, z.shape[-1])
            distances = (
                torch.sum(flat**2, dim=1, keepdim=True)
                + torch.sum(self.codebook.weight**2, dim=1)
                - 2 * torch.matmul(flat, self.codebook.weight.t())
            )
            codes = torch.argmin(distances, dim=1)
            one_hot = F.one_hot(codes, self.n_codes).type(flat.dtype)
            quantized = self.codebook(codes).view(z.shape)
            loss = F.mse_loss(quantized, z.detach()) + self.beta * F.mse_loss(quantized.detach(), z)
            quantized = z + (quantized - z).detach()
            share = one_hot.mean(0)
            self.usage.mul_(0.9).add_(share, alpha=0.1)
            perplexity = torch.exp(-torch.sum(share * torch.log(share + 1e-10)))
            return quantized.permute(0, 3, 1, 2), loss, perplexity

    class Residual(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.block = nn.Sequential(
                nn.ReLU(True), nn.Conv2d(dim, dim, 3, padding=1), nn.ReLU(True), nn.Conv2d(dim, dim, 1)
            )

        def forward(self, x: Any) -> Any:
            return x + self.block(x)

    class Autoencoder(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), Residual(16), nn.Conv2d(16, 8, 1))
            self.quantizer = VectorQuantizer(12, 8)
            self.decoder = nn.Sequential(Residual(8), nn.ConvTranspose2d(8, 3, 4, 2, 1))

        def forward(self, x: Any) -> Any:
            quantized, loss, perplexity = self.quantizer(self.encoder(x))
            return self.decoder(quantized), loss, perplexity

    model = start(Autoencoder(), torch)
    seen = []

    def loss_of(step: int) -> Any:
        x = drawn(torch, 4, 3, 8, 8, seed=step)
        decoded, loss, perplexity = model(x)
        seen.append(perplexity.item())
        return F.mse_loss(decoded, x) + loss

    losses = train(torch, model, loss_of)
    return [*losses, *seen, model.quantizer.usage.sum().item()]


def rotary_attention(torch: Any) -> list[float]:
    """A language model with rotary embeddings, RMSNorm, grouped queries and SwiGLU, as in LLaMA."""
    nn, F = torch.nn, torch.nn.functional

    def frequencies(dim: int, length: int, base: float = 10_000.0) -> Any:
        inverse = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        angles = torch.outer(torch.arange(length, dtype=torch.float32), inverse)
        return torch.cos(angles), torch.sin(angles)

    def rotate(x: Any, cos: Any, sin: Any) -> Any:
        first, second = x[..., ::2], x[..., 1::2]
        return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)

    class RMSNorm(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, dim: int, eps: float = 1e-6) -> None:
            super().__init__()
            self.eps = eps
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x: Any) -> Any:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight

    class Attention(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, dim: int, heads: int, groups: int, length: int) -> None:
            super().__init__()
            self.heads, self.groups, self.size = heads, groups, dim // heads
            self.wq = nn.Linear(dim, dim, bias=False)
            self.wkv = nn.Linear(dim, 2 * groups * self.size, bias=False)
            self.wo = nn.Linear(dim, dim, bias=False)
            cos, sin = frequencies(self.size, length)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)

        def forward(self, x: Any) -> Any:
            b, t, c = x.size(0), x.size(1), x.size(2)
            q = self.wq(x).view(b, t, self.heads, self.size).transpose(1, 2)
            k, v = self.wkv(x).view(b, t, 2, self.groups, self.size).unbind(2)
            k, v = k.transpose(1, 2), v.transpose(1, 2)
            q = rotate(q, self.cos[:t], self.sin[:t])
            k = rotate(k, self.cos[:t], self.sin[:t])
            times = self.heads // self.groups
            k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.wo(y.transpose(1, 2).contiguous().view(b, t, c))

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, dim: int, length: int) -> None:
            super().__init__()
            self.attention = Attention(dim, 4, 2, length)
            self.norms = nn.ModuleList([RMSNorm(dim) for _ in range(2)])
            self.gate, self.up = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
            self.down = nn.Linear(2 * dim, dim, bias=False)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norms[0](x))
            h = self.norms[1](x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Transformer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(20, 32)
            self.blocks = nn.ModuleList(Block(32, 16) for _ in range(2))
            self.norm = RMSNorm(32)
            self.head = nn.Linear(32, 20, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    model = start(Transformer(), torch)
    tokens = labels(torch, 20, 3, 11)
    return train(
        torch,
        model,
        lambda _: F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 20), tokens[:, 1:].reshape(-1)),
    )


def vision_transformer(torch: Any) -> list[float]:
    """ViT: patches, a class token, learnt positions, multi-head attention, label smoothing."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, dim: int, heads: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim, eps=1e-6)
            self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
            self.mlp = nn.Sequential(
                nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(0.0), nn.Linear(2 * dim, dim)
            )

        def forward(self, x: Any) -> Any:
            h = self.norm1(x)
            x = x + self.attention(h, h, h, need_weights=False)[0]
            return x + self.mlp(self.norm2(x))

    class VisionTransformer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, size: int = 16, patch: int = 4, dim: int = 24, classes: int = 5) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
            self.token = nn.Parameter(torch.zeros(1, 1, dim))
            self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.02)
            self.blocks = nn.Sequential(*[Block(dim, 4) for _ in range(2)])
            self.norm = nn.LayerNorm(dim)
            self.head = nn.Linear(dim, classes)
            self.apply(self._init_weights)

        def _init_weights(self, m: Any) -> None:
            if isinstance(m, nn.Linear):
                nn.init.trunc_normal_(m.weight, std=0.02)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

        def forward(self, images: Any) -> Any:
            x = self.patches(images).flatten(2).transpose(1, 2)
            x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
            return self.head(self.norm(self.blocks(x))[:, 0])

    model = start(VisionTransformer(), torch)
    images, classes = drawn(torch, 6, 3, 16, 16), labels(torch, 5, 6)
    losses = train(torch, model, lambda _: F.cross_entropy(model(images), classes, label_smoothing=0.1))
    model.eval()
    with torch.no_grad():
        chances = F.softmax(model(images), dim=-1)
        best, _ = chances.topk(2, dim=-1)
    return [*losses, best.sum().item()]


def denoising_diffusion(torch: Any) -> list[float]:
    """DDPM: a U-Net with time embeddings, group norms and attention; noise, and steps of sampling."""
    nn, F = torch.nn, torch.nn.functional

    def time_embedding(t: Any, dim: int) -> Any:
        half = dim // 2
        exponent = -math.log(10_000) * torch.arange(half, dtype=torch.float32) / half
        angles = t[:, None].float() * torch.exp(exponent)[None, :]
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    class Residual(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inner: int, outer: int, time: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.GroupNorm(4, inner), nn.GroupNorm(4, outer)
            self.conv1 = nn.Conv2d(inner, outer, 3, padding=1)
            self.conv2 = nn.Conv2d(outer, outer, 3, padding=1)
            self.time = nn.Linear(time, outer)
            self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

        def forward(self, x: Any, time: Any) -> Any:
            h = self.conv1(F.silu(self.norm1(x)))
            h = h + self.time(F.silu(time))[:, :, None, None]
            return self.conv2(F.silu(self.norm2(h))) + self.skip(x)

    class Attention(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(4, channels)
            self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

        def forward(self, x: Any) -> Any:
            b, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(b, 3, c, h * w).unbind(1)
            weights = torch.einsum("bci,bcj->bij", q, k).mul(c**-0.5).softmax(dim=-1)
            return x + self.out(torch.einsum("bij,bcj->bci", weights, v).reshape(b, c, h, w))

    class UNet(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, width: int = 8, time: int = 16) -> None:
            super().__init__()
            self.width = width
            self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
            self.inner = nn.Conv2d(1, width, 3, padding=1)
            self.down = Residual(width, 2 * width, time)
            self.pool = nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1)
            self.middle, self.attention = Residual(2 * width, 2 * width, time), Attention(2 * width)
            self.up = Residual(4 * width, width, time)
            self.outer = nn.Conv2d(width, 1, 3, padding=1)

        def forward(self, x: Any, t: Any) -> Any:
            time = self.time(time_embedding(t, self.width))
            skip = self.down(self.inner(x), time)
            h = self.attention(self.middle(self.pool(skip), time))
            h = F.interpolate(h, scale_factor=2, mode="nearest")
            return self.outer(self.up(torch.cat([h, skip], dim=1), time))

    steps = 20
    betas = torch.linspace(1e-4, 0.02, steps)
    alphas = 1.0 - betas
    products = torch.cumprod(alphas, dim=0)
    model = start(UNet(), torch)

    def loss_of(step: int) -> Any:
        x0, noise = drawn(torch, 3, 1, 8, 8, seed=step), drawn(torch, 3, 1, 8, 8, seed=90 + step)
        t = labels(torch, steps, 3)
        share = products.gather(0, t).view(-1, 1, 1, 1)
        return F.smooth_l1_loss(model(share.sqrt() * x0 + (1 - share).sqrt() * noise, t), noise)

    losses = train(torch, model, loss_of)
    model.eval()
    with torch.no_grad():
        x = drawn(torch, 1, 1, 8, 8, seed=7)
        for i in reversed(range(steps - 3, steps)):
            t = torch.full((1,), i, dtype=torch.long)
            mean = (x - betas[i] / torch.sqrt(1 - products[i]) * model(x, t)) / torch.sqrt(alphas[i])
            x = mean + torch.sqrt(betas[i]) * drawn(torch, 1, 1, 8, 8, seed=i)
            x.clamp_(-3.0, 3.0)
    return [*losses, x.abs().mean().item()]


PROGRAMS = [vector_quantized_autoencoder, rotary_attention, vision_transformer, denoising_diffusion]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_losses_are_those_of_pytorch(program: Callable[[Any], list[float]]) -> None:
    np.testing.assert_allclose(program(tensor.torch), program(theirs), rtol=2e-4)
