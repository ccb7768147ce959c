"""The pole on a cart, by the equations of Barto, Sutton and Anderson (1983)."""

import math

import numpy as np


class CartPole:
    class spec:
        reward_threshold = 475

    def reset(self, seed=None):
        if seed is not None or not hasattr(self, "drawn"):
            self.drawn = np.random.RandomState(seed or 1)
        self.state, self.steps = self.drawn.uniform(-0.05, 0.05, 4), 0
        return self.state.astype("float32"), {}

    def step(self, action):
        x, speed, angle, turn = self.state
        force = 10.0 if action == 1 else -10.0
        push = (force + 0.05 * turn * turn * math.sin(angle)) / 1.1
        fall = (9.8 * math.sin(angle) - math.cos(angle) * push) / (
            0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        )
        run = push - 0.05 * fall * math.cos(angle) / 1.1
        self.state = np.array([x + 0.02 * speed, speed + 0.02 * run, angle + 0.02 * turn, turn + 0.02 * fall])
        self.steps += 1
        over = bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095 or self.steps >= 200)
        return self.state.astype("float32"), 1.0, over, False, {}

    def render(self):
        pass


def make(*args, **options):
    return CartPole()
