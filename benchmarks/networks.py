"""The networks for training and inference: one program for all libraries, with the same weights and data."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import plain_numpy
from benchmarks.contenders import NUMPY, Library

MOMENTUM = 0.9
# So small that the weights hardly change: after thousands of steps on one batch the gradients would
# vanish, and arithmetic on subnormal numbers is many times slower.
TIMING_RATE = 1e-7
CHECKING_RATE = 1e-2

OPTIMIZERS = ("sgd", "momentum", "adam")

Array = npt.NDArray[Any]
Step = Callable[[], float]


@dataclass(frozen=True)
class Network:
    """A network's layer sizes, with ReLU in between, and its batch size.

    Ten outputs are classes, trained by cross entropy; any other number is a regression, by mean squares.
    """

    sizes: tuple[int, ...]
    batch: int

    @property
    def name(self) -> str:
        """The name in the table, such as ``64-128-10 x 64``."""
        first, *inner, last = self.sizes
        layers = f" ({len(inner) + 1} layers)" if len(inner) > 2 else ""
        middle = ["..."] if layers else map(str, inner)
        return f"{'-'.join([str(first), *middle, str(last)])}{layers} x {self.batch}"

    @property
    def classifies(self) -> bool:
        """Whether the outputs are classes."""
        return self.sizes[-1] == 10

    def weights(self) -> list[npt.NDArray[np.float32]]:
        """Create a weight ``(out, in)`` and a bias ``(out,)`` for each layer, equal in each call."""
        random = np.random.default_rng(0)
        shapes = [shape for inner, outer in pairwise(self.sizes) for shape in ((outer, inner), (outer,))]
        bounds = [inner**-0.5 for inner in self.sizes[:-1] for _ in range(2)]
        return [
            random.uniform(-bound, bound, shape).astype(np.float32)
            for bound, shape in zip(bounds, shapes, strict=True)
        ]

    def data(self) -> tuple[Array, Array]:
        """Create inputs ``(batch, sizes[0])``, and class numbers or targets ``(batch, sizes[-1])``."""
        random = np.random.default_rng(1)
        inputs = random.standard_normal((self.batch, self.sizes[0]), dtype=np.float32)
        if self.classifies:
            return inputs, random.integers(0, self.sizes[-1], self.batch)
        return inputs, random.standard_normal((self.batch, self.sizes[-1]), dtype=np.float32)


NETWORKS = (
    Network((64, 128, 10), 64),
    Network((4, 8096, 4), 64),
    Network((784, 512, 256, 10), 128),
    Network((784, 2048, 2048, 10), 256),
)


def trainings(networks: Sequence[Network] = NETWORKS) -> Iterator[tuple[str, Network, str]]:
    """Yield a name, the network and the optimizer, for each pair of these."""
    for network in networks:
        for optimizer in OPTIMIZERS:
            yield f"{network.name}, {optimizer}", network, optimizer


def model_of(library: Library, network: Network, weights: Sequence[Array] | None = None) -> Any:
    """Create the modules, with random weights or the given ones."""
    layers: list[Any] = []
    for inner, outer in pairwise(network.sizes):
        layers += [library.nn.Linear(inner, outer), library.nn.ReLU()]
    model = library.nn.Sequential(*layers[:-1])
    if weights is not None:
        state = zip(model.state_dict(), weights, strict=True)
        model.load_state_dict({name: library.array(weight) for name, weight in state})
    return model


def optimizer_of(library: Library, parameters: Any, optimizer: str, rate: float, **settings: bool) -> Any:
    """Create an optimizer: ``"sgd"``, ``"momentum"`` (SGD too) or ``"adam"``."""
    optimizers = plain_numpy if library.name == NUMPY else library.optim
    if optimizer == "adam":
        return optimizers.Adam(parameters, lr=rate, **settings)
    momentum = MOMENTUM if optimizer == "momentum" else 0.0
    return optimizers.SGD(parameters, lr=rate, momentum=momentum, **settings)


def training(
    library: Library, network: Network, optimizer: str, rate: float, *, weights: Sequence[Array] | None
) -> Step:
    """Create model, data and optimizer. Return the step, as users write it, which returns the loss."""
    if library.name == NUMPY:
        return _training_in_plain_numpy(network, optimizer, rate)
    model = model_of(library, network, weights)
    optimize = optimizer_of(library, model.parameters(), optimizer, rate)
    functional = library.nn.functional
    criterion = functional.cross_entropy if network.classifies else functional.mse_loss
    inputs, targets = map(library.array, network.data())

    def step() -> float:
        with library.scope():
            optimize.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimize.step()
            return float(loss.item())

    return step


def _training_in_plain_numpy(network: Network, optimizer: str, rate: float) -> Step:
    model = plain_numpy.Network(network.weights(), classifies=network.classifies)
    optimize = optimizer_of(Library(NUMPY, np, np.array), model.weights, optimizer, rate)
    inputs, targets = network.data()

    def step() -> float:
        loss, gradients = model.loss_and_gradients(inputs, targets)
        optimize.step(gradients)
        return loss

    return step


def inference(library: Library, network: Network, *, weights: Sequence[Array] | None) -> Callable[[], float]:
    """Create model and data. Return a step that runs the model and returns one number of the output."""
    inputs = network.data()[0]
    if library.name == NUMPY:
        by_numpy = plain_numpy.Network(network.weights(), classifies=network.classifies)
        return lambda: float(by_numpy.outputs(inputs)[0, 0])
    model = model_of(library, network, weights).eval()
    own_inputs = library.array(inputs)

    def step() -> float:
        with library.scope(), library.inference():
            return float(model(own_inputs)[0, 0].item())

    return step
