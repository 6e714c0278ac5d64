"""Builds the optional native modules; everything else is in pyproject.toml."""

from __future__ import annotations

import os

from setuptools import Extension, setup


def native(name: str) -> Extension:
    """The module `_name`, from `name.cpp`."""
    return Extension(
        f"solscope._native._{name}",
        sources=[f"src/solscope/_native/{name}.cpp"],
        depends=["src/solscope/_native/columns.h"],
        extra_compile_args=["-std=c++17", "-O2", "-fvisibility=hidden"],
        language="c++",
        # Without a compiler the package installs all the same and uses the Python twins.
        optional=True,
    )


NATIVE = [native("scanner"), native("nesting"), native("slack")]

# Set to build a wheel for every platform, which has no compiled code.
setup(ext_modules=[] if os.environ.get("SOLSCOPE_NO_NATIVE_BUILD") else NATIVE)
