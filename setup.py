"""Builds the optional native scanner; everything else is in pyproject.toml."""

from __future__ import annotations

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "solscope._native._scanner",
            sources=["src/solscope/_native/scanner.cpp"],
            extra_compile_args=["-std=c++17", "-O2", "-fvisibility=hidden"],
            language="c++",
            # Without a compiler the package installs all the same and reads with the Python twin.
            optional=True,
        )
    ]
)
