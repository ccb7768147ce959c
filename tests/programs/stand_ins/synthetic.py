"""Data of the shape that the programs' own have."""

import numpy as np
import torch
from torch.utils.data import TensorDataset


def get_training_set(upscale_factor):
    images = np.random.RandomState(2).random_sample((16, 1, 64, 64)).astype("float32")
    small = np.ascontiguousarray(images[:, :, ::upscale_factor, ::upscale_factor])
    return TensorDataset(torch.from_numpy(small), torch.from_numpy(images))


get_test_set = get_training_set


def sine_waves():
    shifts = np.random.RandomState(2).randint(-80, 80, 20).reshape(20, 1)
    return np.sin((np.arange(60) + shifts) / 20.0).astype("float64")


def load_cora(path="./cora", device="cpu"):
    """A graph like Cora, its features scaled and its matrix normalized, in dense tensors."""
    drawn = np.random.RandomState(7)
    count, classes = 1700, 7
    labels = drawn.randint(classes, size=count)
    features = (
        drawn.random_sample((count, 60)) < 0.05 + 0.2 * (np.arange(60) % classes == labels[:, None])
    ).astype("f4")
    features /= np.maximum(features.sum(1, keepdims=True), 1)
    graph = np.eye(count, dtype="f4")
    ends = drawn.randint(count, size=(2, 3000))
    graph[ends[0], ends[1]] = graph[ends[1], ends[0]] = 1
    scale = 1 / np.sqrt(graph.sum(1))
    graph = graph * scale[:, None] * scale
    found = torch.from_numpy(features), torch.from_numpy(labels.astype("i8")), torch.from_numpy(graph)
    return tuple(x.to(device) for x in found)
