"""Train an agent that balances a pole, and show its memory during training.

    python examples/dqn_memory.py
    python examples/dqn_memory.py --seed 3
    python examples/dqn_memory.py --quick

The first part is a loop that looks like a leak: each output of a network is the input of the next pass, and
memory grows with every step. The program shows what holds that memory, and three ways to avoid it. The second
part is an agent (a deep Q-network, DQN) that learns within seconds to balance the pole for 500 steps, while
its memory stays flat.
"""

from __future__ import annotations

import argparse
import math
import random
import textwrap
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import nn
import tensor
from scopes import DisposeStatistics, new_dispose_scope, statistics
from tensor import autograd, memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor import Tensor

    State = tuple[float, float, float, float]

# The cart and its pole: Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult
# learning control problems" (1983), in the units and with the limits of gymnasium's CartPole-v1.
GRAVITY, CART_MASS, POLE_MASS = 9.8, 1.0, 0.1  # m/s^2, kg, kg
HALF_LENGTH = 0.5  # of the pole, in m
FORCE = 10.0  # N, to the left or to the right
TAU = 0.02  # seconds from one step to the next
TRACK_LIMIT, ANGLE_LIMIT = 2.4, math.radians(12)  # m to either side, and from upright
EPISODE_LIMIT = 500  # steps


class CartPole:
    """A cart on a track, with a pole on a hinge. An episode ends when one of them is out of bounds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.reset()

    def reset(self) -> State:
        """Begin an episode nearly upright, and return the state."""
        x, speed, angle, spin = (self._random.uniform(-0.05, 0.05) for _ in range(4))
        self.state: State = x, speed, angle, spin  # m, m/s, radians, radians/s
        self.steps = 0
        return self.state

    def step(self, action: int) -> State:
        """Push for one step, to the right if `action` is 1, to the left if it is 0; return the state."""
        x, speed, angle, spin = self.state
        force = FORCE if action else -FORCE
        sin, cos = math.sin(angle), math.cos(angle)
        mass = CART_MASS + POLE_MASS
        push = (force + POLE_MASS * HALF_LENGTH * spin**2 * sin) / mass
        turn = (GRAVITY * sin - cos * push) / (HALF_LENGTH * (4 / 3 - POLE_MASS * cos**2 / mass))
        pull = push - POLE_MASS * HALF_LENGTH * turn * cos / mass
        self.state = x + TAU * speed, speed + TAU * pull, angle + TAU * spin, spin + TAU * turn
        self.steps += 1
        return self.state

    @property
    def failed(self) -> bool:
        """Whether the cart left the track or the pole fell."""
        x, _, angle, _ = self.state
        return abs(x) > TRACK_LIMIT or abs(angle) > ANGLE_LIMIT

    @property
    def done(self) -> bool:
        """Whether the episode is over: it failed, or it reached its full length, which is no failure."""
        return self.failed or self.steps >= EPISODE_LIMIT


# Part 1: memory that grows.


@dataclass(frozen=True)
class Mark:
    """The memory of a loop after some steps, in bytes above its start."""

    step: int
    bytes_live: int
    node_count: int  # ops that the graph behind the newest output has recorded
    bytes_in_graph: int  # held by that graph, and by nothing else

    def __str__(self) -> str:
        return f"{self.step:8d}{self.bytes_live:14,d}{self.node_count:11,d}{self.bytes_in_graph:17,d}"


@dataclass(frozen=True)
class Loop:
    """Measurements of a loop, and the bytes that it left behind."""

    marks: list[Mark]
    left: int


def feed_back(step: Callable[[Tensor], Tensor], state: State, steps: int = 500) -> Loop:
    """Pass each output of `step` to the next call, and measure memory every 100 steps."""
    marks = []
    before = memory.statistics().bytes_live
    x = tensor.tensor([state])
    for number in range(1, steps + 1):
        x = step(x)
        if number % 100 == 0:
            graph = autograd.graph_statistics(x)
            live = memory.statistics().bytes_live - before
            marks.append(Mark(number, live, graph.node_count, graph.bytes_held_alone))
    del x  # the last output, and with it the graph that computed it
    return Loop(marks, memory.statistics().bytes_live - before)


def show_growth(seed: int) -> tuple[dict[str, Loop], list[autograd.GraphGrowthWarning]]:
    """Let memory grow, then avoid it in three ways. Return the measurements, and the warnings."""
    state = CartPole(seed).state
    # It predicts the next state from a state. With its own outputs as inputs it predicts many steps.
    model = nn.Sequential(nn.Linear(4, 8096), nn.Linear(8096, 4))
    frozen = model.valid()

    def under_no_grad(x: Tensor) -> Tensor:
        with tensor.no_grad():
            y: Tensor = model(x)
        return y

    loops: dict[str, Callable[[Tensor], Tensor]] = {
        # No code calls backward, but it could: the graph keeps the values that backward of each pass needs.
        "x = model(x)": model,
        # Nothing is recorded in this block.
        "with no_grad(): x = model(x)": under_no_grad,
        # Each pass is recorded, so it has gradients, but the next pass does not keep its graph.
        "x = model(x).detach()": lambda x: model(x).detach(),
        # A copy for inference: it shares the parameters' memory, and its calls need no `with` block.
        "frozen = model.valid(); x = frozen(x)": frozen,
    }
    # Each line warns once; this starts the count again. The first loop ends just below the default, 16 MiB.
    autograd.warn_on_graph_growth(held_bytes="8 MiB")
    seen = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, step in loops.items():
            seen[name] = loop = feed_back(step, state)
            print(f"\n{name}\n    step    bytes live      nodes   bytes in graph")
            print(*loop.marks, sep="\n")
            print(f"   after{loop.left:14,d}")
    model.dispose()
    frozen.dispose()
    growth = [w.message for w in caught if isinstance(w.message, autograd.GraphGrowthWarning)]
    for warning in growth:
        print("\nOf the first of these loops Python warned:")
        print(textwrap.indent(textwrap.fill(str(warning), 100), "  "))
    return seen, growth


# Part 2: an agent that learns.

DISCOUNT = 0.99
BATCH = 64
ROUND = 256  # steps of playing, followed by as many of training
CAPACITY = 20_000
LEARN_FROM = 1_000  # steps to play before training starts
EXPLORATION = 8_000  # steps over which random actions become rare
SEED_OF_STARTS = 1_000_003  # so that evaluations start from other states than training


class Replay:
    """The last steps that were played, to train on each more than once: a tensor with a row for each step."""

    def __init__(self) -> None:
        # State (4), action, reward, next state (4), failed. All memory is allocated here, and none later.
        self.rows = tensor.zeros((CAPACITY, 11))
        self.count = 0

    def put(self, state: State, action: int, reward: float, after: State, failed: bool) -> None:
        """Write a step over the oldest one."""
        row = tensor.tensor([*state, float(action), reward, *after, float(failed)])
        self.rows[self.count % CAPACITY] = row
        self.count += 1

    def sample(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return a batch: states, actions, rewards, next states, failed; each with `BATCH` rows."""
        rows = self.rows[tensor.randint(0, min(self.count, CAPACITY), (BATCH,))]
        # Columns of one copy: views, which take no memory.
        return rows[:, :4], rows[:, 4:5].long(), rows[:, 5:6], rows[:, 6:10], rows[:, 10:]


@dataclass(frozen=True)
class Episode:
    """The length of an episode in steps, and the memory at its end."""

    steps: int
    live_tensors: int
    bytes_live: int


@dataclass
class Result:
    """The measurements of both parts."""

    loops: dict[str, Loop] = field(default_factory=dict)
    growth: list[autograd.GraphGrowthWarning] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    balanced: float = 0.0  # steps, the mean of the last evaluation
    left: DisposeStatistics = field(default_factory=DisposeStatistics)
    bytes_left: int = 0


def best_action(model: nn.Module, state: State) -> int:
    """Return the action with the largest value by `model`, a copy for inference."""
    with new_dispose_scope("act"):
        return int(model(tensor.tensor([state])).argmax().item())


def evaluate(model: nn.Module, episodes: int, seed: int) -> float:
    """Return the mean length of an episode, in steps, if each action is the best one by the model."""
    cart = CartPole(seed)
    total = 0
    for _ in range(episodes):
        state = cart.reset()
        while not cart.done:
            state = cart.step(best_action(model, state))
        total += cart.steps
    return total / episodes


class Agent:
    """A deep Q-network: it learns the value of each action, which is lower the sooner a failure follows."""

    def __init__(self, seed: int) -> None:
        self.cart = CartPole(seed)
        self.random = random.Random(seed)
        self.replay = Replay()
        self.model = nn.Sequential(
            nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
        )
        self.optimizer = nn.optim.Adam(self.model.parameters(), lr=1e-3)
        self.criterion = nn.HuberLoss()
        self.refresh()

    def refresh(self) -> None:
        """Copy the current network. The copy selects actions, and computes the values of next states.

        A DQN needs a second network for these values, so that its targets do not change with each update. The
        second network could also follow the first one by a moving average: it would then have its own memory
        from the start, and each step would write to it. A copy by `valid()` is one line. It takes no memory
        until Adam's next step, and the targets are constant during a round of training.
        """
        self.frozen = self.model.valid()

    def play(self) -> list[Episode]:
        """Play a round, with some random actions. Return the episodes that ended in it."""
        ended = []
        for _ in range(ROUND):
            if self.cart.done:
                self.cart.reset()
            state = self.cart.state
            explore = max(0.05, 1 - self.replay.count / EXPLORATION)
            at_random = self.random.random() < explore
            action = self.random.randrange(2) if at_random else best_action(self.frozen, state)
            after = self.cart.step(action)
            # As in 1983, the only reward is for failure. The end after 500 steps is no failure.
            failed = self.cart.failed
            self.replay.put(state, action, -1.0 if failed else 0.0, after, failed)
            if self.cart.done:
                held = memory.statistics().bytes_live
                ended.append(Episode(self.cart.steps, statistics.live_count, held))
        return ended

    def learn(self) -> None:
        """Train on a batch of the played steps."""
        with new_dispose_scope("learn"):
            states, actions, rewards, after, failed = self.replay.sample()
            with tensor.no_grad():
                # The model selects the action, the copy gives its value: one network for both overestimates.
                best = self.model(after).argmax(dim=1, keepdim=True)
                goals = rewards + DISCOUNT * (1 - failed) * self.frozen(after).gather(1, best)
            loss = self.criterion(self.model(states).gather(1, actions), goals)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def dispose(self) -> None:
        """Free everything."""
        for owned in (self.optimizer, self.model, self.frozen, self.replay.rows):
            owned.dispose()


def train(seed: int, rounds: int) -> tuple[list[Episode], float]:
    """Train an agent for at most `rounds` rounds. Return its episodes, and their mean length at the end."""
    agent = Agent(seed)
    episodes: list[Episode] = []
    for number in range(1, rounds + 1):
        agent.refresh()
        episodes += agent.play()
        if agent.replay.count < LEARN_FROM:
            continue
        for _ in range(ROUND):
            agent.learn()
        agent.optimizer.zero_grad()  # so that each round ends with the same memory
        if number % 4 == 0:
            agent.refresh()
            balanced = evaluate(agent.frozen, 10, SEED_OF_STARTS)
            lately = [episode.steps for episode in episodes[-10:]]
            print(
                f"{agent.replay.count:6d} steps, {len(episodes):3d} episodes, the last 10 of "
                f"{sum(lately) / len(lately):5.1f}; without exploring {balanced:5.1f}; "
                f"{statistics.live_count} live tensors, {memory.statistics().bytes_live:,} bytes"
            )
            if balanced >= 490:
                break
    balanced = evaluate(agent.frozen, 20, SEED_OF_STARTS + 1)
    agent.dispose()
    return episodes, balanced


def main(argv: Sequence[str] | None = None) -> Result:
    """Run both parts with the options in `argv`, and return the measurements."""
    parser = argparse.ArgumentParser(description="Memory that grows, and an agent whose memory stays flat.")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the states, the weights and the random actions"
    )
    parser.add_argument("--quick", action="store_true", help="stop training early, long before it balances")
    options = parser.parse_args(argv)

    tensor.manual_seed(options.seed)
    before, bytes_before = statistics.snapshot(), memory.statistics().bytes_live
    result = Result()
    result.loops, result.growth = show_growth(options.seed)
    print("\nAn agent learns:")
    started = time.perf_counter()
    result.episodes, result.balanced = train(options.seed, 12 if options.quick else 200)
    seconds = time.perf_counter() - started
    print(f"it balances for {result.balanced:.1f} of {EPISODE_LIMIT} steps, after {seconds:.1f} s")
    result.left = statistics.snapshot() - before
    result.bytes_left = memory.statistics().bytes_live - bytes_before
    print(f"bytes left: {result.bytes_left}; {result.left}")
    return result


if __name__ == "__main__":
    main()
