"""The input's own memory, without any work."""


def run(x, weight, eps):
    return x
