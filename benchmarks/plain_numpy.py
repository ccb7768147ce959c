"""The same training in plain NumPy, as one would write it without a library: no graph, no modules."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


class Network:
    """Linear layers with ReLU between them; `weights` holds a weight and a bias for each layer in turn."""

    def __init__(self, weights: Sequence[Array], *, classifies: bool) -> None:
        self.weights = list(weights)
        self.classifies = classifies

    def outputs(self, inputs: Array) -> Array:
        """Return the outputs alone."""
        out = inputs
        for layer in range(0, len(self.weights), 2):
            if layer:
                np.maximum(out, 0, out=out)
            out = out @ self.weights[layer].T
            out += self.weights[layer + 1]
        return out

    def loss_and_gradients(self, inputs: Array, targets: npt.NDArray[Any]) -> tuple[float, list[Array]]:
        """Return the loss and a gradient for each weight and bias."""
        matrices, biases = self.weights[::2], self.weights[1::2]
        activations = [inputs]
        for matrix, bias in zip(matrices, biases, strict=True):
            out = activations[-1] @ matrix.T
            out += bias
            if len(activations) < len(matrices):
                np.maximum(out, 0, out=out)
            activations.append(out)

        outputs = activations.pop()
        loss, flowing = (cross_entropy if self.classifies else _mean_squares)(outputs, targets)
        gradients: list[Array] = []
        for layer in reversed(range(len(matrices))):
            gradients += [flowing.sum(axis=0), flowing.T @ activations[layer]]
            if layer:
                flowing = flowing @ matrices[layer]
                flowing *= activations[layer] > 0
        return loss, gradients[::-1]


def softmax(logits: Array) -> Array:
    """Return the softmax of each row."""
    exponentials: Array = logits - logits.max(axis=1, keepdims=True)
    np.exp(exponentials, out=exponentials)
    exponentials /= exponentials.sum(axis=1, keepdims=True)
    return exponentials


def cross_entropy(logits: Array, classes: npt.NDArray[Any]) -> tuple[float, Array]:
    """Return the loss and the gradient of the logits."""
    rows = np.arange(len(logits))
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    loss = (np.log(sums[:, 0]) - shifted[rows, classes]).mean()
    exponentials /= sums
    exponentials[rows, classes] -= 1
    exponentials /= len(logits)
    return float(loss), exponentials


def _mean_squares(outputs: Array, targets: npt.NDArray[Any]) -> tuple[float, Array]:
    difference: Array = outputs - targets
    loss = (difference * difference).mean()
    difference *= np.float32(2 / difference.size)
    return float(loss), difference


class SGD:
    """Stochastic gradient descent, with momentum or without, as PyTorch defines it."""

    def __init__(self, weights: list[Array], lr: float, momentum: float) -> None:
        self.weights = weights
        self.rate = lr
        self.momentum = momentum
        self.velocities = [np.zeros_like(weight) for weight in weights] if momentum else []

    def step(self, gradients: Sequence[Array]) -> None:
        """Change the weights in place."""
        if not self.momentum:
            for weight, gradient in zip(self.weights, gradients, strict=True):
                weight -= self.rate * gradient
            return
        for weight, gradient, velocity in zip(self.weights, gradients, self.velocities, strict=True):
            velocity *= self.momentum
            velocity += gradient
            weight -= self.rate * velocity


class Adam:
    """Adam with PyTorch's defaults (Kingma and Ba, 2015, algorithm 1)."""

    def __init__(self, weights: list[Array], lr: float) -> None:
        self.weights = weights
        self.rate = lr
        self.steps = 0
        self.means = [np.zeros_like(weight) for weight in weights]
        self.squares = [np.zeros_like(weight) for weight in weights]

    def step(self, gradients: Sequence[Array]) -> None:
        """Change the weights in place."""
        self.steps += 1
        rate = self.rate / (1 - 0.9**self.steps)
        correction = (1 - 0.999**self.steps) ** 0.5
        for weight, gradient, mean, square in zip(
            self.weights, gradients, self.means, self.squares, strict=True
        ):
            mean *= 0.9
            mean += 0.1 * gradient
            square *= 0.999
            square += 0.001 * gradient * gradient
            denominator = np.sqrt(square)
            denominator /= correction
            denominator += 1e-8
            weight -= rate * mean / denominator
