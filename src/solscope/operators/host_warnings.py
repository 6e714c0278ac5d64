"""Warnings of torch about the processor that it runs on.

On a processor without instructions for 16-bit floats, torch computes such products another way and
warns once per process, in whatever operator comes first. The results are the same, and nobody can
do anything about it. Code that computes on the host drops these warnings, and no others.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

HOST_WARNING = r".*\b(bf16|fp16) path needs (a|the) cpu"
"""A pattern of them: "mkldnn_matmul bf16 path needs a cpu with bf16 support" and its kind."""


@contextmanager
def ignore_host_warnings() -> Iterator[None]:
    """Drop them, also where warnings are errors; usable as a decorator."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=HOST_WARNING)
        yield
