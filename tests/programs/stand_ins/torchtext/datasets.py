"""Pairs of sentences drawn at random."""

import random


class multi30k:
    URL = {}


def Multi30k(split, language_pair):
    drawn = random.Random(split)

    def sentence(kind):
        return " ".join(f"{kind}{drawn.randrange(60)}" for _ in range(drawn.randrange(3, 12)))

    return [(sentence("w"), sentence("v")) for _ in range(96)]
