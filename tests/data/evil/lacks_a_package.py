"""Needs a package that does not exist."""

import a_package_that_nobody_has


def run(x, weight, eps):
    return a_package_that_nobody_has.norm(x, weight, eps)
