"""A training loop of PyTorch with a leak. ``disposescope run examples/leak_in_pytorch.py`` names its line."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
images, labels = torch.randn(2048, 64), torch.randint(0, 10, (2048,))
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
outputs = []

for _ in range(20):
    for x, y in zip(images.split(256), labels.split(256), strict=True):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    outputs.append(model(images))  # the leak: each output keeps its graph
