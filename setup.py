"""Builds the optional native scanner; everything else is in pyproject.toml."""

from __future__ import annotations

import os

from setuptools import Extension, setup

SCANNER = Extension(
    "solscope._native._scanner",
    sources=["src/solscope/_native/scanner.cpp"],
    extra_compile_args=["-std=c++17", "-O2", "-fvisibility=hidden"],
    language="c++",
    # Without a compiler the package installs all the same and reads with the Python twin.
    optional=True,
)

# Set to build a wheel for every platform, which has no compiled code.
setup(ext_modules=[] if os.environ.get("SOLSCOPE_NO_NATIVE_BUILD") else [SCANNER])
