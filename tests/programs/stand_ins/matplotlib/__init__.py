"""Nothing is drawn."""


def use(*args):
    pass
