"""The input again."""


def run(x, weight, eps):
    return x.clone()
