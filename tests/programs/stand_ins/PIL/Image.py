"""Every image is the same one, drawn at random."""

import numpy as np


class _File:
    def convert(self, mode):
        return (np.random.RandomState(4).random_sample((48, 48, 3)) * 255).astype("uint8")


def open(name):
    return _File()
