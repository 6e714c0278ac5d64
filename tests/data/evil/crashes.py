"""Ends the process."""

import os


def run(x, weight, eps):
    os.abort()
